"""Mirror descent in the l1 geometry: Algorithm 1 of González, Guzmán and Paquette (2024).

Theory: docs/theory/mirror_descent.md.
"""

from __future__ import annotations

import math
from typing import Literal

from skdp._checks import check_count, check_option
from skdp._types import Calibration
from skdp.algorithms.mirror import rules
from skdp.algorithms.mirror.rounds import OUTPUT, Round, VertexPlan, finished, theory_steps
from skdp.mechanisms import total_sensitivity
from skdp.privacy.budget import PrivacyBudget
from skdp.problems.vertices import VertexDesign

#: Equations (5) to (7) of the paper: ``T = (n epsilon)^a / (log(d)^b log(1/delta)^c)`` and
#: ``K = (T / log(d))^e``, as (a, b, c, e).
_PUBLISHED = {
    "quadratic": (1.0, 0.5, 0.5, 0.0),
    "second_order": (0.8, 0.2, 0.4, 0.5),
    "first_order": (2.0 / 3.0, 0.0, 1.0 / 3.0, 1.0),
}


def plan_mirror_descent(
    design: VertexDesign,
    budget: PrivacyBudget,
    *,
    n_rounds: int | None = None,
    n_vertices: int | None = None,
    calibration: Calibration = "analytic",
    smoothness: Literal["quadratic", "second_order", "first_order"] = "quadratic",
) -> VertexPlan:
    """Plan Algorithm 1: one vertex point, one batch and one step per round.

    Parameters
    ----------
    design : VertexDesign
    budget : PrivacyBudget
    n_rounds : int, optional
        T >= 2. Default: ``(n sqrt(rho) / log d)^(2/3)`` with rho the budget in zCDP, at most 500;
        if "paper", that of the paper for `smoothness`.
    n_vertices : int, optional
        K, draws per round and block. Default: that of the paper for `smoothness`.
    calibration : {"analytic", "paper"}, default="analytic"
        "paper": fresh draws for the output, disjoint batches, steps at most those of the theory.
        "analytic": all records in each round, the steps that privacy allows, and the average of
        all points that gradients were taken at.
    smoothness : {"quadratic", "second_order", "first_order"}, default="quadratic"
        Utility only: the function has no third derivatives (equation (7) of the paper, K = 1),
        bounded ones (equation (6), ``K = sqrt(T / log d)``), or no more than a Lipschitz gradient
        (equation (5), ``K = T / log d``); K is rounded up.

    Raises
    ------
    ValueError
        If there are fewer than two rounds, or more rounds with batches of their own than records.
    """
    check_option("calibration", calibration, ("analytic", "paper"))
    check_option("smoothness", smoothness, tuple(_PUBLISHED))
    is_paper, n, ell = calibration == "paper", design.n_records, sum(design.log_sizes)
    if n_rounds is None:
        if is_paper:
            wanted = math.floor(min(n, published_rounds(design, budget, smoothness)))
        else:
            wanted = round((n * math.sqrt(zcdp_of(budget)) / ell) ** (2.0 / 3.0))
            wanted = min(wanted, rules.MOST_ROUNDS)
        n_rounds = max(2, wanted)
    check_count("n_rounds", n_rounds, 2)
    power = _PUBLISHED[smoothness][3]
    k = math.ceil((n_rounds / ell) ** power) if n_vertices is None else n_vertices
    check_count("n_vertices", k)
    batch = n // (n_rounds - 1) if is_paper else n
    if batch == 0:
        raise ValueError(
            f"n_rounds == {n_rounds} with {n} records: each of the first n_rounds - 1 needs a "
            "record of its own."
        )
    fresh = ((OUTPUT, 1),) if is_paper else ()
    rounds = [
        Round(requests=((t, k), *fresh), point=t, batch=batch if t < n_rounds - 1 else 0)
        for t in range(n_rounds)
    ]
    if is_paper:  # the last oracle point is never used
        rounds[-1] = Round(requests=fresh)
    return finished(
        design,
        budget,
        rounds,
        calibration,
        "González et al. 2024, Algorithm 1",
        full_batch=not is_paper,
        average=not is_paper,
        caps=theory_steps(design, n_rounds),
        batch=batch,
        n_vertices=k,
    )


def published_rounds(
    design: VertexDesign,
    budget: PrivacyBudget,
    smoothness: Literal["quadratic", "second_order", "first_order"],
) -> float:
    """Return the T of equation (5), (6) or (7) of the paper, before the minimum with n."""
    log_delta = math.log(1.0 / (budget.delta or 1.0 / design.n_records))
    power, of_ell, of_delta, _ = _PUBLISHED[smoothness]
    ell = sum(design.log_sizes)
    return float((design.n_records * budget.epsilon) ** power / (ell**of_ell * log_delta**of_delta))


def zcdp_of(budget: PrivacyBudget) -> float:
    """Return the budget as zCDP: of many draws, or about that of one for pure budgets."""
    if budget.is_pure:
        return 0.5 * budget.epsilon**2 / rules.PURE_DRAWS
    return 0.5 * total_sensitivity(budget)
