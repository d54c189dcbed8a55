"""Private choice of the strength of a penalty, together with the model that it is chosen for.

Every route takes records, a :class:`PenaltyGroups` and a budget, and returns a
:class:`TunedModel`: the strengths, the private model for them and what was released.
"""

from skdp.algorithms.tuning.model import PenaltyGroups, TunedModel
from skdp.algorithms.tuning.statistics import (
    PrivateMoments,
    plan_private_moments,
    private_moments,
)
from skdp.algorithms.tuning.sufficient_statistics import tune_by_sufficient_statistics

__all__ = [
    "PenaltyGroups",
    "PrivateMoments",
    "TunedModel",
    "plan_private_moments",
    "private_moments",
    "tune_by_sufficient_statistics",
]
