"""The estimators for the worst group: groups and their ways in, plan, noise, audit, quality."""

import functools
import gc
import inspect
import itertools
import json
import math
import pickle
import warnings
import weakref

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from fit_cases import remember_schedules
from plain_noise import scale_noise, use_plain_noise
from scipy import stats
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from skdp import DPLogisticRegression, DPRidge, PrivacyLeakWarning
from skdp.algorithms import MaxGroupLossPlan
from skdp.algorithms.saddle_output_perturbation import SaddleOutputPerturbationPlan
from skdp.mechanisms import NoiseSource
from skdp.preprocessing import BoundedScaler
from skdp.privacy import tightest_epsilon
from skdp.problems import (
    GroupWeights,
    HalfSquaredLoss,
    LogisticLoss,
    MaxGroupLossProblem,
    Records,
)
from skdp.robust import DPMaxGroupLossClassifier, DPMaxGroupLossRegressor
from skdp.solvers import solve_certified

MODES = ("proportions", "public", "histogram", "floored")
NAMES = ["most", "few"]

every_mode = pytest.mark.parametrize("mode", MODES)


#: Most fits here do not care how large the groups are.
pytestmark = pytest.mark.filterwarnings("ignore:group_proportions were not declared")


#: Of the saddle methods; the method "gradient" has tests of its own.
SADDLE = {
    "method": "phased",
    "group_mode": "proportions",
    "max_group_weight": 10.0,
    "histogram_share": 0.1,
    "intercept_scaling": 0.1,
}


def classifier(*args, **kwargs):
    defaults = {"classes": [0, 1], "group_names": NAMES, "random_state": 0, **SADDLE}
    return DPMaxGroupLossClassifier(*args, **{**defaults, **kwargs})


def regressor(*args, **kwargs):
    defaults = {"group_names": NAMES, "target_range": (-1, 2), "random_state": 0, **SADDLE}
    return DPMaxGroupLossRegressor(*args, **{**defaults, **kwargs})


MODELS = {"classifier": classifier, "regressor": regressor}
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


