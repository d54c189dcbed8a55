"""Adversarially robust empirical risk: the mean of each record's worst case under an attack.

An attacker moves the features of each (bounded) row by at most a in a norm, and leaves the
intercept feature alone. For a linear model the worst case has a closed form (Lowy and
Razaviyayn 2021, section 5.2, for convex sets of perturbations), with the *dual* norm ``nu(w)``
of the weights without the intercept's:

===============  ==============================  ======================================
loss             worst case                      condition
===============  ==============================  ======================================
of a margin      ``phi(z - s a nu(w), t)``       phi nonincreasing in ``s z``, s = 2t - 1
squared error    ``(|z - t| + a nu(w))^2 / 2``   none
===============  ==============================  ======================================

Neither is smooth (erratum L19), so nu and the absolute value are replaced by surrogates:
``sqrt(||w||^2 + h^2) - h`` for an attack in the Euclidean norm, ``sum_j sqrt(w_j^2 + h^2) - h`` for
one in the maximum norm, ``h log sum_j cosh(w_j / h) - h log d`` for one in the sum of absolute
values, ``rho(r) = sqrt(r^2 + e^2) - e``. They *are* the private objective.

Constants and proofs: docs/theory/constants.md, "Losses under attack". X there bounds the features,
s the intercept feature, c is the largest dual norm of a unit vector, and ``X^`` the largest norm of
an attacked row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdp._checks import check_non_negative, check_positive
from skdp.privacy.events import Neighbouring
from skdp.problems.constants import Design, ProblemConstants
from skdp.problems.domains import Ball, Domain, euclidean_norm
from skdp.problems.finite_sum import FiniteSumProblem, UnbatchedProblem
from skdp.problems.losses import HalfSquaredLoss, LogisticLoss, Loss, SquaredHingeLoss
from skdp.problems.piecewise_linear import HingeLoss, SmoothedLoss
from skdp.problems.records import Records
from skdp.problems.risks import EmpiricalRisk
from skdp.problems.rounding import EPS, ROUNDING_SLACK, chain

#: Bias of the surrogates in units of the noise in the margins.
_BIAS = 0.05
#: Least and largest noise that the bias follows, in units of a good predictor's margins.
_LEAST, _LARGEST = 1e-2, 1.0


@dataclass(frozen=True)
class Attack:
    """Perturbations ``||p|| <= radius`` of the features of each bounded row."""

    #: 1, 2, inf, or a callable for any convex and bounded set with 0 in it: it returns the
    #: perturbation p in it with the largest ``p . weights``, a gradient of the support function,
    #: for ``radius == 1``.
    norm: float | Callable[[np.ndarray], Any]
    #: a >= 0, in the units of the bounded rows.
    radius: float
    #: Value of the constant feature, which is not attacked; 0 without one.
    intercept: float = 0.0

    def __post_init__(self) -> None:
        if not callable(self.norm) and self.norm not in (1, 2, math.inf):
            raise ValueError(f"norm == {self.norm!r}, must be 1, 2, inf or a callable.")
        check_non_negative(radius=self.radius)

    def __repr__(self) -> str:
        norm = getattr(self.norm, "__name__", repr(self.norm))
        return f"Attack(norm={norm}, radius={self.radius!r}, intercept={self.intercept!r})"

    def move(self, features: np.ndarray) -> np.ndarray:
        """Return the perturbation that raises the margin of some weights of features most."""
        if not features.any():
            return np.zeros(len(features))
        if callable(self.norm):
            move = np.asarray(self.norm(features.copy()), dtype=np.float64)
            if move.shape != features.shape or not np.isfinite(move).all():
                raise ValueError(
                    f"attack_norm must return {len(features)} finite numbers for {len(features)} "
                    "weights."
                )
        elif self.norm == 2:
            move = features / max(euclidean_norm(features), 1e-300)
        elif self.norm == 1:
            move = np.zeros(len(features))
            largest = int(np.abs(features).argmax())
            move[largest] = np.sign(features[largest])
        else:
            move = np.sign(features)
        return np.asarray(self.radius * move)

    def length(self, n_features: int) -> float:
        """Return the Euclidean length of the move for equal weights."""
        return euclidean_norm(self.move(np.ones(n_features)))

    def rise(self, features: np.ndarray) -> float:
        """Return how much the worst perturbation raises the margin of some weights of features."""
        return float(self.move(features) @ features)

    def n_features(self, width: int) -> int:
        """Return the number of features under attack, of rows of a width."""
        return width - bool(self.intercept)

    def dual_bound(self, width: int) -> float:
        """c, the largest dual norm of a vector of Euclidean norm 1."""
        if callable(self.norm):
            raise ValueError("method='output' needs attack_norm 1, 2 or inf: take 'gradient'.")
        return math.sqrt(self.n_features(width)) if self.norm == math.inf else 1.0

    def feature_norm(self, feature_norm: float, width: int) -> float:
        """X^, the largest norm of an attacked row, intercept feature included."""
        if self.radius == 0:
            return feature_norm
        inside = (feature_norm - self.intercept) * (feature_norm + self.intercept)
        # of a sum with a far larger intercept feature, the features are known only roughly
        features = math.sqrt(max(0.0, inside) + 8.0 * EPS * feature_norm**2)
        return math.hypot(features + self.radius * self.dual_bound(width), self.intercept)

    def rounding_width(self, bias: float, width: int) -> float:
        """The h for which a times the surrogate is below a times the norm by at most `bias`."""
        d = self.n_features(width)
        terms = 1.0 if self.norm == 2 else math.log(2.0 * d) if self.norm == 1 else d
        return bias / (self.radius * terms)

    def _softmax(self, features: np.ndarray, h: float) -> tuple[np.ndarray, np.ndarray]:
        """Return shares of ``e^{w/h}`` and ``e^{-w/h}`` in the sum of all of them."""
        largest = np.abs(features).max(initial=0.0)
        up, down = np.exp((features - largest) / h), np.exp((-features - largest) / h)
        total = float((up + down).sum())
        return up / total, down / total

    def surrogate(self, features: np.ndarray, h: float) -> tuple[float, np.ndarray]:
        """Return the surrogate of nu and its gradient, without cancellation."""
        if self.norm == 2:
            norm = euclidean_norm(features)
            root = math.hypot(norm, h)
            return norm * (norm / (root + h)), features / root
        if self.norm == 1:
            up, down = self._softmax(features, h)
            # the largest one of both, by its share
            rest = math.log(2.0 * len(features) * max(up.max(), down.max()))
            return float(np.abs(features).max()) - h * rest, up - down
        roots = np.hypot(features, h)
        return float((features * (features / (roots + h))).sum()), features / roots

    def surrogate_hessian(self, features: np.ndarray, h: float) -> np.ndarray:
        """Return the Hessian of the surrogate of nu; its eigenvalues are in [0, 1/h]."""
        if self.norm == 2:
            root = math.hypot(euclidean_norm(features), h)
            unit = features / root
            return (np.eye(features.size) - np.outer(unit, unit)) / root
        if self.norm == 1:
            up, down = self._softmax(features, h)
            return (np.diag(up + down) - np.outer(up - down, up - down)) / h
        roots = np.hypot(features, h)
        return np.diag((h / roots) ** 2 / roots)


def attacked_margins(
    z: np.ndarray, t: np.ndarray, nu: float, radius: float, width: float
) -> tuple[Any, ...]:
    """Return ``(u, target, u_z, u_zz, u_nu)``: the worst case of a record is the loss at u.

    ``u = z + (1 - 2t) a nu`` for losses of a margin; ``u = rho(z - t) + a nu`` with the target 0
    for the squared error, whose e, the `width` of rho, is > 0.
    """
    if width == 0:
        shift = (1.0 - 2.0 * t) * radius
        return z + shift * nu, t, 1.0, 0.0, shift
    residual = z - t
    root = np.hypot(residual, width)
    u = residual * (residual / (root + width)) + radius * nu
    return u, 0.0, residual / root, (width / root) ** 2 / root, radius


def _check_attackable(loss: Loss) -> None:
    kinked = loss.base if isinstance(loss, SmoothedLoss) else loss
    known = (HalfSquaredLoss, LogisticLoss, SquaredHingeLoss, HingeLoss)
    if not isinstance(kinked, known):
        raise TypeError(
            f"{type(loss).__name__}: no closed form of the worst case is known. Of several classes "
            "method='gradient' minimises a bound."
        )


def _residual_width(loss: Loss, bias: float) -> float:
    """Return the e of rho: half of the bias is the norm's; 0 for losses of a margin."""
    return 0.5 * bias if loss.is_quadratic else 0.0


