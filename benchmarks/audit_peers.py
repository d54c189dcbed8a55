"""Audit diffprivlib's logistic regression, whose noise is too small for long rows.

The proof of objective perturbation needs ``c R^2`` for rows of norm R and a curvature c; version
0.6.6 has ``c R``. With R = 100 the coefficient lies near 0 far more often under one of two
neighbouring data sets than under the other. Needs an environment with diffprivlib 0.6.6 and
scikit-learn 1.7, and this repository on its PYTHONPATH:

    python benchmarks/audit_peers.py --runs 8000

At a claim of epsilon = 1 it found at least 2.14 (confidence 0.99, 8000 fits on each side).
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.base import BaseEstimator

from skdp.audit import audit_estimator

NORM = 100.0


class OneFeature(BaseEstimator):
    """diffprivlib's LogisticRegression without an intercept, with one strong penalty."""

    def __init__(self, epsilon: float = 1.0, random_state: int | None = None) -> None:
        self.epsilon, self.random_state = epsilon, random_state

    def fit(self, X: np.ndarray, y: np.ndarray) -> OneFeature:
        from diffprivlib.models import LogisticRegression

        model = LogisticRegression(
            epsilon=self.epsilon, data_norm=NORM, fit_intercept=False,
            random_state=self.random_state,
        )  # fmt: skip
        self.coef_ = model.fit(X, y).coef_
        return self


def main() -> None:
    """Print what the audit finds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=8_000)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    y = np.array([0, 1])
    long, zero = np.array([[0.0], [NORM]]), np.zeros((2, 1))
    result = audit_estimator(
        OneFeature(), (long, y), (zero, y), options.runs, 0.99, epsilon=1.0, delta=0.0,
        score=lambda outputs: -np.abs(outputs[:, 0]), n_jobs=options.jobs,
    )  # fmt: skip
    print(result)
    print("the claim is refuted" if result.refutes else "nothing was shown")


if __name__ == "__main__":
    main()
