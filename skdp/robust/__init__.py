"""Private models that are made for the worst case."""

from skdp.robust.adversarial_classifier import DPAdversarialClassifier
from skdp.robust.adversarial_regressor import DPAdversarialRegressor
from skdp.robust.group_metrics import worst_group_loss, worst_group_score
from skdp.robust.max_group_loss_classifier import DPMaxGroupLossClassifier
from skdp.robust.max_group_loss_mlp import DPMaxGroupLossMLPClassifier
from skdp.robust.max_group_loss_regressor import DPMaxGroupLossRegressor

__all__ = [
    "DPAdversarialClassifier",
    "DPAdversarialRegressor",
    "DPMaxGroupLossClassifier",
    "DPMaxGroupLossMLPClassifier",
    "DPMaxGroupLossRegressor",
    "worst_group_loss",
    "worst_group_score",
]
