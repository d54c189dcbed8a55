"""Localised noisy gradient descent for strongly convex problems.

Algorithms 2 and 4 of Kornowski (2024), after Feldman, Koren and Talwar (2020): rounds of noisy
gradient descent, each in a smaller ball around the average of the one before. Corrected (errata K8,
K12 and K13): public radii that never grow, points that never leave the domain on which the
gradients are bounded, exact accounting, Poisson batches.

Output perturbation has the same rate with one release and no parameters; this is for comparison,
and for problems too large to be solved. Proofs: docs/theory/bilevel.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp._checks import check_count, check_real
from skdp._runtime import without_warnings
from skdp.algorithms.plan import Plan, Result, Run
from skdp.mechanisms import NoiseSource, SampledGaussianMechanism
from skdp.mechanisms.sampled_gaussian import poisson_sample
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import Neighbouring
from skdp.privacy.report import Release
from skdp.problems import (
    ROUNDING_SLACK,
    Ball,
    Domain,
    FiniteSumProblem,
    Problem,
    ProblemConstants,
    WholeSpace,
)
from skdp.problems.block import Block
from skdp.problems.domains import euclidean_norm
from skdp.problems.finite_sum import Batch

#: Failure probability of the radii.
_FAILURE = 0.05


@dataclass(frozen=True, kw_only=True)
class LocalizedGDPlan(Plan):
    """Radii R_m of the rounds, steps of a round, and noise of the mean gradient in each step.

    Every record, or person, joins the batch of a step independently (Poisson sampling).
    """

    constants: ProblemConstants
    neighbouring: Neighbouring
    #: Of all steps together.
    mechanism: SampledGaussianMechanism
    radii: tuple[float, ...]
    n_steps: int

    shown = (
        *("neighbouring", "constants.n_records", "alpha=constants.strong_convexity", "n_steps"),
        *("mechanism.sampling_rate", "mechanism.noise_multiplier", "radii"),
    )

    @property
    def releases(self) -> tuple[Release, ...]:
        """The noisy gradients of all steps."""
        reference = "docs/theory/bilevel.md, Lemma 6: Kornowski 2024, Alg. 2 and 4, corrected"
        sizes = self.constants.dimension, self.constants.n_records
        return (self.mechanism.describe("gradients", *sizes, reference, self.neighbouring),)

    @without_warnings()
    def run(self, data: Problem, run: Run) -> Result:
        if data.constants != self.constants:
            raise ValueError(f"The plan is for {self.constants}, not for {data.constants}.")
        domain = _bounded_domain(data)
        if data.of_persons != (self.neighbouring.unit == "user"):
            raise ValueError("Records of persons go with a relation of persons.")
        has_batches = isinstance(data, FiniteSumProblem) and "records" in data.offers
        if self.mechanism.sampling_rate < 1.0 and not has_batches:
            raise ValueError(f"A {type(data).__name__} has no batches: use sampling_rate=1.")
        start = np.zeros(data.dimension) if data.center is None else data.center
        start = domain.project(start)
        for radius in self.radii:
            y, total = start, np.zeros_like(start)
            for t in range(self.n_steps):
                total += y
                noisy = self.mechanism.release(self.gradient(data, y, run.noise), run.noise)
                y = domain.project(y - noisy / (data.strong_convexity * (t + 1)))
                away = y - start
                length = euclidean_norm(away)
                if length > radius:  # the segment from the start to y lies in the domain
                    y = domain.project(start + (radius / length) * away)
            start = domain.project(total / self.n_steps)
        return Result(point=start, plan=self)

    def gradient(self, problem: Problem, y: np.ndarray, noise: NoiseSource) -> np.ndarray:
        """Compute the gradient, or an unbiased estimate from a Poisson batch; not private."""
        rate = self.mechanism.sampling_rate
        units = poisson_sample(problem.constants.n_records, rate, noise)
        if units is None:
            return problem.gradient(y)
        assert isinstance(problem, FiniteSumProblem)
        gradient = problem.penalty_gradient(y)
        if units.size:
            chosen = problem.records.records_of(units)

            def statistic(block: Block) -> np.ndarray:
                batch = Batch(problem, block)
                return batch.pull_back(batch.residuals(y))

            total = problem.records.total(statistic, part=chosen)
            gradient = gradient + total / (rate * problem.n_public)
        return gradient


def dp_localized_gd(
    problem: Problem,
    budget: PrivacyBudget | None = None,
    *,
    run: Run | None = None,
    **options: Any,
) -> Result:
    """Minimise a strongly convex problem by noisy gradient descent in shrinking balls.

    Each of M rounds starts at the average y of the last one and makes T steps
    ``y <- project(y - (gradient + noise) / (mu (t + 1)))`` onto the domain and then onto the ball
    of radius R_m around its start, which keeps it in the domain. The steps of a round are averaged.

    Parameters
    ----------
    problem : Problem
        Smooth or not; its solution must be in a public ball (``problem.constants.radius``).
    budget : PrivacyBudget, optional
        Of the whole run, delta > 0. Either this or `noise_multiplier`.
    run : Run, optional
        Its `noise` draws batches and noise.
    **options
        Those of :func:`plan_localized_gd`. With ``sampling_rate < 1`` (Algorithm 4) the problem
        must be a :class:`skdp.problems.FiniteSumProblem`, and every step uses a random batch.

    References
    ----------
    G. Kornowski, "Differentially private bilevel optimization", 2024: Algorithms 2 and 4.
    """
    relation = Neighbouring.REPLACE_ONE
    relation = relation.of_persons if problem.of_persons else relation
    plan = plan_localized_gd(problem.constants, budget, neighbouring=relation, **options)
    return plan.run(problem, run or Run())


def plan_localized_gd(
    constants: ProblemConstants,
    budget: PrivacyBudget | None = None,
    *,
    n_rounds: int = 1,
    n_steps: int = 50,
    sampling_rate: float = 1.0,
    noise_multiplier: float | None = None,
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE,
) -> LocalizedGDPlan:
    """Choose noise, rounds and radii from public constants; replace-one neighbours.

    One record, or one person, moves the mean gradient at a point of the domain by at most
    ``2 L / n``, or the noisy sum over a batch divided by ``q n`` by ``2 L / (q n)``, and the
    rounding of both sums; the run is a composition of ``n_rounds * n_steps`` such releases.

    Parameters
    ----------
    constants : ProblemConstants
    budget : PrivacyBudget, optional
        Delta > 0. Either this or `noise_multiplier`.
    n_rounds : int, default=1
        M. More of them shrink the last radius with far more records than common data have.
    n_steps : int, default=50
        T.
    sampling_rate : float, default=1.0
        q in (0, 1].
    noise_multiplier : float, optional
        For one step, in units of the sensitivity; > 0.
    neighbouring : Neighbouring, default=REPLACE_ONE
        Or that of persons, of whom each is in a batch with all its records or with none.
    """
    check_count("n_rounds", n_rounds)
    check_count("n_steps", n_steps)
    check_real("sampling_rate", sampling_rate, 0.0, 1.0, closed="right")
    if not math.isfinite(constants.lipschitz):
        raise ValueError("Gradients are not bounded: bound the domain by a ball.")
    if sampling_rate < 1.0 and constants.effective_records < (1.0 - 1e-9) * constants.n_records:
        raise ValueError("Batches need a mean over records.")
    # sampling is priced for 2 L; means of all records move by the diameter of the gradients
    moved = constants.gradient_diameter if sampling_rate == 1.0 else 2.0 * constants.lipschitz
    # of two sums, for a record that is added as for one that is replaced: half of the sensitivity
    rounding = 4.0 * constants.gradient_rounding
    mechanism = SampledGaussianMechanism.calibrated(
        budget,
        noise_multiplier,
        neighbouring,
        sensitivity=(moved / constants.effective_records * ROUNDING_SLACK + rounding)
        / sampling_rate,
        sampling_rate=sampling_rate,
        n_steps=n_rounds * n_steps,
    )
    return LocalizedGDPlan(
        constants=constants,
        neighbouring=neighbouring,
        mechanism=mechanism,
        radii=_radii(constants, mechanism, n_rounds, n_steps),
        n_steps=n_steps,
    )


def _radii(
    constants: ProblemConstants, mechanism: SampledGaussianMechanism, count: int, n_steps: int
) -> tuple[float, ...]:
    """``R_{m+1} = min(R_m, error of a round)`` with high probability (docs/theory/bilevel.md)."""
    mu, d, T = constants.strong_convexity, constants.dimension, n_steps
    deviation, sampling_rate = mechanism.noise_scale, mechanism.sampling_rate
    gradient = constants.lipschitz + 2.0 * mu * constants.radius
    if sampling_rate < 1.0:
        deviation = math.hypot(
            deviation, constants.lipschitz / math.sqrt(d * sampling_rate * constants.n_records)
        )
    drift = deviation * math.sqrt(2.0 * math.log(4.0 * count / _FAILURE) / T)
    length = math.sqrt(d) + math.sqrt(2.0 * math.log(2.0 * count * T / _FAILURE))
    spread = (1.0 + math.log(T)) / (mu * T) * (gradient**2 + (deviation * length) ** 2)
    radii = [constants.localisation]
    while len(radii) < count:
        error = math.sqrt(2.0 / mu * (2.0 * radii[-1] * drift + spread))
        radii.append(min(radii[-1], error))
    return tuple(radii)


def _bounded_domain(problem: Problem) -> Domain:
    """Return the part of the domain on which the constants hold; it contains the solution."""
    domain, radius = problem.domain, problem.constants.radius
    if isinstance(domain, Ball | WholeSpace):
        return Ball(min(radius, domain.radius))
    if not domain.radius <= radius:
        raise ValueError(
            f"Gradients must be bounded on the whole domain, of radius {domain.radius:g}."
        )
    return domain
