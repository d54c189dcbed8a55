"""DPRidgeCV with its default method: contract, public report, audit, quality."""

from __future__ import annotations

import json
import math
import pickle
import struct
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import SkipTestWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

import skdp.algorithms.tuning.sufficient_statistics as algorithm
from skdp.audit import epsilon_lower_bound
from skdp.linear_model import DPRidge
from skdp.mechanisms import NoiseSource
from skdp.model_selection import DPRidgeCV
from skdp.privacy import GaussianDPAccountant, PureAccountant
from skdp.problems import Records

FITTED = {
    "privacy_",
    "alpha_",
    "alpha_path_",
    "coef_",
    "intercept_",
    "data_norm_",
    "target_range_",
    "n_features_in_",
}


def planted(n, d=20, seed=0):
    """Rows of norm at most 1, targets of [-1, 1]; returns also the noiseless targets."""
    rng = np.random.default_rng(seed)
    direction = np.random.default_rng(99).normal(size=d)
    direction /= np.linalg.norm(direction)
    X = rng.normal(size=(n, d)) / math.sqrt(d)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    clean = 1.5 * X @ direction
    return X, np.clip(clean + 0.3 * rng.normal(size=n), -1.0, 1.0), clean


def excess(model, X, clean):
    return float(np.mean((model.predict(X) - clean) ** 2))


# ------------------------------------------------------------------------------ scikit-learn's own


@pytest.mark.mostly("slow", 1)
@pytest.mark.parametrize(
    "estimator",
    [
        DPRidgeCV(),
        DPRidgeCV(cv=2),
        DPRidgeCV(delta=0),
        DPRidgeCV(10.0, cv=3, fit_intercept=False, alpha_bounds=(1e-3, 1.0), data_norm=5.0),
    ],
    ids=repr,
)
def test_check_estimator(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)
        results = check_estimator(estimator, on_fail=None, on_skip=None)
    assert len(results) > 40
    assert not [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"]
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    assert skipped <= {"check_array_api_input"}  # needs an optional package
    assert not any(r["expected_to_fail"] for r in results)


def test_clone_and_pipeline():
    X, y, _ = planted(500, 4)
    groups = np.array([0, 1, 1, 0])
    model = DPRidgeCV(2.0, penalty_groups=groups, random_state=1).fit(X, y)
    copy = clone(model)
    assert not hasattr(copy, "coef_")
    np.testing.assert_array_equal(copy.penalty_groups, groups)
    np.testing.assert_array_equal(copy.fit(X, y).coef_, model.coef_)
    pipeline = make_pipeline(FunctionTransformer(np.negative), DPRidgeCV(2.0, random_state=1))
    plain = DPRidgeCV(2.0, random_state=1).fit(-X, y)
    np.testing.assert_array_equal(pipeline.fit(X, y).predict(X), plain.predict(-X))


def test_random_state_is_reproducible():
    X, y, _ = planted(300, 3)

    def coef(state):
        return DPRidgeCV(random_state=state).fit(X, y).coef_

    np.testing.assert_array_equal(coef(3), coef(3))
    np.testing.assert_array_equal(coef(np.random.default_rng(3)), coef(np.random.default_rng(3)))
    assert (coef(3) != coef(4)).all()
    assert (coef(None) != coef(None)).all()
    caveats = DPRidgeCV(random_state=0).fit(X, y).privacy_.caveats
    assert any("seed" in caveat for caveat in caveats)
    assert not DPRidgeCV().fit(X, y).privacy_.caveats


# -------------------------------------------------------------------------------------- parameters


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"penalty_groups": [0, 1]}, ValueError),
        ({"penalty_groups": 0}, ValueError),
        ({"penalty_groups": [[0, 1, 2]]}, ValueError),
        ({"penalty_groups": "abc"}, ValueError),
        ({"penalty_groups": {"a": 1}}, ValueError),
        ({"penalty_groups": [0, "a", 1]}, ValueError),
        ({"penalty_groups": [0, None, 1]}, ValueError),
        ({"penalty_groups": [0, 1, math.nan]}, ValueError),
        ({"penalty_groups": ["a", None, "b"]}, ValueError),
        ({"alpha_bounds": 1.0}, ValueError),
        ({"alpha_bounds": (1.0,)}, ValueError),
        ({"alpha_bounds": (1.0, 1.0)}, ValueError),
        ({"alpha_bounds": (0.0, 1.0)}, ValueError),
        ({"alpha_bounds": (-1.0, 1.0)}, ValueError),
        ({"alpha_bounds": (1.0, math.inf)}, ValueError),
        ({"alpha_bounds": (math.nan, 1.0)}, ValueError),
        ({"alpha_bounds": ("a", "b")}, TypeError),
        ({"alpha_bounds": "12"}, ValueError),
        ({"alpha_bounds": {1: 2, 3: 4}}, ValueError),
        ({"alpha_bounds": (1e-300, 1.0)}, ValueError),
        ({"alpha_bounds": (1e-3, 1e200)}, ValueError),
        ({"cv": 1}, ValueError),
        ({"cv": 0}, ValueError),
        ({"cv": 13}, ValueError),  # more than records
        ({"cv": 101}, ValueError),
        ({"cv": 2.0}, TypeError),
        ({"cv": True}, TypeError),
        ({"cv": "loo"}, TypeError),
        ({"neighbouring": "add_remove"}, ValueError),
        ({"neighbouring": "both"}, ValueError),
        ({"method": "grid"}, ValueError),
        ({"epsilon": 0}, ValueError),
        ({"delta": 1}, ValueError),
        ({"data_norm": 0}, ValueError),
        ({"data_norm": "auto"}, TypeError),
        ({"data_norm": "1"}, TypeError),
        ({"intercept_scaling": 0}, ValueError),
        ({"target_range": (1, -1)}, ValueError),
        ({"random_state": "x"}, ValueError),
    ],
    ids=repr,
)
def test_refused_parameters(parameters, error):
    X, y, _ = planted(12, 3)
    model = DPRidgeCV(**parameters)
    with pytest.raises(error):
        model.fit(X, y)
    assert not hasattr(model, "coef_")


