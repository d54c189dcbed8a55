"""The numbers of the core: public ones, and what follows from its releases.

Theory: docs/theory/core.md, Theorem 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from skdp._runtime import without_warnings
from skdp.algorithms.core.forecast import Forecast, Found
from skdp.algorithms.core.intervals import INTERVALS_SHARE, plan_newton
from skdp.algorithms.core.margin_laws import Balance, odds, squares
from skdp.algorithms.core.means import CLASS, VARIANCE, Means, found_means, plan_means
from skdp.algorithms.core.noisy_sums import Level, NoisySum
from skdp.algorithms.core.penalty import AFTER_RELEASES
from skdp.algorithms.core.post import equivalent_penalty
from skdp.algorithms.core.second_moments import RowMomentsPlan
from skdp.algorithms.core.slopes import constants, plan_slope_steps
from skdp.algorithms.core.solves import Solves, paced_solves
from skdp.algorithms.core.steps import Path, paced, plan_steps
from skdp.algorithms.plan import HARDLY_BETTER, LARGE_NOISE, LEAST_MARGINS, Plan
from skdp.algorithms.weight_noise import PlannedNoise
from skdp.privacy.report import Release
from skdp.problems import Attack, EmpiricalRisk, Loss, Objective

#: Part of size and shift, its rounds, and whether classes have one more for squares of margins.
SIZE_SHARE, ROUNDS, HAS_SQUARE = 0.06, 3, True
#: Part of second moments for the user's penalty.
PENALTY_SHARE = 0.1
#: Clip of the last release over its noise, and the largest one of numbers and of log odds.
_TOP, _TOP_OF_NUMBERS, _TOP_OF_ODDS = 0.03, 10.0, 2.0
#: Norm that no private weights exceed, in units of margins.
LONGEST = 1e6
#: Part of the squared length of a move that curvatures grow by.
_REACH = 3.0


@dataclass(frozen=True, kw_only=True)
class Shares:
    """Parts of the squared mu, or of epsilon, of the releases; 0 of those that there are not."""

    means: float
    size: float
    moments: float
    newton: float


@dataclass(frozen=True, kw_only=True)
class PlannedCore(Plan):
    """The numbers of the releases."""

    #: Its loss is smooth.
    objective: Objective
    #: Of the Gaussian differential privacy of all; if it `is_pure`, epsilon.
    mu: float
    #: Part of its square, or of epsilon, for the means.
    share: float
    #: Whether the means of rows are released.
    has_rows: bool = True
    #: What moves the rows of all records in every step.
    attack: Attack | None = None
    #: Second moments of rows, for the user's penalty.
    moments: RowMomentsPlan | None = None
    #: Number of solves; None: noisy steps.
    n_solves: int | None = None
    #: Whether delta is 0; with solves alone.
    is_pure: bool = False
    #: Whether a Newton step is released for intervals of coefficients.
    has_intervals: bool = False
    #: None before the first release.
    found: Found | None = None

    #: What follows from these: the loss, and the number of classes, 0 for numbers.
    loss: Loss = field(init=False)
    n_classes: int = field(init=False)
    #: Whether steps go by the slopes of any loss: an attack changes those of log odds.
    is_other: bool = field(init=False)
    #: Margins of the loss over those in the basis of log odds.
    unit: float = field(init=False)
    #: Whether the shares of the classes are known after the first release.
    has_class_shares: bool = field(init=False)
    #: Whether the mean square of margins is released before the rounds of size and shift.
    has_square: bool = field(init=False)
    #: Parts of the budget of all releases, and mu of all steps.
    shares: Shares = field(init=False)
    mu_steps: float = field(init=False)
    #: Rounds of size and shift, and mu of each, and of the mean square.
    n_rounds: int = field(init=False)
    mu_round: float = field(init=False)
    means: NoisySum = field(init=False)

    def __post_init__(self) -> None:
        """Compute what follows from the inputs."""
        loss, design = self.objective.risk.loss, self.objective.design
        n_classes = 0 if loss.target_bound else loss.n_classes or loss.n_outputs + 1
        is_attacked = loss.link == "logit" and self.attack is not None
        is_other = is_attacked or not (loss.has_odds or loss.is_quadratic)
        has_size = not (is_other or self.attack or self.is_pure)
        shares = Shares(
            means=self.share,
            size=SIZE_SHARE * has_size,
            moments=PENALTY_SHARE * (self.moments is not None),
            newton=INTERVALS_SHARE * self.has_intervals,
        )
        has_square = bool(HAS_SQUARE and n_classes and shares.size)
        of_steps = 1.0 - shares.means - shares.size - shares.moments - shares.newton
        vars(self).update(
            loss=loss,
            n_classes=n_classes,
            is_other=is_other,
            unit=math.sqrt(2.0) if loss.link == "logit" and not is_other else 1.0,
            has_class_shares=loss.has_odds and design.intercept > 0,
            has_square=has_square,
            shares=shares,
            mu_steps=self.part(of_steps).mu,
            n_rounds=ROUNDS,
            mu_round=self.mu * math.sqrt(shares.size / (ROUNDS + has_square)),
            means=plan_means(
                n_classes,
                design,
                self.objective.neighbouring,
                self.part(self.share),
                self.has_rows,
            ),
        )

    @property
    def risk(self) -> EmpiricalRisk:
        return self.objective.risk

    def part(self, share: float) -> Level:
        """Return a part of the budget."""
        return Level(self.mu, self.is_pure).part(share)

    @property
    def newton(self) -> NoisySum:
        """Sum of scores and curvatures, for intervals."""
        design, relation = self.objective.design, self.objective.neighbouring
        return plan_newton(design, relation, self.part(INTERVALS_SHARE).mu, self.loss.n_outputs)

    @cached_property
    def numbers(self) -> Found:
        """What was found, or what public numbers let expect."""
        if self.found:
            return self.found
        design = self.objective.design
        d, classes = design.n_features, self.n_classes or 2
        targets = np.full(classes, CLASS / math.sqrt(2.0) / classes)
        if not self.n_classes:
            targets = np.array([0.0, VARIANCE])
        noise = self.means.deviation / design.n_records
        vector = np.concatenate([np.zeros(d), [0.5], targets])
        is_moved = design.intercept > 0.0
        with without_warnings():
            return self.planned(
                found_means(vector, noise, float(design.n_records), False, self.n_classes, is_moved)
            )

    @property
    def forecast(self) -> Forecast:
        """Return what is to be expected of the margins."""
        return Forecast(self.numbers, self.loss, self.objective.design, self.unit)

    def planned(self, means: Means, largest_factor: float = 1.0) -> Found:
        """Plan the steps, of records with factors up to the largest one.

        Weighted second moments of rows may be larger than others by it.
        """
        design, stiffness = self.objective.design, 1.0
        pace: Callable[..., Path] = paced
        if self.attack is not None:
            reach = self.attack.length(design.n_features)
            reach /= design.features_norm * means.centering.scale
            stiffness += _REACH * reach**2
        if self.n_solves is not None:
            pace = partial(paced_solves, self.n_solves, self.is_pure)
        n = means.n_records if design.is_slack else float(design.n_records)
        noise = Level(self.mu_steps, self.is_pure).deviation(self.objective.dimension)
        noise *= largest_factor * self.objective.neighbouring.n_changes / n
        given = design.n_features, n, noise, largest_factor * stiffness, pace
        spread = means.deviation * (self.loss.target_bound or 1.0)
        law = balance = None
        if self.is_other:
            steps = plan_slope_steps(self.loss, spread, *given)
            start = constants(self.loss, means, spread)
        else:
            law = odds(means.shares) if self.n_classes else squares()
            balance = Balance(means.shares) if self.n_classes else None
            steps = plan_steps(law, self.n_classes, *given)
            start = np.zeros(1) if balance is None else balance.start
        return Found(
            means=means,
            law=law,
            steps=steps,
            balance=balance,
            start=start,
            spread=spread,
            scale=self.unit * spread,
            clip=steps.clip * spread / self.unit,
        )

    def _sum(self, name: str, lemma: str, clip: float, mu: float, entries: int) -> NoisySum:
        return NoisySum(
            design=self.objective.design,
            neighbouring=self.objective.neighbouring,
            mu=mu,
            sensitivity=self.objective.neighbouring.n_changes * clip,
            size=clip,
            n_entries=entries,
            name=name,
            reference=f"docs/theory/core.md, {lemma}",
            is_pure=self.is_pure,
        )

    def offsets(self, found: Found, constants: np.ndarray) -> np.ndarray:
        """Return constants in units of the loss."""
        if not self.objective.design.intercept:
            return np.zeros(self.loss.n_outputs)
        return found.means.mean * self.loss.target_bound + found.scale * constants

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
            moved = min(steps.lengths) * steps.unit * numbers.scale
            moved /= Level(self.mu_steps, self.is_pure).deviation(self.objective.dimension)
            if not self.objective.design.is_slack:
                # lengths are planned for this number, and penalties are for the released one
                moved *= float(self.objective.design.n_records) / numbers.means.n_records
            sums = replace(sums, sensitivity=moved, size=0.0)
        return replace(sums, name=f"{steps.nouns[is_weighted]}, {steps.name} as one").describe()

    def sum_of_steps(self, found: Found) -> NoisySum:
        """Sum of clipped gradients, with the budget of all steps."""
        lemma = found.steps.lemma
        return self._sum("", lemma, found.clip, self.mu_steps, self.objective.dimension)

    @property
    def squares(self) -> NoisySum:
        """Sum of shortened squares of margins, each in [0, 1]."""
        return replace(
            self._sum("squares of margins", "Lemma 3", 1.0, self.mu_round, 1), sensitivity=1.0
        )

    @property
    def releases_of_size(self) -> tuple[Release, ...]:
        """Describe the releases for size and shift, the rounds of derivatives as one."""
        if not self.shares.size:
            return ()
        sums = self.sum_of_round(self.numbers.means)
        rounds = replace(sums, mu=self.mu_round * math.sqrt(self.n_rounds)).describe()
        return (self.squares.describe(), rounds) if self.has_square else (rounds,)

    def sum_of_round(self, means: Means) -> NoisySum:
        """Sum of derivatives in size and shift, of a length that noise and range allow."""
        longest = _TOP_OF_ODDS
        if not self.n_classes:
            longest = min((1.0 + abs(means.mean)) / means.deviation, _TOP_OF_NUMBERS)
        top = _TOP * means.n_records * self.mu_round / self.objective.neighbouring.n_changes
        top = min(max(top, 1.0), longest)
        name = f"size and shift, {self.n_rounds} rounds as one"
        entries = 2 * self.loss.n_outputs + 3
        return self._sum(name, "Lemma 3", top, self.mu_round, entries)

    def planned_noise(self) -> PlannedNoise:
        return self.forecast.noise()

    def alarms(self) -> tuple[str, ...]:
        forecast = self.forecast
        _, seen, noise, _ = forecast.margins(forecast.true_deviation)
        is_hidden = seen < LEAST_MARGINS * noise
        return (f"The {LARGE_NOISE}.",) if is_hidden else ()

    def found_alarms(self) -> tuple[str, ...]:
        """Say whether the size of the margins is within two deviations of 0."""
        found = self.found
        if replace(self, found=None).alarms():  # told before the fit, by public numbers
            return ()
        if found is None or found.size is None or found.theta is None:
            return ()
        known = found.theta.theta[0], found.theta.covariance[0, 0]
        size, variance = known if found.law else (found.size.size, found.size.variance)
        if size >= 2.0 * math.sqrt(variance):
            return ()
        return (f"the noise is of the size of the margins: {HARDLY_BETTER}",)

    def remarks(self) -> tuple[str, ...]:
        given = (AFTER_RELEASES,) if self.objective.is_penalised else ()
        told = replace(self, found=None).alarms()
        return (*given, *[f"the {LARGE_NOISE}"] * len(told), *self.found_alarms())

    def to_dict(self) -> dict[str, Any]:
        shares, alpha = {}, self.objective.alpha
        if not self.objective.is_penalised:  # what the shrinkage by the noise is equivalent to
            alpha = float(equivalent_penalty(self.forecast.curvature, self.forecast.signal))
        if self.found is not None and self.has_class_shares:
            shares = {"class_shares": self.found.means.shares.tolist()}
        return {
            "alpha": alpha,
            **self.numbers.steps.shown(),
            "clip_norm": self.numbers.clip,
            "mu": self.mu,
            **shares,
        }


def inputs_of(plan: PlannedCore) -> dict[str, Any]:
    """Return the public inputs of a plan, and what it has found, for a plan derived from it."""
    return {each.name: getattr(plan, each.name) for each in fields(plan) if each.init}
