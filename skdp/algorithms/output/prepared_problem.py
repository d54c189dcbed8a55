"""The problem of a prepared solve: clipped slopes on prepared rows, and its rounding.

Theory: docs/theory/preparation.md, section 6.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from skdp.algorithms.legacy_solves.prepared_records import AffineMap
from skdp.algorithms.output.expansion import ROUNDING, Expansion, can_expand
from skdp.problems import FiniteSumProblem
from skdp.problems.constants import ProblemConstants
from skdp.problems.rounding import EPS, chain
from skdp.problems.slope_clipped import ClippedLoss
from skdp.solvers.secants import SolutionPath

#: Dimension up to which a Hessian takes less time than the gradients that it saves; the solves
#: before which squares are expanded, if weights have moved too far for the last expansion; and that
#: before which there is a Hessian of other losses, whose curvatures change at first.
_LARGEST_HESSIAN, _EXPANDED_BEFORE, _HESSIAN_BEFORE = 64, (1, 2, 4, 8), 3


class PreparedProblem(FiniteSumProblem):
    """Clipped slopes on prepared rows, whose rounding is that of the map from raw ones.

    Gradients near the point of an `expansion` come from it.
    """

    def __init__(
        self,
        records: Any,
        affine: AffineMap,
        loss: ClippedLoss,
        *arguments: Any,
        expansion: Expansion | None = None,
        **options: Any,
    ) -> None:
        super().__init__(records, loss, *arguments, **options)
        self.expansion = expansion
        self._rounding_factor = 1.0 if expansion is None else ROUNDING
        self._row_norm = affine.raw_norm + affine.constant
        self._margins_rounding = _margins_rounding(self.constants, affine, loss)
        self.constants = replace(
            self.constants, additional_rounding=_map_rounding(self.constants, affine, loss)
        )

    def gradient(self, w: np.ndarray) -> np.ndarray:
        others = self._others(w)
        if others is None or self.expansion is None:
            return super().gradient(w)
        return self.expansion.gradient(w, others) + self.penalty_gradient(w)

    def gradient_rounding(self, w: np.ndarray) -> float:
        return self._rounding_factor * super().gradient_rounding(w)

    def learn(self, path: SolutionPath, t: int) -> None:
        """Form the Hessian at the center before solve t, where it saves more than it takes.

        Squares with clipped slopes are expanded there.
        """
        assert self.center is not None
        if self.dimension > _LARGEST_HESSIAN:
            return
        if not can_expand(self.records, self.loss):
            if t == _HESSIAN_BEFORE:
                path.correct(self.rough_hessian(self.center))
        elif t in _EXPANDED_BEFORE and self._others(self.center) is None:
            hessian = self.expand(self.center).hessian.copy()
            hessian.flat[:: self.dimension + 1] += self.alpha
            path.correct(hessian)

    def _others(self, w: np.ndarray) -> np.ndarray | None:
        if self.expansion is None:
            return None
        return self.expansion.near(w, super().gradient_rounding(w))

    def expand(self, point: np.ndarray) -> Expansion:
        """Expand the mean loss around a point, for gradients near it."""
        self.expansion = Expansion(
            self, point, self._margins_rounding, self._row_norm, self.expansion
        )
        self._rounding_factor = ROUNDING
        return self.expansion

    def for_solver(self) -> PreparedProblem:
        other = super().for_solver()
        assert isinstance(other, PreparedProblem)
        other.expansion = None  # it proves certificates, and cannot be reached by solvers
        return other


def _margins_rounding(constants: ProblemConstants, affine: AffineMap, loss: ClippedLoss) -> float:
    """Bound the error of a margin; docs/theory/preparation.md, 6."""
    several = 0.0 if loss.n_outputs == 1 else 4.0 * loss.loss.n_margins**1.5
    size = (affine.raw_norm + affine.constant) * constants.radius
    size += float(np.linalg.norm(loss.offset)) + max(loss.loss.target_bound, 1.0)
    return 4.0 * (constants.row_width + 8 + several) * EPS * size


def _map_rounding(constants: ProblemConstants, affine: AffineMap, loss: ClippedLoss) -> float:
    """Bound the error of a mean gradient that comes from the map; docs/theory/preparation.md, 6."""
    d, raw = constants.row_width, affine.raw_norm + affine.constant
    steep = loss.clip / affine.least_norm  # bound on a slope
    several = 0.0 if loss.n_outputs == 1 else 4.0 * loss.loss.n_margins**1.5
    margins = _margins_rounding(constants, affine, loss)
    additions = chain(constants.most_terms, most_rows=constants.most_rows)
    sums = (0.51 * additions + 4.0 * d + 32.0) * EPS * steep * raw
    errors = loss.curvature * affine.norm_bound * margins + sums
    # the last 3 EPS are those of factors of losses, which limits are divided by
    errors += (2.0 * affine.relative_rounding + (several + 3.0) * EPS) * loss.clip
    return float(constants.size_ratio * errors)
