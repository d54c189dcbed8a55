"""Scaling of features by declared ranges."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skdp._estimator import staged
from skdp._records import validate_records
from skdp._types import Self
from skdp.data.collections import first_rows, over_chunks
from skdp.preprocessing.ranges import (
    check_ranges,
    fill_values_per_feature,
    middle_and_half,
    ranges_per_feature,
    to_unit_interval,
    validated_inverse,
)


class BoundedScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Map each feature from its public range to [-1, 1].

    Values outside the range are clipped to it, record by record. Unlike
    :class:`~sklearn.preprocessing.MinMaxScaler` this scaler learns nothing from the records: it
    costs no privacy budget, and may be used before any private estimator.

    Parameters
    ----------
    ranges : pair of float, array-like of shape (n_features, 2) or dict, default=(-1.0, 1.0)
        Public range of each feature, in its own units, with low < high:

        - a pair (low, high): the same range for all features;
        - an array: one row (low, high) per feature;
        - a dict ``{column name: (low, high)}`` that names every column, for data frames.

        Choose a range from what is known without the data: physical limits, the answers that a form
        allows, earlier publications. A range that is symmetric about 0 maps 0 to 0.
    fill_value : float, array-like of shape (n_features,), dict or None, default=None
        Public number that takes the place of NaN, in the units of the feature: one for all
        features, one per feature, or a dict ``{column name: number}`` that names the columns with
        missing values. None: NaN is refused. Means and medians of the records are not public.

    Attributes
    ----------
    ranges_ : ndarray of shape (n_features, 2)
        The declared range of each feature.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only where X has column names that are all strings.

    See Also
    --------
    sklearn.preprocessing.Normalizer : Scales each record to norm one; it learns nothing either.

    Examples
    --------
    >>> from skdp.preprocessing import BoundedScaler
    >>> X = [[30.0, 0.0], [65.0, 20.0], [120.0, 40.0]]
    >>> BoundedScaler(ranges=[(0, 100), (0, 80)]).fit_transform(X)
    array([[-0.4, -1. ],
           [ 0.3, -0.5],
           [ 1. ,  0. ]])
    >>> BoundedScaler(ranges=(0, 100), fill_value=50).fit_transform([[float("nan")], [100.0]])
    array([[0.],
           [1.]])
    """

    def __init__(self, ranges: Any = (-1.0, 1.0), *, fill_value: Any = None) -> None:
        self.ranges = ranges
        self.fill_value = fill_value

    def fit(self, X: Any, y: Any = None) -> Self:
        """Match the declared ranges with the columns of X; the values are not used.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : None
            Ignored.

        Returns
        -------
        self : BoundedScaler

        Raises
        ------
        ValueError
            If the ranges are invalid or do not fit the columns of X, or if X is sparse or holds
            infinity or, without a `fill_value`, NaN.
        """
        check_ranges(self.ranges)
        X = first_rows(X)
        with staged(self) as model:
            X = model._validated(X)
            model.ranges_ = ranges_per_feature(model)
            model._fill_values(X)
        return self

    def _validated(self, X: Any, **options: Any) -> np.ndarray:
        allowed = True if self.fill_value is None else "allow-nan"
        return validate_records(self, X, ensure_all_finite=allowed, **options)

    def _fill_values(self, X: np.ndarray) -> np.ndarray | None:
        """Return the number for NaN of each feature, if any; refuse NaN where there is none."""
        if self.fill_value is None:
            return None
        values = fill_values_per_feature(self)
        if (np.isnan(values) & np.isnan(X).any(axis=0)).any():
            raise ValueError("X holds NaN in a column that fill_value does not name.")
        return values

    @over_chunks
    def transform(self, X: Any) -> np.ndarray:
        """Clip each feature to its range and map the range to [-1, 1].

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        values = self._fill_values(X)
        if values is not None:
            X = np.where(np.isnan(X), values.astype(X.dtype), X)
        return to_unit_interval(X, self.ranges_)

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Map [-1, 1] back to the range of each feature, without clipping.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        X = validated_inverse(self, X)
        middle, half = middle_and_half(*self.ranges_.T)
        return np.asarray(X * half + middle).astype(X.dtype, copy=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.allow_nan = self.fill_value is not None
        return tags
