"""Inside of scikit-learn's meta-estimators, which encode labels and clone."""

import numpy as np
import pytest
from every_estimator import declared, records
from sklearn.base import clone
from sklearn.model_selection import cross_validate

from skdp.linear_model import DPLogisticRegression, DPRidge
from skdp.methods import OutputPerturbation


@pytest.mark.parametrize(
    "labels", [[0, 1], [3, 7], [0.0, 1.0], [-1.5, 2.5], [np.int64(4), np.int64(5)], [False, True]]
)
def test_declared_labels_of_dtype_object_are_numbers_and_targets_are_refused(labels):
    X, y = records(DPLogisticRegression)
    targets, as_objects = np.array(labels)[y], np.array(labels, dtype=object)
    one, other = (
        declared(DPLogisticRegression, classes=classes).fit(X, targets)
        for classes in (labels, as_objects)
    )
    assert np.array_equal(one.coef_, other.coef_)
    assert np.array_equal(one.predict(X), other.predict(X))
    with pytest.raises(ValueError, match="Unknown label type: unknown"):
        declared(DPLogisticRegression, classes=labels).fit(X, as_objects[y])


@pytest.mark.parametrize("state", [0, np.random.RandomState(0), np.random.default_rng(0)])
def test_clones_share_the_noise_of_a_seed_and_the_report_says_so(state):
    """The noise of two folds cancels in their difference: no total covers such fits."""
    X, y = records(DPRidge, n=400)
    model = declared(DPRidge, random_state=state, method=OutputPerturbation(alpha=1.0))
    folds = cross_validate(model, X, y, cv=2, return_estimator=True)["estimator"]
    exact = [clone(model).set_params(epsilon=1e9, random_state=1) for _ in folds]
    exact = [
        m.fit(X[part], y[part])
        for m, part in zip(exact, (slice(200, 400), slice(200)), strict=True)
    ]
    noise = [fold.coef_ - m.coef_ for fold, m in zip(folds, exact, strict=True)]
    assert np.abs(noise[0]).max() > 1e-3
    np.testing.assert_allclose(noise[0], noise[1], atol=1e-6)
    assert any(
        "clones, as in cross-validation, share it" in caveat for caveat in folds[0].privacy_.caveats
    )
    fresh = cross_validate(model.set_params(random_state=None), X, y, cv=2, return_estimator=True)[
        "estimator"
    ]
    noise = [fold.coef_ - m.coef_ for fold, m in zip(fresh, exact, strict=True)]
    assert np.abs(noise[0] - noise[1]).max() > 1e-6
