"""Estimators for the worst group, and data whose groups disagree."""

import numpy as np
import pytest

from skdp.methods import PhasedSaddle
from skdp.robust import DPMaxGroupLossClassifier, DPMaxGroupLossRegressor

NAMES = ["most", "few"]


def saddle(mode, groups, kind=PhasedSaddle, **own):
    """Parameters of a saddle method in a mode; the method "gradient" has tests of its own."""
    method = kind(**{"max_group_weight": 10.0, **own})
    equal = {name: 1.0 / len(groups) for name in np.asarray(groups).tolist()}
    shares = {"declared": equal, "public": "public"}.get(mode, "private")
    return {"method": method, "group_proportions": shares}


def classifier(*args, mode="declared", own=(), **kwargs):
    """A classifier of the saddle method with parameters `own`."""
    given = {"classes": [0, 1], "group_names": NAMES, "random_state": 0, **kwargs}
    names = given["classes"] if given["group_names"] is None else given["group_names"]
    return DPMaxGroupLossClassifier(*args, **{**saddle(mode, names, **dict(own)), **given})


def regressor(*args, mode="declared", own=(), **kwargs):
    """A regressor of the saddle method with parameters `own`."""
    given = {"group_names": NAMES, "target_range": (-1, 2), "random_state": 0, **kwargs}
    names = [0] if given["group_names"] is None else given["group_names"]
    return DPMaxGroupLossRegressor(*args, **{**saddle(mode, names, **dict(own)), **given})


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
