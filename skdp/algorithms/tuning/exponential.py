"""Strengths drawn by the exponential mechanism from a grid, by their validation losses.

Route D of the Kornowski 2024 specification, 5.5. The score of a candidate is the validation loss
of the exact minimiser at it, plus the public cost of the noise that the final model will have
there. One record moves the score of a weak penalty far more than that of a strong one. An ordinary
exponential mechanism has the noise of the worst candidate for all; the generalised one
(Raskhodnikova and Smith 2016, section 5) compares candidates pair by pair in units of their own
sensitivities. Their handicap for uncertain candidates is replaced by prior weights that are largest
near the public rule, so that few records do not choose by chance. Proofs:
docs/theory/hypergradient.md, Lemmas 5 and 6.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skdp._checks import check_count, check_real
from skdp.algorithms.output_perturbation import ACCURACY_FRACTION, certifiable_accuracy
from skdp.algorithms.tuning.final_fit import (
    final_fit,
    final_noise_cost,
    whitened,
    whitened_constants,
)
from skdp.algorithms.tuning.model import PenaltyGroups, TunedModel
from skdp.algorithms.tuning.public_rule import public_strength
from skdp.algorithms.tuning.roles import Roles
from skdp.mechanisms import NoiseSource, gaussian_noise_multiplier
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import ExponentialMechanismEvent, Neighbouring
from skdp.privacy.gaussian_dp import pure_epsilon
from skdp.privacy.report import Release
from skdp.problems import (
    ROUNDING_SLACK,
    HalfSquaredLoss,
    LogisticLoss,
    Loss,
    Records,
    ball_problem,
    bounded_problem_radius,
)
from skdp.problems.records import Block
from skdp.problems.rounding import EPS, chain
from skdp.problems.silence import without_warnings
from skdp.solvers import Solver, resolve_solver, solve_certified

__all__ = [
    "draw_by_score",
    "draw_epsilon",
    "log_prior_weights",
    "plan_score",
    "relative_scores",
    "tune_by_exponential_mechanism",
    "validation_score",
]

#: Power of the public bound in the prior weights.
_POWER = 2.0
#: Norm of whitened rows up to which nothing overflows, and the smallest epsilon of a draw.
_LARGEST_NORM, _LEAST_EPSILON = 1e20, 1e-50


def plan_score(
    records: Records,
    loss: Loss,
    penalties: PenaltyGroups,
    alpha: np.ndarray,
    roles: Roles,
) -> tuple[float, float]:
    """Sensitivity of a computed loss, and the accuracy of the minimisers that it needs.

    In whitened coordinates a training record moves the minimiser by ``D_g / m`` and the validation
    loss by ``L`` times that; a validating record moves the mean by the range of the loss (review
    K19). To that come ``2 (L e + rounding)``, e the accuracy of the minimiser. Of `records` only
    public numbers are read.
    """
    if not isinstance(loss, HalfSquaredLoss | LogisticLoss):
        raise ValueError(f"No bound is known for {type(loss).__name__}.")
    inner = whitened(records, penalties, alpha)
    U = inner.norm_bound
    if not U <= _LARGEST_NORM:
        raise ValueError(f"alpha == {alpha} is too small for a score in double precision.")
    radius = bounded_problem_radius(loss, U, 1.0, None)
    constants = whitened_constants(inner, loss)
    lipschitz, largest = constants.lipschitz, loss.largest_value(U, radius)
    exact = roles.sensitivity(lipschitz * constants.gradient_diameter, loss.value_range(U, radius))
    exact = min(exact * ROUNDING_SLACK, largest)
    accuracy = max(0.5 * ACCURACY_FRACTION * exact / lipschitz, certifiable_accuracy(constants))
    additions = chain(records.n_records, records.block_size) + 16.0
    rounding = EPS * (additions * largest + (records.width + 16.0) * lipschitz * radius)
    return exact + 2.0 * (lipschitz * accuracy + rounding), accuracy


def validation_score(
    records: Records,
    loss: Loss,
    penalties: PenaltyGroups,
    alpha: np.ndarray,
    roles: Roles,
    *,
    accuracy: float,
    solver: Solver,
    solver_rng: np.random.Generator,
) -> float:
    """Mean validation loss of the minimisers at some strengths: not private."""
    inner = whitened(records, penalties, alpha)
    values = []
    for train, validate in roles.pairs():
        problem = ball_problem(inner.take(train), loss, 1.0)
        solution = solve_certified(problem, 0.5 * accuracy, solver, rng=solver_rng)
        values.append(_mean_loss(inner.take(validate), loss, solution.point))
    return float(np.mean(values))


def _mean_loss(records: Records, loss: Loss, point: np.ndarray) -> float:
    def statistic(block: Block) -> float:
        return float(loss.value(block.margins(point[None]), block.targets).sum())

    return float(records.total(statistic) / records.n_records)


def relative_scores(
    losses: np.ndarray, sensitivities: np.ndarray, costs: np.ndarray | float = 0.0
) -> np.ndarray:
    """``max_i (l_j - l_i) / (S_j + S_i)``, of sensitivity 1; small is good.

    With public costs, l is a loss plus a cost. A cost may be so large that the sum, the difference
    and the quotient are rounded by more than a record moves the loss; that is added to S.
    """
    totals = losses + costs
    S = sensitivities + 4.0 * EPS * costs
    gaps = (totals[:, None] - totals) / (S[:, None] + S)
    return np.asarray(gaps.max(axis=1))


def log_prior_weights(candidates: np.ndarray, costs: np.ndarray, coef_norm: float) -> np.ndarray:
    """The public rule's bound, cost of noise plus ``alpha B^2 / 2``, to the power -2.

    Weak penalties, whose scores hardly count for their large sensitivities, have little weight.
    """
    bounds = costs + 0.5 * coef_norm**2 * candidates.mean(axis=1)
    return np.asarray(-_POWER * np.log(bounds / bounds.min()))


def draw_by_score(
    scores: np.ndarray, log_prior: np.ndarray, epsilon: float, noise: NoiseSource
) -> int:
    """Draw j with probability proportional to ``exp(log_prior_j - epsilon scores_j / 2)``.

    By inversion of one uniform variable, in logarithms and the unlikely candidates first: no
    candidate is so unlikely that it is never drawn.
    """
    logs = log_prior - 0.5 * epsilon * scores
    order = np.argsort(logs, kind="stable")
    below = np.logaddexp.accumulate(logs[order])
    return int(order[np.searchsorted(below, below[-1] - noise.exponential(1)[0])])


def draw_epsilon(budget: PrivacyBudget, share: float) -> float:
    """Parameter of a draw that spends a share of the budget.

    For ``delta == 0`` that share of epsilon. Otherwise a draw of range epsilon has the
    Gaussian-DP parameter of a pure ``epsilon / 2`` release (docs/theory/accounting.md, section 3),
    whose square is to be the share of that of the budget.
    """
    if budget.is_pure:
        epsilon = share * budget.epsilon
    else:
        mu = math.sqrt(share) / gaussian_noise_multiplier(budget.epsilon, budget.delta)
        epsilon = 2.0 * pure_epsilon(mu)
    if not epsilon >= _LEAST_EPSILON:
        raise ValueError(f"{budget} is too small for a draw.")
    return epsilon


@without_warnings()
def tune_by_exponential_mechanism(
    records: Records,
    loss: Loss,
    penalties: PenaltyGroups,
    budget: PrivacyBudget,
    *,
    coef_norm: float,
    n_folds: int | None = None,
    n_candidates: int = 15,
    tune_share: float = 0.2,
    solver: Any = "auto",
    solver_rng: np.random.Generator | None = None,
    noise: NoiseSource | None = None,
) -> TunedModel:
    """Draw the strengths from a grid, then fit; replace-one neighbours.

    With one group there is one draw. With several, first one strength is drawn for all, then one
    for each group in turn with those of the others fixed; the draws share what tuning may spend.

    Parameters
    ----------
    records, loss, penalties, budget, solver, solver_rng, noise
        As in :func:`skdp.algorithms.tuning.final_fit`; `loss` a :class:`HalfSquaredLoss` or a
        :class:`LogisticLoss`. ``delta == 0`` is possible.
    coef_norm : float
        Public guess of the norm of a good predictor: the grid holds the public rule.
    n_folds : int, optional
        See :class:`Roles`. K folds need K solves per candidate and have a smaller sensitivity.
    n_candidates : int, default=15
        Per draw, evenly spaced in the logarithm within the bounds, besides the public rule.
    tune_share : float, default=0.2
        Part of the budget for tuning; the final fit has the rest.

    Returns
    -------
    TunedModel
    """
    records.check_targets(loss)
    check_real("tune_share", tune_share, 1e-9, 1.0 - 1e-9)
    check_count("n_candidates", n_candidates, 2)
    noise = NoiseSource() if noise is None else noise
    solver = solver if isinstance(solver, Solver) else resolve_solver(solver)
    solver_rng = np.random.default_rng() if solver_rng is None else solver_rng
    roles, q = Roles(records.n_records, n_folds), penalties.n_groups
    fit_share, n_draws = 1.0 - tune_share, 1 if q == 1 else 1 + q
    epsilon = draw_epsilon(budget, tune_share / n_draws)
    # what is refused is refused before a record is read
    plan_score(records, loss, penalties, np.full(q, penalties.low), roles)

    def draw(candidates: np.ndarray) -> np.ndarray:
        """One of the rows of `candidates`."""
        losses, sensitivities, costs = np.empty((3, len(candidates)))
        for j, alpha in enumerate(candidates):
            sensitivities[j], accuracy = plan_score(records, loss, penalties, alpha, roles)
            losses[j] = validation_score(
                records,
                loss,
                penalties,
                alpha,
                roles,
                accuracy=accuracy,
                solver=solver,
                solver_rng=solver_rng,
            )
            costs[j] = final_noise_cost(records, loss, penalties, alpha, budget, fit_share)
        scores = relative_scores(losses, sensitivities, costs)
        log_prior = log_prior_weights(candidates, costs, coef_norm)
        return np.asarray(candidates[draw_by_score(scores, log_prior, epsilon, noise)])

    rule = public_strength(records, loss, penalties, budget, coef_norm=coef_norm, share=fit_share)
    grid = np.geomspace(penalties.low, penalties.high, n_candidates)
    grid = np.union1d(np.clip(grid, penalties.low, penalties.high), [rule])
    alpha = draw(np.repeat(grid[:, None], q, axis=1))
    path = [alpha]
    for group in range(q if q > 1 else 0):
        candidates = np.repeat(alpha[None], len(grid), axis=0)
        candidates[:, group] = grid
        alpha = draw(candidates)
        path.append(alpha)
    point, release = final_fit(
        records,
        loss,
        penalties,
        alpha,
        budget,
        fit_share,
        solver=solver,
        solver_rng=solver_rng,
        noise=noise,
    )
    draws = tuple(
        Release(
            name=f"strength, draw {k + 1}",
            mechanism="exponential",
            sensitivity=1.0,
            noise_scale=2.0 / epsilon,
            dimension=1,
            n_records=records.n_records,
            reference="docs/theory/hypergradient.md, Lemmas 5 and 6",
            event=ExponentialMechanismEvent(epsilon, Neighbouring.REPLACE_ONE),
        )
        for k in range(n_draws)
    )
    return TunedModel(
        point=point,
        alpha=alpha,
        path=np.array(path),
        releases=(*draws, release),
        plan={
            "n_candidates": len(grid),
            "n_folds": None if n_folds is None else int(n_folds),
            "draw_epsilon": epsilon,
            "tune_share": float(tune_share),
            "rule_alpha": rule,
        },
    )
