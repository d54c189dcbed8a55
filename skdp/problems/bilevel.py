"""Bilevel problems: an upper variable is judged by the solution of a lower problem.

f is a mean over the validation records, g over the training records, which may be the same. Without
second derivatives, the inner solution's derivative is replaced by a second solution, that of
``g + f / lam`` (Kornowski 2024). :class:`PenaltyProblem` is the case of model selection: x holds
log alpha. Proofs: docs/theory/bilevel.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp._checks import check_non_negative, check_real
from skdp.problems.domains import Box, Domain, WholeSpace
from skdp.problems.finite_sum import FiniteSumProblem, ball_problem
from skdp.problems.losses import Loss, of_base
from skdp.problems.penalties import PenaltyGroups
from skdp.problems.problem import Problem
from skdp.problems.records import Records
from skdp.problems.rounding import ROUNDING_SLACK

#: Positions of records; None stands for all.
Positions = np.ndarray | None


@dataclass(frozen=True)
class BilevelConstants:
    """Public bounds for every record, every x of its domain and every y of its domain."""

    #: On the norms of the gradients in x of one record's part of f, and of g.
    bound_upper: float
    bound_lower: float
    #: Lipschitz constant in y of the gradient in x of one record's part of g.
    mixed_lipschitz: float

    def __post_init__(self) -> None:
        check_non_negative(**vars(self))


class BilevelProblem(ABC):
    """``min over x of f(x, y*(x))``, ``y*(x) = argmin over y of g(x, y)``.

    Attributes
    ----------
    domain_x, domain_y : Domain
        Released points are projected onto `domain_y` before the constants are used at them.
    dimension_x, dimension_y : int
    n_train, n_val : int
        Public numbers of records that g and f are means over.
    disjoint : bool
        Whether no record has both roles. If False all have both, and ``n_train == n_val``.
    is_record_free : bool
        Whether the gradients in x depend on no record: given y, an update of x costs nothing.
    of_persons : bool
        Whether neighbours differ in a person, and all numbers of records are numbers of persons.
    constants : BilevelConstants or None
        Needed unless `is_record_free`.
    """

    domain_x: Domain
    domain_y: Domain
    dimension_x: int
    dimension_y: int
    n_train: int
    n_val: int
    disjoint: bool
    is_record_free: bool = False
    of_persons: bool = False
    constants: BilevelConstants | None = None

    @abstractmethod
    def lower(self, x: np.ndarray) -> Problem:
        """Return the smooth, strongly convex minimisation of g(x, y) in ``w = metric(x) * y``.

        Its constants must hold for every data set.
        """

    @abstractmethod
    def penalised(self, x: np.ndarray, lam: float) -> Problem:
        """Return the same for ``g + f / lam``, whose minimiser is that of ``f + lam g``."""

    @abstractmethod
    def upper_gradient_x(self, x: np.ndarray, y: np.ndarray, batch: Positions = None) -> np.ndarray:
        """Return ``(1/n_val) sum of grad_x f_i(x, y)`` over the validation records in `batch`.

        `batch` may be empty, and its size is private: f_i must depend on no other record, and the
        sum is divided by n_val, never by ``len(batch)``. A part of f without records belongs to the
        f_i in equal parts: its gradient is multiplied by the reciprocal of the sampling rate.
        """

    @abstractmethod
    def lower_gradient_x(self, x: np.ndarray, y: np.ndarray, batch: Positions = None) -> np.ndarray:
        """Return ``(1/n_train) sum of grad_x g_i(x, y)`` over the training records in `batch`."""

    def metric(self, x: np.ndarray) -> np.ndarray | float:
        """Factors that turn y into the coordinates of the lower problems; depends on no record."""
        return 1.0

    def lower_difference_x(
        self, x: np.ndarray, y: np.ndarray, y_lam: np.ndarray, batch: Positions = None
    ) -> np.ndarray:
        """Return ``grad_x g(x, y_lam) - grad_x g(x, y)``; override it with what cancels less."""
        return self.lower_gradient_x(x, y_lam, batch) - self.lower_gradient_x(x, y, batch)

    def noise_energy(self, x: np.ndarray, variance: float) -> np.ndarray | float:
        """Expected ``grad_x g(x, y + noise) - grad_x g(x, y)``, where it is known exactly.

        The variance is that of a coordinate of w; `domain_y` is the whole space.
        """
        return 0.0

    def noise_deviation(
        self, x: np.ndarray, y: np.ndarray, y_lam: np.ndarray, variances: tuple[float, float]
    ) -> np.ndarray | float:
        """Return the standard deviation of :meth:`lower_difference_x` to first order.

        It depends on no record but through y and y_lam.
        """
        return 0.0

    @property
    def n_records(self) -> int:
        """Number of records in either role."""
        return self.n_train + self.n_val if self.disjoint else self.n_train

    def hypergradient(
        self, x: np.ndarray, y: np.ndarray, y_lam: np.ndarray, lam: float, batch: Positions = None
    ) -> np.ndarray:
        """Return ``grad_x f(x, y_lam) + lam (grad_x g(x, y_lam) - grad_x g(x, y))``.

        At the exact solutions it is the gradient of ``min over y of f + lam (g - min g)``, and
        tends to that of ``f(x, y*(x))`` as lam grows (Kornowski 2024, equation 3).
        """
        lower = self.lower_difference_x(x, y, y_lam, batch)
        return self.upper_gradient_x(x, y_lam, batch) + lam * lower

    def record_bound(self, distance: float, lam: float) -> float:
        """Bound the norm of the part of one record in :meth:`hypergradient`; 0 if record-free.

        `distance` is ``||y_lam - y||`` of the released points, both in `domain_y`, and not of the
        exact solutions (erratum K3): docs/theory/bilevel.md, Lemma 4.
        """
        check_real("distance", distance, 0.0)
        if self.is_record_free:
            return 0.0
        if self.constants is None:
            raise ValueError(f"{type(self).__name__} has no constants, and is not record-free.")
        c = self.constants
        differs = 0.0  # also at an infinite distance
        if c.mixed_lipschitz > 0:
            differs = min(c.mixed_lipschitz * distance, 2.0 * c.bound_lower)
        upper, lower = c.bound_upper / self.n_val, lam * differs / self.n_train
        return (max(upper, lower) if self.disjoint else upper + lower) * ROUNDING_SLACK


@dataclass(frozen=True)
class WeightedLoss(Loss):
    """A loss of one margin times a weight per record; targets have the columns (target, weight)."""

    base: Loss
    #: Public bound on the weights, which depend on positions alone, and their mean.
    largest: float
    mean: float

    def __post_init__(self) -> None:
        if self.base.n_outputs != 1:
            raise ValueError(f"{self.base!r} has {self.base.n_outputs} margins, must have one.")

    def check_targets(self, targets: np.ndarray) -> None:
        self.base.check_targets(targets[:, 0])
        if not ((targets[:, 1] >= 0) & (targets[:, 1] <= self.largest)).all():
            raise ValueError(f"weights must be between 0 and {self.largest:g}.")

    is_quadratic = of_base("is_quadratic")

    def value(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return targets[:, 1] * self.base.value(margins, targets[:, 0])

    def derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return targets[:, 1] * self.base.derivative(margins, targets[:, 0])

    def second_derivative(self, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return targets[:, 1] * self.base.second_derivative(margins, targets[:, 0])

    @property
    def curvature(self) -> float:
        return self.largest * self.base.curvature

    def lipschitz(self, feature_norm: float, radius: float) -> float:
        return self.largest * self.base.lipschitz(feature_norm, radius)

    def gradient_diameter(self, feature_norm: float, radius: float) -> float:
        """Of two records at one position, which have the same weight."""
        return self.largest * self.base.gradient_diameter(feature_norm, radius)

    def solution_radius(self, feature_norm: float, alpha: float) -> float:
        """That of the base at ``alpha / mean``: a weighted mean is a limit of plain means."""
        return self.base.solution_radius(feature_norm, alpha / self.mean) * ROUNDING_SLACK


class PenaltyProblem(BilevelProblem):
    """Choose the penalties of groups by the loss on other records.

    f is the mean loss on the validation records, g that on the training records plus
    ``(1/2) sum_j alpha_g(j) r_j y_j^2``, and ``x_g = log alpha_g`` for each group g (Kornowski
    2024, section 7, with squared norms and bounded alpha: errata K1, K2 and K5).

    Parameters
    ----------
    records : Records
    loss : Loss
        Smooth, of one margin.
    penalties : PenaltyGroups

    Notes
    -----
    Record i, or person i with all its records, is for training if i is even, else for validation:
    positions must then not depend on the records, so shuffle tables that are sorted.

    Let ``D = diag(alpha_g(j) r_j)``, a the least entry of D, and ``w = sqrt(D / a) y``. Then both
    lower problems have the plain penalty ``(a/2) ||w||^2``, and rows ``x_i / sqrt(D / a)``.
    Sensitivities of both solutions: docs/theory/bilevel.md, "Penalties".
    """

    is_record_free = disjoint = True

    def __init__(self, records: Records, loss: Loss, penalties: PenaltyGroups) -> None:
        if loss.n_outputs != 1 or not math.isfinite(loss.curvature):
            raise ValueError(f"{loss!r} is not a smooth loss of one margin.")
        penalties.check_width(records.width)
        if records.n_units < 2:
            raise ValueError("n_samples=1: training and validation need one record each.")
        self.penalties, self.members, q = penalties, penalties.members, penalties.n_groups
        self.loss, self.dimension_x, self.dimension_y = loss, q, records.width
        ends = math.log(penalties.low), math.log(penalties.high)
        self.domain_x = Box(*(np.full(q, end) for end in ends))
        self.domain_y = WholeSpace()
        self._records = records.with_targets(np.asarray(records.targets, dtype=np.float64))
        self.of_persons, n = records.persons is not None, records.n_units
        self.n_train, self.n_val = (n + 1) // 2, n // 2
        even: Any = np.arange(0, n, 2) if self.of_persons else slice(None, None, 2)
        # a copy of its own: it is read much more often than made
        self._train = self._records.take(self._records.records_of(even))

    def diagonal(self, x: np.ndarray) -> np.ndarray:
        """Return the penalty of every coefficient, shape (dimension_y,)."""
        return self.penalties.diagonal(np.exp(x))

    def metric(self, x: np.ndarray) -> np.ndarray:
        diagonal = self.diagonal(x)
        return np.sqrt(diagonal / diagonal.min())

    def lower(self, x: np.ndarray) -> FiniteSumProblem:
        train = self._train.scaled(1.0 / self.metric(x))
        return ball_problem(train, self.loss, float(self.diagonal(x).min()))

    def penalised(self, x: np.ndarray, lam: float) -> FiniteSumProblem:
        records = self._records.scaled(1.0 / self.metric(x))
        alpha, n = float(self.diagonal(x).min()), records.n_units
        weights = np.full(n, n / self.n_train)
        weights[1::2] = n / (lam * self.n_val)
        loss = WeightedLoss(self.loss, float(weights[:2].max()), 1.0 + 1.0 / lam)
        if records.persons is not None:
            weights = np.repeat(weights, np.diff(records.starts))
        weighted = records.with_targets(np.column_stack([records.targets, weights]))
        return ball_problem(weighted, loss, alpha)

    def upper_gradient_x(self, x: np.ndarray, y: np.ndarray, batch: Positions = None) -> np.ndarray:
        return np.zeros(self.dimension_x)

    def lower_gradient_x(self, x: np.ndarray, y: np.ndarray, batch: Positions = None) -> np.ndarray:
        """Return ``(1/2) sum_{j in g} alpha_g r_j y_j^2``."""
        return 0.5 * self.members @ (self.diagonal(x) * y**2)

    def lower_difference_x(
        self, x: np.ndarray, y: np.ndarray, y_lam: np.ndarray, batch: Positions = None
    ) -> np.ndarray:
        """As a product, ``(1/2) <y_lam - y, y_lam + y>``: squares would cancel."""
        return 0.5 * self.members @ (self.diagonal(x) * (y_lam - y) * (y_lam + y))

    def noise_energy(self, x: np.ndarray, variance: float) -> np.ndarray:
        """Return ``(a/2) |g| variance``, a the least penalty: exact for noise of mean 0."""
        return 0.5 * float(self.diagonal(x).min()) * variance * self.members.sum(axis=1)

    def noise_deviation(
        self, x: np.ndarray, y: np.ndarray, y_lam: np.ndarray, variances: tuple[float, float]
    ) -> np.ndarray:
        """Return ``sqrt(a v sum_{j in g} d_j y_j^2 + ...)`` over both points, d the diagonal."""
        diagonal = self.diagonal(x)
        square = variances[0] * y**2 + variances[1] * y_lam**2
        return np.sqrt(float(diagonal.min()) * (self.members @ (diagonal * square)))
