"""The strings that parameters of estimators may be, for signatures and for their checks."""

from typing import Literal

Auto = Literal["auto"]
ReplaceOne = Literal["replace_one"]
Relation = Literal["replace_one", "add_remove"]
CalibrationName = Literal["analytic", "paper"]
ObjectiveName = Literal["empirical", "population"]

ClassifierLoss = Literal["log_loss", "hinge", "smoothed_hinge", "squared_hinge"]
RegressorLoss = Literal["squared_error", "huber", "absolute_error", "quantile"]

GroupMode = Literal["auto", "proportions", "public", "histogram", "floored"]
NetworkGroupMode = Literal["auto", "proportions", "public", "histogram"]

# without "auto" they are the keys of the tables in skdp.algorithms
LinearMethod = Literal[
    "auto",
    "gradient",
    "objective",
    "statistics",
    "output",
    "phased",
    "exponential",
    "mirror_descent",
]
AttackedMethod = Literal["auto", "output"]
GroupMethod = Literal["auto", "gradient", "output", "phased", "rgda", "mirror_descent"]
SyntheticMethod = Literal["auto", "adaptive", "mirror_descent"]
RidgeTuner = Literal[
    "sufficient_statistics",
    "bilevel",
    "bilevel_minibatch",
    "hypergradient",
    "exponential",
    "public",
]
LogisticTuner = Literal[
    "newton", "bilevel", "bilevel_minibatch", "hypergradient", "exponential", "public"
]
