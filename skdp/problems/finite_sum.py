"""Regularised means of a loss over records, as functions of a flat vector of coefficients."""

from __future__ import annotations

import copy
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from skdp._checks import check_positive
from skdp.problems.block import Block
from skdp.problems.constants import (
    Design,
    bounded_problem_radius,
    check_nominal_size,
    generalised_linear_constants,
)
from skdp.problems.domains import Ball, Domain, euclidean_norm
from skdp.problems.loss_sums import (
    Curvature,
    CurvatureProduct,
    GradientSum,
    QuadraticMoments,
    ValueAndGradientSum,
)
from skdp.problems.losses import Loss
from skdp.problems.matrices import read_only_view
from skdp.problems.problem import Problem
from skdp.problems.records import Part, Records


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
        > 0.
    domain : Domain
        The feasible set, for example the ball of :func:`bounded_problem_radius`, which leaves
        the solution where the whole space has it.
    n_public : int, optional
        N, the public nominal size under add/remove; rows, or persons, may be ten times as
        many, or 2^20. Default: their number.
    center : ndarray of shape (dimension,), optional
        Center of the regulariser; default 0. Must not depend on these records.

    Attributes
    ----------
    constants : ProblemConstants
    dimension : int
        Length of w: ``k * records.width``, one weight vector after the other.
    """

    offers = frozenset({"hessian", "records"})
    #: Gradient at 0 and Hessian, without the regulariser: see :meth:`with_moments`.
    _moments: tuple[np.ndarray, np.ndarray] | None = None

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
        if not records.in_memory:
            self.offers = self.offers - {"records"}
        self.center = None if center is None else read_only_view(np.asarray(center))
        self.has_nominal_size = n_public is not None
        self.of_persons = records.persons is not None
        self.n_public = records.n_units if n_public is None else int(n_public)
        check_nominal_size(self.n_public, records.n_units)
        self.dimension = loss.n_outputs * records.width
        if domain.dimension not in (None, self.dimension):
            raise ValueError(
                f"the domain has {domain.dimension} dimensions, the problem has {self.dimension}."
            )
        start = np.zeros(self.dimension) if self.center is None else self.center
        self.constants = generalised_linear_constants(
            loss,
            Design.of(records, n_public),
            self.alpha,
            domain.radius,
            euclidean_norm(domain.project(start)),
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
        return self.constants.smoothness * self.records.n_units / self.n_public + self.alpha

    @property
    def lipschitz(self) -> float:
        return self.constants.lipschitz * max(1.0, self.records.n_units / self.n_public)

    def _lipschitz_at(self, norm: float) -> float:
        return self.loss.lipschitz(self.records.norm_bound, norm)

    def gradient(self, w: np.ndarray) -> np.ndarray:
        if self._moments is not None:
            return self._moments[0] + self._moments[1] @ w + self.penalty_gradient(w)
        total = self.records.total(GradientSum(self.loss, self._unpack(w)))
        return total.ravel() / self.n_public + self.penalty_gradient(w)

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        statistic = ValueAndGradientSum(self.loss, self._unpack(w))
        value, gradient = self.records.total(statistic)
        gradient = gradient.ravel() / self.n_public + self.penalty_gradient(w)
        return value / self.n_public + self.penalty(w), gradient

    def hessian(self, w: np.ndarray) -> np.ndarray:
        if self._moments is not None:
            hessian = self._moments[1].copy()
        else:
            curvature = Curvature(self.loss, self._unpack(w))
            hessian = self.records.gram(curvature, self.n_outputs) / self.n_public
        hessian.flat[:: self.dimension + 1] += self.alpha
        return hessian

    @property
    def is_quadratic(self) -> bool:
        return self.loss.is_quadratic and self.n_outputs == 1

    def with_moments(self) -> FiniteSumProblem:
        """Compute the first gradient and the Hessian of a quadratic problem in one pass.

        Gradients follow from them without the records, within the same bound on their rounding.
        """
        if not self.is_quadratic or self._moments is not None:
            return self
        gradient, hessian = self.records.total(QuadraticMoments(self.loss))
        other, parts = copy.copy(self), (gradient.ravel() / self.n_public, hessian / self.n_public)
        other._moments = read_only_view(parts[0]), read_only_view(parts[1])
        return other

    def hessian_vector(self, w: np.ndarray, v: np.ndarray) -> np.ndarray:
        statistic = CurvatureProduct(self.loss, self._unpack(w), self._unpack(v))
        return self.records.total(statistic).ravel() / self.n_public + self.alpha * v

    def _needs_records(self) -> None:
        if "records" not in self.offers:
            raise NotImplementedError(f"{type(self).__name__} is no mean over records.")

    def batch(self, positions: slice | np.ndarray) -> Batch:
        """Return some of the records: consecutive ones, each m-th one, or any (by index)."""
        self._needs_records()
        return Batch(self, self.records.block(positions))

    def residuals_and_gradient(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the residuals of all records at `w`, and the gradient without the regulariser.

        Residuals are derivatives of the losses in their margins, shape (n_records,) or (n_records,
        k).
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
        """Return the margins of all records at `w`, shape (n_records,) or (n_records, k)."""
        margins = self.records.margins(self._unpack(w))
        return margins[:, 0] if self.n_outputs == 1 else margins

    def pull_back(self, residuals: np.ndarray) -> np.ndarray:
        """Return ``(1/N) sum_i residual_i x_i`` over all records, shape (dimension,)."""
        total: np.ndarray = self.records.total(
            lambda block: block.pull_back(residuals[block.positions])
        )
        return total.ravel() / self.n_public

    def subsample(self, step: int) -> FiniteSumProblem:
        """Make the problem of each `step`-th record or person: cheap, and without guarantee."""
        self._needs_records()
        part: Part = slice(None, None, step)
        if self.of_persons:
            part = self.records.records_of(np.arange(self.records.n_units)[part])
        parts = self.records.take(part), self.loss, self.alpha, self.domain
        n_public = -(-self.n_public // step)
        return FiniteSumProblem(*parts, n_public=n_public, center=self.center)

    def for_solver(self) -> FiniteSumProblem:
        """Return the same problem as another object, sharing the (read-only) records."""
        other = super().for_solver()
        other.records = self.records.read_only_copy()
        return other

    def _unpack(self, w: np.ndarray) -> np.ndarray:
        return w.reshape(self.loss.n_outputs, self.records.width)


class UnbatchedProblem(FiniteSumProblem):
    """Base of problems that are no mean of one function of the margins per record."""

    offers = frozenset({"hessian"})
    is_quadratic = False

    gradient, hessian_vector = Problem.gradient, Problem.hessian_vector

    def _sum(self, values: np.ndarray) -> float:
        """Sum one value for each record, with its weight."""
        shares = self.records.shares
        return float((values if shares is None else values * shares).sum())

    @abstractmethod
    def _evaluate(
        self, w: np.ndarray, hessian: bool = False
    ) -> tuple[float, np.ndarray, np.ndarray | None]:
        """Return value, gradient and, if wanted, Hessian of f, without the regulariser."""

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient, _ = self._evaluate(w)
        return value + self.penalty(w), gradient + self.penalty_gradient(w)

    def hessian(self, w: np.ndarray) -> np.ndarray:
        _, _, hessian = self._evaluate(w, hessian=True)
        assert hessian is not None
        hessian.flat[:: self.dimension + 1] += self.alpha
        return hessian


@dataclass(frozen=True)
class Batch:
    """Some records of a problem, for solvers that use a part of them at a time.

    A gradient is a combination of the rows, and the coefficients of the combination, one per
    record and margin, are the *residuals*. A solver that remembers residuals (``n`` numbers)
    instead of gradients (``n * dimension``) needs one evaluation per record and step where the
    textbook has two.
    """

    problem: FiniteSumProblem
    block: Block

    def residuals(self, w: np.ndarray) -> np.ndarray:
        """Return the derivatives of the losses in their margins, shape (m,) or (m, k)."""
        margins = self.block.margins(self.problem._unpack(w))
        return self.problem.loss.derivative(margins, self.block.targets)

    def pull_back(self, residuals: np.ndarray) -> np.ndarray:
        """Return ``sum_i residual_i x_i`` over the batch, shape (dimension,)."""
        return self.block.pull_back(residuals).ravel()


def ball_problem(
    records: Records,
    loss: Loss,
    alpha: float,
    *,
    coef_norm: float | None = None,
) -> FiniteSumProblem:
    """Make the problem on the ball of :func:`bounded_problem_radius`."""
    radius = bounded_problem_radius(loss, records.norm_bound, alpha, coef_norm)
    return FiniteSumProblem(records, loss, alpha, Ball(radius))
