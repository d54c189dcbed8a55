"""Private models that choose their penalty themselves, within one budget."""

from skdp.model_selection.logistic_regression_cv import DPLogisticRegressionCV
from skdp.model_selection.ridge_cv import DPRidgeCV

__all__ = ["DPLogisticRegressionCV", "DPRidgeCV"]