def test_sample_weights_are_refused():
    X, y, _ = planted(12, 3)
    with pytest.raises(ValueError, match="sample_weight"):
        DPRidgeCV().fit(X, y, sample_weight=np.ones(12))


def test_groups_are_labels():
    """Sorted labels of any kind number the alphas; the last one is the intercept's."""
    X, y, _ = planted(400, 4)
    by_name = DPRidgeCV(penalty_groups=["b", "a", "a", "b"], random_state=0).fit(X, y)
    by_number = DPRidgeCV(penalty_groups=[7, 3, 3, 7], random_state=0).fit(X, y)
    np.testing.assert_array_equal(by_name.coef_, by_number.coef_)
    assert by_name.alpha_.shape == (3,)
    assert by_name.alpha_path_.shape[1] == 3
    swapped = DPRidgeCV(penalty_groups=["a", "b", "b", "a"], random_state=0).fit(X, y)
    np.testing.assert_allclose(swapped.alpha_[[1, 0, 2]], by_name.alpha_, rtol=1e-3)
    centred = {"fit_intercept": False, "random_state": 0}
    one = DPRidgeCV(penalty_groups=[0, 0, 0, 0], **centred).fit(X, y)
    plain = DPRidgeCV(**centred).fit(X, y)
    assert one.alpha_.shape == (1,) and isinstance(plain.alpha_, float)
    np.testing.assert_array_equal(one.coef_, plain.coef_)
    assert plain.alpha_path_.ndim == 1 and plain.alpha_path_[-1] == plain.alpha_
    assert by_name.privacy_.plan["n_penalty_groups"] == 3


def test_order_of_columns_does_not_matter_beside_groups():
    """The intercept is in the group of no feature."""
    X, y, _ = planted(400, 3)
    X[:, 1:] = 0.0  # the noise of columns is not permuted with them: let it not matter
    order, exact = [2, 0, 1], {"epsilon": 1e9, "random_state": 0}
    model = DPRidgeCV(penalty_groups=[0, 1, 1], **exact).fit(X, y)
    other = DPRidgeCV(penalty_groups=[1, 0, 1], **exact).fit(X[:, order], y)
    np.testing.assert_allclose(other.coef_, model.coef_[order], rtol=1e-4, atol=1e-9)
    np.testing.assert_allclose(other.alpha_[[0, 2]], model.alpha_[[0, 2]], rtol=0.1)


