"""The default of the linear models: means, noisy steps, size and shift; all else is free.

A user's penalty has second moments released, too. Theory: docs/theory/core.md, Theorem 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from skdp._runtime import spare_processors, without_warnings
from skdp.algorithms.core.attacked_rows import AttackedGradients, Moves
from skdp.algorithms.core.centered_rows import (
    CenteredRecords,
    ClippedGradients,
    centered,
)
from skdp.algorithms.core.forecast import Found, is_free
from skdp.algorithms.core.intervals import Newton, reach_and_clip, release_newton
from skdp.algorithms.core.margin_laws import CLASSES
from skdp.algorithms.core.means import release_means
from skdp.algorithms.core.noisy_sums import Level
from skdp.algorithms.core.penalty import needs_moments, penalised_rows
from skdp.algorithms.core.plan import LONGEST, PENALTY_SHARE, PlannedCore
from skdp.algorithms.core.post import (
    LEAST_RESIDUAL,
    StepNoise,
    base_at,
    expected_bends,
    posterior_of_slopes,
    posterior_of_steps,
    root_of,
    step_curvatures,
    step_variances,
    weight_noise,
)
from skdp.algorithms.core.second_moments import plan_row_moments
from skdp.algorithms.core.size import (
    Corrected,
    Derivatives,
    Hypotheses,
    ShortenedSquares,
    Size,
    Square,
    relevant,
    shrunk,
)
from skdp.algorithms.core.slopes import typical
from skdp.algorithms.core.solved_rows import solved
from skdp.algorithms.core.solves import N_SOLVES, PURE_SOLVES
from skdp.algorithms.core.spectrum import WIDEST, Spectrum, told_curvature
from skdp.algorithms.core.steps import Steps
from skdp.algorithms.plan import Result, Run
from skdp.mechanisms import GaussianMechanism, NoiseSource
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.gaussian_dp import gaussian_mu
from skdp.problems import AdversarialRisk, EmpiricalRisk, Objective, Records
from skdp.problems.rounding import two_margins, two_norms
from skdp.problems.slope_clipped import can_be_clipped

#: A point, its noisy gradient, and the deviation of the noise.
Told = tuple[np.ndarray, np.ndarray, float]
#: Wanted noise of the means, least and largest part of the squared mu for them.
_MEANS_NOISE, _MEANS_SHARES = 0.05, (0.02, 0.12)
#: Least mean square of centered rows; least curvature of a direction over the average one.
_LEAST_TRACE, _FLATTEST = 0.1, 1e-6
#: Power of the part of a constant that steps reach, which the constant of log odds need not follow;
#: at which steps it is found again.
_FOLLOWED, _EVERY = 4.0, 4


@dataclass(frozen=True, kw_only=True)
class CorePlan(PlannedCore):
    """All releases, in their order."""

    def run(self, data: Records, run: Run) -> Result:
        with without_warnings(), spare_processors(data.is_sparse and data.in_memory):
            rows, found = self.prepare(data, run.noise)
            spectrum, of_moments, moments = self.spectrum(rows, run)
            kept: list[Told] = []
            weights = self.stepped(rows, found, run, kept=kept)
            weights, size, theta = self.sized(rows, found, weights, run)
            theta, base, slope = self.corrected(rows, found, weights, theta, run)
            scaled, offsets = self.margins(rows, found, weights, theta, base)
            of_shift = np.array([1.0, 0.0])
            if self.objective.is_penalised:
                given = self.objective, rows, scaled, offsets
                scaled, offsets, of_shift = penalised_rows(*given, spectrum, found.scale)
            point = rows.coefficients(scaled, offsets, data.intercept)
            plan = replace(self, found=replace(found, size=size, theta=theta))
            if self.attack is not None:  # how it bends losses is not known
                return Result(point=point, plan=plan)
            noise = weight_noise(
                rows,
                weights,
                slope,
                theta,
                self.step_noise(rows, found, weights, size, kept, moments),
                found.scale,
                np.asarray(self.loss.class_weights(np.eye(len(weights)))),
                spectrum,
                scaled if self.objective.is_penalised else None,
                of_moments,
                *of_shift,
            )
            transcript = None
            if self.has_intervals:
                transcript = self.newton_step(rows, found, scaled, offsets, theta, run)
            return Result(point=point, plan=plan, noise=noise, transcript=transcript)

    def prepare(self, data: Records, noise: NoiseSource) -> tuple[CenteredRecords, Found]:
        """Release 1: return centered rows, with offsets in units of the loss, and the steps."""
        self.objective.design.check(data)
        data.check_targets(self.loss)
        bound = self.loss.target_bound or 1.0
        means = release_means(self.means, data, self.n_classes, bound, noise)
        found = self.planned(means)
        offsets, constant = self.offsets(found, found.start), found.steps.constant
        centering = replace(means.centering, offsets=offsets, constant=constant)
        return centered(data, centering), found

    def sized(
        self,
        rows: CenteredRecords,
        found: Found,
        weights: np.ndarray,
        run: Run | None = None,
        is_sparse: bool = True,
    ) -> tuple[np.ndarray, Size, Corrected]:
        """Return weights of margins of deviation 1, and the posterior of their size and shift.

        With a run the mean square of margins is released, where the plan has that round. Where it
        `is_sparse`, many features may have no weights.
        """
        d, k = self.objective.design.n_features, self.loss.n_outputs
        norm = float(np.linalg.norm(weights[:, :d]))
        constant = rows.constant * weights[:, d:].ravel()
        weights = weights * (np.arange(weights.shape[1]) < d)
        if found.law is None:
            size = shrunk(norm, found.steps, k, is_free(self.loss))
            if is_sparse:
                weights[:, :d], size = relevant(
                    weights[:, :d], size, found.steps.variance, found.sampled(size)
                )
            spread = found.spread
            factor = typical(self.loss, spread).size
            factor /= typical(self.loss, spread, found.steps.clip).size
            theta = posterior_of_slopes(
                found.means, found.steps, size, found.start, constant, factor
            )
            return weights / size.deviation, size, theta
        given = Hypotheses(norm, found.steps, found.law, k, not self.n_classes)
        typical_size = given.posterior(found.steps.variance)
        root = typical_size.deviation * np.eye(k)
        public = self._passed(rows, found, root), root**2, found.scale, self.unit
        noise = float(step_variances(self.loss, found.steps, *public).mean())  # of a mean weight
        size = given.posterior(noise)
        if run is not None and self.has_square:
            size = given.posterior(noise, self._square(rows, found, weights, size.deviation, run))
        if is_sparse:
            weights[:, :d], size = relevant(weights[:, :d], size, noise, found.sampled(size))
        theta = Corrected.of(size.size, size.variance, np.zeros(k), 0.0)
        if self.attack is not None and self.n_classes:  # which moves the constant
            theta = posterior_of_slopes(found.means, found.steps, size, found.start, constant, 1.0)
        elif rows.has_intercept:
            theta = posterior_of_steps(found.means, found.steps, size, found.balance, constant)
        return weights / size.deviation, size, theta

    def _passed(self, rows: CenteredRecords, found: Found, root: np.ndarray) -> np.ndarray:
        """Return margins of the mean record where steps have passed, in units of the loss.

        The constant of log odds has followed the root of the covariance of others, and what
        clipping leaves of residuals as far as steps reach.
        """
        steps = found.steps
        if found.balance is None or not rows.has_intercept or len(root) >= CLASSES:
            return rows.centering.offsets
        base = found.balance.base(root, found.start)
        clipped = found.balance.base(root, base, steps.clip)
        reached = min(steps.reached(steps.constant**2 * steps.bend), 1.0)
        return self.offsets(found, base + reached * (clipped - base))

    def _square(
        self,
        rows: CenteredRecords,
        found: Found,
        weights: np.ndarray,
        deviation: float,
        run: Run,
    ) -> Square:
        """Release the mean square of margins over a deviation."""
        statistic = ShortenedSquares(rows.weights(weights / deviation))
        reached = rows.norm_bound * float(np.linalg.norm(weights)) / deviation
        moved = statistic.steepness * two_margins(self.objective.design.width, reached)
        noisy, error = self.squares.release(rows.full_total(statistic), run.noise, moved)
        n = found.means.n_records
        return Square(deviation, float(noisy[0]) / n, error / n)

    def step_noise(
        self,
        rows: CenteredRecords,
        found: Found,
        weights: np.ndarray,
        size: Size,
        kept: Sequence[Told] = (),
        moments: tuple[np.ndarray, float] | None = None,
    ) -> StepNoise:
        """Return the noise of weights of margins of deviation 1.

        Gradients that were `kept`, and released moments, tell the curvature of directions.
        """
        # rows are shorter by one deviation of the noise of their scale
        trace = max(1.0 - 2.0 * found.means.noise / rows.centering.scale**2, _LEAST_TRACE)
        d = self.objective.design.n_features
        raw = size.deviation * root_of(weights[:, :d])
        given = self._passed(rows, found, raw), trace * raw @ raw, found.scale, self.unit, trace
        bends, axes = step_curvatures(self.loss, found.steps, *given)
        average, spectrum = float(np.mean(bends)), Spectrum.public(d)
        values: np.ndarray = np.reshape(bends, (-1, 1))
        if kept and d <= WIDEST and average > 0.0:
            factors = values / average  # of outputs, of which each has its constant
            points, gradients, deviations = map(np.array, zip(*kept, strict=True))
            told = np.einsum("tki,ka->tai", points[..., :d], axes)
            gradients = np.einsum("tki,ka->tai", gradients[..., :d], axes)
            told -= np.average(told, axis=0, weights=deviations.min() ** 2 / deviations**2)
            told, directions = told_curvature(
                (factors * told).reshape(-1, d),
                gradients.reshape(-1, d),
                np.repeat(deviations, len(factors)),
                average,
                *(moments or ()),
            )
            values, shares = factors * told, np.maximum(told, _FLATTEST * average)
            spectrum = Spectrum(moments=shares / shares.sum(), directions=directions.T)
        variances = np.asarray(found.steps.variances(values.ravel())).reshape(values.shape)
        return StepNoise(variances / size.deviation**2, axes, spectrum, size.slopes)

    def margins(
        self,
        rows: CenteredRecords,
        found: Found,
        weights: np.ndarray,
        theta: Corrected,
        base: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return weights and offsets of a size and shift, in units of the loss."""
        offsets = self.offsets(found, base + theta.theta[1:])
        return found.scale * theta.theta[0] * weights, offsets

    def spectrum(
        self, rows: CenteredRecords, run: Run
    ) -> tuple[Spectrum, float, tuple[np.ndarray, float] | None]:
        """Release second moments, if the plan has them.

        Also return the deviation of the noise of a diagonal entry, and both as released.
        """
        design = self.objective.design
        d = design.n_features
        if self.moments is None:
            return Spectrum.public(d), 0.0, None
        matrix, unit = self.moments.release(rows, run.noise)[:d, :d], self.moments.noise
        factor = max(1.0, 0.5 / max(float(np.trace(matrix)), unit))
        values, directions = np.linalg.eigh(factor * matrix)
        spectrum = Spectrum.released(values, directions, 0.5 * unit * factor)
        error = unit / math.sqrt(2.0 * design.width)
        return spectrum, factor * error, (matrix, error)

    def newton_step(
        self,
        rows: CenteredRecords,
        found: Found,
        scaled: np.ndarray,
        offsets: np.ndarray,
        theta: Corrected,
        run: Run,
    ) -> Newton:
        """Release score and curvature at the model; the constant is as large as a feature."""
        left = max(1.0 - float(theta.theta[0]) ** 2, LEAST_RESIDUAL)
        deviation = found.spread * math.sqrt(left)
        reach, clip = reach_and_clip(self.newton, rows, self.loss)
        constant = 1.0 / (reach * math.sqrt(self.objective.design.n_features))
        given = replace(rows.centering, constant=constant, scale=reach * rows.centering.scale)
        rows, scaled = centered(rows.records, given), reach * scaled
        return release_newton(
            self.newton, rows, self.loss, scaled, offsets, deviation, clip, run.noise
        )

    def stepped(
        self,
        rows: CenteredRecords,
        found: Found,
        run: Run,
        name: str = "noisy steps",
        start: np.ndarray | None = None,
        factors: np.ndarray | None = None,
        offsets: np.ndarray | None = None,
        kept: list[Told] | None = None,
    ) -> np.ndarray:
        """Release 2: the mean iterate, shape (n_outputs, width), in the basis.

        The constant of log odds follows the size of the margins, or an offset is given.
        Start, offsets beside rows, and factors of the clipped gradients of each group's records are
        public or released. Sums are of factors over the largest one. Points, noisy gradients and
        deviations of their noise are appended to `kept`.
        """
        steps, loss, d = found.steps, self.loss, self.objective.design.n_features
        if not isinstance(steps, Steps):
            return solved(self, rows, found, run, start, factors, offsets)
        clip, per_record = found.clip, self.unit / found.spread
        # of more classes finding a base would take longer than the steps
        follows = rows.has_intercept and offsets is None and loss.n_outputs < CLASSES
        balance = found.balance if follows else None
        offsets = rows.centering.offsets if offsets is None else offsets
        size = clip * (rows.amplification + bool(self.attack))
        sums = replace(self.sum_of_steps(found), size=size)
        shape = (loss.n_outputs, self.objective.design.width)
        weights, change, total = np.zeros((3, *shape))
        base, reached = found.start, steps.reached(steps.constant**2 * steps.bend)
        followed = 1.0 - min(reached, 1.0) ** _FOLLOWED
        if start is not None:
            weights = start
        if factors is not None:
            per_record, factors = per_record * float(factors.max()), factors / factors.max()
        per_record /= found.means.n_records
        run.noise.reserve(steps.n_steps * total.size)
        for step in run.counted(name, steps.n_steps):
            at = weights
            if balance is not None:
                if step % _EVERY == 0:
                    base = balance.base(followed * root_of(weights[:, :d]), base)
                at = weights.copy()
                at[:, d] += (base - found.start) / rows.constant
            own = found.scale * at
            gradients = ClippedGradients(
                loss=loss,
                weights=rows.weights(own),
                offset=offsets.squeeze(),
                clip_norm=clip,
                group_factors=factors,
            )
            longest, turn = rows.norm_bound, 0.0
            if self.attack is not None:
                moves = Moves.worst(self.attack, loss, gradients.weights, rows)
                gradients = AttackedGradients(**vars(gradients), moves=moves)
                longest, turn = longest + gradients.reach, gradients.steepness
            with np.errstate(divide="ignore"):
                exact = rows.sums(rows.full_total(gradients))
            size = longest * float(np.linalg.norm(own)) + float(np.linalg.norm(offsets))
            moved = two_margins(d + self.n_classes, size) * max(1.0, loss.curvature)
            moved *= longest + turn
            moved += two_norms(d, rows.cancellation + bool(self.attack)) * clip
            multiplier = 1.0 / (self.mu_steps * math.sqrt(steps.parts[step]))
            mechanism = GaussianMechanism(sums.bound(moved), multiplier)
            noisy = mechanism.release(exact.ravel(), run.noise)
            gradient = np.nan_to_num(noisy).reshape(shape) * per_record
            if kept is not None and d <= WIDEST:
                kept.append((at, gradient, mechanism.noise_scale * per_record))
            change = steps.momentum * change - steps.size * gradient
            weights = weights + change
            length = float(np.linalg.norm(weights))
            if not length < math.inf:  # no record may meet weights that are not numbers
                weights, change = np.zeros(shape), np.zeros(shape)
            elif length > LONGEST:
                weights *= LONGEST / length
            total += weights
        return np.asarray(total / steps.n_steps)

    def corrected(
        self,
        rows: CenteredRecords,
        found: Found,
        weights: np.ndarray,
        theta: Corrected,
        run: Run,
    ) -> tuple[Corrected, np.ndarray, np.ndarray]:
        """Release 3: rounds of size and shift; also return the base and its derivative."""
        means, k, loss = found.means, self.loss.n_outputs, self.loss
        if not self.shares.size:
            return theta, found.start, np.zeros(k)
        width, scale = self.objective.design.width, found.scale
        length = float(np.linalg.norm(weights))
        sums = self.sum_of_round(means)
        bend = np.eye(k)
        if found.balance is not None:
            bend = found.balance.curvature(np.zeros((k, k)), found.start)
            bend *= k / np.trace(bend)
        root = root_of(weights[:, : self.objective.design.n_features])
        # without an intercept margins have no base
        balance, base = (found.balance, found.start) if rows.has_intercept else (None, np.zeros(k))
        for _ in range(self.n_rounds):
            base, slope = base_at(balance, float(theta.theta[0]), root, base)
            statistic = Derivatives(
                loss=loss,
                weights=rows.weights(weights),
                size=float(theta.theta[0]),
                shift=self.offsets(found, base + theta.theta[1:]),
                unit=self.unit,
                spread=found.spread,
                top=sums.size,
            )
            reached = rows.norm_bound * length * (1.0 + statistic.size)
            reached += (float(np.linalg.norm(statistic.shift)) + loss.target_bound) / scale
            moved = statistic.steepness * two_margins(width + self.n_classes, reached)
            noisy, tau = sums.release(rows.full_total(statistic), run.noise, moved)
            n = means.n_records
            bends = expected_bends(found.balance, base, float(theta.theta[0]), root, sums.size)
            theta = theta.after(noisy / n, bends, tau / n, n, slope, bend)
        return theta, *base_at(balance, float(theta.theta[0]), root, base)


