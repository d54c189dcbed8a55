"""dp_cross_validate: its scores, and its price as the folds overlap."""

import warnings
from functools import partial
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline

from skdp import (
    BoundedScaler,
    BudgetAccountant,
    BudgetExceededError,
    DPLinearClassifier,
    DPLogisticRegression,
    DPMaxGroupLossClassifier,
    DPRidge,
    DPStandardScaler,
)
from skdp.model_selection import dp_cross_validate
from skdp.model_selection.scoring import _brier
from skdp.privacy import (
    ComposedEvent,
    Neighbouring,
    PrivacyLeakWarning,
    PureEvent,
    RepeatedEvent,
    tightest_epsilon,
)
from skdp.privacy.events import flatten_event

pytestmark = pytest.mark.filterwarnings("ignore:The noise")

ONE = Neighbouring.REPLACE_ONE
RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (1000, 2))
Y = (X[:, 0] > 0).astype(int)


def classifier(**parameters):
    return DPLogisticRegression(**{"data_norm": 1.0, "classes": [0, 1], **parameters})


def test_price_is_one_fit_less_than_there_are_folds():
    with BudgetAccountant(100.0, 1e-5) as accountant:
        found = dp_cross_validate(classifier(), X, Y, cv=10, epsilon=0.1)
    fit = classifier().fit(X[:900], Y[:900]).privacy_.event
    price = ComposedEvent([RepeatedEvent(fit, 9), PureEvent(0.1, ONE)])
    assert flatten_event(found["event"]) == flatten_event(price)
    assert set(flatten_event(accountant.event)) == set(flatten_event(price))
    assert len(accountant.entries) == 20
    labels = [entry.label for entry in accountant.entries]
    assert labels[:2] == ["DPLogisticRegression", "score of fold 1"]


def test_an_accountant_of_one_fold_is_charged_in_full():
    class Watched(DPLogisticRegression):
        """Opens an accountant in each fit."""

        seen: ClassVar[list] = []

        def fit(self, X, y):
            with BudgetAccountant(10.0, 1e-5) as own:
                super().fit(X, y)
            self.seen.append(own.total().epsilon)
            return self

    model = Watched(epsilon=1.0, delta=0.0, data_norm=1.0, classes=[0, 1])
    found = dp_cross_validate(model, X, Y, cv=4, epsilon=0.1)
    assert Watched.seen == pytest.approx([1.0] * 4, rel=1e-3)
    assert tightest_epsilon(found["event"], 0.0) == pytest.approx(3 * 1.0 + 0.1)


@pytest.mark.parametrize(
    ("cv", "fits", "scores"),
    [
        (KFold(4), 3, 1),
        (RepeatedKFold(n_splits=4, n_repeats=2, random_state=0), 6, 2),
        (ShuffleSplit(3, test_size=0.5, random_state=0), 3, 3),
        ([(range(500), range(500, 1000))], 1, 1),
    ],
)
def test_other_splitters(cv, fits, scores):
    """The folds of a ShuffleSplit overlap by chance: some record is in all training sets."""
    found = dp_cross_validate(classifier(delta=0.0, epsilon=0.5), X, Y, cv=cv, epsilon=0.1)
    counts = dict(flatten_event(found["event"]))
    assert counts.pop(PureEvent(0.1, ONE)) == scores
    assert set(counts.values()) == {fits}  # each fit has two releases
    assert len(found["test_score"]) == (1 if isinstance(cv, list) else cv.get_n_splits())


def test_a_refused_fold_keeps_what_was_paid():
    with BudgetAccountant(2.05, 1e-5) as accountant, pytest.raises(BudgetExceededError):
        dp_cross_validate(classifier(delta=0.0), X, Y, cv=4, epsilon=0.01)
    assert accountant.total().epsilon == pytest.approx(2.0 + 0.01, abs=1e-3)


def test_accountants_of_the_estimator_pay_for_the_scores_too():
    mine, other = BudgetAccountant(100.0, 1e-5), BudgetAccountant(100.0, 1e-5)
    model = make_pipeline(BoundedScaler(), classifier(accountant=mine, delta=0.0))
    dp_cross_validate(model, X, Y, cv=3, accountant=other)
    assert mine.total() == other.total()
    assert mine.total().epsilon == pytest.approx(2.1, abs=0.01)
    model = make_pipeline(DPStandardScaler(epsilon=0.2, delta=0.0), classifier(delta=0.0))
    found = dp_cross_validate(model, X, Y, cv=3)  # private transformers are charged
    assert tightest_epsilon(found["event"], 0.0) == pytest.approx(2 * 1.2 + 0.1)