def conflicting(n, seed=0, d=6, share=0.15):
    """Two groups who cannot both be served: each has a direction of its own that decides.

    Rows are uniform on the unit sphere. The label is the sign of the first feature for most
    records, and of the second one for a `share` of them; 5 % of labels are turned around. The
    bisector of the two directions is right for 72.5 % of either group.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    groups = np.where(rng.random(n) < share, "few", "most")
    y = np.where(groups == "few", X[:, 1], X[:, 0]) > 0
    return X, (y ^ (rng.random(n) < 0.05)).astype(int), groups


X, Y, GROUPS = conflicting(120, 5, d=3, share=0.3)


# ------------------------------------------------------------------------------ scikit-learn's own


@pytest.mark.mostly("slow", 1)
@pytest.mark.parametrize(
    "estimator",
    [
        DPMaxGroupLossClassifier(),
        DPMaxGroupLossClassifier(delta=0, loss="hinge", group_mode="public", method="output"),
        DPMaxGroupLossClassifier(
            10.0, loss="squared_hinge", group_mode="histogram", release_group_weights=True
        ),
        DPMaxGroupLossClassifier(group_mode="floored", loss="smoothed_hinge", fit_intercept=False),
        DPMaxGroupLossClassifier(0.5, calibration="paper", method="phased"),
        DPMaxGroupLossRegressor(),
        DPMaxGroupLossRegressor(delta=0, loss="huber", group_mode="histogram", method="phased"),
        DPMaxGroupLossRegressor(
            loss="quantile", group_mode="floored", release_group_weights=True, method="output"
        ),
        DPMaxGroupLossRegressor(0.5, calibration="paper", loss="absolute_error"),
        DPMaxGroupLossRegressor(group_mode="public", objective="population", alpha=0.1),
    ],
    ids=repr,
)
def test_check_estimator(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        warnings.simplefilter("ignore", SkipTestWarning)
        results = check_estimator(estimator, on_fail=None, on_skip=None)
    assert len(results) > 40
    assert not [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"]
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    assert skipped <= {"check_array_api_input"}  # needs an optional package
    assert not any(r["expected_to_fail"] for r in results)


@every_model
def test_clone_pickle_and_repr(model):
    fitted = model(
        2.0, 1e-5, group_proportions={"most": 0.7, "few": 0.3}, release_group_weights=True
    )
    fitted.fit(X, Y, groups=GROUPS)
    assert clone(fitted).get_params() == fitted.get_params()
    parameters = set(inspect.signature(type(fitted)).parameters)
    assert set(fitted.get_params()) == parameters
    stored = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(stored.predict(X), fitted.predict(X))
    assert stored.privacy_ == fitted.privacy_
    assert "few" in repr(fitted) and "quantile" not in repr(fitted)
    assert "release_group_weights" in fitted._repr_html_()


def test_one_description_of_the_parameters():
    """Both docstrings and signatures say the same about the parameters that both have."""
    first, second = (
        {name: p.default for name, p in inspect.signature(cls).parameters.items()}
        for cls in (DPMaxGroupLossClassifier, DPMaxGroupLossRegressor)
    )
    both = (set(first) & set(second)) - {"loss"}
    assert {name: first[name] for name in both} == {name: second[name] for name in both}
    for cls, names in ((DPMaxGroupLossClassifier, first), (DPMaxGroupLossRegressor, second)):
        assert all(f"\n    {name} : " in cls.__doc__ for name in names)


@functools.cache
def pickled_fit(model):
    return pickle.dumps(model().fit(X, Y, groups=GROUPS))


@every_model
@pytest.mark.parametrize(
    ("parameters", "error", "words"),
    [
        ({"group_mode": "private"}, ValueError, "group_mode"),
        ({"group_mode": None}, ValueError, "group_mode"),
        ({"max_group_weight": 0.99}, ValueError, "max_group_weight"),
        ({"max_group_weight": math.nan}, ValueError, "max_group_weight"),
        ({"max_group_weight": math.inf}, ValueError, "max_group_weight"),
        ({"max_group_weight": "10"}, TypeError, "max_group_weight"),
        ({"histogram_share": 0.0}, ValueError, "histogram_share"),
        ({"histogram_share": 1.0}, ValueError, "histogram_share"),
        ({"histogram_share": True}, TypeError, "histogram_share"),
        ({"release_group_weights": "yes"}, ValueError, "release_group_weights"),
        ({"release_group_weights": None}, ValueError, "release_group_weights"),
        ({"neighbouring": "add_remove"}, ValueError, "neighbouring"),
        ({"method": "exponential"}, ValueError, "method"),
        ({"method": "gradient", "group_mode": "floored"}, ValueError, "floored"),
        ({"method": "gradient", "delta": 0.0}, ValueError, "delta > 0"),
        ({"solver": "newton"}, ValueError, "newton"),
        ({"calibration": "paper", "method": "output"}, ValueError, "calibration"),
        ({"calibration": "paper", "release_group_weights": True}, ValueError, "coefficients"),
        ({"calibration": "paper", "group_mode": "histogram"}, ValueError, "histogram"),
        ({"calibration": "paper", "epsilon": 2.0}, ValueError, "epsilon < 2"),
        ({"calibration": "paper", "delta": 0.0}, ValueError, "delta > 0"),
        ({"epsilon": 0.0}, ValueError, "epsilon"),
        ({"loss": "log"}, ValueError, "loss"),
        ({"group_names": []}, ValueError, "group_names"),
        ({"group_names": "most"}, ValueError, "group_names"),
        ({"group_names": [["most", "few"]]}, ValueError, "group_names"),
        ({"group_names": ["most", "few", "most"]}, ValueError, "twice"),
        ({"group_names": ["most", "few", None]}, ValueError, "group_names contains missing"),
        ({"group_names": ["most", "few", math.nan]}, ValueError, "group_names contains missing"),
        ({"group_names": ["most", "few", 3]}, ValueError, "group_names mixes strings"),
        ({"group_names": ["most"]}, ValueError, "group_names"),
        ({"group_names": [0, 1]}, ValueError, "group_names"),
        ({"group_proportions": [1.0]}, ValueError, "group_proportions"),
        ({"group_proportions": 0.5}, ValueError, "group_proportions"),
        ({"group_proportions": [0.5, 0.3, 0.2]}, ValueError, "group_proportions"),
        ({"group_proportions": [1.5, -0.5]}, ValueError, "group_proportions"),
        ({"group_proportions": [math.nan, 1.0]}, ValueError, "group_proportions"),
        ({"group_proportions": [math.inf, 0.0]}, ValueError, "group_proportions"),
        ({"group_proportions": [0.5, 0.4]}, ValueError, "sum to 0.9"),
        ({"group_proportions": ["0.5", "0.5"]}, ValueError, "group_proportions"),
        ({"group_proportions": "equal"}, ValueError, "group_proportions"),
        ({"group_proportions": [[0.5, 0.5]]}, ValueError, "group_proportions"),
        ({"group_proportions": {"most": 1.0}}, ValueError, "keys"),
        ({"group_proportions": {"most": 0.5, "few": 0.4, "else": 0.1}}, ValueError, "keys"),
        ({"group_proportions": {0: 0.5, 1: 0.5}}, ValueError, "keys"),
        ({"group_proportions": {"most": 0.5, "few": None}}, ValueError, "group_proportions"),
        *[
            ({"group_proportions": [0.5, 0.5], "group_mode": mode}, ValueError, "proportions")
            for mode in MODES[1:]
        ],
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_refused_parameters_leave_the_model_as_it_was(model, parameters, error, words):
    fitted = pickle.loads(pickled_fit(model))
    before = pickle.dumps({k: v for k, v in vars(fitted).items() if k not in parameters})
    fitted.set_params(**parameters)
    with pytest.raises(error, match=words):
        fitted.fit(X[:, :2], Y, groups=GROUPS)
    after = pickle.dumps({k: v for k, v in vars(fitted).items() if k not in parameters})
    assert after == before


# ------------------------------------------------------------------------------------- odd groups


@every_model
@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (np.where(GROUPS == "few", "else", GROUPS), "group_names"),
        (GROUPS[:-1], "groups has shape"),
        (GROUPS[:, None], "1-dimensional"),
        (np.array("most"), "1-dimensional"),
        (set(GROUPS), "1-dimensional"),
        ([None, *GROUPS[1:]], "missing"),
        ([math.nan, *GROUPS[1:]], "missing"),
        (pd.Series([pd.NA, *GROUPS[1:]]), "missing"),
        (pd.Series([pd.NA, *GROUPS[1:]], dtype="string"), "missing"),
        (pd.Series([pd.NaT, *GROUPS[1:]], dtype=object), "missing"),
        (pd.Categorical([None, *GROUPS[1:]]), "missing"),
        (pl.Series([None, *GROUPS[1:]]), "missing"),
        (np.array([math.nan, *GROUPS[1:]], dtype=object), "missing"),
        (np.where(GROUPS == "few", 1.0, math.nan), "missing"),
        (pd.Series([pd.NA, *[1] * 119], dtype="Int64"), "missing"),
        (np.array(["NaT"] + ["2020-01-01"] * 119, dtype="datetime64[D]"), "missing"),
        ([7, *GROUPS[1:]], "mixes strings"),
        (np.array([True, *GROUPS[1:]], dtype=object), "mixes strings"),
        ((GROUPS == "few").astype(int), "group_names"),
        (np.full(120, b"most"), "group_names"),
        (None, "given no groups"),
    ],
)
def test_refused_groups(model, groups, words):
    fitted = model().fit(X, Y, groups=GROUPS)
    before = pickle.dumps(vars(fitted))
    with pytest.raises(ValueError, match=words):
        fitted.fit(X, Y, groups=groups)
    assert pickle.dumps(vars(fitted)) == before
    assert not hasattr(fitted, "_membership")


@every_model
def test_sample_weights_are_refused(model):
    with pytest.raises(ValueError, match="sample_weight"):
        model().fit(X, Y, groups=GROUPS, sample_weight=np.ones(120))
    with pytest.raises(TypeError, match="group_weight"):
        model().fit(X, Y, groups=GROUPS, group_weight=np.ones(120))


FEW = GROUPS == "few"


@pytest.mark.mostly("slow", 3)
@every_model
@pytest.mark.parametrize(
    ("groups", "names"),
    [
        (GROUPS.tolist(), NAMES),
        (tuple(GROUPS), tuple(NAMES)),
        (GROUPS.astype(object), np.array(NAMES, dtype=object)),
        (pd.Series(GROUPS, index=range(500, 620)), pd.Series(NAMES)),
        (pd.Series(GROUPS, dtype="string"), NAMES),
        (pd.Series(GROUPS, dtype="category"), NAMES),
        (pd.Categorical(GROUPS, categories=["unused", *NAMES]), NAMES),
        (pl.Series(GROUPS), pl.Series(NAMES)),
        (pl.Series(GROUPS, dtype=pl.Categorical), NAMES),
        (np.where(FEW, 0, 1), [1, 0]),
        (np.where(FEW, 0, 1).astype(np.uint8), [1.0, 0.0]),
        (np.where(FEW, 0, 1).astype(object), [1, 0]),
        (pd.Series(np.where(FEW, 0, 1), dtype="Int64"), [1, 0]),
        (pl.Series(np.where(FEW, 0, 1)), [1, 0]),
        (np.where(FEW, -0.5, 2.5), [2.5, -0.5]),
        (~FEW, [True, False]),
        (pd.Series(~FEW, dtype="boolean"), [True, False]),
        ((~FEW).tolist(), [True, False]),
        (np.where(FEW, "2020-01-01", "2021-01-01").astype("datetime64[D]"), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_kinds_of_groups(model, groups, names):
    """Whatever the groups are called and however they are stored, the fit is the same."""
    expected = model(group_proportions=[0.7, 0.3]).fit(X, Y, groups=GROUPS)
    assert expected.group_names_.tolist() == ["few", "most"]
    if names is None:
        fitted = model(group_names=None, group_proportions=[0.3, 0.7])
        with pytest.warns(PrivacyLeakWarning, match="group_names"):
            fitted.fit(X, Y, groups=groups)
    else:
        fitted = model(group_names=names, group_proportions=[0.7, 0.3]).fit(X, Y, groups=groups)
        assert list(fitted.group_names_) == sorted(names)
    np.testing.assert_array_equal(fitted.coef_, expected.coef_)
    assert fitted.group_scores(X, Y, groups).tolist() == (
        expected.group_scores(X, Y, GROUPS).tolist()
    )


@every_model
def test_inferred_group_names_are_a_leak(model):
    names = ["few", "most"]
    declared = model(group_names=names, group_mode="floored").fit(X, Y, groups=GROUPS)  # silently
    with pytest.warns(PrivacyLeakWarning, match="`group_names`") as caught:
        inferred = model(group_names=None, group_mode="floored").fit(X, Y, groups=GROUPS)
    leaks = [warning for warning in caught if warning.category is PrivacyLeakWarning]
    assert len(leaks) == 1 and leaks[0].filename == __file__
    assert "group_names were inferred from groups" in inferred.privacy_.caveats
    assert inferred.group_names_.tolist() == declared.group_names_.tolist()
    np.testing.assert_array_equal(inferred.coef_, declared.coef_)
    assert not [text for text in declared.privacy_.caveats if "group" in text]
    public = model(group_mode="public").fit(X, Y, groups=GROUPS)
    assert any("not protected" in text for text in public.privacy_.caveats)
    assert "not protected" in str(public.privacy_)


@pytest.mark.mostly("slow", 4)
@every_model
@every_mode
def test_empty_groups(model, mode):
    fitted = model(group_mode=mode, group_names=[*NAMES, "none", "nobody"])
    fitted.fit(X, Y, groups=GROUPS)
    scores = fitted.group_scores(X, Y, GROUPS)
    assert fitted.group_names_.tolist() == ["few", "most", "nobody", "none"]
    assert np.isfinite(scores[:2]).all() and np.isnan(scores[2:]).all()


@every_mode
def test_one_group_is_the_plain_model(mode):
    """As good as output perturbation for the mean, in every mode: there is nothing to estimate."""
    features, y, _ = conflicting(20000, 1, share=0.0)
    groups = np.zeros(len(y), dtype=int)
    plain = DPLogisticRegression(classes=[0, 1], method="output", random_state=0)
    plain.fit(features, y)
    robust = classifier(group_mode=mode, group_names=[0]).fit(features, y, groups=groups)
    assert robust.score(features, y) == pytest.approx(plain.score(features, y), abs=0.02)
    target = 0.8 * features[:, 0]
    line = DPRidge(method="phased", random_state=0).fit(features, target)
    robust = regressor(group_mode=mode, group_names=None, target_range=(-1, 1))
    robust.fit(features, target)
    assert robust.group_names_.tolist() == [0]
    expected = line.score(features, target)
    assert expected > 0.9
    assert robust.score(features, target) == pytest.approx(expected, abs=0.05)
    assert robust.group_scores(features, target, groups) == [robust.score(features, target)]


@pytest.mark.mostly("slow", 4)
@every_mode
@pytest.mark.parametrize("names", [["no", "yes"], ["yes", "no"], [0, 1], [3, 1, 2]])
def test_classes_are_the_default_groups(mode, names):
    sorted_names = np.sort(names)
    y = sorted_names[np.arange(120) % len(names)]
    fitted = classifier(group_mode=mode, group_names=None, classes=names).fit(X, y)
    np.testing.assert_array_equal(fitted.group_names_, fitted.classes_)
    explicit = clone(fitted).set_params(group_names=names).fit(X, y, groups=y)
    np.testing.assert_array_equal(fitted.coef_, explicit.coef_)
    recall = [np.mean(fitted.predict(X[y == name]) == name) for name in sorted_names]
    np.testing.assert_allclose(fitted.group_scores(X, y, y), recall)
    with pytest.warns(PrivacyLeakWarning, match="`classes`") as caught:
        inferred = clone(fitted).set_params(classes=None).fit(X, y)
    assert [warning.category for warning in caught].count(PrivacyLeakWarning) == 1
    np.testing.assert_array_equal(inferred.group_names_, sorted_names)
    np.testing.assert_array_equal(inferred.coef_, fitted.coef_)


def test_proportions_of_classes():
    """Without groups a dict has the classes as its keys."""
    y = np.where(Y == 1, "yes", "no")
    shares = {"yes": 0.8, "no": 0.2}
    by_name = classifier(group_names=None, classes=["no", "yes"], group_proportions=shares)
    by_name.fit(X, y)
    assert by_name.privacy_.plan["largest_group_weights"] == [5.0, 1.25]
    with pytest.raises(ValueError, match="keys"):
        by_name.set_params(group_proportions={0: 0.2, 1: 0.8}).fit(X, y)


@pytest.mark.slow
@every_model
def test_order_of_proportions(model):
    """In the order of the declared names, which need not be sorted, or by name: one fit."""
    fits = [
        model(group_names=names, group_proportions=proportions).fit(X, Y, groups=GROUPS)
        for names, proportions in [
            (["most", "few"], [0.8, 0.2]),
            (["few", "most"], [0.2, 0.8]),
            (["most", "few"], np.array([0.8, 0.2])),
            (["most", "few"], {"few": 0.2, "most": 0.8}),
            (np.array(["few", "most"]), {"few": 0.2, "most": 0.8}),
        ]
    ]
    for fitted in fits:
        assert fitted.privacy_.plan["largest_group_weights"] == [5.0, 1.25]
        np.testing.assert_array_equal(fitted.coef_, fits[0].coef_)
    other = model(group_proportions=[0.2, 0.8]).fit(X, Y, groups=GROUPS)
    assert (other.coef_ != fits[0].coef_).any()
    capped = model(group_proportions=[0.99, 0.01], max_group_weight=3.0).fit(X, Y, groups=GROUPS)
    assert capped.privacy_.plan["largest_group_weights"] == pytest.approx([3.0, 1 / 0.99])
    equal = model().fit(X, Y, groups=GROUPS)
    assert equal.privacy_.plan["largest_group_weights"] == [2.0, 2.0]


@pytest.mark.mostly("slow", 1)
@every_model
@every_mode
def test_nothing_of_the_groups_stays(model, mode):
    features, y, groups = X.copy(), Y.copy(), GROUPS.copy()
    references = [weakref.ref(thing) for thing in (features, y, groups)]
    fitted = model(group_mode=mode, release_group_weights=True)
    before = set(vars(fitted))
    fitted.fit(features, y, groups=groups)
    del features, y, groups
    gc.collect()
    assert [reference() for reference in references] == [None] * 3
    added = set(vars(fitted)) - before
    public = {
        "coef_",
        "intercept_",
        "alpha_",
        "data_norm_",
        "privacy_",
        "n_features_in_",
        "group_names_",
    }
    allowed = public | {"classes_", "group_weights_", "group_proportions_", "_group_column"}
    assert public <= added <= allowed
    assert fitted._group_column is None
    sizes = [np.size(value) for value in vars(fitted).values()]
    assert max(sizes) <= 4
    assert not any(len(GROUPS) == np.size(v) for v in fitted.privacy_.plan.values())


@every_model
def test_group_weights_of_an_earlier_fit_are_gone(model):
    fitted = model(release_group_weights=True).fit(X, Y, groups=GROUPS)
    assert fitted.group_weights_.shape == (2,)
    fitted.set_params(release_group_weights=False).fit(X, Y, groups=GROUPS)
    assert not hasattr(fitted, "group_weights_")


# ----------------------------------------------------------------- frames, pipelines, and searches


@pytest.mark.mostly("slow", 2)
@every_model
@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_groups_in_a_column(model, make):
    columns = {f"x{j}": X[:, j] for j in range(3)}
    plain = make(columns)
    frame = make({"x0": X[:, 0], "group": GROUPS, "x1": X[:, 1], "x2": X[:, 2]})
    expected = model().fit(plain, Y, groups=GROUPS)
    fitted = model().fit(frame, Y, groups="group")
    assert fitted.feature_names_in_.tolist() == ["x0", "x1", "x2"]
    assert fitted.n_features_in_ == 3
    np.testing.assert_array_equal(fitted.coef_, expected.coef_)
    methods = ["predict"]
    if model is classifier:
        methods += ["decision_function", "predict_proba", "predict_log_proba"]
    for method in methods:
        answers = [getattr(fitted, method)(data) for data in (frame, plain)]
        np.testing.assert_array_equal(*answers)
        with pytest.warns(UserWarning, match="feature names"):
            np.testing.assert_allclose(getattr(fitted, method)(X), answers[0], rtol=1e-9)
        if make is pd.DataFrame:  # a model for arrays of groups has no column to leave out
            with pytest.raises(ValueError, match="group"):
                getattr(expected, method)(frame)
    assert fitted.score(frame, Y) == fitted.score(plain, Y)
    scores = expected.group_scores(plain, Y, GROUPS)
    for other, data, groups in [
        (fitted, frame, "group"),
        (fitted, frame, GROUPS),
        (fitted, plain, GROUPS),
        (expected, frame, "group"),
    ]:
        np.testing.assert_array_equal(other.group_scores(data, Y, groups), scores)
    assert fitted.fit(plain, Y, groups=GROUPS)._group_column is None
    # a name as long as there are records
    few = make({"ab": ["most", "few"], "x": [0.5, 0.1]})
    assert model().fit(few, [0, 1], groups="ab").n_features_in_ == 1


@every_model
@pytest.mark.parametrize("data", [X, X.tolist(), sp.csr_matrix(X), pd.DataFrame(X)])
def test_no_such_column(model, data):
    fitted = model()
    with pytest.raises(ValueError, match="'group' is the name of a column"):
        fitted.fit(data, Y, groups="group")
    assert not hasattr(fitted, "coef_")
    with pytest.raises(NotFittedError):
        fitted.group_scores(data, Y, "group")
    with pytest.raises(ValueError, match="'group' is the name of a column"):
        fitted.fit(data, Y, groups=GROUPS).group_scores(data, Y, "group")


@every_model
def test_group_scores(model):
    fitted = model(50.0).fit(X, Y, groups=GROUPS)
    expected = [fitted.score(X[rows], Y[rows]) for rows in (FEW, ~FEW)]
    index = range(300, 420)
    for container in (
        np.asarray, np.asfortranarray, np.ndarray.tolist, sp.csr_matrix, sp.coo_matrix,
        sp.csc_array, lambda data: pd.DataFrame(data, index=index), pl.DataFrame,
    ):  # fmt: skip
        if container is pl.DataFrame:
            fitted = clone(fitted).fit(container(X), Y, groups=GROUPS)
        scores = fitted.group_scores(container(X), pd.Series(Y, index=index), GROUPS.tolist())
        np.testing.assert_allclose(scores, expected, rtol=1e-12)
    fitted = clone(fitted).fit(X, Y, groups=GROUPS)
    with pytest.raises(ValueError, match="not seen in fit"):
        fitted.group_scores(X, Y, np.full(120, "else"))
    with pytest.raises(ValueError, match="not seen in fit"):
        fitted.group_scores(X, Y, np.zeros(120, dtype=int))
    for shorter in [(X[:-1], Y, GROUPS), (X, Y[:-1], GROUPS), (X, Y, GROUPS[:-1])]:
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            fitted.group_scores(*shorter)


@pytest.fixture
def seen(monkeypatch):
    """The groups that reach fits."""
    calls, original = [], DPMaxGroupLossClassifier.fit

    def fit(self, X, y, groups=None, **fit_params):
        calls.append(groups)
        return original(self, X, y, groups, **fit_params)

    monkeypatch.setattr(DPMaxGroupLossClassifier, "fit", fit)
    return calls


def routed():
    return classifier().set_fit_request(groups=True)


def piped(model):
    return make_pipeline(BoundedScaler((-1, 1)), model)


FOLDS = [GROUPS[train] for train, _ in KFold(3).split(X)]
GRID = {"epsilon": [0.5, 5.0]}
PIPED_GRID = {"dpmaxgrouplossclassifier__epsilon": [0.5, 5.0]}


@pytest.mark.slow
@pytest.mark.parametrize("wrap", [lambda model: model, piped], ids=["bare", "pipeline"])
def test_metadata_routing(wrap, seen):
    """The groups of the training records reach every fit."""
    grid = PIPED_GRID if wrap is piped else GRID
    with config_context(enable_metadata_routing=True):
        wrap(routed()).fit(X, Y, groups=GROUPS)
        np.testing.assert_array_equal(seen.pop(), GROUPS)
        for validate in (cross_validate, cross_val_score):
            kwargs = {"error_score": "raise", "cv": KFold(3)}
            validate(wrap(routed()), X, Y, params={"groups": GROUPS}, **kwargs)
            for got, expected in zip(seen, FOLDS, strict=True):
                np.testing.assert_array_equal(got, expected)
            seen.clear()
        search = GridSearchCV(wrap(routed()), grid, cv=KFold(3), error_score="raise")
        search.fit(X, Y, groups=GROUPS)
        for got, expected in zip(seen, [*FOLDS * 2, GROUPS], strict=True):
            np.testing.assert_array_equal(got, expected)
        seen.clear()
        cross_validate(search, X, Y, params={"groups": GROUPS}, cv=KFold(3), error_score="raise")
        assert len(seen) == 3 * 7 and all(len(groups) in (53, 54, 80) for groups in seen)
        outer = Pipeline([("scale", BoundedScaler((-1, 1))), ("search", search)])
        outer.fit(X, Y, groups=GROUPS).predict(X)


def test_metadata_that_nobody_asked_for_is_an_error():
    with config_context(enable_metadata_routing=True):
        with pytest.raises(ValueError, match="groups"):
            cross_validate(classifier(), X, Y, params={"groups": GROUPS}, error_score="raise")
        refusing = piped(classifier().set_fit_request(groups=False))
        with pytest.raises(TypeError, match="groups"):
            refusing.fit(X, Y, groups=GROUPS)


def test_a_column_is_routed_by_its_name(seen):
    """Only numbers of records are cut into folds, not names."""
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(group=GROUPS)
    with config_context(enable_metadata_routing=True):
        search = GridSearchCV(routed(), GRID, cv=KFold(3), error_score="raise")
        search.fit(frame, Y, groups="group")
    cross_validate(classifier(), frame, Y, params={"groups": "group"}, error_score="raise")
    assert seen == ["group"] * 12
    assert search.best_estimator_.feature_names_in_.tolist() == ["a", "b", "c"]
    search.predict(frame)


@pytest.mark.slow
def test_groups_without_routing(seen):
    with config_context(enable_metadata_routing=False):
        steps = [("scale", BoundedScaler((-1, 1))), ("clf", classifier())]
        Pipeline(steps).fit(X, Y, clf__groups=GROUPS).predict(X)
        np.testing.assert_array_equal(seen.pop(), GROUPS)
        kwargs = {"cv": KFold(3), "error_score": "raise"}
        cross_validate(classifier(), X, Y, params={"groups": GROUPS}, **kwargs)
        cross_validate(Pipeline(steps), X, Y, params={"clf__groups": GROUPS}, **kwargs)
        cross_val_score(classifier(), X, Y, params={"groups": GROUPS}, **kwargs)
        search = GridSearchCV(Pipeline(steps), {"clf__epsilon": [0.5, 5.0]}, **kwargs)
        search.fit(X, Y, clf__groups=GROUPS)
        for got, expected in zip(seen, [*FOLDS * 5, GROUPS], strict=True):
            np.testing.assert_array_equal(got, expected)
        # a search keeps `groups` for its splitter; the declared names turn that into an error
        with pytest.raises(ValueError, match="given no groups"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The groups parameter is ignored")
            GridSearchCV(classifier(), GRID, **kwargs).fit(X, Y, groups=GROUPS)


# ------------------------------------------------------------------------------------ public plan


def other_data(n, d, seed):
    """Unlike X, Y: out of all ranges, one label, nearly one group."""
    rng = np.random.default_rng(seed)
    features = rng.choice([-1e200, 0.0, 3.0], (n, d))
    return features, np.ones(n, dtype=int), np.where(np.arange(n) < n - 1, "few", "most")


@pytest.mark.mostly("slow", 5)
@every_model
@every_mode
@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_report_is_public(model, mode, container):
    """Data sets of one shape, however different, have one report.

    With public groups these must agree; with a histogram those released with the same noise do
    if the sizes of the groups agree.
    """
    reports = []
    for features, y, groups in ((X, Y, GROUPS), other_data(*X.shape, 1), (0 * X, 1 - Y, GROUPS)):
        if mode == "public":
            groups = GROUPS
        elif mode == "histogram":
            groups = np.sort(GROUPS)[:: 1 if features is X else -1]
        for weights in (False, True):
            fitted = model(group_mode=mode, release_group_weights=weights)
            fitted.fit(container(features), y, groups=groups)
            reports.append((json.dumps(fitted.privacy_.to_dict()), fitted.alpha_, weights))
    assert len(set(reports)) == 2
    report = json.loads(reports[0][0])
    assert report["plan"]["group_mode"] == mode
    assert report["plan"]["regularisation"] and report["plan"]["other_regularisation"] > 0


@every_model
@pytest.mark.parametrize("method", ["output", "phased"])
def test_a_fit_plans_once(model, method, monkeypatch):
    plans, create = [], MaxGroupLossPlan.__init__

    def counted(self, *args, **kwargs):
        create(self, *args, **kwargs)
        plans.append(self)

    monkeypatch.setattr(MaxGroupLossPlan, "__init__", counted)
    model(method=method).fit(X, Y, groups=GROUPS)
    assert len(plans) == 1 and math.isfinite(plans[0].bound())


@pytest.mark.slow
def test_public_parameters_show_in_the_report():
    """The comparison above is not empty."""
    reports = set()
    for change in (
        {}, {"epsilon": 2.0}, {"delta": 0.0}, {"data_norm": 2.0}, {"coef_norm": 0.3},
        {"group_proportions": [0.7, 0.3]}, {"max_group_weight": 1.5}, {"group_mode": "floored"},
        {"group_mode": "histogram"}, {"group_mode": "histogram", "histogram_share": 0.2},
        {"release_group_weights": True}, {"alpha": 0.5}, {"method": "output"}, {"loss": "hinge"},
        {"objective": "population"}, {"group_names": [*NAMES, "else"]}, {"fit_intercept": False},
    ):  # fmt: skip
        fitted = classifier(**change).fit(X, Y, groups=GROUPS)
        reports.add(json.dumps(fitted.privacy_.to_dict()))
    assert len(reports) >= 16  # "output" may be what was chosen before


@every_model
def test_report(model):
    features, y, groups = conflicting(3000, 1)
    fitted = model(20.0, coef_norm=2.0).fit(features, y, groups=groups)
    report, plan = fitted.privacy_, fitted.privacy_.plan
    assert report.method == "phased" and len(plan["block_sizes"]) > 1
    assert sum(plan["block_sizes"]) == 3000 == report.releases[0].n_records
    assert fitted.alpha_ == 0.0
    printed = str(report)
    assert "phases: " + ", ".join(map(str, plan["block_sizes"])) in printed
    assert "replace-one" in printed
    once = model(20.0, method="output", alpha=0.25).fit(features, y, groups=groups)
    assert once.privacy_.method == "output"
    assert once.alpha_ == 0.25 + once.privacy_.plan["regularisation"][0]


# ----------------------------------------------------------------------------- releases and budget


@pytest.mark.mostly("slow", 1)
@pytest.mark.parametrize("delta", [1e-5, 0.0])
@every_mode
@every_model
def test_budget_is_spent_and_not_exceeded(model, mode, delta):
    for weights, method, epsilon in itertools.product(
        (False, True), ("output", "phased"), (0.1, 1.0, 20.0)
    ):
        fitted = model(
            epsilon, delta, group_mode=mode, method=method, release_group_weights=weights
        ).fit(X, Y, groups=GROUPS)
        report = fitted.privacy_
        assert (report.epsilon, report.delta) == (epsilon, delta)
        assert len(report.releases) == (2 if mode == "histogram" else 1)
        total = tightest_epsilon(report.event, delta)
        assert 0.999 * epsilon <= total <= epsilon * (1 + 1e-9)
        released = report.releases[-1]
        outputs = 2 if weights else 0
        assert released.dimension == 4 + outputs
        assert ("group weights" in released.name) == weights


@pytest.mark.parametrize("mode", ["proportions", "public", "floored"])
@every_model
def test_published_calibration_is_within_the_budget(model, mode):
    report = model(0.5, calibration="paper", group_mode=mode).fit(X, Y, groups=GROUPS).privacy_
    assert tightest_epsilon(report.event, report.delta) <= 0.5
    assert report.method == "phased" and len(set(report.plan["block_sizes"])) <= 2


@pytest.mark.parametrize("share", [0.1, 0.6])
def test_composition_against_dp_accounting(share):
    """Two Gaussians with the noise that the report states cost epsilon by Google's accountant."""
    dp_accounting = pytest.importorskip("dp_accounting")
    fitted = classifier(1.0, 1e-5, group_mode="histogram", histogram_share=share)
    releases = fitted.fit(X, Y, groups=GROUPS).privacy_.releases
    assert [release.name for release in releases] == ["group proportions", "coefficients"]
    oracle = dp_accounting.pld.PLDAccountant()
    for release in releases:
        multiplier = release.noise_scale / release.sensitivity
        oracle.compose(dp_accounting.GaussianDpEvent(multiplier))
    assert oracle.get_epsilon(1e-5) == pytest.approx(1.0, rel=2e-3)


