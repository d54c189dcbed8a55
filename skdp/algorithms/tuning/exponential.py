"""Alpha drawn by the exponential mechanism from a grid, by validation losses.

docs/theory/hypergradient.md, section 4. The score of a candidate is the validation loss
of the exact minimiser at it, plus the public cost of the final model's noise there. One record
moves the score of a weak penalty far more than that of a strong one. An ordinary exponential
mechanism has the noise of the worst candidate for all; the generalised one (Raskhodnikova and Smith
2016, section 5) compares candidates pair by pair in units of their own sensitivities. In place of
its penalty for uncertain candidates there are prior weights that are largest near the public rule,
so that few records do not choose by chance. Proofs: docs/theory/hypergradient.md, Lemmas 5 and 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from skdp._checks import check_count
from skdp.algorithms.output.one_shot import ACCURACY_FRACTION, certifiable_accuracy
from skdp.algorithms.plan import Run
from skdp.algorithms.tuning import rules
from skdp.algorithms.tuning.holdout import HeldOutPlan, Holdout, Parts, solve_held_out
from skdp.algorithms.tuning.objective import TuningObjective
from skdp.mechanisms import random_order
from skdp.mechanisms.calibration import draw_epsilon
from skdp.mechanisms.softmax import draw_exponential
from skdp.privacy.events import ExponentialMechanismEvent, PrivacyEvent
from skdp.privacy.report import Release
from skdp.problems import ROUNDING_SLACK, HalfSquaredLoss, LogisticLoss, Records
from skdp.problems.block import Block
from skdp.problems.rounding import EPS

#: Norm of whitened rows up to which nothing overflows.
_LARGEST_NORM = 1e20


def plan_score(
    objective: TuningObjective, alpha: np.ndarray, holdout: Holdout
) -> tuple[float, float]:
    """Bound the sensitivity of a computed loss, and fix the accuracy of its minimisers.

    In whitened coordinates a training record moves the minimiser by ``D_g / m`` and the validation
    loss by ``L`` times that; a validation record moves the mean by the range of the loss
    (docs/theory/hypergradient.md, section 4), or by the largest loss if weights are slack. To that
    come ``2 (L e + rounding)``, e the accuracy of the minimiser.
    """
    if not isinstance(objective.loss, HalfSquaredLoss | LogisticLoss):
        raise ValueError(f"No bound is known for {type(objective.loss).__name__}.")
    U = objective.whitened(alpha).feature_norm
    if not U <= _LARGEST_NORM:
        raise ValueError(f"alpha == {alpha} is too small for a score in double precision.")
    loss, constants = objective.loss, objective.constants(alpha)
    lipschitz, radius = constants.lipschitz, constants.radius
    largest = loss.largest_value(U, radius)
    moved = largest if objective.design.is_slack else loss.value_range(U, radius)
    exact = holdout.sensitivity(lipschitz * constants.gradient_diameter, moved)
    exact = min(exact * ROUNDING_SLACK, largest)
    accuracy = max(0.5 * ACCURACY_FRACTION * exact / lipschitz, certifiable_accuracy(constants))
    rounding = (objective.additions + 16.0) * largest
    rounding = EPS * (rounding + (objective.width + 16.0) * lipschitz * radius)
    return exact + 2.0 * (lipschitz * accuracy + rounding), accuracy


def validation_score(
    parts: Parts, objective: TuningObjective, alpha: np.ndarray, accuracy: float, run: Run
) -> float:
    """Return the validation loss of the minimiser at an alpha: not private.

    Without the penalty, and in the sums that the rounding bound is for.
    """
    _, held_out, point = solve_held_out(parts, objective, alpha, accuracy, run)

    def total(block: Block) -> float:
        values = objective.loss.value(block.margins(point[None]), block.targets)
        return float(block.sum(values))

    return float(held_out.records.total(total) / held_out.n_public)


def relative_scores(
    losses: np.ndarray, sensitivities: np.ndarray, costs: np.ndarray | float = 0.0
) -> np.ndarray:
    """Return ``max_i (l_j - l_i) / (S_j + S_i)``, of sensitivity 1; small is good.

    With public costs, l is a loss plus a cost. A cost may be so large that the sum, the difference
    and the quotient are rounded by more than a record moves the loss; that is added to S.
    """
    totals = losses + costs
    S = sensitivities + 4.0 * EPS * costs
    gaps = (totals[:, None] - totals) / (S[:, None] + S)
    return np.asarray(gaps.max(axis=1))


def log_prior_weights(candidates: np.ndarray, costs: np.ndarray, coef_norm: float) -> np.ndarray:
    """Return the public rule's bound, cost of noise plus ``alpha B^2 / 2``, to the power -2.

    Weak penalties, whose large sensitivities make their scores count little, have little weight.
    """
    bounds = costs + 0.5 * coef_norm**2 * candidates.mean(axis=1)
    return np.asarray(-rules.PRIOR_POWER * np.log(bounds / bounds.min()))


@dataclass(frozen=True, kw_only=True)
class DrawPlan(HeldOutPlan):
    """Draw alpha from a grid, then fit.

    With one group there is one draw. With several, first one alpha is drawn for all, then one for
    each group in turn with those of the others fixed; the draws share the budget of the choice.

    Parameters
    ----------
    n_candidates : int, default=15
        Per draw, evenly spaced in the logarithm within the bounds, besides the public rule.
    """

    n_candidates: int = 15

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("n_candidates", self.n_candidates, 2)
        plan_score(self.objective, self.weakest, self.holdout)

    @property
    def n_draws(self) -> int:
        groups = self.objective.penalties.n_groups
        return 1 if groups == 1 else 1 + groups

    @cached_property
    def draw_epsilon(self) -> float:
        """Parameter of each draw."""
        return draw_epsilon(self.budget, self.tune_share / self.n_draws)

    @property
    def choice_events(self) -> tuple[PrivacyEvent, ...]:
        event = ExponentialMechanismEvent(self.draw_epsilon, self.objective.neighbouring)
        return (event,) * self.n_draws

    @property
    def grid(self) -> np.ndarray:
        penalties = self.objective.penalties
        grid = np.geomspace(penalties.low, penalties.high, self.n_candidates)
        return np.union1d(penalties.clipped(grid), [self.rule_alpha])

    def to_dict(self) -> dict[str, Any]:
        return {
            **super().to_dict(),
            "n_candidates": len(self.grid),
            "draw_epsilon": self.draw_epsilon,
            "rule_alpha": self.rule_alpha,
        }

    def choose(self, data: Records, run: Run) -> tuple[np.ndarray, tuple[Release, ...]]:
        q, grid = self.objective.penalties.n_groups, self.grid
        order = random_order(data.n_units, run.noise)
        path = [self._draw(np.repeat(grid[:, None], q, axis=1), data, order, run)]
        for group in range(q if q > 1 else 0):
            candidates = np.repeat(path[-1][None], len(grid), axis=0)
            candidates[:, group] = grid
            path.append(self._draw(candidates, data, order, run))
        scale, n = 2.0 / self.draw_epsilon, data.n_units
        reference = "docs/theory/hypergradient.md, Lemmas 5 and 6"
        return np.array(path), tuple(
            Release(f"alpha, draw {k + 1}", "exponential", 1.0, scale, 1, n, reference, event)
            for k, event in enumerate(self.choice_events)
        )

    def _draw(
        self, candidates: np.ndarray, data: Records, order: np.ndarray, run: Run
    ) -> np.ndarray:
        """Draw one of the rows of `candidates`."""
        planned = [plan_score(self.objective, alpha, self.holdout) for alpha in candidates]
        sensitivities, accuracies = np.array(planned).T
        parts = self.holdout.of(data, order)
        losses = np.array(
            [
                validation_score(parts, self.objective, alpha, accuracy, run)
                for alpha, accuracy in zip(candidates, accuracies, strict=True)
            ]
        )
        costs = np.array([self.final_fit(alpha).noise_cost for alpha in candidates])
        scores = relative_scores(losses, sensitivities, costs)
        log_prior = log_prior_weights(candidates, costs, self.norm_guess)
        drawn = draw_exponential(scores, self.draw_epsilon, run.noise, log_prior)
        return np.asarray(candidates[drawn])
