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

Neither is smooth (erratum E19), so nu and the absolute value are replaced by surrogates:
``sqrt(||w||^2 + h^2) - h`` for an attack in the Euclidean norm, ``sum_j sqrt(w_j^2 + h^2) - h`` for
one in the maximum norm, ``rho(r) = sqrt(r^2 + e^2) - e``. They *are* the private objective: all
that is stated of it is proven for them, and holds in the limit h, e -> 0 as well.

**What the proofs use.** With ``v = grad nu(w)``, and v = 0 for the intercept:

1. nu is convex, ``0 <= nu(w) <= <w, v>``, and ``||v|| <= c``, c = 1 for the Euclidean and
   sqrt(d) for the maximum norm: ``t^2 / q >= q - h`` with ``q = sqrt(t^2 + h^2)``, coordinate by
   coordinate or for the norm. Likewise ``0 <= rho(r) <= r rho'(r)`` and ``|rho'| <= 1``.
2. nu is below the exact norm by at most h, or ``d h``; rho by at most e.

*Convexity.* ``s z - a nu(w)`` is concave in w, and phi convex and nonincreasing in it.
``rho(z - t) + a nu(w)`` is convex and non-negative, where the square increases.

*Gradients.* That of a record is a number of [0, 1] times the gradient of phi at a row u with
``||u|| <= X^ = sqrt((X + a c)^2 + s0^2)``, X the bound on the features, s0 the intercept
feature:

- margin: ``u = x - s a v``, the target as it is. ``s w.u <= s z - a nu``, and the slope of
  phi shrinks with that.
- squared error: ``u = rho' x + a v`` with the target ``rho' t``. The residual there is
  ``r rho' + a <w, v> >= rho + a nu >= 0``.

So ``loss.lipschitz(X^, R)`` is a Lipschitz constant, and ``loss.gradient_diameter(X^, R)``
bounds the distance of two gradients ``c_1 g_1 - c_2 g_2``: it is convex in the c's, hence
largest at a vertex of the square [0, 1]^2, and all of these are covered (a row of zeros has the
gradient 0). Gradients are also ``c_i (y_i + a v)`` with *the same v*, ``||y_i|| <= X~ =
sqrt(X^2 + s0^2)`` and c_i in [0, S], ``S = loss.lipschitz(X^, R) / X^``. At the vertices their
difference is 0, at most ``S X^`` or at most ``2 S X~``, which for ``a c <= X`` is what two
gradients without an attack are apart in the worst case of long coefficients.

*Radius of the solution*: that of the unattacked loss, ``loss.solution_radius(X~, alpha)``. It
rests on two facts. At w = 0 the gradient is that without an attack. And at the solution
``alpha ||w||^2 = -mean <grad f_i, w>``, where

- margin: ``-<grad f_i, w> = |phi'| (s z - a <w, v>) <= |phi'(m)| s m`` at the attacked margin
  m, the same number that is bounded for the unattacked loss;