def problem_of(fitted, features, y, groups):
    """The saddle problem that a one-shot fit without intercept solves."""
    plan = fitted.privacy_.plan
    rows = Records(features, fitted.data_norm_, 0.0)
    loss, targets = LogisticLoss(), np.asarray(y, dtype=float)
    if isinstance(fitted, DPMaxGroupLossRegressor):
        low, high = fitted.target_range
        loss, targets = HalfSquaredLoss(float(max(-low, high))), np.clip(targets, low, high)
    return MaxGroupLossProblem(
        rows.with_targets(targets, np.searchsorted(fitted.group_names_, groups)),
        loss,
        GroupWeights(tuple(plan["largest_group_weights"]), fitted.group_mode == "floored"),
        plan["radius"],
        plan["alpha"] + plan["regularisation"][0],
        plan["other_regularisation"],
    )


@pytest.mark.audit
@every_model
@every_mode
@pytest.mark.parametrize("delta", [1e-3, 0.0])
def test_noise_law(model, mode, delta, monkeypatch):
    """Fits minus the exact solution, in units of the reported scale: standard noise.

    Squared lengths of Gaussian noise add up to a chi-squared number, lengths of spherical Laplace
    noise to a Gamma number. False alarms: 1e-4 per test; the seeds are fixed.
    """
    remember_schedules(monkeypatch)
    fits = 60 if mode != "histogram" else 20
    fitted = model(
        30.0, delta, group_mode=mode, method="output", alpha=2.0, fit_intercept=False, coef_norm=2.0
    )
    lengths = []
    exact = None
    for seed in range(fits):
        fitted.set_params(random_state=seed).fit(X, Y, groups=GROUPS)
        release, radius = fitted.privacy_.releases[-1], fitted.privacy_.plan["radius"]
        assert np.linalg.norm(fitted.coef_) < 0.99 * radius  # nothing was projected
        if exact is None or mode == "histogram":
            problem = problem_of(fitted, X, Y, GROUPS)
            exact = solve_certified(problem, 1e-3 * release.noise_scale).x
        lengths.append(np.linalg.norm(np.ravel(fitted.coef_) - exact) / release.noise_scale)
    law, statistic = stats.chi2(3 * fits), float(np.square(lengths).sum())
    if delta == 0:
        law, statistic = stats.gamma(3 * fits), float(np.sum(lengths))
    assert law.ppf(5e-5) <= statistic <= law.isf(5e-5)


