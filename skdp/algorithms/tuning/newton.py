"""Logistic regression that tunes its penalty on released second moments and gradients.

If the margins ``z = a'w`` of rows a are normal, Stein's lemma makes the gradient of the log loss

    ``mean (sigmoid(z) - t) a = E[sigmoid(z) - 1/2] abar + E[sigmoid'(z)] C w - c``

a function of the mean abar and covariance C of the rows and of ``c = mean (t - 1/2) a``. Margins of
many features are nearly normal. So the first round releases the statistics of the Newton step from
0, which for two classes are the moments of least squares with targets +-1/2, and minimises the log
loss of normal margins (:class:`NormalMargins`) in place of a quadratic model.

Each further round releases the true gradient at the private point so far, and c is corrected by as
much of the difference to the prediction as is not noise. Where margins are far from normal the
rounds are quasi-Newton steps for the exact problem; where they are normal the releases are
averaged. Their number is public: two where noise is large, 6 to 12 where it is small
(:func:`round_shares`). The steps of the latter converge only if the curvature of the model is at
least half of the true one, so it is multiplied by their ratio along the last step, as in the method
of Barzilai and Borwein.

After every round alpha is that of the least estimated risk of the quadratic model at the
point, as for ridge regression (:mod:`skdp.algorithms.tuning.sufficient_statistics`). All but
the releases is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from skdp._runtime import without_warnings
from skdp.algorithms.plan import Run
from skdp.algorithms.tuning import rules
from skdp.algorithms.tuning.alpha_search import (
    RidgeModels,
    SteinRisk,
    search_alpha,
)
from skdp.algorithms.tuning.moments import (
    MomentsPlan,
    PrivateMoments,
    mean_rounding,
    plan_private_moments,
    position_rounding,
    private_moments,
)
from skdp.algorithms.tuning.normal_margins import NormalMargins
from skdp.algorithms.tuning.objective import TunedResult
from skdp.algorithms.tuning.positive_factor import PositiveFactor, rounding_floor
from skdp.algorithms.tuning.sufficient_statistics import MomentsTuningPlan
from skdp.algorithms.weight_noise import WeightNoise
from skdp.mechanisms import AdditiveMechanism, calibrated_mechanism
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.report import Release
from skdp.problems import ROUNDING_SLACK, LogisticLoss, PenaltyGroups, Records
from skdp.problems.block import Block
from skdp.problems.rounding import two_margins

#: Root mean square of the margins where first gradients are computed. It grows from one gradient to
#: the next where there are several. Rows whose margins are not normal can look separable when they
#: are not. The model may have twice that of the last point.
_MARGIN_BOUND = LogisticLoss().largest_margin_scale
#: Norm of the coefficients for rows of norm 1 at which gradients are computed, at most.
_LONGEST = 1e3


def round_shares(
    budget: PrivacyBudget, *, n_records: int, width: int, n_replaced: float = 2.0
) -> tuple[float, ...]:
    """Parts of the budget for the moments and for each gradient, from public numbers.

    Moments get 0.6 and gradients 0.4. Two gradients leave a bias where margins are far from normal,
    which no budget removes; each further one costs some of the averaging. So there are two unless
    the noise of the mean of K gradients of rows of norm 1 is at most ``8e-4 * 10^-((K - 6) / 3)``
    for a K from 6 to 12, and then the largest such K. `n_replaced` is the number of gradients by
    which sums of neighbours differ: 1 under add/remove.
    """
    for count in range(rules.MOST_GRADIENTS, rules.SEVERAL_GRADIENTS - 1, -1):
        share = rules.GRADIENT_SHARE / count
        square = calibrated_mechanism(budget, n_replaced / n_records, share=share).mean_square(
            width
        )
        if math.sqrt(square / count) <= rules.SMALL_NOISE * 10.0 ** (
            (rules.SEVERAL_GRADIENTS - count) / rules.GRADIENTS_PER_DECADE
        ):
            break
    else:
        count = rules.FEW_GRADIENTS
    return (1.0 - rules.GRADIENT_SHARE, *(rules.GRADIENT_SHARE / count,) * count)


@dataclass(frozen=True, kw_only=True)
class NewtonPlan(MomentsTuningPlan):
    """Choose alpha and fit logistic regression in a few rounds.

    The first round is a release of moments of the rows and targets ``t - 1/2``, with its proof
    (:func:`plan_private_moments`). Further rounds: a record's gradient is ``r a`` with
    ``||a|| <= X`` and ``r = sigmoid(a'w) - t`` in (-1, 1), so the mean moves by less than
    ``2 X / n``, wherever w is, and by X over the nominal size if one is added or removed. Given
    earlier releases w is fixed: the rounds compose adaptively.

    Parameters
    ----------
    shares : sequence of float, optional
        Parts of the budget for the rounds, of sum 1. Default: those of :func:`round_shares`.
    """

    shares: Sequence[float] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.objective.loss, LogisticLoss):
            raise ValueError(f"{type(self.objective.loss).__name__} is no log loss of one margin.")
        shares = self.round_shares
        if not (all(share > 0 for share in shares) and abs(sum(shares) - 1.0) <= 1e-12):
            raise ValueError(f"shares == {shares}, must be positive numbers of sum 1.")

    @cached_property
    def round_shares(self) -> tuple[float, ...]:
        """Parts of the budget for the rounds."""
        if self.shares is not None:
            return tuple(float(share) for share in self.shares)
        design = self.design
        sizes = {"n_records": design.n_records, "width": design.width}
        return round_shares(self.budget, **sizes, n_replaced=self.objective.neighbouring.n_changes)

    @cached_property
    def moments(self) -> MomentsPlan:
        """Plan of the first round."""
        # the Hessian is a quarter of the moments
        guess = self.objective.loss.curvature * self.objective.reference_norm
        share = self.round_shares[0]
        return plan_private_moments(
            self.budget,
            self.design,
            target_bound=0.5,
            coef_norm=guess,
            share=share,
            neighbouring=self.objective.neighbouring,
        )

    @cached_property
    def gradients(self) -> tuple[AdditiveMechanism, ...]:
        """Mechanisms of the further rounds, one each."""
        design, X = self.design, self.design.feature_norm
        loss, moved = self.objective.loss, 2.0 * mean_rounding(design) * X
        # the others may be elsewhere, and have margins and rows with other last bits
        margins = two_margins(design.width, _LONGEST) * design.size_ratio
        moved += (margins + position_rounding(design)) * X
        distance = loss.lipschitz(X, math.inf)
        if self.objective.neighbouring.is_replaced:
            distance = loss.gradient_diameter(X, math.inf)
        sensitivity = distance / design.n_records * ROUNDING_SLACK + moved
        return tuple(
            calibrated_mechanism(self.budget, sensitivity, share=share)
            for share in self.round_shares[1:]
        )

    @property
    def adapts(self) -> bool:
        """Whether the curvature is estimated and margins may grow: with more than two gradients."""
        return len(self.gradients) > rules.FEW_GRADIENTS

    @property
    def margin_bounds(self) -> tuple[float, ...]:
        """Root mean squares of the margins at the points of the gradients, and of the model."""
        growth = rules.MARGIN_GROWTH if self.adapts else 1.0
        points = [
            _MARGIN_BOUND * min(growth**k, rules.MOST_MARGIN_GROWTH)
            for k in range(len(self.gradients))
        ]
        return (*points, 2.0 * max(points, default=_MARGIN_BOUND))

    @property
    def releases(self) -> tuple[Release, ...]:
        shape, relation = (self.design.width, self.design.n_records), self.objective.neighbouring
        reference = "docs/theory/tuning.md, Lemma 3: gradient of the log loss"
        gradients = (
            mechanism.describe(f"gradient {k + 1}", *shape, reference, relation)
            for k, mechanism in enumerate(self.gradients)
        )
        return (self.moments.release, *gradients)

    def to_dict(self) -> dict[str, Any]:
        return {
            **self.moments.to_dict(),
            "gradient_noise": [mechanism.noise_scale for mechanism in self.gradients],
            "margin_bounds": list(self.margin_bounds),
        }

    @without_warnings()
    def run(self, data: Records, run: Run) -> TunedResult:
        self.objective.check(data)
        # rows of norm at most 1 from here on: nothing overflows, and floors are public
        unit, width = self.design.feature_norm, self.design.width
        penalties = self.objective.penalties.rescaled(unit)
        for _ in run.counted("second moments")(1):
            moments = private_moments(data, self.moments, run.noise, are_labels=True)
        norms = data.intercept / unit, data.data_norm / unit
        statistics = LogLossModel(moments.rescaled(unit), *norms, adapts=self.adapts)
        fixed, count = self.fixed_alpha(unit), None
        if not self.objective.neighbouring.is_replaced:
            count = self.design.n_records
        w, alpha = _fit(statistics, np.zeros(width), penalties, 2.0 * _MARGIN_BOUND, fixed)
        path = [alpha]
        counted = run.counted("gradients")(len(self.gradients))
        for _, mechanism, bound in zip(counted, self.gradients, self.margin_bounds, strict=False):
            point = statistics.shortened(w, bound)
            point = point * min(1.0, _LONGEST / max(float(np.linalg.norm(point)), 1e-300))
            gradient = mechanism.release(mean_gradient(data, point / unit, count), run.noise) / unit
            deviation = math.sqrt(mechanism.mean_square(width) / width)
            statistics.correct(point, gradient, deviation / unit)
            w, alpha = _fit(statistics, point, penalties, 2.0 * bound, fixed)
            path.append(alpha)
        found = self.objective.penalties.clipped(np.array(path) * (unit * unit))
        noise = WeightNoise.dense(
            statistics.noise_factor(w) / unit,
            statistics.moments * unit**2,
            data.intercept,
            np.ones((1, 1)),
        )
        return TunedResult(point=w / unit, plan=self, alpha=found[-1], path=found, noise=noise)


@dataclass(frozen=True, kw_only=True)
class LogLossGradient:
    """Sums of gradients of the log loss at a point, shape (width,)."""

    point: np.ndarray

    def __call__(self, block: Block) -> np.ndarray:
        residuals = LogisticLoss().derivative(block.margins(self.point[None, :]), block.targets)
        return block.pull_back(residuals)[0]


def mean_gradient(records: Records, point: np.ndarray, count: int | None = None) -> np.ndarray:
    """Mean gradient of the log loss; not private.

    `count` is the number to divide by, that of the units by default.
    """
    total = records.total(LogLossGradient(point=point))
    return np.asarray(total / (records.n_units if count is None else count))


class LogLossModel:
    """A model of the log loss from what has been released: ``kappa F(w) - c'w``.

    F is the loss of normal margins and kappa, the `curvature`, the ratio of changes of the true
    gradient to those of F's along the last step. Every release of a gradient g at a point m makes c
    ``kappa grad F(m) - g``; releases are averaged, g and grad F(m) apart, because kappa changes.

    Parameters
    ----------
    released : PrivateMoments
        Of rows of norm at most 1 and of targets ``t - 1/2``.
    intercept, data_norm : float
        Value of the last feature, or 0 if there is no constant feature and rows are taken to have
        mean 0; bound on the norm of the other features.
    adapts : bool, default=False
        Estimate kappa; it is 1 otherwise.
    """

    def __init__(
        self,
        released: PrivateMoments,
        intercept: float,
        data_norm: float,
        *,
        adapts: bool = False,
    ) -> None:
        self.released, self.adapts = released, adapts
        p = len(released.matrix)
        mean = np.zeros(p)
        if intercept:
            features = released.matrix[-1, :-1] / intercept
            noise = (p - 1) * 0.5 * (released.deviation / intercept) ** 2
            square = max(float(features @ features), 1e-300)
            shrink = max(0.0, 1.0 - noise / square)  # James and Stein
            mean[:-1] = features * min(shrink, data_norm / math.sqrt(square))
            mean[-1] = intercept
        self.margins = NormalMargins(mean, released.matrix - np.outer(mean, mean))
        self.curvature = 1.0
        #: The last penalty, one number per coefficient.
        self.omega = np.zeros(p)
        self._model_gradient = np.zeros(p)  # mean of grad F(m)
        self._true_gradient = -released.vector
        #: Weighted mean of the points m, and the noise of the mean of their gradients.
        self.center = np.zeros(p)
        self.variance = released.vector_deviation**2
        self.deviation = released.deviation

    @property
    def vector(self) -> np.ndarray:
        """The vector c."""
        return np.asarray(self.curvature * self._model_gradient - self._true_gradient)

    def shortened(self, w: np.ndarray, bound: float) -> np.ndarray:
        """A multiple of w whose margins have a root mean square within the bound."""
        square = max(self.margins.mean_square(w), 1e-300)
        return np.asarray(w * min(1.0, bound / math.sqrt(square)))

    def correct(self, point: np.ndarray, gradient: np.ndarray, deviation: float) -> None:
        """Move c towards what a gradient at a point, with noise of a deviation, says.

        With variance v of the prediction (by noise), u of the gradient and the estimate b of
        the mean square by which an entry of the prediction is wrong otherwise: by ``(v + b)
        / (v + b + u)`` of the difference. If the curvature adapts, it is estimated first.
        """
        fresh = deviation**2
        away, p = point - self.center, len(point)
        spread = self.margins.gradient_weights(point)[1]
        expected = self.margins.gradient(point) - self._model_gradient
        moved = gradient - self._true_gradient
        square = float(away @ away)
        if self.adapts:
            # variance of the change of the gradient along the step, with that of its prediction
            variance = (self.variance + fresh + (spread * self.deviation) ** 2 * square) * square
            self._adapt(float(expected @ away), float(moved @ away), variance)
        spread *= self.curvature * self.deviation
        known = self.variance + 0.5 * spread**2 * square * (1.0 + 1.0 / p)
        gap = moved - self.curvature * expected
        wrong = max(0.0, float(gap @ gap) / p - known - fresh)
        weight = (known + wrong) / (known + wrong + fresh) if fresh > 0 else 1.0
        if self.adapts:
            weight = min(weight, self._turning_point(point, gradient))
        self._model_gradient = self._model_gradient + weight * expected
        self._true_gradient = self._true_gradient + weight * moved
        self.center = self.center + weight * away
        self.variance = (1.0 - weight) ** 2 * self.variance + weight**2 * fresh

    def _turning_point(self, point: np.ndarray, gradient: np.ndarray) -> float:
        """Part of the step to a point after which the penalised loss rises, or 1.

        A step that is too long ends uphill. The zero of the linearly interpolated derivative is
        then the better center, and the interpolated gradient is about that of the loss there.
        """
        away = point - self.center
        before = float((self._true_gradient + self.omega * self.center) @ away)
        after = float((gradient + self.omega * point) @ away)
        return before / (before - after) if before < 0.0 < after else 1.0

    def _adapt(self, predicted: float, seen: float, variance: float) -> None:
        """Estimate kappa from a predicted and a noisy true change of the gradient along a step.

        The quotient is shrunk towards the last kappa by its noise. From an underestimate steps
        are too long, from an overestimate they are short: kappa falls by its square root only.
        """
        plausible = rules.RATIO_DEVIATION * predicted
        if not (plausible > 0.0 and plausible * plausible > 0.0):
            return
        trust = plausible * plausible / (plausible * plausible + variance)
        ratio = self.curvature + trust * (seen / predicted - self.curvature)
        ratio = min(max(ratio, rules.LEAST_RATIO), rules.LARGEST_RATIO)
        self.curvature = max(ratio, math.sqrt(ratio * self.curvature))

    def centered(self, w: np.ndarray) -> PrivateMoments:
        """The quadratic model about the center whose gradient at w is that of the model."""
        shift, spread = self.margins.gradient_weights(w)
        outer = np.outer(self.margins.mean, self.margins.mean)
        matrix = self.curvature * (spread * (self.released.matrix - outer) + shift * outer)
        return replace(
            self.released,
            matrix=matrix,
            vector=self.vector - matrix @ self.center,
            deviation=self.curvature * spread * self.released.deviation,
            vector_deviation=math.sqrt(self.variance),
        )

    @property
    def moments(self) -> np.ndarray:
        """Second moments of the rows."""
        return self.margins.covariance + np.outer(self.margins.mean, self.margins.mean)

    def noise_factor(self, w: np.ndarray) -> np.ndarray:
        """Return F with ``F' F`` the covariance of the minimiser w, by the noise of c."""
        hessian = self.curvature * self.margins.hessian(w) + np.diag(self.omega)
        return math.sqrt(self.variance) * PositiveFactor(hessian).inverse()

    def minimiser(self, omega: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Minimiser of the model plus a penalty, which is no smaller than rounding errors."""
        self.omega = omega + rounding_floor(len(omega))
        return self.margins.minimise(
            self.vector / self.curvature, self.omega / self.curvature, start
        )


def _fit(
    statistics: LogLossModel,
    w: np.ndarray,
    penalties: PenaltyGroups,
    bound: float,
    fixed: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Choose alpha, unless it is fixed, and the model for it: post-processing."""
    if fixed is not None:
        w = statistics.minimiser(penalties.diagonal(fixed), w)
        return statistics.shortened(w, bound), fixed
    for uniform in (True, False):  # a first guess for the curvature at the model
        ridge = RidgeModels(statistics.centered(w), penalties, statistics.center)
        # the variance of a residual per unit of curvature
        risk = SteinRisk(ridge, 1.0, LogisticLoss().sampling_scale)
        alpha, _ = search_alpha(risk, penalties, uniform=uniform)
        w = statistics.minimiser(penalties.diagonal(alpha), w)
        w = statistics.shortened(w, bound)
    return w, alpha
