"""The default of the linear models: means, noisy steps, size and shift; all else is free.

Only this module and :mod:`~.means` meet records. A plan holds public numbers; what the first
release adds is a :class:`Found`. Theory: docs/theory/core.md, Theorem 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from skdp._runtime import spare_processors, without_warnings
from skdp.algorithms.core.margin_laws import Balance, Law, basis, odds, squares
from skdp.algorithms.core.means import (
    CLASS,
    VARIANCE,
    Means,
    found_means,
    plan_means,
    release_means,
)
from skdp.algorithms.core.post import (
    base_at,
    curvature_at,
    equivalent_penalty,
    expected_bends,
    posterior_of_size,
    posterior_of_slopes,
    posterior_of_steps,
    root_of,
    step_variances,
    weight_noise,
)
from skdp.algorithms.core.size import Corrected, Derivatives, Size, posterior, shrunk
from skdp.algorithms.core.slopes import constants, plan_slope_steps, typical
from skdp.algorithms.core.steps import TYPICAL, Steps, plan_steps
from skdp.algorithms.plan import Plan, Result, Run
from skdp.algorithms.preparation import rules
from skdp.algorithms.preparation.attacked_rows import AttackedGradients, Moves
from skdp.algorithms.preparation.centered_chunks import centered
from skdp.algorithms.preparation.centered_rows import CenteredRecords, ClippedGradients
from skdp.algorithms.preparation.noisy_sums import NoisySum
from skdp.algorithms.preparation.penalty import (
    AFTER_RELEASES,
    Spectrum,
    needs_moments,
    penalised_rows,
)
from skdp.algorithms.preparation.second_moments import RowMomentsPlan, plan_row_moments
from skdp.algorithms.statistics.clipped_curvature import sampling_noise
from skdp.algorithms.weight_noise import MarginNoise, PlannedNoise
from skdp.mechanisms import GaussianMechanism, NoiseSource
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.gaussian_dp import gaussian_mu
from skdp.privacy.report import Release
from skdp.problems import AdversarialRisk, Attack, EmpiricalRisk, Loss, Objective, Records
from skdp.problems.rounding import two_margins, two_norms

#: Wanted noise of the means, least and largest part of the squared mu for them.
_MEANS_NOISE, _MEANS_SHARES = 0.05, (0.02, 0.12)
#: Part of size and shift, and its rounds.
SIZE_SHARE, ROUNDS = 0.06, 3
#: Part of second moments for the user's penalty.
_PENALTY_SHARE = 0.1
#: Clip of the last release over its noise, and the largest one of log odds.
_TOP, _TOP_OF_ODDS = 0.03, 2.0
#: Rows are expected to vary in so many directions at most; margins over noise below which there is
#: an alarm.
_DIRECTIONS, _LEAST_MARGINS = 100, 0.8
#: Least mean square of centered rows.
_LEAST_TRACE = 0.1
#: Part of the squared length of a move that curvatures grow by.
_REACH = 3.0
#: Norm that no private weights exceed, in units of margins.
_LONGEST = 1e6


@dataclass(frozen=True)
class Found:
    """What follows from releases: the means, then the law and the steps, then the size."""

    means: Means
    law: Law | None
    steps: Steps
    balance: Balance | None
    origin: np.ndarray
    size: Size | None = None
    theta: Corrected | None = None

    @property
    def start(self) -> np.ndarray:
        """Margins of a constant model in the basis."""
        return self.origin if self.balance is None else self.balance.start


@dataclass(frozen=True, kw_only=True)
class CorePlan(Plan):
    """The three releases.

    Attributes
    ----------
    objective : Objective
        Of a smooth loss.
    mu : float
        Of the Gaussian differential privacy of all.
    share : float
        Part of its square for the means.
    has_rows : bool, default=True
        Whether the means of rows are released.
    attack : Attack or None
        That moves the rows of all records in every step.
    moments : RowMomentsPlan or None
        For the user's penalty.
    found : Found or None
        None before the first release.
    """

    objective: Objective
    mu: float
    share: float
    has_rows: bool = True
    attack: Attack | None = None
    moments: RowMomentsPlan | None = None
    found: Found | None = None

    @property
    def loss(self) -> Loss:
        return self.objective.risk.loss

    @property
    def risk(self) -> EmpiricalRisk:
        return self.objective.risk

    @property
    def n_classes(self) -> int:
        """Number of classes; 0 for numbers."""
        if self.loss.target_bound:
            return 0
        return self.loss.n_classes or self.loss.n_outputs + 1

    @property
    def is_other(self) -> bool:
        """Whether steps go by the slopes of any loss: an attack changes those of log odds."""
        if self.loss.link == "logit" and self.attack is not None:
            return True
        return not is_covered(self.loss)

    @property
    def is_free(self) -> bool:
        """Whether predictions do not depend on the size of margins, as those of hinges."""
        return not (self.loss.has_odds or self.loss.target_bound)

    @property
    def size_share(self) -> float:
        """Part of the squared mu for size and shift: 0 for other losses and under attack."""
        return 0.0 if self.is_other or self.attack else SIZE_SHARE

    @property
    def unit(self) -> float:
        """Margins of the loss over those in the basis of log odds."""
        return math.sqrt(2.0) if self.loss.link == "logit" and not self.is_other else 1.0

    @property
    def changes(self) -> float:
        return self.objective.neighbouring.n_changes

    @property
    def means(self) -> NoisySum:
        design, relation = self.objective.design, self.objective.neighbouring
        mu = self.mu * math.sqrt(self.share)
        return plan_means(self.n_classes, design, relation, mu, self.has_rows)

    @property
    def mu_steps(self) -> float:
        moments = 0.0 if self.moments is None else _PENALTY_SHARE
        return self.mu * math.sqrt(1.0 - self.share - self.size_share - moments)

    @property
    def mu_round(self) -> float:
        return self.mu * math.sqrt(self.size_share / ROUNDS)

    @cached_property
    def numbers(self) -> Found:
        """What was found, or what public numbers let expect."""
        return self.found or self._expected()

    @without_warnings()
    def _expected(self) -> Found:
        design = self.objective.design
        d, classes = design.n_features, self.n_classes or 2
        targets = np.full(classes, CLASS / math.sqrt(2.0) / classes)
        if not self.n_classes:
            targets = np.array([0.0, VARIANCE])
        noise = self.means.deviation / design.n_records
        vector = np.concatenate([np.zeros(d), [0.5], targets])
        is_moved = design.intercept > 0.0
        return self.planned(
            found_means(vector, noise, float(design.n_records), False, self.n_classes, is_moved)
        )

    def planned(self, means: Means, largest_factor: float = 1.0) -> Found:
        """Plan the steps, of records with factors up to the largest one.

        Weighted second moments of rows may be larger than others by it.
        """
        design, changes = self.objective.design, largest_factor * self.changes
        n = means.n_records if design.is_slack else float(design.n_records)
        stiffness = largest_factor * self._stiffness(means)
        d, given = design.n_features, (changes, self.mu_steps, stiffness)
        if self.is_other:
            spread, noise = self.spread(means), changes / (n * self.mu_steps)
            steps = plan_slope_steps(self.loss, spread, d, n, noise, given[-1])
            return Found(means, None, steps, None, constants(self.loss, means, spread))
        law = odds(means.shares) if self.n_classes else squares()
        balance = Balance(means.shares) if self.n_classes else None
        return Found(
            means, law, plan_steps(law, self.n_classes, d, n, *given), balance, np.zeros(1)
        )

    def _stiffness(self, means: Means) -> float:
        """Largest curvature over that without an attack."""
        if self.attack is None:
            return 1.0
        reach = self.attack.length(self.objective.design.n_features)
        return 1.0 + _REACH * (reach / (self._norm * means.centering.scale)) ** 2

    @property
    def _norm(self) -> float:
        """Bound on rows without the constant feature."""
        design = self.objective.design
        return math.sqrt(max(design.feature_norm**2 - design.intercept**2, 0.0))

    def _sum(self, name: str, lemma: str, clip: float, mu: float, entries: int) -> NoisySum:
        return NoisySum(
            design=self.objective.design,
            neighbouring=self.objective.neighbouring,
            mu=mu,
            sensitivity=self.changes * clip,
            size=clip,
            n_entries=entries,
            name=name,
            reference=f"docs/theory/core.md, {lemma}",
        )

    def scale(self, means: Means) -> float:
        """Margins of the loss over those of the steps."""
        return self.unit * self.spread(means)

    def offsets(self, means: Means, constants: np.ndarray) -> np.ndarray:
        """Return constants in units of the loss."""
        if not self.objective.design.intercept:
            return np.zeros(self.loss.n_outputs)
        return means.mean * self.loss.target_bound + self.scale(means) * constants

    def spread(self, means: Means) -> float:
        """Deviation of the targets in units of the loss; 1 for classes."""
        return means.deviation * (self.loss.target_bound or 1.0)

    @property
    def releases(self) -> tuple[Release, ...]:
        moments = () if self.moments is None else (self.moments.describe(),)
        last = (self.release_of_size(),) if self.size_share else ()
        return (self.means.describe(), *moments, self.release_of_steps(), *last)

    def release_of_steps(self, name: str = "sums of clipped gradients") -> Release:
        """Describe the release of all steps."""
        steps, entries = self.numbers.steps, self.objective.dimension
        clip = steps.clip * self.spread(self.numbers.means) / self.unit
        name = f"{name}, {steps.n_steps} steps as one"
        return self._sum(name, "Lemma 2", clip, self.mu_steps, entries).describe()

    def release_of_size(self) -> Release:
        """Describe the release of all rounds."""
        top, entries = self._top(self.numbers.means.n_records), 2 * self.loss.n_outputs + 3
        name, mu = f"size and shift, {ROUNDS} rounds as one", self.mu_round * math.sqrt(ROUNDS)
        return self._sum(name, "Lemma 3", top, mu, entries).describe()

    def _top(self, n: float) -> float:
        top = max(_TOP * n * self.mu_round / self.changes, 1.0)
        return min(top, _TOP_OF_ODDS) if self.n_classes else top

    @property
    def has_class_shares(self) -> bool:
        """Whether the shares of the classes are known after the first release."""
        return bool(self.loss.has_odds and self.objective.design.intercept > 0)

    @without_warnings()
    def _planned_margins(self, true: float) -> tuple[float, float, float, float]:
        """Return which part of true margins steps learn, their deviation, noise and best factor."""
        law, steps, k = self.numbers.law, self.numbers.steps, self.loss.n_outputs
        moment, scale = 1.0 / min(steps.n_features, _DIRECTIONS), self.scale(self.numbers.means)
        if law is None:
            margins = typical(self.loss, scale, steps.clip)
            part = margins.bend * moment
            part *= float(steps.responses(np.array([part])).sum())
            seen = part * (margins.size if self.n_classes else true)
        else:
            learnt = steps.learnt(law.pulled(steps.clip), np.array([moment]))
            seen = float(np.interp(true, law.deviations, learnt[:, 0]))
            part = seen / true
        given = np.zeros(k), seen**2 * np.eye(k), scale, self.unit
        variance = float(step_variances(self.loss, steps, *given)[0].mean())
        if law is None:
            factor = typical(self.loss, scale).size / margins.size
            kept = 1.0 if self.is_free else seen**2 / (seen**2 + variance)
            return part, seen, math.sqrt(variance), factor * kept
        own = np.sqrt(learnt**2 + variance)
        factors = (law.best(learnt / own) / own)[:, 0]
        factor = float(np.interp(true, law.deviations, factors))
        return part, seen, math.sqrt(variance), factor

    def planned_noise(self) -> PlannedNoise:
        design = self.objective.design
        # margins of variance 1, and half of the variance of numbers
        true = 1.0 if self.loss.n_outputs > 1 else math.sqrt(0.5)
        learnt, _, noise, factor = self._planned_margins(true)
        spread = self.loss.target_bound * math.sqrt(rules.PRIOR_VARIANCE) or 1.0
        margin = self.unit * spread * factor * noise
        margins = MarginNoise(coef=margin / self._norm, average_row=margin, rare_row=margin)
        # what is not learnt does not scatter
        return PlannedNoise(margins, factor * learnt * sampling_noise(self.loss, design))

    @property
    def _typical(self) -> float:
        """True deviation of margins that public numbers let expect."""
        return TYPICAL if self.n_classes else 0.5

    @property
    def signal(self) -> float:
        """Part of the squared margins of the steps that is no noise, or is expected to be none."""
        size, variance = self.numbers.size, self.numbers.steps.variance
        if size is None:
            _, seen, noise, _ = self._planned_margins(self._typical)
            return seen**2 / (seen**2 + noise**2)
        return 1.0 - variance / size.deviation**2

    @property
    def curvature(self) -> float:
        """Mean second derivative of the loss in a coefficient, at the size of the margins."""
        numbers, scale = self.numbers, self._norm * self.numbers.means.centering.scale / self.unit
        size = self._typical if numbers.theta is None else float(numbers.theta.theta[0])
        if numbers.law is None:
            bend = typical(self.loss, self.spread(numbers.means)).bend
        else:
            bend = curvature_at(numbers.law, size)
        return bend * scale**2 / self.objective.design.n_features

    def alarms(self) -> tuple[str, ...]:
        _, seen, noise, _ = self._planned_margins(self._typical)
        if seen >= _LEAST_MARGINS * noise:
            return ()
        return ("The noise is large: hardly better than a constant model is to be expected.",)

    def found_alarms(self) -> tuple[str, ...]:
        is_told = bool(replace(self, found=None).alarms())  # before the fit, by public numbers
        return () if is_told else self._noise_remarks

    def remarks(self) -> tuple[str, ...]:
        given = (AFTER_RELEASES,) if self.objective.is_penalised else ()
        return (*given, *self._noise_remarks)

    @property
    def _noise_remarks(self) -> tuple[str, ...]:
        """Say whether the size of the margins is within two deviations of 0."""
        found = self.found
        if found is None or found.size is None or found.theta is None:
            return ()
        known = found.theta.theta[0], found.theta.covariance[0, 0]
        size, variance = known if found.law else (found.size.size, found.size.variance)
        if size >= 2.0 * math.sqrt(variance):
            return ()
        expected = "hardly better than a constant model is to be expected"
        return (f"the noise is of the size of the margins: {expected}",)

    def to_dict(self) -> dict[str, Any]:
        steps, shares = self.numbers.steps, {}
        alpha = self.objective.alpha
        if not self.objective.is_penalised:
            alpha = float(equivalent_penalty(self.curvature, self.signal))
        if self.found is not None and self.has_class_shares:
            shares = {"class_shares": self.found.means.shares.tolist()}
        return {
            "alpha": alpha,
            "n_steps": steps.n_steps,
            "step_size": steps.size,
            "momentum": steps.momentum,
            "clip_norm": steps.clip * self.spread(self.numbers.means) / self.unit,
            "mu": self.mu,
            **shares,
        }

    def run(self, data: Records, run: Run) -> Result:
        with without_warnings(), spare_processors(data.is_sparse and data.in_memory):
            rows, found = self.prepare(data, run.noise)
            spectrum, of_moments = self._spectrum(rows, run)
            weights = self.stepped(rows, found, run)
            weights, size, theta = self.sized(rows, found, weights)
            theta, base, slope = self.corrected(rows, found, weights, theta, run)
            scaled, offsets = self.margins(rows, found, weights, theta, base)
            scale = self.scale(found.means)
            scaled, offsets = penalised_rows(self.objective, rows, scaled, offsets, spectrum, scale)
            point = rows.coefficients(scaled, offsets, data.intercept)
            plan = replace(self, found=replace(found, size=size, theta=theta))
            if self.attack is not None:  # how it bends losses is not known
                return Result(point=point, plan=plan)
            noise = weight_noise(
                rows,
                weights,
                slope,
                theta,
                self.step_noise(rows, found, weights, size),
                scale,
                np.asarray(self.loss.class_weights(np.eye(len(weights)))),
                spectrum,
                scaled if self.objective.is_penalised else None,
                of_moments,
            )
            return Result(point=point, plan=plan, noise=noise)

    def prepare(self, data: Records, noise: NoiseSource) -> tuple[CenteredRecords, Found]:
        """Release 1: return centered rows, with offsets in units of the loss, and the steps."""
        self.objective.design.check(data)
        data.check_targets(self.loss)
        data, bound = data.in_double(), self.loss.target_bound or 1.0
        means = release_means(self.means, data, self.n_classes, bound, noise)
        found = self.planned(means)
        offsets, constant = self.offsets(means, found.start), found.steps.constant
        centering = replace(means.centering, offsets=offsets, constant=constant)
        return centered(data, centering), found

    def sized(
        self, rows: CenteredRecords, found: Found, weights: np.ndarray
    ) -> tuple[np.ndarray, Size, Corrected]:
        """Return weights of margins of deviation 1, and the posterior of their size and shift."""
        d, k = self.objective.design.n_features, self.loss.n_outputs
        norm = float(np.linalg.norm(weights[:, :d]))
        constant = rows.constant * weights[:, d:].ravel()
        weights = weights * (np.arange(weights.shape[1]) < d)
        if found.law is None:
            size = shrunk(norm, found.steps, k, self.is_free)
            spread = self.spread(found.means)
            factor = typical(self.loss, spread).size
            factor /= typical(self.loss, spread, found.steps.clip).size
            theta = posterior_of_slopes(
                found.means, found.steps, size, found.origin, constant, factor
            )
            return weights / size.deviation, size, theta
        size = posterior(norm, found.steps, found.law, k, not self.n_classes)
        theta = posterior_of_size(size, k)
        if self.attack is not None and self.n_classes:  # which moves the constant
            theta = posterior_of_slopes(found.means, found.steps, size, found.start, constant, 1.0)
        elif rows.has_intercept:
            theta = posterior_of_steps(found.means, found.steps, size, found.balance, constant)
        return weights / size.deviation, size, theta

    def step_noise(
        self, rows: CenteredRecords, found: Found, weights: np.ndarray, size: Size
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return variances of weights of margins of deviation 1, and axes of outputs."""
        # rows are shorter by one deviation of the noise of their scale
        trace = max(1.0 - 2.0 * found.means.noise / rows.centering.scale**2, _LEAST_TRACE)
        raw = size.deviation * root_of(weights[:, : self.objective.design.n_features])
        given = rows.centering.offsets, trace * raw @ raw, self.scale(found.means), self.unit, trace
        variances, axes = step_variances(self.loss, found.steps, *given)
        return variances / size.deviation**2, axes

    def margins(
        self,
        rows: CenteredRecords,
        found: Found,
        weights: np.ndarray,
        theta: Corrected,
        base: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return weights and offsets of a size and shift, in units of the loss."""
        offsets = self.offsets(found.means, base + theta.theta[1:])
        return self.scale(found.means) * theta.theta[0] * weights, offsets

    def _spectrum(self, rows: CenteredRecords, run: Run) -> tuple[Spectrum, float]:
        """Release second moments for the user's penalty, if the plan has them.

        Also return the deviation of the noise of a diagonal entry.
        """
        design = self.objective.design
        d = design.n_features
        if self.moments is None:
            return Spectrum.public(d), 0.0
        matrix, unit = self.moments.release(rows, run.noise)[:d, :d], self.moments.noise
        factor = max(1.0, 0.5 / max(float(np.trace(matrix)), unit))
        values, directions = np.linalg.eigh(factor * matrix)
        spectrum = Spectrum.released(values, directions, 0.5 * unit * factor)
        return spectrum, factor * unit / math.sqrt(2.0 * design.width)

    def stepped(
        self,
        rows: CenteredRecords,
        found: Found,
        run: Run,
        name: str = "noisy steps",
        start: np.ndarray | None = None,
        factors: np.ndarray | None = None,
        offsets: np.ndarray | None = None,
    ) -> np.ndarray:
        """Release 2: the mean iterate, shape (n_outputs, width), in the basis.

        Parameters
        ----------
        rows : CenteredRecords
        found : Found
        run : Run
        name : str, default="noisy steps"
        start : ndarray of shape (n_outputs, width), optional
            Released. Default: 0.
        factors : ndarray of shape (n_groups,), optional
            Of the clipped gradients of each group's records, public or released. Sums are of
            factors over the largest one. Default: 1.
        offsets : ndarray of shape (n_outputs,), optional
            Released margins beside rows. Default: those of the centering.
        """
        steps, loss, d = found.steps, self.loss, self.objective.design.n_features
        spread = self.spread(found.means)
        clip, scale = steps.clip * spread / self.unit, self.unit / spread
        offsets = rows.centering.offsets if offsets is None else offsets
        sums = replace(
            self._sum("", "", clip, self.mu_steps, self.objective.dimension),
            size=clip * (rows.amplification + bool(self.attack)),
        )
        shape = (loss.n_outputs, self.objective.design.width)
        weights, change, total = (np.zeros(shape) for _ in range(3))
        if start is not None:
            weights = start
        if factors is not None:
            scale, factors = scale * float(factors.max()), factors / factors.max()
        run.noise.reserve(steps.n_steps * total.size)
        for step in run.counted(name)(steps.n_steps):
            own = self.scale(found.means) * weights
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
            noisy = GaussianMechanism(sums.bound(moved), multiplier).release(
                exact.ravel(), run.noise
            )
            gradient = np.nan_to_num(noisy).reshape(shape) * (scale / found.means.n_records)
            change = steps.momentum * change - steps.size * gradient
            weights = weights + change
            length = float(np.linalg.norm(weights))
            if not length < math.inf:  # no record may meet weights that are not numbers
                weights, change = np.zeros(shape), np.zeros(shape)
            elif length > _LONGEST:
                weights *= _LONGEST / length
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
        if not self.size_share:
            return theta, found.start, np.zeros(k)
        width, scale = self.objective.design.width, self.scale(means)
        length = float(np.linalg.norm(weights))
        top = self._top(means.n_records)
        sums = self._sum("", "", top, self.mu_round, 2 * k + 3)
        bend = np.eye(k)
        if self.n_classes:
            of_classes, p = basis(self.n_classes), means.shares
            bend = of_classes.T @ (np.diag(p) - np.outer(p, p)) @ of_classes
            bend *= k / np.trace(bend)
        root = root_of(weights[:, : self.objective.design.n_features])
        # without an intercept margins have no base
        balance, base = (found.balance, found.start) if rows.has_intercept else (None, np.zeros(k))
        for _ in range(ROUNDS):
            base, slope = base_at(balance, float(theta.theta[0]), root, base)
            statistic = Derivatives(
                loss=loss,
                weights=rows.weights(weights),
                size=float(theta.theta[0]),
                shift=self.offsets(means, base + theta.theta[1:]),
                unit=self.unit,
                spread=self.spread(means),
                top=top,
            )
            reached = rows.norm_bound * length * (1.0 + statistic.size)
            reached += (float(np.linalg.norm(statistic.shift)) + loss.target_bound) / scale
            moved = statistic.steepness * two_margins(width + self.n_classes, reached)
            noisy, tau = sums.release(rows.full_total(statistic), run.noise, moved)
            n = means.n_records
            bends = expected_bends(found.balance, base, float(theta.theta[0]), root, top)
            theta = theta.after(noisy / n, bends, tau / n, n, slope, bend)
        return theta, *base_at(balance, float(theta.theta[0]), root, base)


def is_covered(loss: Loss) -> bool:
    """Whether a loss is the squared error or a log loss."""
    return loss.has_odds or loss.is_quadratic


def plan_core(objective: Objective, budget: PrivacyBudget) -> CorePlan:
    """Choose the parts of the budget from public numbers."""
    attack = None
    if isinstance(objective.risk, AdversarialRisk):
        attack = objective.risk.attack if objective.risk.attack.radius else None
        objective.risk.attack.move(np.ones(objective.design.n_features))  # is it one?
        objective = replace(objective, risk=EmpiricalRisk(objective.risk.loss))
    if not objective.risk.is_smooth:
        objective = objective.smoothed(0.5 * objective.risk.loss.margin_scale)
    mu = gaussian_mu(budget.epsilon, budget.delta)
    plan = CorePlan(objective=objective, mu=mu, share=_MEANS_SHARES[1], attack=attack)
    design = objective.design
    if objective.neighbouring.is_replaced and not design.is_slack:
        needed = (plan.means.sensitivity / (design.n_records * mu * _MEANS_NOISE)) ** 2
        plan = replace(plan, share=min(max(needed, _MEANS_SHARES[0]), _MEANS_SHARES[1]))
    spread = math.sqrt(design.n_features) * plan.means.deviation / design.n_records
    if not design.intercept or spread >= 1.0:  # rows stay where they are, or Stein's factor is 0
        plan = replace(plan, has_rows=False)
    if attack is not None or not needs_moments(objective):
        return plan
    moments = plan_row_moments(
        design,
        objective.neighbouring,
        mu * math.sqrt(_PENALTY_SHARE),
        worthy_noise=rules.PENALTY_NOISE,
    )
    return replace(plan, moments=moments)
