"""What the planner says; that its plans are those of fits: tests/contract/test_fits.py."""

import inspect
import json
import math

import numpy as np
import pytest
from every_estimator import declared
from scipy.stats import chi
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skdp import BudgetAccountant
from skdp.inspection import FitPlan, PlannedRelease, plan_fit
from skdp.linear_model import DPLinearClassifier, DPLogisticRegression, DPRidge
from skdp.mechanisms import GaussianMechanism
from skdp.methods import OutputPerturbation
from skdp.model_selection import DPRidgeCV
from skdp.preprocessing import BoundedScaler
from skdp.privacy import Neighbouring
from skdp.robust import DPMaxGroupLossClassifier, DPMaxGroupLossRegressor
from skdp.tabular import DPTabularRegressor

N, D = 200, 3


def test_groups_are_named_or_counted():
    model = declared(DPMaxGroupLossClassifier, group_names=list("abcd"), method="phased")
    planned = plan_fit(model, N, D)
    with pytest.raises(ValueError, match="n_groups == 3"):
        plan_fit(model, N, D, n_groups=3)
    assert plan_fit(model.set_params(group_names=None), N, D, n_groups=4).event == planned.event


def test_nothing_is_read_paid_or_changed():
    """Its parameters hold no records, no accountant is charged, and the sizes may be huge."""
    assert not {"X", "y"} & set(inspect.signature(plan_fit).parameters)
    model = DPRidge(method="output", data_norm=1.0, target_range=(-1, 1))
    before = dict(vars(model))
    with BudgetAccountant(1e-9) as accountant:
        planned = plan_fit(model, 10**12, 1000)
    assert not accountant.entries
    assert vars(model) == before
    assert planned.releases[0].relative_noise < 1e-4


@pytest.mark.parametrize(("relation", "moves"), [("replace_one", 1000), ("add_remove", 2000)])
def test_the_domain_is_what_all_records_together_can_move(relation, moves):
    """A record is replaced by removing one and adding one: it moves the value twice as far."""
    release = GaussianMechanism(0.5, 3.0).describe("scores", 4, 1000, "", Neighbouring(relation))
    planned = PlannedRelease.of(release)
    assert planned.relative_noise == pytest.approx(1.5 * chi.mean(4) / (moves * 0.5), rel=1e-12)


def test_numbers_of_the_noise():
    """The expected norm, in records and of the domain, and the noise of a prediction."""
    method = OutputPerturbation(alpha=0.1, coef_norm=2.0)
    model = DPRidge(method=method, data_norm=1.0, target_range=(-1, 1))
    planned = plan_fit(model, 1000, 4)
    (each,) = planned.releases
    norm = each.release.noise_scale * chi.mean(5)
    assert each.noise_norm == pytest.approx(norm, rel=1e-12)
    assert each.records_of_noise == pytest.approx(norm / each.release.sensitivity)
    assert each.relative_noise == pytest.approx(norm / (2 * planned.plan["radius"]))
    row = math.hypot(1.0, 0.1)
    assert planned.prediction_noise == pytest.approx(each.release.noise_scale * row)
    pure = plan_fit(model.set_params(delta=0.0), 1000, 4)
    scale = pure.releases[0].release.noise_scale
    # a uniform direction, and a length with the mean square 5 * 6
    assert pure.prediction_noise == pytest.approx(scale * row * math.sqrt(5.0 * 6.0 / 5.0))
    assert pure.releases[0].noise_norm == pytest.approx(5 * scale)
    assert planned.total_epsilon == pytest.approx(1.0)


def test_draws_have_no_noise_norm_and_gradients_no_prediction_noise():
    draw = plan_fit(declared(DPLogisticRegression, method="exponential", delta=0.0), N, D)
    assert draw.releases[0].noise_norm is draw.prediction_noise is None
    for method in ("gradient", "objective"):
        planned = plan_fit(declared(DPLogisticRegression, method=method), N, D)
        assert planned.prediction_noise is None
        assert planned.releases[0].noise_norm > 0


def test_readable_and_json():
    model = declared(DPLinearClassifier, loss="hinge", delta=0.0, classes=[0, 1, 2])
    planned = plan_fit(model, N, D)
    assert isinstance(planned, FitPlan)
    assert "smallest bound on the excess loss" in planned.reason
    values = json.loads(json.dumps(planned.to_dict()))
    assert values["releases"][0]["noise_norm"] == planned.releases[0].noise_norm
    text = str(planned)
    assert f"DPLinearClassifier on {N} records of {D} features" in text
    assert "of the domain" in text and "noise in a prediction" in text
    few = plan_fit(declared(DPRidge, method="output_perturbation"), 5, 3)
    assert "mostly noise" in str(few)


