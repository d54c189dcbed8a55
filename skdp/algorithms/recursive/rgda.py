"""DP-RGDA: recursive noisy gradient descent ascent for non-convex minimax problems.

Xu et al. (2026), Algorithms 2 and 3, corrected. Every `period`-th step releases a gradient, the
steps between release how far the gradients moved, which takes less noise. The outer loop
(:mod:`skdp.algorithms.recursive.outer_loop`) descends in x, and tells saddle points from minima by
an escape phase. What was wrong in the published form, and what the certificate is worth:
docs/theory/dp_rgda.md.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from skdp._checks import check_bool, check_count, check_option, check_positive, check_real
from skdp.algorithms.plan import Run
from skdp.algorithms.recursive.oracle import Ledger
from skdp.algorithms.recursive.outer_loop import EscapePhase
from skdp.algorithms.recursive.plan import RGDAPlan, RGDAResult
from skdp.mechanisms import SampledGaussianMechanism
from skdp.mechanisms.calibration import gaussian_noise_multiplier
from skdp.mechanisms.sampled_gaussian import smallest_scale
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import ComposedEvent, Neighbouring, PrivacyEvent
from skdp.problems.minimax import MinimaxProblem, Point


def dp_rgda(
    problem: MinimaxProblem,
    budget: PrivacyBudget | None = None,
    *,
    start: Point | None = None,
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
    budget : PrivacyBudget, optional
        Of the full horizon, delta > 0. Either this or `noise_multiplier`.
    start : (ndarray, ndarray), optional
        Public; default: 0.
    run : Run, optional
    n_public : int, optional
        Needed under "add_remove"; default under "replace_one": the number of records.
    neighbouring : Neighbouring or str, default="replace_one"
    **options
        Those of :func:`plan_dp_rgda`. They must be chosen without looking at the records.

    Returns
    -------
    RGDAResult

    References
    ----------
    D. Xu, Y. Tao, M. Ding, C. Fan, D. Wang, "Finding differentially private second order
    stationary points in stochastic minimax optimization", 2026: Algorithms 2 and 3, corrected.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.algorithms import Run, dp_rgda
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
    >>> result = dp_rgda(
    ...     problem, PrivacyBudget(1.0, 1e-6), n_steps=40, period=4, clip=2.0, smoothness=1.0,
    ...     step_size=0.3, step_size_y=0.3, normalise=False,
    ...     run=Run(noise=NoiseSource(rng.bytes)),
    ... )
    >>> bool(abs(result.point[0] - 1.0) < 0.1), bool(abs(result.y[0] - 1.0) < 0.1)
    (True, True)
    """
    if not isinstance(problem, MinimaxProblem):
        raise TypeError(f"problem must be a MinimaxProblem, got {type(problem).__name__}.")
    relation = Neighbouring(neighbouring)
    if n_public is None:
        if relation is Neighbouring.ADD_REMOVE:
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
    return plan.run(problem, run or Run(), start)