def adversarial_constants(
    mean: ProblemConstants, loss: Loss, attack: Attack, bias: float, feature_norm: float
) -> ProblemConstants:
    """Compute the constants of the attacked problem; a bias of 0 is the exact worst case."""
    if attack.radius == 0:
        return mean
    _check_attackable(loss)
    radius = mean.longest
    if not math.isfinite(radius):
        raise ValueError("Attacked losses need a bounded domain.")
    lift = attack.radius * attack.dual_bound(mean.row_width)
    attacked_norm = attack.feature_norm(feature_norm, mean.row_width)
    lipschitz = loss.lipschitz(attacked_norm, radius)
    by_vertices = (
        lipschitz / attacked_norm * max(2.0 * feature_norm, attacked_norm) * ROUNDING_SLACK
    )
    smoothness, rounding = math.inf, 0.0
    if bias > 0:
        steepest = loss.lipschitz(attacked_norm, 3.0 * radius) / attacked_norm
        width = attack.rounding_width(bias - _residual_width(loss, bias), mean.row_width)
        smoothness = loss.smoothness(attacked_norm) + steepest * attack.radius / width
        additions = chain(mean.most_terms, most_rows=mean.most_rows) + 32.0
        if attack.norm == 1:  # exponents
            additions += 24.0 * radius / width
        rounding = (mean.row_width + additions) * steepest * lift
        if loss.is_quadratic:
            kink = 3.0 * radius * lift * feature_norm / _residual_width(loss, bias)
            smoothness += kink * feature_norm
            rounding += 4.0 * loss.target_bound * (2.0 * attacked_norm + kink)
        rounding *= EPS * mean.size_ratio
    return replace(
        mean,
        lipschitz=lipschitz,
        gradient_diameter=min(loss.gradient_diameter(attacked_norm, radius), by_vertices),
        smoothness=smoothness,
        radius=radius,
        additional_rounding=rounding,
    )