@pytest.mark.parametrize(
    ("model", "sizes", "message"),
    [
        (LogisticRegression(), {}, "private model"),
        (make_pipeline(BoundedScaler(), DPRidge()), {}, "pass the last step"),
        (DPRidge(), {"n_samples": 0}, "n_samples == 0"),
        (DPRidge(), {"n_features": 2.0}, "n_features must be an integer"),
        (DPRidge(), {"n_classes": 2}, "has no classes"),
        (DPRidge(), {"n_groups": 2}, "has no groups"),
        (DPRidge(epsilon=-1.0), {}, "epsilon"),
        (DPLogisticRegression(classes=[0, 1]), {"n_classes": 3}, "declares 2 labels"),
        (DPLogisticRegression(delta=0, method="exponential"), {"n_classes": 3}, "two only"),
        (DPLogisticRegression(), {"n_classes": 1}, "n_classes == 1"),
        (DPTabularRegressor(columns={"a": (0, 1)}), {}, "columns declares 1"),
        (DPMaxGroupLossRegressor(), {"n_groups": 0}, "n_groups == 0"),
        *(  # sizes that no double holds
            (DPMaxGroupLossRegressor() if name == "n_groups" else DPLogisticRegression(),
             {name: 10**exponent}, rf"{name} == .*, must be at most 2\^53")
            for name, exponent in (("n_samples", 400), ("n_features", 5000), ("n_classes", 400),
                                   ("n_groups", 5000))
        ),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_clear_errors(model, sizes, message):
    with pytest.raises((TypeError, ValueError), match=message):
        plan_fit(model, **{"n_samples": N, "n_features": D, **sizes})


NOISE_KNOWN = {
    "ridge": DPRidge(data_norm=1.0, target_range=(-1, 1)),
    "logistic": DPLogisticRegression(data_norm=1.0, classes=[0, 1]),
    "three classes": DPLogisticRegression(data_norm=1.0, classes=[0, 1, 2]),
    "output": DPRidge(method="output", data_norm=1.0, target_range=(-1, 1)),
    "printed": DPRidge(method="output_perturbation", data_norm=1.0, target_range=(-1, 1)),
    "objective": DPLogisticRegression(method="objective", data_norm=1.0, classes=[0, 1]),
    "tuned": DPRidgeCV(data_norm=1.0, target_range=(-1, 1)),
}


@pytest.mark.parametrize("name", NOISE_KNOWN)
def test_planned_noise_is_about_that_of_a_fit_on_the_reference_design(name):
    """Isotropic rows of the largest norm; targets with the variance of the prior."""
    rng, n, d = np.random.default_rng(0), 8000, 10
    X = rng.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    signal = np.sqrt(d) * X @ np.eye(d)[0]
    y = np.clip(0.27 * signal + 0.27 * rng.normal(size=n), -1, 1)
    model = clone(NOISE_KNOWN[name]).set_params(random_state=0)
    classes = getattr(model, "classes", None)
    if classes is not None:
        y = (signal + rng.logistic(size=n) > 0).astype(int)
        y[: n // 3] = len(classes) - 1 if len(classes) > 2 else y[: n // 3]
    planned = plan_fit(model, n, d)
    found = model.fit(X, y).privacy_.noise
    for key in ("coef", "average_row"):  # rare rows have most of the factor of the margins
        assert 0.4 < getattr(planned.noise, key) / found[key] < 2.5, key


@pytest.mark.parametrize("name", ["ridge", "logistic", "objective", "tuned"])
def test_privacy_is_free_from_where_noise_is_below_that_of_the_sample(name):
    model, found = clone(NOISE_KNOWN[name]), []
    for epsilon in (3.0, 0.3):
        model.set_params(epsilon=epsilon)
        first = plan_fit(model, 1000, 10).free_from
        for n, is_free in ((first, True), (int(0.9 * first), False)):
            plan = plan_fit(model, n, 10)
            assert (plan.noise.average_row <= plan.sampling_noise) == is_free
        assert f"from {first} records on" in str(plan)
        persons = plan_fit(model, 9 * first, 10, n_users=first)
        if name != "objective":  # whose lemma for persons has another price
            assert persons.free_from == first and f"from {first} persons on" in str(persons)
        assert f"on {first} persons, 10 features" in str(persons) and "record" not in str(persons)
        found.append(first)
    assert found[1] > 10 * found[0]


def test_where_nothing_is_known_of_the_noise():
    plan = plan_fit(DPRidge(method="phased", data_norm=1.0, target_range=(-1, 1)), 1000, 5)
    assert plan.noise is plan.sampling_noise is plan.free_from is None
    assert plan_fit(NOISE_KNOWN["printed"], 1000, 5).free_from is None
    # more records pay for more features
    table = DPTabularRegressor(target_range=(-1, 1))
    assert plan_fit(table, 1000, 5).free_from is None
    assert plan_fit(table.set_params(features="linear"), 1000, 5).free_from is not None
