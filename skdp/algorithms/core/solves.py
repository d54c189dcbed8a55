"""Release 2 by any solver: solves around the point before them, certified and released.

A solve is an implicit step: it overshoots in no direction, whatever its curvature is
(docs/theory/core.md, section 10).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp.algorithms.core.margin_laws import CONSTANT
from skdp.algorithms.core.steps import Path

#: Number of solves, and with pure privacy, where epsilons add.
N_SOLVES, PURE_SOLVES = 10, 3
#: Length of all solves over that of noisy steps, and longest one on average with pure privacy, in
#: inverse curvatures of an average direction: at least, and where noise is small, over the inverse
#: noise of the directions together.
PART, _LONGEST, _CLEAR = 0.2, 1.0, 0.06
#: Ratios of the length of a solve to that of the next which are compared.
_RATIOS = (1.0, 1.5, 2.0, 3.0)
#: Bisections for the end of a solve, and largest margins there over the true ones.
_BISECTIONS, _LARGEST = 30, 30.0


@dataclass(frozen=True)
class Solves(Path):
    """Solves with the penalties ``1 / lengths``."""

    lengths: tuple[float, ...]

    nouns = "solutions", "solutions for weighted losses"
    lemma = "Lemma 8"

    @property
    def name(self) -> str:
        return f"{len(self.lengths)} solves"

    def shown(self) -> dict[str, Any]:
        return {"n_solves": len(self.lengths), "solve_lengths": list(self.lengths)}

    def _left(self, curvature: np.ndarray) -> np.ndarray:
        """Return what later solves leave of each and of the start, shape (n_solves + 1, m)."""
        lengths = np.array(self.lengths)[:, None]
        left = np.cumprod(1.0 / (1.0 + lengths[::-1] * curvature), axis=0)[::-1]
        return np.concatenate([left, np.ones((1, len(curvature)))])

    def responses(self, curvature: np.ndarray) -> np.ndarray:
        return np.asarray(np.array(self.lengths)[:, None] * self._left(curvature)[1:])

    def reached(self, curvature: float) -> float:
        return 1.0 - float(self._left(np.array([curvature]))[0, 0])

    def learnt(self, pull: Callable[[np.ndarray], np.ndarray], moments: np.ndarray) -> np.ndarray:
        fitted = np.zeros((1, len(moments)))
        for length in self.lengths:
            # the end f of a solve has f + length * moments * pull(f) = fitted, which rises with f
            low, high = np.zeros_like(fitted), np.full_like(fitted, _LARGEST)
            for _ in range(_BISECTIONS):
                middle = 0.5 * (low + high)
                is_low = middle + length * moments * pull(middle) < fitted
                low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
            fitted = 0.5 * (low + high)
        return np.asarray(fitted)


@dataclass(frozen=True)
class PureSolves(Solves):
    """The same with pure privacy."""

    power = 2


def paced_solves(
    n_solves: int,
    is_pure: bool,
    clip: float,
    bend: float,
    path: float,
    largest: float,
    n_features: int,
    unit: float,
    constant: float = CONSTANT,
) -> Solves:
    """Choose the solves for the sum of their lengths: the ratio with the least noise.

    Their `largest` curvature does not matter.
    """
    found, kind = [], PureSolves if is_pure else Solves
    path = PART * path
    if is_pure:
        longest = max(_LONGEST, _CLEAR / (n_features**1.5 * unit))
        path = min(path, n_solves * longest * n_features / bend)
    for ratio in _RATIOS:
        lengths = ratio ** -np.arange(n_solves, dtype=np.float64)
        lengths *= path / lengths.sum()
        found.append(kind(clip, bend, n_features, unit, constant, tuple(lengths.tolist())))
    return min(found, key=lambda each: each.variance)
