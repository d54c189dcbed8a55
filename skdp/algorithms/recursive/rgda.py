"""DP-RGDA: recursive noisy gradient descent ascent for non-convex minimax problems.

Xu et al. (2026), Algorithms 2 and 3, corrected. Every `period`-th step releases a gradient, the
steps between release how far the gradients moved, which takes less noise. The outer loop
(:mod:`skdp.algorithms.recursive.outer_loop`) descends in x, and tells saddle points from minima by
an escape phase. What was wrong in the published form, and what the certificate is worth:
docs/theory/dp_rgda.md.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from skdp._checks import check_bool, check_count, check_real
from skdp._runtime import without_warnings
from skdp.algorithms.plan import Plan, Result, Run
from skdp.algorithms.recursive.oracle import NoisyGradientOracle
from skdp.algorithms.recursive.outer_loop import OuterLoop, Status, kept_in_ball
from skdp.algorithms.recursive.settings import RGDASettings
from skdp.mechanisms import GaussianMechanism, SampledGaussianMechanism
from skdp.mechanisms.calibration import gaussian_noise_multiplier
from skdp.mechanisms.sampled_gaussian import smallest_scale
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import ComposedEvent, Neighbouring, PrivacyEvent
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
        *("settings.inner_steps", "clip_norm=settings.clip", "settings.smoothness", "share_y"),
        *("settings.unit_y", "settings.step_size", "settings.step_size_y", "settings.normalise"),
        *("settings.momentum", "settings.decay", "settings.average", "settings.radius"),
    )

    @property
    def share_y(self) -> float | None:
        """Of a linear dual, the share of the first release (of the gradient in y) in
        ``1 / z^2 = 1 / z_y^2 + 1 / z_x^2``. None: both blocks are one release.
        """
        return self.settings.share_y if self.is_linear_dual else None

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

    def noise_scale(self) -> float:
        """Standard deviation of the noise in a coordinate of v, in units of the clipping norm."""
        block: BlockName = "x" if self.is_linear_dual else "joint"
        return self.multiplier("refresh", block) / (self.refresh.sampling_rate * self.n_public)

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


def dp_rgda(
    problem: MinimaxProblem,
    budget: PrivacyBudget,
    *,
    run: Run | None = None,
    n_public: int | None = None,
    neighbouring: Neighbouring | str = Neighbouring.REPLACE_ONE,
    **options: Any,
) -> RGDAResult:
    """Search a second-order stationary point of ``max over y of f(x, y)``, privately.

    Each outer step estimates the gradient in x and y, ascends in y (or solves for it, if the dual
    is linear), and takes one step in x. Once the estimated gradient is below `escape.alpha`, x is
    perturbed; if it does not move away, the point before is returned.

    Parameters
    ----------
    problem : MinimaxProblem
    budget : PrivacyBudget
        Of the full horizon, delta > 0.
    run : Run, optional
    n_public : int, optional
        Needed under "add_remove"; default under "replace_one": the number of records.
    neighbouring : Neighbouring or str, default="replace_one"
    **options
        `settings`: see :func:`plan_dp_rgda`.

    References
    ----------
    D. Xu, Y. Tao, M. Ding, C. Fan, D. Wang, "Finding differentially private second order
    stationary points in stochastic minimax optimization", 2026: Algorithms 2 and 3, corrected.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.algorithms import RGDASettings, Run, dp_rgda
    >>> from skdp.mechanisms import NoiseSource
    >>> from skdp.privacy import PrivacyBudget
    >>> from skdp.problems import RecordGradients
    >>> rng = np.random.default_rng(0)
    >>> A = rng.normal(1.0, 0.1, size=(2000, 1))
    >>> def gradients(block, point, positions):  # of y a_i - y^2 / 2 + (x - a_i)^2 / 2
    ...     x, y = point
    ...     a = A[positions]
    ...     return np.hstack([x - a, a])
    >>> problem = RecordGradients(
    ...     2000, 1, 1, gradients, public_gradient=lambda point: (np.zeros(1), -point[1])
    ... )
    >>> settings = RGDASettings(
    ...     n_steps=40, period=4, clip=2.0, step_size=0.3, step_size_y=0.3, normalise=False
    ... )
    >>> run = Run(noise=NoiseSource(rng.bytes))
    >>> result = dp_rgda(problem, PrivacyBudget(1.0, 1e-6), settings=settings, run=run)
    >>> bool(abs(result.point[0] - 1.0) < 0.1), bool(abs(result.y[0] - 1.0) < 0.1)
    (True, True)
    """
    if not isinstance(problem, MinimaxProblem):
        raise TypeError(f"problem must be a MinimaxProblem, got {type(problem).__name__}.")
    relation = Neighbouring(neighbouring)
    if n_public is None:
        if not relation.is_replaced:
            raise ValueError(
                "neighbouring == 'add_remove' needs n_public: the number of records is private."
            )
        n_public = problem.n_records
    plan = plan_dp_rgda(
        budget,
        n_public=n_public,
        dimension_x=problem.dimension_x,
        dimension_y=problem.dimension_y,
        linear_dual=problem.is_dual_linear,
        neighbouring=relation,
        **options,
    )
    return plan.run(problem, run or Run())


def plan_dp_rgda(
    budget: PrivacyBudget,
    *,
    settings: RGDASettings,
    n_public: int,
    dimension_x: int,
    dimension_y: int,
    linear_dual: bool = False,
    neighbouring: Neighbouring | str = Neighbouring.REPLACE_ONE,
    share: float = 1.0,
) -> RGDAPlan:
    """Calibrate the noise of all queries from public numbers.

    Parameters
    ----------
    budget : PrivacyBudget
        Of the full horizon, delta > 0.
    settings : RGDASettings
    n_public : int
        Public number of records, nominal under "add_remove".
    dimension_x, dimension_y : int
    linear_dual : bool, default=False
        See :class:`skdp.problems.MinimaxProblem`.
    neighbouring : Neighbouring or str, default="replace_one"
    share : float, default=1.0
        Part of the squared mu of the budget, for batches of all records.

    Raises
    ------
    ImportError
        With sampling, if dp-accounting is missing or older than 0.5.
    TypeError, ValueError
        For invalid parameters.
    """
    relation = Neighbouring(neighbouring)
    if not isinstance(settings, RGDASettings):
        raise TypeError(f"settings must be RGDASettings, got {settings!r}.")
    check_count("n_public", n_public)
    check_count("dimension_x", dimension_x)
    check_count("dimension_y", dimension_y, 0)
    check_bool("linear_dual", linear_dual)
    check_real("share", share, 0.0, 1.0, closed="right")
    if linear_dual and settings.inner_steps != 1:
        raise ValueError("inner_steps must be 1 for a linear dual, which is solved for.")
    refresh, increment = _calibrated(budget, share, relation, settings)
    return RGDAPlan(
        dimension_x=int(dimension_x),
        dimension_y=int(dimension_y),
        neighbouring=relation,
        refresh=refresh,
        increment=increment,
        settings=settings,
        n_public=int(n_public),
        is_linear_dual=bool(linear_dual),
    )


def _mechanisms(
    multiplier: float, relation: Neighbouring, settings: RGDASettings
) -> tuple[SampledGaussianMechanism, SampledGaussianMechanism | None]:
    """Return the mechanisms of gradients and of differences, by the noise of a gradient.

    Noise multipliers are in units of the sensitivity, that of differences is `noise_ratio` times
    that of gradients.
    """
    n_refresh, n_increment = settings.n_queries
    first = SampledGaussianMechanism(
        relation.n_changes, multiplier, settings.sampling_rate, n_refresh
    )
    if not n_increment:
        return first, None
    return first, replace(
        first,
        noise_multiplier=multiplier * settings.noise_ratio,
        sampling_rate=settings.sampling_rate_difference or settings.sampling_rate,
        n_steps=n_increment,
    )


def _calibrated(
    budget: PrivacyBudget, share: float, relation: Neighbouring, settings: RGDASettings
) -> tuple[SampledGaussianMechanism, SampledGaussianMechanism | None]:
    """Return the mechanisms that keep a run within a share of the budget.

    Without sampling they are exact: ``sum 1 / m^2 = share mu^2``.
    """
    if not isinstance(budget, PrivacyBudget):
        raise TypeError(f"budget must be a PrivacyBudget, got {budget!r}.")
    if budget.is_pure:
        raise ValueError("delta == 0: Gaussian noise needs delta > 0.")
    n_refresh, n_increment = settings.n_queries
    unsampled = gaussian_noise_multiplier(budget.epsilon, budget.delta) * math.sqrt(
        n_refresh + n_increment / settings.noise_ratio**2
    )
    whole = _mechanisms(unsampled / math.sqrt(share), relation, settings)
    if all(each is None or each.sampling_rate == 1.0 for each in whole):
        return whole
    if share != 1.0:
        raise ValueError("A share of the budget is exact for batches of all records alone.")

    def event(scale: float) -> PrivacyEvent:
        used = _mechanisms(scale * unsampled, relation, settings)
        return ComposedEvent(tuple(each.event(relation) for each in used if each is not None))

    return _mechanisms(unsampled * smallest_scale(event, budget), relation, settings)
