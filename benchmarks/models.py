"""The models that several cases compare: our defaults, and scikit-learn's without privacy."""

from __future__ import annotations

import warnings
from typing import Any

from sklearn.linear_model import LogisticRegression, Ridge

from benchmarks.data import Dataset
from skdp.linear_model import DPLogisticRegression, DPRidge

#: The noise is the subject of the tables.
warnings.filterwarnings("ignore", message="The noise ", category=UserWarning)


def ours(
    dataset: Dataset, epsilon: float, delta: float, relation: str, n: int, seed: int
) -> DPLogisticRegression | DPRidge:
    """Return the default estimator for rows of norm at most 1."""
    shared: dict[str, Any] = {
        "data_norm": 1.0,
        "neighbouring": relation,
        "n_public": n if relation == "add_remove" else None,
        "random_state": seed,
    }
    if dataset.is_classification:
        return DPLogisticRegression(epsilon, delta, classes=dataset.classes, **shared)
    return DPRidge(epsilon, delta, target_range=dataset.target_range, **shared)


def public(dataset: Dataset, penalty: float, n: int) -> LogisticRegression | Ridge:
    """Return scikit-learn's model for a penalty on the mean loss."""
    if dataset.is_classification:
        return LogisticRegression(C=1.0 / (n * penalty), max_iter=10_000)
    return Ridge(alpha=n * penalty)


def predictions(model: Any, X: Any) -> Any:
    """Return probabilities, or numbers."""
    return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)
