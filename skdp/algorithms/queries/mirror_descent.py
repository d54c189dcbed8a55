"""Linear queries by private mirror descent on the saddle problem of distributions and queries.

    min over distributions x of the universe, max over weights y of the queries of
        sum_j y_j (q_j(records) - <q_j, x>),

with both signs of every query (González, Guzmán and Paquette 2024, section 1.4 (a) and Theorem
1.1, whose algorithm is not printed; Algorithm 1 is reconstructed for it). The gradient in x is the
sum of the weighted queries and does not touch the records, so the distributions are public and
exact; only the draws of queries, which stand for y, cost privacy. This is the family of DualQuery
and of private multiplicative weights. Theory: ``docs/theory/linear_queries.md``.

Two sets of parameters:

- "analytic": the queries answer the current distribution (nearly a best response, by draws with
  its gaps on all records as scores), and the distribution descends with steps that decrease as
  ``1 / sqrt(t)``. The result is the mean of the second half of the distributions. Large budgets pay
  for more draws per round: sharper ones would all be of the same query.
- "paper": both players descend. Scores are sums over rounds, each of which takes a new batch of
  records; numbers of rounds and steps of the theorem (corrected and with unspecified constants 1),
  except that the step of the queries is calibrated tightly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from skdp._runtime import without_warnings
from skdp.algorithms.plan import Plan, Run, require_replace_one
from skdp.algorithms.queries import rules
from skdp.algorithms.queries.log_linear import ModelResult, dense_model
from skdp.mechanisms import SoftmaxMechanism, calibrated_draws, random_order
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import Neighbouring
from skdp.privacy.report import Release
from skdp.problems import (
    ROUNDING_SLACK,
    CategoricalRecords,
    QueryObjective,
    Workload,
    universe_size,
)
from skdp.problems.categorical import CategoricalTable
from skdp.problems.rounding import EPS

#: Largest universe that is written out.
MAX_UNIVERSE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class LinearQueriesPlan(Plan):
    """Rounds of draws of queries."""

    workload: Workload
    n_records: int
    #: Number of distributions, >= 3. The last one needs no draws; with batches, the queries of the
    #: first round do not depend on the records.
    n_rounds: int
    #: Queries drawn in a round.
    n_draws: int
    #: Records of a round, no record in two of them; None: all records in every round, and scores of
    #: the current distribution alone.
    batch_size: int | None
    #: In units of the range of the queries; the first is over sqrt(t) in round t without batches.
    distribution_step: float
    query_step: float
    #: A record or, without batches, a person is replaced.
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE

    shown = (
        *("workload.n_queries", "n_rounds", "n_draws", "batch_size"),
        *("distribution_step", "query_step"),
    )

    @property
    def denominator(self) -> int:
        """Number of records that the answers of a round are means of."""
        return self.n_records if self.batch_size is None else self.batch_size

    @property
    def n_charged(self) -> int:
        """Number of rounds whose draws depend on the records."""
        return self.n_rounds - (1 if self.batch_size is None else 2)

    @property
    def sensitivity(self) -> float:
        """Bound on how far one record moves a score (Theorem 1), rounding included."""
        workload = self.workload
        terms = 1 if self.batch_size is None else self.n_charged
        rounding = 8.0 * EPS * terms * workload.largest / workload.range
        return self.query_step * (ROUNDING_SLACK / self.denominator + rounding)

    @property
    def mechanism(self) -> SoftmaxMechanism:
        """Draws of queries."""
        return SoftmaxMechanism(self.sensitivity)

    @property
    def releases(self) -> tuple[Release, ...]:
        size, n_draws = 2 * self.workload.n_queries, self.n_draws * self.n_charged
        reference = "docs/theory/linear_queries.md, Theorem 1"
        return (
            self.mechanism.describe(
                "queries",
                size,
                self.n_records,
                reference,
                n_draws=n_draws,
                neighbouring=self.neighbouring,
            ),
        )

    def remarks(self) -> tuple[str, ...]:
        return (f"{self.n_rounds} rounds of {self.n_draws} drawn queries each",)

    def run(self, data: CategoricalTable, run: Run) -> ModelResult:
        """Alternate draws of queries and steps of the distribution.

        The point of the result is a mean of the distributions, shape `workload.sizes`.
        """
        if data.n_records != self.n_records or data.sizes != self.workload.sizes:
            raise ValueError("The records do not have the sizes of the plan.")
        with without_warnings():
            workload, half, last = self.workload, self.workload.n_queries, self.n_rounds
            size, is_full = self.batch_size, self.batch_size is None
            skipped = last // 2 if is_full else 0
            # of the records, and of what distributions answer: current ones, or sums over rounds
            secret, public = np.zeros(half), np.zeros(half)
            if is_full:
                secret = workload.sums(data.counted(workload.marginals))
            else:
                order = random_order(data.n_records, run.noise)
            exponent, mean = np.zeros(workload.sizes), np.zeros(workload.sizes)
            for done in run.counted("rounds", last):
                t = done + 1
                x = np.exp(exponent - exponent.max())
                x /= x.sum()
                if t > skipped:
                    mean += x / (last - skipped)
                if t == last:
                    continue
                answers = np.clip(workload.answers(x), -workload.largest, workload.largest)
                public = answers if is_full else public
                gaps = secret / self.denominator - public
                scores = (self.query_step / workload.range) * np.concatenate([gaps, -gaps])
                drawn = (
                    self.mechanism.draw(scores, self.n_draws, run.noise)
                    if is_full or t > 1
                    else run.rng.integers(2 * half, size=self.n_draws)
                )
                if size and t < last - 1:  # else no draw would follow
                    assert isinstance(data, CategoricalRecords)
                    rows = data.codes[order[(t - 1) * size : t * size]]
                    secret = secret + workload.sums(CategoricalRecords(rows, data.sizes))
                    public = public + answers
                weights = np.bincount(drawn, minlength=2 * half) / self.n_draws
                step = self.distribution_step / workload.range
                step /= math.sqrt(t) if is_full else 1.0
                exponent += step * workload.combine(weights[:half] - weights[half:])
            return ModelResult(point=mean, plan=self, model=dense_model(mean))


def plan_linear_queries(
    objective: QueryObjective, budget: PrivacyBudget, calibration: str = "analytic"
) -> LinearQueriesPlan:
    """Fix rounds, draws and steps from public numbers.

    Parameters
    ----------
    objective : QueryObjective
        On a universe of at most 2^20 conceivable records.
    budget : PrivacyBudget
    calibration : {"analytic", "paper"}
        See the module.

    Raises
    ------
    ValueError
        For a larger universe, and for "paper" with ``delta == 0``.
    """
    require_replace_one(objective.neighbouring, "linear queries")
    workload, n_records = objective.workload, objective.n_records
    universe = universe_size(workload.sizes)
    if universe > MAX_UNIVERSE:
        raise ValueError(
            f"method='mirror_descent' writes the universe out, and {universe} combinations of "
            f"categories are more than {MAX_UNIVERSE}: group categories, leave columns out, or use "
            "method='adaptive'."
        )
    log_universe = math.log(max(universe, 2))
    log_queries = math.log(2.0 * workload.n_queries)
    if calibration == "paper":
        if objective.neighbouring.unit == "user":
            raise ValueError("calibration='paper' has no proof for user_ids.")
        if budget.is_pure:
            raise ValueError("delta == 0: calibration='paper' needs delta > 0.")
        wanted = n_records * budget.epsilon * math.sqrt(log_universe / math.log(1.0 / budget.delta))
        n_rounds = int(min(max(wanted / log_queries, 3.0), n_records + 2.0))
        batch: int | None = n_records // (n_rounds - 2)
        step, ceiling = (math.sqrt(2.0 * log / n_rounds) for log in (log_universe, log_queries))
    else:
        signal = n_records * budget.epsilon
        wanted = 2.0 * math.sqrt(signal) if budget.is_pure else 0.05 * signal
        n_rounds, batch = int(min(max(wanted, rules.FEWEST_ROUNDS), rules.MOST_ROUNDS)), None
        step, ceiling = math.sqrt(2.0 * log_universe), rules.SHARPEST_STEP
    plan = LinearQueriesPlan(
        workload=workload,
        n_records=n_records,
        n_rounds=n_rounds,
        n_draws=1,
        batch_size=batch,
        distribution_step=step,
        query_step=1.0,
        neighbouring=objective.neighbouring,
    )
    query_step = calibrated_draws(budget, [(plan.sensitivity, plan.n_charged)])
    if batch is None and query_step > rules.SHARPEST_STEP:
        # K draws leave 1 / K of the step under pure composition, 1 / sqrt(K) else
        sharper = query_step / rules.SHARPEST_STEP
        n_draws = math.ceil(min(sharper if budget.is_pure else sharper**2, rules.MOST_DRAWS))
        plan = replace(plan, n_draws=n_draws)
        query_step = calibrated_draws(budget, [(plan.sensitivity, n_draws * plan.n_charged)])
    return replace(plan, query_step=min(query_step, ceiling))
