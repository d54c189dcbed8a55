"""Private tables by adaptive measurements: draw the worst group of queries, measure it, refit.

The same saddle problem as that of :mod:`skdp.algorithms.queries.mirror_descent`, with another
player for the queries and full use of what was paid for. In every round

1. a group of queries, such as the cells of a marginal, is drawn that the current distribution
   answers badly (an exponential draw: nearly the best response);
2. its answers are measured with Gaussian noise;
3. entropic mirror descent in the distribution is run towards all measurements made so far
   (post-processing: :mod:`skdp.algorithms.queries.log_linear`).

The marginals of single columns are measured before. Draws and measurements are charged; their
number is planned from public numbers. Where it comes near the number of all pairs of columns, there
is nothing to choose: all pairs are measured, and a mixture of product distributions is fitted to
them (:mod:`skdp.algorithms.queries.product_mixture`). The rounds follow multiplicative weights with
the exponential mechanism [1]_ and AIM [2]_. Theory: ``docs/theory/linear_queries.md``.

References
----------
.. [1] M. Hardt, K. Ligett, F. McSherry, "A simple and practical algorithm for differentially
   private data release", NeurIPS 2012.
.. [2] R. McKenna, B. Mullins, D. Sheldon, G. Miklau, "AIM: an adaptive and iterative mechanism for
   differentially private synthetic data", VLDB 2022.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdp._runtime import without_warnings
from skdp.algorithms.plan import Plan, Run, require_replace_one
from skdp.algorithms.queries import rules
from skdp.algorithms.queries.log_linear import Columns, ModelResult
from skdp.algorithms.queries.product_mixture import ProductMixture
from skdp.algorithms.queries.query_groups import Groups, Measurements, groups_of
from skdp.mechanisms import GaussianMechanism, SoftmaxMechanism, gaussian_noise_multiplier
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import Neighbouring, RepeatedEvent
from skdp.privacy.gaussian_dp import pure_epsilon
from skdp.privacy.report import Release
from skdp.problems import ROUNDING_SLACK, QueryObjective
from skdp.problems.categorical import CategoricalTable
from skdp.problems.rounding import EPS


@dataclass(frozen=True, kw_only=True)
class AdaptiveMeasurementsPlan(Plan):
    """Measurements of single columns, then rounds of a draw and a measurement."""

    groups: Groups
    n_records: int
    n_rounds: int
    #: Standard deviation of the noise of all marginals of single columns over their sensitivity.
    first_multiplier: float
    #: The same for the measurement of a round.
    multiplier: float
    #: Range of the privacy loss of a draw.
    draw_epsilon: float
    #: Whether all candidates, which are pairs of columns, are measured once, and nothing else.
    is_complete: bool = False
    #: A record or a person is replaced.
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE
    #: Whether weights may add up to less than the number of records: sums are then divided by the
    #: total of the marginals that are measured first.
    is_slack: bool = False

    @property
    def first(self) -> tuple[Columns, ...]:
        """Groups that are measured before the rounds."""
        return () if self.is_complete else self.groups.first

    @property
    def first_mechanism(self) -> GaussianMechanism:
        """Noise of all marginals of single columns together, in numbers of records."""
        sensitivity = self.groups.sensitivity * math.sqrt(len(self.groups.first))
        return GaussianMechanism(ROUNDING_SLACK * sensitivity, self.first_multiplier)

    @property
    def mechanism(self) -> GaussianMechanism:
        """Noise of the measurement of a round, in units of sums over records."""
        return GaussianMechanism(ROUNDING_SLACK * self.groups.sensitivity, self.multiplier)

    @property
    def draw(self) -> SoftmaxMechanism:
        """Draw of a group."""
        return SoftmaxMechanism(0.5 * self.draw_epsilon)

    @property
    def _score_factor(self) -> float:
        """Exponent per unit of a distance of sums, such that the draw has its range."""
        sums = 3.0 * self.n_records * self.groups.largest * self._most + self._allowance(self._most)
        rounding = 16.0 * EPS * sums
        return 0.5 * self.draw_epsilon / (ROUNDING_SLACK * self.groups.distance + rounding)

    @property
    def _most(self) -> int:
        return max(self.groups.n_queries(key) for key in self.groups.candidates)

    def _allowance(self, n_queries: int) -> float:
        """Mean l1 norm of the noise of a measurement: an error below it is not worth a round."""
        return math.sqrt(2.0 / math.pi) * self.mechanism.noise_scale * n_queries

    @property
    def releases(self) -> tuple[Release, ...]:
        groups, found = self.groups, []
        reference = "docs/theory/linear_queries.md, Theorem 2"
        where = self.n_records, reference
        if self.first:
            cells = sum(groups.n_queries(key) for key in groups.first)
            found.append(
                self.first_mechanism.describe("single columns", cells, *where, self.neighbouring)
            )
        if self.n_rounds and not self.is_complete:
            found.append(
                self.draw.describe(
                    "groups of queries",
                    len(groups.candidates),
                    *where,
                    n_draws=self.n_rounds,
                    neighbouring=self.neighbouring,
                )
            )
        if self.n_rounds:
            one = self.mechanism.describe("answers", self._most, *where, self.neighbouring)
            found.append(replace(one, event=RepeatedEvent(one.event, self.n_rounds)))
        return tuple(found)

    def remarks(self) -> tuple[str, ...]:
        if self.is_complete:
            return ("all pairs of columns are measured",)
        return (f"{self.n_rounds} rounds of a draw and a measurement",)

    def to_dict(self) -> dict[str, Any]:
        names = "n_rounds", "first_multiplier", "multiplier", "draw_epsilon"
        numbers = {name: getattr(self, name) for name in names}
        return {"n_candidates": len(self.groups.candidates), **numbers}

    def run(self, data: CategoricalTable, run: Run) -> ModelResult:
        """Measure and fit.

        The point of the result holds the parameters of the model.
        """
        if data.n_records != self.n_records or data.sizes != self.groups.sizes:
            raise ValueError("The records do not have the sizes of the plan.")
        with without_warnings():
            found = Measurements(self.groups)
            candidates = self.groups.candidates if self.n_rounds else ()
            data = data.counted(self.groups.marginals([*self.first, *candidates]))
            keys = self.groups.candidates if self.is_complete else self.first
            first = self.first_mechanism if self.first else self.mechanism
            steps: Iterable[int] = range(len(keys))
            if self.is_complete:
                steps = run.counted("measurements", len(keys))
            noisy = {keys[k]: self._noisy(data, keys[k], first, run) for k in steps}
            total = self._total(noisy.values(), first)
            for key, sums in noisy.items():
                found.add(key, sums / total, (first.noise_scale / total) ** 2)
            if self.is_complete:
                variance = next(iter(found.variances.values()))
                mixture = ProductMixture(data.sizes, found.values, variance, run.rng)
                return ModelResult(point=mixture.probabilities.ravel(), plan=self, model=mixture)
            if self.first:
                found.fit(rules.FIRST_FIT)
            for _ in run.counted("rounds", self.n_rounds):
                key = self._drawn(data, found, total, run)
                sums = self._noisy(data, key, self.mechanism, run)
                found.add(key, sums / total, (self.mechanism.noise_scale / total) ** 2)
                found.fit(rules.FIT)
            found.fit(rules.LAST_FIT)
            parameters = [part.ravel() for part in found.model.parameters.values()]
            return ModelResult(point=np.concatenate(parameters), plan=self, model=found.model)

    def _noisy(
        self, data: CategoricalTable, key: Columns, mechanism: GaussianMechanism, run: Run
    ) -> np.ndarray:
        """Release the sums of a group."""
        sums = np.asarray(self.groups.sums(data, key), dtype=np.float64)
        return mechanism.release(sums.ravel(), run.noise).reshape(sums.shape)

    def _total(self, noisy: Iterable[np.ndarray], mechanism: GaussianMechanism) -> float:
        """Return what sums are divided by: the number of records, or their noisy total.

        Each marginal sums up to the total of the weights, with the noise of its cells: the mean by
        inverse variances, at least its own noise.
        """
        if not self.is_slack:
            return float(self.n_records)
        sums, cells = np.array([(part.sum(), part.size) for part in noisy]).T
        precision = float((1.0 / cells).sum())
        found = float(np.nan_to_num((sums / cells).sum() / precision))
        least = mechanism.noise_scale / math.sqrt(precision)
        return min(max(found, least), float(self.n_records))

    def _drawn(
        self, data: CategoricalTable, found: Measurements, total: float, run: Run
    ) -> Columns:
        """Draw a group by the l1 distance of its sums from those of the model."""
        candidates, scores = self.groups.possible(found.values), []
        bound = self.n_records * self.groups.largest
        for key in candidates:
            sums = self.groups.sums(data, key)
            expected = total * np.nan_to_num(self.groups.answers(found.model, key))
            distance = np.abs(sums - np.clip(expected, -bound, bound)).sum()
            scores.append(float(distance) - self._allowance(sums.size))
        exponents = self._score_factor * np.array(scores)
        return candidates[int(self.draw.draw(exponents, 1, run.noise)[0])]


def planned_rounds(groups: Groups, n_records: int, mu: float) -> int:
    """Choose the number of rounds from public numbers (docs/theory/linear_queries.md, section 2).

    The more, the larger the records' signal is beside the noise of one measurement of the mean
    number of queries.
    """
    n_candidates, d = len(groups.candidates), len(groups.sizes)
    if not groups.first:
        wanted = math.sqrt(n_records * mu)
    elif not n_candidates:
        return 0
    else:
        cells = sum(groups.n_queries(key) for key in groups.candidates) / n_candidates
        signal = 3.1 * (n_records * mu / cells) ** 2
        wanted = d * (0.25 + 0.1 * math.log10(max(signal, 1.0)) ** 2)
        wanted = max(wanted, d - 1)
    return int(min(max(wanted, 1), n_candidates, rules.MOST_MEASUREMENTS))


def plan_adaptive_measurements(
    objective: QueryObjective, budget: PrivacyBudget
) -> AdaptiveMeasurementsPlan:
    """Fix the number of rounds and all noise from public numbers.

    Parameters
    ----------
    objective : QueryObjective
        Of marginals, or of a matrix of queries.
    budget : PrivacyBudget
        With ``delta > 0``.
    """
    require_replace_one(objective.neighbouring, "adaptive measurements")
    groups, n_records = groups_of(objective.workload), objective.n_records
    if objective.is_slack and not groups.first:
        raise ValueError(
            "A matrix of queries has no proof for sample_weight: nothing that is released tells "
            "the sum of the weights."
        )
    mu = (1.0 - 1e-9) / gaussian_noise_multiplier(budget.epsilon, budget.delta)
    n_rounds = planned_rounds(groups, n_records, mu) if groups.candidates else 0
    pairs = all(len(key) == 2 for key in groups.candidates) and bool(groups.first)
    n_pairs = math.comb(len(groups.sizes), 2)
    if pairs and 0 < n_pairs == len(groups.candidates) <= n_rounds / rules.COMPLETE_SHARE:
        plan = AdaptiveMeasurementsPlan(
            groups=groups,
            n_records=n_records,
            n_rounds=n_pairs,
            first_multiplier=math.inf,
            multiplier=math.sqrt(n_pairs) / mu,
            draw_epsilon=0.0,
            is_complete=True,
        )
    else:
        plan = rounds_plan(groups, n_records, mu, n_rounds)
    return replace(plan, neighbouring=objective.neighbouring, is_slack=objective.is_slack)


def rounds_plan(
    groups: Groups, n_records: int, mu: float, n_rounds: int
) -> AdaptiveMeasurementsPlan:
    """Spend mu of Gaussian DP on single columns and some rounds of a draw and a measurement."""
    first = 0.0 if not groups.first else rules.FIRST_SHARE if n_rounds else 1.0
    each = (1.0 - first) * mu**2 / max(n_rounds, 1)
    return AdaptiveMeasurementsPlan(
        groups=groups,
        n_records=n_records,
        n_rounds=n_rounds,
        first_multiplier=1.0 / math.sqrt(first * mu**2) if first else math.inf,
        multiplier=1.0 / math.sqrt((1.0 - rules.DRAW_SHARE) * each) if n_rounds else math.inf,
        draw_epsilon=2.0 * pure_epsilon(math.sqrt(rules.DRAW_SHARE * each)) if n_rounds else 0.0,
    )