- squared error: with ``p = rho + a nu``, it is ``-p (rho' z + a <w, v>)``, at most
  ``p (Y - p)`` and at most ``p k``, ``k = X~ ||w||``. The first is at most ``Y^2 / 4``, so
  ``||w|| <= Y / (2 sqrt(alpha))``; for ``X~^2 < alpha`` this makes ``k < Y/2``, where the
  smaller of both is at most ``k (Y - k)``, so ``||w|| <= X~ Y / (X~^2 + alpha)``.

*Smoothness* on the ball of three times the radius, which accelerated methods may visit: ``C
X^^2 + S' a / h``, C the curvature of phi and S' the slope S there, plus ``3 R a c X~^2 / e``
for the squared error. Hessians are ``phi'' u u' + |phi'| a Hess nu`` with ``Hess nu <= 1/h``.
For the squared error they are ``(rho' x + a v)(rho' x + a v)' + p rho'' x x' + p a Hess nu``;
since ``rho'^2 + rho rho'' <= 1``, only ``a nu rho'' <= a nu / e`` is left of p rho''.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from skdp._checks import check_non_negative, check_positive
from skdp.privacy.events import Neighbouring
from skdp.problems.constants import ProblemConstants
from skdp.problems.domains import Ball, Domain, euclidean_norm
from skdp.problems.finite_sum import FiniteSumProblem
from skdp.problems.losses import (
    ROOT_SLACK,
    HalfSquaredLoss,
    LogisticLoss,
    Loss,
    SquaredHingeLoss,
)
from skdp.problems.piecewise_linear import HingeLoss, SmoothedLoss
from skdp.problems.problem import Problem
from skdp.problems.records import Records
from skdp.problems.risks import Design, EmpiricalRisk
from skdp.problems.rounding import EPS, chain

__all__ = [
    "AdversarialProblem",
    "AdversarialRisk",
    "Attack",
    "AttackedMarginLoss",
    "AttackedResidualLoss",
    "adversarial_constants",
]

#: Bias of the surrogates in units of the noise in the margins.
_BIAS = 0.05
#: Least and largest noise that the bias follows, in units of a good predictor's margins.
_LEAST, _LARGEST = 1e-2, 1.0

Partials = tuple[np.ndarray, np.ndarray]
SecondPartials = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Attack:
    """Perturbations ``||p|| <= radius`` of the features of each bounded row.

    Parameters
    ----------
    norm : {2, inf}
        Of the perturbations.
    radius : float
        a >= 0, in the units of the bounded rows.
    intercept : float, default=0.0
        Value of the constant feature, which is not attacked; 0 without one.
    """

    norm: float
    radius: float
    intercept: float = 0.0

    def __post_init__(self) -> None:
        if self.norm not in (2, math.inf):
            raise ValueError(f"norm == {self.norm!r}, must be 2 or inf.")
        check_non_negative(radius=self.radius)

    def n_features(self, width: int) -> int:
        """Number of features under attack, of rows of a width."""
        return width - bool(self.intercept)

    def dual_bound(self, width: int) -> float:
        """c, the largest dual norm of a vector of Euclidean norm 1."""
        return 1.0 if self.norm == 2 else math.sqrt(self.n_features(width))

    def feature_norm(self, feature_norm: float, width: int) -> float:
        """X^, the largest norm of an attacked row, intercept feature included."""
        if self.radius == 0:
            return feature_norm
        inside = (feature_norm - self.intercept) * (feature_norm + self.intercept)
        # of a sum with a far larger intercept feature, the features are known only roughly
        features = math.sqrt(max(0.0, inside) + 8.0 * EPS * feature_norm**2)
        return math.hypot(features + self.radius * self.dual_bound(width), self.intercept)

    def dual_norm(self, features: np.ndarray) -> float:
        """The exact nu: by how much the worst perturbation of radius 1 moves a margin."""
        return euclidean_norm(features) if self.norm == 2 else float(np.abs(features).sum())

    def rounding_width(self, bias: float, width: int) -> float:
        """The h for which a times the surrogate is below a times the norm by at most `bias`."""
        terms = 1 if self.norm == 2 else self.n_features(width)
        return bias / (self.radius * terms)

    def surrogate(self, features: np.ndarray, h: float) -> tuple[float, np.ndarray]:
        """The surrogate of nu and its gradient, without cancellation."""
        if self.norm == 2:
            norm = euclidean_norm(features)
            root = math.hypot(norm, h)
            return norm * (norm / (root + h)), features / root
        roots = np.hypot(features, h)
        return float((features * (features / (roots + h))).sum()), features / roots

    def surrogate_hessian(self, features: np.ndarray, h: float) -> np.ndarray:
        """Hessian of the surrogate of nu; its eigenvalues are in [0, 1/h]."""
        if self.norm == 2:
            root = math.hypot(euclidean_norm(features), h)
            unit = features / root
            return (np.eye(features.size) - np.outer(unit, unit)) / root
        roots = np.hypot(features, h)
        return np.diag((h / roots) ** 2 / roots)


@dataclass(frozen=True)
class AttackedMarginLoss:
    """``psi(z, t, nu) = phi(z - s a nu, t)`` of a loss that does not increase with ``s z``.

    Parameters
    ----------
    base : Loss
        phi, the loss without an attack.
    radius : float
        a.
    """

    base: Loss
    radius: float

    def _attacked(self, z: np.ndarray, t: np.ndarray, nu: float) -> tuple[np.ndarray, np.ndarray]:
        shift = (1.0 - 2.0 * t) * self.radius
        return z + shift * nu, shift

    def value(self, z: np.ndarray, t: np.ndarray, nu: float) -> np.ndarray:
        """Psi of each record, shape (n,)."""
        return self.base.value(self._attacked(z, t, nu)[0], t)

    def partials(self, z: np.ndarray, t: np.ndarray, nu: float) -> Partials:
        """``(psi_z, psi_nu)``."""
        margins, shift = self._attacked(z, t, nu)
        derivative = self.base.derivative(margins, t)
        return derivative, shift * derivative

    def second_partials(self, z: np.ndarray, t: np.ndarray, nu: float) -> SecondPartials:
        """``(psi_zz, psi_znu, psi_nunu)``."""
        margins, shift = self._attacked(z, t, nu)
        second = self.base.second_derivative(margins, t)
        return second, shift * second, shift**2 * second


@dataclass(frozen=True)
class AttackedResidualLoss:
    """``psi(z, t, nu) = (rho(z - t) + a nu)^2 / 2``; methods as of :class:`AttackedMarginLoss`.

    Parameters
    ----------
    radius : float
        a.
    width : float
        e of rho, > 0.
    """

    radius: float
    width: float

    def _parts(self, z: np.ndarray, t: np.ndarray, nu: float) -> tuple[np.ndarray, ...]:
        """``(rho + a nu, rho', rho'')``."""
        residual = z - t
        root = np.hypot(residual, self.width)
        total = residual * (residual / (root + self.width)) + self.radius * nu
        return total, residual / root, (self.width / root) ** 2 / root

    def value(self, z: np.ndarray, t: np.ndarray, nu: float) -> np.ndarray:
        return 0.5 * self._parts(z, t, nu)[0] ** 2

    def partials(self, z: np.ndarray, t: np.ndarray, nu: float) -> Partials:
        total, derivative, _ = self._parts(z, t, nu)
        return total * derivative, self.radius * total

    def second_partials(self, z: np.ndarray, t: np.ndarray, nu: float) -> SecondPartials:
        total, first, second = self._parts(z, t, nu)
        return first**2 + total * second, self.radius * first, np.full_like(z, self.radius**2)


def _check_attackable(loss: Loss) -> None:
    kinked = loss.base if isinstance(loss, SmoothedLoss) else loss
    known = (HalfSquaredLoss, LogisticLoss, SquaredHingeLoss, HingeLoss)
    if not isinstance(kinked, known):
        raise TypeError(f"{type(loss).__name__}: no closed form of the worst case is known.")


def _residual_width(loss: Loss, bias: float) -> float:
    """The e of rho: half of the bias is the norm's; 0 for losses of a margin."""
    return 0.5 * bias if isinstance(loss, HalfSquaredLoss) else 0.0


def adversarial_constants(
    mean: ProblemConstants, loss: Loss, attack: Attack, bias: float, feature_norm: float
) -> ProblemConstants:
    """Constants of the attacked problem; those that the attack does not change from `mean`.

    Proofs in the module's description.

    *Rounding.* nu and v are computed with a relative error of at most ``(d + 8) eps`` each, as
    no differences are taken; v then changes a gradient by ``S a c`` times that. The error of nu
    adds to that of the margin, which :meth:`ProblemConstants.gradient_rounding_at` multiplies
    with the smoothness. Sums over records are chains as there. A residual's last subtraction
    has the error ``eps (X~ ||w|| + Y)``; the part with Y is not in that product either.

    Parameters
    ----------
    mean : ProblemConstants
        Of the problem without an attack.
    loss : Loss
    attack : Attack
    bias : float
        By how much surrogates may understate the attack, in units of the margins; 0 for the
        exact worst case, which is not smooth.
    feature_norm : float
        X~.
    """
    if attack.radius == 0:
        return mean
    radius = mean.radius if mean.domain_radius is None else mean.domain_radius
    if not math.isfinite(radius):
        raise ValueError("Attacked losses need a bounded domain.")
    lift = attack.radius * attack.dual_bound(mean.row_width)
    attacked_norm = attack.feature_norm(feature_norm, mean.row_width)
    lipschitz = loss.lipschitz(attacked_norm, radius)
    by_vertices = lipschitz / attacked_norm * max(2.0 * feature_norm, attacked_norm) * ROOT_SLACK
    smoothness, rounding = math.inf, 0.0
    if bias > 0:
        steepest = loss.lipschitz(attacked_norm, 3.0 * radius) / attacked_norm
        width = attack.rounding_width(bias - _residual_width(loss, bias), mean.row_width)
        smoothness = loss.smoothness(attacked_norm) + steepest * attack.radius / width
        most = mean.n_records * mean.size_ratio
        additions = chain(most, mean.block_size) + 32.0
        rounding = (mean.row_width + additions) * steepest * lift
        if isinstance(loss, HalfSquaredLoss):
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


class AdversarialProblem(FiniteSumProblem):
    """``min over w of (1/N) sum_i psi(w.x_i, t_i, nu(w)) + (alpha/2) ||w - center||^2``.

    Gradients are no combinations of the rows with one number each, so that solvers that need
    "records" refuse it.

    Parameters
    ----------
    records, alpha, domain, n_public, center
        As in :class:`FiniteSumProblem`; the domain must be bounded.
    loss : Loss
        The loss without an attack: squared error, log loss, squared hinge, or an envelope of the
        hinge.
    attack : Attack
        Of radius > 0, with the intercept value of the rows.
    bias : float
        > 0: by how much the surrogates may understate the effect of the attack on a margin.
        Must be public.
    """

    offers = frozenset({"hessian"})

    def __init__(
        self,
        records: Records,
        loss: Loss,
        alpha: float,
        domain: Domain,
        attack: Attack,
        bias: float,
        *,
        n_public: int | None = None,
        center: np.ndarray | None = None,
    ) -> None:
        check_positive(bias=bias, radius=attack.radius)
        if attack.intercept != records.intercept:
            raise ValueError("The attack and the rows have different intercept features.")
        if not math.isfinite(loss.curvature):
            raise ValueError("The loss is not smooth: take its envelope, loss.smoothed(width).")
        _check_attackable(loss)
        super().__init__(records, loss, alpha, domain, n_public=n_public, center=center)
        self.attack = attack
        self.bias = float(bias)
        self.constants = adversarial_constants(
            self.constants, loss, attack, self.bias, records.norm_bound
        )
        width = _residual_width(loss, self.bias)
        self.attacked: AttackedMarginLoss | AttackedResidualLoss = (
            AttackedResidualLoss(attack.radius, width)
            if width
            else AttackedMarginLoss(loss, attack.radius)
        )
        #: h of the surrogate of the dual norm.
        self.width = attack.rounding_width(self.bias - width, records.width)

    def gradient_rounding(self, w: np.ndarray) -> float:
        norm = euclidean_norm(w)
        if self.center is not None:
            norm += euclidean_norm(self.center)
        reach = self.attack.feature_norm(self.records.norm_bound, self.records.width)
        return self.constants.gradient_rounding_at(norm, self.loss.lipschitz(reach, norm))

    def _evaluate(
        self, w: np.ndarray, value: bool = False, gradient: bool = False, hessian: bool = False
    ) -> tuple[float, np.ndarray, np.ndarray]:
        d, n = self.attack.n_features(self.records.width), self.n_public
        targets = self.records.targets
        nu, direction = self.attack.surrogate(w[:d], self.width)
        margins = self.margins(w)
        total = float(self.attacked.value(margins, targets, nu).sum()) if value else 0.0
        slope, bend = np.zeros(self.dimension), np.zeros((0, 0))
        if gradient or hessian:
            by_margin, by_norm = self.attacked.partials(margins, targets, nu)
            push = float(by_norm.sum()) / n
        if gradient:
            slope = self.pull_back(by_margin)
            slope[:d] += push * direction
        if hessian:
            zz, znu, nunu = self.attacked.second_partials(margins, targets, nu)
            bend = self.records.gram(lambda block: zz[block.positions], self.n_outputs) / n
            mixed = np.outer(self.pull_back(znu), direction)
            bend[:, :d] += mixed
            bend[:d, :] += mixed.T
            bend[:d, :d] += float(nunu.sum()) / n * np.outer(direction, direction)
            bend[:d, :d] += push * self.attack.surrogate_hessian(w[:d], self.width)
            bend.flat[:: self.dimension + 1] += self.alpha
        offset = self._offset(w)
        return (
            total / n + 0.5 * self.alpha * float(offset @ offset),
            slope + self.alpha * offset,
            bend,
        )

    def hessian_vector(self, w: np.ndarray, v: np.ndarray) -> np.ndarray:
        return self.hessian(w) @ v


@dataclass(frozen=True)
class AdversarialRisk(EmpiricalRisk):
    """The mean over the records of the worst loss under an attack.

    Parameters
    ----------
    loss : Loss
        Without an attack; see :class:`AdversarialProblem`.
    attack : Attack
    bias : float, default=0.0
        By how much surrogates may understate the effect of the attack on a margin; 0 for the
        exact worst case, which is not smooth. :meth:`smoothed` chooses it.
    """

    attack: Attack = Attack(2, 0.0)
    bias: float = 0.0

    # only one-shot output perturbation is offered
    is_mean = False

    def __post_init__(self) -> None:
        _check_attackable(self.loss)

    def constants(
        self, design: Design, alpha: float, radius: float, center_norm: float = 0.0
    ) -> ProblemConstants:
        mean = super().constants(design, alpha, radius, center_norm)
        return adversarial_constants(mean, self.loss, self.attack, self.bias, design.feature_norm)

    def problem(
        self,
        records: Records,
        alpha: float,
        radius: float,
        *,
        n_public: int | None = None,
        center: np.ndarray | None = None,
    ) -> Problem:
        if self.attack.radius == 0:
            return super().problem(records, alpha, radius, n_public=n_public, center=center)
        return AdversarialProblem(
            records,
            self.loss,
            alpha,
            Ball(radius),
            self.attack,
            self.bias,
            n_public=n_public,
            center=center,
        )

    @property
    def is_smooth(self) -> bool:
        return super().is_smooth and (self.bias > 0 or self.attack.radius == 0)

    def smoothed(self, spread: float) -> AdversarialRisk:
        """A smooth risk that understates the attack by a small part of what noise costs.

        The surrogates change a margin by at most ``0.05 spread``, with the spread kept between
        0.01 and 1 times the margins of a good predictor. The lower limit keeps the problem solvable
        at little noise, the upper one keeps the attack in it at much noise.

        Parameters
        ----------
        spread : float
            Standard deviation of the noise in the margins; public.
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
        """Norm of a predictor whose spread of margins and loss of margin to the attack add up.

        To the ``loss.margin_scale`` of a good predictor without an attack.
        """
        lost = self._lift(design) / math.sqrt(design.second_moment)
        return super().reference_norm(design) / (1.0 + lost)

    def penalty_cost(
        self, design: Design, strength: float, distance: float, second_moment: float | None = None
    ) -> float:
        """As without an attack, with the second moment ``(sqrt(m) + a c)^2``.

        Along the ray to the comparator the exact dual norm is linear, so that this bounds the
        curvature for losses of a margin, up to the surrogates; for least squares it leaves out
        the kinks of ``|r|``. For planning.
        """
        moment = design.second_moment if second_moment is None else second_moment
        attacked = (math.sqrt(moment) + self._lift(design)) ** 2
        return super().penalty_cost(design, strength, distance, attacked)

    def noise_cost(self, design: Design, variance: float) -> float:
        """That of the margins, plus the slope times the expected growth of ``a nu``.

        ``a c S (sqrt(B^2 + d v) - B)`` for equal weights of norm B, by Jensen's inequality.
        """
        cost = super().noise_cost(design, variance)
        if self.attack.radius == 0:
            return cost
        attacked_norm = self.attack.feature_norm(design.feature_norm, design.width)
        norm = self.reference_norm(design)
        lipschitz = self.loss.lipschitz(attacked_norm, norm)
        longer = math.hypot(norm, math.sqrt(self.attack.n_features(design.width) * variance))
        return cost + self._lift(design) * lipschitz / attacked_norm * (longer - norm)

    def generalisation_cost(self, design: Design, constants: ProblemConstants) -> float:
        """``L Delta``, uniform stability, if there is an attack."""
        if self.attack.radius == 0:
            return super().generalisation_cost(design, constants)
        return constants.lipschitz * constants.argmin_sensitivity(Neighbouring.REPLACE_ONE)