@pytest.mark.audit
@pytest.mark.parametrize("delta", [1e-3, 0.0])
def test_noise_law_of_proportions(delta):
    """Proportions are released with the stated noise. False alarms: 1e-4 per test."""
    fits, counts = 40, np.array([FEW.sum(), (~FEW).sum()]) / 120
    fitted = classifier(20.0, delta, group_mode="histogram", max_group_weight=1e9, method="output")
    lengths = []
    for seed in range(fits):
        fitted.set_params(random_state=seed).fit(X, Y, groups=GROUPS)
        release = fitted.privacy_.releases[0]
        released = 1.0 / np.array(fitted.privacy_.plan["largest_group_weights"])
        assert released.min() > 1e-6  # nothing was cut off
        lengths.append(np.linalg.norm(released - counts) / release.noise_scale)
    assert release.sensitivity == pytest.approx(math.sqrt(2) / 120)
    law, statistic = stats.chi2(2 * fits), float(np.square(lengths).sum())
    if delta == 0:
        law, statistic = stats.gamma(2 * fits), float(np.sum(lengths))
    assert law.ppf(5e-5) <= statistic <= law.isf(5e-5)


@pytest.mark.mostly("slow", 3)
@pytest.mark.parametrize("weights", [False, True], ids=["coefficients", "joint"])
@every_mode
def test_phases_are_solutions_plus_scaled_draws(mode, weights, monkeypatch):
    """Each phase draws once, and releases its projected solution plus that, times the scale."""
    drawn, steps, draw = [], [], NoiseSource.standard_normal
    step = SaddleOutputPerturbationPlan.run

    def recorded_draw(self, size):
        drawn.append(draw(self, size))
        return drawn[-1]

    def recorded_step(plan, problem, run):
        steps.append((problem, plan, step(plan, problem, run)))
        return steps[-1][-1]

    use_plain_noise(monkeypatch)
    monkeypatch.setattr(NoiseSource, "standard_normal", recorded_draw)
    monkeypatch.setattr(SaddleOutputPerturbationPlan, "run", recorded_step)
    features, y, groups = conflicting(4000, 3, d=4)
    fitted = classifier(100.0, group_mode=mode, release_group_weights=weights, coef_norm=3.0)
    fitted.fit(features, y, groups=groups)
    report, center = fitted.privacy_, np.zeros(5)
    if mode == "histogram":
        noise, release = drawn.pop(0), report.releases[0]
        sizes = np.array([np.sum(groups == name) for name in fitted.group_names_])
        proportions = sizes / 4000 + release.noise_scale * noise
        np.testing.assert_allclose(
            1 / np.array(report.plan["largest_group_weights"]), np.maximum(proportions, 0.1)
        )
    assert len(drawn) == len(steps) == len(report.plan["block_sizes"]) > 1
    for noise, (problem, plan, result) in zip(drawn, steps, strict=True):
        exact = solve_certified(problem, plan.accuracy)
        np.testing.assert_allclose(problem.center_x, center, atol=1e-12)
        noisy = exact.x + plan.noise_scale_x * noise[:5]
        allowed = 2 * plan.accuracy / math.sqrt(plan.constants.x.modulus)
        center = problem.domain_x.project(noisy)
        assert np.linalg.norm(result.x - center) <= allowed <= 0.05 * plan.noise_scale_x
        assert len(noise) == plan.dimension
        center = result.x
    final = np.r_[fitted.coef_.ravel(), fitted.intercept_ / 0.1]
    np.testing.assert_allclose(final, center, rtol=1e-12)
    assert report.releases[-1].noise_scale == steps[-1][1].mechanism.noise_scale
    if weights:
        weights_released = steps[-1][-1].y
        np.testing.assert_array_equal(fitted.group_weights_, weights_released)
        noisy = exact.y + plan.noise_scale_y * noise[5:]
        np.testing.assert_allclose(
            weights_released, problem.domain_y.project(noisy), atol=0.05 * plan.noise_scale_y
        )


