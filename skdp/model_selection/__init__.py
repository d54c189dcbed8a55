"""Private models that choose their penalty themselves, and private cross-validation."""

from skdp.model_selection.cross_validation import dp_cross_validate
from skdp.model_selection.logistic_regression_cv import DPLogisticRegressionCV
from skdp.model_selection.ridge_cv import DPRidgeCV

__all__ = ["DPLogisticRegressionCV", "DPRidgeCV", "dp_cross_validate"]
