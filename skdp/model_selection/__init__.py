"""Self-tuning private models, private selection, and private cross-validation."""

from skdp.model_selection.cross_validation import dp_cross_validate
from skdp.model_selection.logistic_regression_cv import DPLogisticRegressionCV
from skdp.model_selection.ridge_cv import DPRidgeCV
from skdp.model_selection.search import DPSearchCV

__all__ = ["DPLogisticRegressionCV", "DPRidgeCV", "DPSearchCV", "dp_cross_validate"]
