"""Nothing that a search for persons leaves behind tells how many records they have.

Of two tables with equally many persons, whose records and numbers of records are others, all is
equal at one history: draws, messages, attributes, plans, reports. Single fits: test_fits.py.
"""

import warnings

import numpy as np
import pytest
from laboratory import Laboratory, contents

from skdp import DPLogisticRegression, DPRidge
from skdp.model_selection import DPSearchCV, dp_cross_validate

N = 150
LINEAR = DPLogisticRegression(data_norm=1.0, classes=[0, 1], random_state=0)
SEARCH = DPSearchCV(
    DPRidge(data_norm=1.0, target_range=(0, 1), random_state=0),
    {"fit_intercept": [True, False]},
    n_draws=2,
    random_state=0,
)
FITS = {
    "cross-validation": lambda X, y, ids: dp_cross_validate(
        LINEAR, X, y, cv=3, user_ids=ids, scoring="f1", random_state=0
    ),
    "search": lambda X, y, ids: SEARCH.fit(X, y, user_ids=ids),
}


def table(most):
    """Rows, labels and ids of N persons with up to so many records."""
    rng = np.random.default_rng(most)
    ids = rng.permutation(np.repeat(np.arange(N), rng.integers(1, most + 1, N)))
    X = rng.uniform(-1, 1, (len(ids), 2))
    return X, (X[:, 0] > rng.uniform(-0.5, 0.5)).astype(int), ids


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
