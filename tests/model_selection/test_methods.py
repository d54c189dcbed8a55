"""The methods that split the budget between a choice and a fit."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

from skdp.methods import Bilevel
from skdp.methods.tuning import INNER
from skdp.model_selection import DPLogisticRegressionCV, DPRidgeCV
from skdp.preprocessing import BoundedScaler
from skdp.privacy import BudgetAccountant, PrivacyLeakWarning
from skdp.solvers import SklearnSolver


@pytest.mark.parametrize("estimator", [DPRidgeCV, DPLogisticRegressionCV])
@pytest.mark.parametrize("own", [True, False])
def test_a_solver_that_holds_a_fitted_model_is_reported(estimator, own):
    X, y = np.eye(4)[[0, 1, 2, 3] * 5], np.array([0, 1, 0, 1] * 5)
    inner = (Ridge() if estimator is DPRidgeCV else LogisticRegression()).fit(X, y)
    solver, parameters = SklearnSolver(inner), {"epsilon": 100.0}
    if own:
        parameters["method"] = Bilevel(as_published=True, solver=solver)
    else:
        parameters["solver"] = solver
    if estimator is DPLogisticRegressionCV:
        parameters["classes"] = [0, 1]
    with pytest.warns(PrivacyLeakWarning, match="holds a fitted estimator") as caught:
        model = estimator(**parameters).fit(X, y)
    assert caught[0].filename == __file__
    assert any("clear the parameter `solver`" in caveat for caveat in model.privacy_.caveats)


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


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("ids", [None, [7]])
def test_a_single_unit_is_refused_before_it_is_charged(inner, ids):
    accountant, published = BudgetAccountant(10.0, 1e-3), Bilevel(as_published=True, inner=inner)
    model = DPLogisticRegressionCV(
        method=published, classes=[0, 1], data_norm=1.0, accountant=accountant
    )
    with pytest.raises(ValueError, match="n_samples=1, must be at least 2"):
        model.fit(np.ones((1, 2)), [0], user_ids=ids)
    assert not accountant.entries
