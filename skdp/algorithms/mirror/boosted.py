"""Saddle points with high probability: Algorithm 4 of González et al. (2024).

Several runs of Algorithm 3 on parts of the records, best responses to each of them on other parts,
and an exponential mechanism that chooses the run of the smallest gap on a last part. Every record
is in one part, in a secret random order, so that the whole costs what one part does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from skdp._checks import check_count, check_option, check_positive
from skdp.algorithms.mirror.bias_reduced import plan_bias_reduced_mirror_descent
from skdp.algorithms.mirror.plain import plan_mirror_descent
from skdp.algorithms.mirror.rounds import DescentPlan, VertexPlan
from skdp.algorithms.mirror.variance_reduced import (
    VarianceReducedPlan,
    plan_variance_reduced_frank_wolfe,
)
from skdp.algorithms.plan import Result, Run, require_replace_one
from skdp.mechanisms import SoftmaxMechanism
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import whole_event
from skdp.privacy.report import Release
from skdp.problems.rounding import EPS
from skdp.problems.vertices import Point, VertexDesign, VertexProblem

#: Plans of best responses.
Responses = VertexPlan | VarianceReducedPlan


@dataclass(frozen=True, kw_only=True)
class _Part(VertexProblem):
    """Some consecutive records; with a fixed other block, a problem of one block."""

    base: VertexProblem
    design: VertexDesign
    offset: int
    free: int | None = None
    fixed: np.ndarray | None = None

    def gradients(self, point: Point, batch: slice) -> tuple[np.ndarray, ...]:
        if self.free is None:
            return self.base.gradients(point, self._moved(batch))
        return self._own(self.base.gradients(self._full(point), self._moved(batch)))

    def changes(
        self, point: Point, earlier: Point, batch: slice, limits: tuple[float, ...]
    ) -> tuple[np.ndarray, ...]:
        both = self._full(point), self._full(earlier)
        return self._own(self.base.changes(*both, self._moved(batch), 2 * limits))

    def _moved(self, batch: slice) -> slice:
        return slice(batch.start + self.offset, batch.stop + self.offset)

    def _full(self, point: Point) -> Point:
        """Return the point of both blocks."""
        assert self.fixed is not None
        return (point[0], self.fixed) if self.free == 0 else (self.fixed, point[0])

    def _own(self, gradients: Point) -> Point:
        """Return what is minimised of the gradients of both blocks."""
        return (gradients[0],) if self.free == 0 else (-gradients[1],)


@dataclass(frozen=True, kw_only=True)
class BoostedMirrorDescentPlan(DescentPlan):
    """Parts of the records and what is run on them."""

    budget: PrivacyBudget
    value_bound: float
    #: I runs on a quarter of the records.
    runs: tuple[VertexPlan, ...]
    #: For the first and for the second block: that of each of the I * J parts of a quarter.
    responses: tuple[Responses, Responses]
    #: J.
    n_responses: int

    @property
    def quarter(self) -> int:
        return self.design.n_records // 4

    @property
    def mechanism(self) -> SoftmaxMechanism:
        """The choice of a run: half the budget's epsilon bounds its scores."""
        return SoftmaxMechanism(0.5 * self.budget.epsilon)

    def alarms(self) -> tuple[str, ...]:
        return self.runs[0].alarms()

    @property
    def gap_sensitivity(self) -> float:
        """``16 Bf / n`` with n records: two means over n / 4; and the rounding of four means."""
        size = self.quarter
        rounding = 8.0 * EPS * (size + 32.0)
        return self.value_bound * (4.0 / size + rounding) * (1.0 + 1e-9)

    @property
    def releases(self) -> tuple[Release, ...]:
        # parts share no record, and cost at most the budget each
        event = whole_event(self.budget.epsilon, self.budget.delta, self.design.neighbouring)
        sizes = sum(self.design.sizes), self.design.n_records
        statement = "docs/theory/mirror_descent.md, Proposition 5"
        one = self.mechanism.describe("vertices of disjoint parts", *sizes, statement)
        return (replace(one, event=event),)

    def to_dict(self) -> dict[str, Any]:
        return {
            "algorithm": "González et al. 2024, Algorithm 4",
            "n_runs": len(self.runs),
            "n_responses": self.n_responses,
            "value_bound": self.value_bound,
        }

    def run_on_sequence(self, data: VertexProblem, run: Run) -> Result:
        size, gaps, found = self.quarter, [], []
        last = slice(3 * size, 4 * size)
        counted = run.counted("runs of mirror descent", len(self.runs))
        run = Run("auto", run.rng, run.noise)  # does not report the rounds of each run
        for i, plan in zip(counted, self.runs, strict=False):
            n = plan.design.n_records
            point = plan.run_on_sequence(
                _Part(base=data, design=plan.design, offset=i * n), run
            ).point
            found.append(point)
            values: list[list[float]] = [[], []]
            for free, response in enumerate(self.responses):
                m, fixed = response.design.n_records, point[1 - free]
                for j in range(self.n_responses):
                    offset = (1 + free) * size + (i * self.n_responses + j) * m
                    part = _Part(
                        base=data, design=response.design, offset=offset, free=free, fixed=fixed
                    )
                    best = response.run_on_sequence(part, run).point[0]
                    pair = (best, point[1]) if free == 0 else (point[0], best)
                    bound = self.value_bound
                    each = np.nan_to_num(data.values(pair, last), nan=0.0)
                    values[free].append(float(np.clip(each, -bound, bound).mean()))
            gaps.append(max(values[1]) - min(values[0]))
        scores = np.array(gaps) * (-self.mechanism.sensitivity / self.gap_sensitivity)
        (chosen,) = self.mechanism.draw(scores * (1.0 - 1e-12), 1, run.noise)
        return Result(point=found[chosen], plan=self)


