"""Features of the rows of a table by public declarations, of Euclidean norm at most 1."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any, get_args

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from skdp._checks import check_option
from skdp._estimator import staged
from skdp._records import check_kind, validate_records
from skdp._types import ColumnsLeft, Self
from skdp.data.collections import as_source, first_rows, over_chunks
from skdp.tabular.feature_plan import FeaturePlan
from skdp.tabular.frames import Table, is_frame
from skdp.tabular.matching import (
    Column,
    are_numbers,
    check_levels,
    is_by_name,
    is_for_all,
    matched,
    paired_parts,
    parts_of,
    refuse_without_limits,
)
from skdp.tabular.rank_maps import ColumnMaps
from skdp.tabular.row_features import RowFeatures

#: Rows that are read at once.
_SLAB = 2**12


class TableEncoder(TransformerMixin, BaseEstimator):
    """Map the rows of a table to features of norm at most 1, by public declarations.

    Numbers become a position in their range and curves, categories one indicator for each value;
    products of numbers and a sketch of the products of all features may follow. The map is a
    function of one row, of the declarations and of the plan: nothing is learned, it costs no
    budget, and it may stand before any private estimator with ``data_norm=1.0``.

    Parameters
    ----------
    columns : dict of {name: declaration}, list of declarations, or pair, default=(-1.0, 1.0)
        Public. A dict for data frames; a list in the order of the columns, or one range for all,
        for arrays. A pair (low, high) is a :class:`Number`, a list of values a :class:`Category`,
        ``bool`` a :class:`Flag`; there are also :class:`Date` and :class:`Text`.
    features : {"linear", "curves", "pairs"} or FeaturePlan, default="curves"
        "linear": the positions and indicators. "curves": these, and cosines of each number up to
        frequency 6. "pairs": also the products. :meth:`FeaturePlan.for_budget` takes what a budget
        pays for.
    pairs : list of pairs of names, default=()
        Columns whose products are always there, such as ``[("hour", "workingday")]``: those of
        all features of the one and the other, with curves of numbers. A part of a date is named
        like "joined_month", a column of an array by its position.
    columns_left : {"error", "drop"}, default="error"
        What to do with columns of X that are not declared.
    maps : ColumnMaps or None, default=None
        Of the numbers, by what was released of a table with the same columns, such as
        ``model.encoder_.maps`` of a :class:`DPTabularClassifier`. Columns that were visibly
        constant are left out.

    Attributes
    ----------
    schema_ : dict of {name: declaration}
    feature_plan_ : FeaturePlan
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only where X has column names that are all strings.

    See Also
    --------
    DPTabularClassifier : A model of the features that the budget pays for.
    describe_columns : Print declarations to fill in.

    Notes
    -----
    Rows are bounded, and neighbouring tables are mapped to neighbouring rows:
    docs/theory/tabular.md, Theorem 1.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp.tabular import Number, TableEncoder
    >>> frame = pd.DataFrame({"age": [20.0, None], "job": ["cook", "clerk"]})
    >>> columns = {"age": Number(20, 80, missing=True), "job": ["clerk", "cook"]}
    >>> encoder = TableEncoder(columns, features="linear").set_output(transform="pandas")
    >>> encoder.fit_transform(frame).round(2)
        age  age_missing  job_clerk  job_cook
    0 -0.78         0.00       0.00      0.62
    1  0.00         0.66       0.66      0.00
    """

    def __init__(
        self,
        columns: Any = (-1.0, 1.0),
        *,
        features: Any = "curves",
        pairs: Any = (),
        columns_left: ColumnsLeft = "error",
        maps: ColumnMaps | None = None,
    ) -> None:
        self.columns = columns
        self.features = features
        self.pairs = pairs
        self.columns_left = columns_left
        self.maps = maps

    def fit(self, X: Any, y: Any = None) -> Self:
        """Match the declarations with the columns of X; nothing is learned from the values.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_columns)
        y : None
            Ignored.

        Returns
        -------
        self : TableEncoder

        Raises
        ------
        ValueError
            If a parameter is invalid, or if the declarations do not fit X.
        """
        with staged(self) as encoder:
            table = table_of(encoder, first_rows(X), reset=True)
            columns = encoder._fit_table(table)
            for _ in encoder._read(table):
                pass
            if as_source(X) is None:  # the first rows of a source need not be like the others
                check_levels(columns, table)
        return self

    def _fit_table(self, table: Table) -> tuple[Column, ...]:
        is_plan = isinstance(self.features, FeaturePlan)
        self.feature_plan_ = self.features if is_plan else FeaturePlan.fixed(self.features)
        check_option("columns_left", self.columns_left, get_args(ColumnsLeft))
        found = matched(self.columns, table, self.columns_left)
        self.schema_ = {column.name: column.declaration for column in found}
        refuse_without_limits(self.schema_)
        paired_parts(self.pairs, self.schema_)
        if self.maps is not None:
            kinds = dict(enumerate(part.kind for part in parts_of(self.schema_)))
            mapped = getattr(self.maps, "values", None)
            if not isinstance(mapped, dict) or any(kinds.get(k) != "number" for k in mapped):
                raise ValueError(
                    "maps must be those of an encoder_ of a model that was fitted to a table with "
                    "the same columns, or None."
                )
        return found

    @over_chunks
    def transform(self, X: Any) -> Any:
        """Compute the features of each row.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_columns)

        Returns
        -------
        ndarray or CSR of shape (n_samples, n_features_out)
            Rows of Euclidean norm at most 1; sparse where there are no curves and no products, and
            less than a tenth of the features is expected not to be zero.

        Raises
        ------
        ValueError
            For values that a declaration cannot read; the message names the column. Categories
            that are not declared count as none.
        """
        check_is_fitted(self)
        return self._encode(table_of(self, X, reset=False))

    def _encode(self, table: Table) -> Any:
        """Compute the features of a validated table."""
        features = self.row_features
        if features.is_sparse:
            return sp.vstack(list(self._slabs(table)), format="csr")
        out = np.empty((table.n_rows, features.n_features))
        for rows, values in self._read(table):
            out[rows] = features.of_rows(values)
        return out

    def _slabs(self, table: Table) -> Iterator[Any]:
        """Yield the features of some rows after the other."""
        features = self.row_features
        for _, values in self._read(table):
            yield features.of_rows(values)

    def _read(
        self, table: Table, only: Container[Any] | None = None
    ) -> Iterator[tuple[slice, list[Any]]]:
        """Read some rows after the other: for each part of the columns, or of some, one array."""
        schema = self.schema_  # of the fit: the user's list or dict may have changed since
        given = schema if is_by_name(self.columns) else [*schema.values()]
        columns = matched(given, table, self.columns_left)
        columns = tuple(each for each in columns if only is None or each.name in only)
        for start in range(0, max(table.n_rows, 1), _SLAB):
            rows = slice(start, min(start + _SLAB, table.n_rows))
            values: list[Any] = []
            wrong = []
            for column in columns:
                try:
                    found = table.column(column.position, rows)
                    values += column.declaration.read(found, f"Column {column.name!r}")
                except ValueError as error:
                    wrong.append(str(error))
            if wrong:
                if table.names is not None and is_for_all(self.columns):
                    wrong.append(
                        "columns declares one range for all columns; print "
                        "skdp.describe_columns(X) for a declaration of each."
                    )
                raise ValueError("\n".join(wrong))
            yield rows, values

    @property
    def row_features(self) -> RowFeatures:
        """The map from columns that were read to features."""
        parts = parts_of(self.schema_)
        pairs = paired_parts(self.pairs, self.schema_)
        return RowFeatures(parts, self.feature_plan_, pairs, self.maps)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Name the features: age, age_missing, job_clerk, age_cos2, age*pay, pairs_17, ...

        Parameters
        ----------
        input_features : None
            Ignored: the declarations have the names.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        return np.array(self.row_features.names(), dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        return tags


def table_of(estimator: Any, X: Any, *, reset: bool, least: int = 1) -> Table:
    """Check shape and names of X as scikit-learn does; by name, columns may be in any order."""
    columns = estimator.columns
    numeric = are_numbers(columns)  # declarations that are wrong are refused first
    check_kind(X)
    if is_frame(X):
        table = Table(X)
        table.position_of()
        if table.n_rows < least or table.n_columns == 0:
            raise ValueError(
                f"Found array with {table.n_rows} sample(s) and {table.n_columns} feature(s) "
                f"(shape={(table.n_rows, table.n_columns)}) while a minimum of 1 is required."
            )
        if not is_by_name(columns):
            validate_data(estimator, X, reset=reset, skip_check_array=True)
        elif reset:
            estimator.n_features_in_ = table.n_columns
            if all(isinstance(name, str) for name in table.names or ()):
                estimator.feature_names_in_ = np.array(table.names, dtype=object)
            elif hasattr(estimator, "feature_names_in_"):
                del estimator.feature_names_in_
        return table
    options: dict[str, Any] = {"ensure_all_finite": False, "reset": reset}
    options["ensure_min_samples"] = least
    if not numeric and isinstance(X, (list, tuple)):
        X = np.array(X, dtype=object)
    try:
        found = validate_records(estimator, X, **options, **({} if numeric else {"dtype": None}))
    except ValueError:
        if not (numeric and np.asarray(X).dtype.kind in "OU" and np.ndim(X) == 2):
            raise
        # text among numbers, which declarations may read, or name the column
        found = validate_records(estimator, np.asarray(X, dtype=object), dtype=None, **options)
    return Table(found)
