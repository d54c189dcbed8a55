"""Tables by declaration: what is public of each column, features of rows, and models of them.

:class:`DPTabularClassifier` and :class:`DPTabularRegressor` need the declarations and nothing else;
:class:`TableEncoder` makes their features before other private models.
"""

from skdp.tabular.columns import Category, Date, Flag, Number, Text
from skdp.tabular.estimators import DPTabularClassifier, DPTabularRegressor
from skdp.tabular.feature_plan import FeaturePlan
from skdp.tabular.table_encoder import TableEncoder

__all__ = [
    "Category",
    "DPTabularClassifier",
    "DPTabularRegressor",
    "Date",
    "FeaturePlan",
    "Flag",
    "Number",
    "TableEncoder",
    "Text",
]
