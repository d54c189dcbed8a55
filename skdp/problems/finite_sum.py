"""Regularised empirical risks: the problems that solvers are given.

A problem is the only thing that knows where the rows live; solvers see values, gradients
and Hessians of a flat weight vector of length ``dimension``.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from skdp._checks import check_positive
from skdp.problems.constants import ProblemConstants
from skdp.problems.domains import Ball, Domain, euclidean_norm
from skdp.problems.losses import Loss
from skdp.problems.problem import Problem
from skdp.problems.records import Block, Records, read_only_view

__all__ = ["MAX_SIZE_RATIO", "Batch", "FiniteSumProblem"]

#: By how much the number of rows may exceed the nominal size under add/remove.
MAX_SIZE_RATIO = 10.0

#: Norms of rows whose products are far from the ends of single precision, and the condition
#: number up to which its digits are worth something.
_SINGLE_RANGE, _SINGLE_CONDITION = (1e-8, 1e8), 1e6


class FiniteSumProblem(Problem):
    """``min over w in domain of (1/N) sum_i phi(W x_i, t_i) + (alpha/2) ||w - center||^2``.

    Parameters
    ----------
    records : Records
        Rows of norm at most ``records.norm_bound``, with targets in the encoding of `loss`: 0 and
        1 (not signs) for two classes, class indices for several, numbers within the loss's bound
        for regression.
    loss : Loss
        Generalised linear loss with ``k = loss.n_outputs`` margins.
    alpha : float
        Strength of the regulariser, > 0.
    domain : Domain
        The feasible set, for example the ball of :func:`bounded_problem_radius`, which leaves
        the solution where the whole space has it.
    n_public : int, optional
        N, the public nominal size under add/remove; the rows may exceed it by the factor
        ``MAX_SIZE_RATIO``. Default: the number of rows.
    center : ndarray of shape (dimension,), optional
        Centre of the regulariser; default 0. Must not depend on these records.

    Attributes
    ----------
    constants : ProblemConstants
        Public constants; see there.
    dimension : int
        Length of w: ``k * records.width``, one weight vector after the other.
    """

    offers = frozenset({"hessian", "records"})

    def __init__(
        self,
        records: Records,
        loss: Loss,
        alpha: float,
        domain: Domain,
        *,
        n_public: int | None = None,
        center: np.ndarray | None = None,
    ) -> None:
        check_positive(alpha=alpha)
        self.records = records
        records.check_targets(loss)
        self.loss = loss
        self.alpha = float(alpha)
        self.domain = domain
        self.center = None if center is None else read_only_view(np.asarray(center))
        self.has_nominal_size = n_public is not None
        self.n_public = records.n_records if n_public is None else int(n_public)
        if records.n_records > MAX_SIZE_RATIO * self.n_public:
            raise ValueError(
                f"n_public == {self.n_public} is too small for {records.n_records} records."
            )
        self.dimension = loss.n_outputs * records.width
        if domain.dimension not in (None, self.dimension):
            raise ValueError(
                f"the domain has {domain.dimension} dimensions, the problem has {self.dimension}."
            )
        start = np.zeros(self.dimension) if self.center is None else self.center
        center_norm = euclidean_norm(domain.project(start))
        self.constants = generalised_linear_constants(
            loss,
            alpha=self.alpha,
            radius=domain.radius,
            feature_norm=records.norm_bound,
            row_width=records.width,
            n_records=self.n_public,
            block_size=records.block_size,
            center_norm=center_norm,
            size_ratio=1.0 if n_public is None else MAX_SIZE_RATIO,
            in_ball=math.isfinite(domain.radius),
        )

    @property
    def n_records(self) -> int:
        """The actual number of records."""
        return self.records.n_records

    @property
    def n_outputs(self) -> int:
        return self.loss.n_outputs

    @property
    def smoothness(self) -> float:
        return self.constants.smoothness * self.n_records / self.n_public + self.alpha

    @property
    def lipschitz(self) -> float:
        return self.constants.lipschitz * max(1.0, self.n_records / self.n_public)

    def gradient_rounding(self, w: np.ndarray) -> float:
        norm = euclidean_norm(w)
        if self.center is not None:
            norm += euclidean_norm(self.center)
        lipschitz = self.loss.lipschitz(self.records.norm_bound, norm)
        return self.constants.gradient_rounding_at(norm, lipschitz)

    def value(self, w: np.ndarray) -> float:
        return self._evaluate(w, value=True)[0]

    def gradient(self, w: np.ndarray) -> np.ndarray:
        return self._evaluate(w, gradient=True)[1]

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        return self._evaluate(w, value=True, gradient=True)[:2]

    def hessian(self, w: np.ndarray) -> np.ndarray:
        return self._evaluate(w, hessian=True)[2]

    @property
    def is_quadratic(self) -> bool:
        return "records" in self.offers and self.loss.is_quadratic and self.n_outputs == 1

    def gradient_and_hessian(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if not self.is_quadratic:
            return super().gradient_and_hessian(w)

        def statistic(block: Block) -> tuple[np.ndarray, np.ndarray]:
            at_zero = self.loss.derivative(np.zeros(len(block.targets)), block.targets)
            return block.pull_back(at_zero), block.gram(None)

        gradient, hessian = self.records.total(statistic)
        hessian *= self.loss.curvature / self.n_public
        gradient = gradient.ravel() / self.n_public + hessian @ w
        hessian.flat[:: self.dimension + 1] += self.alpha
        return gradient + self.alpha * self._offset(w), hessian

    def rough_hessian(self, w: np.ndarray) -> np.ndarray:
        low, high = _SINGLE_RANGE
        norms = self.records.data_norm, self.records.norm_bound
        if (
            not all(low <= norm <= high for norm in norms)
            or self.constants.condition_number > _SINGLE_CONDITION
        ):
            return self.hessian(w)
        weights = self._unpack(w)
        curvature = functools.partial(self._curvature, weights=weights)
        bend = self.records.gram(curvature, self.n_outputs, rough=True)
        bend /= self.n_public
        bend.flat[:: self.dimension + 1] += self.alpha
        return bend

    def hessian_vector(self, w: np.ndarray, v: np.ndarray) -> np.ndarray:
        weights, directions = self._unpack(w), self._unpack(v)

        def statistic(block: Block) -> np.ndarray:
            curvature, moved = self._curvature(block, weights), block.margins(directions)
            if moved.ndim == 1:
                return block.pull_back(curvature * moved)
            return block.pull_back(np.einsum("iab,ib->ia", curvature, moved))

        product: np.ndarray = self.records.total(statistic)
        return product.ravel() / self.n_public + self.alpha * v

    def _needs_records(self) -> None:
        if "records" not in self.offers:
            raise NotImplementedError(f"{type(self).__name__} is no mean over records.")

    def batch(self, positions: slice | np.ndarray) -> Batch:
        """Some of the records: consecutive ones, each m-th one, or any (by index)."""
        self._needs_records()
        return Batch(self, self.records.block(positions))

    def residuals_and_gradient(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The residuals of all records at `w`, and the gradient without the regulariser.

        Returns
        -------
        residuals : ndarray of shape (n_records,) or (n_records, k)
            Derivatives of the losses in their margins.
        gradient : ndarray of shape (dimension,)
        """
        self._needs_records()
        k = self.loss.n_outputs
        residuals = np.empty(self.n_records if k == 1 else (self.n_records, k))

        def statistic(block: Block) -> np.ndarray:
            batch = Batch(self, block)
            residuals[block.positions] = batch.residuals(w)
            return batch.pull_back(residuals[block.positions])

        return residuals, self.records.total(statistic) / self.n_public

    def margins(self, w: np.ndarray) -> np.ndarray:
        """Margins of all records at `w`, shape (n_records,) or (n_records, k)."""
        weights = self._unpack(w)
        k = self.loss.n_outputs
        margins = np.empty(self.n_records if k == 1 else (self.n_records, k))
        for block in self.records.blocks():
            margins[block.positions] = block.margins(weights)
        return margins

    def pull_back(self, residuals: np.ndarray) -> np.ndarray:
        """``(1/N) sum_i residual_i x_i`` over all records, shape (dimension,)."""
        total: np.ndarray = self.records.total(
            lambda block: block.pull_back(residuals[block.positions])
        )
        return total.ravel() / self.n_public

    def subsample(self, step: int) -> FiniteSumProblem:
        """The problem of each `step`-th record: a cheap approximation, without guarantee."""
        self._needs_records()
        return FiniteSumProblem(
            self.records.take(slice(None, None, step)),
            self.loss,
            self.alpha,
            self.domain,
            n_public=-(-self.n_public // step),
            center=self.center,
        )

    def for_solver(self) -> FiniteSumProblem:
        """The same problem as another object, sharing the (read-only) records."""
        other = super().for_solver()
        other.records = self.records.read_only_copy()
        return other

    def _unpack(self, w: np.ndarray) -> np.ndarray:
        return w.reshape(self.loss.n_outputs, self.records.width)

    def _curvature(self, block: Block, weights: np.ndarray) -> np.ndarray:
        return self.loss.second_derivative(block.margins(weights), block.targets)

    def _evaluate(
        self, w: np.ndarray, value: bool = False, gradient: bool = False, hessian: bool = False
    ) -> tuple[float, np.ndarray, np.ndarray]:
        weights = self._unpack(w)
        loss, n = self.loss, self.n_public

        def statistic(block: Block) -> tuple[float, np.ndarray]:
            margins, targets = block.margins(weights), block.targets
            if not gradient:
                return float(loss.value(margins, targets).sum()), np.zeros_like(weights)
            if not value:
                return 0.0, block.pull_back(loss.derivative(margins, targets))
            values, residuals = loss.value_and_derivative(margins, targets)
            return float(values.sum()), block.pull_back(residuals)

        total, slope = 0.0, np.zeros_like(weights)
        if value or gradient:
            total, slope = self.records.total(statistic)
        bend = np.zeros((0, 0))
        if hessian:
            curvature = functools.partial(self._curvature, weights=weights)
            bend = self.records.gram(curvature, self.n_outputs) / n
            bend.flat[:: self.dimension + 1] += self.alpha
        offset = self._offset(w)
        return (
            total / n + 0.5 * self.alpha * float(offset @ offset),
            slope.ravel() / n + self.alpha * offset,
            bend,
        )


@dataclass(frozen=True)
class Batch:
    """Some records of a problem, for solvers that do not always want all of them.

    A gradient is a combination of the rows, and the coefficients of the combination, one per
    record and margin, are the *residuals*. A solver that remembers residuals (``n`` numbers)
    instead of gradients (``n * dimension``) needs one evaluation per record and step where the
    textbook has two.
    """

    problem: FiniteSumProblem
    block: Block

    @property
    def positions(self) -> slice | np.ndarray:
        """Where the records are in the whole data set."""
        return self.block.positions

    def residuals(self, w: np.ndarray) -> np.ndarray:
        """Derivatives of the losses in their margins, shape (m,) or (m, k)."""
        margins = self.block.margins(self.problem._unpack(w))
        return self.problem.loss.derivative(margins, self.block.targets)

    def pull_back(self, residuals: np.ndarray) -> np.ndarray:
        """``sum_i residual_i x_i`` over the batch, shape (dimension,)."""
        return self.block.pull_back(residuals).ravel()


def generalised_linear_constants(
    loss: Loss,
    *,
    alpha: float,
    radius: float,
    feature_norm: float,
    row_width: int,
    n_records: int,
    block_size: int,
    center_norm: float = 0.0,
    size_ratio: float = 1.0,
    in_ball: bool = True,
) -> ProblemConstants:
    """Public constants of a regularised generalised linear problem.

    The rows do not enter, so a plan can be made before they are seen.

    Parameters
    ----------
    loss : Loss
    alpha : float
        Strong convexity of the regulariser.
    radius : float
        Radius of the domain; with ``inf`` the constants are those of the whole space and
        the solution is located by ``||w* - center|| <= lipschitz / alpha``.
    feature_norm : float
        Norm that no row exceeds, intercept feature included.
    row_width : int
        Number of features including the intercept.
    n_records : int
        Public size N.
    block_size : int
        Rows summed without a break.
    center_norm : float, default=0.0
        Norm of the regulariser's centre, projected onto the domain.
    size_ratio : float, default=1.0
    in_ball : bool, default=True
        See :class:`ProblemConstants`.
    """
    lipschitz = loss.lipschitz(feature_norm, radius)
    return ProblemConstants(
        n_records=n_records,
        dimension=loss.n_outputs * row_width,
        strong_convexity=alpha,
        lipschitz=lipschitz,
        gradient_diameter=loss.gradient_diameter(feature_norm, radius),
        smoothness=loss.smoothness(feature_norm),
        radius=min(radius, center_norm + size_ratio * lipschitz / alpha),
        row_width=row_width,
        block_size=block_size,
        size_ratio=size_ratio,
        in_ball=in_ball,
        domain_radius=radius,
    )


def bounded_problem_radius(
    loss: Loss, feature_norm: float, alpha: float, coef_norm: float | None
) -> float:
    """Radius of the ball to solve in: `coef_norm`, but no more than the solution can need.

    ``loss.solution_radius`` holds the solution of every data set of N records, so cutting
    the domain down to it changes no solution but tightens the constants. Valid for a
    regulariser centred at 0 (review F-5).
    """
    own = loss.solution_radius(feature_norm, alpha)
    return own if coef_norm is None else min(coef_norm, own)


def ball_problem(
    records: Records,
    loss: Loss,
    alpha: float,
    *,
    coef_norm: float | None = None,
    n_public: int | None = None,
) -> FiniteSumProblem:
    """The problem on the ball of :func:`bounded_problem_radius`."""
    radius = bounded_problem_radius(loss, records.norm_bound, alpha, coef_norm)
    return FiniteSumProblem(records, loss, alpha, Ball(radius), n_public=n_public)
