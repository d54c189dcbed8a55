"""Private choice of penalties, together with the model that they are chosen for.

Every method is a plan of a :class:`TuningObjective` and a budget. Its run
returns a :class:`TunedResult`: alpha, the private model for it and what was released. The default
of models that tune their penalty is in `shrinkage`.
Tuning by the algorithms of Kornowski (2024) is in `bilevel`.
"""

from skdp.algorithms.tuning.bilevel import BilevelTuningPlan
from skdp.algorithms.tuning.final_fit import FinalFitPlan
from skdp.algorithms.tuning.objective import TunedResult, TuningObjective
from skdp.algorithms.tuning.shrinkage import ShrinkagePlan

__all__ = [
    "BilevelTuningPlan",
    "FinalFitPlan",
    "ShrinkagePlan",
    "TunedResult",
    "TuningObjective",
]