# ------------------------------------------------------------------------------------------ audit

#: Probability that the audit of a correct cell fails; seeds are fixed, so it does or it does not.
RATE = 1e-4
CELLS = [
    ("proportions", 0.1, 0.3),
    ("histogram", 0.1, 0.3),
    ("floored", 0.1, 0.3),
    ("proportions", 2.0, 0.0),
    ("floored", 2.0, 0.0),
]
every_cell = pytest.mark.parametrize(("mode", "epsilon", "delta"), CELLS)
N_FITS = 400


def epsilon_lower_bound(n_first, n_second, delta):
    """Lower confidence bound on epsilon from two counts (Clopper-Pearson)."""
    p_low = stats.beta.ppf(RATE / 2, n_first, N_FITS - n_first + 1) if n_first else 0.0
    q_high = stats.beta.isf(RATE / 2, n_second + 1, N_FITS - n_second)
    return math.log((p_low - delta) / q_high) if p_low > delta else -math.inf


def audited_epsilon(mode, epsilon, delta):
    """Attack the coefficients of two neighbours, whose odd record also has another group.

    The two groups pull w in opposite directions, and their losses are nearly equal to their bound
    on a small ball: a record that changes its group moves the weights, and with them w, by about
    0.9 of what is proven. The set that speaks for one side is fixed before the fits: for Gaussian
    noise the half-line where the likelihood ratio under half of the noise exceeds e^epsilon,
    for Laplace noise what is nearer by 0.6 of the distance.
    """
    base = [(1, 1, "most"), (1, 0, "few")] * 50
    exact, counts, points = [], [], []
    for side, record in enumerate([(1, 1, "most"), (-1, 1, "few")]):
        features, y, groups = (np.array(column) for column in zip(record, *base[1:], strict=True))
        features = features[:, None].astype(float)
        fitted = classifier(
            epsilon, delta, group_mode=mode, alpha=8.0, coef_norm=0.05, fit_intercept=False,
            method="output", max_group_weight=1.5,
        )  # fmt: skip
        plan = fitted.fit(features, y, groups=groups).privacy_.plan
        # noisy proportions hardly ever lead to other weights than the largest
        assert plan["largest_group_weights"] == [1.5, 1.5]
        release = fitted.privacy_.releases[-1]
        problem = problem_of(fitted, features, y, groups)
        point = solve_certified(problem, plan["accuracies"][0] / 4)
        exact.append(point.x[0])
        # saves time; it is certified like any other
        fitted.solver = lambda problem, accuracy, point=point: (point.x, point.y)
        found = []
        for seed in range(N_FITS):
            fitted.set_params(random_state=seed + side * 1_000_000).fit(features, y, groups=groups)
            found.append(fitted.coef_[0, 0])
        points.append(np.array(found))
    here, there = exact
    gap = abs(here - there)
    # otherwise the attack could miss a violation
    assert 0.85 * release.sensitivity <= gap <= release.sensitivity
    for found in points:
        if delta:
            position = (found - (here + there) / 2) * np.sign(here - there)
            hits = position > (release.noise_scale / 2) ** 2 * epsilon / gap
        else:
            hits = abs(found - there) - abs(found - here) > 0.6 * gap
        counts.append(int(hits.sum()))
    return epsilon_lower_bound(*counts, delta)


