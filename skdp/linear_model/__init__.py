"""Private linear models."""

from skdp.linear_model.intervals import CoefficientIntervals
from skdp.linear_model.linear_classifier import DPLinearClassifier
from skdp.linear_model.linear_regressor import DPLinearRegressor
from skdp.linear_model.logistic_regression import DPLogisticRegression
from skdp.linear_model.ridge import DPRidge

__all__ = [
    "CoefficientIntervals",
    "DPLinearClassifier",
    "DPLinearRegressor",
    "DPLogisticRegression",
    "DPRidge",
]
