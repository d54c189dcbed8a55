"""Prepared output perturbation: learn where the data lie, solve, release, undo the shrinkage.

Means, spread and second moments are released first. Each solve is of clipped slopes on prepared
rows with a large penalty around the private point before it, and released with the noise of its
sensitivity; any certified solver gives the same guarantee. What the penalty has shrunk is undone
afterwards with the released moments, which costs nothing. Theory: docs/theory/preparation.md.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from skdp._runtime import without_warnings
from skdp.algorithms.core.levels import Level
from skdp.algorithms.core.penalty import (
    AFTER_RELEASES,
    needs_moments,
    penalised_rows,
)
from skdp.algorithms.core.second_moments import LARGEST_WIDTH
from skdp.algorithms.legacy_solves.calibration import SolvedConstant
from skdp.algorithms.legacy_solves.centered_noise import centered_noise
from skdp.algorithms.legacy_solves.plan import Preparation, PreparationPlan, plan_preparation
from skdp.algorithms.legacy_solves.prepared_records import AffineMap, ClippedSlopes
from skdp.algorithms.legacy_solves.rules import largest_residual, odds_clip, temperature_share
from skdp.algorithms.legacy_solves.shares import class_shares, kept_of_columns
from skdp.algorithms.legacy_solves.temperature import TemperaturePlan, plan_temperature
from skdp.algorithms.legacy_solves.undo import Average, Curvature, LeftNoise, shrunk
from skdp.algorithms.output import rules
from skdp.algorithms.output.kernel import solve_and_release
from skdp.algorithms.output.one_shot import solution_sensitivity
from skdp.algorithms.output.prepared_problem import PreparedProblem
from skdp.algorithms.plan import Plan, Result, Run
from skdp.algorithms.statistics.clipped_curvature import (
    clipped_curvature,
    row_squares,
    sampling_noise,
)
from skdp.algorithms.statistics.margins import PRIOR_VARIANCE, typical_curvature
from skdp.algorithms.weight_noise import MarginNoise, PlannedNoise
from skdp.mechanisms import AdditiveMechanism
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.report import Release
from skdp.problems import Ball, EmpiricalRisk, Objective, Records
from skdp.problems.losses import HalfSquaredLoss, LogisticLoss
from skdp.problems.multiclass_losses import OneVsRestLoss
from skdp.problems.slope_clipped import ClippedLoss, can_be_clipped, clipped
from skdp.solvers.secants import SolutionPath

#: Largest noise of whitened weights up to which the method was level with planned noisy gradient
#: descent: above it a fit warns; and up to which it was better than others that use a solver.
_LEVEL, _BEST = 0.15, 0.5


@dataclass(frozen=True, kw_only=True)
class Solved:
    """Released solutions, whose shrinkage by the penalty was undone.

    Attributes
    ----------
    weights : ndarray of shape (n_outputs, width)
        Of prepared rows, shrunk by their noise.
    average : Average
        Of the undone solutions.
    curvature : Curvature
        At these weights, for log odds.
    mean, variances, shrunk : ndarray of shape (n_outputs, width)
        The average in coordinates of the curvature's directions, the variances of its noise, and
        what shrinkage makes of it.
    sensitivity : float
        The least one of a solution.
    """

    weights: np.ndarray
    average: Average
    curvature: Curvature
    mean: np.ndarray
    variances: np.ndarray
    shrunk: np.ndarray
    sensitivity: float


@dataclass(frozen=True, kw_only=True)
class PreparedOutputPlan(Plan):
    """The preparation, solves on all records, and the temperature.

    Attributes
    ----------
    objective : Objective
    preparation : PreparationPlan
    level : Level
        Of all solves.
    total : Level
        Of the whole.
    temperature : TemperaturePlan or None
    spread : float
        Of the targets; after a run the released one.
    odds : tuple of float
        Margins of a constant model; after a run the released ones.
    curvature : float
        Mean second moment of prepared rows in a direction; after a run by the released ones.
    sensitivity : float or None
        Of a solution with the accuracy of its certificate; after a run, the least of all.
    is_balanced : bool, default=False
        Whether log odds are turned into those of classes of equal sizes.
    class_shares : tuple of float or None, default=None
        After a run, what was released of the targets of log odds with an intercept.
    """

    objective: Objective
    preparation: PreparationPlan
    level: Level
    total: Level
    temperature: TemperaturePlan | None
    spread: float
    odds: tuple[float, ...]
    curvature: float = 0.0
    sensitivity: float | None = None
    is_balanced: bool = False
    class_shares: tuple[float, ...] | None = None

    @property
    def risk(self) -> EmpiricalRisk:
        return self.objective.risk

    @property
    def is_squared(self) -> bool:
        """Whether targets are numbers."""
        return self.risk.loss.target_bound > 0

    @property
    def _has_kink(self) -> bool:
        """Whether the loss is a narrow envelope of one of numbers that is linear around a kink."""
        return self.is_squared and self.risk.loss.curvature > 1.0

    @property
    def _noise(self) -> float:
        """Noise of a mean of numbers up to 1."""
        changes = self.objective.neighbouring.n_changes
        return (
            changes
            * self.total.deviation(self.objective.dimension)
            / (self.objective.design.n_records)
        )

    @property
    def weights_noise(self) -> float:
        """Noise of whitened weights, relative to the spread of the targets."""
        return self._noise * self.objective.design.n_features

    @property
    def _is_noisy(self) -> bool:
        return self.weights_noise > rules.MUCH_NOISE[not self.is_squared]

    @property
    def clip(self) -> float:
        """Bound on the norm of the gradient of a record."""
        loss = self.risk.loss
        steepest = largest_residual(loss)
        if self._has_kink:  # most slopes are the largest one
            return steepest
        if self.is_squared:
            unit, least, largest = rules.SLOPES_OF_NUMBERS
            clip = self.spread * min(max(unit / self.weights_noise, least), largest)
            return min(clip, steepest)
        clip = odds_clip(self._noise * math.sqrt(self.objective.design.n_features))
        return clip if loss.has_odds else min(2.0 * clip, steepest)

    @cached_property
    def _bends(self) -> tuple[np.ndarray, np.ndarray]:
        """Second derivatives of log odds for a constant model, and the directions of outputs."""
        bends = self.risk.loss.second_derivative(*_at(self.odds))
        return np.linalg.eigh(bends.reshape(len(self.odds), -1))

    @property
    def shares(self) -> np.ndarray:
        """Second derivatives that clipping leaves on average, in the directions of outputs."""
        loss = self.risk.loss
        if not loss.has_odds:
            return np.full(loss.n_outputs, typical_curvature(loss, self.spread, self._slope))
        return self._left_by_clipping(self._bends[0])

    def _left_by_clipping(self, bends: np.ndarray) -> np.ndarray:
        """Second derivatives of log odds that clipping leaves of those of the loss."""
        return np.maximum(bends * math.sqrt(min(self._slope, 1.0)), rules.LEAST_CURVATURE)

    @property
    def _step(self) -> float:
        """Length of the steps that solves are undone to, in units of Newton's."""
        if self.level.is_pure:
            return 1.0
        noise = self.weights_noise
        if self.risk.loss.has_odds:  # that of log odds is larger where they are flatter
            noise *= 0.25 * len(self.odds) / float(self._bends[0].sum())
        limit = rules.FULL_STEPS_NOISE[not self.is_squared]
        return min(max(math.sqrt(limit / noise), rules.SHORTEST_STEP), 1.0)

    @property
    def _undone_shares(self) -> np.ndarray:
        """Second derivatives that solves are undone for."""
        return self.shares / self._step

    @property
    def _slope(self) -> float:
        """Largest slope that clipping leaves to a class, for a row of length 1."""
        loss, clip = self.risk.loss, self.clip
        if isinstance(loss, OneVsRestLoss):
            return clip / math.sqrt(2.0 * (loss.n_classes - 1))
        return clip if loss.n_margins == 1 else clip / math.sqrt(2.0)

    def _shape_of_loss(self, prepared: Preparation) -> Curvature:
        """Return what is known of the mean loss on prepared rows."""
        several = self.risk.loss.has_odds
        return Curvature(
            moments=prepared.moments,
            directions=prepared.directions,
            shares=self._undone_shares,
            outputs=self._bends[1] if several else np.eye(len(self.odds)),
            constant=prepared.affine.constant,
        )

    def _shape_at(self, curvature: Curvature, bends: np.ndarray) -> Curvature:
        """Return the same for mean second derivatives of log odds: margins make them flatter.

        Without second moments of rows nobody knows how large margins are.
        """
        if self.preparation.moments is None:
            return curvature
        values, outputs = np.linalg.eigh(bends)
        shares = self._left_by_clipping(values) / self._step
        return replace(curvature, shares=shares, outputs=outputs)

    @property
    def n_solves(self) -> int:
        return self._solves[0]

    @property
    def penalty(self) -> float:
        """Penalty of a solve."""
        return self._relative_penalty * float(self._undone_shares.mean()) * self.curvature

    def _penalty_of(self, t: int) -> float:
        """Penalty of solve t, growing without second moments (theory/preparation.md, Lemma D)."""
        if self.preparation.moments is not None or self.level.is_pure:
            return self.penalty
        counts = np.arange(1.0, t + 1.0) ** self._power
        growing = 2.0 * float(counts.sum() / counts[-1]) - 1.0
        return self.penalty * min(growing / self._relative_penalty, 1.0)

    @property
    def _power(self) -> int:
        """Power of its number by which a solve counts."""
        return self._solves[2]

    @property
    def _relative_penalty(self) -> float:
        """The same in units of the mean curvature."""
        return self._solves[1]

    @property
    def _solves(self) -> tuple[int, float, int]:
        """Their number, the penalty in units of the mean curvature, and how later ones count."""
        if self.level.is_pure:  # epsilons add, so that many cost much
            return rules.PURE_SOLVES[self.weights_noise > rules.PURE_LITTLE_NOISE]
        return (rules.SOLVES_OF_ODDS if self.risk.loss.has_odds else rules.SOLVES)[self._row]

    @property
    def _row(self) -> int:
        """Row of the tables of solves."""
        noise = self.weights_noise
        if not self.risk.loss.has_odds:
            return int(noise > rules.LITTLE_NOISE)
        # relative to what tells classes apart, 1 for classes of equal sizes
        n_margins = self.risk.loss.n_margins
        noise /= float(self._bends[0].mean()) * (n_margins if n_margins > 1 else 4.0)
        return bisect_left(rules.NOISES_OF_ODDS, noise)

    @property
    def mechanism(self) -> AdditiveMechanism:
        """Noise of all solves as one."""
        sensitivity = self.sensitivity
        if sensitivity is None:
            changes = self.objective.neighbouring.n_changes
            sensitivity = changes * self.clip / (self.objective.design.n_records * self.penalty)
        return self.level.mechanism(sensitivity)

    @property
    def releases(self) -> tuple[Release, ...]:
        objective = self.objective
        solves = self.mechanism.describe(
            f"solutions on prepared rows, {self.n_solves} as one",
            objective.dimension,
            objective.design.n_records,
            "docs/theory/preparation.md, Theorem 1",
            objective.neighbouring,
        )
        last = self.temperature
        after = () if last is None else (last.describe(),)
        return (*self.preparation.releases, solves, *after)

    def planned_noise(self) -> PlannedNoise:
        # margins of rows whose mean square norm is 1 have the noise of a weight
        undone = self._undone(self._undone_shares * self.curvature)
        noise = self.mechanism.deviation(self.objective.dimension)
        noise *= math.sqrt(float((undone**2).mean()))
        design = self.objective.design
        norm = math.sqrt(max(design.feature_norm**2 - design.intercept**2, 0.0))
        margins = MarginNoise(coef=noise / norm, average_row=noise, rare_row=noise)
        return PlannedNoise(margins, sampling_noise(self.risk.loss, design))

    def _carried(
        self, prepared: Preparation, curvature: Curvature, weights: np.ndarray, kept: np.ndarray
    ) -> np.ndarray:
        """Factors of the variances by what a solve leaves of the noise before it, shape (k,).

        A solve is undone for the curvature of the plan; that of large margins is smaller, so that a
        part of the private point before it stays. `weights` are averages of solutions in the
        curvature's directions, `kept` what shrinkage has left of them.
        """
        d = len(prepared.moments)
        before, features = weights[:, :d], kept[:, :d]
        shrinkage = (before * features).sum(axis=1)
        shrinkage /= np.maximum((before**2).sum(axis=1), 1e-300)
        covariance = (features * prepared.moments) @ features.T
        covariance = curvature.outputs @ covariance @ curvature.outputs.T
        rest = row_squares(prepared.moments, float(prepared.moments.sum()))
        found = clipped_curvature(
            self.risk.loss,
            prepared.centering.offsets,
            covariance,
            self.clip,
            rest + prepared.affine.constant**2,
            spread=self.spread if self.is_squared else 1.0,
        ).mean
        own = np.diag(curvature.outputs.T @ found @ curvature.outputs) * self.curvature
        planned = curvature.shares * self.curvature
        stays = 1.0 - self._undone(planned) / self._undone(own)
        stays = (stays * shrinkage).tolist()
        return np.array([carried_noise(self.n_solves, each, self._power) for each in stays])

    def _undone(self, curvature: np.ndarray) -> np.ndarray:
        """What the noise of a release is multiplied by for some curvatures of outputs."""
        return (curvature + self.penalty) / curvature

    @property
    def is_level(self) -> bool:
        return self.weights_noise <= _LEVEL

    @property
    def is_best(self) -> bool:
        """Whether no other method that uses a solver was better."""
        return self.weights_noise <= _BEST

    def alarms(self) -> tuple[str, ...]:
        if not self._is_noisy:
            return ()
        return ("The noise is large: hardly better than a constant model is to be expected.",)

    def remarks(self) -> tuple[str, ...]:
        sentences = [
            f"{self.n_solves} solves with the penalty {self.penalty:.3g} on prepared rows, whose "
            "shrinkage is undone by the released moments"
        ]
        if self.objective.is_penalised:
            sentences.append(AFTER_RELEASES)
        return tuple(sentences)

    def to_dict(self) -> dict[str, Any]:
        return {
            "alpha": self.objective.alpha,
            "solve_alpha": self.penalty,
            "n_solves": self.n_solves,
            "clip_norm": self.clip,
            "weights_noise": self.weights_noise,
            "is_whitened": self.preparation.moments is not None,
            **self._shares_found(),
        }

    @property
    def has_class_shares(self) -> bool:
        """Whether the shares of the classes are known after the first release."""
        is_known = self.preparation.centering is not None
        return is_known and self.risk.loss.has_odds and self.objective.design.intercept > 0

    def _shares_found(self) -> dict[str, Any]:
        shares = self.class_shares
        return {} if shares is None else {"class_shares": list(shares)}

    def run(self, data: Records, run: Run) -> Result:
        self.objective.design.check(data)
        data.check_targets(self.risk.loss)
        with without_warnings():
            data = data.in_double()
            prepared = self.preparation.prepare(data, run.noise)
            plan = replace(self, spread=prepared.spread, curvature=float(prepared.moments.mean()))
            if self.risk.loss.has_odds:
                plan = replace(plan, odds=tuple(prepared.centering.offsets.tolist()))
            if self.has_class_shares:
                shares = class_shares(self.risk.loss, prepared.centering.offsets)
                plan = replace(plan, class_shares=tuple(shares.tolist()))
            weights, left, plan = plan._solved(data, prepared, run)
            centered = prepared.centered_weights(weights)
            kept = self._kept(prepared, left, centered)
            centered[:, : kept.shape[1]] *= kept
            factor, shift, offsets = 1.0, 0.0, prepared.centering.offsets
            if self.temperature is not None:
                if self.risk.loss.has_odds and self._noise > rules.FACTOR_NOISE:
                    factor = rules.FIRST_FACTOR
                start = factor
                factor, shift = self.temperature.release(
                    prepared.rows, centered, offsets, factor, run.noise, prepared.spread
                )
            raw, scaled = centered, factor * centered
            centered, offsets = penalised_rows(
                self.objective,
                prepared.rows,
                scaled,
                offsets + shift,
                prepared.spectrum,
                prepared.spread,
            )
            if self.is_balanced:  # the log odds of a rare class do not stay
                centered[:, len(prepared.moments) :] = 0.0
                offsets = np.zeros_like(offsets)
            point = prepared.rows.coefficients(centered, offsets, data.intercept)
            tempered = None
            if self.temperature is not None:
                tempered = self.temperature.noise(
                    raw,
                    prepared.centering.offsets,
                    prepared.spectrum.covariance(raw[:, : len(prepared.moments)]),
                    (start, factor),
                    float(np.ravel(shift)[0]),
                    prepared.spread,
                )
            noise = centered_noise(
                prepared,
                left,
                (raw, scaled, centered),
                to_scores=np.asarray(self.risk.loss.class_weights(np.eye(len(raw)))),
                tempered=tempered,
                offset_variance=plan._constant_variance,
                kept=kept,
                moments_noise=(
                    self.preparation.moments_noise(prepared.centering)
                    if self.objective.is_penalised
                    else None
                ),
            )
            return Result(point=point, plan=plan, noise=noise)

    def _kept(self, prepared: Preparation, left: LeftNoise, centered: np.ndarray) -> np.ndarray:
        """Return what is kept of the weights of each feature, shape (n_outputs, n_features).

        All of squares: a rare column with a large effect was worth more than what the noise costs.
        """
        d = len(prepared.moments)
        if prepared.columns is None or not self.risk.loss.has_odds:
            return np.ones((len(centered), d))
        # where no record has a column its noise is that of all solves
        squares = (left.functions @ prepared.whitener) ** 2
        squares *= carried_noise(self.n_solves, 1.0, self._power)
        moments, deviation = prepared.columns
        return kept_of_columns(
            centered[:, :d],
            left.outputs**2 @ (left.variances @ squares),
            moments,
            deviation,
            noise=self._noise,
            n_records=self.objective.design.n_records,
        )

    def _view(self, affine: AffineMap, factors: np.ndarray | None = None) -> ClippedSlopes:
        """Return the view of records as prepared rows, with factors of the losses of groups."""
        steepest = largest_residual(self.risk.loss) if self.risk.loss.has_odds else None
        return ClippedSlopes(affine=affine, clip=self.clip, factors=factors, steepest=steepest)

    def _clipped(self, offsets: np.ndarray, has_factors: bool = False) -> ClippedLoss:
        """Return the loss of that view."""
        loss = clipped(self.risk.loss, offsets, self.clip)
        return loss.with_factors() if has_factors or self.risk.loss.has_odds else loss

    def _solved(
        self, data: Records, prepared: Preparation, run: Run
    ) -> tuple[np.ndarray, LeftNoise, PreparedOutputPlan]:
        """Release solutions, each around the one before; undo and shrink."""
        solved = self.solved(data, prepared, run)
        curvature, mean, beta = solved.curvature, solved.mean, solved.shrunk
        carried = self._carried(prepared, curvature, mean, beta)
        left = LeftNoise.of(curvature, solved.variances * carried[:, None], mean, beta)
        return solved.weights, left, replace(self, sensitivity=solved.sensitivity)

    def solved(
        self,
        data: Records,
        prepared: Preparation,
        run: Run,
        *,
        offsets: np.ndarray | None = None,
        start: np.ndarray | None = None,
        factors: np.ndarray | None = None,
    ) -> Solved:
        """Release solutions, each around the private point before it; undo and shrink.

        Parameters
        ----------
        data : Records
        prepared : Preparation
        run : Run
        offsets : ndarray of shape (n_outputs,), optional
            Of the margins. Default: those of the preparation.
        start : ndarray of shape (n_outputs, width), optional
            Released weights of prepared rows. Default: 0.
        factors : ndarray of shape (n_groups,), optional
            Of the losses of the records of each group: public or released. Weights are then shrunk
            to those at the start. Default: 1, and weights are shrunk to 0.
        """
        objective, clip = self.objective, self.clip
        nominal = not objective.neighbouring.is_replaced
        n_public = objective.design.n_records if nominal else None
        largest = 1.0 if factors is None else float(factors.max())
        relative = None if factors is None else factors / largest
        rows = self._view(prepared.affine, relative).of(data)
        offsets = prepared.centering.offsets if offsets is None else offsets
        loss = self._clipped(offsets, factors is not None)
        curvature = self._shape_of_loss(prepared)
        # solves are of sums over the public number, moments of means over the released one
        public = objective.design.n_records
        part = (prepared.centering.n_records or public) / public
        shape = (loss.n_outputs, rows.width)
        path = SolutionPath(curvature.inverse(self.penalty / part, part / largest))
        weights, origin = np.zeros(shape), np.zeros(shape)
        if start is not None:
            weights = start
            origin = origin if factors is None else curvature.rotated(start)
        constant = None if factors is not None else self.constant_model(offsets, curvature)
        average, least_moved, n_solves = Average(shape), math.inf, self.n_solves
        expansion = None
        for t in range(1, n_solves + 1):
            alpha = self._penalty_of(t)
            if t > 1 and constant is not None:
                curvature = self._shape_at(curvature, constant.curvature)
            norm = float(np.linalg.norm(weights))
            size = objective.design.size_ratio * clip * largest
            radius = (norm + size / alpha) * (1.0 + 1e-9)
            problem = PreparedProblem(
                rows,
                prepared.affine,
                loss,
                alpha / largest,  # of losses whose largest factor is 1
                Ball(radius),
                n_public=n_public,
                center=weights.ravel(),
                expansion=expansion,
            )
            problem.learn(path, t)
            expansion = problem.expansion
            _, accuracy, sensitivity = solution_sensitivity(
                problem.constants, objective.neighbouring
            )
            least_moved = min(least_moved, float(sensitivity))
            mechanism = self.level.part(1.0 / n_solves).mechanism(float(sensitivity))
            noisy = solve_and_release(problem, accuracy, mechanism, run, project=False, path=path)
            noisy = noisy.reshape(shape)
            undoing = curvature.factors(alpha / part)
            undone = weights + curvature.rotated_back(undoing * curvature.rotated(noisy - weights))
            deviations = mechanism.deviation(noisy.size) * undoing
            average.add(undone, deviations, curvature, float(t**self._power))
            mean, variances = average.at(curvature)
            beta = origin + self.shrunk(mean - origin, variances, curvature, constant)
            weights = curvature.rotated_back(beta)
        return Solved(
            weights=weights,
            average=average,
            curvature=curvature,
            mean=mean,
            variances=variances,
            shrunk=beta,
            sensitivity=least_moved,
        )

    def constant_model(self, offsets: np.ndarray, curvature: Curvature) -> SolvedConstant | None:
        """Return what the constant is shrunk to: log odds with an intercept alone have one."""
        is_known = self.risk.loss.has_odds and curvature.constant
        return SolvedConstant(self.risk.loss, offsets) if is_known else None

    def shrunk(
        self,
        weights: np.ndarray,
        variances: np.ndarray,
        curvature: Curvature,
        constant: SolvedConstant | None = None,
    ) -> np.ndarray:
        """Shrink weights by their noise, in coordinates of the directions."""
        return shrunk(
            weights,
            variances,
            curvature,
            cap=self._cap,
            least=self._least_prior,
            constant_variance=self._constant_variance,
            constant=None if constant is None else constant.around(curvature),
        )[0]

    @property
    def _least_prior(self) -> float:
        """Least prior variance of weights over that of their noise."""
        return rules.LEAST_PRIOR if self.temperature is not None else 0.0

    @property
    def _cap(self) -> float:
        """Largest variance of the margins."""
        if self.is_squared:
            is_small = self._is_noisy or self.level.is_pure
            return self.spread**2 * rules.CAPS_OF_NUMBERS[not is_small]
        return rules.CAP_OF_CLASSES * self.risk.loss.margin_scale**2

    @property
    def _constant_variance(self) -> np.ndarray:
        """Variance of the margins of constant models that comes from the noise of their release."""
        centering, loss = self.preparation.centering, self.risk.loss
        of_one = np.ones(loss.n_outputs)
        if centering is None or not (self.is_squared or loss.has_odds):
            return loss.margin_scale**2 / len(of_one) * of_one
        deviation = centering.sum.deviation / self.objective.design.n_records
        if self.is_squared:  # the best constant is the mean for squares alone
            moved = 0.0 if loss.is_quadratic else self.spread**2
            return ((deviation * centering.target_clip * loss.target_bound) ** 2 + moved) * of_one
        if self._is_noisy:
            return 0.0 * of_one
        if loss.n_margins > 1:  # indicators over sqrt(2) were released
            deviation *= math.sqrt(2.0)
        return np.asarray((deviation / np.maximum(self._bends[0], 0.05)) ** 2)


