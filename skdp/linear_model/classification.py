"""Base of the linear classifiers."""

from __future__ import annotations

from typing import Any

import numpy as np

from skdp._model import PrivateClassifier
from skdp.linear_model.base import DPLinearModel
from skdp.problems import Loss


class DPLinearClassification(PrivateClassifier, DPLinearModel):
    """Base of private linear classifiers; not for direct use."""

    #: Of the estimators that have a choice.
    loss: str

    @property
    def _only_binary(self) -> str | None:
        if self.method in ("exponential", "statistics", "mirror_descent"):
            return f"method={self.method!r} supports two only"
        return None

    def _set_coefficients(self, weights: Any, loss: Loss, d: int) -> None:
        weights = loss.class_weights(weights)
        self.coef_ = np.ascontiguousarray(weights[:, :d])
        self.intercept_ = (
            weights[:, d] * self._intercept_value if self.fit_intercept else np.zeros(len(weights))
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # an accuracy of 0.83 from 300 records: "output", which a tilt needs, has more noise
        tags.classifier_tags.poor_score = self.tilt != 0
        return tags
