"""Entropic mirror descent with draws of vertices: the rounds that all its variants share.

González, Guzmán and Paquette (2024). The algorithm keeps scores of the vertices of a simplex, the
sums of all gradients so far times minus the step, and gives away nothing but vertices drawn from
their softmax. Gradients are taken at points made of such vertices, so that the scores of
neighbours differ by what one record moves the gradients, and every draw is an exponential
mechanism. A variant is a list of rounds; sensitivities, steps and runs are here.
Theory: docs/theory/mirror_descent.md.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from skdp._types import Calibration
from skdp.algorithms.mirror import rules
from skdp.algorithms.plan import Plan, Result, Run, require_replace_one
from skdp.mechanisms import NoiseSource, SoftmaxMechanism, calibrated_draws, random_order
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import ComposedEvent, RepeatedEvent
from skdp.privacy.report import Release
from skdp.problems.rounding import EPS
from skdp.problems.vertices import Point, VertexDesign, VertexProblem

#: The point that is returned, in the requests of rounds.
OUTPUT = -1
#: What the largest gradients add up to, over the logarithm of the number of vertices, below which
#: draws are called random.
_RANDOM = 5.0
_REFERENCE = "docs/theory/mirror_descent.md, Theorem 1"


@dataclass(frozen=True, kw_only=True)
class Round:
    """What one iteration draws and reads."""

    #: Draws from the softmax of this round's scores: the number of the point that they are for, and
    #: how many, per block.
    requests: tuple[tuple[int, int], ...]
    #: Number of the point at which the gradient is taken; all its draws are made by then.
    point: int = 0
    #: Number of records that are averaged; 0 if there is no gradient.
    batch: int = 0
    #: N of a bias-reduced gradient; None for a plain one.
    level: int | None = None
    #: C_M of a bias-reduced gradient.
    correction: float = 1.0

    @property
    def n_draws(self) -> int:
        """Draws per block."""
        return sum(count for _, count in self.requests)

    @property
    def weight(self) -> float:
        """Half the largest change of the gradient of one record in units of its oscillation.

        1 for a plain gradient; the c_r / 2 of Lemma 4 for a bias-reduced one.
        """
        if self.level is None:
            return 1.0
        c = self.correction
        return 2.0 * c - 1.0 if self.level == 0 else 2.0 * c + 2.0**-self.level

    @property
    def terms(self) -> float:
        """Bound on a computed gradient in units of the magnitude."""
        if self.level is None:
            return 1.0
        return 2.0 * self.correction * 2.0**self.level + 1.0

    def gradient(self, problem: VertexProblem, point: Point, batch: slice) -> Point:
        """Compute the gradient at the point, bias-reduced if the round has a level."""
        if self.level is None:
            return problem.gradients(point, batch)
        half, first = 2**self.level, tuple(drawn[:1] for drawn in point)
        whole = problem.gradients(point, batch)
        nested = problem.gradients(tuple(drawn[:half] for drawn in point), batch)
        single = nested if self.level == 0 else problem.gradients(first, batch)
        factor = self.correction * half
        return tuple(factor * (a - b) + c for a, b, c in zip(whole, nested, single, strict=True))


@dataclass(frozen=True, kw_only=True)
class DescentPlan(Plan):
    """Base of plans that draw vertices by gradients of records in a secret random order."""

    design: VertexDesign
    #: Whether all records are read at once, so that their order does not matter.
    full_batch: bool = False

    def run(self, data: VertexProblem, run: Run) -> Result:
        """Carry out the plan; the result's point holds the vertices, one array per block."""
        if data.design != self.design:
            raise ValueError("the problem has other public numbers than the plan.")
        if not self.full_batch:
            data = data.ordered(random_order(self.design.n_records, run.noise))
        return self.run_on_sequence(data, run)

    @abstractmethod
    def run_on_sequence(self, data: VertexProblem, run: Run) -> Result:
        """Carry out the plan on records whose order is secret and random already."""


