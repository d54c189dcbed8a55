"""Rounds of noisy Newton steps on prepared rows, averaged and shrunk by their noise.

Each round releases the mean gradient of clipped slopes at the private weights before it; the
released second moments turn it into a Newton step. All points are private, so averages of them, the
shrinkage by what is known of their noise and a choice among penalties cost nothing. Rounds are the
limit of the solves of :mod:`skdp.algorithms.output.prepared` for large penalties, and need no
solver. Theory: docs/theory/preparation.md, section 7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from skdp.algorithms.output import rules as output_rules
from skdp.algorithms.output.prepared import PreparedOutputPlan, plan_prepared_output
from skdp.algorithms.output.prepared_problem import PreparedProblem
from skdp.algorithms.plan import Run
from skdp.algorithms.preparation import rules as preparation_rules
from skdp.algorithms.preparation.penalty import AFTER_RELEASES
from skdp.algorithms.preparation.plan import Preparation
from skdp.algorithms.preparation.undo import Average, LeftNoise, shrunk
from skdp.algorithms.tuning import rules
from skdp.algorithms.tuning.alpha_search import Risk, search_alpha
from skdp.algorithms.tuning.objective import TunedResult, TuningObjective
from skdp.algorithms.tuning.positive_factor import PositiveFactor
from skdp.mechanisms import AdditiveMechanism
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.report import Release
from skdp.problems import ROUNDING_SLACK, Ball, EmpiricalRisk, Objective, PenaltyGroups, Records
from skdp.problems.losses import HalfSquaredLoss, LogisticLoss
from skdp.problems.multiclass_losses import SoftmaxLoss

#: Largest noisy gradient, beyond which computations could overflow.
_LONGEST = 1e50


@dataclass(frozen=True, kw_only=True)
class RoundsPlan(PreparedOutputPlan):
    """The preparation, rounds on all records, and the temperature.

    Attributes
    ----------
    candidates : PenaltyGroups or None, default=None
        Of the features: penalties to choose, one for several classes. None: the shrinkage by the
        noise alone.
    grid : tuple of float or None, default=None
        The candidates of one alpha for all features. None: all within the bounds.
    path : tuple of tuple of float
        After a run, penalties on the way to the chosen one, the last of them; without candidates
        those that the shrinkage after each round is equivalent to.
    """

    candidates: PenaltyGroups | None = None
    grid: tuple[float, ...] | None = None
    path: tuple[tuple[float, ...], ...] = ()

    @property
    def clip(self) -> float:
        """Bound on the norm of the gradient of a record."""
        if self.is_squared:
            return super().clip
        return min(rules.CLIP_OF_ODDS * super().clip, 1.0)

    @property
    def _step(self) -> float:
        return 1.0  # moments are known well

    @property
    def n_solves(self) -> int:
        """Number of rounds."""
        return (rules.ROUNDS_OF_SQUARES if self.is_squared else rules.ROUNDS_OF_ODDS)[self._row]

    @property
    def is_level(self) -> bool:
        """Whether second moments are known well enough for Newton steps."""
        return self.moments_noise <= rules.LARGEST_MOMENTS_NOISE[not self.is_squared]

    @property
    def moments_noise(self) -> float:
        """Spectral norm of the noise of second moments, in units of the mean one."""
        moments = self.preparation.moments
        return math.inf if moments is None else moments.noise * self.objective.design.n_features

    @property
    def mechanism(self) -> AdditiveMechanism:
        """Noise of all rounds as one."""
        sensitivity = self.sensitivity
        if sensitivity is None:
            changes = self.objective.neighbouring.n_changes
            sensitivity = changes * self.clip / self.objective.design.n_records
        return self.level.mechanism(sensitivity)

    @property
    def releases(self) -> tuple[Release, ...]:
        rounds = self.mechanism.describe(
            f"mean gradients on prepared rows, {self.n_solves} rounds as one",
            self.objective.dimension,
            self.objective.design.n_records,
            "docs/theory/preparation.md, Theorem 1",
            self.objective.neighbouring,
        )
        after = () if self.temperature is None else (self.temperature.describe(),)
        return (*self.preparation.releases, rounds, *after)

    def _undone(self, curvature: np.ndarray) -> np.ndarray:
        return 1.0 / curvature

    def remarks(self) -> tuple[str, ...]:
        if self.candidates is None:
            shrinks = "alpha is the penalty that shrinking by the noise is equivalent to"
            return (AFTER_RELEASES if self.objective.is_penalised else shrinks,)
        return ("values of alpha were compared on what was released, at no further cost",)

    @property
    def alpha(self) -> float:
        """That of the user; else after a run what the shrinkage is equivalent to."""
        if self.objective.is_penalised or not self.path:
            return self.objective.alpha
        return self.path[-1][0]

    def to_dict(self) -> dict[str, Any]:
        return {
            "alpha": self.alpha,
            "n_rounds": self.n_solves,
            "clip_norm": self.clip,
            "weights_noise": self.weights_noise,
            "is_whitened": self.preparation.moments is not None,
            **self._shares_found(),
        }

    def run(self, data: Records, run: Run) -> TunedResult:
        done = super().run(data, run)
        path = np.array(done.plan.path)
        return TunedResult(
            point=done.point, plan=done.plan, alpha=path[-1], path=path, noise=done.noise
        )

    def _solved(
        self, data: Records, prepared: Preparation, run: Run
    ) -> tuple[np.ndarray, LeftNoise, RoundsPlan]:
        """Release mean gradients, each at the private weights before it; average and shrink."""
        design, clip, d = self.objective.design, self.clip, len(prepared.moments)
        # without a solver nothing has to be smooth: no row is shortened
        made = prepared.affine
        made = replace(made, largest_norm=made.raw_norm * ROUNDING_SLACK)
        rows, loss = self._view(made).of(data), self._clipped(prepared.centering.offsets)
        curvature, shape = self._shape_of_loss(prepared), (loss.n_outputs, rows.width)
        nominal = not self.objective.neighbouring.is_replaced
        n_public = design.n_records if nominal else None
        counted = design.n_records / (prepared.centering.n_records or design.n_records)
        offsets, sizes = prepared.centering.offsets, made.matrix[:, :d].T @ prepared.directions
        constant = self.constant_model(offsets, curvature)
        relative = self.shares if self.is_squared else self.shares / self._bends[0]
        squares = np.maximum((sizes**2).sum(axis=0), 1e-300) * relative[:, None]
        weights, average, least, path = np.zeros(shape), Average(shape), math.inf, []
        for done in run.counted("rounds")(self.n_solves):
            if done and constant is not None:
                curvature = self._shape_at(curvature, constant.curvature)
            # the gradient at its center is that of the mean loss, whatever the penalty
            radius = float(np.linalg.norm(weights)) + 1.0
            problem = PreparedProblem(
                rows, made, loss, 1.0, Ball(radius), n_public=n_public, center=weights.ravel()
            )
            sensitivity = self.objective.neighbouring.n_changes * clip / design.n_records
            sensitivity = sensitivity * ROUNDING_SLACK + 2.0 * problem.constants.gradient_rounding
            least = min(least, sensitivity)
            mechanism = self.level.part(1.0 / self.n_solves).mechanism(sensitivity)
            noisy = mechanism.release(problem.gradient(weights.ravel()), run.noise)
            noisy = np.clip(np.nan_to_num(noisy), -_LONGEST, _LONGEST).reshape(shape)
            steps = counted / curvature.floored
            moved = curvature.rotated_back(steps * curvature.rotated(noisy))
            deviations = mechanism.noise_scale * steps
            average.add(weights - moved, deviations, curvature, (done + 1.0) ** self._power)
            mean, variances = average.at(curvature)
            beta, penalties = shrunk(
                mean,
                variances,
                curvature,
                cap=self._cap,
                least=output_rules.LEAST_PRIOR if self.temperature is not None else 0.0,
                constant_variance=self._constant_variance,
                constant=None if constant is None else constant.around(curvature),
            )
            weights = curvature.rotated_back(beta)
            path.append((float((penalties / squares).mean()),))
        response = None
        if self.candidates is not None:
            parts = [
                PenaltyRisk(
                    weights=mean[j, :d],
                    curvature=curvature.floored[j, :d],
                    variances=variances[j, :d],
                    known=penalties[j],
                    sizes=sizes * math.sqrt(float(relative[j])),
                    penalties=self.candidates,
                )
                for j in range(len(mean))
            ]
            alpha, found = _chosen(SummedRisk(parts), self.grid)
            beta[:, :d] = [part.model(alpha) for part in parts]
            weights, path = curvature.rotated_back(beta), [tuple(row) for row in found.tolist()]
            if len(parts) == 1:  # one alpha of several classes shrinks the directions one by one
                response = parts[0].response(alpha)
        variances = variances * self._carried(prepared, curvature, mean, beta)[:, None]
        left = LeftNoise.of(curvature, variances, mean, beta, response)
        return weights, left, replace(self, sensitivity=least, path=tuple(path))


@dataclass(frozen=True, kw_only=True)
class PenaltyRisk(Risk):
    """Estimated loss of released weights with a penalty, by Stein's identity (Lemma C).

    ``(w - z)' H (w - z) / 2 + tr K^{-1} H C H`` for released weights z with noise of the covariance
    C and ``w = K^{-1} H z``, ``K = H + N + sum_g alpha_g M_g' M_g``: but for a constant its
    expectation is that of ``(w - w*)' H (w - w*) / 2``, w* what z is without its noise.

    Attributes
    ----------
    weights, variances : ndarray of shape (d,)
        z and the diagonal of C.
    curvature, known : ndarray of shape (d,)
        Diagonals of H and N, the penalty that shrinking by the noise is.
    sizes : ndarray of shape (n_features, d)
        M: coefficients are M times weights.
    penalties : PenaltyGroups
        The candidates.
    """

    weights: np.ndarray
    variances: np.ndarray
    curvature: np.ndarray
    known: np.ndarray
    sizes: np.ndarray
    penalties: PenaltyGroups

    @cached_property
    def _matrices(self) -> np.ndarray:
        """``M_g' M_g`` for each group."""
        parts = (self.sizes[members] for members in self.penalties.members)
        return np.array([part.T @ part for part in parts])

    def _inverse(self, alpha: np.ndarray) -> np.ndarray:
        hessian = np.diag(self.curvature + self.known)
        return PositiveFactor(hessian + np.tensordot(alpha, self._matrices, axes=1)).inverse()

    def response(self, alpha: np.ndarray) -> np.ndarray:
        """The matrix that turns z into the weights for a penalty."""
        return self._inverse(alpha) * self.curvature

    def model(self, alpha: np.ndarray) -> np.ndarray:
        """The weights for a penalty."""
        return np.asarray(self._inverse(alpha) @ (self.curvature * self.weights))

    def __call__(self, alpha: np.ndarray) -> tuple[float, np.ndarray]:
        inverse = self._inverse(alpha)
        model, noise = inverse @ (self.curvature * self.weights), self.curvature**2 * self.variances
        away = self.curvature * (model - self.weights)
        value = 0.5 * float(away @ (model - self.weights)) + float(inverse.diagonal() @ noise)
        pulled = inverse @ away
        squares = (inverse * noise) @ inverse
        gradient = [
            -size * (float(pulled @ (matrix @ model)) + float((matrix * squares).sum()))
            for size, matrix in zip(alpha, self._matrices, strict=True)
        ]
        return value, np.array(gradient)


