"""Scaling of features by declared ranges."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from skdp._records import refuse_without_values, validate_records
from skdp.preprocessing.ranges import (
    check_ranges,
    middle_and_half,
    ranges_per_feature,
    to_unit_interval,
)


class BoundedScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Map each feature from its public range to [-1, 1].

    Values outside the range are clipped to it, record by record. Unlike
    :class:`~sklearn.preprocessing.MinMaxScaler`, which reads the ranges off the records,
    this scaler learns nothing from them: it costs no privacy budget, and may be used before
    any private estimator.

    Parameters
    ----------
    ranges : pair of float, array-like of shape (n_features, 2) or dict, default=(-1.0, 1.0)
        Public range of each feature, in its own units, with low < high:

        - a pair (low, high): the same range for all features;
        - an array: one row (low, high) per feature;
        - a dict ``{column name: (low, high)}`` that names every column, for data frames.

        Choose a range from what is known without the data: physical limits, the answers
        that a form allows, earlier publications. A range that is symmetric about 0 maps 0
        to 0.

    Attributes
    ----------
    ranges_ : ndarray of shape (n_features, 2)
        The declared range of each feature.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only where X has column names that are all strings.

    See Also
    --------
    sklearn.preprocessing.Normalizer : Scales each record to norm one; it learns nothing
        either.

    Notes
    -----
    NaN, infinity and sparse input are refused.

    Examples
    --------
    >>> from skdp.preprocessing import BoundedScaler
    >>> X = [[30.0, 0.0], [65.0, 20.0], [120.0, 40.0]]
    >>> BoundedScaler(ranges=[(0, 100), (0, 80)]).fit_transform(X)
    array([[-0.4, -1. ],
           [ 0.3, -0.5],
           [ 1. ,  0. ]])
    """

    def __init__(self, ranges: Any = (-1.0, 1.0)) -> None:
        self.ranges = ranges

    def fit(self, X: Any, y: Any = None) -> BoundedScaler:
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
            If the ranges are invalid or do not fit the columns of X, or if X holds NaN or
            infinity.
        """
        check_ranges(self.ranges)
        validate_records(self, X)
        self.ranges_ = ranges_per_feature(self)
        return self

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
        return to_unit_interval(validate_records(self, X, reset=False), self.ranges_)

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Map [-1, 1] back to the range of each feature, without clipping.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        with refuse_without_values():
            X = check_array(X, dtype=[np.float64, np.float32])
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but BoundedScaler was fitted with "
                f"{self.n_features_in_}."
            )
        middle, half = middle_and_half(*self.ranges_.T)
        return np.asarray(X * half + middle).astype(X.dtype, copy=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
