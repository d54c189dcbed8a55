"""Private choice of penalties, together with the model that they are chosen for.

Every method is a plan of a :class:`TuningObjective` and a budget (`TUNING_METHODS`). Its run
returns a :class:`TunedResult`: alpha, the private model for it and what was released. The default
of models that tune their penalty is in `shrinkage`.
Tuning by the algorithms of Kornowski (2024) is in `bilevel`. `released_statistics` is the method
"statistics" of models that do not tune.
"""

from skdp.algorithms.tuning.bilevel import BilevelTuningPlan
from skdp.algorithms.tuning.exponential import DrawPlan
from skdp.algorithms.tuning.final_fit import FinalFitPlan, PublicRulePlan, SplitPlan
from skdp.algorithms.tuning.hypergradient import HypergradientPlan
from skdp.algorithms.tuning.methods import TUNING_METHODS, TuningMethod, tune
from skdp.algorithms.tuning.moments import PrivateMoments, plan_private_moments, private_moments
from skdp.algorithms.tuning.newton import NewtonPlan
from skdp.algorithms.tuning.objective import TunedResult, TuningObjective, TuningPlan
from skdp.algorithms.tuning.shrinkage import ShrinkagePlan
from skdp.algorithms.tuning.sufficient_statistics import SufficientStatisticsPlan

__all__ = [
    "TUNING_METHODS",
    "BilevelTuningPlan",
    "DrawPlan",
    "FinalFitPlan",
    "HypergradientPlan",
    "NewtonPlan",
    "PrivateMoments",
    "PublicRulePlan",
    "ShrinkagePlan",
    "SplitPlan",
    "SufficientStatisticsPlan",
    "TunedResult",
    "TuningMethod",
    "TuningObjective",
    "TuningPlan",
    "plan_private_moments",
    "private_moments",
    "tune",
]
