"""Ridge regression that tunes its penalty on one noisy release of second moments.

Least squares sees the records through their second moments alone. Once these are released,
everything is post-processing: any number of candidate strengths, one per group of coefficients,
and the final model (Kornowski 2024 specification, 5.5, route C). No budget is split.

By default the moments are those of all records, and candidates are compared by Stein's identity.
With folds, the moments of each are released and predicted from those of the others; of strengths
that leave some noisy matrix indefinite the weakest would win, so those are no candidates. See
:mod:`skdp.algorithms.tuning.strength_search`.
"""

from __future__ import annotations

from skdp.algorithms.tuning.model import PenaltyGroups, TunedModel, check_penalties
from skdp.algorithms.tuning.roles import fold_slices
from skdp.algorithms.tuning.statistics import (
    PrivateMoments,
    plan_private_moments,
    private_moments,
)
from skdp.algorithms.tuning.strength_search import (
    CrossRisk,
    RidgeModels,
    Risk,
    SteinRisk,
    search_strengths,
)
from skdp.mechanisms import NoiseSource
from skdp.privacy.budget import PrivacyBudget
from skdp.problems import Records
from skdp.problems.silence import without_warnings

__all__ = ["tune_by_sufficient_statistics"]


@without_warnings()
def tune_by_sufficient_statistics(
    records: Records,
    target_bound: float,
    penalties: PenaltyGroups,
    budget: PrivacyBudget,
    *,
    coef_norm: float,
    n_folds: int | None = None,
    noise: NoiseSource | None = None,
) -> TunedModel:
    """Choose the strengths and fit the model on released moments; replace-one neighbours.

    Parameters
    ----------
    records : Records
        Of absolute value at most `target_bound`.
    target_bound : float
        Public.
    penalties : PenaltyGroups
    budget : PrivacyBudget
    coef_norm : float
        Public guess > 0 of the norm of a good predictor, for the weight of the targets.
    n_folds : int, optional
        Record i is in fold ``i % n_folds``. Folds are disjoint, so each release has the whole
        budget. Default: no folds.
    noise : NoiseSource, optional
        Default: the operating system's secure generator.

    Returns
    -------
    TunedModel
    """
    check_penalties(records, penalties)
    noise = NoiseSource() if noise is None else noise
    folds = fold_slices(records.n_records, n_folds)
    plan = plan_private_moments(
        budget,
        n_records=records.n_records // len(folds),
        width=records.width,
        feature_norm=records.norm_bound,
        target_bound=target_bound,
        coef_norm=coef_norm,
        block_size=records.block_size,
    )
    # rows and targets of at most 1 from here on: nothing overflows, and floors are public
    unit = records.norm_bound
    parts = [
        private_moments(records, plan, noise, fold).rescaled(unit, target_bound) for fold in folds
    ]
    scaled = penalties.rescaled(unit)
    ridge = RidgeModels(PrivateMoments.pooled(parts), scaled)
    risk: Risk = SteinRisk(ridge, 1.0) if n_folds is None else CrossRisk(parts, scaled)
    alpha, path = search_strengths(risk, scaled)
    return TunedModel(
        point=ridge.coefficients(alpha) * target_bound / unit,
        alpha=penalties.clipped(alpha * unit * unit),
        path=penalties.clipped(path * unit * unit),
        releases=(plan.release(n_folds),),
        plan={
            **plan.to_dict(),
            "n_folds": None if n_folds is None else int(n_folds),
            "fold_records": plan.n_records,
        },
    )
