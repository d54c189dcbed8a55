"""The default of the self-tuning models: which method is taken, and how good it is."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression, Ridge

from skdp.linear_model import DPLogisticRegression, DPRidge
from skdp.methods import Bilevel
from skdp.methods.tuning import INNER
from skdp.model_selection import DPLogisticRegressionCV, DPRidgeCV
from skdp.privacy import BudgetAccountant, PrivacyLeakWarning
from skdp.solvers import LBFGS, SklearnSolver

MODELS = {"ridge": (DPRidgeCV, DPRidge), "logistic": (DPLogisticRegressionCV, DPLogisticRegression)}
every_model = pytest.mark.parametrize("name", MODELS)


def table(name, n=4000, d=5, seed=0):
    """Off-centre rows of norm at most 1 and targets of a linear model."""
    rng = np.random.default_rng([seed, n, d])
    X = 0.6 + rng.standard_normal((n, d)) * 0.8 ** np.arange(d)
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 3.0)
    margins = 12.0 * (X[:, 0] - X[:, 1]) + rng.logistic(size=n)
    return X, np.clip(0.1 * margins, -1, 1) if name == "ridge" else (margins > 0.0).astype(int)


def make(name, kind=0, classes=(0, 1), **parameters):
    declared = {"target_range": (-1, 1)} if name == "ridge" else {"classes": list(classes)}
    if name == "ridge":
        parameters.pop("classes", None)
    return MODELS[name][kind](**{"data_norm": 1.0, "random_state": 0, **declared, **parameters})


@every_model
@pytest.mark.parametrize(
    ("parameters", "method"),
    [
        ({}, "gradient"),
        ({"neighbouring": "add_remove", "n_public": 3000}, "gradient"),
        ({"alpha_bounds": (1e-3, 1.0)}, "gradient"),
        ({"penalty_groups": np.array([0, 0, 1, 1, 1])}, "bilevel"),
        ({"epsilon": 0.03, "penalty_groups": list("aabbb")}, "bilevel"),
        ({"penalty_groups": [0] * 5}, "bilevel"),
        ({"solver": "lbfgs"}, "output"),
    ],
)
def test_the_method_follows_from_public_numbers(name, parameters, method):
    X, y = table(name)
    model = make(name, **parameters).fit(X, y)
    assert model.privacy_.method == method
    assert np.isfinite(model.coef_).all()
    labels = set(parameters.get("penalty_groups", ()))
    assert np.shape(model.alpha_) == ((len(labels),) if labels else ())
    np.testing.assert_array_equal(model.alpha_path_[-1], model.alpha_)
    # five columns are too few to gain anything: the plain fit
    assert ("not tuned: " in " ".join(model.privacy_.remarks)) == (method == "bilevel")


@every_model
@pytest.mark.parametrize(
    ("epsilon", "given"),
    [(0.1, {}), (10.0, {}), (10.0, {"fit_intercept": False}), (0.1, {"solver": "newton"})],
)
def test_pure_privacy_is_the_model_without_a_tuner(name, given, epsilon):
    X, y = table(name)
    model, plain = (make(name, k, epsilon=epsilon, delta=0.0, **given).fit(X, y) for k in (0, 1))
    assert model.privacy_ == plain.privacy_
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    np.testing.assert_array_equal(model.intercept_, plain.intercept_)
    assert model.alpha_path_.tolist() == [model.alpha_] == [plain.alpha_]


@pytest.mark.parametrize("n_classes", [0, 2, 3])
@pytest.mark.parametrize("epsilon", [0.01, 1.0])
def test_without_candidates_the_model_is_that_of_the_core(n_classes, epsilon):
    X, y = table("ridge")
    name = "logistic" if n_classes else "ridge"
    if n_classes:
        y = np.digitize(y, np.linspace(-0.2, 0.2, n_classes - 1))
    given = {"classes": range(n_classes), "epsilon": epsilon}
    model = make(name, **given).fit(X, y)
    plain = make(name, 1, method="gradient", **given).fit(X, y)
    assert model.privacy_.event == plain.privacy_.event
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-12)
    np.testing.assert_allclose(model.intercept_, plain.intercept_, rtol=1e-6, atol=1e-9)
    assert model.alpha_ == pytest.approx(plain.alpha_, rel=1e-12)
    assert model.alpha_path_.tolist() == [model.alpha_]


def test_several_classes_have_groups_but_no_other_tuner():
    X, y = table("ridge")
    y, classes = np.digitize(y, [-0.2, 0.2]), range(3)
    model = make("logistic", classes=classes, penalty_groups=[0, 0, 1, 1, 1]).fit(X, y)
    assert model.privacy_.method == "bilevel" and model.alpha_.shape == (2,)
    assert "not tuned: several classes" in " ".join(model.privacy_.remarks)
    assert model.__sklearn_tags__().classifier_tags.multi_class
    model.set_params(method=Bilevel(as_published=True))
    assert not model.__sklearn_tags__().classifier_tags.multi_class


def test_one_penalty_of_several_classes_is_chosen():
    given = {"alpha_bounds": (1e-6, 1e-2)}
    (X, _), rng, classes = table("ridge"), np.random.default_rng(0), range(4)
    y = (9.0 * X[:, :4] + rng.gumbel(size=(len(X), 4))).argmax(axis=1)
    model, plain = (
        make("logistic", kind, classes=classes, epsilon=3.0, **({} if kind else given)).fit(X, y)
        for kind in (0, 1)
    )
    assert model.privacy_.method == "gradient" and model.coef_.shape == model.coef_noise_.shape
    assert model.alpha_ < 0.1 and model.score(X, y) > plain.score(X, y) - 0.02


@every_model
def test_a_solver_is_used(name):
    """A solver that counts; the result does not depend on which one it is."""
    X, y = table(name)
    calls = []

    class Counting(LBFGS):
        def _solve(self, *arguments, **options):
            calls.append(1)
            return super()._solve(*arguments, **options)

    models = [make(name, solver=solver).fit(X, y) for solver in (Counting(), "newton")]
    assert calls
    np.testing.assert_allclose(models[0].coef_, models[1].coef_, rtol=0.02, atol=0.02)


@every_model
def test_containers_and_units(name):
    X, y = table(name)
    model = make(name).fit(X, y)
    other = make(name).fit(sp.csr_array(X), y)
    np.testing.assert_allclose(other.coef_, model.coef_, rtol=1e-3, atol=1e-3)
    scaled = make(name).set_params(data_norm=8.0).fit(8.0 * X, y)
    np.testing.assert_allclose(8.0 * scaled.coef_, model.coef_, rtol=1e-6)
    assert scaled.alpha_ == pytest.approx(64.0 * model.alpha_, rel=1e-6)


@pytest.mark.mostly("slow", 1)
@every_model
def test_the_penalty_leaves_about_as_much_as_the_noise(name):
    """Of the length along the model without privacy, beside scikit-learn's with `alpha_`."""
    rng, n, d, left = np.random.default_rng(0), 20_000, 20, []
    X = rng.standard_normal((n, d))
    X *= 2.0 / np.linalg.norm(X, axis=1, keepdims=True)
    margins = X @ rng.standard_normal(d) / 2.0
    y = np.clip(0.15 * (margins + rng.standard_normal(n)), -1, 1)
    if name == "logistic":
        y = (1.4 * margins + rng.logistic(size=n) > 0).astype(int)

    def best(alpha):
        if name == "ridge":
            return Ridge(alpha=n * alpha).fit(X, y).coef_
        return LogisticRegression(C=1.0 / (n * alpha)).fit(X, y).coef_[0]

    free = best(1e-9)
    for seed in range(10):
        model = make(name, epsilon=0.03, data_norm=2.0, random_state=seed).fit(X, y)
        both = np.ravel(model.coef_), best(model.alpha_)
        left.append([coef @ free / (free @ free) for coef in both])
    ours, theirs = np.mean(left, axis=0)
    assert theirs < 0.95 and abs(theirs - ours) < 0.1


