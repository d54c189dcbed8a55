"""The methods that split the budget between a choice and a fit."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

from skdp.linear_model import DPLinearRegressor, DPRidge
from skdp.model_selection import DPLogisticRegressionCV, DPRidgeCV
from skdp.preprocessing import BoundedScaler
from skdp.privacy import PrivacyLeakWarning
from skdp.robust import DPAdversarialRegressor, DPMaxGroupLossRegressor
from skdp.solvers import SklearnSolver


@pytest.mark.parametrize("estimator", [DPRidgeCV, DPLogisticRegressionCV])
@pytest.mark.parametrize("own", [True, False])
def test_a_solver_that_holds_a_fitted_model_is_reported(estimator, own):
    X, y = np.eye(4)[[0, 1, 2, 3] * 5], np.array([0, 1, 0, 1] * 5)
    inner = (Ridge() if estimator is DPRidgeCV else LogisticRegression()).fit(X, y)
    parameters = {"solver": SklearnSolver(inner)}
    if not own:
        parameters["method"] = "public"
    if estimator is DPLogisticRegressionCV:
        parameters["classes"] = [0, 1]
    with pytest.warns(PrivacyLeakWarning, match="holds a fitted estimator") as caught:
        model = estimator(**parameters).fit(X, y)
    assert caught[0].filename == __file__
    assert any("clear the parameter `solver`" in caveat for caveat in model.privacy_.caveats)


@pytest.mark.parametrize(
    "estimator",
    [
        DPRidge(data_norm=1.0),
        DPLinearRegressor(loss="huber", data_norm=1.0),
        DPRidgeCV(data_norm=1.0),
        DPMaxGroupLossRegressor(data_norm=1.0),
        DPAdversarialRegressor(0.1, data_norm=1.0),
    ],
)
def test_a_range_of_targets_that_was_not_declared_is_told(estimator):
    X, y = np.eye(4)[[0, 1, 2, 3] * 25], np.zeros(100)
    with pytest.warns(UserWarning, match="clipped to") as caught:
        estimator.fit(X, y)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="target_range")
        estimator.set_params(target_range=(-1, 1)).fit(X, y)


@pytest.mark.parametrize("estimator", [DPRidge, DPRidgeCV, DPMaxGroupLossRegressor])
def test_a_large_delta_is_reported(estimator):
    X, y = np.eye(4)[[0, 1, 2, 3] * 25], np.zeros(100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for delta, said in ((0.02, True), (0.009, False)):
            model = estimator(1.0, delta)
            given = {"groups": [0] * 100} if estimator is DPMaxGroupLossRegressor else {}
            caveats = model.fit(X, y, **given).privacy_.caveats
            assert any("is not below 1 / 100" in caveat for caveat in caveats) == said


@pytest.mark.parametrize("estimator", [DPRidgeCV, DPLogisticRegressionCV])
def test_inside_a_pipeline_with_the_packages_own_scaler(estimator):
    """Fit, predict, parameters by name, and the same model as by hand; no grid search."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4))
    t = X[:, 0] + 0.1 * rng.normal(size=3000)
    kwargs = {"random_state": 0}
    y = np.clip(t / 4, -1, 1)
    if estimator is DPLogisticRegressionCV:
        y, kwargs["classes"] = (t > 0).astype(int), [0, 1]
    scaler = BoundedScaler([(-4.0, 4.0)] * 4)
    pipeline = make_pipeline(scaler, estimator(**kwargs)).set_params(
        **{f"{estimator.__name__.lower()}__epsilon": 3.0}
    )
    pipeline.fit(X, y)
    by_hand = estimator(3.0, **kwargs).fit(scaler.fit_transform(X), y)
    np.testing.assert_array_equal(pipeline[-1].coef_, by_hand.coef_)
    assert pipeline.score(X, y) > 0.6
    assert pipeline[-1].alpha_ == by_hand.alpha_
