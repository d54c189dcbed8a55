"""Tables by declaration: what is public of each column, features of rows, and models of them."""

from skdp.tabular.columns import Category, Date, Flag, Number, Text
from skdp.tabular.feature_plan import FeaturePlan
from skdp.tabular.table_encoder import TableEncoder

__all__ = ["Category", "Date", "FeaturePlan", "Flag", "Number", "TableEncoder", "Text"]
