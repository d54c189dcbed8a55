"""Tables by declaration: what is public of each column, features of rows, and models of them.

:class:`DPTabularClassifier` and :class:`DPTabularRegressor` need the declarations and nothing else;
:class:`TableEncoder` makes their features before other private models. :func:`describe_columns`
writes declarations to fill in, and :func:`check_columns` compares them with records.
"""

from skdp.tabular.column_checks import ColumnFinding, ColumnReport, check_columns, describe_columns
from skdp.tabular.columns import Category, Date, Flag, Number, Text
from skdp.tabular.estimators import DPTabularClassifier, DPTabularRegressor
from skdp.tabular.feature_plan import FeaturePlan
from skdp.tabular.table_encoder import TableEncoder

__all__ = [
    "Category",
    "ColumnFinding",
    "ColumnReport",
    "DPTabularClassifier",
    "DPTabularRegressor",
    "Date",
    "FeaturePlan",
    "Flag",
    "Number",
    "TableEncoder",
    "Text",
    "check_columns",
    "describe_columns",
]
