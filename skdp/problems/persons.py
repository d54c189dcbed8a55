"""Persons as units: where their records are, and weights that add up to a unit."""

from __future__ import annotations

import numpy as np


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
    """Divide an integer among the records of each person; the first get what is left over."""
    numbers = np.bincount(persons)
    place = np.arange(len(persons)) - np.repeat(np.cumsum(numbers) - numbers, numbers)
    return np.repeat(unit // numbers, numbers) + (place < np.repeat(unit % numbers, numbers))
