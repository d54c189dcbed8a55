"""The estimators for the worst group: parameters, groups, targets, warnings, reports."""

import functools
import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from group_models import (
    FEW,
    GROUPS,
    NAMES,
    X,
    Y,
    classifier,
    conflicting,
    every_model,
    regressor,
)
from refusals import one_at_a_time
from sklearn.base import clone

from skdp import DPLogisticRegression, DPRidge, PrivacyLeakWarning
from skdp.algorithms.core.noisy_sums import NoisySum
from skdp.algorithms.worst_group import max_group_loss
from skdp.methods import PhasedSaddle, SaddleOutputPerturbation
from skdp.privacy import tightest_epsilon
from skdp.problems import GroupWeights, HalfSquaredLoss, LogisticLoss, MaxGroupLossProblem, Records
from skdp.solvers import solve_certified


@functools.cache
def pickled_fit():
    return pickle.dumps(classifier().fit(X, Y, groups=GROUPS))


#: Parameters that are refused, and a part of the message.
REFUSED = [
    *one_at_a_time(
        neighbouring=["add_remove"], loss=["log"],
        group_names=[[], "most", [["most", "few"]], ["most"], [0, 1]],
        group_proportions=[
            None, [1.0], 0.5, [0.5, 0.3, 0.2], [1.5, -0.5], [math.nan, 1.0], [math.inf, 0.0],
            ["0.5", "0.5"], "equal", [[0.5, 0.5]], {"most": 0.5, "few": None},
        ],
    ),
    *one_at_a_time("newton", method__solver=["newton"]),
    *one_at_a_time("twice", group_names=[["most", "few", "most"]]),
    *one_at_a_time(
        "group_names contains missing",
        group_names=[["most", "few", None], ["most", "few", math.nan]],
    ),
    *one_at_a_time("group_names mixes strings", group_names=[["most", "few", 3]]),
    *one_at_a_time("sum to 0.9", group_proportions=[[0.5, 0.4]]),
    *one_at_a_time(
        "keys",
        group_proportions=[
            {"most": 1.0}, {"most": 0.5, "few": 0.4, "else": 0.1}, {0: 0.5, 1: 0.5},
        ],
    ),
    ({"method__calibration": "paper", "method__release_group_weights": True}, "coefficients"),
    ({"method__calibration": "paper", "group_proportions": "private"}, "histogram"),
    ({"method__calibration": "paper", "epsilon": 2.0}, "epsilon < 2"),
    ({"method__calibration": "paper", "delta": 0.0}, "delta > 0"),
]  # fmt: skip


@pytest.mark.parametrize(("parameters", "words"), REFUSED, ids=str)
def test_refused_parameters_leave_the_model_as_it_was(parameters, words):
    fitted = pickle.loads(pickled_fit())
    fitted.set_params(**parameters)
    before = pickle.dumps(vars(fitted))
    with pytest.raises((ValueError, TypeError), match=words):
        fitted.fit(X[:, :2], Y, groups=GROUPS)
    assert pickle.dumps(vars(fitted)) == before


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (np.where(GROUPS == "few", "else", GROUPS), "group_names"),
        (GROUPS[:-1], "inconsistent numbers of samples"),
        (GROUPS[:, None], "1-dimensional"),
        (np.array("most"), "1-dimensional"),
        (set(GROUPS), "1-dimensional"),
        ([None, *GROUPS[1:]], "missing"),
        (pd.Series([pd.NA, *GROUPS[1:]], dtype="string"), "missing"),
        (pd.Series([pd.NaT, *GROUPS[1:]], dtype=object), "missing"),
        (pd.Series([np.zeros(2) for _ in GROUPS]), "sequences"),
        (pd.Categorical([None, *GROUPS[1:]]), "missing"),
        (pl.Series([None, *GROUPS[1:]]), "missing"),
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
def test_refused_groups(groups, words):
    fitted = pickle.loads(pickled_fit())
    before = pickle.dumps(vars(fitted))
    with pytest.raises(ValueError, match=words):
        fitted.fit(X, Y, groups=groups)
    assert pickle.dumps(vars(fitted)) == before
    assert not hasattr(fitted, "_membership")