class AdversarialProblem(UnbatchedProblem):
    """``min over w of (1/N) sum_i psi(w.x_i, t_i, nu(w)) + (alpha/2) ||w - center||^2``.

    `loss` is that without an attack: squared error, log loss, squared hinge, or an envelope of the
    hinge. The attack has a radius > 0 and the intercept value of the rows. `bias` > 0 is public: by
    how much surrogates may understate the effect of the attack on a margin. The domain must be
    bounded.
    """

    def __init__(
        self,
        records: Records,
        loss: Loss,
        alpha: float,
        domain: Domain,
        attack: Attack,
        bias: float,
        **options: Any,
    ) -> None:
        check_positive(bias=bias, radius=attack.radius)
        if attack.intercept != records.intercept:
            raise ValueError("The attack and the rows have different intercept features.")
        if not math.isfinite(loss.curvature):
            raise ValueError("The loss is not smooth: take its envelope, loss.smoothed(width).")
        super().__init__(records, loss, alpha, domain, **options)
        self.attack = attack
        self.constants = adversarial_constants(
            self.constants, loss, attack, float(bias), records.norm_bound
        )
        #: e of rho, 0 for losses of a margin, and h of the surrogate of the dual norm.
        self.residual_width = _residual_width(loss, float(bias))
        self.width = attack.rounding_width(float(bias) - self.residual_width, records.width)

    def _lipschitz_at(self, norm: float) -> float:
        longest = self.attack.feature_norm(self.records.norm_bound, self.records.width)
        return self.loss.lipschitz(longest, norm)

    def _evaluate(
        self, w: np.ndarray, hessian: bool = False
    ) -> tuple[float, np.ndarray, np.ndarray | None]:
        attack, n, d = self.attack, self.n_public, self.attack.n_features(self.records.width)
        nu, direction = attack.surrogate(w[:d], self.width)
        u, targets, first, curved, shift = attacked_margins(
            self.margins(w), self.records.targets, nu, attack.radius, self.residual_width
        )
        value = self._sum(self.loss.value(u, targets)) / n
        derivative = self.loss.derivative(u, targets)
        push = self._sum(shift * derivative) / n
        total = self.pull_back(derivative * first)
        total[:d] += push * direction
        if not hessian:
            return value, total, None
        second = self.loss.second_derivative(u, targets)
        zz = first**2 * second + derivative * curved
        out = self.records.gram(lambda block: zz[block.positions]) / n
        mixed = np.outer(self.pull_back(shift * first * second), direction)
        out[:, :d] += mixed
        out[:d, :] += mixed.T
        out[:d, :d] += self._sum(shift**2 * second) / n * np.outer(direction, direction)
        out[:d, :d] += push * attack.surrogate_hessian(w[:d], self.width)
        return value, total, out


