"""Private choice of the strength of a penalty, together with the model that it is chosen for.

Every route takes records, a :class:`PenaltyGroups` and a budget, and returns a
:class:`TunedModel`: the strengths, the private model for them and what was released.
"""

from skdp.algorithms.tuning.bilevel import tune_by_bilevel
from skdp.algorithms.tuning.exponential import tune_by_exponential_mechanism
from skdp.algorithms.tuning.final_fit import final_fit
from skdp.algorithms.tuning.hypergradient import tune_by_hypergradient
from skdp.algorithms.tuning.model import PenaltyGroups, TunedModel
from skdp.algorithms.tuning.newton_statistics import tune_by_newton_statistics
from skdp.algorithms.tuning.public_rule import tune_by_public_rule
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
    "final_fit",
    "plan_private_moments",
    "private_moments",
    "tune_by_bilevel",
    "tune_by_exponential_mechanism",
    "tune_by_hypergradient",
    "tune_by_newton_statistics",
    "tune_by_public_rule",
    "tune_by_sufficient_statistics",
]