def test_scores_are_those_of_the_models_plus_noise():
    """With little noise: what scikit-learn finds on the same folds and models."""
    folds = KFold(4, shuffle=True, random_state=0)
    model = classifier(random_state=0)
    found = dp_cross_validate(model, X, Y, cv=folds, epsilon=1e6, return_estimator=True)
    exact = cross_val_score(model, X, Y, cv=folds)
    np.testing.assert_allclose(found["test_score"], exact, atol=1e-5)
    assert (found["score_noise"] < 1e-5).all() and len(found["estimator"]) == 4
    assert "estimator" not in dp_cross_validate(model, X, Y)


@pytest.mark.parametrize("scoring", ["neg_mean_absolute_error", "neg_mean_squared_error", None])
def test_losses_are_clipped_to_a_public_range(scoring):
    model = DPRidge(data_norm=1.0, target_range=(-1, 1), epsilon=1e6)
    y = np.where(np.arange(1000) < 5, 1e300, X[:, 0])  # targets far beyond all bounds
    options = {"scoring": scoring, "epsilon": 1e6, "cv": [(range(900), range(5))]}
    found = dp_cross_validate(model, X, y, score_range=(-3, 0), **options)
    assert found["test_score"] == pytest.approx(-3.0, abs=1e-4)
    model.set_params(target_range=(0, 5))  # bounds both the square and the absolute value
    found = dp_cross_validate(model, X, y, **options)
    largest = 5.0 if scoring == "neg_mean_absolute_error" else 25.0
    assert found["test_score"] == pytest.approx(-largest, abs=1e-3)


METRICS = {
    "balanced_accuracy": metrics.balanced_accuracy_score,
    "f1": metrics.f1_score,
    "f1_macro": partial(metrics.f1_score, average="macro"),
    "precision": metrics.precision_score,
    "precision_macro": partial(metrics.precision_score, average="macro", zero_division=0.0),
    "recall": metrics.recall_score,
    "roc_auc": metrics.roc_auc_score,
}


@pytest.mark.parametrize(
    ("scoring", "names"),
    [(scoring, ["no", "yes"]) for scoring in METRICS]
    + [(scoring, [2, 5, 7]) for scoring in ("balanced_accuracy", "f1_macro", "roc_auc")],
)
def test_scores_of_classes_are_those_of_scikit_learn(scoring, names):
    """With little noise; classes of 20 % to 80 % of the records."""
    names = np.array(names)
    codes = (X[:, 0] > 0.3).astype(int) + (len(names) == 3) * (X[:, 1] > 0.2)
    codes[::4] = codes[::-4]  # some are predicted wrongly
    y, model = names[codes], classifier(classes=names, epsilon=1e4, random_state=0)
    options = {"scoring": scoring, "epsilon": 1e6, "cv": [(range(600), range(600, 1000))]}
    if len(names) == 3 and scoring == "roc_auc":
        with pytest.raises(ValueError, match="for several"):
            dp_cross_validate(model, X, y, **options)
        return
    found = dp_cross_validate(model, X, y, return_estimator=True, **options)
    (fitted,), test, true = found["estimator"], X[600:], y[600:]
    values = fitted.decision_function(test) if scoring == "roc_auc" else fitted.predict(test)
    if scoring in ("f1", "precision", "recall"):
        true, values = true == names[1], values == names[1]
    exact = METRICS[scoring](true, values)
    assert found["test_score"][0] == pytest.approx(exact, abs=1e-5) and 0.1 < exact < 1.0


@pytest.mark.parametrize("names", [[0, 1], [2, 5, 7]])
def test_losses_of_probabilities(names):
    """The squared distance of probabilities from indicators, and the log loss of each class."""
    names = np.array(names)
    codes = (X[:, 0] > 0.4).astype(int) + (len(names) == 3) * (X[:, 1] > 0.2)
    y, model = names[codes], classifier(classes=names, epsilon=1e4, random_state=0)
    options = {"epsilon": 1e6, "cv": [(range(600), range(600, 1000))], "return_estimator": True}
    found = dp_cross_validate(model, X, y, scoring="neg_brier_score", **options)
    chances, true = found["estimator"][0].predict_proba(X[600:]), codes[600:]
    squares = ((chances - np.eye(len(names))[true]) ** 2).sum(axis=1)
    exact = squares.mean() / (2 if len(names) == 2 else 1)
    assert found["test_score"] == pytest.approx(-exact, abs=1e-5)
    low = -1.0 if len(names) == 2 else -2.0
    assert found["score_noise"] == pytest.approx(-low * np.sqrt(2) / (400 * 1e6), rel=1e-3)
    options |= {"score_range": (-5, 0)}
    found = dp_cross_validate(model, X, y, scoring="balanced_neg_log_loss", **options)
    logs = np.log(found["estimator"][0].predict_proba(X[600:])[np.arange(400), true])
    exact = [np.maximum(logs[true == k], -5.0).mean() for k in range(len(names))]
    assert found["test_score"] == pytest.approx(np.mean(exact), abs=1e-4)
    each = dp_cross_validate(
        model, X, y, scoring="neg_log_loss", score_groups=y, group_names=names, **options
    )
    np.testing.assert_allclose(each["group_score"], [exact], atol=1e-4)


