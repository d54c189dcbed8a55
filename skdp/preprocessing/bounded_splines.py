"""B-splines of features over declared ranges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.preprocessing import SplineTransformer
from sklearn.utils.validation import check_is_fitted

from skdp._checks import check_bool, check_count
from skdp._estimator import staged
from skdp._records import validate_records
from skdp._types import Self
from skdp.data.collections import first_rows, over_chunks
from skdp.preprocessing.ranges import check_ranges, ranges_per_feature, to_unit_interval

#: Largest sum of squares of the B-splines at one point, on equidistant knots, by degree; the last
#: also covers all higher degrees. Proof in the notes of the class.
_LARGEST_SQUARES = (1.0, 1.0, 19 / 32, 1 / 2)


class BoundedSplineTransformer(TransformerMixin, BaseEstimator):
    """Expand each feature into B-splines over its public range, in rows of norm at most 1.

    A linear model of these features is a sum of smooth curves, one per feature. Knots are
    equidistant on the declared range. It learns nothing from the records, unlike
    :class:`~sklearn.preprocessing.SplineTransformer`, which computes the splines: it costs no
    privacy budget, and may be used before any private estimator.

    Parameters
    ----------
    ranges : pair of float, array-like of shape (n_features, 2) or dict, default=(-1.0, 1.0)
        Public range of each feature, as of :class:`BoundedScaler`. Values outside are clipped to
        it, record by record.
    n_knots : int, default=5
        Number of knots on each range, its two ends included, >= 2. More knots follow a
        curve more closely; they need more records, or a larger budget.
    degree : int, default=3
        Degree of the splines, >= 0. 0 gives indicators of `n_knots` - 1 intervals.
    sparse_output : bool, default=False
        Return CSR: a row has at most `degree` + 1 non-zero entries per feature.

    Attributes
    ----------
    ranges_ : ndarray of shape (n_features, 2)
        The declared range of each feature.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only where X has column names that are all strings.

    See Also
    --------
    BoundedScaler : Maps each range to [-1, 1], for linear models.

    Notes
    -----
    The splines are divided by ``sqrt(n_features * s)``. Here `n_features` is the number of columns
    of the *input*, and `s` is the largest value of the sum of squares of one feature's splines:
    1 for degree 0 and 1, 19/32 for degree 2, and 1/2 for degree 3 and more. Then every row has
    norm at most 1, up to rounding, and for degrees up to 3 some row reaches it.

    *Proof.* The splines of one feature are not negative and sum to 1, so that their squares sum to
    at most 1; degree 1 reaches this at the knots. Let t in [0, 1] be the position between two
    knots, and u = t (1 - t), which is in [0, 1/4]. The squares of degree 2 sum to 1/2 + 3 u^2 / 2,
    at most 19/32; those of degree 3 sum to 1/2 - u^2 / 2 - 5 u^3 / 9, at most 1/2. On an unbounded
    grid of knots, the splines of degree p + 1 at a point are means of those of degree p over an
    interval. The sum of squares is convex, so its largest value does not grow with the degree.

    Beside one-hot columns the splines need a weight (docs/guide/special_models.md).

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.preprocessing import BoundedSplineTransformer
    >>> splines = BoundedSplineTransformer(ranges=(0, 100), n_knots=3, degree=1)
    >>> splines.fit_transform([[0.0], [25.0], [50.0], [120.0]])
    array([[1. , 0. , 0. ],
           [0.5, 0.5, 0. ],
           [0. , 1. , 0. ],
           [0. , 0. , 1. ]])
    """

    def __init__(
        self,
        ranges: Any = (-1.0, 1.0),
        n_knots: int = 5,
        degree: int = 3,
        *,
        sparse_output: bool = False,
    ) -> None:
        self.ranges = ranges
        self.n_knots = n_knots
        self.degree = degree
        self.sparse_output = sparse_output

    def fit(self, X: Any, y: Any = None) -> Self:
        """Match the declared ranges with the columns of X; the values are not used.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : None
            Ignored.

        Returns
        -------
        self : BoundedSplineTransformer

        Raises
        ------
        ValueError
            If a parameter is invalid, if the ranges do not fit the columns of X, or if X is sparse
            or holds NaN or infinity.
        """
        check_ranges(self.ranges)
        check_count("n_knots", self.n_knots, 2)
        check_count("degree", self.degree, 0)
        check_bool("sparse_output", self.sparse_output)
        X = first_rows(X)
        with staged(self) as model:
            validate_records(model, X)
            model.ranges_ = ranges_per_feature(model)
        return self

    @over_chunks
    def transform(self, X: Any) -> Any:
        """Clip each feature to its range and evaluate its splines.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray or CSR of shape (n_samples, n_features * (n_knots + degree - 1))
            Rows of Euclidean norm at most 1, in the precision of X.
        """
        check_is_fitted(self)
        X = validate_records(self, X, reset=False)
        squares = _LARGEST_SQUARES[min(self.degree, len(_LARGEST_SQUARES) - 1)]
        divisor = math.sqrt(self.n_features_in_ * squares)
        out = self._splines().transform(to_unit_interval(X, self.ranges_))
        if sparse.issparse(out):
            out = out.tocsr()
        out /= divisor
        return out.astype(X.dtype, copy=False)

    def _splines(self) -> SplineTransformer:
        """Splines on [-1, 1] for each feature, without a record."""
        n_features = self.n_features_in_
        knots = np.linspace(-1.0, 1.0, self.n_knots)
        splines = SplineTransformer(
            degree=self.degree,
            knots=np.tile(knots[:, None], n_features),
            extrapolation="constant",
            sparse_output=self.sparse_output,
        ).set_output(transform="default")
        return splines.fit(np.zeros((2, n_features)))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Name the splines of feature `name` ``name_sp_0``, ``name_sp_1``, ...

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the columns of X; None: those seen in fit, or x0, x1, ...

        Returns
        -------
        ndarray of str
        """
        names = OneToOneFeatureMixin.get_feature_names_out(self, input_features)
        n_splines = self.n_knots + self.degree - 1
        out = [f"{name}_sp_{j}" for name in names for j in range(n_splines)]
        return np.array(out, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
