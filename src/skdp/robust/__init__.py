"""Private models that are made for the worst case."""

from skdp.robust.adversarial_classifier import DPAdversarialClassifier
from skdp.robust.adversarial_regressor import DPAdversarialRegressor

__all__ = ["DPAdversarialClassifier", "DPAdversarialRegressor"]