@pytest.mark.parametrize("cv", [None, 2])
def test_bounds_of_alpha(cv):
    X, y, _ = planted(200, 3)
    for bounds in ((1e-4, 2e-4), (5.0, 6.0)):
        model = DPRidgeCV(alpha_bounds=bounds, cv=cv, random_state=0).fit(X, y)
        assert bounds[0] <= model.alpha_path_.min()
        assert model.alpha_path_.max() <= bounds[1]
        assert model.privacy_.plan["alpha_bounds"] == list(bounds)
    model = DPRidgeCV(data_norm=10.0, cv=cv).fit(X, y)
    np.testing.assert_allclose(model.privacy_.plan["alpha_bounds"], [1e-4, 1e8])
    model = DPRidgeCV(data_norm=10.0, method="public").fit(X, y)
    np.testing.assert_allclose(model.privacy_.plan["alpha_bounds"], [1e-4, 1e3])


def test_nothing_but_noise_gives_a_constant_model():
    X, y, _ = planted(50, 3)
    model = DPRidgeCV(epsilon=1e-3, random_state=0).fit(X, y)
    assert model.alpha_ > 10 and np.abs(model.coef_).max() < 0.2


def test_units_of_rows_and_targets():
    """The model follows the units of the data and the bounds."""
    X, y, _ = planted(2000, 3)
    model = DPRidgeCV(random_state=0).fit(X, y)
    scaled = DPRidgeCV(data_norm=8.0, target_range=(6.0, 14.0), random_state=0).fit(
        8.0 * X, 10.0 + 4.0 * y
    )
    np.testing.assert_allclose(scaled.predict(8.0 * X), 10.0 + 4.0 * model.predict(X), rtol=1e-5)
    assert scaled.alpha_ == pytest.approx(64.0 * model.alpha_, rel=1e-3)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix])
def test_bounds_of_records_are_enforced(container):
    """Long rows are scaled down, targets clipped, silently."""
    X, y, _ = planted(200, 3)
    bounded, within = X.copy(), y.copy()
    bounded[::7] /= np.linalg.norm(X[::7], axis=1)[:, None]
    within[::11] = 1.0
    X[::7] *= 1e200
    y[::11] = 1e3
    model = DPRidgeCV(random_state=0).fit(container(X), y)
    expected = DPRidgeCV(random_state=0).fit(bounded, within)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-6)


# -------------------------------------------------------------------------- the privacy statement

CONFIGURATIONS = {
    "default": {},
    "folds": {"cv": 3},
    "pure": {"delta": 0},
    "pure folds": {"delta": 0, "cv": 2, "fit_intercept": False},
    "groups": {"penalty_groups": [0, 1, 1]},
}
every_configuration = pytest.mark.parametrize(
    "parameters", CONFIGURATIONS.values(), ids=CONFIGURATIONS
)


@every_configuration
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_one_release_costs_the_budget(parameters, epsilon):
    X, y, _ = planted(50, 3)
    model = DPRidgeCV(epsilon, **parameters).fit(X, y)
    report = model.privacy_
    (release,) = report.releases
    assert (report.epsilon, report.delta) == (epsilon, model.delta)
    assert report.method == "sufficient_statistics"
    width = 3 + model.fit_intercept + 1  # with the target
    assert release.dimension == width * (width + 1) // 2
    accountant = PureAccountant() if model.delta == 0 else GaussianDPAccountant()
    spent = accountant.compose(report.event).get_epsilon(model.delta)
    assert 0.999 * epsilon <= spent <= epsilon * (1 + 1e-9)
    n = release.n_records
    assert n == 50 // (model.cv or 1)
    assert ("in each of" in release.reference) == (model.cv is not None)
    assert report.plan["fold_records"] == n
    norm = report.plan["feature_norm"]
    bound = math.sqrt(2) * (norm**2 + report.plan["target_weight"] ** 2) / n
    assert bound <= release.sensitivity <= bound * (1 + 1e-7)


@every_configuration
@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix])
def test_report_is_public(parameters, container):
    """Data sets of one shape, however different, have one report; models may differ."""
    rng = np.random.default_rng(0)
    reports = set()
    for X in (
        rng.normal(size=(40, 3)),
        np.zeros((40, 3)),
        1e200 * rng.choice([-1.0, 1.0], (40, 3)),
        np.tile([[1e-300, 0.0, 1.0]], (40, 1)),
    ):
        model = DPRidgeCV(**parameters).fit(container(X), rng.normal(size=40) * 5)
        reports.add(json.dumps(model.privacy_.to_dict(), allow_nan=False, sort_keys=True))
        assert str(model.privacy_).count("second moments") == 1
        assert set(vars(model)) == FITTED | set(model.get_params())
    assert len(reports) == 1


