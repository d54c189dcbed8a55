"""Estimators for the worst group, and data whose groups disagree."""

import numpy as np
import pytest

from skdp.robust import DPMaxGroupLossClassifier, DPMaxGroupLossRegressor

MODES = ("proportions", "public", "histogram", "floored")
NAMES = ["most", "few"]

every_mode = pytest.mark.parametrize("mode", MODES)


#: Of the saddle methods; the method "gradient" has tests of its own.
SADDLE = {
    "method": "phased",
    "preparation": None,
    "group_mode": "proportions",
    "max_group_weight": 10.0,
    "histogram_share": 0.1,
    "intercept_scaling": 0.1,
}


def classifier(*args, **kwargs):
    defaults = {"classes": [0, 1], "group_names": NAMES, "random_state": 0, **SADDLE}
    return DPMaxGroupLossClassifier(*args, **{**defaults, **kwargs})


def regressor(*args, **kwargs):
    defaults = {"group_names": NAMES, "target_range": (-1, 2), "random_state": 0, **SADDLE}
    return DPMaxGroupLossRegressor(*args, **{**defaults, **kwargs})


MODELS = {"classifier": classifier, "regressor": regressor}
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


def conflicting(n, seed=0, d=6, share=0.15):
    """Two groups who cannot both be served: each has a direction of its own that decides.

    Rows are uniform on the unit sphere. The label is the sign of the first feature for most
    records, and of the second one for a `share` of them; 5 % of labels are turned around. The
    bisector of the two directions is right for 72.5 % of either group.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    groups = np.where(rng.random(n) < share, "few", "most")
    y = np.where(groups == "few", X[:, 1], X[:, 0]) > 0
    return X, (y ^ (rng.random(n) < 0.05)).astype(int), groups


X, Y, GROUPS = conflicting(120, 5, d=3, share=0.3)


FEW = GROUPS == "few"
