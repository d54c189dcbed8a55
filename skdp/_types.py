"""Types of signatures: the strings that parameters of estimators may be, which are also checked."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from typing_extensions import Self as Self
else:
    Self = Any

#: Whether to print progress, or a function to call with (name, done, planned) in place of it.
Verbose = int | Callable[[str, float, float], Any]

Auto = Literal["auto"]
ReplaceOne = Literal["replace_one"]
Relation = Literal["replace_one", "add_remove"]
Calibration = Literal["analytic", "paper"]

ClassifierLoss = Literal["log_loss", "hinge", "smoothed_hinge", "squared_hinge"]
RegressorLoss = Literal["squared_error", "huber", "absolute_error", "quantile"]

TableFeatures = Literal["auto", "linear", "curves", "pairs"]
ColumnsLeft = Literal["error", "drop"]

# without "auto" they are the keys of the tables in skdp.methods
LinearMethod = Literal[
    Auto,
    "gradient",
    "output",
    "objective",
    "output_perturbation",
    "phased",
    "exponential",
    "mirror_descent",
]
AttackedMethod = Literal["auto", "gradient", "output"]
GroupMethod = Literal["auto", "gradient", "output", "saddle", "phased", "rgda", "mirror_descent"]
SyntheticMethod = Literal["auto", "adaptive", "mirror_descent"]
TuningMethod = Literal["auto", "gradient", "bilevel"]