@pytest.mark.audit
@every_cell
def test_audit_stays_below_the_claim(mode, epsilon, delta, monkeypatch):
    """False-alarm rate 1e-4 per cell."""
    remember_schedules(monkeypatch)
    assert audited_epsilon(mode, epsilon, delta) <= epsilon


@pytest.mark.audit
@every_cell
def test_audit_finds_halved_noise(mode, epsilon, delta, monkeypatch):
    """With half of the noise the same attack refutes the claim."""
    remember_schedules(monkeypatch)
    scale_noise(monkeypatch, 0.5)
    assert audited_epsilon(mode, epsilon, delta) > epsilon


# --------------------------------------------------------------------------------------- usefulness


def worst_accuracy(model, data):
    features, y, groups = data
    right = model.predict(features) == y
    return min(right[groups == name].mean() for name in NAMES)


@pytest.mark.slow
def test_worst_group_does_better_than_without_groups():
    """At epsilon = 1: on fresh records, every one of five fits beats every plain one, by far.

    100 000 records of :func:`conflicting`, a minority of 15 %, in d = 6; "proportions" knows the
    proportions, the other modes need none.
    """
    train, test = conflicting(100_000, 1), conflicting(100_000, 2)
    features, y, groups = train
    plain = [
        worst_accuracy(
            DPLogisticRegression(classes=[0, 1], random_state=seed).fit(features, y), test
        )
        for seed in range(5)
    ]
    for mode in MODES:
        known = {"most": 0.85, "few": 0.15} if mode == "proportions" else None
        fits = [
            classifier(group_mode=mode, group_proportions=known, random_state=seed)
            for seed in range(5)
        ]
        robust = [worst_accuracy(fitted.fit(features, y, groups=groups), test) for fitted in fits]
        assert min(robust) > 0.69 > max(plain) + 0.05
        spread = max(np.ptp(plain), np.ptp(robust))
        assert min(robust) - max(plain) > 2 * spread


