"""Sums over records in double precision: how they are formed, and how far they can be off.

Additions within a block of records are in any order, one chain at worst. The blocks' sums are added
in a tree: 16 of them to one node, 16 of these to the next, so that the number of additions that one
term goes through grows with the logarithm of the number of blocks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from skdp.problems.elementwise import minimum

#: Spacing of doubles near 1, twice the relative error of one rounded operation.
EPS = float(np.finfo(np.float64).eps)
#: Inflation of constants and sensitivities: rounding in formulas, root finding and projections.
ROUNDING_SLACK = 1.0 + 1e-9

#: Least and largest number of rows of a block, which its layout decides on: a bound knows neither.
LEAST_ROWS, MOST_ROWS = 256, 4096
#: Summands of one node of the tree, and the base-2 logarithm of their number.
_FAN_IN, _LOG_FAN_IN = 16, 4
#: Additions in the trees over chunks: at most 8 levels.
_OF_CHUNKS = 8 * _FAN_IN


def chain(n_records: Any, least_rows: int = LEAST_ROWS, most_rows: int = MOST_ROWS) -> Any:
    """Bound the number of additions that a term of a sum over records goes through.

    A block has `least_rows` to `most_rows` records, or all; the layout of the rows decides on that.
    So: m - 1 within a block of at most m records, 15 on each of the ``ceil(log_16(n_blocks))``
    levels of the tree over the most blocks, and 15 on each of 8 levels of a tree over up to
    ``16**7`` chunks that are summed apart; `n_records` may be an array. A sum of terms t_i is off
    by at most ``EPS * chain * sum |t_i|``.
    Proof: docs/theory/output_perturbation.md, "Rounding".
    """
    library: Any = np if isinstance(n_records, np.ndarray) else math
    nodes = library.ceil(n_records / least_rows)
    levels = -(-library.frexp(nodes - 1)[1] // _LOG_FAN_IN)  # from the digits of nodes - 1
    return minimum(library.ceil(n_records), most_rows) + _FAN_IN * levels + _OF_CHUNKS


def two_sums(n_records: Any, most_rows: int = MOST_ROWS) -> Any:
    """Bound how far two computed sums of products are off, relative to their terms: Lemma 4a."""
    return (chain(n_records, most_rows=most_rows) + 16.0) * EPS


# Lemma 4b of docs/theory/output_perturbation.md: a row at two places of a table


def two_margins(n_features: int, size: float) -> float:
    """Bound the distance of two computed margins; `size` is the product of both norms."""
    return 2.0 * (n_features + 8) * EPS * size


def two_norms(n_features: int, size: float) -> float:
    """Bound that of two computed squared norms; less a mean, `size` is the sum's of both norms."""
    return 4.0 * (n_features + 8) * EPS * size


def two_products(n_features: int, size: float) -> float:
    """Bound that of two computed products ``a x x'``; a may be 1 over the square of a norm."""
    return 8.0 * (n_features + 8) * EPS * size


def tree_sum(parts: Iterable[Any]) -> Any:
    """Add numbers, arrays or tuples of them in the tree; the arrays are written to.

    Each level keeps the sum of its unfinished node alone: memory grows with the number of levels.
    """
    nodes: list[tuple[int, Any]] = []  # numbers of summands, and sums
    for part in parts:
        count, level = _FAN_IN, -1
        while count == _FAN_IN:  # a finished node goes to the level above
            level += 1
            if level == len(nodes):
                nodes.append((0, None))
            count, node = nodes[level]
            count, part = count + 1, _sum(node, part) if count else part
            nodes[level] = (0, None) if count == _FAN_IN else (count, part)
    total = None
    for count, node in nodes:  # what is below an unfinished node is one more summand of it
        if count:
            total = node if total is None else _sum(node, total)
    return total


def _sum(first: Any, second: Any) -> Any:
    if isinstance(first, tuple):
        return tuple(map(_sum, first, second))
    first += second
    return first