class SummedRisk(Risk):
    """The sum of the estimates of several outputs, which have the same alpha."""

    def __init__(self, parts: list[PenaltyRisk]) -> None:
        self.parts, self.penalties = parts, parts[0].penalties

    def __call__(self, alpha: np.ndarray) -> tuple[float, np.ndarray]:
        values, gradients = zip(*(part(alpha) for part in self.parts), strict=True)
        return sum(values), np.sum(gradients, axis=0)


def _chosen(risk: Risk, grid: tuple[float, ...] | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the alpha of the least risk, and the path to it."""
    if grid is None:
        return search_alpha(risk, risk.penalties)
    values = risk.uniform(np.array(grid))
    order = np.argsort(-values, kind="stable")  # the best one last
    path = np.array(grid)[order, None]
    return path[-1], path


def are_proven(objective: Objective, budget: PrivacyBudget) -> bool:
    """Whether the proof of rounds covers the loss, and there are few enough features."""
    loss = objective.risk.loss
    is_covered = type(loss) in (HalfSquaredLoss, LogisticLoss) or (
        isinstance(loss, SoftmaxLoss) and loss.n_classes > 2
    )
    is_narrow = objective.design.n_features <= preparation_rules.LARGEST_WIDTH
    return is_covered and is_narrow and objective.risk.is_mean and not budget.is_pure


def have_known_moments(objective: Objective, budget: PrivacyBudget) -> bool:
    """Whether rounds are proven, and second moments are known well enough for Newton steps."""
    if not are_proven(objective, budget):
        return False
    return plan_rounds(objective, budget).is_level


def have_precise_moments(objective: Objective, budget: PrivacyBudget) -> bool:
    """Whether they are known as well as least squares need them: better for rare categories."""
    if not are_proven(objective, budget):
        return False
    return plan_rounds(objective, budget).moments_noise <= rules.LARGEST_MOMENTS_NOISE[0]


def plan_rounds(
    objective: Objective,
    budget: PrivacyBudget,
    *,
    candidates: PenaltyGroups | None = None,
    grid: tuple[float, ...] | None = None,
) -> RoundsPlan:
    """Choose the parts of the budget from public numbers.

    Parameters
    ----------
    objective : Objective
        Of least squares or of the log loss; without a penalty or a ball.
    budget : PrivacyBudget
        With delta > 0.
    candidates, grid
        As of :class:`RoundsPlan`.
    """
    if not are_proven(objective, budget):
        raise ValueError(
            "method='rounds' is for squared_error and for log_loss, delta > 0 and at most "
            f"{preparation_rules.LARGEST_WIDTH} features."
        )
    plan = plan_prepared_output(objective, budget, candidates is not None)
    if candidates is not None:  # a temperature would undo their penalty
        plan = replace(plan, temperature=None, level=plan.total.part(1.0 - plan.preparation.share))
    return RoundsPlan(**vars(plan), candidates=candidates, grid=grid)


def plan_tuning_rounds(
    *,
    objective: TuningObjective,
    budget: PrivacyBudget,
    grid: tuple[float, ...] | None = None,
    is_free: bool = False,
) -> RoundsPlan:
    """Plan the rounds of a tuning problem, whose intercept has no penalty here.

    Parameters
    ----------
    objective : TuningObjective
    budget : PrivacyBudget
        With delta > 0.
    grid : tuple of float, optional
        The candidates of one alpha, in place of all within the bounds.
    is_free : bool, default=False
        Leave the penalty to what is known of the noise: there are no candidates.
    """
    risk, given = EmpiricalRisk(objective.loss), objective.penalties
    problem = Objective(risk, objective.design, neighbouring=objective.neighbouring)
    d = objective.design.n_features
    features = PenaltyGroups(given.groups[:d], given.factors[:d], given.low, given.high)
    candidates = None if is_free and grid is None else features
    return plan_rounds(problem, budget, candidates=candidates, grid=grid)
