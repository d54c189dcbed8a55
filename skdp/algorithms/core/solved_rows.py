"""The problem of a solve: a loss with clipped slopes on centered rows, and its rounding."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdp.algorithms.core.centered_rows import (
    LONGER,
    CenteredRecords,
    CenteredRows,
    Centering,
    CenteringMap,
)
from skdp.algorithms.core.forecast import Found
from skdp.algorithms.core.noisy_sums import Level
from skdp.algorithms.core.plan import LONGEST, PlannedCore
from skdp.algorithms.core.solves import Solves
from skdp.algorithms.kernel import solution_sensitivity, solve_and_release
from skdp.algorithms.plan import Run
from skdp.problems import Ball, FiniteSumProblem, Records
from skdp.problems.block import Block
from skdp.problems.constants import ProblemConstants
from skdp.problems.matrices import read_only_view
from skdp.problems.records import Part
from skdp.problems.rounding import EPS, MOST_ROWS, chain, two_norms
from skdp.problems.slope_clipped import ClippedLoss, clipped

#: Least norm that slopes are clipped for, where rows have no constant.
_LEAST_NORM = 1e-3


@dataclass(frozen=True)
class CenteredBlock:
    """Some records as centered rows, with the products that problems need of them.

    `inner` holds the rows ``(x, 1)``.
    """

    inner: Block
    map: CenteringMap

    @property
    def positions(self) -> slice | np.ndarray:
        return self.inner.positions

    @property
    def targets(self) -> Any:
        return self.inner.targets

    def sum(self, values: np.ndarray) -> Any:
        """As :meth:`skdp.problems.block.Block.sum`."""
        return self.inner.sum(values)

    def margins(self, weights: np.ndarray) -> np.ndarray:
        """As :meth:`skdp.problems.block.Block.margins`."""
        return self.inner.margins(self.map.weights(weights))

    def pull_back(self, residuals: np.ndarray) -> np.ndarray:
        """As :meth:`skdp.problems.block.Block.pull_back`."""
        return self.map.sums(self.inner.pull_back(residuals))

    def gram(self, weights: np.ndarray) -> np.ndarray:
        """As :meth:`skdp.problems.block.Block.gram`."""
        return self.map.products(self.inner.gram(weights))

    def rows(self) -> np.ndarray:
        """Form the rows, shape (m, width)."""
        rows = self.inner.rows()
        rows = rows.toarray() if hasattr(rows, "toarray") else rows
        rows = rows / self.map.unit
        if self.map.has_intercept:
            rows[:, :-1] -= self.map.shift
            rows[:, -1] = self.map.constant
        return np.asarray(rows)


class SolvedRecords(Records):
    """View bounded records as centered rows, whose targets have limits on slopes beside them.

    Factors of their groups multiply the weights of the records.
    """

    def __init__(
        self, records: Records, centering: Centering, clip: float, factors: np.ndarray | None
    ) -> None:
        rows = CenteredRows(records, centering, has_threads=False)
        self.__dict__.update(rows.records.__dict__)
        self.map = CenteringMap(records.data_norm, rows.has_intercept, centering)
        self.block_size = min(LONGER * records.block_size, MOST_ROWS)
        columns = np.empty((self.n_records, 2), order="F")
        columns[:, 0] = self.targets
        columns[:, 1] = clip / np.maximum(np.concatenate(rows.norms), least_norm(self.map))
        self.targets = read_only_view(columns)
        if factors is not None:
            self.shares = self.of_units(factors[self.groups]).shares

    @property
    def norm_bound(self) -> float:
        return self.map.norm_bound

    def read_only_copy(self) -> Records:
        other = super().read_only_copy()
        vars(other)["map"] = copy.deepcopy(self.map)
        return other

    def block(self, positions: Part) -> Any:
        return CenteredBlock(super().block(positions), self.map)


@dataclass(frozen=True, kw_only=True)
class SolvedView:
    """View bounded records, or those of a chunk, as :class:`SolvedRecords`."""

    centering: Centering
    clip: float
    factors: np.ndarray | None = None

    def __call__(self, records: Records) -> SolvedRecords:
        return SolvedRecords(records, self.centering, self.clip, self.factors)


def least_norm(rows: CenteringMap) -> float:
    """Return the least norm that slopes are clipped for."""
    return rows.constant or _LEAST_NORM


def map_rounding(constants: ProblemConstants, rows: CenteringMap, loss: ClippedLoss) -> float:
    """Bound the error of a mean gradient that comes from the map (Lemma 10)."""
    d, clip = constants.row_width, loss.clip
    several = 0.0 if loss.n_outputs == 1 else 4.0 * loss.loss.n_margins**1.5
    size = rows.norm_bound * constants.radius + float(np.linalg.norm(loss.offset))
    margins = 4.0 * (d + 8 + several) * EPS * (size + max(loss.loss.target_bound, 1.0))
    additions = chain(constants.most_terms, most_rows=constants.most_rows)
    errors = loss.curvature * rows.norm_bound * margins
    errors += (0.51 * additions + 4.0 * d + 32.0) * EPS * rows.amplification * clip
    # the last 3 EPS are those of products with weights and factors
    errors += (two_norms(d, rows.cancellation) + (several + 3.0) * EPS) * clip
    return float(constants.size_ratio * errors)


def solved(
    plan: PlannedCore,
    rows: CenteredRecords,
    found: Found,
    run: Run,
    start: np.ndarray | None = None,
    factors: np.ndarray | None = None,
    offsets: np.ndarray | None = None,
) -> np.ndarray:
    """Release 2 by solves: the last point, shape (n_outputs, width), in the basis.

    Start, offsets beside rows, and factors of the losses of each group's records are public or
    released. Sums are of factors over the largest one.
    """
    design, relation, clip = plan.objective.design, plan.objective.neighbouring, found.clip
    offsets = rows.centering.offsets if offsets is None else offsets
    loss, largest = clipped(plan.loss, offsets, clip), 1.0
    if factors is not None:
        largest = float(factors.max())
        factors = read_only_view(factors / largest)
    mean = read_only_view(rows.centering.mean)  # which solvers can reach
    centering = replace(rows.centering, mean=mean, offsets=read_only_view(rows.centering.offsets))
    view = SolvedView(centering=centering, clip=clip, factors=factors)
    records: Any = rows.records.viewed(view)
    unit, solves = found.scale, found.steps
    assert isinstance(solves, Solves)
    point = np.zeros((loss.n_outputs, design.width)) if start is None else unit * start
    longest = LONGEST * unit
    for part, length in zip(solves.parts, solves.lengths, strict=True):
        # sums are over the public number, the penalty is for means over the released one
        alpha = found.means.n_records / design.n_records / (plan.unit**2 * length * largest)
        norm = float(np.linalg.norm(point))
        reach = design.reach * max(1.0, found.means.n_records / design.n_records)
        problem = FiniteSumProblem(
            records,
            loss,
            alpha,
            Ball((norm + reach * clip / alpha) * (1.0 + 1e-9)),
            n_public=None if relation.is_replaced else design.n_records,
            center=point.ravel(),
        )
        rounding = map_rounding(problem.constants, rows, loss)
        problem.constants = replace(problem.constants, additional_rounding=rounding)
        _, accuracy, sensitivity = solution_sensitivity(problem.constants, relation)
        mechanism = Level(plan.mu_steps, plan.is_pure).part(part).mechanism(float(sensitivity))
        noisy = solve_and_release(problem, accuracy, mechanism, run, project=False)
        point = np.nan_to_num(noisy).reshape(point.shape)
        point *= min(1.0, longest / max(float(np.linalg.norm(point)), longest))
    return point / unit