@dataclass(frozen=True)
class AdversarialRisk(EmpiricalRisk):
    """The mean over the records of the worst loss under an attack.

    Loss, attack and bias are those of :class:`AdversarialProblem`; the bias is 0 for the exact
    worst case, which is not smooth. :meth:`smoothed` chooses it.
    """

    attack: Attack = Attack(2, 0.0)
    bias: float = 0.0

    # only one-shot output perturbation is offered
    is_mean = False

    def constants(
        self, design: Design, alpha: float, radius: float, center_norm: float = 0.0
    ) -> ProblemConstants:
        mean = super().constants(design, alpha, radius, center_norm)
        return adversarial_constants(mean, self.loss, self.attack, self.bias, design.feature_norm)

    def problem(
        self, records: Records, alpha: float, radius: float, **options: Any
    ) -> FiniteSumProblem:
        if self.attack.radius == 0:
            return super().problem(records, alpha, radius, **options)
        parts = records, self.loss, alpha, Ball(radius), self.attack, self.bias
        return AdversarialProblem(*parts, **options)

    @property
    def is_smooth(self) -> bool:
        return super().is_smooth and (self.bias > 0 or self.attack.radius == 0)

    def smoothed(self, spread: float) -> AdversarialRisk:
        """Return a smooth risk whose surrogates change a margin by at most ``0.05 spread``.

        The spread, the standard deviation of the noise in the margins, is kept between 0.01 and 1
        times the margins of a good predictor: the problem stays solvable at little noise, and keeps
        the attack at much noise.
        """
        if self.is_smooth:
            return self
        loss = EmpiricalRisk(self.loss).smoothed(spread).loss
        if self.attack.radius == 0:
            return replace(self, loss=loss)
        scale = loss.margin_scale
        bias = self.bias or _BIAS * min(max(spread, _LEAST * scale), _LARGEST * scale)
        return replace(self, loss=loss, bias=bias)

    @property
    def smoothing(self) -> float:
        """The bias of the surrogates or the width of a loss's envelope, whichever is larger."""
        return max(super().smoothing, self.bias)

    def _lift(self, design: Design) -> float:
        return self.attack.radius * self.attack.dual_bound(design.width)

    def reference_norm(self, design: Design) -> float:
        """Return the norm at which the margins' spread and their loss to the attack add up."""
        lost = self._lift(design) / math.sqrt(design.second_moment)
        return super().reference_norm(design) / (1.0 + lost)

    def penalty_cost(
        self, design: Design, alpha: float, distance: float, second_moment: float | None = None
    ) -> float:
        """Return that without an attack, with the second moment ``(sqrt(m) + a c)^2``.

        Surrogates, and the kinks of ``|r|`` for least squares, are left out.
        """
        moment = design.second_moment if second_moment is None else second_moment
        attacked = (math.sqrt(moment) + self._lift(design)) ** 2
        return super().penalty_cost(design, alpha, distance, attacked)

    def noise_cost(self, design: Design, variance: float) -> float:
        """Add ``a c S (sqrt(B^2 + d v) - B)``, for the growth of ``a nu`` at weights of norm B."""
        cost = super().noise_cost(design, variance)
        if self.attack.radius == 0:
            return cost
        attacked_norm = self.attack.feature_norm(design.feature_norm, design.width)
        norm = self.reference_norm(design)
        lipschitz = self.loss.lipschitz(attacked_norm, norm)
        longer = math.hypot(norm, math.sqrt(self.attack.n_features(design.width) * variance))
        return cost + self._lift(design) * lipschitz / attacked_norm * (longer - norm)

    def generalisation_cost(self, design: Design, constants: ProblemConstants) -> float:
        """Return ``L Delta``, uniform stability, if there is an attack."""
        if self.attack.radius == 0:
            return super().generalisation_cost(design, constants)
        return constants.lipschitz * constants.argmin_sensitivity(Neighbouring.REPLACE_ONE)
