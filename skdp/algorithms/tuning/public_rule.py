"""No tuning: a strength from public numbers, and a fit with the whole budget.

The rule to beat (Kornowski 2024 specification, 5.6). Every tuner pays for looking at the records;
this one does not look, and spends all on the fit. The other tuners start from it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skdp._checks import check_positive
from skdp.algorithms.tuning.final_fit import final_fit, whitened
from skdp.algorithms.tuning.model import PenaltyGroups, TunedModel
from skdp.mechanisms import NoiseSource, calibrated_mechanism
from skdp.privacy.budget import PrivacyBudget
from skdp.problems import Loss, Records
from skdp.problems.silence import without_warnings

__all__ = ["public_strength", "tune_by_public_rule"]


def public_strength(
    records: Records,
    loss: Loss,
    penalties: PenaltyGroups,
    budget: PrivacyBudget,
    *,
    coef_norm: float,
    share: float = 1.0,
) -> float:
    """One strength for all groups that minimises bias plus noise, from public numbers.

    Per-record gradients are at most ``U r`` near a predictor of norm B, with
    ``r = lipschitz(X, B) / X`` (``Y + X B`` for least squares, at most 1 for the log loss) and
    whitened rows of norm ``U = k / sqrt(alpha)``. The noise of the fit then costs about
    ``(c / 2) m (2 U^2 r / n)^2`` and the penalty ``alpha B^2 / 2``; the sum is least at

        ``alpha^3 = 2 c m (2 k^2 r / n)^2 / B^2``

    with c the loss's curvature and m the variance of a coordinate of the noise per unit of
    sensitivity.

    Parameters
    ----------
    records : Records
        Only its public numbers are read.
    loss : Loss
    penalties : PenaltyGroups
        The answer is clipped to its bounds.
    budget : PrivacyBudget
    coef_norm : float
        B, a public guess of the norm of a good predictor.
    share : float, default=1.0
        Part of the budget that the fit will have.
    """
    check_positive(coef_norm=coef_norm)
    square = whitened(records, penalties, np.ones(penalties.n_groups)).norm_bound ** 2
    slope = loss.lipschitz(records.norm_bound, coef_norm) / records.norm_bound
    variance = (
        calibrated_mechanism(budget, 1.0, share=share).mean_square(records.width) / records.width
    )
    moved = 2.0 * square * slope / records.n_records
    alpha = (2.0 * loss.curvature * variance * (moved / coef_norm) ** 2) ** (1.0 / 3.0)
    return float(np.clip(alpha, penalties.low, penalties.high))


@without_warnings()
def tune_by_public_rule(
    records: Records,
    loss: Loss,
    penalties: PenaltyGroups,
    budget: PrivacyBudget,
    *,
    coef_norm: float,
    solver: Any = "auto",
    solver_rng: np.random.Generator | None = None,
    noise: NoiseSource | None = None,
) -> TunedModel:
    """Fit at the strength of :func:`public_strength`, with the whole budget.

    ``alpha="auto"`` of :class:`skdp.linear_model.DPRidge` is data-free too. It minimises a finer
    bound numerically: with the tight diameter of the gradients in place of twice their bound, a
    bias that knows that rows have no preferred direction, and capped sensitivities. This one is
    the closed form that the other tuners are compared with, in their setting: an intercept that
    is penalised as a feature of full norm would be, and noise in whitened coordinates.

    Parameters
    ----------
    records, loss, penalties, budget, solver, solver_rng, noise
        As in :func:`skdp.algorithms.tuning.final_fit`.
    coef_norm : float
        Public guess of the norm of a good predictor.

    Returns
    -------
    TunedModel
    """
    strength = public_strength(records, loss, penalties, budget, coef_norm=coef_norm)
    alpha = np.full(penalties.n_groups, strength)
    point, release = final_fit(
        records,
        loss,
        penalties,
        alpha,
        budget,
        solver=solver,
        solver_rng=solver_rng,
        noise=noise,
    )
    return TunedModel(point, alpha, alpha[None], (release,), {"coef_norm_guess": float(coef_norm)})
