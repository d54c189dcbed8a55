"""Differentially private estimators for scikit-learn.

Privacy comes from the solution, not from the solver: the exact optimum of a strongly convex
problem moves by a known amount when one record changes; so it is computed to a proven
accuracy with any solver, and released with noise of that size.
"""

from skdp.linear_model import (
    DPLinearClassifier,
    DPLinearRegressor,
    DPLogisticRegression,
    DPRidge,
)
from skdp.model_selection import DPLogisticRegressionCV, DPRidgeCV
from skdp.preprocessing import BoundedScaler, BoundedSplineTransformer, DPStandardScaler
from skdp.privacy import (
    BudgetAccountant,
    BudgetExceededError,
    PrivacyBudget,
    PrivacyLeakWarning,
    PrivacyReport,
)
from skdp.robust import (
    DPAdversarialClassifier,
    DPAdversarialRegressor,
    DPMaxGroupLossClassifier,
    DPMaxGroupLossMLPClassifier,
    DPMaxGroupLossRegressor,
)
from skdp.synthetic import DPSyntheticData

__version__ = "0.1.0"

__all__ = [
    "BoundedScaler",
    "BoundedSplineTransformer",
    "BudgetAccountant",
    "BudgetExceededError",
    "DPAdversarialClassifier",
    "DPAdversarialRegressor",
    "DPLinearClassifier",
    "DPLinearRegressor",
    "DPLogisticRegression",
    "DPLogisticRegressionCV",
    "DPMaxGroupLossClassifier",
    "DPMaxGroupLossMLPClassifier",
    "DPMaxGroupLossRegressor",
    "DPRidge",
    "DPRidgeCV",
    "DPStandardScaler",
    "DPSyntheticData",
    "PrivacyBudget",
    "PrivacyLeakWarning",
    "PrivacyReport",
    "__version__",
]
