"""Nothing that a fit for persons leaves behind tells how many records they have.

Of two tables with equally many persons, whose records and numbers of records are others, all is
equal at one history: draws, messages, attributes, plans, reports. For the linear models, all
methods, and models of worst groups: tests/linear_model/test_persons.py.
"""

import warnings

import numpy as np
import pandas as pd
import pytest
from laboratory import Laboratory, contents

from skdp import (
    DPLogisticRegression,
    DPRidge,
    DPStandardScaler,
    DPSyntheticData,
    DPTabularClassifier,
    DPTabularRegressor,
)
from skdp.model_selection import DPSearchCV, dp_cross_validate

N = 150
COLUMNS = {"age": (18, 90), "job": ["clerk", "cook"]}
RANGES = {"ranges": [(18, 90), (0, 1)]}


def table(most):
    """A frame, rows, labels and ids of N persons with up to so many records."""
    rng = np.random.default_rng(most)
    ids = rng.permutation(np.repeat(np.arange(N), rng.integers(1, most + 1, N)))
    frame = pd.DataFrame(
        {"age": rng.uniform(18, 90, len(ids)), "job": rng.choice(COLUMNS["job"], len(ids))}
    )
    X = np.column_stack([frame["age"], frame["job"] == "cook"])
    return frame, X, (X[:, 0] > rng.integers(30, 60)).astype(int), ids


def codes(frame):
    return frame.assign(age=frame["age"] > 50)


LINEAR = DPLogisticRegression(data_norm=100.0, classes=[0, 1], random_state=0)
SEARCH = DPSearchCV(
    DPRidge(data_norm=100.0, target_range=(0, 1), random_state=0),
    {"fit_intercept": [True, False]},
    n_draws=2,
    random_state=0,
)
FITS = {
    "scaler": lambda frame, X, y, ids: DPStandardScaler(random_state=0, **RANGES).fit(
        X, user_ids=ids
    ),
    "classifier of tables": lambda frame, X, y, ids: DPTabularClassifier(
        columns=COLUMNS, classes=[0, 1], random_state=0
    ).fit(frame, y, user_ids=ids),
    "regressor of tables": lambda frame, X, y, ids: DPTabularRegressor(
        columns=COLUMNS, target_range=(0, 1), random_state=0
    ).fit(frame, y, user_ids=ids),
    "synthetic": lambda frame, X, y, ids: DPSyntheticData(
        categories=[[False, True], COLUMNS["job"]], random_state=0
    ).fit(codes(frame), user_ids=ids),
    "cross-validation": lambda frame, X, y, ids: dp_cross_validate(
        LINEAR, X, y, cv=3, user_ids=ids, scoring="f1", random_state=0
    ),
    "search": lambda frame, X, y, ids: SEARCH.fit(X, y, user_ids=ids),
}


@pytest.mark.parametrize("name", FITS)
def test_equal_but_for_what_was_released(name):
    left, releases = [], None
    for most in (1, 30):
        with Laboratory(releases=releases) as laboratory, warnings.catch_warnings(record=True) as w:
            warnings.simplefilter("always")
            fitted = FITS[name](*table(most))
        releases = laboratory.releases
        draws = [(each.kind, each.dimension, each.mechanism) for each in laboratory.draws]
        left.append((contents(fitted), draws, [str(each.message) for each in w]))
    assert left[0] == left[1] and left[0][1]
