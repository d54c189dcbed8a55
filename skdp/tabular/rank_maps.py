"""Maps of numbers by released histograms: a range that is too wide, or unknown, costs little.

A histogram of the places of a number in its range tells where the records are. Where that is
visible above the noise the number is replaced by a mixture of its rank and of its place in the
range; else it stays as it is. The map is a function of one record, given what was
released (docs/theory/tabular.md, Theorem 4). Numbers without limits get them from histograms of
their own before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdp.algorithms.statistics.histograms import HistogramsPlan
from skdp.privacy.events import Neighbouring
from skdp.privacy.gaussian_dp import gaussian_budget
from skdp.tabular.columns import Number, Part

#: Bins of a declared range; one more counts missing values.
N_BINS = 64
#: Histograms are released if there are `GATE` records for each deviation of the noise in a count,
#: at a share of at most `MOST` of the squared budget. The share pays for `AIMED`.
GATE, AIMED, LEAST, MOST = 16.0, 50.0, 0.02, 0.1
#: Halves of a range differ visibly by so many deviations. A map is `RANK` of a rank, and the place.
VISIBLE, RANK = 3.0, 0.7
#: A column is constant if all but one of its bins hold at most this part of the records.
CONSTANT = 0.02
#: Where numbers without limits are looked for, at the share `MOST`, if there are `LIMIT_GATE`
#: records for each deviation. Nodes are occupied by `OCCUPIED` of these, of which noise makes one
#: in the 511 nodes of a column once in 600 times; tails next to them by `TAIL`.
SCALE = Number(-1e12, 1e12, log=1e-4)
LIMIT_BINS, LIMIT_GATE, OCCUPIED, TAIL = 256, 60.0, 4.5, 2.5


def planned_histograms(
    n_records: int,
    n_numbers: int,
    mu: float,
    neighbouring: Neighbouring,
    has_labels: bool = False,
) -> HistogramsPlan | None:
    """Plan the release by public numbers; None where it would tell nothing.

    Counts of labels have less noise, for an eighth of the noise of others.
    """
    if not n_numbers:
        return None
    scales = (1.0,) * n_numbers
    if has_labels:
        scales += (2.0 ** math.floor(math.log2(0.5 * math.sqrt(n_numbers))),)
    # counts of one column have this noise at a share of 1
    squares = math.fsum(each**2 for each in scales)
    noise = math.sqrt(neighbouring.n_changes * squares) / mu
    share = min(max((AIMED * noise / n_records) ** 2, LEAST), MOST)
    if n_records * math.sqrt(share) <= GATE * noise:
        return None
    return HistogramsPlan(
        n_records=n_records,
        scales=scales,
        n_bins=N_BINS + 1,
        mu=mu * math.sqrt(share),
        neighbouring=neighbouring,
    )


def planned_limits(
    n_records: int, names: Sequence[Any], mu: float, delta: float, neighbouring: Neighbouring
) -> HistogramsPlan:
    """Plan the release that finds limits, by public numbers, and refuse what tells too little."""
    least = LIMIT_GATE * math.sqrt(neighbouring.n_changes * len(names) / MOST)
    if n_records * mu < least:
        epsilon = gaussian_budget(least / n_records, delta).epsilon
        raise ValueError(
            f"The budget is too small to find limits of {', '.join(map(repr, names))}: declare "
            f"Number(low, high), or use epsilon >= {math.ceil(100.0 * epsilon) / 100.0:g} or "
            f"n >= {math.ceil(least / mu)}."
        )
    return HistogramsPlan(
        n_records=n_records,
        scales=(1.0,) * len(names),
        n_bins=LIMIT_BINS + 1,
        mu=mu * math.sqrt(MOST),
        neighbouring=neighbouring,
        of="columns without limits",
    )


def found_limits(counts: np.ndarray, deviation: float, searched: Number) -> Number:
    """Return a number with the limits that released counts in bins of a wider range show.

    It has the logarithm of that range if the counts are more even by it: if even records would be
    more likely. The range stays where no bin is visibly occupied.
    """
    n, occupied = LIMIT_BINS, np.zeros(LIMIT_BINS, dtype=bool)
    counts = counts[:n]
    for size in 2 ** np.arange(n.bit_length()):  # nodes of a dyadic tree, none of them in another
        sums = counts.reshape(-1, size).sum(axis=1)
        is_new = ~occupied.reshape(-1, size).any(axis=1)
        is_new &= sums > OCCUPIED * deviation * math.sqrt(size)
        occupied |= np.repeat(is_new, size)
    places = np.flatnonzero(occupied) if occupied.any() else np.array([0, n - 1])
    first = _first_bin(counts, int(places[0]), deviation)
    last = n - _first_bin(counts[::-1], n - 1 - int(places[-1]), deviation)
    edges = searched.value(np.arange(first, last + 1) * (2.0 / n) - 1.0)
    low, high = (float(f"{edges[k]:.3g}") for k in (0, -1))
    found = [replace(searched, low=low, high=high, log=log) for log in (False, searched.log)]
    widths = (np.maximum(np.diff(each.position(edges)), 1e-18) for each in found)
    plain, log = (counts[first:last] @ np.log(each) for each in widths)
    return found[int(log > plain)]


def _first_bin(counts: np.ndarray, first: int, deviation: float) -> int:
    """Go down from an occupied bin while the next ones hold records together; and one further."""
    size = 1
    while size <= min(first, 8):
        if counts[first - size : first].sum() > TAIL * deviation * math.sqrt(size):
            first, size = first - size, 1
        else:
            size *= 2
    return max(first - 1, 0)


def rarer_class(counts: np.ndarray, n_classes: int) -> float:
    """Return the released number of records of the rarer class, or of all but the largest."""
    counts = np.maximum(counts[:n_classes], 0.0)
    return max(float(counts.min() if n_classes == 2 else counts.sum() - counts.max()), 1.0)


def bins_of(positions: np.ndarray, n: int = N_BINS) -> np.ndarray:
    """Return the bin of each position in [-1, 1]; missing ones have a bin of their own."""
    places = np.minimum(np.floor((positions + 1.0) * (0.5 * n)), n - 1)
    return np.where(np.isnan(places), n, places).astype(np.int16)


@dataclass(frozen=True, eq=False)
class ColumnMaps:
    """Maps of the numbers of a table, by the position of the part.

    `values` are what the 65 ends of the bins are mapped to, in [-1, 1] and not decreasing; others
    stay as they are. Parts in `constant` are visibly the same for all records.
    """

    values: dict[int, np.ndarray]
    constant: frozenset[int] = frozenset()

    @classmethod
    def of(cls, counts: np.ndarray, plan: HistogramsPlan, numbers: Sequence[int]) -> ColumnMaps:
        """Make them from released counts, one row for each number, and more."""
        values, constant, deviation = {}, set(), float(plan.deviations[0])
        for k, found in zip(numbers, counts[: len(numbers)], strict=True):
            others = max(float(found.sum() - found.max()), 0.0)
            if others + 2.0 * deviation * math.sqrt(N_BINS) < CONSTANT * float(found.sum()):
                constant.add(k)
            mapped = rank_map(found[:N_BINS], deviation)
            if mapped is not None:
                values[k] = mapped
        return cls(values, frozenset(constant))

    def kept(self, parts: Sequence[Part]) -> list[Part]:
        """Return the parts; those that are constant have no feature, unless all are."""
        if len(self.constant) == len(parts):
            return list(parts)
        empty = (Part(part.name, "constant", n_features=0) for part in parts)
        pairs = enumerate(zip(parts, empty, strict=True))
        return [none if k in self.constant else part for k, (part, none) in pairs]


def mapped_positions(positions: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Map positions in [-1, 1] along straight lines between the ends of bins; NaN stays."""
    known = np.where(np.isnan(positions), -1.0, positions)
    place = (known + 1.0) * (0.5 * N_BINS)
    at = np.minimum(place.astype(np.intp), N_BINS - 1)
    found = values[at] + (place - at) * (values[at + 1] - values[at])
    return np.where(np.isnan(positions), np.nan, np.clip(found, -1.0, 1.0))