@functools.cache
def named_fit(names):
    shares = {"few": 0.3, "most": 0.7}
    shares = {name: shares[name] for name in names}
    model = classifier(group_names=names, group_proportions=shares)
    return model.fit(X, Y, groups=GROUPS)


@pytest.mark.parametrize(
    ("groups", "names"),
    [
        (tuple(GROUPS), tuple(NAMES)),
        (GROUPS.astype(object), np.array(NAMES, dtype=object)),
        (pd.Series(GROUPS, index=range(500, 620)), pd.Series(NAMES)),
        (pd.Series(GROUPS, dtype="string"), NAMES),
        (pd.Categorical(GROUPS, categories=["unused", *NAMES]), NAMES),
        (pl.Series(GROUPS, dtype=pl.Categorical), pl.Series(NAMES)),
        (np.where(FEW, 0, 1).astype(np.uint8), [1.0, 0.0]),
        (pd.Series(np.where(FEW, 0, 1), dtype="Int64"), [1, 0]),
        (np.where(FEW, -0.5, 2.5), [2.5, -0.5]),
        (pd.Series(~FEW, dtype="boolean"), [True, False]),
        (np.where(FEW, "2020-01-01", "2021-01-01").astype("datetime64[D]"), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_kinds_of_groups(groups, names):
    """Whatever the groups are called and however they are stored, the fit is the same."""
    expected = named_fit(("few", "most") if names is None else ("most", "few"))
    shares = [0.3, 0.7] if names is None else [0.7, 0.3]
    fitted = classifier(group_names=names, group_proportions=shares)
    if names is None:
        with pytest.warns(PrivacyLeakWarning, match="group_names"):
            fitted.fit(X, Y, groups=groups)
    else:
        fitted.fit(X, Y, groups=groups)
        assert list(fitted.group_names_) == list(names)
    np.testing.assert_array_equal(fitted.coef_, expected.coef_)
    scores = list(expected.group_scores(X, Y, GROUPS).values())
    assert list(fitted.group_scores(X, Y, groups).values()) == scores


def test_inferred_group_names_are_a_leak():
    names = ["few", "most"]
    declared = classifier(group_names=names, mode="private").fit(X, Y, groups=GROUPS)  # silently
    with pytest.warns(PrivacyLeakWarning, match="`group_names`") as caught:
        inferred = classifier(group_names=None, mode="private").fit(X, Y, groups=GROUPS)
    leaks = [warning for warning in caught if warning.category is PrivacyLeakWarning]
    assert len(leaks) == 1 and leaks[0].filename == __file__
    assert "group_names were inferred from groups" in inferred.privacy_.caveats
    assert inferred.group_names_.tolist() == declared.group_names_.tolist()
    np.testing.assert_array_equal(inferred.coef_, declared.coef_)
    assert not [text for text in declared.privacy_.caveats if "group" in text]
    public = classifier(mode="public").fit(X, Y, groups=GROUPS)
    assert any("not protected" in text for text in public.privacy_.caveats)
    assert "not protected" in str(public.privacy_)


@pytest.mark.parametrize(("model", "mode"), [(classifier, "declared"), (regressor, "private")])
def test_empty_groups(model, mode):
    fitted = model(mode=mode, group_names=[*NAMES, "none", "nobody"])
    fitted.fit(X, Y, groups=GROUPS)
    scores = fitted.group_scores(X, Y, GROUPS)
    assert fitted.group_names_.tolist() == list(scores) == [*NAMES, "none", "nobody"]
    assert [name for name, score in scores.items() if math.isfinite(score)] == NAMES


@pytest.mark.parametrize(
    ("mode", "names"), [("declared", ["yes", "no"]), ("public", [3, 1, 2]), ("private", [0, 1])]
)
def test_classes_are_the_default_groups(mode, names):
    sorted_names = np.sort(names)
    y = sorted_names[np.arange(120) % len(names)]
    fitted = classifier(mode=mode, group_names=None, classes=names).fit(X, y)
    np.testing.assert_array_equal(fitted.group_names_, fitted.classes_)
    explicit = clone(fitted).set_params(group_names=sorted_names).fit(X, y, groups=y)
    np.testing.assert_array_equal(fitted.coef_, explicit.coef_)
    recall = [np.mean(fitted.predict(X[y == name]) == name) for name in sorted_names]
    assert fitted.group_scores(X, y, y) == dict(zip(sorted_names.tolist(), recall, strict=True))
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


def test_order_of_proportions():
    """In the order of the declared names, which need not be sorted, or by name."""
    fits = [
        classifier(group_names=names, group_proportions=proportions).fit(X, Y, groups=GROUPS)
        for names, proportions in [
            (["most", "few"], [0.8, 0.2]),
            (["few", "most"], [0.2, 0.8]),
            (["most", "few"], np.array([0.8, 0.2])),
            (["most", "few"], pd.Series({"few": 0.2, "most": 0.8})),
            (np.array(["few", "most"]), {"few": 0.2, "most": 0.8}),
        ]
    ]
    weights, shares = {"few": 5.0, "most": 1.25}, {"few": 0.2, "most": 0.8}
    for fitted in fits:
        names, plan = list(fitted.group_names), fitted.privacy_.plan
        assert fitted.group_names_.tolist() == plan["group_names"] == names
        assert plan["largest_group_weights"] == [weights[name] for name in names]
        assert plan["group_proportions"] == [shares[name] for name in names]
        assert fitted.group_proportions_.tolist() == plan["group_proportions"]
        assert list(fitted.group_scores(X, Y, GROUPS)) == names
        np.testing.assert_array_equal(fitted.coef_, fits[names == ["few", "most"]].coef_)
    other = classifier(group_proportions=[0.2, 0.8]).fit(X, Y, groups=GROUPS)
    assert (other.coef_ != fits[0].coef_).any()
    capped = classifier(group_proportions=[0.99, 0.01], own={"max_group_weight": 3.0})
    capped.fit(X, Y, groups=GROUPS)
    assert capped.privacy_.plan["largest_group_weights"] == pytest.approx([1 / 0.99, 3.0])
    equal = classifier().fit(X, Y, groups=GROUPS)
    assert equal.privacy_.plan["largest_group_weights"] == [2.0, 2.0]


def test_group_weights_of_an_earlier_fit_are_gone():
    fitted = classifier(own={"release_group_weights": True}).fit(X, Y, groups=GROUPS)
    assert fitted.group_weights_.shape == (2,)
    fitted.set_params(method__release_group_weights=False).fit(X, Y, groups=GROUPS)
    assert not hasattr(fitted, "group_weights_")


@pytest.mark.parametrize("loss", ["huber", "quantile"])
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


@pytest.mark.parametrize(("model", "mode"), [(classifier, "declared"), (regressor, "private")])
def test_storage_and_clipping_do_not_matter(model, mode):
    fitted = model(mode=mode).fit(X, Y, groups=GROUPS)
    tolerance = 0.1 * max(fitted.privacy_.plan["noise_scales"])
    for other in (
        sp.csr_matrix(X), np.asfortranarray(X), X.astype(np.float32),
    ):  # fmt: skip
        again = clone(fitted).fit(other, Y, groups=GROUPS)
        np.testing.assert_allclose(again.coef_, fitted.coef_, rtol=0, atol=tolerance)
    # rows of norm 1: longer ones are shortened to it, and other units are only other units
    longer = clone(fitted).fit(X * np.geomspace(1, 1e9, 120)[:, None], Y, groups=GROUPS)
    np.testing.assert_allclose(longer.coef_, fitted.coef_, rtol=0, atol=tolerance)
    units = clone(fitted).set_params(data_norm=10.0).fit(10 * X, Y, groups=GROUPS)
    np.testing.assert_allclose(10 * units.coef_, fitted.coef_, rtol=0, atol=tolerance)


@every_model
def test_declared_proportions_need_groups(model):
    with pytest.raises(ValueError, match=r"given no groups.*<step>__groups"):
        model(group_names=None, group_proportions=[0.3, 0.7]).fit(X, Y)


def test_group_losses():
    model = classifier(epsilon=100.0, group_proportions=[0.7, 0.3]).fit(X, Y, groups=GROUPS)
    margins = np.where(Y == 1, 1, -1) * model.decision_function(X)
    expected = {name: np.logaddexp(0, -margins[name == GROUPS]).mean() for name in NAMES}
    assert model.group_losses(X, Y, GROUPS) == pytest.approx(expected)
    model = regressor(epsilon=100.0, group_proportions=[0.7, 0.3]).fit(X, Y, groups=GROUPS)
    errors = (model.predict(X) - Y) ** 2 / 2
    expected = {name: errors[name == GROUPS].mean() for name in NAMES}
    assert model.group_losses(X, Y, GROUPS) == pytest.approx(expected)
    rng = np.random.default_rng(0)
    several = rng.integers(0, 3, len(X))
    model = classifier(loss="log_loss", classes=[0, 1, 2], mode="private")
    model.fit(X, several, groups=GROUPS)
    own = model.predict_log_proba(X)[np.arange(len(X)), several]
    expected = {name: -own[name == GROUPS].mean() for name in NAMES}
    assert model.group_losses(X, several, GROUPS) == pytest.approx(expected)


def test_report_names_the_groups():
    shares = {"most": 0.98, "few": 0.02}
    report = classifier(group_proportions=shares).fit(X, Y, groups=GROUPS).privacy_
    assert "most 1.02, few 10" in str(report)
    assert "group few has at most 0.2 of all weight" in str(report)
    classes = classifier(group_names=None, mode="public").fit(X, Y).privacy_
    assert "the class of each record is taken as public" in str(classes)
    paper = classifier(epsilon=0.5, own={"calibration": "paper"}, group_proportions=shares)
    assert "spends half" in str(paper.fit(X, Y, groups=GROUPS).privacy_)


@pytest.mark.parametrize(
    ("model", "kind"), [(classifier, SaddleOutputPerturbation), (regressor, PhasedSaddle)]
)
def test_the_weight_1_is_the_plain_model(model, kind):
    """The plan of the core, for all of the budget, and none for the sizes of the groups."""
    same = model(own={"kind": kind, "max_group_weight": 1.0}, mode="private")
    plain = DPLogisticRegression(classes=[0, 1], random_state=0)
    if model is regressor:
        plain = DPRidge(target_range=(-1, 2), random_state=0)
    plain.fit(X, Y)
    np.testing.assert_array_equal(same.fit(X, Y, groups=GROUPS).coef_, plain.coef_)
    assert same.privacy_.releases == plain.privacy_.releases
    # a pure budget has the saddle problem whose only weight is 1
    pure = model(delta=0.0, own={"kind": kind, "max_group_weight": 1.0}).fit(X, Y, groups=GROUPS)
    assert all(pair[1] == 0.0 for pair in pure.privacy_.plan["gradient_ranges"])


def test_phases_that_were_asked_for():
    for n_phases in (1, 2, 3):
        own = {"max_group_weight": 2.0, "n_phases": n_phases}
        report = classifier(own=own).fit(X, Y, groups=GROUPS).privacy_
        assert len(report.plan["block_sizes"]) == n_phases
        assert ("one phase: output perturbation" in str(report)) == (n_phases == 1)
    plan = (
        classifier(own={"max_group_weight": 1.0, "n_phases": 2})
        .fit(X, Y, groups=GROUPS)
        .privacy_.plan
    )
    assert len(plan["block_sizes"]) == 2 and plan["largest_group_weights"] == [1.0, 1.0]


def test_a_look_finds_where_weights_matter():
    """Of groups that conflict the small one gets weight; of groups that agree none does."""
    for share, conflict in ((0.15, True), (0.15, False)):
        features, y, groups = conflicting(20000, 1, share=share)
        if not conflict:
            groups = np.random.default_rng(0).permutation(groups)
        model = classifier(
            3.0, mode="private", own={"kind": PhasedSaddle, "max_group_weight": "auto"}
        )
        report = model.fit(features, y, groups=groups).privacy_
        names = [release.name for release in report.releases]
        assert names[0] == "sizes of the groups" and "losses of the groups" in names
        assert (names[-1] == "coefficients") == conflict
        assert "after a look at the groups' losses" in str(report)
        assert tightest_epsilon(report.event, report.delta) == pytest.approx(3.0, rel=1e-6)


def test_a_look_pays_for_the_rounding_of_margins(monkeypatch):
    seen, release = {}, NoisySum.release

    def watched(self, exact, noise, moved=0.0):
        seen[self.name] = moved
        return release(self, exact, noise, moved)

    monkeypatch.setattr(NoisySum, "release", watched)
    monkeypatch.setattr(max_group_loss, "two_margins", lambda d, size: 1e-3)
    own = {"kind": PhasedSaddle, "max_group_weight": "auto"}
    classifier(3.0, mode="private", own=own).fit(X, Y, groups=GROUPS)
    assert seen["losses of the groups"] == pytest.approx(2e-3, rel=1e-9)  # of slopes up to 2


@every_model
def test_minimax_value_at_a_large_budget(model):
    """The largest loss of a group comes within 3 % of the least possible one."""
    features, y, groups = conflicting(4000, 3, d=4)
    fitted = model(1e4, mode="public", own={"coef_norm": 3.0}, fit_intercept=False)
    fitted.fit(features, y, groups=groups)
    shares = 1.0 / np.array(fitted.privacy_.plan["largest_group_weights"])
    problem = MaxGroupLossProblem(
        Records(features, 1.0, targets=y + 0.0, groups=(groups == fitted.group_names_[1]) + 0),
        LogisticLoss() if model is classifier else HalfSquaredLoss(2.0),
        GroupWeights.of_proportions(shares, 10.0),
        3.0,
        1e-4,
        1e-5,
    )
    best = solve_certified(problem, 1e-3)
    least = problem.group_losses(best.x) / shares
    assert np.ptp(least) < 0.01 * least.max()  # both groups bind: the conflict is real
    losses = problem.group_losses(np.ravel(fitted.coef_)) / shares
    lower = float(problem.value(best.x, best.y)) - 0.5 * 1e-4 * 9.0
    assert lower * (1 - 1e-3) <= losses.max() <= 1.03 * least.max()


@pytest.mark.parametrize(("model", "mode"), [(classifier, "public"), (regressor, "declared")])
def test_group_weights(model, mode):
    """On the simplex, only if asked for, and larger for the group that is harder to please."""
    features, y, groups = conflicting(5_000, 3, d=4)
    rng = np.random.default_rng(0)
    y = np.where(groups == "few", rng.integers(0, 2, len(y)), features[:, 0] > 0)  # pure chance
    own = {"release_group_weights": True, "coef_norm": 2.0}
    fitted = model(1000.0, mode=mode, own=own).fit(features, y, groups=groups)
    noisy = model(0.01, mode=mode, own=own, group_names=["a", *NAMES]).fit(X, Y, groups=GROUPS)
    for each, size in ((fitted, 2), (noisy, 3)):
        assert each.group_weights_.shape == (size,) and (each.group_weights_ >= 0).all()
        assert each.group_weights_.sum() == pytest.approx(1.0, abs=1e-12)
    if mode == "public":  # declared equal ones make the minority light
        assert fitted.group_weights_[1] > 0.6