def test_labels_outside_of_a_model_have_the_largest_losses():
    class Fixed:
        classes_ = np.array([0, 1])

        def predict_proba(self, X):
            return np.tile([1.0, 0.0], (len(X), 1))

    y = np.array([0, 1, 2])
    np.testing.assert_array_equal(_brier(Fixed(), np.zeros((3, 1)), y, 3), [0.0, -2.0, -2.0])
    np.testing.assert_array_equal(_brier(Fixed(), np.zeros((3, 1)), y, 2), [0.0, -1.0, -1.0])


def test_scores_of_groups():
    groups = np.where(np.arange(1000) % 10 == 0, "rare", "often")
    model = classifier(epsilon=10.0)
    options = {"score_groups": groups, "epsilon": 1e6, "cv": [(range(600), range(600, 1000))]}
    with pytest.warns(PrivacyLeakWarning, match="The groups were inferred"):
        dp_cross_validate(model, X, Y, **options)
    options |= {"group_names": ["often", "rare"], "return_estimator": True}
    found = dp_cross_validate(model, X, np.where(groups == "rare", 1 - Y, Y), **options)
    is_right = found["estimator"][0].predict(X[600:]) == Y[600:]
    exact = is_right[groups[600:] == "often"].mean(), (~is_right[groups[600:] == "rare"]).mean()
    np.testing.assert_allclose(found["group_score"], [exact], atol=1e-4)
    assert found["test_score"] == found["group_score"][0, 1] < 0.2
    assert found["score_noise"] == found["group_noise"][0, 1]


@pytest.mark.parametrize(
    ("turn", "message", "is_scaled"),
    [
        # in the test set of the first fold
        (lambda X, y: X.__setitem__((999, 0), np.nan), "NaN", False),
        (lambda X, y: y.__setitem__(999, 2), "not in `classes`", True),
        # in the last fold
        (lambda X, y: y.__setitem__(slice(0, 999), 0), "one class only", False),
        (lambda X, y: y.__setitem__(slice(0, 999), 0), "one class only", True),
    ],
)
def test_all_records_are_checked_before_the_first_charge(turn, message, is_scaled):
    """Also what comes after a private scaler, and in searches that go on after errors."""
    data, y = X.copy(), Y.copy()
    turn(data, y)
    classes = None if message == "one class only" else [0, 1]
    model = classifier(classes=classes, delta=0.0)
    if is_scaled:
        model = make_pipeline(DPStandardScaler(delta=0.0), GridSearchCV(model, {}, cv=KFold(2)))
    cv = [(np.setdiff1d(range(1000), test), test) for test in (range(999, 1000), [0, 1, 999])]
    with BudgetAccountant(100.0) as accountant, warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        with pytest.raises(ValueError, match=message):
            dp_cross_validate(model, data, y, cv=cv[::-1] if classes else cv)
    assert accountant.entries == ()


@pytest.mark.parametrize("is_public", [False, True])
def test_warnings_come_before_the_first_charge(is_public):
    """Each once per part of the records; an error, they cost nothing."""
    model = classifier(data_norm=1.0 if is_public else None)
    with BudgetAccountant(100.0, 1e-5) as accountant, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warnings.showwarning = lambda *_: said.append(accountant.entries)
        dp_cross_validate(model, X, Y, cv=3)
    assert len(said) == (0 if is_public else 4) and not any(said)


def test_a_score_that_is_refused_is_not_computed():
    """It is paid before it is computed, and so before it is released."""
    budget = BudgetAccountant(0.5 + 1e-6)
    with budget, pytest.raises(BudgetExceededError, match="score of fold 1"):
        own = {"scoring": lambda *_: pytest.fail("a score was computed"), "score_range": (0, 1)}
        dp_cross_validate(classifier(epsilon=0.5, delta=0.0), X, Y, **own)
    assert [entry.label for entry in budget.entries] == ["DPLogisticRegression"]


