"""Logistic regression that tunes its penalty on released second moments and gradients.

If the margins ``z = a'w`` of rows a are normal, Stein's lemma makes the gradient of the log loss

    ``mean (sigmoid(z) - t) a = E[sigmoid(z) - 1/2] abar + E[sigmoid'(z)] C w - c``

a function of the mean abar and covariance C of the rows and of ``c = mean (t - 1/2) a``: of what
the gradient ``-c`` and the Hessian ``mean a a' / 4`` at w = 0 say. Margins of many features are
nearly normal. So the first round releases the statistics of the Newton step from 0, which for two
classes are the moments of least squares with targets +-1/2, and minimises the log loss of normal
margins (:class:`_NormalMargins`) in place of a quadratic model.

Each further round releases the true gradient at the private point so far, and c is corrected by as
much of the difference to the prediction as is not noise. Where margins are far from normal the
rounds are quasi-Newton steps for the exact problem; where they are normal the releases are
averaged, so that splitting the budget costs little.

After every round the strengths are those of the least estimated risk of the quadratic model at the
point, as for ridge regression (:mod:`skdp.algorithms.tuning.sufficient_statistics`): the noise of
the moments acts on the way from the centre of the averaged gradients, not on all of w. All but
the releases is post-processing.

"Newton-SSP" (Kornowski 2024 specification, 5.7) differs: it releases a Hessian in each round, needs
two folds, takes the quadratic step and forgets earlier rounds. It did worse in simulations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh
from scipy.special import expit

from skdp.algorithms.tuning.model import (
    PenaltyGroups,
    TunedModel,
    check_penalties,
    check_targets,
)
from skdp.algorithms.tuning.roles import fold_slices
from skdp.algorithms.tuning.statistics import (
    MomentsPlan,
    PrivateMoments,
    blocks_of_part,
    of_each_fold,
    plan_private_moments,
    private_moments,
)
from skdp.algorithms.tuning.strength_search import (
    CrossRisk,
    RidgeModels,
    Risk,
    SteinRisk,
    search_strengths,
)
from skdp.mechanisms import AdditiveMechanism, NoiseSource, calibrated_mechanism
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import Neighbouring
from skdp.privacy.report import Release
from skdp.problems import ROUNDING_SLACK, BoundedRows, Design, EmpiricalRisk, LogisticLoss
from skdp.problems.silence import without_warnings

__all__ = ["NewtonPlan", "plan_newton_statistics", "tune_by_newton_statistics"]

#: Parts of the budget that the rounds have; by simulation.
_SHARES = (0.6, 0.2, 0.2)
#: Root mean square of the margins where gradients are computed, and of the model's: rows whose
#: margins are not normal can look separable when they are not.
_MARGIN_BOUNDS = (LogisticLoss().largest_margin_scale, 2.0 * LogisticLoss().largest_margin_scale)
#: Nodes and weights of the normal distribution, symmetric.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(61)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
#: Newton steps for normal margins, and halvings of each.
_STEPS, _HALVINGS = 100, 60


@dataclass(frozen=True)
class NewtonPlan:
    """What is released; public.

    Attributes
    ----------
    moments : MomentsPlan
        Of the first round.
    gradients : tuple of AdditiveMechanism
        One per further round.
    """

    moments: MomentsPlan
    gradients: tuple[AdditiveMechanism, ...]

    def releases(self, n_folds: int | None = None) -> tuple[Release, ...]:
        """The statements about all records, or about each fold."""
        gradients = [
            Release(
                name=f"gradient {k + 1}",
                mechanism=mechanism.name,
                sensitivity=mechanism.sensitivity,
                noise_scale=mechanism.noise_scale,
                dimension=self.moments.width,
                n_records=self.moments.n_records,
                reference=of_each_fold(
                    "docs/theory/tuning.md, Lemma 3: gradient of the log loss", n_folds
                ),
                event=mechanism.event(Neighbouring.REPLACE_ONE),
            )
            for k, mechanism in enumerate(self.gradients)
        ]
        return (self.moments.release(n_folds), *gradients)

    def deviation(self, k: int) -> float:
        """Standard deviation of the noise of an entry of the k-th gradient."""
        width = self.moments.width
        return math.sqrt(self.gradients[k].mean_square(width) / width)

    def to_dict(self) -> dict[str, Any]:
        """The public numbers as plain Python types."""
        return {
            **self.moments.to_dict(),
            "gradient_noise": [mechanism.noise_scale for mechanism in self.gradients],
            "margin_bounds": list(_MARGIN_BOUNDS),
        }


def plan_newton_statistics(
    budget: PrivacyBudget,
    design: Design,
    *,
    n_records: int,
    shares: Sequence[float] = _SHARES,
) -> NewtonPlan:
    """Fix the noise of all rounds, for replace-one neighbours.

    At w = 0 the residuals ``sigmoid(0) - t`` are +-1/2 and every weight of the Hessian is 1/4: the
    first round is a release of moments of the rows and targets ``t - 1/2``, with its proof
    (:func:`plan_private_moments`).

    Further rounds: a record's gradient is ``r a`` with ``||a|| <= X`` and ``r = sigmoid(a'w) - t``
    in (-1, 1), so the mean moves by less than ``2 X / n``, wherever w is. Given the releases of
    earlier rounds w is fixed, so the rounds compose adaptively.

    Parameters
    ----------
    budget : PrivacyBudget
    design : Design
        Shape and norm bound of all rows.
    n_records : int
        Of the smallest fold.
    shares : sequence of float, default=(0.6, 0.2, 0.2)
        Parts of the budget for the rounds, of sum 1.
    """
    shares = tuple(float(share) for share in shares)
    if not (all(share > 0 for share in shares) and abs(sum(shares) - 1.0) <= 1e-12):
        raise ValueError(f"shares == {shares}, must be positive numbers of sum 1.")
    risk, X = EmpiricalRisk(LogisticLoss()), design.feature_norm
    size = design.block_size
    sensitivity = risk.loss.gradient_diameter(X, math.inf) / n_records * ROUNDING_SLACK
    # of two sums of products, in chains of one block and of all blocks
    sensitivity += 2.0 * (size + n_records / size + 16.0) * 2.0**-52 * X
    moments = plan_private_moments(
        budget,
        n_records=n_records,
        width=design.width,
        feature_norm=X,
        target_bound=0.5,
        # the Hessian is a quarter of the moments
        coef_norm=risk.loss.curvature * risk.reference_norm(design),
        share=shares[0],
        block_size=size,
    )
    gradients = (calibrated_mechanism(budget, sensitivity, share=share) for share in shares[1:])
    return NewtonPlan(moments, tuple(gradients))


@without_warnings()
def tune_by_newton_statistics(
    rows: BoundedRows,
    targets: np.ndarray,
    penalties: PenaltyGroups,
    budget: PrivacyBudget,
    *,
    n_folds: int | None = None,
    shares: Sequence[float] = _SHARES,
    noise: NoiseSource | None = None,
) -> TunedModel:
    """Choose the strengths and fit the model in a few rounds; replace-one neighbours.

    Parameters
    ----------
    rows : BoundedRows
    targets : ndarray of shape (n,)
        0 or 1.
    penalties : PenaltyGroups
    budget : PrivacyBudget
    n_folds : int, optional
        Record i is in fold ``i % n_folds``. Folds are disjoint, so each release has the whole
        budget of its round. Default: no folds.
    shares : sequence of float, default=(0.6, 0.2, 0.2)
        Parts of the budget for the rounds, of sum 1.
    noise : NoiseSource, optional
        Default: the operating system's secure generator.

    Returns
    -------
    TunedModel
        Its path has the strengths after each round.
    """
    check_targets(rows, targets, LogisticLoss())
    check_penalties(rows, penalties)
    noise = NoiseSource() if noise is None else noise
    folds, design = fold_slices(rows.n_records, n_folds), Design.of(rows)
    plan = plan_newton_statistics(
        budget, design, n_records=rows.n_records // len(folds), shares=shares
    )
    statistics = _Statistics(
        [private_moments(rows, targets - 0.5, plan.moments, noise, fold) for fold in folds],
        rows.intercept,
        rows.data_norm,
    )
    w, alpha = _fit(statistics, np.zeros(rows.width), penalties)
    path = [alpha]
    for k, mechanism in enumerate(plan.gradients):
        point = statistics.shortened(w, _MARGIN_BOUNDS[0])
        gradients = [
            mechanism.release(_gradient(rows, targets, point, fold), noise) for fold in folds
        ]
        statistics.correct(point, gradients, plan.deviation(k))
        w, alpha = _fit(statistics, point, penalties)
        path.append(alpha)
    return TunedModel(
        point=statistics.shortened(w, _MARGIN_BOUNDS[1]),
        alpha=alpha,
        path=np.array(path),
        releases=plan.releases(n_folds),
        plan={
            **plan.to_dict(),
            "n_folds": None if n_folds is None else int(n_folds),
            "fold_records": plan.moments.n_records,
        },
    )


def _gradient(rows: BoundedRows, targets: np.ndarray, point: np.ndarray, part: slice) -> np.ndarray:
    """Mean gradient of the log loss over some records; not private."""
    total = np.zeros(rows.width)
    for block in blocks_of_part(rows, part):
        margins = block.margins(point[None, :])
        total += block.pull_back(LogisticLoss().derivative(margins, targets[block.rows]))[0]
    return total / len(range(*part.indices(rows.n_records)))


class _NormalMargins:
    """Log loss of rows whose margins are normal, without the part that is linear in w.

    ``F(w) = E[log(2 cosh(z / 2))]`` for ``z ~ N(w'abar, w'C w)``, the expectation being a sum
    over symmetric nodes: convex for any nodes, because ``sqrt(w'C w)`` is.

    Parameters
    ----------
    mean : ndarray of shape (p,)
        abar.
    covariance : ndarray of shape (p, p)
        C; positive semi-definite.
    """

    def __init__(self, mean: np.ndarray, covariance: np.ndarray) -> None:
        self.mean, self.covariance = mean, covariance

    def slopes(self, w: np.ndarray) -> tuple[float, float]:
        """``E[sigmoid(z) - 1/2] / E z`` and ``E[sigmoid'(z)]``: what abar E z and C w weigh."""
        mu, s = self._moments(w)
        half = 0.5 * np.tanh(0.5 * (mu + s * _NODES))  # sigmoid - 1/2
        level = 0.25 / math.cosh(0.5 * min(abs(mu), 700.0)) ** 2
        spread = float(_WEIGHTS @ (_NODES * half)) / s if s > 1e-5 else level
        shift = float(_WEIGHTS @ half) / mu if abs(mu) > 1e-5 else self._curvature(mu, s)
        return shift, spread

    @staticmethod
    def _curvature(mu: float, s: float) -> float:
        """``E[sigmoid'(z)]``, as a sum over the nodes."""
        z = mu + s * _NODES
        return float(_WEIGHTS @ (expit(z) * expit(-z)))

    def _moments(self, w: np.ndarray) -> tuple[float, float]:
        return float(self.mean @ w), math.sqrt(max(float(w @ self.covariance @ w), 0.0))

    def _value(self, w: np.ndarray) -> float:
        mu, s = self._moments(w)
        z = np.abs(mu + s * _NODES)
        return float(_WEIGHTS @ (0.5 * z + np.log1p(np.exp(-z))))

    def gradient(self, w: np.ndarray) -> np.ndarray:
        """Gradient of F."""
        shift, spread = self.slopes(w)
        return shift * float(self.mean @ w) * self.mean + spread * (self.covariance @ w)

    def _hessian(self, w: np.ndarray) -> np.ndarray:
        """Hessian of F, no less than by rounding errors positive definite."""
        mu, s = self._moments(w)
        spread = self.slopes(w)[1]
        z = mu + s * _NODES
        second = _WEIGHTS * expit(z) * expit(-z)
        u = self.covariance @ w / max(s, 1e-5)
        cross = float(second @ _NODES) * np.outer(self.mean, u)
        hessian = float(second.sum()) * np.outer(self.mean, self.mean) + cross + cross.T
        hessian += spread * self.covariance
        hessian += (float(second @ _NODES**2) - spread) * np.outer(u, u)
        largest = float(self.mean @ self.mean + np.trace(self.covariance))
        hessian[np.diag_indices(len(w))] += 32.0 * np.finfo(float).eps * largest
        return np.asarray(hessian)

    def minimise(self, linear: np.ndarray, omega: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Minimiser of ``F(w) - linear'w + w' diag(omega) w / 2``, by damped Newton steps."""

        def value(w: np.ndarray) -> float:
            return self._value(w) - float(linear @ w) + 0.5 * float(w @ (omega * w))

        w, current = start, value(start)
        for _ in range(_STEPS):
            gradient = self.gradient(w) - linear + omega * w
            step = -cho_solve(cho_factor(self._hessian(w) + np.diag(omega)), gradient)
            decrease, length = -float(gradient @ step), 1.0
            if not decrease > 1e-16 * (1.0 + abs(current)):
                return w + step if decrease >= 0 else w
            for _ in range(_HALVINGS):
                trial = value(w + length * step)
                if trial <= current - 0.1 * length * decrease:
                    break
                length *= 0.5
            else:
                return w
            w, current = w + length * step, trial
        return w


class _Statistics:
    """What has been released, as a model of the log loss: ``F(w) - c'w``.

    Parameters
    ----------
    parts : sequence of PrivateMoments
        Of the rows and of targets ``t - 1/2``, one per fold.
    intercept : float
        Value of the last feature, or 0 if there is no constant feature; rows are then
        taken to have mean 0.
    data_norm : float
        Bound on the norm of the other features.
    """

    def __init__(self, parts: Sequence[PrivateMoments], intercept: float, data_norm: float) -> None:
        self.parts = list(parts)
        self._matrix = self.pooled.matrix
        p = len(self._matrix)
        self.mean = np.zeros(p)
        if intercept:
            features = self._matrix[-1, :-1] / intercept
            noise = (p - 1) * 0.5 * (self.pooled.deviation / intercept) ** 2
            square = max(float(features @ features), 1e-300)
            shrink = max(0.0, 1.0 - noise / square)  # James and Stein
            self.mean[:-1] = features * min(shrink, data_norm / math.sqrt(square))
            self.mean[-1] = intercept
        values, vectors = eigh(self._matrix - np.outer(self.mean, self.mean))
        self.margins = _NormalMargins(self.mean, (vectors * np.maximum(values, 0.0)) @ vectors.T)
        #: Weighted mean of the points of the gradients that c was made of, and the noise of c.
        self.centre = np.zeros(p)
        self.variance = self.pooled.vector_deviation**2

    @property
    def pooled(self) -> PrivateMoments:
        """The moments of all records."""
        return PrivateMoments.pooled(self.parts)

    @property
    def linear(self) -> np.ndarray:
        """The vector c."""
        return self.pooled.vector

    def shortened(self, w: np.ndarray, bound: float) -> np.ndarray:
        """A multiple of w whose margins have a root mean square within the bound."""
        square = float(self.mean @ w) ** 2 + float(w @ self.margins.covariance @ w)
        return w * min(1.0, bound / math.sqrt(max(square, 1e-300)))

    def correct(self, point: np.ndarray, gradients: Sequence[np.ndarray], deviation: float) -> None:
        """Move c towards what gradients at a point, with noise of a deviation, say.

        With variance v of the prediction (by noise), u of the gradient and the estimate b of
        the mean square by which an entry of the prediction is wrong otherwise: by ``(v + b)
        / (v + b + u)`` of the difference.
        """
        sizes = np.array([part.n_records for part in self.parts])
        shares = sizes / sizes.sum()
        fresh = deviation**2 * float(shares @ shares)
        away, p = point - self.centre, len(point)
        spread = self.margins.slopes(point)[1] * self.pooled.deviation
        known = self.variance + 0.5 * spread**2 * float(away @ away) * (1.0 + 1.0 / p)
        if len(self.parts) == 1:
            gaps = [gradients[0] - (self.margins.gradient(point) - self.linear)]
        else:
            gaps = [
                gradient - (part.matrix @ point - part.vector)
                for gradient, part in zip(gradients, self.quadratic(point), strict=True)
            ]
        gap = shares @ np.array(gaps)
        wrong = max(0.0, float(gap @ gap) / p - known - fresh)
        weight = (known + wrong) / (known + wrong + fresh) if fresh > 0 else 1.0
        self.parts = [
            replace(part, vector=part.vector - weight * change)
            for part, change in zip(self.parts, gaps, strict=True)
        ]
        self.centre = self.centre + weight * away
        self.variance = (1.0 - weight) ** 2 * self.variance + weight**2 * fresh

    def _curved(self, part: PrivateMoments, w: np.ndarray) -> PrivateMoments:
        """The quadratic model whose gradient at w is that of the log loss."""
        shift, spread = self.margins.slopes(w)
        outer = np.outer(self.mean, self.mean)
        return replace(
            part,
            matrix=spread * (part.matrix - outer) + shift * outer,
            deviation=spread * part.deviation,
        )

    def quadratic(self, w: np.ndarray) -> list[PrivateMoments]:
        """Quadratic models of the folds."""
        return [self._curved(part, w) for part in self.parts]

    def centred(self, w: np.ndarray) -> PrivateMoments:
        """The quadratic model of all records about the centre."""
        whole = self._curved(self.pooled, w)
        return replace(
            whole,
            vector=whole.vector - whole.matrix @ self.centre,
            vector_deviation=math.sqrt(self.variance),
        )


def _fit(
    statistics: _Statistics, w: np.ndarray, penalties: PenaltyGroups
) -> tuple[np.ndarray, np.ndarray]:
    """Strengths, and the model for them: post-processing."""
    for uniform in (True, False):  # a first guess for the curvature at the model
        risk: Risk
        if len(statistics.parts) > 1:
            risk = CrossRisk(statistics.quadratic(w), penalties)
        else:
            ridge = RidgeModels(statistics.centred(w), penalties, statistics.centre)
            # the variance of a residual per unit of curvature
            risk = SteinRisk(ridge, 1.0, LogisticLoss().sampling_scale)
        alpha, _ = search_strengths(risk, penalties, uniform=uniform)
        w = statistics.margins.minimise(statistics.linear, penalties.diagonal(alpha), w)
        w = statistics.shortened(w, _MARGIN_BOUNDS[1])
    return w, alpha