def carried_noise(n_solves: int, stays: float, power: int) -> float:
    """Variance of an average of solves by that of one whose solves forget the point before them.

    Solve t returns `stays` times the average of those before it, and noise; it has the weight
    ``t**power``.
    """
    stays = min(max(stays, -1.0), 0.95)
    average, total, counted = np.zeros(n_solves), np.zeros(n_solves), 0.0
    counts = np.arange(1.0, n_solves + 1.0) ** power
    for t, count in enumerate(counts.tolist()):
        solve = stays * average
        solve[t] += 1.0
        total, counted = total + count * solve, counted + count
        average = total / counted
    plain = counts / counted
    return float((average**2).sum() / (plain**2).sum())


def covers_prepared(objective: Objective, budget: PrivacyBudget) -> bool:
    """Whether the method is proven for the objective, and better than others for pure privacy."""
    is_covered = can_be_clipped(objective.risk.loss)
    is_narrow = objective.design.n_features <= LARGEST_WIDTH
    is_mean = objective.risk.is_mean and not objective.population
    is_worth_it = not budget.is_pure or type(objective.risk.loss) is HalfSquaredLoss
    return is_covered and is_narrow and is_mean and is_worth_it


def plan_prepared_output(objective: Objective, budget: PrivacyBudget) -> PreparedOutputPlan:
    """Choose the parts of the budget, clipping, penalty and the number of solves.

    Parameters
    ----------
    objective : Objective
        That :func:`covers_prepared`. Its penalty enters after the releases.
    budget : PrivacyBudget
    """
    if not covers_prepared(objective, budget):
        raise ValueError("Prepared output perturbation is not proven for this objective.")
    loss, design, relation = objective.risk.loss, objective.design, objective.neighbouring
    if not objective.risk.is_smooth:
        objective = objective.smoothed(rules.SMOOTHED_SPREAD * loss.margin_scale)
        loss = objective.risk.loss
    level = Level.of(budget)
    is_shrunk = needs_moments(objective)
    preparation = plan_preparation(loss, design, relation, level, is_shrunk)
    temperature, share = None, 0.0
    if not level.is_pure and (loss.has_odds or loss.is_quadratic):
        noise = relation.n_changes / (design.n_records * level.mu)
        share = temperature_share(loss if loss.has_odds else LogisticLoss(), noise)
    if share:
        temperature = plan_temperature(loss, design, relation, level.part(share).mu)
    return PreparedOutputPlan(
        objective=objective,
        preparation=preparation,
        level=level.part(1.0 - preparation.share - share),
        total=level,
        temperature=temperature,
        spread=math.sqrt(PRIOR_VARIANCE) * (loss.target_bound or 1.0),
        odds=(0.0,) * loss.n_outputs,
        curvature=1.0 / design.n_features,
    )


def _at(odds: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return margins and a target of one record."""
    margins = np.array(odds) if len(odds) == 1 else np.array([odds])
    return margins, np.zeros(1, dtype=np.intp)