def plan_dp_rgda(
    budget: PrivacyBudget | None = None,
    *,
    n_public: int,
    dimension_x: int,
    dimension_y: int,
    n_steps: int,
    period: int = 1,
    inner_steps: int = 1,
    sampling_rate: float = 1.0,
    sampling_rate_difference: float | None = None,
    clip: float = 1.0,
    clip_difference: float | None = None,
    smoothness: float = 1.0,
    noise_ratio: float = 1.0,
    linear_dual: bool = False,
    share_y: float = 0.2,
    unit_y: float = 1.0,
    step_size: float = 0.1,
    step_size_y: float = 0.1,
    normalise: bool = True,
    momentum: float = 0.0,
    decay: bool = False,
    select: str = "last",
    average: bool = False,
    radius: float = 1e6,
    escape: EscapePhase | None = None,
    neighbouring: Neighbouring | str = Neighbouring.REPLACE_ONE,
    noise_multiplier: float | None = None,
) -> RGDAPlan:
    """Calibrate the noise of all queries from public numbers.

    Parameters
    ----------
    budget : PrivacyBudget, optional
        Of the full horizon, delta > 0.
    n_public : int
        Public number of records, nominal under "add_remove".
    dimension_x, dimension_y : int
    n_steps : int
        Outer steps.
    period : int, default=1
        Every `period`-th step releases gradients anew. 1: there are no differences.
    inner_steps : int, default=1
        Ascent steps per outer step, each with a query; 1 for a linear dual.
    sampling_rate, sampling_rate_difference : float
        Of the Poisson batches of gradients and of differences; default: 1, and the same.
    clip : float, default=1.0
        Largest norm of a record's gradient (in x and y together).
    clip_difference : float, optional
        Of a difference of two gradients of a record; default: `clip`.
    smoothness : float, default=1.0
        Differences are also clipped to `smoothness` times the distance of the two points.
    noise_ratio : float, default=1.0
        Noise of a difference over that of a gradient, each in units of its clipping norm.
    linear_dual : bool, default=False
        See :class:`skdp.problems.MinimaxProblem`.
    share_y : float, default=0.2
        Of the budget of a query, for the gradient in y of a linear dual.
    unit_y : float, default=1.0
        Clipping norm of the gradient in y of a linear dual, in units of `clip`.
    step_size : float, default=0.1
        Length of a descent step or, without `normalise`, factor of the gradient.
    step_size_y : float, default=0.1
    normalise : bool, default=True
    momentum : float, default=0.0
        In [0, 1): descent steps follow ``m <- momentum m + (1 - momentum) v``.
    decay : bool, default=False
        The length of descent steps falls linearly to 0 over the run.
    select : {"last", "least_gradient"}, default="last"
        The point returned if no candidate was found.
    average : bool, default=False
        Return the mean of the second half of the x instead.
    radius : float, default=1e6
        Of the ball that x is kept in.
    escape : EscapePhase, optional
        Default: none. See :func:`plan_escape_phase`.
    neighbouring : Neighbouring or str, default="replace_one"
    noise_multiplier : float, optional
        Of a gradient, in units of the sensitivity, instead of a budget.

    Raises
    ------
    ImportError
        With sampling and a budget, if dp-accounting is missing or too old.
    TypeError, ValueError
        For invalid parameters.
    """
    relation = Neighbouring(neighbouring)
    for name, count, least in (
        ("n_public", n_public, 1),
        ("dimension_x", dimension_x, 1),
        ("dimension_y", dimension_y, 0),
        ("n_steps", n_steps, 1),
        ("inner_steps", inner_steps, 1),
    ):
        check_count(name, count, least)
    check_count("period", period, 1, n_steps)
    rates = (
        sampling_rate,
        (sampling_rate if sampling_rate_difference is None else sampling_rate_difference),
    )
    for name, rate in zip(("sampling_rate", "sampling_rate_difference"), rates, strict=True):
        check_real(name, rate, 0.0, 1.0, closed="right")
    clip_difference = clip if clip_difference is None else clip_difference
    for name, value in (
        ("clip", clip),
        ("clip_difference", clip_difference),
        ("smoothness", smoothness),
        ("noise_ratio", noise_ratio),
        ("unit_y", unit_y),
        ("step_size", step_size),
        ("step_size_y", step_size_y),
        ("radius", radius),
    ):
        # wide, but products of them are far from the ends of double precision
        check_real(name, value, 1e-50, 1e50)
    check_real("share_y", share_y, 0.0, 1.0, closed="neither")
    check_option("select", select, ("last", "least_gradient"))
    check_real("momentum", momentum, 0.0, 1.0, closed="left")
    flags = {"normalise": normalise, "decay": decay, "average": average, "linear_dual": linear_dual}
    for name, flag in flags.items():
        check_bool(name, flag)
    if linear_dual and inner_steps != 1:
        raise ValueError("inner_steps must be 1 for a linear dual, which is solved for.")
    if not (escape is None or isinstance(escape, EscapePhase)):
        raise TypeError(f"escape must be an EscapePhase, got {escape!r}.")
    n_refresh = -(-n_steps // period)
    n_increment = n_steps * inner_steps - n_refresh
    refresh, increment = _calibrated(
        budget, noise_multiplier, relation, (n_refresh, n_increment), rates, float(noise_ratio)
    )
    ledger = Ledger(
        refresh=refresh,
        increment=increment,
        clip=float(clip),
        clip_difference=float(clip_difference),
        smoothness=float(smoothness),
        n_public=int(n_public),
        share_y=float(share_y) if linear_dual else None,
        unit_y=float(unit_y),
    )
    return RGDAPlan(
        dimension_x=int(dimension_x),
        dimension_y=int(dimension_y),
        neighbouring=relation,
        delta=None if budget is None else budget.delta,
        ledger=ledger,
        n_steps=int(n_steps),
        period=int(period),
        inner_steps=int(inner_steps),
        step_size=float(step_size),
        step_size_y=float(step_size_y),
        normalise=bool(normalise),
        momentum=float(momentum),
        decay=bool(decay),
        select=select,
        average=bool(average),
        radius=float(radius),
        escape=escape,
    )


def _calibrated(
    budget: PrivacyBudget | None,
    noise_multiplier: float | None,
    relation: Neighbouring,
    counts: tuple[int, int],
    rates: tuple[float, float],
    ratio: float,
) -> tuple[SampledGaussianMechanism, SampledGaussianMechanism | None]:
    """Return the mechanisms of gradients and of differences that keep a run within the budget.

    Their noise multipliers are in units of the sensitivity, that of differences is `ratio` times
    that of gradients. Without sampling they are exact: ``sum 1 / m^2 = mu^2``.
    """
    sensitivity = 1.0 if relation is Neighbouring.ADD_REMOVE else 2.0

    def mechanisms(
        multiplier: float,
    ) -> tuple[SampledGaussianMechanism, SampledGaussianMechanism | None]:
        first = SampledGaussianMechanism(sensitivity, multiplier, rates[0], counts[0])
        if not counts[1]:
            return first, None
        return first, replace(
            first,
            noise_multiplier=multiplier * ratio,
            sampling_rate=rates[1],
            n_steps=counts[1],
        )

    if (budget is None) == (noise_multiplier is None):
        raise ValueError("Exactly one of budget and noise_multiplier must be given.")
    if noise_multiplier is not None:
        check_real("noise_multiplier", noise_multiplier, 1e-50, 1e50)
        return mechanisms(float(noise_multiplier))
    if not isinstance(budget, PrivacyBudget):
        raise TypeError(f"budget must be a PrivacyBudget, got {budget!r}.")
    if budget.is_pure:
        raise ValueError("delta == 0: Gaussian noise needs delta > 0.")
    check_positive(noise_ratio=ratio)
    unsampled = gaussian_noise_multiplier(budget.epsilon, budget.delta) * math.sqrt(
        counts[0] + counts[1] / ratio**2
    )
    if all(rate == 1.0 for rate, count in zip(rates, counts, strict=True) if count):
        return mechanisms(unsampled)

    def event(scale: float) -> PrivacyEvent:
        used = mechanisms(scale * unsampled)
        return ComposedEvent(tuple(each.event(relation) for each in used if each is not None))

    return mechanisms(unsampled * smallest_scale(event, budget))
