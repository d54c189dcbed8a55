"""Released statistics as a method: the tuned models' releases, for both neighbouring relations."""

import math

import numpy as np
import pytest
from laboratory import Laboratory
from plain_noise import PlainNoise
from tuning_runs import TUNERS

from skdp import DPLinearClassifier, DPLinearRegressor, DPLogisticRegression, DPRidge
from skdp.algorithms.tuning import TuningObjective
from skdp.algorithms.tuning.moments import plan_private_moments, private_moments
from skdp.algorithms.tuning.newton import NewtonPlan, mean_gradient
from skdp.algorithms.tuning.sufficient_statistics import SufficientStatisticsPlan
from skdp.methods import OutputPerturbation
from skdp.model_selection import DPLogisticRegressionCV, DPRidgeCV
from skdp.privacy import Neighbouring, PrivacyBudget
from skdp.problems import Design, HalfSquaredLoss, LogisticLoss, PenaltyGroups, Records

MODELS = {"ridge": (DPRidge, DPRidgeCV), "logistic": (DPLogisticRegression, DPLogisticRegressionCV)}
RELATIONS = {"replace_one": {}, "add_remove": {"neighbouring": "add_remove", "n_public": 600}}
every_model = pytest.mark.parametrize("model", MODELS)
every_relation = pytest.mark.parametrize("relation", RELATIONS)


def records(model, n=600, d=3):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.4, 0.6, (n, d))
    score = X @ np.linspace(1.0, -0.5, d) + 0.1 * rng.standard_normal(n)
    return X, (score > 0.1).astype(int) if model == "logistic" else score


def make(model, kind=0, **parameters):
    estimator = MODELS[model][kind]
    declared = {"classes": [0, 1]} if model == "logistic" else {"target_range": (-1.0, 2.0)}
    given = {"data_norm": 1.0, "random_state": 0, "method": "statistics", **declared}
    return estimator(**{**given, **parameters})


def as_published(estimator):
    """Output perturbation of the same objective."""
    return estimator.set_params(method=OutputPerturbation(alpha=estimator.alpha), alpha="auto")


@every_model
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_default_is_the_tuned_model(model, delta):
    """One release, one choice of alpha: the same numbers from the same noise."""
    X, y = records(model)
    ours = make(model, epsilon=3.0, delta=delta).fit(X, y)
    tuned = make(model, 1, epsilon=3.0, delta=delta).fit(X, y)
    np.testing.assert_allclose(ours.coef_, tuned.coef_, rtol=1e-4)
    np.testing.assert_allclose(ours.intercept_, tuned.intercept_, rtol=1e-4, atol=1e-8)
    assert ours.alpha_ == pytest.approx(tuned.alpha_, rel=1e-3)
    assert ours.privacy_.event == tuned.privacy_.event
    for mine, its in zip(ours.privacy_.releases, tuned.privacy_.releases, strict=True):
        assert mine.noise_scale == pytest.approx(its.noise_scale, rel=1e-12)


