"""Differentially private estimators for scikit-learn.

Privacy comes from the solution, not from the solver: the exact optimum of a strongly convex
problem moves by a known amount when one record changes; so it is computed to a proven
accuracy with any solver, and released with noise of that size.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

#: Where the names above are defined, in the order of search.
_PACKAGES = ("linear_model", "preprocessing", "privacy", "model_selection", "robust", "synthetic")


def __getattr__(name: str) -> Any:
    """Load an estimator or a subpackage when it is first asked for: imports stay fast."""
    if name in __all__:
        packages = (import_module(f"skdp.{package}") for package in _PACKAGES)
        found = next(getattr(package, name) for package in packages if hasattr(package, name))
        globals()[name] = found
        return found
    if not name.startswith("_"):
        try:
            return import_module(f"skdp.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"skdp.{name}":
                raise
    raise AttributeError(f"module 'skdp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
