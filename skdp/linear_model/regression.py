"""Base of the linear regressors: targets and predictions."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from skdp._checks import LARGEST_UNIT, check_pair, check_real
from skdp._sources import ChunkCheck, ClippedTargets
from skdp.data.collections import over_chunks
from skdp.linear_model.base import DPLinearModel
from skdp.problems import EmpiricalRisk, HalfSquaredLoss, Loss


class DPLinearRegression(RegressorMixin, DPLinearModel):
    """Base of private linear regressors; not for direct use."""

    target_range: tuple[float, float] | None

    def _loss(self, target_bound: float) -> Loss:
        """Return the loss for targets of at most this absolute value, in units of y."""
        return HalfSquaredLoss(target_bound)

    def _fit(self, X: Any, y: Any, groups: Any = None, given: Any = (None, None)) -> None:
        self._check_parameters()
        (low, high), middle = self._range, self._middle
        for consequence in self._undeclared():
            warnings.warn(consequence, UserWarning, stacklevel=3)
        encoder = ClippedTargets(low, high, middle)
        with self._surveyed(X, ChunkCheck(y_numeric=True)) as surveyor:
            records: Any
            if surveyor is not None:
                records = self._chunked(surveyor, encoder)
            else:
                X, y, persons, weights = self._validated(X, y, given, y_numeric=True)
                records = self._records(X, encoder(y), groups)
                records = records.of_units(weights, persons, self.max_records_per_user)
            weights = self._private_weights(records, self._public_risk(None))[0]
        d = records.n_features
        self.target_range_ = low, high
        self.coef_ = np.array(weights[:d])
        self.intercept_ = (
            float(middle + weights[d] * self._intercept_value) if self.fit_intercept else 0.0
        )

    def _public_risk(self, n_classes: int | None) -> EmpiricalRisk:
        if n_classes is not None:
            raise ValueError(f"n_classes == {n_classes}: {type(self).__name__} has no classes.")
        (low, high), middle = self._range, self._middle
        return self._risk(self._loss(max(high - middle, middle - low)))

    @property
    def _middle(self) -> float:
        """Center of the targets; 0 without an intercept: the model then goes through 0."""
        low, high = self._range
        return 0.5 * low + 0.5 * high if self.fit_intercept else 0.0

    def _undeclared(self) -> Iterator[str]:
        yield from super()._undeclared()
        if self.target_range is None:
            yield "target_range was not declared: targets are clipped to (-1, 1)."

    @property
    def _range(self) -> tuple[float, float]:
        """The public range of y."""
        if self.target_range is None:
            return -1.0, 1.0
        low, high = check_pair("target_range", self.target_range, -LARGEST_UNIT, LARGEST_UNIT)
        check_real("the width of target_range", high - low, 1.0 / LARGEST_UNIT)
        return low, high

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # the tag asks for R2 > 0.5 from 200 records, which a private fit cannot reach
        tags.regressor_tags.poor_score = True
        return tags

    def _of_scores(self, coef: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, Any]:
        return coef[0], float(intercept[0])

    @over_chunks
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict targets, in the units of y.

        They are clipped to the `target_range` of the fit, as targets were. This is post-processing
        and cannot increase the error for a target within the range.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows longer than `data_norm` are scaled down to it, as in `fit`.
        return_std : bool, default=False
            Whether to return how far the noise of the fit moves each prediction, too, but for the
            clipping. It costs no budget, and says nothing of the targets' own scatter.

        Returns
        -------
        predictions : ndarray of shape (n_samples,)
        std : ndarray of shape (n_samples,)
            Standard deviations, with `return_std`.

        Raises
        ------
        ValueError
            With `return_std`, for methods whose releases do not tell it.
        """
        predictions = np.clip(self._scores(X)[:, 0], *self.target_range_)
        if not return_std:
            return predictions
        return predictions, self._score_noise(X)[:, 0]
