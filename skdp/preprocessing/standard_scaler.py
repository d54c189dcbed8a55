"""Scaling of features by private means and standard deviations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skdp._estimator import PrivateEstimator, staged
from skdp._records import validate_records
from skdp._runtime import without_warnings
from skdp._types import ReplaceOne, Self
from skdp._units import take_user_ids
from skdp.algorithms.statistics.column_moments import ColumnMomentsPlan
from skdp.algorithms.statistics.columns import are_of_persons
from skdp.data.collections import over_chunks
from skdp.preprocessing.columns_of_sources import unit_columns
from skdp.preprocessing.ranges import check_ranges, middle_and_half, validated_inverse
from skdp.privacy.budget_accountant import BudgetAccountant
from skdp.privacy.events import Neighbouring


class DPStandardScaler(OneToOneFeatureMixin, TransformerMixin, PrivateEstimator):
    """Center each feature and scale it to unit variance, by private moments.

    As :class:`~sklearn.preprocessing.StandardScaler`, but means and variances are released with
    noise. Values are clipped to a public range first, at fit and in every transform. The noise is
    in proportion to the range: where a feature fills its range, :class:`BoundedScaler` does as well
    at no cost.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget, > 0.
    delta : float, default=1e-6
        In [0, 1), far below 1 / n_samples; 0 is pure epsilon-differential privacy.
    ranges : pair of float, array-like of shape (n_features, 2) or dict, default=(-1.0, 1.0)
        Public range of each feature, as of :class:`BoundedScaler`; :func:`private_ranges` finds
        narrower ones. Values outside are clipped to it, record by record.
    neighbouring : {"replace_one"}, default="replace_one"
        Neighbouring data sets differ in one record replaced; their size is public. With `user_ids`
        in one person, and the number of persons is public.
    accountant : BudgetAccountant or None, default=None
        Is charged before a record is read, besides those of open ``with`` blocks.
    random_state : int, RandomState, Generator or None, default=None
        None: the system's secure generator. A seed is for tests: who knows it subtracts the noise.

    Attributes
    ----------
    mean_, var_, scale_ : ndarray of shape (n_features,)
        Private mean, variance and standard deviation, in units of the feature.
    ranges_ : ndarray of shape (n_features, 2)
        The declared range of each feature.
    privacy_ : PrivacyReport
        All releases and their cost.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only where X has column names that are all strings.

    Notes
    -----
    The means and mean squares of all features are one release, whose l2 sensitivity is ``2
    sqrt(n_features) / n_samples`` in units of half the ranges (proof:
    :mod:`skdp.algorithms.statistics.column_moments`). A variance below the standard deviation of
    its noise is replaced by it, so that constant features are not blown up.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.preprocessing import DPStandardScaler
    >>> X = np.random.default_rng(0).normal([20, 60], [2, 10], size=(10000, 2))
    >>> scaler = DPStandardScaler(epsilon=1.0, ranges=[(0, 40), (0, 200)], random_state=0).fit(X)
    >>> scaler.mean_.round(0), scaler.scale_.round(0)
    (array([20., 60.]), array([ 2., 10.]))
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        ranges: Any = (-1.0, 1.0),
        neighbouring: ReplaceOne = "replace_one",
        accountant: BudgetAccountant | None = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.ranges = ranges
        self.neighbouring = neighbouring
        self.accountant = accountant
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, user_ids: Any = None) -> Self:
        """Release the means and variances of the features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : None
            Ignored.
        user_ids : array-like of shape (n_samples,), str or None, default=None
            Whose record each is: integers or strings, or the name of a column of a data frame X,
            which is then left out. Each person counts once, and the guarantee is for a person with
            all its records.

        Returns
        -------
        self : DPStandardScaler

        Raises
        ------
        ValueError
            If a parameter is invalid, if the ranges do not fit the columns of X, or if X holds
            NaN or infinity.
        BudgetExceededError
            If the fit would exceed the budget of an accountant; nothing has then been computed.
        """
        self._check_shared()
        if self.neighbouring != "replace_one":
            raise ValueError("DPStandardScaler is proven for neighbouring='replace_one' only.")
        check_ranges(self.ranges)
        column = user_ids if isinstance(user_ids, str) else None
        X, user_ids = take_user_ids(X, user_ids)
        with staged(self) as model:
            model._id_column = column
            model._fit(X, user_ids)
        return self

    def _fit(self, X: Any, user_ids: Any) -> None:
        relation = Neighbouring(self.neighbouring)
        with unit_columns(self, X, user_ids, type(self).__name__) as (columns, shape):
            plan = ColumnMomentsPlan(
                n_records=shape[0],
                n_features=shape[1],
                budget=self._budget,
                neighbouring=relation.of_persons if are_of_persons(columns) else relation,
            )
            means, squares = np.split(self._pay_and_run(plan, columns).point, 2)
        means = np.clip(means, -1.0, 1.0)
        least = min(1.0, plan.noise_deviations[1])
        variances = np.clip(squares - means**2, least, 1.0)
        with without_warnings():  # ranges may be beyond 1e150
            middle, half = middle_and_half(*self.ranges_.T)
            self.mean_ = middle + half * means
            self.scale_ = half * np.sqrt(variances)
            self.var_ = self.scale_**2
        self._set_report(
            plan.releases,
            self._delta_alarms(plan.n_records),
            method="moments",
            plan={**plan.to_dict(), "least_scale": math.sqrt(least)},
        )

    @over_chunks
    def transform(self, X: Any) -> np.ndarray:
        """Clip each feature to its range, subtract its mean, divide by its standard deviation.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        X = validate_records(self, self._features_of(X), reset=False)
        scaled = (np.clip(X, *self.ranges_.T) - self.mean_) / self.scale_
        return np.asarray(scaled).astype(X.dtype, copy=False)

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Undo the scaling, without clipping.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        X = validated_inverse(self, X)
        return np.asarray(X * self.scale_ + self.mean_).astype(X.dtype, copy=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.non_deterministic = True
        return tags