@dataclass(frozen=True, kw_only=True)
class VertexPlan(DescentPlan):
    """Rounds, steps and sensitivities, all from public numbers."""

    rounds: tuple[Round, ...]
    #: tau, per block.
    steps: tuple[float, ...]
    #: Whether the result is the average of all points after the first, which costs no draws of its
    #: own; else it is made of the draws that were requested for it.
    average: bool
    #: The published algorithm.
    algorithm: str
    #: More for the report.
    numbers: tuple[tuple[str, Any], ...] = ()

    @property
    def n_draws(self) -> int:
        """Draws that are charged: all but those of the first round, whose scores are 0."""
        return len(self.design.sizes) * sum(each.n_draws for each in self.rounds[1:])

    @property
    def releases(self) -> tuple[Release, ...]:
        design, found = self.design, []
        units = score_sensitivities(design, self.rounds, self.full_batch)
        for block, (step, of_block) in enumerate(zip(self.steps, units, strict=True)):
            draws = [(SoftmaxMechanism(step * unit), count) for unit, count in of_block]
            worst = max((mechanism for mechanism, _ in draws), key=lambda each: each.sensitivity)
            count = sum(count for _, count in draws)
            name = "vertices" if len(design.sizes) == 1 else f"vertices of block {block + 1}"
            events = [RepeatedEvent(m.event(design.neighbouring), n) for m, n in draws]
            sizes = design.sizes[block], design.n_records
            one = worst.describe(f"{name}, {count} draws", *sizes, _REFERENCE)
            found.append(replace(one, event=ComposedEvent(events)))
        return tuple(found)

    def alarms(self) -> tuple[str, ...]:
        """Warn of draws that are nearly uniform, however large the gradients are."""
        design, n_gradients = self.design, sum(each.batch > 0 for each in self.rounds[:-1])
        reach = self.steps[0] * n_gradients * design.magnitudes[0] / design.log_sizes[0]
        if reach >= _RANDOM:
            return ()
        return (
            f"The noise of draws is large: scores of {design.sizes[0]} vertices grow to at most "
            f"{reach:.2g} times the logarithm of their number. A constant may be as good",
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "algorithm": self.algorithm,
            "n_rounds": len(self.rounds),
            "n_draws": self.n_draws,
            "steps": list(self.steps),
            "full_batch": self.full_batch,
            **dict(self.numbers),
        }

    def run_on_sequence(self, data: VertexProblem, run: Run) -> Result:
        scores = []
        for u, (size, step) in enumerate(zip(self.design.sizes, self.steps, strict=True)):
            factor = step if u else -step  # descent in the first, ascent in the second
            scores.append(GridScores(size, grid(self.design, self.rounds, u), factor))
        points: dict[int, list[list[np.ndarray]]] = {}
        start = 0
        for t in run.counted("rounds of mirror descent", len(self.rounds)):
            each = self.rounds[t]
            for target, count in each.requests:
                drawn = [block.draw(count, run.noise) for block in scores]
                points.setdefault(target, [[] for _ in scores])
                for parts, part in zip(points[target], drawn, strict=True):
                    parts.append(part)
            if each.batch:
                if self.full_batch:
                    batch = slice(0, data.n_records)
                else:
                    batch, start = slice(start, start + each.batch), start + each.batch
                gradient = each.gradient(data, _joined(points[each.point]), batch)
                for block, part in zip(scores, gradient, strict=True):
                    block.add(part)
        if not self.average:
            return Result(point=_joined(points[OUTPUT]), plan=self)  # type: ignore[arg-type]
        # the first point was drawn before anything was known
        later = [points[number] for number in sorted(points) if number > 0]
        merged = [[part for parts in later for part in parts[b]] for b in range(len(scores))]
        return Result(point=_joined(merged), plan=self)  # type: ignore[arg-type]


def _joined(parts: Sequence[Sequence[np.ndarray]]) -> Point:
    return tuple(np.concatenate(each) for each in parts)