def rank_map(counts: np.ndarray, deviation: float) -> np.ndarray | None:
    """Return what the ends of the bins are mapped to; None if nothing is visible."""
    density = visible_density(counts, deviation)
    if density is None:
        return None
    ranks = np.concatenate([[0.0], np.cumsum(density)])
    ranks /= ranks[-1]
    places = np.linspace(0.0, 1.0, len(counts) + 1)
    return np.asarray(np.clip(2.0 * (RANK * ranks + (1.0 - RANK) * places) - 1.0, -1.0, 1.0))


def visible_density(counts: np.ndarray, deviation: float) -> np.ndarray | None:
    """Return the part of the records in each bin, as far as halves of halves differ visibly.

    None if no halves do: nothing is known then.
    """
    n = len(counts)
    if n == 1:
        return None
    halves = np.split(counts, 2)
    left, right = (float(half.sum()) for half in halves)
    below = [visible_density(half, deviation) for half in halves]
    is_visible = abs(left - right) > VISIBLE * deviation * math.sqrt(n)
    if not is_visible and below[0] is None and below[1] is None:
        return None
    kept = [max(left, 0.0), max(right, 0.0)] if is_visible else [1.0, 1.0]
    shares = [each / sum(kept) for each in kept] if sum(kept) > 0.0 else [0.5, 0.5]
    even = np.full(n // 2, 2.0 / n)
    parts = zip(shares, below, strict=True)
    return np.concatenate([s * (even if found is None else found) for s, found in parts])