def plan_core(objective: Objective, budget: PrivacyBudget, is_solved: bool = False) -> CorePlan:
    """Choose the parts of the budget from public numbers; solves may have delta == 0."""
    if not is_solved:
        return plan_core_of(objective, gaussian_mu(budget.epsilon, budget.delta))
    level = Level.of(budget)
    n_solves = PURE_SOLVES if level.is_pure else N_SOLVES
    return plan_core_of(objective, level.mu, n_solves, level.is_pure)


def covers_solves(objective: Objective, budget: PrivacyBudget) -> bool:
    """Whether solves are proven for an objective, and better than others for pure privacy."""
    is_covered = can_be_clipped(objective.risk.loss)
    is_mean = objective.risk.is_mean and not objective.population
    return is_covered and is_mean and (not budget.is_pure or objective.risk.loss.is_quadratic)


def plan_core_of(
    objective: Objective, mu: float, n_solves: int | None = None, is_pure: bool = False
) -> CorePlan:
    """Choose the parts of a Gaussian differential privacy, or epsilon, from public numbers."""
    attack = None
    if isinstance(objective.risk, AdversarialRisk):
        attack = objective.risk.attack if objective.risk.attack.radius else None
        objective.risk.attack.move(np.ones(objective.design.n_features))  # is it one?
        objective = replace(objective, risk=EmpiricalRisk(objective.risk.loss))
    if not objective.risk.is_smooth:
        objective = objective.smoothed(0.5 * objective.risk.loss.margin_scale)
    plan = CorePlan(
        objective=objective,
        mu=mu,
        share=_MEANS_SHARES[1],
        attack=attack,
        n_solves=n_solves,
        is_pure=is_pure,
    )
    design = objective.design
    if objective.neighbouring.is_replaced and not design.is_slack:
        needed = plan.means.sensitivity / (design.n_records * mu * _MEANS_NOISE)
        needed = math.sqrt(plan.means.n_entries + 1) * needed if is_pure else needed**2
        plan = replace(plan, share=min(max(needed, _MEANS_SHARES[0]), _MEANS_SHARES[1]))
    spread = math.sqrt(design.n_features) * plan.means.deviation / design.n_records
    if not design.intercept or spread >= 1.0:  # rows stay where they are, or Stein's factor is 0
        plan = replace(plan, has_rows=False)
    if attack is not None or not (objective.alpha and needs_moments(objective)):
        return plan
    mu = plan.part(PENALTY_SHARE).mu
    moments = plan_row_moments(design, objective.neighbouring, mu, is_pure)
    return replace(plan, moments=moments)
