"""The methods that split the budget between a choice and a fit."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from skdp.methods import Bilevel
from skdp.methods.tuning import INNER
from skdp.model_selection import DPLogisticRegressionCV, DPRidgeCV
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
