"""Differentially private estimators for scikit-learn: declare what is public, choose epsilon, fit.

Every noise scale names its theorem, and any solver may be used where one is: privacy comes from a
certificate of the solution.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers and editors
    from skdp.linear_model import DPLinearClassifier as DPLinearClassifier
    from skdp.linear_model import DPLinearRegressor as DPLinearRegressor
    from skdp.linear_model import DPLogisticRegression as DPLogisticRegression
    from skdp.linear_model import DPRidge as DPRidge
    from skdp.model_selection import DPLogisticRegressionCV as DPLogisticRegressionCV
    from skdp.model_selection import DPRidgeCV as DPRidgeCV
    from skdp.model_selection import DPSearchCV as DPSearchCV
    from skdp.preprocessing import BoundedScaler as BoundedScaler
    from skdp.preprocessing import BoundedSplineTransformer as BoundedSplineTransformer
    from skdp.preprocessing import DPStandardScaler as DPStandardScaler
    from skdp.privacy import BudgetAccountant as BudgetAccountant
    from skdp.privacy import BudgetExceededError as BudgetExceededError
    from skdp.privacy import PrivacyBudget as PrivacyBudget
    from skdp.privacy import PrivacyLeakWarning as PrivacyLeakWarning
    from skdp.privacy import PrivacyReport as PrivacyReport
    from skdp.robust import DPAdversarialClassifier as DPAdversarialClassifier
    from skdp.robust import DPAdversarialRegressor as DPAdversarialRegressor
    from skdp.robust import DPMaxGroupLossClassifier as DPMaxGroupLossClassifier
    from skdp.robust import DPMaxGroupLossMLPClassifier as DPMaxGroupLossMLPClassifier
    from skdp.robust import DPMaxGroupLossRegressor as DPMaxGroupLossRegressor
    from skdp.synthetic import DPSyntheticData as DPSyntheticData
    from skdp.tabular import Category as Category
    from skdp.tabular import Date as Date
    from skdp.tabular import DPTabularClassifier as DPTabularClassifier
    from skdp.tabular import DPTabularRegressor as DPTabularRegressor
    from skdp.tabular import Flag as Flag
    from skdp.tabular import Number as Number
    from skdp.tabular import TableEncoder as TableEncoder
    from skdp.tabular import Text as Text
    from skdp.tabular import check_columns as check_columns
    from skdp.tabular import describe_columns as describe_columns

__version__ = "0.1.0"

_NAMES = {
    "linear_model": ("DPLinearClassifier", "DPLinearRegressor", "DPLogisticRegression", "DPRidge"),
    "model_selection": ("DPLogisticRegressionCV", "DPRidgeCV", "DPSearchCV"),
    "preprocessing": ("BoundedScaler", "BoundedSplineTransformer", "DPStandardScaler"),
    "privacy": (
        "BudgetAccountant", "BudgetExceededError", "PrivacyBudget", "PrivacyLeakWarning",
        "PrivacyReport",
    ),
    "robust": (
        "DPAdversarialClassifier", "DPAdversarialRegressor", "DPMaxGroupLossClassifier",
        "DPMaxGroupLossMLPClassifier", "DPMaxGroupLossRegressor",
    ),
    "synthetic": ("DPSyntheticData",),
    "tabular": (
        "Category", "DPTabularClassifier", "DPTabularRegressor", "Date", "Flag", "Number",
        "TableEncoder", "Text", "check_columns", "describe_columns",
    ),
}  # fmt: skip
#: Public names and the packages that define them.
_PACKAGE_OF = {name: package for package, names in _NAMES.items() for name in names}
_PACKAGES = sorted(
    {*_NAMES, "algorithms", "audit", "data", "inspection", "mechanisms", "methods", "problems",
     "solvers", "utils"}
)  # fmt: skip
__all__ = [*_PACKAGE_OF, "__version__"]


def __getattr__(name: str) -> Any:
    """Load a package when it, or a name in it, is first asked for: imports stay fast."""
    if name in _PACKAGES:
        return importlib.import_module(f"skdp.{name}")
    if name not in _PACKAGE_OF:
        raise AttributeError(f"module 'skdp' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"skdp.{_PACKAGE_OF[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *_PACKAGES})
