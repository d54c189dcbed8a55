"""Strengths by first-order private bilevel optimisation, with a final model on all records.

Section 7 of Kornowski (2024) with the sign, the noise and the norms corrected (E1, E2, E5), in the
logarithms of the strengths, one per group (route A of the specification, 5.5). Works for any
smooth loss, needs only gradients, and its noise does not grow with the number of strengths. For
least squares :func:`skdp.algorithms.tuning.tune_by_sufficient_statistics` needs far less noise
where matrices are affordable. Proofs: docs/theory/bilevel.md.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skdp._checks import check_real
from skdp.algorithms.bilevel import dp_bilevel
from skdp.algorithms.private_solvers import (
    LocalizedGradientDescent,
    OutputPerturbation,
    PrivateSolver,
)
from skdp.algorithms.tuning.final_fit import final_fit, final_noise_slopes
from skdp.algorithms.tuning.model import PenaltyGroups, TunedModel
from skdp.algorithms.tuning.public_rule import public_strength
from skdp.mechanisms import NoiseSource
from skdp.privacy.budget import PrivacyBudget
from skdp.problems import Loss, PenaltyProblem, Records
from skdp.problems.silence import without_warnings
from skdp.solvers import Solver, resolve_solver

__all__ = ["tune_by_bilevel"]

#: First movement in log alpha, and its decrease from step to step.
_FIRST_STEP, _DECAY = 1.0, 0.8
#: Steps and sampling rate of localised gradient descent.
_BATCH_STEPS, _SAMPLING_RATE = 50, 0.1


@without_warnings()
def tune_by_bilevel(
    records: Records,
    loss: Loss,
    penalties: PenaltyGroups,
    budget: PrivacyBudget,
    *,
    coef_norm: float,
    n_steps: int = 8,
    penalty: float = 0.1,
    tune_share: float = 0.2,
    minibatch: bool = False,
    start: float | None = None,
    solver: Any = "auto",
    solver_rng: np.random.Generator | None = None,
    noise: NoiseSource | None = None,
) -> TunedModel:
    """Choose the strengths by private hypergradients, then fit; replace-one neighbours.

    Records of even position train, those of odd position validate. What is minimised is the
    validation loss plus the public cost of the final model's noise at these strengths
    (specification, 5.6): without it they go to the lower end.

    Parameters
    ----------
    records, loss, penalties, budget, solver, solver_rng, noise
        As in :func:`skdp.algorithms.tuning.final_fit`; `loss` smooth and of one margin, delta > 0.
        The budget is for tuning and final fit together.
    coef_norm : float
        Public guess of the norm of a good predictor, for the start.
    n_steps : int, default=8
        T. The first step moves ``log alpha`` by at most 1, each later one by 0.8 times that.
    penalty : float, default=0.1
        c in ``lam = c curvature X'^2 / a``, X' the norm bound of rows in the coordinates in which
        all strengths are a: large values have less bias and more noise. The specification (5.5)
        has 0.3 to 1. At the small strengths where a gradient drowns first, 0.02 to 0.1 in units of
        ``curvature X^2``, it is largest in units of its noise at about 0.1 (docs/theory/bilevel.md,
        "Tuning").
    tune_share : float, default=0.2
        Part of the budget, in squares of Gaussian-DP parameters, for tuning.
    minibatch : bool, default=False
        Solve lower problems by localised gradient descent on random batches (Algorithms 3 and 4).
        Needs dp-accounting.
    start : float, optional
        First strength of all groups. Default: twice that of the public rule, because the noise of
        a step is smaller at a larger strength.

    Returns
    -------
    TunedModel
    """
    check_real("tune_share", tune_share, 1e-9, 1.0 - 1e-9)
    check_real("penalty", penalty, 1e-50, 1e50)
    if budget.is_pure:
        raise ValueError("delta == 0: bilevel tuning needs delta > 0.")
    noise = NoiseSource() if noise is None else noise
    rng = np.random.default_rng() if solver_rng is None else solver_rng
    chosen = solver if isinstance(solver, Solver) else resolve_solver(solver)
    fit_share = 1.0 - tune_share
    if start is None:
        start = 2.0 * public_strength(
            records, loss, penalties, budget, coef_norm=coef_norm, share=fit_share
        )
    start = float(np.clip(start, penalties.low, penalties.high))
    problem = _NoiseAwareProblem(records, loss, penalties, budget, fit_share)

    def lam(x: np.ndarray) -> float:
        weakest = float(problem.alphas(x).min())
        return penalty * loss.curvature * problem.feature_norm(x) ** 2 / weakest

    # what is refused is refused before a record is read: lam falls in every strength, and no
    # strength moves by more than the sum of all steps
    reach = math.exp(_FIRST_STEP / (1.0 - _DECAY))
    for end in np.clip([start / reach, start * reach], penalties.low, penalties.high):
        check_real("penalty", lam(np.full(problem.dimension_x, math.log(end))), 1e-50, 1e50)
    inner: PrivateSolver = OutputPerturbation(chosen)
    if minibatch:
        inner = LocalizedGradientDescent(_BATCH_STEPS, sampling_rate=_SAMPLING_RATE)
    tuned = dp_bilevel(
        problem,
        budget,
        penalty=lam,
        n_steps=n_steps,
        step_size=_cautious_step,
        inner=inner,
        share=tune_share,
        start=np.full(problem.dimension_x, math.log(start)),
        solver_rng=rng,
        noise=noise,
    )
    alpha, path = np.exp(tuned.x), np.exp(tuned.path)
    if not np.array_equal(path[-1], alpha):  # the average of the later iterates
        path = np.vstack([path, alpha])
    point, release = final_fit(
        records,
        loss,
        penalties,
        alpha,
        budget,
        fit_share,
        solver=chosen,
        solver_rng=rng,
        noise=noise,
    )
    plan = {
        **tuned.plan.to_dict(),
        "tune_share": tune_share,
        "penalty": penalty,
        "start": start,
        "n_train": problem.n_train,
        "n_validation": problem.n_val,
        "coef_norm_guess": float(coef_norm),
    }
    return TunedModel(point, alpha, path, (*tuned.plan.releases, release), plan)


class _NoiseAwareProblem(PenaltyProblem):
    """Strengths judged by the loss of the model that will be released, its noise included."""

    def __init__(
        self,
        records: Records,
        loss: Loss,
        penalties: PenaltyGroups,
        budget: PrivacyBudget,
        fit_share: float,
    ) -> None:
        super().__init__(
            records, loss, penalties.groups, penalties.relative, penalties.low, penalties.high
        )
        self._public = records, loss, penalties
        self._budget, self._fit_share = budget, fit_share

    def upper_gradient_x(
        self, x: np.ndarray, y: np.ndarray, batch: np.ndarray | None = None
    ) -> np.ndarray:
        """Of the public cost of noise; the loss itself depends on x through y alone."""
        return final_noise_slopes(*self._public, np.exp(x), self._budget, self._fit_share)


def _cautious_step(t: int, gradient: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """A step of bounded length, none where the gradient is not larger than its noise."""
    size = np.maximum(np.abs(gradient), 1e-300)
    length = _FIRST_STEP * _DECAY**t * np.maximum(0.0, 1.0 - deviation / size)
    return -length * np.sign(gradient)