@every_model
def test_groups_are_labels(name):
    """Labels of any kind, sorted, number the alphas."""
    X, y = table(name, n=400, d=4)
    by_name, by_number, swapped = (
        make(name, epsilon=0.3, penalty_groups=groups).fit(X, y)
        for groups in (["b", "a", "a", "b"], [7, 3, 3, 7], ["a", "b", "b", "a"])
    )
    np.testing.assert_array_equal(by_name.coef_, by_number.coef_)
    assert by_name.alpha_.shape == (2,) and by_name.alpha_path_.shape[1] == 2
    assert by_name.privacy_.plan["n_penalty_groups"] == 2
    np.testing.assert_allclose(swapped.alpha_[::-1], by_name.alpha_, rtol=1e-6)


@every_model
def test_bounds_of_alpha(name):
    X, y = table(name, n=200, d=3)
    for bounds in ((1e-4, 2e-4), (5.0, 6.0)):
        model = make(name, alpha_bounds=bounds).fit(X, y)
        assert bounds[0] <= model.alpha_path_.min() and model.alpha_path_.max() <= bounds[1]
        assert model.privacy_.plan["alpha_bounds"] == list(bounds)
    model = make(name, data_norm=10.0, method=Bilevel(as_published=True)).fit(X, y)
    np.testing.assert_allclose(model.privacy_.plan["alpha_bounds"], [1e-4, 1e3])


@every_model
@pytest.mark.parametrize("kind", ["zero", "equal", "normal"])
def test_large_budgets_and_tiny_bounds(name, kind):
    """Few records, huge epsilon, weak penalties: matrices are singular to the last bit."""
    X = np.random.default_rng(0).normal(size=(16, 4))
    X = {"zero": 0.0 * X, "equal": np.tile(X[0], (16, 1)), "normal": X}[kind]
    y = (X[:, 0] > 0).astype(int)
    for given in ({"alpha_bounds": (1e-90, 1e-80)}, {"delta": 0.0, "epsilon": 1e12}):
        model = make(name, **{"epsilon": 1e6, **given})
        assert np.isfinite(model.fit(X, y).coef_).all()


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
