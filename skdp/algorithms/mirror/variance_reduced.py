"""Variance-reduced private Frank-Wolfe: Theorem 3.22 of González et al. (2024).

The best responses of their Algorithm 4 and the row of Table 1 for smooth functions over one
simplex; the algorithm is Algorithm 3 of Asi, Feldman, Koren and Talwar (2021). Phase t is a binary
tree of depth t. The root reads a batch for a gradient, each right child a batch for the difference
of the gradients at its first point and at that of its parent, and each leaf is a Frank-Wolfe step
to a vertex that is drawn by the sum of what is on its path. A record is in one batch, so it moves
the draws of the leaves below one node and no others: near the root many of them, near the leaves
few. Scores of the l1 geometry are drawn from by an exponential mechanism, not by noise on each
coordinate. The noise is derived in docs/theory/mirror_descent.md, section 6, not taken from print.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdp._checks import check_count, check_positive
from skdp.algorithms.mirror.plain import zcdp_of
from skdp.algorithms.mirror.rounds import DescentPlan, GridScores
from skdp.algorithms.plan import Result, Run, require_replace_one
from skdp.mechanisms import SoftmaxMechanism, calibrated_draws
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import whole_event
from skdp.privacy.report import Release
from skdp.problems.rounding import EPS
from skdp.problems.vertices import VertexDesign, VertexProblem


@dataclass(frozen=True, kw_only=True)
class Node:
    """The nodes of one depth in the tree of one phase."""

    #: Number of records that each of them reads.
    batch: int
    #: Below each of them.
    n_leaves: int
    #: Bound on a record's derivative, or on its change from the parent's point to the node's.
    limit: float
    #: Bound on the movement of the scores of these leaves in units of the phase's factor.
    sensitivity: float


@dataclass(frozen=True, kw_only=True)
class VarianceReducedPlan(DescentPlan):
    """Trees and the sharpness of their draws; the point holds vertex number k of them k times."""

    budget: PrivacyBudget
    #: By phase and depth.
    trees: tuple[tuple[Node, ...], ...]
    #: By phase: scores are minus this times the gradient.
    factors: tuple[float, ...]
    #: Of the grid of gradients.
    spacing: float

    @property
    def n_draws(self) -> int:
        """Number of draws that depend on records."""
        return sum(tree[0].n_leaves for tree in self.trees)

    @property
    def releases(self) -> tuple[Release, ...]:
        worst = max(
            factor * node.sensitivity
            for factor, tree in zip(self.factors, self.trees, strict=True)
            for node in tree
        )
        # batches share no record, and cost at most the budget each
        event = whole_event(self.budget.epsilon, self.budget.delta, self.design.neighbouring)
        sizes = self.design.sizes[0], self.design.n_records
        name = f"vertices of disjoint batches, {self.n_draws} draws"
        statement = "docs/theory/mirror_descent.md, Theorem 8"
        one = SoftmaxMechanism(worst).describe(name, *sizes, statement)
        return (replace(one, event=event),)

    def to_dict(self) -> dict[str, Any]:
        return {
            "algorithm": "Asi et al. 2021, Algorithm 3",
            "n_phases": len(self.trees),
            "n_draws": self.n_draws,
            "batch": self.trees[0][0].batch,
            "steps": list(self.factors),
        }

    def run_on_sequence(self, data: VertexProblem, run: Run) -> Result:
        return _Steps(self, data, run).result()


class _Steps:
    """The vertices drawn so far and the next record that no batch has."""

    def __init__(self, plan: VarianceReducedPlan, data: VertexProblem, run: Run) -> None:
        self.plan, self.data, self.noise, self.start = plan, data, run.noise, 0
        self.counted = run.counted("steps of Frank-Wolfe", plan.n_draws)
        # before anything is known: a vertex from scores of 0
        self.drawn = GridScores(plan.design.sizes[0], 1.0, 1.0).draw(1, run.noise)

    def result(self) -> Result:
        plan = self.plan
        for tree, factor in zip(plan.trees, plan.factors, strict=True):
            scores = GridScores(plan.design.sizes[0], plan.spacing, -factor)
            point = self.point
            (gradient,) = self.data.gradients(point, self._batch(tree[0]))
            scores.add(gradient)
            self._below(tree, 0, scores, point)
        next(self.counted, None)
        return Result(point=self.point, plan=plan)  # type: ignore[arg-type]

    @property
    def point(self) -> tuple[np.ndarray]:
        """Steps of ``2 / (k + 1)``: vertex k has a weight in proportion to k."""
        return (np.repeat(self.drawn, np.arange(1, len(self.drawn) + 1)),)

    def _batch(self, node: Node) -> slice:
        self.start += node.batch
        return slice(self.start - node.batch, self.start)

    def _below(self, tree: Any, depth: int, scores: GridScores, point: tuple[np.ndarray]) -> None:
        """Visit the leaves below a node, whose scores and first point are given."""
        if depth == len(tree) - 1:
            next(self.counted, None)
            self.drawn = np.concatenate([self.drawn, scores.draw(1, self.noise)])
            return
        self._below(tree, depth + 1, scores, point)
        child, scores, here = tree[depth + 1], copy.copy(scores), self.point
        (change,) = self.data.changes(here, point, self._batch(child), (child.limit,))
        scores.add(change)
        self._below(tree, depth + 1, scores, here)


def distance(first: int, last: int) -> float:
    """Bound the l1 distance of the points after `first` and `last` steps of ``2 / (k + 1)``."""
    return 2.0 * (1.0 - first * (first + 1.0) / (last * (last + 1.0)))


def plan_variance_reduced_frank_wolfe(
    design: VertexDesign,
    budget: PrivacyBudget,
    *,
    n_phases: int | None = None,
    smoothness: float | None = None,
) -> VarianceReducedPlan:
    """Plan the trees.

    Parameters
    ----------
    design : VertexDesign
        Of one block.
    budget : PrivacyBudget
        Of each batch, and so of the whole.
    n_phases : int, optional
        Depth of the last tree. Default: the most with ``L1 / 2^t`` (the error of the steps) above
        ``o log(d) sqrt(2^t / (2 rho)) / b`` (that of the draws), o the oscillation.
    smoothness : float, optional
        L1, the Lipschitz constant of a record's partial derivatives in the l1 norm: their changes
        are clipped to what it allows. Default: that of a linear model, else the magnitude.

    Raises
    ------
    ValueError
        For problems of two blocks, or too few records for the trees.
    """
    if len(design.sizes) != 1:
        raise ValueError("variance-reduced Frank-Wolfe minimises over one simplex.")
    require_replace_one(design.neighbouring, "batches of Frank-Wolfe steps")
    if smoothness is None:
        smoothness = getattr(design, "smoothness", design.magnitudes[0])
    check_positive(smoothness=smoothness)
    if n_phases is None:
        n_phases = _phases(design, budget, smoothness)
    check_count("n_phases", n_phases, 1, 30)
    first = _batch(design, n_phases)
    if first < 2**n_phases:
        raise ValueError(
            f"There are too few records, n_samples = {design.n_records}, for {n_phases} phases."
        )
    (magnitude,), (moved,) = design.magnitudes, design.oscillations
    # all means on the path to a leaf
    total = magnitude * (1.0 + 2.0 * n_phases)
    spacing = 2.0 ** math.ceil(math.log2(max(moved / first * 2.0**-16, total * 2.0**-50)))
    trees, factors, done = [], [], 1
    for t in range(1, n_phases + 1):
        tree = []
        for depth in range(t + 1):
            batch, leaves = first // 2**depth, 2 ** (t - depth)
            limit = moved
            if depth:  # the first right child of this depth is farthest from its parent
                limit = min(moved, smoothness * distance(done, done + leaves))
            change = (2.0 * limit if depth else moved) / batch
            rounding = 2.0 * (2.0 if depth else 1.0) * design.rounding(0, batch)
            noise = rounding + spacing + 4.0 * EPS * total
            unit = (change + noise) * (1.0 + 1e-12)
            tree.append(Node(batch=batch, n_leaves=leaves, limit=limit, sensitivity=unit))
        trees.append(tuple(tree))
        factors.append(
            min(calibrated_draws(budget, [(node.sensitivity, node.n_leaves)]) for node in tree)
        )
        done += 2**t
    return VarianceReducedPlan(
        design=design,
        budget=budget,
        trees=tuple(trees),
        factors=tuple(factors),
        spacing=spacing,
    )


def _batch(design: VertexDesign, n_phases: int) -> int:
    """Size b of the roots' batches: 2^(j - 1) nodes of depth j have b / 2^j each."""
    return int(design.n_records / sum(1.0 + 0.5 * t for t in range(1, n_phases + 1)))


def _phases(design: VertexDesign, budget: PrivacyBudget, smoothness: float) -> int:
    (moved,), (log,), rho = design.oscillations, design.log_sizes, zcdp_of(budget)
    best = 1
    for t in range(1, 31):
        first = _batch(design, t)
        drawn = moved * log * math.sqrt(2.0**t / (2.0 * rho)) / max(first, 1)
        if first < 2**t or smoothness / 2.0**t < drawn:
            break
        best = t
    return best
