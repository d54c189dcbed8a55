"""A run of DP-RGDA: what is fixed beforehand, and how gradients are estimated from releases.

The plan holds the numbers of the oracle (:mod:`skdp.algorithms.recursive.oracle`), which alone
reads the records, and of the outer loop (:mod:`skdp.algorithms.recursive.outer_loop`), which sees
released numbers only. :func:`skdp.algorithms.plan_dp_rgda` makes it.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from skdp._runtime import without_warnings
from skdp.algorithms.plan import Plan, Result, Run
from skdp.algorithms.recursive.oracle import NoisyGradientOracle
from skdp.algorithms.recursive.outer_loop import OuterLoop, Status, kept_in_ball
from skdp.algorithms.recursive.settings import RGDASettings
from skdp.mechanisms import GaussianMechanism, SampledGaussianMechanism
from skdp.privacy.events import Neighbouring
from skdp.privacy.report import Release
from skdp.problems.constants import check_nominal_size
from skdp.problems.minimax import BlockName, MinimaxProblem, Point

Kind = Literal["refresh", "increment"]
_REFERENCE = "Xu et al. 2026, Alg. 3 corrected: records clipped, all queries composed"


@dataclass(frozen=True, kw_only=True)
class RGDAPlan(Plan):
    """A plan of :func:`dp_rgda`: numbers, noise and clipping of the queries, and public steps.

    The costs are those of all `n_steps` outer steps, wherever a run ends.
    """

    dimension_x: int
    dimension_y: int
    neighbouring: Neighbouring
    #: Of gradients, with the sensitivity in units of the clipping norm: 1 for add/remove and 2 for
    #: replace-one neighbours.
    refresh: SampledGaussianMechanism
    #: The same of their changes; None: there are none.
    increment: SampledGaussianMechanism | None
    settings: RGDASettings
    #: Public number of records.
    n_public: int
    #: Whether the gradients in y and in x are released one after the other.
    is_linear_dual: bool

    shown = (
        *("neighbouring", "n_public", "settings.n_steps", "settings.period"),
        *("settings.inner_steps", "clip_norm=settings.clip"),
        *("clip_norm_difference=settings.clip_of_differences", "settings.smoothness", "share_y"),
        *("settings.unit_y", "settings.step_size", "settings.step_size_y", "settings.normalise"),
        *("settings.momentum", "settings.decay", "settings.average", "settings.radius"),
    )

    @property
    def share_y(self) -> float | None:
        """Of a linear dual, the share of the first release (of the gradient in y) in
        ``1 / z^2 = 1 / z_y^2 + 1 / z_x^2``. None: both blocks are one release.
        """
        return self.settings.share_y if self.is_linear_dual else None

    def with_less(self, share: float) -> RGDAPlan:
        """Return the plan for a share of the budget; for batches of all records."""
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
            raise RuntimeError("The plan has no increments.")
        return mechanism

    def multiplier(self, kind: Kind, block: BlockName) -> float:
        """Return the noise of a block of the sum, in units of its clipping norm."""
        mechanism, share = self.mechanism(kind), 1.0
        if block != "joint":
            assert self.share_y is not None
            share = self.share_y if block == "y" else 1.0 - self.share_y
        return mechanism.noise_multiplier * mechanism.sensitivity / math.sqrt(share)

    @property
    def releases(self) -> tuple[Release, ...]:
        named = (
            ("sums of clipped gradients", self.refresh),
            ("sums of clipped changes of gradients", self.increment),
        )
        return tuple(
            self._described(name, mechanism) for name, mechanism in named if mechanism is not None
        )

    def _described(self, name: str, queries: SampledGaussianMechanism) -> Release:
        """Describe queries; those of all records cost what one with the noise of their mean does.

        Numbers are in units of the clipping norm, which may differ between the steps.
        """
        mechanism: GaussianMechanism = queries
        name = f"{name}, {queries.n_steps} steps, for the clipping norm 1"
        if self.is_linear_dual:  # of the same event, but with their own unit and sensitivity
            name = f"{name}; numbers are those of x, losses of groups have others"
        if queries.sampling_rate == 1.0:
            multiplier = queries.noise_multiplier / math.sqrt(queries.n_steps)
            mechanism = GaussianMechanism(queries.sensitivity, multiplier)
            name = name.replace(" steps,", " steps as one,")
        dimension = self.dimension_x + self.dimension_y
        return mechanism.describe(name, dimension, self.n_public, _REFERENCE, self.neighbouring)

    def noise_scale(self, kind: Kind = "refresh") -> float:
        """Standard deviation of the noise in a coordinate of v, in units of the clipping norm."""
        mechanism = self.mechanism(kind)
        block: Literal["x", "joint"] = "x" if self.is_linear_dual else "joint"
        batch = mechanism.sampling_rate * self.n_public
        return self.multiplier(kind, block) / batch

    def alarms(self) -> tuple[str, ...]:
        """Warn of an escape phase that noise alone ends at once, or that never begins."""
        escape = self.settings.escape
        if escape is None:
            return ()
        floor = math.sqrt(self.dimension_x) * self.noise_scale() * self.settings.clip
        if floor < min(escape.alpha, escape.noise_limit):
            return ()
        return (
            f"The noise of a gradient has norm {floor:.3g}, above alpha == {escape.alpha:.3g} "
            f"or the limit {escape.noise_limit:.3g} of the escape phase: it does not end.",
        )

    def remarks(self) -> tuple[str, ...]:
        if self.settings.escape is None:
            return ()
        return ("targets second-order points; the certificate 'sosp_candidate' is heuristic",)

    def to_dict(self) -> dict[str, Any]:
        escape = self.settings.escape
        numbers = {**super().to_dict(), "escape": None if escape is None else asdict(escape)}
        for kind in ("refresh", "increment"):
            mechanism = getattr(self, kind)
            if mechanism is not None:
                numbers[f"n_{kind}"] = mechanism.n_steps
                numbers[f"sampling_rate_{kind}"] = mechanism.sampling_rate
                numbers[f"noise_multiplier_{kind}"] = mechanism.noise_multiplier
        return numbers

    @without_warnings()
    def run(self, data: MinimaxProblem, run: Run, start: Point | None = None) -> RGDAResult:
        """Carry out the plan from a public start, 0 by default.

        The noise of the run draws batches and noise, its rng perturbs x in the escape phase.
        """
        _check_problem(data, self)
        settings = self.settings
        if start is None:
            start = np.zeros(self.dimension_x), np.zeros(self.dimension_y)
        oracle = NoisyGradientOracle(data, self, run.noise)
        x = kept_in_ball(
            np.asarray(start[0], dtype=float), settings.radius, np.zeros(self.dimension_x)
        )
        y = np.asarray(start[1], dtype=float)
        outer = OuterLoop(x, settings, run.rng)
        estimate = _Estimate(oracle, data)
        total, first = np.zeros_like(x), settings.n_steps // 2
        for step in run.counted("noisy steps", settings.n_steps):
            refresh = step % settings.period == 0
            for k in range(settings.inner_steps):
                y = estimate.update((outer.x, y), refresh and k == 0)
            outer.move(y, estimate.v)
            total += outer.x if step >= first else 0.0
            if outer.is_done:
                assert outer.anchor is not None
                x, y = outer.anchor
                return RGDAResult(point=x, plan=self, y=y, status=outer.status)
        x = total / (settings.n_steps - first) if settings.average else outer.x
        return RGDAResult(point=x, plan=self, y=y, status=outer.status)


@dataclass(frozen=True, kw_only=True)
class RGDAResult(Result):
    """Private points and their plan.

    The point is x: the candidate, if the status says so; else the last iterate, or the average.
    """

    y: np.ndarray
    #: Of noisy gradients: it is released, and it is heuristic.
    status: Status


class _Estimate:
    """Released estimates (v, u) of the gradient at the anchor, which they are always for."""

    def __init__(self, oracle: NoisyGradientOracle, problem: MinimaxProblem) -> None:
        self.oracle, self.problem = oracle, problem
        self.data_v, self.data_u = np.zeros(problem.dimension_x), np.zeros(problem.dimension_y)
        self.v, self.u = self.data_v, self.data_u
        self.anchor: Point | None = None

    def update(self, point: Point, refresh: bool) -> np.ndarray:
        """Release both blocks at a point, or how they changed since the anchor; return the next y.

        It is an ascent step. A linear dual is solved before the gradient in x is released.
        """
        plan, problem, anchor = self.oracle.plan, self.problem, None if refresh else self.anchor
        query = self.oracle.query("refresh" if refresh else "increment")
        if plan.is_linear_dual:
            u = query.release("y", point, anchor)
            self.data_u = u if refresh else self.data_u + u
            point = point[0], problem.best_dual(self.data_u)
            v = query.release("x", point, anchor)
        else:
            v, u = np.split(query.release("joint", point, anchor), [problem.dimension_x])
            self.data_u = u if refresh else self.data_u + u
        self.data_v = v if refresh else self.data_v + v
        public_x, public_y = problem.public_gradient(point)
        self.v, self.u = self.data_v + public_x, self.data_u + public_y
        self.anchor, y = point, point[1]
        moved = y if plan.is_linear_dual else y + plan.settings.step_size_y * self.u
        return moved if np.isfinite(moved).all() else y


def _check_problem(problem: MinimaxProblem, plan: RGDAPlan) -> None:
    """Refuse a problem that the plan was not made for."""
    sizes = problem.dimension_x, problem.dimension_y, problem.is_dual_linear
    if sizes != (plan.dimension_x, plan.dimension_y, plan.is_linear_dual):
        raise ValueError("The plan was made for a problem of other dimensions.")
    if plan.neighbouring.is_replaced and problem.n_records != plan.n_public:
        raise ValueError(f"The plan is for {plan.n_public} records, not {problem.n_records}.")
    check_nominal_size(plan.n_public, problem.n_records)
