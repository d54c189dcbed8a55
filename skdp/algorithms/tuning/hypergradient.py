"""Strengths tuned on noisy releases of the exact derivative of a validation loss.

Route B of the Kornowski 2024 specification, 5.5, with the exact derivative in place of the paper's
difference quotient (route A has that, :mod:`skdp.algorithms.tuning.bilevel`). With w(alpha) the
minimiser of the training loss, the validation loss F(alpha) of w(alpha) has the derivative
("hypergradient")

    ``dF / d log alpha_g = -<v_g, p_g>``,  ``p = K^{-1} grad f(v)``,

in whitened coordinates (:mod:`skdp.algorithms.tuning.final_fit`): v the whitened minimiser, K the
Hessian of the penalised training loss there, f the validation loss, and v_g the coefficients of
group g. It has one entry per group, so its noise does not grow with the number of features. Its
sensitivity is the movement of v and K with one record (docs/theory/hypergradient.md, Lemmas
2 to 4). v and p never leave this module: what is released is noisy and few.

To every answer the derivative of the cost of the final model's noise is added, a public number
(:func:`skdp.algorithms.tuning.final_fit.final_noise_cost`). Without it strengths that are far too
small would win. One strength is searched for by noisy bisection: each answer moves the probability
of "smaller" or "larger" by as much as its noise permits. Several follow noisy gradients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from skdp._checks import check_count, check_real
from skdp.algorithms.output_perturbation import ACCURACY_FRACTION, certifiable_accuracy
from skdp.algorithms.tuning.final_fit import (
    final_fit,
    final_noise_slopes,
    whitened,
    whitened_constants,
)
from skdp.algorithms.tuning.model import PenaltyGroups, TunedModel
from skdp.algorithms.tuning.noisy_search import bisect, descend
from skdp.algorithms.tuning.public_rule import public_strength
from skdp.algorithms.tuning.roles import Roles
from skdp.mechanisms import (
    AdditiveMechanism,
    NoiseSource,
    calibrated_mechanism,
)
from skdp.privacy.budget import PrivacyBudget
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
    "HypergradientBounds",
    "HypergradientPlan",
    "hypergradient",
    "hypergradient_bounds",
    "plan_hypergradient",
    "tune_by_hypergradient",
]


@dataclass(frozen=True)
class HypergradientBounds:
    """What is known of a hypergradient whatever the records are.

    Attributes
    ----------
    train, validate : float
        A record that is one of m training (validating) ones moves it by at most ``train / m``
        (``validate / m``), in the Euclidean norm over groups.
    size : float
        Bound on its norm.
    radius : float
        Bound on the norm of the whitened minimiser.
    slope, drift : float
        An error e of the minimiser and eta of the linear solve move p by at most
        ``e_p = drift * e + eta``, and the hypergradient by at most
        ``e (slope + e_p) + radius * e_p``.
    """

    train: float
    validate: float
    size: float
    radius: float
    slope: float
    drift: float

    def error(self, point: float, solve: float) -> float:
        """Bound on the error of a computed hypergradient."""
        turned = self.drift * point + solve
        return point * (self.slope + turned) + self.radius * turned


def hypergradient_bounds(loss: Loss, feature_norm: float, n_groups: int) -> HypergradientBounds:
    """Lemmas 2, 3 and 4 of docs/theory/hypergradient.md.

    Parameters
    ----------
    loss : HalfSquaredLoss or LogisticLoss
    feature_norm : float
        U, the bound on whitened rows.
    n_groups : int
    """
    U = feature_norm
    radius = bounded_problem_radius(loss, U, 1.0, None)  # D
    lipschitz = loss.lipschitz(U, radius)  # L
    bend = loss.curvature * U**2
    if isinstance(loss, HalfSquaredLoss):
        third = 0.0
        top = min(U, 1.0 / math.sqrt(3.0))
        turned = top / (top**2 + 1.0) ** 2 * loss.target_bound  # bound on ||K^{-1} v||
    elif isinstance(loss, LogisticLoss):
        third, turned = U**3 / (6.0 * math.sqrt(3.0)), radius
    else:
        raise ValueError(f"No bound is known for {type(loss).__name__}.")
    diameter = loss.gradient_diameter(U, radius)
    drift = bend + third * lipschitz
    turn = drift * diameter + bend * lipschitz  # how p moves with a training record
    train = diameter * lipschitz + radius * turn
    weight = radius if n_groups > 1 else min(radius, turned)  # review K12
    return HypergradientBounds(
        train * ROUNDING_SLACK,
        weight * diameter * ROUNDING_SLACK,
        weight * lipschitz * ROUNDING_SLACK,
        radius,
        lipschitz,
        drift,
    )


@dataclass(frozen=True)
class HypergradientPlan:
    """One query, decided before a record is read (but for the strengths, released before).

    Attributes
    ----------
    alpha : ndarray of shape (n_groups,)
    exact_sensitivity : float
        Of the hypergradient in exact arithmetic.
    accuracy : float
        Certified distance of computed minimisers to the exact ones.
    error : float
        Bound on the error of the hypergradient that follows from it, rounding included.
    mechanism : AdditiveMechanism
        Calibrated to ``exact_sensitivity + 2 error``, or twice the largest norm.
    n_records : int
    """

    alpha: np.ndarray
    exact_sensitivity: float
    accuracy: float
    error: float
    mechanism: AdditiveMechanism
    n_records: int

    def release(self, name: str) -> Release:
        """The statement about the answer."""
        reference = "docs/theory/hypergradient.md, Lemmas 2 to 4"
        return self.mechanism.describe(name, len(self.alpha), self.n_records, reference)


def plan_hypergradient(
    records: Records,
    loss: Loss,
    penalties: PenaltyGroups,
    alpha: np.ndarray,
    roles: Roles,
    budget: PrivacyBudget,
    share: float,
) -> HypergradientPlan:
    """Fix accuracy and noise of one query; of `records` only public numbers are read."""
    inner = whitened(records, penalties, alpha)
    U = inner.norm_bound
    # rounding of the gradient, of K, and of a Cholesky solve, relative to the size of K
    additions = chain(records.n_records, records.block_size) + 16.0 * (records.width + 4) ** 2
    largest = 1.0 + loss.curvature * U * U
    if not EPS * additions * largest < 0.1:
        raise ValueError(f"alpha == {alpha} is too small for a hypergradient in double precision.")
    bounds = hypergradient_bounds(loss, U, penalties.n_groups)
    constants = whitened_constants(inner, loss)
    exact = min(roles.sensitivity(bounds.train, bounds.validate), 2.0 * bounds.size)
    steepness = bounds.slope + bounds.radius * bounds.drift
    accuracy = max(0.5 * ACCURACY_FRACTION * exact / steepness, certifiable_accuracy(constants))
    solve = EPS * additions * largest * bounds.slope + constants.gradient_rounding
    error = bounds.error(accuracy, solve)
    sensitivity = min(exact + 2.0 * error, 2.0 * (bounds.size + error))
    mechanism = calibrated_mechanism(budget, sensitivity, share=share)
    return HypergradientPlan(np.array(alpha), exact, accuracy, error, mechanism, records.n_records)


def hypergradient(
    records: Records,
    loss: Loss,
    penalties: PenaltyGroups,
    alpha: np.ndarray,
    roles: Roles,
    *,
    accuracy: float,
    solver: Solver,
    solver_rng: np.random.Generator,
) -> np.ndarray:
    """Derivatives of the validation loss in ``log alpha``, without any noise: not private.

    Parameters
    ----------
    records, loss, penalties, alpha
        As in :func:`skdp.algorithms.tuning.final_fit`.
    roles : Roles
    accuracy : float
        Certified distance of the minimisers, in whitened coordinates.
    solver : Solver
    solver_rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (n_groups,)
    """
    inner = whitened(records, penalties, alpha)
    members = (penalties.members > 0).astype(np.float64)
    values = []
    for train, validate in roles.pairs():
        problem = ball_problem(inner.take(train), loss, 1.0)
        held_out = ball_problem(inner.take(validate), loss, 1.0)
        solution = solve_certified(problem, 0.5 * accuracy, solver, rng=solver_rng)
        point = solution.point
        slope = held_out.residuals_and_gradient(point)[1]
        curvature = _mean_hessian(problem, point) + np.eye(problem.dimension)
        turned = cho_solve(cho_factor(curvature), slope)
        values.append(-members @ (point * turned))
    return np.mean(values, axis=0)


def _mean_hessian(problem: Any, point: np.ndarray) -> np.ndarray:
    """Hessian of the mean loss, block by block as its rounding bound has it."""

    def statistic(block: Block) -> np.ndarray:
        margins = block.margins(point[None])
        return block.gram(problem.loss.second_derivative(margins, block.targets))

    return np.asarray(problem.records.total(statistic) / problem.n_records)


@without_warnings()
def tune_by_hypergradient(
    records: Records,
    loss: Loss,
    penalties: PenaltyGroups,
    budget: PrivacyBudget,
    *,
    coef_norm: float,
    n_folds: int | None = None,
    n_queries: int = 7,
    tune_share: float = 0.2,
    solver: Any = "auto",
    solver_rng: np.random.Generator | None = None,
    noise: NoiseSource | None = None,
) -> TunedModel:
    """Search for the strengths with noisy hypergradients, then fit; replace-one neighbours.

    Parameters
    ----------
    records, loss, penalties, budget, solver, solver_rng, noise
        As in :func:`skdp.algorithms.tuning.final_fit`; `loss` a :class:`HalfSquaredLoss` or a
        :class:`LogisticLoss`. ``delta == 0`` is possible: noise is spherical Laplace then.
    coef_norm : float
        Public guess of the norm of a good predictor: the search begins at the public rule.
    n_folds : int, optional
        See :class:`Roles`. K folds need K solves per query and have less noise.
    n_queries : int, default=7
        Releases of a hypergradient; each has an equal part of what tuning may spend.
    tune_share : float, default=0.2
        Part of the budget for tuning; the final fit has the rest.

    Returns
    -------
    TunedModel
    """
    records.check_targets(loss)
    check_real("tune_share", tune_share, 1e-9, 1.0 - 1e-9)
    check_count("n_queries", n_queries)
    noise = NoiseSource() if noise is None else noise
    solver = solver if isinstance(solver, Solver) else resolve_solver(solver)
    solver_rng = np.random.default_rng() if solver_rng is None else solver_rng
    roles = Roles(records.n_records, n_folds)
    fit_share = 1.0 - tune_share
    # what is refused is refused before a record is read
    weakest = np.full(penalties.n_groups, penalties.low)
    plan_hypergradient(records, loss, penalties, weakest, roles, budget, tune_share / n_queries)
    releases: list[Release] = []

    def query(alpha: np.ndarray) -> tuple[np.ndarray, AdditiveMechanism]:
        """A noisy derivative of validation loss plus cost of noise, and the noise that it has."""
        plan = plan_hypergradient(
            records, loss, penalties, alpha, roles, budget, tune_share / n_queries
        )
        value = hypergradient(
            records,
            loss,
            penalties,
            alpha,
            roles,
            accuracy=plan.accuracy,
            solver=solver,
            solver_rng=solver_rng,
        )
        released = plan.mechanism.release(value, noise)
        releases.append(plan.release(f"hypergradient {len(releases) + 1}"))
        public = final_noise_slopes(records, loss, penalties, alpha, budget, fit_share)
        return released + public, plan.mechanism

    start = public_strength(records, loss, penalties, budget, coef_norm=coef_norm, share=fit_share)
    search = bisect if penalties.n_groups == 1 else descend
    path = search(query, penalties, start, n_queries, coef_norm)
    point, release = final_fit(
        records,
        loss,
        penalties,
        path[-1],
        budget,
        fit_share,
        solver=solver,
        solver_rng=solver_rng,
        noise=noise,
    )
    return TunedModel(
        point=point,
        alpha=path[-1],
        path=path,
        releases=(*releases, release),
        plan={
            "n_queries": int(n_queries),
            "n_folds": None if n_folds is None else int(n_folds),
            "tune_share": float(tune_share),
            "start_alpha": start,
        },
    )
