"""Every estimator with a table of methods, its bounds declared, for tests of what all share."""

import numpy as np
from fit_case import METHOD_TABLES
from sklearn.base import is_classifier, is_regressor

from skdp.robust import DPMaxGroupLossMLPClassifier

CLASSIFIERS = tuple(kind for kind in METHOD_TABLES if is_classifier(kind()))
REGRESSORS = tuple(kind for kind in METHOD_TABLES if is_regressor(kind()))
ESTIMATORS = CLASSIFIERS + REGRESSORS


def declared(kind, **parameters):
    """An estimator whose bounds are all declared, seeded."""
    public = {"classes": [0, 1]} if kind in CLASSIFIERS else {"target_range": (-1.0, 1.0)}
    if kind is DPMaxGroupLossMLPClassifier:
        public |= {"hidden_units": 4, "n_steps": 20}
    if "weight_bound" in kind().get_params():
        public["weight_bound"] = 1.0  # bagging hands its samples on as weights
    return kind(**{"data_norm": 1.0, "random_state": 0, **public, **parameters})


def records(kind, n=200, d=3, seed=0, norm=1.0):
    """Rows of at most the given norm, and targets that depend on the first feature."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X *= norm / np.linalg.norm(X, axis=1).max()
    y = X[:, 0] / norm
    return X, (y > 0).astype(int) if kind in CLASSIFIERS else y
