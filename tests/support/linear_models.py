"""Linear models of every loss, and data for them."""

import inspect
import math

import numpy as np
import pytest

from skdp import DPLinearClassifier, DPLinearRegressor
from skdp.methods import OutputPerturbation

CLASSIFIER_LOSSES = ("log_loss", "hinge", "smoothed_hinge", "squared_hinge")
REGRESSOR_LOSSES = ("squared_error", "huber", "absolute_error", "quantile")
EXACT = {"epsilon": 1e8, "random_state": 0}  # next to no noise


def classification(n=300, d=3, k=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d)) / math.sqrt(d)
    scores = X @ rng.standard_normal((d, k)) * 6 + rng.gumbel(size=(n, k))
    return X, scores.argmax(axis=1)


def regression(n=300, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d)) / math.sqrt(d)
    y = 1.2 * X[:, 0] - 0.5 * X[:, -1] + 0.15 * rng.standard_normal(n)
    y[::20] += rng.choice([-1.0, 1.0], len(y[::20]))  # outliers, for Huber
    return X, 5.0 + 3.0 * np.clip(y, -1, 1)


RANGE = (2.0, 8.0)


def estimator(loss, n_classes=2, method=OutputPerturbation, **kwargs):
    """Return the estimator of a loss; if `method` is a class, keywords are first of its object."""
    if isinstance(method, type):
        method, kwargs = made(method, kwargs)
    if loss in CLASSIFIER_LOSSES:
        return DPLinearClassifier(loss=loss, classes=range(n_classes), method=method, **kwargs)
    return DPLinearRegressor(loss=loss, target_range=RANGE, method=method, **kwargs)


def made(method, given):
    """Return an object of a class of methods with its own part of parameters, and the rest."""
    own = given.keys() & inspect.signature(method).parameters
    rest = {name: value for name, value in given.items() if name not in own}
    return method(**{name: given[name] for name in own}), rest


def data(loss, n=300, d=3, k=2, seed=0):
    if loss in CLASSIFIER_LOSSES:
        return classification(n, d, k, seed)
    return regression(n, d, seed)


every_loss = pytest.mark.parametrize("loss", CLASSIFIER_LOSSES + REGRESSOR_LOSSES)