def plan_boosted_mirror_descent(
    design: VertexDesign,
    budget: PrivacyBudget,
    *,
    value_bound: float,
    beta: float = 0.05,
    n_runs: int | None = None,
    n_responses: int | None = None,
    response: Literal["mirror_descent", "frank_wolfe"] = "mirror_descent",
    rng: np.random.Generator | None = None,
    **options: Any,
) -> BoostedMirrorDescentPlan:
    """Plan the parts.

    Parameters
    ----------
    design : VertexDesign
        Of two blocks.
    budget : PrivacyBudget
    value_bound : float
        Bf: the function of one record is clipped to it; what is not a number becomes 0.
    beta : float, default=0.05
        Probability of failure; ``I = ceil(log2(4 / beta))`` and ``J = ceil(log2(8 I / beta))``.
    n_runs, n_responses : int, optional
        I and J instead. Where their parts would have less than two records each, the defaults are
        the largest I, then J, that the records allow: they say less, at the same guarantee.
    response : {"mirror_descent", "frank_wolfe"}, default="mirror_descent"
        What finds the best responses. "frank_wolfe": as published, with variance reduction (of
        problems with `changes`); each part needs more records for the same error.
    rng : numpy.random.Generator, optional
        Draws the sequences of Algorithm 3. Default: of a fixed seed.
    **options
        Of :func:`plan_bias_reduced_mirror_descent`.

    Raises
    ------
    ValueError
        For a problem of one block, or too few records for that many parts.
    """
    if len(design.sizes) != 2:
        raise ValueError("boosting is for saddle problems, of two blocks.")
    require_replace_one(design.neighbouring, "parts of boosted mirror descent")
    check_positive(value_bound=value_bound, beta=beta)
    check_option("response", response, ("mirror_descent", "frank_wolfe"))
    answer: Callable[..., Responses] = plan_mirror_descent
    if response == "frank_wolfe":
        answer = plan_variance_reduced_frank_wolfe
    rng = np.random.default_rng(0) if rng is None else rng
    quarter = design.n_records // 4
    runs, each = _numbers_of_parts(quarter, beta, n_runs, n_responses)
    if quarter // (runs * each) < 2:
        raise ValueError(f"{design.n_records} records are too few for {4 * runs * each} parts.")
    whole = VertexDesign(quarter // runs, design.sizes, design.magnitudes, design.oscillations)
    blocks = [
        VertexDesign(
            quarter // (runs * each),
            (design.sizes[u],),
            (design.magnitudes[u],),
            (design.oscillations[u],),
        )
        for u in range(2)
    ]
    return BoostedMirrorDescentPlan(
        design=design,
        budget=budget,
        value_bound=float(value_bound),
        runs=tuple(
            plan_bias_reduced_mirror_descent(whole, budget, rng=rng, **options) for _ in range(runs)
        ),
        responses=(answer(blocks[0], budget), answer(blocks[1], budget)),
        n_responses=each,
    )


def _numbers_of_parts(
    quarter: int, beta: float, n_runs: int | None, n_responses: int | None
) -> tuple[int, int]:
    """Return I and J: those given, or of `beta`, or what a quarter of the records allows."""

    def responses(runs: int) -> int:
        return math.ceil(math.log2(8.0 * runs / beta)) if n_responses is None else n_responses

    runs = math.ceil(math.log2(4.0 / beta)) if n_runs is None else n_runs
    check_count("n_runs", runs)
    while n_runs is None and runs > 1 and quarter < 2 * runs * responses(runs):
        runs -= 1
    each = responses(runs)
    check_count("n_responses", each)
    if n_responses is None:
        each = max(1, min(each, quarter // (2 * runs)))
    return runs, each
