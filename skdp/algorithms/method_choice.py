"""Which private algorithm to take: the one with the smallest public bound.

All bounds are on the same quantity, the expected excess risk over a comparator of the norm of
a good predictor on a reference design, and are functions of public inputs alone. They rank
methods; none of them is a promise for the data at hand.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from functools import lru_cache

from skdp.algorithms.exponential_mechanism import (
    PROPOSAL_LIMIT,
    ExponentialPlan,
    exponential_utility_bound,
    plan_exponential_mechanism,
)
from skdp.algorithms.output_perturbation import (
    Objective,
    choose_alpha,
    plan_output_perturbation,
    smoothed_risk,
    utility_bound,
)
from skdp.algorithms.phased_output_perturbation import (
    phased_utility_bound,
    plan_phased_output_perturbation,
)
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import Neighbouring
from skdp.problems import Design, EmpiricalRisk

__all__ = ["MethodChoice", "choose_method", "exponential_radius"]

#: The exponential mechanism is a candidate if it is sure to need no more thinned proposals
#: than this, in expectation.
_PROPOSALS = 1e3
#: Factor of its bound. The bounds of the other methods are for rows as long as they may be, and
#: what noise costs falls with the squares of their lengths; what a draw costs does not.
_HANDICAP = 3.0


@dataclass(frozen=True)
class MethodChoice:
    """A method and the bounds that speak for it.

    Attributes
    ----------
    method : str
    bounds : dict of str to float
        Of each candidate.
    """

    method: str
    bounds: dict[str, float]


@lru_cache(maxsize=256)
def _bounds(
    risk: EmpiricalRisk,
    design: Design,
    budget: PrivacyBudget,
    alpha: float | None,
    coef_norm: float | None,
    objective: Objective,
) -> tuple[tuple[str, float], ...]:
    radius = risk.ball_radius(design) if coef_norm is None else coef_norm
    comparator = min(risk.reference_norm(design), radius)
    strength = alpha
    if strength is None:
        strength = choose_alpha(
            risk, design, budget=budget, coef_norm=coef_norm, objective=objective
        )
    smooth = smoothed_risk(risk, design, strength, budget=budget, coef_norm=coef_norm)
    constants = smooth.constants(design, strength, smooth.radius(design, strength, coef_norm))
    output = utility_bound(
        plan_output_perturbation(constants, budget),
        smooth,
        design,
        comparator,
        penalty=strength if alpha is None else 0.0,
        objective=objective,
    )
    phased = plan_phased_output_perturbation(
        risk, design, budget=budget, radius=radius, alpha=alpha or 0.0, objective=objective
    )
    bounds = [
        ("output", output),
        ("phased", phased_utility_bound(phased, design, comparator, objective)),
    ]
    if budget.is_pure and risk.loss.n_outputs == 1:
        with contextlib.suppress(ValueError):  # no sampler is fast enough
            drawn = _plan_draw(smooth, design, budget, alpha or 0.0, radius, _PROPOSALS)
            bound = _HANDICAP * exponential_utility_bound(drawn)
            if objective == "population":
                # uniform stability: total variation times the range of a loss over the ball
                reach = 2.0 * drawn.radius * constants.lipschitz
                bound += reach * math.tanh(0.5 * budget.epsilon)
            bounds.append(("exponential", bound))
    return tuple(bounds)


def exponential_radius(
    risk: EmpiricalRisk,
    design: Design,
    budget: PrivacyBudget,
    alpha: float,
    coef_norm: float | None,
) -> float:
    """Radius of the ball that the exponential mechanism draws from.

    `coef_norm` or, without it, ``risk.ball_radius``; ``risk.reference_norm`` where no exact
    sampler is fast enough for that.
    """
    if coef_norm is not None:
        return coef_norm
    radius = risk.ball_radius(design)
    try:
        _plan_draw(risk, design, budget, alpha, radius)
    except ValueError:
        return risk.reference_norm(design)
    return radius


def _plan_draw(
    risk: EmpiricalRisk,
    design: Design,
    budget: PrivacyBudget,
    alpha: float,
    radius: float,
    limit: float = PROPOSAL_LIMIT,
) -> ExponentialPlan:
    return plan_exponential_mechanism(
        risk.loss,
        feature_norm=design.feature_norm,
        row_width=design.width,
        n_records=design.n_records,
        budget=budget,
        radius=radius,
        alpha=alpha,
        proposal_limit=limit,
    )


def choose_method(
    risk: EmpiricalRisk,
    design: Design,
    budget: PrivacyBudget,
    *,
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE,
    alpha: float | None = None,
    coef_norm: float | None = None,
    objective: Objective = "empirical",
) -> MethodChoice:
    """Compare the methods whose proofs cover the case.

    Parameters
    ----------
    risk : EmpiricalRisk
    design : Design
    budget : PrivacyBudget
    neighbouring : Neighbouring, default=Neighbouring.REPLACE_ONE
    alpha : float, optional
        Strength of a penalty that is part of the objective. Default: none is, and one-shot output
        perturbation chooses its own.
    coef_norm : float, optional
        Radius of the ball that the coefficients live in.
    objective : {"empirical", "population"}, default="empirical"
    """
    covered = neighbouring is Neighbouring.REPLACE_ONE and risk.is_mean
    # with a penalty but without a ball, phases would minimise another objective: theirs has one
    if not covered or (alpha is not None and coef_norm is None):
        return MethodChoice("output", {})
    bounds = dict(_bounds(risk, design, budget, alpha, coef_norm, objective))
    return MethodChoice(min(bounds, key=lambda name: (bounds[name], name)), bounds)
