"""Noisy gradients of a minimax problem, of which a ledger allows a number that is fixed beforehand.

The oracle is the only part of DP-RGDA that holds records. A query draws one batch and releases the
two blocks of the gradient, jointly or one after the other, or how far they moved since an earlier
point. Sensitivities: docs/theory/dp_rgda.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from skdp.algorithms.recursive.settings import RGDASettings
from skdp.mechanisms import GaussianMechanism, NoiseSource, SampledGaussianMechanism
from skdp.mechanisms.sampled_gaussian import poisson_sample
from skdp.problems.constants import most_records
from skdp.problems.minimax import BlockName, MinimaxProblem, Point

Kind = Literal["refresh", "increment"]
#: Clipping norms below it are far from the end of double precision, and clip everything.
_NEGLIGIBLE = 1e-100


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """Numbers, noise and clipping of the queries."""

    #: Per query, with the sensitivity in units of the clipping norm: 1 for add/remove and 2 for
    #: replace-one neighbours. None: there are none.
    refresh: SampledGaussianMechanism
    increment: SampledGaussianMechanism | None
    settings: RGDASettings
    #: Public number of records.
    n_public: int
    #: Whether the gradients in y and in x are released one after the other.
    is_linear_dual: bool

    @property
    def share_y(self) -> float | None:
        """Of a linear dual, the share of the first release (of the gradient in y) in
        ``1 / z^2 = 1 / z_y^2 + 1 / z_x^2``. None: both blocks are one release.
        """
        return self.settings.share_y if self.is_linear_dual else None

    def with_less(self, share: float) -> Ledger:
        """Return the ledger for a share of the budget; for batches of all records."""
        used = (self.refresh, self.increment)
        if any(each is not None and each.sampling_rate < 1.0 for each in used):
            raise ValueError("A share of the budget is exact for batches of all records alone.")
        refresh, increment = (
            each and replace(each, noise_multiplier=each.noise_multiplier / math.sqrt(share))
            for each in used
        )
        assert refresh is not None
        return replace(self, refresh=refresh, increment=increment)

    def mechanism(self, kind: Kind) -> SampledGaussianMechanism:
        """Return the mechanism of a kind of queries."""
        mechanism = self.refresh if kind == "refresh" else self.increment
        if mechanism is None:
            raise RuntimeError("The ledger has no increments.")
        return mechanism

    def multiplier(self, kind: Kind, block: BlockName) -> float:
        """Return the noise of a block of the sum, in units of its clipping norm."""
        mechanism, share = self.mechanism(kind), 1.0
        if block != "joint":
            assert self.share_y is not None
            share = self.share_y if block == "y" else 1.0 - self.share_y
        return mechanism.noise_multiplier * mechanism.sensitivity / math.sqrt(share)


class NoisyGradientOracle:
    """Noisy means of clipped vectors of the records; refuses more queries than the ledger has."""

    def __init__(self, problem: MinimaxProblem, ledger: Ledger, noise: NoiseSource) -> None:
        self.problem, self.ledger, self.noise = problem, ledger, noise
        #: Queries so far.
        self.counts: dict[str, int] = {"refresh": 0, "increment": 0}

    def query(self, kind: Kind) -> Query:
        """Begin a query on a fresh batch; raise RuntimeError if all of the ledger are spent."""
        mechanism = self.ledger.mechanism(kind)
        if self.counts[kind] >= mechanism.n_steps:
            raise RuntimeError(f"All {mechanism.n_steps} queries ({kind}) of the ledger are spent.")
        self.counts[kind] += 1
        return Query(self, kind)


class Query:
    """Releases of one batch: the joint one, or that of y and then that of x."""

    def __init__(self, oracle: NoisyGradientOracle, kind: Kind) -> None:
        self._problem, self._ledger, self._noise = oracle.problem, oracle.ledger, oracle.noise
        self._kind: Kind = kind
        self._open: list[BlockName] = ["y", "x"] if self._ledger.is_linear_dual else ["joint"]
        mechanism = self._ledger.mechanism(kind)
        self._batch = poisson_sample(self._problem.n_records, mechanism.sampling_rate, self._noise)

    def release(self, block: BlockName, point: Point, anchor: Point | None = None) -> np.ndarray:
        """Release the mean of a block at `point`, or of its change since `anchor`.

        Raises RuntimeError if the block was released before, or an increment has no anchor.
        """
        if block not in self._open or (anchor is None) != (self._kind == "refresh"):
            raise RuntimeError(f"This query ({self._kind}) does not pay for block {block!r}.")
        self._open.remove(block)
        problem, mechanism = self._problem, self._ledger.mechanism(self._kind)
        clip = self.clip(block, point, anchor)
        if clip < _NEGLIGIBLE:  # such as a change between equal points: no look at the records
            return np.zeros(problem.dimension(block))
        limit = problem.limit(clip, block, point, anchor, most_records(self._ledger.n_public))
        total = problem.clipped_sum(block, point, anchor, limit, self._batch)
        multiplier = self._ledger.multiplier(self._kind, block) / mechanism.sensitivity
        sensitivity = mechanism.sensitivity
        if mechanism.sampling_rate == 1.0:  # what a sample costs is known for a distance of 2
            sensitivity = min(sensitivity, problem.diameter(block, anchor))
        noisy = GaussianMechanism(sensitivity * clip, multiplier).release(total, self._noise)
        return np.asarray(noisy / (mechanism.sampling_rate * self._ledger.n_public))

    def clip(self, block: BlockName, point: Point, anchor: Point | None) -> float:
        """Return the clipping norm of a block, a function of released points."""
        settings, problem = self._ledger.settings, self._problem
        unit = settings.unit_y if block == "y" else 1.0
        weight = problem.largest_weight(block, point)
        if anchor is None:
            return settings.clip * unit * weight
        weight = max(weight, problem.largest_weight(block, anchor))
        x, y = (np.linalg.norm(new - old) for new, old in zip(point, anchor, strict=True))
        # it bounds noise; the guarantee does not depend on it
        distance = settings.smoothness * float(np.hypot(x, 0.0 if block == "y" else y))
        largest = settings.clip_of_differences
        clip = min(largest * weight, distance * weight)
        return clip * unit if math.isfinite(clip) else largest * unit