def test_estimators_and_scores_that_are_refused():
    """A range of targets in other units is not taken."""
    square, numbers, low = "neg_mean_squared_error", X[:, 0], {"score_range": (-1, 0)}
    inner = DPRidge(data_norm=1.0, target_range=(-1, 1))
    model = TransformedTargetRegressor(inner, func=lambda y: y / 9, inverse_func=lambda y: 9 * y)
    plain = make_pipeline(BoundedScaler(), LogisticRegression())
    for message, estimator, y, scoring, given in (
        ("numbers as targets", classifier(), Y.astype(str), square, low),
        ("for classifiers", DPRidge(), numbers, "balanced_accuracy", low),
        ("predict_proba", DPLinearClassifier(loss="hinge"), Y, "neg_log_loss", low),
        ("needs score_range", model, numbers, square, {}),
        ("needs score_range", model, numbers, "neg_mean_absolute_error", {}),
        (r"No part of Pipeline(.|\n)* is a private estimator", plain, Y, None, {}),
        (r"add_remove.*other folds", classifier(neighbouring="add_remove", n_public=800), Y, None,
         {}),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            dp_cross_validate(estimator, X, y, scoring=scoring, **given)


def test_callables():
    model = classifier(epsilon=1e5)
    nan = {"scoring": lambda model, X, y: np.full(len(y), np.nan), "score_range": (-5, 0)}
    found = dp_cross_validate(model, X, Y, cv=2, **nan, epsilon=1e6)
    np.testing.assert_allclose(found["test_score"], -5.0, atol=1e-3)
    with pytest.raises(ValueError, match="one score per record"):
        dp_cross_validate(model, X, Y, scoring=lambda *_: 1.0, score_range=(0, 1))


def test_frames_and_parameters_per_record():
    groups = np.arange(1000) % 2
    model = DPMaxGroupLossClassifier(data_norm=1.0, classes=[0, 1], group_names=[0, 1])
    found = dp_cross_validate(model, pd.DataFrame(X), pd.Series(Y), cv=2, params={"groups": groups})
    assert np.isfinite(found["test_score"]).all()


def test_searches_inside_of_folds():
    search = GridSearchCV(classifier(delta=0.0), {"epsilon": [0.1, 0.2]}, cv=KFold(2))
    with pytest.warns(PrivacyLeakWarning, match="GridSearchCV keeps which parameters"):
        found = dp_cross_validate(search, X, Y, cv=3, epsilon=0.1)
    most = 2 * (2 * 0.1 + 2 * 0.2 + 0.2) + 0.1  # two folds of 2 x 2 fits and one of the best
    assert 1.2 < tightest_epsilon(found["event"], 0.0) <= most + 0.2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cv": StratifiedKFold(3)}, "must split by position alone"),
        ({"cv": [([0, 0, 1], [2])]}, "twice in one fold"),
        ({"cv": [([0, 1], [1000])]}, "arrays of positions"),
        ({"cv": []}, "at least one fold"),
        ({"cv": 1}, "cv == 1"),
        ({"scoring": "r2", "score_range": (0, 1)}, "scoring == 'r2'"),
        ({"scoring": "neg_log_loss"}, "needs score_range"),
        ({"scoring": "f1", "score_range": (0, 1)}, "takes no score_range"),
        ({"scoring": "balanced_neg_log_loss"}, "needs score_range"),
        ({"scoring": "average_precision"}, "must be callable or one of"),
        ({"scoring": "balanced_neg_log_loss", "score_groups": np.ones(1000)}, "no score_groups"),
        ({"scoring": "roc_auc", "cv": [([0, 1], [2])]}, "n_records == 1"),
        ({"score_groups": np.arange(999)}, "inconsistent"),
        ({"score_groups": np.arange(1000) % 3, "group_names": [0, 1]}, "score_groups contains"),
        ({"score_range": 3}, "must be a pair"),
        ({"score_range": (1, 0)}, "low < high"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": 5e-324}, "scale of the noise"),
        ({"params": 3}, "params must be"),
        ({"accountant": 3}, "accountant"),
    ],
)
def test_invalid_parameters(options, message):
    with BudgetAccountant(9.0) as unused, pytest.raises((TypeError, ValueError), match=message):
        dp_cross_validate(classifier(delta=0.0), X, Y, **options)
    assert unused.entries == ()