@every_model
@every_relation
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_given_alpha_is_that_of_the_objective(model, relation, fit_intercept):
    """Without noise to speak of: the minimiser that output perturbation finds."""
    X, y = records(model)
    given = {"epsilon": 1e7, "alpha": 0.02, "fit_intercept": fit_intercept, **RELATIONS[relation]}
    ours = make(model, **given).fit(X, y)
    exact = as_published(make(model, **given)).fit(X, y)
    np.testing.assert_allclose(ours.coef_, exact.coef_, rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(ours.intercept_, exact.intercept_, rtol=2e-3, atol=2e-3)
    assert ours.alpha_ == 0.02


@every_model
def test_a_nominal_size_scales_the_mean(model):
    """The sum is divided by the public size: twice of it, half of the moments and of the loss."""
    X, y = records(model)
    nominal = {"neighbouring": "add_remove", "epsilon": 1e7, "alpha": 0.02}
    half = make(model, **nominal, n_public=1200).fit(X, y)
    exact = as_published(make(model, **nominal, n_public=1200)).fit(X, y)
    if model == "ridge":  # the model of the log loss takes the sizes to agree, roughly
        np.testing.assert_allclose(half.coef_, exact.coef_, rtol=1e-3, atol=1e-3)
    assert {release.n_records for release in half.privacy_.releases} == {1200}
    report = half.privacy_
    more = make(model, **nominal, n_public=1200).fit(X[:500], y[:500]).privacy_
    assert report.releases == more.releases


@every_model
def test_adding_or_removing_takes_less_noise(model):
    X, y = records(model)
    one, other = (make(model, **RELATIONS[name]).fit(X, y).privacy_.releases for name in RELATIONS)
    factors = [mine.sensitivity / its.sensitivity for mine, its in zip(one, other, strict=False)]
    assert factors[0] == pytest.approx(math.sqrt(2.0), rel=1e-6)
    if model == "logistic":
        assert factors[1] == pytest.approx(2.0, rel=1e-6)


@every_model
def test_twice_the_records_make_twice_the_sums(model):
    """Under add/remove nothing is divided by the number of records, in no release."""
    X, y = records(model, n=60)
    estimator = make(model, neighbouring="add_remove", n_public=50)
    with Laboratory() as first:
        estimator.fit(X, y)
    with Laboratory(releases=first.releases) as second:
        estimator.fit(np.tile(X, (2, 1)), np.tile(y, 2))
    for one, two in zip(first.draws, second.draws, strict=True):
        np.testing.assert_allclose(two.value, 2.0 * one.value, rtol=1e-10, atol=1e-14)


def test_the_sensitivity_of_added_moments_is_attained():
    """Any record of the largest norm: a smaller factor than 1 would be found."""
    X, y = np.array([[0.6, 0.8], [1.0, 0.0]]), np.array([1.0, -1.0])
    whole, part = (Records(X[:k], 1.0, targets=y[:k]) for k in (2, 1))
    design = Design.of(whole, 2)
    plan = plan_private_moments(
        PrivacyBudget(1.0),
        design,
        target_bound=1.0,
        coef_norm=1.0,
        neighbouring=Neighbouring.ADD_REMOVE,
    )

    class Silent(PlainNoise):
        def gamma(self, shape):
            return 0.0

    one, other = (private_moments(rows, plan, Silent()) for rows in (whole, part))
    difference = np.zeros((3, 3))
    difference[:2, :2] = one.matrix - other.matrix
    difference[:2, 2] = difference[2, :2] = plan.weight * (one.vector - other.vector)
    difference[2, 2] = plan.weight**2 * (one.square - other.square)
    assert np.linalg.norm(difference) == pytest.approx(plan.mechanism.sensitivity, rel=1e-8)
    assert one.n_records == other.n_records == 2


def test_the_sensitivity_of_an_added_gradient_is_attained():
    """A record of the largest norm on the wrong side of a steep model."""
    X, y = np.array([[0.6, 0.8], [1.0, 0.0]]), np.array([1.0, 0.0])
    rows = Records(X, 1.0, targets=y)
    objective = tuning_objective(rows, LogisticLoss(), n_public=2)
    (gradient, *_) = NewtonPlan(objective=objective, budget=PrivacyBudget(1.0)).gradients
    point = np.array([40.0, 0.0])
    whole = mean_gradient(rows, point, 2)
    part = mean_gradient(Records(X[:1], 1.0, targets=y[:1]), point, 2)
    moved = float(np.linalg.norm(whole - part))
    assert moved == pytest.approx(gradient.sensitivity, rel=1e-6) and moved <= gradient.sensitivity


@every_relation
def test_points_of_gradients_stay_where_rounding_is_priced(relation, monkeypatch):
    """Tiny features would make coefficients long; their length is bounded."""
    rng = np.random.default_rng(0)
    X = 1e-6 * rng.standard_normal((2000, 2))
    y = (X[:, 0] > 0).astype(int)
    points = []
    from skdp.algorithms.tuning import newton

    def spy(records, point, *others):
        points.append(point)
        return mean_gradient(records, point, *others)

    monkeypatch.setattr(newton, "mean_gradient", spy)
    nominal = {} if relation == "replace_one" else {"neighbouring": relation, "n_public": 2000}
    model = make("logistic", epsilon=1e19, delta=0.0, alpha=1e-20, fit_intercept=False, **nominal)
    assert np.isfinite(model.fit(X, y).coef_).all()
    longest = max(float(np.linalg.norm(point)) for point in points)
    assert 999.0 < longest <= 1e3 * (1 + 1e-12)


def tuning_objective(rows, loss, n_public=None):
    groups = PenaltyGroups((0,) * rows.width, (1.0,) * rows.width, 1e-6, 1.0)
    return TuningObjective.of(rows, loss, groups, n_public)


@pytest.mark.parametrize("name", TUNERS)
def test_tuners_whose_proofs_are_for_replaced_records(name):
    X, y = records("ridge", n=60)
    data = Records(X, 1.0, targets=y)
    row, loss = TUNERS[name]
    objective = tuning_objective(data, loss, 60)
    budget = PrivacyBudget(1.0, 1e-5)
    if name != "bilevel, as published":
        assert Neighbouring.ADD_REMOVE in row.relations
        plan = row.plan(objective=objective, budget=budget)
        assert plan.event.neighbouring is Neighbouring.ADD_REMOVE
    else:
        with pytest.raises(ValueError, match="replace_one"):
            row.plan(objective=objective, budget=budget)


@pytest.mark.parametrize(
    ("model", "parameters", "message"),
    [
        (DPLinearClassifier, {"loss": "hinge"}, "method='statistics' is for squared_error"),
        (DPLinearClassifier, {"loss": "squared_hinge"}, "method='statistics' is for squared_error"),
        (DPLinearRegressor, {"loss": "huber"}, "method='statistics' is for squared_error"),
        (DPRidge, {"solver": "newton"}, "method='statistics' has no solver"),
        (DPLogisticRegression, {"classes": [0, 1, 2]}, "supports two only"),
    ],
)
def test_what_has_no_such_statistics_is_refused(model, parameters, message):
    X, y = records("logistic")
    if "Class" in model.__name__ or "Logistic" in model.__name__:
        declared = {"classes": [0, 1]}
    else:
        declared = {"target_range": (0.0, 1.0)}
    fitted = model(data_norm=1.0, method="statistics", **{**declared, **parameters})
    with pytest.raises(ValueError, match=message):
        fitted.fit(X, y)


@pytest.mark.parametrize("alpha", [0.0, -1.0, math.inf, math.nan])
def test_a_public_alpha_is_a_positive_number(alpha):
    X, y = records("ridge")
    objective = tuning_objective(Records(X, 1.0, targets=y), HalfSquaredLoss(2.0))
    with pytest.raises(ValueError, match="alpha"):
        SufficientStatisticsPlan(objective=objective, budget=PrivacyBudget(1.0), alpha=alpha)
