"""Warnings of what was not declared, of a large delta and of noise, and remarks of reports.

They follow from public numbers: whatever the records are.
"""

import itertools
import re
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from every_estimator import ESTIMATORS, declared, records
from fit_case import METHOD_TABLES

from skdp import DPLinearClassifier, DPLogisticRegression, DPMaxGroupLossClassifier, DPRidge
from skdp._estimator import noise_alarms
from skdp.methods import (
    ExponentialMechanism,
    GroupMirrorDescent,
    MirrorDescent,
    OutputPerturbation,
    SaddleOutputPerturbation,
)
from skdp.privacy import GaussianEvent, Neighbouring, Release

every_estimator = pytest.mark.parametrize("kind", ESTIMATORS)


def seen(model, X, y):
    """Category and text of every warning of a fit, and that each points at its caller."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model.fit(X, y)
    assert all(warning.filename == __file__ for warning in found)
    return [(warning.category, str(warning.message)) for warning in found]


@every_estimator
def test_the_default_norm_is_one_and_reports_state_it(kind):
    X, y = records(kind, norm=5.0)
    default, one = (declared(kind, data_norm=bound).fit(X, y) for bound in (None, 1.0))
    assert np.array_equal(default.predict(X), one.predict(X))
    for name in {"coef_", "coefs_"} & set(vars(default)):
        for found, expected in zip(getattr(default, name), getattr(one, name), strict=True):
            assert np.array_equal(found, expected)
    assert default.data_norm_ == one.data_norm_ == 1.0
    report = declared(kind, data_norm=0.25).fit(X, y).privacy_
    assert report.plan["data_norm"] == 0.25
    assert "rows are shortened to Euclidean norm 0.25" in str(report)


def test_a_large_delta_warns():
    X, y = records(DPRidge, n=100)
    for delta, expected in ((0.009, False), (0.01, True), (0.3, True)):
        model = declared(DPRidge, delta=delta)
        told = any(text.startswith("delta ==") for _, text in seen(model, X, y))
        remembered = any(text.startswith("delta ==") for text in model.privacy_.caveats)
        assert told is remembered is expected, delta


@pytest.mark.parametrize(
    ("kind", "delta"), list(zip(ESTIMATORS, itertools.cycle([0.0, 1e-6]), strict=False))
)
def test_a_result_that_is_mostly_noise_warns(kind, delta):
    """With the plan alone: fits of very different records warn alike."""
    options = {"delta": delta}
    if "MLP" in kind.__name__:
        options = {"delta": 1e-6 if delta == 0 else 1e-7, "hidden_units": 4, "n_steps": 20}
    elif kind.__name__.endswith("CV"):
        options["method"] = "auto"
    else:
        names = "output_perturbation", "saddle", "output"
        options["method"] = next(name for name in names if name in METHOD_TABLES[kind])
        if options["method"] == "saddle":  # whose weight would be 1
            options["method"] = SaddleOutputPerturbation(max_group_weight=2.0)
    texts = "the result is mostly noise", "hardly better than a constant model"  # of one group
    X, y = records(kind, n=30)
    few = seen(declared(kind, epsilon=0.01, **options), X, y)
    assert any(each in text for _, text in few for each in texts)
    other = seen(declared(kind, epsilon=0.01, **options), 100.0 * X[::-1], y[::-1])
    assert few == other
    X, y = records(kind, n=20_000)
    assert not seen(declared(kind, epsilon=100.0, **options), X, y)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_length_of_the_noise_is_that_of_its_law(delta):
    """Spherical Laplace noise is far longer than Gaussian noise in many dimensions."""
    kind = ESTIMATORS[0]
    X, y = records(kind, n=2000, d=100)
    model = declared(kind, delta=delta, method=OutputPerturbation(alpha=0.01))
    said = any("mostly noise" in text for _, text in seen(model, X, y))
    release, plan = model.privacy_.releases[0], model.privacy_.plan
    mean = release.noise_scale * (101 if delta == 0 else 101**0.5)
    assert said is bool(mean > plan["radius"]) is (delta == 0)


@pytest.mark.parametrize("is_class", [False, True])
def test_a_draw_that_adds_as_much_as_a_constant_warns(is_class):
    """By the numbers of records and columns and by epsilon; at any scale of the targets."""
    method, said = ExponentialMechanism(), {}
    for n, d, epsilon in ((300, 6, 0.1), (4000, 6, 3.0), (4000, 6, 0.03)):
        options = {"classes": [0, 1]} if is_class else {"target_range": (0.0, 2000.0)}
        kind = DPLogisticRegression if is_class else DPRidge
        model = kind(epsilon, 0.0, data_norm=1.0, method=method, **options)
        alarms = model._plan_of_shape(n, d, 2 if is_class else None, None)[0].plan.alarms()
        said[n, epsilon] = any("A constant may be as good" in text for text in alarms)
    assert said == {(300, 0.1): True, (4000, 3.0): False, (4000, 0.03): True}
    wide = DPRidge(1.0, 0.0, data_norm=1.0, target_range=(-1, 1), method=method)
    assert wide._plan_of_shape(16_000, 30, None, None)[0].plan.alarms()
    assert not wide._plan_of_shape(16_000, 5, None, None)[0].plan.alarms()


@pytest.mark.filterwarnings("always:The noise :UserWarning")
def test_draws_of_vertices_that_are_random_warn():
    kind = DPLogisticRegression
    for variant, n, expected in (
        ("plain", 39_000, False),
        ("plain", 100, True),
        ("bias_reduced", 39_000, True),
        ("anytime", 39_000, False),
    ):
        model = kind(1.0, 1e-5, classes=[0, 1], method=MirrorDescent(variant, feature_bound=1.0))
        alarms = model._plan_of_shape(n, 20, 2, None)[0].plan.alarms()
        assert any("noise of draws" in text for text in alarms) is expected, (variant, n)
    X, y = records(kind, n=30)
    model = kind(1.0, 1e-5, classes=[0, 1], method=MirrorDescent(feature_bound=1.0))
    assert any("noise of draws" in text for _, text in seen(model, X, y))
    shares = {"a": 0.5, "b": 0.5}
    for variant, options in (("bias_reduced", {}), ("boosted", {"group_proportions": shares})):
        method = GroupMirrorDescent(variant, feature_bound=1.0)
        grouped = DPMaxGroupLossClassifier(
            1.0, 1e-5, classes=[0, 1], group_names=list(shares), method=method, **options
        )
        assert grouped._plan_of_shape(10_000, 20, 2, 2)[0].plan.alarms()


def test_alarms_are_public_arithmetic():
    event = GaussianEvent(1.0, Neighbouring.REPLACE_ONE)
    release = Release("coefficients", "gaussian", 1.0, 3.0, 4, 100, "theorem", event)
    small, large = (SimpleNamespace(to_dict=lambda r=r: {"radius": r}) for r in (5.0, 7.0))
    (alarm,) = noise_alarms(small, (release,))  # 3 sqrt(4) > 5
    assert "mostly noise" in alarm
    assert not list(noise_alarms(large, (release,)))


def test_a_report_tells_phases_bounds_and_rows():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.5, 0.5, (5000, 2)), rng.uniform(-1, 1, 5000)
    report = DPRidge(100.0, data_norm=1.0, target_range=(-1, 1), method="phased").fit(X, y).privacy_
    plan, text = report.plan, str(report)
    sizes = ", ".join(map(str, plan["block_sizes"]))
    scales = ", ".join(f"{scale:.3g}" for scale in plan["noise_scales"])
    assert len(plan["block_sizes"]) > 1
    assert f"phases: {sizes} records with noise of scale {scales}" in text
    assert "rows are shortened to Euclidean norm 1\n" in text
    assert "bound on" not in text
    compared = DPLinearClassifier(1.0, 0.0, loss="hinge", data_norm=1.0, classes=[0, 1])
    report = compared.fit(X, y > 0).privacy_
    bound = report.plan["method_bounds"]["output_perturbation"]
    assert f"output_perturbation {bound:.3g}, phased " in str(report)
    assert "phases:" not in str(report)


def test_an_undisclosed_size_is_not_in_the_report():
    """replace_one discloses n by definition; add_remove without `n_public` says that it does."""
    X, y = np.zeros((37, 1)), np.arange(37) % 2
    model = DPLogisticRegression(data_norm=1.0, classes=[0, 1], neighbouring="add_remove")
    report = model.fit(X, y).privacy_
    assert report.releases[0].n_records == 37
    assert any("n_public" in caveat for caveat in report.caveats)
    report = model.set_params(n_public=50).fit(X, y).privacy_
    assert not re.search(r"(?<![.\d])37(?![.\d])", str(report))
    assert not report.caveats