@pytest.mark.slow
def test_worst_group_of_a_regression_does_better():
    """Mean squared error of the worse group on fresh records, five fits against five plain ones."""
    rng = np.random.default_rng(7)
    data = []
    for seed in (1, 2):
        features, _, groups = conflicting(50_000, seed)
        target = np.where(groups == "few", features[:, 1], features[:, 0])
        data.append((features, target + 0.1 * rng.normal(size=len(target)), groups))
    (features, target, groups), test = data

    def worst_error(model):
        error = (model.predict(test[0]) - test[1]) ** 2
        return max(error[test[2] == name].mean() for name in NAMES)

    plain = [worst_error(DPRidge(random_state=seed).fit(features, target)) for seed in range(5)]
    for mode in MODES:
        known = {"most": 0.85, "few": 0.15} if mode == "proportions" else None
        fits = [
            regressor(
                group_mode=mode, group_proportions=known, random_state=seed, target_range=(-1, 1)
            )
            for seed in range(5)
        ]
        robust = [worst_error(fitted.fit(features, target, groups=groups)) for fitted in fits]
        spread = max(np.ptp(plain), np.ptp(robust))
        assert max(robust) < min(plain) - 2 * spread


@every_model
def test_minimax_value_at_a_large_budget(model):
    """The largest loss of a group comes within 3 % of the least possible one."""
    features, y, groups = conflicting(4000, 3, d=4)
    fitted = model(1e4, group_mode="public", coef_norm=3.0, fit_intercept=False)
    fitted.fit(features, y, groups=groups)
    plan = fitted.privacy_.plan
    problem = MaxGroupLossProblem(
        Records(
            features,
            1.0,
            0.0,
            targets=y.astype(float),
            groups=np.searchsorted(fitted.group_names_, groups),
        ),
        LogisticLoss() if model is classifier else HalfSquaredLoss(2.0),
        GroupWeights(tuple(plan["largest_group_weights"])),
        3.0,
        1e-4,
        1e-3,
    )
    best = solve_certified(problem, 1e-3)
    least = problem.group_losses(best.x)
    assert np.ptp(least) < 0.01 * least.max()  # both groups bind: the conflict is real
    losses = problem.group_losses(np.ravel(fitted.coef_))
    lower = float(problem.value(best.x, best.y)) - 0.5 * 1e-4 * 9.0
    assert lower * (1 - 1e-3) <= losses.max() <= 1.03 * least.max()


@pytest.mark.slow
@every_model
def test_group_weights(model):
    """On the simplex, only if asked for, and larger for the group that is harder to please."""
    features, y, groups = conflicting(20_000, 3, d=4)
    rng = np.random.default_rng(0)
    y = np.where(groups == "few", rng.integers(0, 2, len(y)), features[:, 0] > 0)  # pure chance
    for mode in MODES:
        fitted = model(1000.0, group_mode=mode, release_group_weights=True, coef_norm=2.0)
        fitted.set_params(max_group_weight=10.0).fit(features, y, groups=groups)
        weights = fitted.group_weights_
        assert weights.shape == (2,) and (weights >= 0).all()
        assert weights.sum() == pytest.approx(1.0, abs=1e-12)
        if mode != "proportions":  # equal ones, which make the minority light
            others = [
                clone(fitted).set_params(random_state=seed).fit(features, y, groups=groups)
                for seed in (1, 2, 3)
            ]
            assert np.mean([each.group_weights_[0] for each in (fitted, *others)]) > 0.6
        assert not hasattr(clone(fitted).set_params(release_group_weights=False), "group_weights_")
    noisy = model(0.01, release_group_weights=True, group_names=["a", *NAMES]).fit(
        X, Y, groups=GROUPS
    )
    assert noisy.group_weights_.shape == (3,) and (noisy.group_weights_ >= 0).all()
    assert noisy.group_weights_.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.mostly("slow", 1)
