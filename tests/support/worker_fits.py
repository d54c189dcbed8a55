"""Fits for worker processes, which import this module and not that of a test."""

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from skdp import BoundedScaler, DPLogisticRegression

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (200, 3))
Y = (X[:, 0] > 0).astype(int)


def pipeline(**parameters):
    return make_pipeline(
        BoundedScaler(),
        DPLogisticRegression(**{"epsilon": 0.5, "data_norm": 2.0, "classes": [0, 1], **parameters}),
    )


def build_and_fit(seed):
    return pipeline(epsilon=0.1 + seed).fit(X, Y)


def clone_and_fit(model):
    return clone(model).fit(X, Y)


def failing(problem, accuracy):
    raise RuntimeError("no solution")