@every_configuration
def test_all_that_is_kept_is_a_function_of_the_release(parameters, monkeypatch):
    """Another data set with the same released moments: the same fitted model, to the last bit."""
    X, y, _ = planted(60, 3)
    released, original = [], algorithm.private_moments

    def recording(*args, **kwargs):
        released.append(original(*args, **kwargs))
        return released[-1]

    monkeypatch.setattr(algorithm, "private_moments", recording)
    first = DPRidgeCV(**parameters).fit(X, y)
    queue = list(released)
    monkeypatch.setattr(algorithm, "private_moments", lambda *args, **kwargs: queue.pop(0))
    second = DPRidgeCV(**parameters).fit(np.ones((60, 3)), np.arange(60.0))
    assert not queue
    for name in ("coef_", "intercept_", "alpha_", "alpha_path_"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert first.privacy_ == second.privacy_


@every_configuration
def test_no_unnoised_number_survives_a_fit(parameters):
    X, y, _ = planted(60, 3)
    model = DPRidgeCV(**parameters).fit(X, y)
    rows = Records(X, 1.0, model._intercept_value).materialise()
    products = np.column_stack([rows, y]).T @ np.column_stack([rows, y])
    secret = np.concatenate([part.ravel() for part in (X, y, products, products / 60)])
    stored = pickle.dumps(model)
    found = [v for v in secret if struct.pack("<d", v) in stored or struct.pack(">d", v) in stored]
    # targets at the end of their range, and the square of the constant feature
    public = {1.0}
    if model.fit_intercept:
        public |= {products[3, 3], products[3, 3] / 60}
    assert {abs(value) for value in found} <= public


# ------------------------------------------------------------------------------------------- audit


def coordinates(moments, gamma):
    """Of the released matrix, with Euclidean distances equal to Frobenius ones."""
    column = gamma * moments.vector[:, None]
    square = np.array([[gamma**2 * moments.square]])
    full = np.block([[moments.matrix, column], [column.T, square]])
    upper = np.triu_indices(len(full))
    return full[upper] * np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))


@pytest.mark.audit
@pytest.mark.parametrize("delta", [0.0, 0.3])
@pytest.mark.parametrize("cv", [None, 2])
@pytest.mark.usefixtures("kept_order")  # a record has a known role
def test_audit_of_the_released_matrix(cv, delta, monkeypatch):
    """Worst-case neighbours: how often does the release speak for the one that it comes from?

    The attacker's set is fixed beforehand: where the likelihood ratio of noise half as large
    exceeds ``e^epsilon`` (Gaussian), or where distances differ by 0.6 of the sensitivity. If the
    claim holds, ``P(set) <= e^epsilon P'(set) + delta``; Clopper-Pearson bounds are wrong with
    probability 1e-4. Everything that the estimator keeps is a function of these releases. With
    half of the noise the attack succeeds.
    """
    epsilon, n, draws = (0.1 if delta else 2.0), 6, 6000
    calls, original = [], algorithm.private_moments

    def recording(*args):
        calls.append(args)
        return original(*args)

    monkeypatch.setattr(algorithm, "private_moments", recording)
    model = DPRidgeCV(epsilon, delta, cv=cv, fit_intercept=False)
    X, y = np.zeros((n, 2)), np.zeros(n)
    gamma = model.fit(X, y).privacy_.plan["target_weight"]
    release = model.privacy_.releases[0]
    sides = []
    for record in (([1.0, 0.0], 1.0), ([gamma**2, math.sqrt(1 - gamma**4)], -1.0)):
        X[3], y[3] = record
        calls.clear()
        model.fit(X.copy(), y.copy())
        records, plan, _, *part = calls[3 % (cv or 1)]
        source = NoiseSource(np.random.default_rng(len(sides)).bytes)
        outs = [original(records, plan, source, *part) for _ in range(draws)]
        U = np.column_stack([X, gamma * y])[3 % (cv or 1) :: cv or 1]
        M = U.T @ U / len(U)
        exact = type(outs[0])(M[:2, :2], M[:2, 2] / gamma, M[2, 2] / gamma**2, 0.0, 0.0, len(U))
        sides.append((coordinates(exact, gamma), np.array([coordinates(o, gamma) for o in outs])))
    here, there = (center for center, _ in sides)
    gap = np.linalg.norm(here - there)
    assert 0.999 * release.sensitivity <= gap <= release.sensitivity

    def hits(points):
        if delta:
            position = (points - (here + there) / 2) @ (here - there) / gap
            return int((position > (release.noise_scale / 2) ** 2 * epsilon / gap).sum())
        nearer = np.linalg.norm(points - there, axis=1) - np.linalg.norm(points - here, axis=1)
        return int((nearer > 0.6 * gap).sum())

    def lower_bound(scale):
        p, q = (hits(center + scale * (points - center)) for center, points in sides)
        return epsilon_lower_bound(p, q, draws, delta, 1.0 - 1e-4)

    assert lower_bound(1.0) <= epsilon
    assert lower_bound(0.5) > epsilon


