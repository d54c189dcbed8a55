"""Scaling of features by declared ranges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from skdp._records import refuse_without_values, validate_records


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
        if not isinstance(self.ranges, Mapping):
            _as_pairs(self.ranges)
        X = validate_records(self, X)
        self.ranges_ = self._per_feature()
        return self

    def _per_feature(self) -> np.ndarray:
        """Return the declared ranges in the order of the columns."""
        n_features = self.n_features_in_
        if isinstance(self.ranges, Mapping):
            if not hasattr(self, "feature_names_in_"):
                raise ValueError(
                    "ranges is a dict of column names, but the columns of X are not named by "
                    "strings. Pass a data frame, or one (low, high) row per feature."
                )
            names = list(self.feature_names_in_)
            missing = [name for name in names if name not in self.ranges]
            unknown = [name for name in self.ranges if name not in names]
            if missing or unknown:
                raise ValueError(
                    f"ranges must name the columns of X. Without a range: {missing}; "
                    f"not in X: {unknown}."
                )
            return _as_pairs([self.ranges[name] for name in names], names)
        pairs = _as_pairs(self.ranges)
        if np.ndim(self.ranges) == 1:
            return np.repeat(pairs, n_features, axis=0)
        if len(pairs) != n_features:
            raise ValueError(f"ranges has {len(pairs)} rows, but X has {n_features} features.")
        return pairs

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
        X = validate_records(self, X, reset=False)
        low, high = self.ranges_.T
        middle, half = _middle_and_half(low, high)
        out = (np.clip(X, low, high) - middle) / half
        return np.clip(out, -1.0, 1.0).astype(X.dtype, copy=False)

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
        middle, half = _middle_and_half(*self.ranges_.T)
        return np.asarray(X * half + middle).astype(X.dtype, copy=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _middle_and_half(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Middle and half-width of ranges, without overflow."""
    return 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low


def _as_pairs(ranges: Any, names: list[str] | None = None) -> np.ndarray:
    """Checked ranges, shape (n, 2) in float64; `names` is for the message."""
    try:
        pairs = np.atleast_2d(np.array(ranges, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"ranges must hold pairs (low, high) of numbers, got {ranges!r}."
        ) from error
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(
            "ranges must be a pair (low, high), an array of shape (n_features, 2) or a dict of "
            f"pairs; got the shape {np.shape(ranges)}."
        )
    low, high = pairs.T
    _, half = _middle_and_half(low, high)
    bad = ~(np.isfinite(low) & np.isfinite(high) & (low < high) & (half > 0))
    if bad.any():
        at = int(np.argmax(bad))
        where = f" of {names[at]!r}" if names else f" of feature {at}" if len(pairs) > 1 else ""
        raise ValueError(
            f"The range{where} is ({low[at]:g}, {high[at]:g}), must be finite with low < high."
        )
    return pairs
