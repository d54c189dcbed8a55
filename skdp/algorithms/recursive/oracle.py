"""Noisy gradients of a minimax problem, of which a plan allows a number that is fixed beforehand.

The oracle is the only part of DP-RGDA that holds records. A query draws one batch and releases the
two blocks of the gradient, jointly or one after the other, or how far they moved since an earlier
point. Sensitivities: docs/theory/dp_rgda.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from skdp.mechanisms import GaussianMechanism, NoiseSource
from skdp.mechanisms.sampled_gaussian import poisson_sample
from skdp.problems.constants import most_records
from skdp.problems.minimax import BlockName, MinimaxProblem, Point

if TYPE_CHECKING:
    from skdp.algorithms.recursive.rgda import Kind, RGDAPlan

#: Clipping norms below it are far from the end of double precision, and clip everything.
_NEGLIGIBLE = 1e-100


class NoisyGradientOracle:
    """Noisy means of clipped vectors of the records; refuses more queries than the plan has.

    A query has one batch and pays for its joint release, or for that of y and then that of x.
    """

    def __init__(self, problem: MinimaxProblem, plan: RGDAPlan, noise: NoiseSource) -> None:
        self.problem, self.plan, self.noise = problem, plan, noise
        #: Queries so far.
        self.counts: dict[str, int] = {"refresh": 0, "increment": 0}
        self._kind: Kind = "refresh"
        self._open: list[BlockName] = []
        self._batch: np.ndarray | None = None

    def query(self, kind: Kind) -> NoisyGradientOracle:
        """Begin a query on a fresh batch; raise RuntimeError if all of the plan are spent."""
        mechanism = self.plan.mechanism(kind)
        if self.counts[kind] >= mechanism.n_steps:
            raise RuntimeError(f"All {mechanism.n_steps} queries ({kind}) of the plan are spent.")
        self.counts[kind] += 1
        self._kind, self._open = kind, ["y", "x"] if self.plan.is_linear_dual else ["joint"]
        self._batch = poisson_sample(self.problem.n_records, mechanism.sampling_rate, self.noise)
        return self

    def release(self, block: BlockName, point: Point, anchor: Point | None = None) -> np.ndarray:
        """Release the mean of a block at `point`, or of its change since `anchor`.

        Raises RuntimeError if the block was released before, or an increment has no anchor.
        """
        if block not in self._open or (anchor is None) != (self._kind == "refresh"):
            raise RuntimeError(f"This query ({self._kind}) does not pay for block {block!r}.")
        self._open.remove(block)
        problem, mechanism = self.problem, self.plan.mechanism(self._kind)
        clip = self.clip(block, point, anchor)
        if clip < _NEGLIGIBLE:  # such as a change between equal points: no look at the records
            return np.zeros(problem.dimension(block))
        limit = problem.limit(clip, block, point, anchor, most_records(self.plan.n_public))
        total = problem.clipped_sum(block, point, anchor, limit, self._batch)
        multiplier = self.plan.multiplier(self._kind, block) / mechanism.sensitivity
        sensitivity = mechanism.sensitivity
        if mechanism.sampling_rate == 1.0:  # what a sample costs is known for a distance of 2
            sensitivity = min(sensitivity, problem.diameter(block, anchor))
        noisy = GaussianMechanism(sensitivity * clip, multiplier).release(total, self.noise)
        return np.asarray(noisy / (mechanism.sampling_rate * self.plan.n_public))

    def clip(self, block: BlockName, point: Point, anchor: Point | None) -> float:
        """Return the clipping norm of a block, a function of released points."""
        settings, problem = self.plan.settings, self.problem
        unit = settings.unit_y if block == "y" else 1.0
        weight = problem.largest_weight(block, point)
        if anchor is None:
            return settings.clip * unit * weight
        weight = max(weight, problem.largest_weight(block, anchor))
        x, y = (np.linalg.norm(new - old) for new, old in zip(point, anchor, strict=True))
        # it bounds noise; the guarantee does not depend on it
        distance = settings.smoothness * float(np.hypot(x, 0.0 if block == "y" else y))
        clip = min(settings.clip * weight, distance * weight)
        return clip * unit if math.isfinite(clip) else settings.clip * unit