# ----------------------------------------------------------------------------------------- quality


def test_better_than_a_public_rule():
    """epsilon = 1, n = 30,000, d = 20: better than a public penalty, nearly as without privacy."""
    X, y, _ = planted(30_000)
    X_test, _, clean = planted(5_000, seed=1)
    tuned, fixed = [], []
    for seed in range(3):
        tuned.append(excess(DPRidgeCV(random_state=seed).fit(X, y), X_test, clean))
        fixed.append(excess(DPRidge(method="output", random_state=seed).fit(X, y), X_test, clean))
    zero = float(np.mean(clean**2))
    assert max(tuned) < 0.1 * min(fixed)
    assert max(tuned) < 0.02 * zero


@pytest.mark.slow
@pytest.mark.parametrize("cv", [None, 2, 5])
def test_not_much_worse_than_the_zero_model(cv):
    """Noise that drowns the signal is recognised: epsilon = 0.1, 1,000 records.

    On average over 100 seeds the loss is 1.2 to 1.3 times that of the zero model, at worst 4 times.
    """
    X, y, _ = planted(1_000)
    X_test, _, clean = planted(5_000, seed=1)
    zero = float(np.mean(clean**2))
    models = [DPRidgeCV(0.1, cv=cv, random_state=seed).fit(X, y) for seed in range(20)]
    assert np.mean([excess(model, X_test, clean) for model in models]) < 1.6 * zero


def test_alpha_follows_the_noise():
    """More records or budget: less regularisation."""
    X, y, _ = planted(30_000)
    alphas = [
        np.median([DPRidgeCV(eps, random_state=s).fit(X[:n], y[:n]).alpha_ for s in range(5)])
        for n, eps in ((3_000, 0.3), (3_000, 2.0), (30_000, 2.0))
    ]
    assert alphas[0] > 2.0 * alphas[1] > 4.0 * alphas[2]


def test_groups_help_when_features_differ():
    """Ten features matter and sixty do not: a alpha for each kind is better than one."""
    rng = np.random.default_rng(0)
    d = 70
    X = rng.normal(size=(20_000, d)) / math.sqrt(d)
    w = np.where(np.arange(d) < 10, 2.0, 0.0)
    clean = X @ w
    y = clean + 0.1 * rng.normal(size=len(X))
    kinds = (np.arange(d) >= 10).astype(int)
    common = {"data_norm": 1.3, "target_range": (-2.0, 2.0)}
    for seed in range(3):
        one = DPRidgeCV(random_state=seed, **common).fit(X, y)
        two = DPRidgeCV(penalty_groups=kinds, random_state=seed, **common).fit(X, y)
        assert two.alpha_[1] > 3.0 * two.alpha_[0]
        assert excess(two, X, clean) < 0.8 * excess(one, X, clean)


def test_groups_do_not_drop_the_intercept():
    """Its alpha is the best one for all coefficients together: none for it alone is searched."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9000, 8)) / math.sqrt(8)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    y = np.clip(X[:, 0] + 0.1 * rng.normal(size=9000), -1, 1)
    shared = {"target_range": (-1, 1), "data_norm": 1.0, "random_state": 0}
    model = DPRidgeCV(1.0, penalty_groups=["a"] * 4 + ["b"] * 4, **shared).fit(X, y)
    plain = DPRidgeCV(1.0, **shared).fit(X, y)
    assert model.alpha_[-1] == plain.alpha_ < 1.0