@pytest.mark.parametrize("loss", ["log_loss", "hinge", "smoothed_hinge", "squared_hinge"])
def test_shapes(loss):
    three = np.arange(120) % 3
    for classes, y, rows in [([0, 1], Y, 1), ([0, 1, 2], three, 3)]:
        for intercept in (True, False):
            fitted = classifier(loss=loss, classes=classes, fit_intercept=intercept)
            fitted.fit(X, y, groups=GROUPS)
            assert fitted.coef_.shape == (rows, 3)
            assert fitted.intercept_.shape == (rows,)
            assert intercept or not fitted.intercept_.any()
            scores = fitted.decision_function(X)
            assert scores.shape == ((120,) if rows == 1 else (120, 3))
            assert set(fitted.predict(X)) <= set(classes)
            assert hasattr(fitted, "predict_proba") == (loss == "log_loss")
    if loss == "log_loss":
        np.testing.assert_allclose(fitted.predict_proba(X).sum(axis=1), 1.0)
        np.testing.assert_allclose(fitted.coef_.sum(axis=0), 0.0, atol=1e-12)


@pytest.mark.mostly("slow", 1)
@pytest.mark.parametrize("loss", ["squared_error", "huber", "absolute_error", "quantile"])
def test_units_of_the_target(loss):
    """Targets in other units give the same fit in these units."""
    first = regressor(loss=loss, target_range=(-1, 1), huber_threshold=0.2)
    second = regressor(loss=loss, target_range=(80, 120), huber_threshold=4.0)
    first.fit(X, X[:, 0], groups=GROUPS)
    second.fit(X, 100 + 20 * X[:, 0], groups=GROUPS)
    assert first.coef_.shape == (3,) and isinstance(first.intercept_, float)
    tolerance = 0.1 * first.privacy_.releases[0].noise_scale
    np.testing.assert_allclose(
        second.predict(X), 100 + 20 * first.predict(X), rtol=0, atol=20 * tolerance
    )
    clipped = regressor(loss=loss, target_range=(-1, 1), huber_threshold=0.2)
    clipped.fit(X, np.where(X[:, 0] > 0, 1e9, -1e9), groups=GROUPS)
    bounded = clone(clipped).fit(X, np.sign(X[:, 0]), groups=GROUPS)
    np.testing.assert_array_equal(clipped.coef_, bounded.coef_)


@pytest.mark.mostly("slow", 3)
@every_model
@every_mode
def test_storage_and_clipping_do_not_matter(model, mode):
    fitted = model(group_mode=mode).fit(X, Y, groups=GROUPS)
    tolerance = 0.1 * max(fitted.privacy_.plan["noise_scales"])
    for other in (
        sp.csr_matrix(X), sp.csc_matrix(X), np.asfortranarray(X), X.astype(np.float32), X.tolist(),
    ):  # fmt: skip
        again = clone(fitted).fit(other, Y, groups=GROUPS)
        np.testing.assert_allclose(again.coef_, fitted.coef_, rtol=0, atol=tolerance)
    # rows of norm 1: longer ones are shortened to it, and other units are only other units
    longer = clone(fitted).fit(X * np.geomspace(1, 1e9, 120)[:, None], Y, groups=GROUPS)
    np.testing.assert_allclose(longer.coef_, fitted.coef_, rtol=0, atol=tolerance)
    units = clone(fitted).set_params(data_norm=10.0).fit(10 * X, Y, groups=GROUPS)
    np.testing.assert_allclose(10 * units.coef_, fitted.coef_, rtol=0, atol=tolerance)


@every_model
def test_undeclared_proportions_warn(model):
    with pytest.warns(UserWarning, match="group_proportions were not declared"):
        model().fit(X, Y, groups=GROUPS)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="group_proportions")
        model(group_proportions=[0.3, 0.7]).fit(X, Y, groups=GROUPS)
        for mode in ("public", "histogram", "floored"):
            model(group_mode=mode).fit(X, Y, groups=GROUPS)
        model(group_names=None).fit(X, Y)  # the classes, or one group


@every_model
def test_proportions_of_a_series_are_by_name(model):
    """`value_counts` orders by size, not by name."""
    shares = {"most": 0.7, "few": 0.3}
    named = model(group_proportions=shares).fit(X, Y, groups=GROUPS)
    series = model(group_proportions=pd.Series(shares)).fit(X, Y, groups=GROUPS)
    assert series.privacy_.plan["group_proportions"] == [0.3, 0.7]
    np.testing.assert_array_equal(named.coef_, series.coef_)
    np.testing.assert_array_equal(series.group_proportions_, [0.3, 0.7])


@every_model
def test_declared_proportions_need_groups(model):
    with pytest.raises(ValueError, match=r"given no groups.*<step>__groups"):
        model(group_names=None, group_proportions=[0.3, 0.7]).fit(X, Y)


def test_group_losses():
    model = classifier(epsilon=100.0, group_proportions=[0.3, 0.7]).fit(X, Y, groups=GROUPS)
    margins = np.where(Y == 1, 1, -1) * model.decision_function(X)
    expected = [np.logaddexp(0, -margins[name == GROUPS]).mean() for name in ("few", "most")]
    np.testing.assert_allclose(model.group_losses(X, Y, GROUPS), expected)
    model = regressor(epsilon=100.0, group_proportions=[0.3, 0.7]).fit(X, Y, groups=GROUPS)
    errors = (model.predict(X) - Y) ** 2 / 2
    expected = [errors[name == GROUPS].mean() for name in ("few", "most")]
    np.testing.assert_allclose(model.group_losses(X, Y, GROUPS), expected)
    rng = np.random.default_rng(0)
    several = rng.integers(0, 3, len(X))
    for loss in ("log_loss", "hinge"):
        model = classifier(loss=loss, classes=[0, 1, 2], group_mode="floored")
        model.fit(X, several, groups=GROUPS)
        assert (model.group_losses(X, several, GROUPS) > 0.5).all()
    model = classifier(loss="log_loss", classes=[0, 1, 2], group_mode="floored")
    model.fit(X, several, groups=GROUPS)
    own = model.predict_log_proba(X)[np.arange(len(X)), several]
    expected = [-own[name == GROUPS].mean() for name in ("few", "most")]
    np.testing.assert_allclose(model.group_losses(X, several, GROUPS), expected)


def test_report_names_the_groups():
    shares = {"most": 0.98, "few": 0.02}
    report = classifier(group_proportions=shares).fit(X, Y, groups=GROUPS).privacy_
    assert "few 10, most 1.02" in str(report)
    assert "group few counts for 0.2 of a group" in str(report)
    classes = classifier(group_names=None, group_mode="public").fit(X, Y).privacy_
    assert "the class of each record is taken as public" in str(classes)
    paper = classifier(epsilon=0.5, calibration="paper", group_proportions=shares)
    assert "spends half" in str(paper.fit(X, Y, groups=GROUPS).privacy_)
