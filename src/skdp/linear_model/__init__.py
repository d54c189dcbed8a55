"""Private linear models."""

from skdp.linear_model.logistic_regression import DPLogisticRegression
from skdp.linear_model.ridge import DPRidge

__all__ = ["DPLogisticRegression", "DPRidge"]
