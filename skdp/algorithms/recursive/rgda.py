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

from skdp._checks import check_bool, check_count, check_real
from skdp.algorithms.plan import Run
from skdp.algorithms.recursive.plan import RGDAPlan, RGDAResult
from skdp.algorithms.recursive.settings import RGDASettings
from skdp.mechanisms import SampledGaussianMechanism
from skdp.mechanisms.calibration import gaussian_noise_multiplier
from skdp.mechanisms.sampled_gaussian import smallest_scale
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import ComposedEvent, Neighbouring, PrivacyEvent
from skdp.problems.minimax import MinimaxProblem


def dp_rgda(
    problem: MinimaxProblem,
    budget: PrivacyBudget | None = None,
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
    budget : PrivacyBudget, optional
        Of the full horizon, delta > 0. Either this or `noise_multiplier`.
    run : Run, optional
    n_public : int, optional
        Needed under "add_remove"; default under "replace_one": the number of records.
    neighbouring : Neighbouring or str, default="replace_one"
    **options
        `settings`, and `noise_multiplier` in place of a budget: see :func:`plan_dp_rgda`.

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
    budget: PrivacyBudget | None = None,
    *,
    settings: RGDASettings,
    n_public: int,
    dimension_x: int,
    dimension_y: int,
    linear_dual: bool = False,
    neighbouring: Neighbouring | str = Neighbouring.REPLACE_ONE,
    noise_multiplier: float | None = None,
) -> RGDAPlan:
    """Calibrate the noise of all queries from public numbers.

    Parameters
    ----------
    budget : PrivacyBudget, optional
        Of the full horizon, delta > 0.
    settings : RGDASettings
    n_public : int
        Public number of records, nominal under "add_remove".
    dimension_x, dimension_y : int
    linear_dual : bool, default=False
        See :class:`skdp.problems.MinimaxProblem`.
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
    if not isinstance(settings, RGDASettings):
        raise TypeError(f"settings must be RGDASettings, got {settings!r}.")
    check_count("n_public", n_public)
    check_count("dimension_x", dimension_x)
    check_count("dimension_y", dimension_y, 0)
    check_bool("linear_dual", linear_dual)
    if linear_dual and settings.inner_steps != 1:
        raise ValueError("inner_steps must be 1 for a linear dual, which is solved for.")
    refresh, increment = _calibrated(budget, noise_multiplier, relation, settings)
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


def _calibrated(
    budget: PrivacyBudget | None,
    noise_multiplier: float | None,
    relation: Neighbouring,
    settings: RGDASettings,
) -> tuple[SampledGaussianMechanism, SampledGaussianMechanism | None]:
    """Return the mechanisms of gradients and of differences that keep a run within the budget.

    Their noise multipliers are in units of the sensitivity, that of differences is
    `noise_ratio` times that of gradients. Without sampling they are exact: ``sum 1 / m^2 = mu^2``.
    """
    counts, ratio = settings.n_queries, settings.noise_ratio
    rates = settings.sampling_rate, settings.sampling_rate_difference or settings.sampling_rate
    sensitivity = relation.n_changes

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
    unsampled = gaussian_noise_multiplier(budget.epsilon, budget.delta) * math.sqrt(
        counts[0] + counts[1] / ratio**2
    )
    if all(rate == 1.0 for rate, count in zip(rates, counts, strict=True) if count):
        return mechanisms(unsampled)

    def event(scale: float) -> PrivacyEvent:
        used = mechanisms(scale * unsampled)
        return ComposedEvent(tuple(each.event(relation) for each in used if each is not None))

    return mechanisms(unsampled * smallest_scale(event, budget))