class GridScores:
    """Scores of vertices: integers times a public spacing and factor, so that sums are exact.

    Only :meth:`draw` leaves the algorithm.
    """

    def __init__(self, size: int, spacing: float, factor: float) -> None:
        self._spacing, self._factor = spacing, factor * spacing
        self._sums = np.zeros(size)

    def add(self, gradient: np.ndarray) -> None:
        """Add a gradient, rounded to the grid."""
        self._sums = self._sums + np.rint(gradient / self._spacing)

    def draw(self, count: int, noise: NoiseSource) -> np.ndarray:
        """Draw vertices from the softmax of the scores."""
        return _draw(self._factor * self._sums, count, noise)


def _draw(scores: np.ndarray, count: int, noise: NoiseSource) -> np.ndarray:
    return SoftmaxMechanism(1.0).draw(scores, count, noise)


def grid(design: VertexDesign, rounds: Sequence[Round], block: int) -> float:
    """Choose the spacing of gradients: fine beside what a record does, with exact sums."""
    total = sum(each.terms for each in rounds) * design.largest(block)
    fine = design.oscillations[block] / design.n_records * 2.0**-rules.LOG_STEPS
    return float(2.0 ** math.ceil(math.log2(max(fine, total * 2.0**-50))))


def score_sensitivities(
    design: VertexDesign, rounds: Sequence[Round], full_batch: bool
) -> list[list[tuple[float, int]]]:
    """Bound how far scores of neighbours are apart, in units of the step.

    Per block: sensitivity and number of the draws of each round after the first. (Theorem 1 of
    docs/theory/mirror_descent.md; the rounding of sums, of the grid and of the scores is in.)
    """
    result = []
    for block in range(len(design.sizes)):
        spacing = grid(design, rounds, block)
        largest = exact = noise = total = 0.0
        draws: dict[float, int] = {}
        for previous, each in pairwise(rounds):
            if previous.batch:
                moved = previous.weight * design.oscillations[block] * 2.0 ** (previous.level or 0)
                moved /= previous.batch
                largest, exact = max(largest, moved), exact + moved
                rounding = design.rounding(block, previous.batch)
                noise += 2.0 * previous.terms * rounding + spacing
                total += previous.terms * design.largest(block)
            unit = (exact if full_batch else largest) + noise + 4.0 * EPS * (total + noise)
            if each.n_draws:
                unit *= 1.0 + 1e-12
                draws[unit] = draws.get(unit, 0) + each.n_draws
        result.append(list(draws.items()))
    return result


def theory_steps(design: VertexDesign, n_rounds: int) -> tuple[float, ...]:
    """``sqrt(log d / T) / L0`` for each block."""
    return tuple(
        math.sqrt(log / n_rounds) / magnitude
        for log, magnitude in zip(design.log_sizes, design.magnitudes, strict=True)
    )


def finished(
    design: VertexDesign,
    budget: PrivacyBudget,
    rounds: Sequence[Round],
    calibration: Calibration,
    algorithm: str,
    *,
    full_batch: bool = False,
    average: bool = False,
    caps: Sequence[float],
    **numbers: Any,
) -> VertexPlan:
    """Choose the steps: what privacy allows, of "paper" at most `caps`.

    Batches are refused under add/remove neighbours: their number of records would be private.
    """
    if not full_batch:
        require_replace_one(design.neighbouring, f"batches of {algorithm}")
    shapes = theory_steps(design, 1)
    per_block = score_sensitivities(design, rounds, full_batch)
    draws = [
        (shape * unit, count)
        for shape, block in zip(shapes, per_block, strict=True)
        for unit, count in block
    ]
    scale = calibrated_draws(budget, draws)  # the largest that keeps the budget
    steps = tuple(scale * shape for shape in shapes)
    if calibration == "paper":
        steps = tuple(map(min, steps, caps))
    return VertexPlan(
        design=design,
        rounds=tuple(rounds),
        steps=steps,
        full_batch=full_batch,
        average=average,
        algorithm=algorithm,
        numbers=(("calibration", calibration), *numbers.items()),
    )
