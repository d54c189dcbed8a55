"""Alpha tuned on noisy releases of the exact derivative of a validation loss.

The exact derivative stands in place of the difference quotient of Kornowski (2024), which
:mod:`skdp.algorithms.tuning.bilevel` has. With w(alpha) the
minimiser of the training loss, the validation loss F(alpha) of w(alpha) has the derivative
("hypergradient")

    ``dF / d log alpha_g = -<v_g, p_g>``,  ``p = K^{-1} grad f(v)``,

in whitened coordinates (:mod:`skdp.problems.penalties`): v the whitened minimiser, K the Hessian of
the penalised training loss there, f the validation loss, and v_g the coefficients of group g. It
has one entry per group, so its noise does not grow with the number of features. Its sensitivity is
that of v and K (docs/theory/hypergradient.md, Lemmas 2 to 4). v and p never leave this module: only
few noisy derivatives are released.

To every answer the derivative of the cost of the final model's noise is added, a public number
(:attr:`skdp.algorithms.tuning.final_fit.FinalFitPlan.noise_cost`). Without it, far too small an
alpha would win. One alpha is searched for by noisy bisection, several by noisy gradients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from skdp._checks import check_count
from skdp.algorithms.output.one_shot import ACCURACY_FRACTION, certifiable_accuracy
from skdp.algorithms.plan import Run
from skdp.algorithms.tuning.holdout import HeldOutPlan, Holdout, Parts, solve_held_out
from skdp.algorithms.tuning.noisy_search import bisect, descend
from skdp.algorithms.tuning.objective import TuningObjective, event_of_share
from skdp.mechanisms import AdditiveMechanism, calibrated_mechanism, random_order
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import PrivacyEvent
from skdp.privacy.report import Release
from skdp.problems import (
    ROUNDING_SLACK,
    FiniteSumProblem,
    HalfSquaredLoss,
    LogisticLoss,
    Loss,
    Records,
    bounded_problem_radius,
)
from skdp.problems.block import Block
from skdp.problems.loss_sums import GradientSum
from skdp.problems.rounding import EPS


@dataclass(frozen=True, kw_only=True)
class HypergradientBounds:
    """Bounds on a hypergradient for all records.

    A record among m training (validation) ones moves it by at most ``train / m``
    (``validation / m``), in the Euclidean norm over groups. The other numbers bound the norms of
    the hypergradient (`size`), of the whitened minimiser (`radius`) and of the gradient of the
    validation loss. An error e of the minimiser and eta of the linear solve move p by at most
    ``e_p = drift * e + eta``, and the hypergradient by at most
    ``e (gradient + e_p) + radius * e_p``.
    """

    train: float
    validation: float
    size: float
    radius: float
    gradient: float
    drift: float

    def error(self, point: float, solve: float) -> float:
        """Bound on the error of a computed hypergradient."""
        turned = self.drift * point + solve
        return point * (self.gradient + turned) + self.radius * turned


def hypergradient_bounds(loss: Loss, feature_norm: float, n_groups: int) -> HypergradientBounds:
    """Bound a hypergradient for whitened rows: Lemmas 2 to 4 of docs/theory/hypergradient.md."""
    U = feature_norm
    radius = bounded_problem_radius(loss, U, 1.0, None)  # D
    lipschitz = loss.lipschitz(U, radius)  # L
    hessian = loss.curvature * U**2
    if isinstance(loss, HalfSquaredLoss):
        third = 0.0
        top = min(U, 1.0 / math.sqrt(3.0))
        turned = top / (top**2 + 1.0) ** 2 * loss.target_bound  # bound on ||K^{-1} v||
    elif isinstance(loss, LogisticLoss):
        third, turned = U**3 / (6.0 * math.sqrt(3.0)), radius
    else:
        raise ValueError(f"No bound is known for {type(loss).__name__}.")
    diameter = loss.gradient_diameter(U, radius)
    drift = hessian + third * lipschitz
    turn = drift * diameter + hessian * lipschitz  # how p moves with a training record
    train = diameter * lipschitz + radius * turn
    weight = radius if n_groups > 1 else min(radius, turned)  # `turned` is for one group
    return HypergradientBounds(
        train=train * ROUNDING_SLACK,
        validation=weight * diameter * ROUNDING_SLACK,
        size=weight * lipschitz * ROUNDING_SLACK,
        radius=radius,
        gradient=lipschitz,
        drift=drift,
    )


@dataclass(frozen=True, kw_only=True)
class HypergradientQuery:
    """Accuracy and noise of one answer, from public numbers and earlier releases.

    Minimisers are certified to `accuracy`, from which a hypergradient has at most the `error`,
    rounding included; the noise is for ``exact_sensitivity + 2 error``.
    """

    exact_sensitivity: float
    accuracy: float
    error: float
    mechanism: AdditiveMechanism


def plan_hypergradient(
    objective: TuningObjective,
    alpha: np.ndarray,
    holdout: Holdout,
    budget: PrivacyBudget,
    share: float,
) -> HypergradientQuery:
    """Fix accuracy and noise of one query."""
    U = objective.whitened(alpha).feature_norm
    # rounding of the gradient, of K, and of a Cholesky solve, relative to the size of K
    additions = objective.additions + 16.0 * (objective.width + 4) ** 2
    largest = 1.0 + objective.loss.curvature * U * U
    if not EPS * additions * largest < 0.1:
        raise ValueError(f"alpha == {alpha} is too small for a hypergradient in double precision.")
    bounds = hypergradient_bounds(objective.loss, U, objective.penalties.n_groups)
    constants = objective.constants(alpha)
    exact = min(holdout.sensitivity(bounds.train, bounds.validation), 2.0 * bounds.size)
    steepness = bounds.gradient + bounds.radius * bounds.drift
    accuracy = max(0.5 * ACCURACY_FRACTION * exact / steepness, certifiable_accuracy(constants))
    solve = EPS * additions * largest * bounds.gradient + constants.gradient_rounding
    error = bounds.error(accuracy, solve)
    sensitivity = min(exact + 2.0 * error, 2.0 * (bounds.size + error))
    mechanism = calibrated_mechanism(budget, sensitivity, share=share)
    return HypergradientQuery(
        exact_sensitivity=exact, accuracy=accuracy, error=error, mechanism=mechanism
    )


def hypergradient(
    parts: Parts, objective: TuningObjective, alpha: np.ndarray, accuracy: float, run: Run
) -> np.ndarray:
    """Differentiate the validation loss in ``log alpha``: not private.

    `accuracy` is the certified distance of the minimisers in whitened coordinates.
    """
    problem, held_out, point = solve_held_out(parts, objective, alpha, accuracy, run)
    gradient = held_out.records.total(GradientSum(held_out.loss, point[None])).ravel()
    gradient = gradient / held_out.n_public
    hessian = _mean_hessian(problem, point) + np.eye(problem.dimension)
    turned = cho_solve(cho_factor(hessian), gradient)
    return np.asarray(-(objective.penalties.members * 1.0) @ (point * turned))


def _mean_hessian(problem: FiniteSumProblem, point: np.ndarray) -> np.ndarray:
    """Hessian of the mean loss, block by block as its rounding bound has it."""

    def statistic(block: Block) -> np.ndarray:
        margins = block.margins(point[None])
        return block.gram(problem.loss.second_derivative(margins, block.targets))

    return np.asarray(problem.records.total(statistic) / problem.n_public)


@dataclass(frozen=True, kw_only=True)
class HypergradientPlan(HeldOutPlan):
    """Search for alpha with noisy hypergradients, then fit.

    Parameters
    ----------
    n_queries : int, default=7
        Releases of a hypergradient; each has an equal part of the share of the choice.
    """

    n_queries: int = 7

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("n_queries", self.n_queries)
        self.query(self.weakest)

    @property
    def query_share(self) -> float:
        return self.tune_share / self.n_queries

    @property
    def choice_events(self) -> tuple[PrivacyEvent, ...]:
        event = event_of_share(self.budget, self.query_share, self.objective.neighbouring)
        return (event,) * self.n_queries

    def to_dict(self) -> dict[str, Any]:
        own = {"n_queries": int(self.n_queries), "start_alpha": self.rule_alpha}
        return {**super().to_dict(), **own}

    def query(self, alpha: np.ndarray) -> HypergradientQuery:
        """Plan the query at an alpha."""
        return plan_hypergradient(
            self.objective, alpha, self.holdout, self.budget, self.query_share
        )

    def choose(self, data: Records, run: Run) -> tuple[np.ndarray, tuple[Release, ...]]:
        releases: list[Release] = []
        order = random_order(data.n_units, run.noise)
        parts = self.holdout.of(data, order)

        def answer(alpha: np.ndarray) -> tuple[np.ndarray, AdditiveMechanism]:
            """A noisy derivative of validation loss plus cost of noise, and the noise it has."""
            query = self.query(alpha)
            value = hypergradient(parts, self.objective, alpha, query.accuracy, run)
            released = query.mechanism.release(value, run.noise)
            name = f"hypergradient {len(releases) + 1}"
            reference = "docs/theory/hypergradient.md, Lemmas 2 to 4"
            sizes, relation = (len(alpha), data.n_units), self.objective.neighbouring
            releases.append(query.mechanism.describe(name, *sizes, reference, relation))
            return released + self.final_fit(alpha).noise_cost_gradient, query.mechanism

        penalties = self.objective.penalties
        search = bisect if penalties.n_groups == 1 else descend
        path = search(answer, penalties, self.rule_alpha, self.n_queries, self.norm_guess)
        return path, tuple(releases)
