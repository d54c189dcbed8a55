"""The numbers of the core: public ones, and what follows from its releases.

Theory: docs/theory/core.md, Theorem 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from skdp._runtime import without_warnings
from skdp.algorithms.core.intervals import INTERVALS_SHARE, plan_newton
from skdp.algorithms.core.margin_laws import Balance, Law, odds, squares
from skdp.algorithms.core.means import CLASS, VARIANCE, Means, found_means, plan_means
from skdp.algorithms.core.noisy_sums import Level, NoisySum
from skdp.algorithms.core.penalty import AFTER_RELEASES
from skdp.algorithms.core.post import curvature_at, equivalent_penalty, step_variances
from skdp.algorithms.core.second_moments import RowMomentsPlan
from skdp.algorithms.core.size import Corrected, Size
from skdp.algorithms.core.slopes import constants, plan_slope_steps, typical
from skdp.algorithms.core.solves import Solves, paced_solves
from skdp.algorithms.core.steps import TYPICAL, Path, paced, plan_steps
from skdp.algorithms.plan import Plan
from skdp.algorithms.statistics.clipped_curvature import sampling_noise
from skdp.algorithms.statistics.margins import PRIOR_VARIANCE
from skdp.algorithms.weight_noise import MarginNoise, PlannedNoise
from skdp.privacy.report import Release
from skdp.problems import Attack, EmpiricalRisk, Loss, Objective

#: Part of size and shift, its rounds, and whether classes have one more for squares of margins.
SIZE_SHARE, ROUNDS, HAS_SQUARE = 0.06, 3, True
#: Part of second moments for the user's penalty.
PENALTY_SHARE = 0.1
#: Clip of the last release over its noise, and the largest one of numbers and of log odds.
_TOP, _TOP_OF_NUMBERS, _TOP_OF_ODDS = 0.03, 10.0, 2.0
#: Rows are expected to vary in so many directions at most; margins over noise below which there is
#: an alarm.
_DIRECTIONS, _LEAST_MARGINS = 100, 0.8
#: Norm that no private weights exceed, in units of margins.
LONGEST = 1e6
#: Part of the squared length of a move that curvatures grow by.
_REACH = 3.0


@dataclass(frozen=True)
class Found:
    """What follows from releases: the means, then the law and the steps, then the size."""

    means: Means
    law: Law | None
    steps: Path
    balance: Balance | None
    start: np.ndarray  # margins of a constant model in the basis
    size: Size | None = None
    theta: Corrected | None = None


@dataclass(frozen=True, kw_only=True)
class PlannedCore(Plan):
    """The numbers of the releases.

    Attributes
    ----------
    objective : Objective
        Of a smooth loss.
    mu : float
        Of the Gaussian differential privacy of all; if it `is_pure`, epsilon.
    share : float
        Part of its square, or of epsilon, for the means.
    has_rows : bool, default=True
        Whether the means of rows are released.
    attack : Attack or None
        That moves the rows of all records in every step.
    moments : RowMomentsPlan or None
        For the user's penalty.
    has_intervals : bool, default=False
        Whether a Newton step is released for intervals of coefficients.
    n_solves : int or None, default=None
        None: noisy steps.
    is_pure : bool, default=False
        Of solves alone.
    found : Found or None
        None before the first release.
    """

    objective: Objective
    mu: float
    share: float
    has_rows: bool = True
    attack: Attack | None = None
    moments: RowMomentsPlan | None = None
    n_solves: int | None = None
    is_pure: bool = False
    has_intervals: bool = False
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
        return 0.0 if self.is_other or self.attack or self.is_pure else SIZE_SHARE

    def part(self, share: float) -> Level:
        """Return a part of the budget."""
        return Level(self.mu, self.is_pure).part(share)

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
        return plan_means(self.n_classes, design, relation, self.part(self.share), self.has_rows)

    @property
    def mu_steps(self) -> float:
        newton = INTERVALS_SHARE * self.has_intervals
        return self.part(1.0 - self.share - self.size_share - self.moments_share - newton).mu

    @property
    def moments_share(self) -> float:
        """Part of the squared mu for second moments."""
        return PENALTY_SHARE if self.moments is not None else 0.0

    @property
    def newton(self) -> NoisySum:
        """Sum of scores and curvatures, for intervals."""
        design, relation = self.objective.design, self.objective.neighbouring
        return plan_newton(design, relation, self.part(INTERVALS_SHARE).mu, self.loss.n_outputs)

    @property
    def has_square(self) -> bool:
        """Whether the mean square of margins is released before size and shift."""
        return bool(HAS_SQUARE and self.n_classes and self.size_share)

    @property
    def n_rounds(self) -> int:
        """Number of releases for size and shift, all with the same part of the budget."""
        return ROUNDS + self.has_square

    @property
    def mu_round(self) -> float:
        return self.mu * math.sqrt(self.size_share / self.n_rounds)

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
        n = self._n_planned(means)
        stiffness = largest_factor * self._stiffness(means)
        noise = Level(self.mu_steps, self.is_pure).deviation(self.objective.dimension)
        noise *= changes / n
        given = design.n_features, n, noise, stiffness, self._pace
        if self.is_other:
            spread = self.spread(means)
            steps = plan_slope_steps(self.loss, spread, *given)
            return Found(means, None, steps, None, constants(self.loss, means, spread))
        law = odds(means.shares) if self.n_classes else squares()
        balance = Balance(means.shares) if self.n_classes else None
        start = np.zeros(1) if balance is None else balance.start
        return Found(means, law, plan_steps(law, self.n_classes, *given), balance, start)

    def _n_planned(self, means: Means) -> float:
        """Number of records that steps are planned for."""
        design = self.objective.design
        return means.n_records if design.is_slack else float(design.n_records)

    @property
    def _pace(self) -> Callable[..., Path]:
        """How the way of release 2 is chosen."""
        return (
            paced if self.n_solves is None else partial(paced_solves, self.n_solves, self.is_pure)
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
            is_pure=self.is_pure,
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
        newton = (self.newton.describe(),) if self.has_intervals else ()
        return (
            self.means.describe(),
            *moments,
            self.release_of_steps(),
            *self.releases_of_size,
            *newton,
        )

    def release_of_steps(self, is_weighted: bool = False) -> Release:
        """Describe the release of all steps, or solves."""
        numbers, sums = self.numbers, self.sum_of_steps(self.numbers)
        steps = numbers.steps
        if isinstance(steps, Solves):
            moved = min(steps.lengths) * steps.unit * self.scale(numbers.means)
            moved /= Level(self.mu_steps, self.is_pure).deviation(self.objective.dimension)
            # lengths are planned for this number, and penalties are for the released one
            moved *= self._n_planned(numbers.means) / numbers.means.n_records
            sums = replace(sums, sensitivity=moved, size=0.0)
        return replace(sums, name=f"{steps.nouns[is_weighted]}, {steps.name} as one").describe()

    def clip(self, found: Found) -> float:
        """Norm of the gradient of a record, in units of the loss."""
        return found.steps.clip * self.spread(found.means) / self.unit

    def sum_of_steps(self, found: Found) -> NoisySum:
        """Sum of clipped gradients, with the budget of all steps."""
        lemma = found.steps.lemma
        return self._sum("", lemma, self.clip(found), self.mu_steps, self.objective.dimension)

    @property
    def squares(self) -> NoisySum:
        """Sum of shortened squares of margins, each in [0, 1]."""
        return replace(
            self._sum("squares of margins", "Lemma 3", 1.0, self.mu_round, 1), sensitivity=1.0
        )

    @property
    def releases_of_size(self) -> tuple[Release, ...]:
        """Describe the releases for size and shift, the rounds of derivatives as one."""
        if not self.size_share:
            return ()
        sums = self.sum_of_round(self.numbers.means)
        rounds = replace(sums, mu=self.mu_round * math.sqrt(ROUNDS)).describe()
        return (self.squares.describe(), rounds) if self.has_square else (rounds,)

    def sum_of_round(self, means: Means) -> NoisySum:
        """Sum of derivatives in size and shift, of a length that noise and range allow."""
        longest = _TOP_OF_ODDS
        if not self.n_classes:
            longest = min((1.0 + abs(means.mean)) / means.deviation, _TOP_OF_NUMBERS)
        top = min(max(_TOP * means.n_records * self.mu_round / self.changes, 1.0), longest)
        name, entries = f"size and shift, {ROUNDS} rounds as one", 2 * self.loss.n_outputs + 3
        return self._sum(name, "Lemma 3", top, self.mu_round, entries)

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
            part = steps.reached(part)
            seen = part * (margins.size if self.n_classes else true)
        else:
            learnt = steps.learnt(law.pulled(steps.clip), np.array([moment]))
            seen = float(np.interp(true, law.deviations, learnt[:, 0]))
            part = seen / true
        given = np.zeros(k), seen**2 * np.eye(k), scale, self.unit
        variance = float(step_variances(self.loss, steps, *given).mean())
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
        spread = self.loss.target_bound * math.sqrt(PRIOR_VARIANCE) or 1.0
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
        size = self.numbers.size
        if size is None:
            _, seen, noise, _ = self._planned_margins(self._typical)
            return seen**2 / (seen**2 + noise**2)
        return 1.0 - size.noise / size.deviation**2

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
            **steps.shown(),
            "clip_norm": self.clip(self.numbers),
            "mu": self.mu,
            **shares,
        }


def is_covered(loss: Loss) -> bool:
    """Whether a loss is the squared error or a log loss."""
    return loss.has_odds or loss.is_quadratic
