"""Sums over the records of each person, whose number is private and may be large.

The sum of a person's terms is formed in a tree of its own, so that no term goes through more than
:data:`ADDITIONS` additions however many records there are, and no other person matters for it
(docs/theory/persons.md, Lemma I).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

#: Terms that are added at once.
_FAN_IN = 64
#: Additions that a term goes through: 8 levels are enough for 2^48 records.
ADDITIONS = 8 * _FAN_IN


def person_starts(persons: np.ndarray) -> np.ndarray:
    """Return where the records of each person start, and their number, by ascending codes."""
    changes = np.flatnonzero(persons[1:] != persons[:-1]) + 1
    return np.concatenate([[0], changes, [len(persons)]]) if len(persons) else np.zeros(1, int)


def rows_of(starts: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Return the positions of the records of some persons, person by person."""
    first, numbers = starts[units], np.diff(starts)[units]
    ends = np.cumsum(numbers)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(first - ends + numbers, numbers)


def shared_units(persons: np.ndarray, unit: int) -> np.ndarray:
    """Give the records of each person integer weights that add up to a unit.

    They differ by one at most; what is left by division goes to the first records.

    Parameters
    ----------
    persons : ndarray of int, shape (n_records,)
        Codes from 0 on without a gap, ascending.
    unit : int
    """
    numbers = np.bincount(persons)
    place = np.arange(len(persons)) - np.repeat(np.cumsum(numbers) - numbers, numbers)
    return np.repeat(unit // numbers, numbers) + (place < np.repeat(unit % numbers, numbers))


def person_sums(matrix: Any, factors: np.ndarray, starts: np.ndarray) -> Any:
    """Sum the rows of a matrix times factors over the records of each person.

    Parameters
    ----------
    matrix : ndarray or csr_array of shape (m, n_features)
    factors : ndarray of shape (m,)
    starts : ndarray of int, shape (n_persons + 1,)
        Where the rows of each person start, and m.

    Returns
    -------
    ndarray or csr_array of shape (n_persons, n_features)
    """
    while True:
        pieces = -(-np.diff(starts) // _FAN_IN)  # of each person
        ends = np.cumsum(pieces)
        first = np.repeat(starts[:-1], pieces)
        number = np.arange(len(first)) - np.repeat(ends - pieces, pieces)
        pointers = np.append(first + _FAN_IN * number, starts[-1])
        pieces_of = factors, np.arange(len(factors)), pointers
        matrix = sp.csr_array(pieces_of, shape=(len(first), len(factors))) @ matrix
        if len(first) == len(pieces):
            return matrix
        starts, factors = np.concatenate([[0], ends]), np.ones(len(first))
