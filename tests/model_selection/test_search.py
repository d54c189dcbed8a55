"""DPSearchCV: one payment for a secret number of draws, within the limits of each of them."""

import contextvars
import threading
import warnings

import numpy as np
import pytest
from scipy.stats import loguniform
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.random_projection import GaussianRandomProjection

from skdp import (
    BoundedScaler,
    BudgetAccountant,
    DPLogisticRegression,
    DPMaxGroupLossClassifier,
    DPRidge,
    DPSearchCV,
    DPStandardScaler,
)
from skdp.methods import OutputPerturbation
from skdp.model_selection.scoring import Scoring
from skdp.privacy import (
    GaussianDPAccountant,
    GaussianEvent,
    Neighbouring,
    PrivacyLeakWarning,
    PureEvent,
)
from skdp.privacy.charges import Prepaid, charge
from skdp.privacy.gaussian_dp import gaussian_mu
from skdp.privacy.selection import DrawsLaw, selection_epsilon, selection_mu, selection_pure_epsilon


def classification(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.5, 0.5, (n, 3))
    return X, (X[:, 0] + 0.2 * rng.standard_normal(n) > 0.0).astype(int)


MODEL = DPLogisticRegression(data_norm=1.0, classes=[0, 1])
GRID = {"fit_intercept": [True, False]}


@pytest.fixture
def payments(monkeypatch):
    """Events of every draw that is not a rehearsal."""
    found = []
    original = Prepaid.cover

    def cover(self, event, label):
        if not self._is_rehearsal:
            found.append((self, event))
        return original(self, event, label)

    monkeypatch.setattr(Prepaid, "cover", cover)
    return found


def test_one_payment_whatever_the_number_of_draws(payments):
    X, y = classification(300)
    lengths = set()
    for seed in range(3):
        payments.clear()
        with BudgetAccountant(1.0, 1e-6) as accountant:
            search = DPSearchCV(MODEL, GRID, random_state=seed).fit(X, y)
        assert [entry.label for entry in accountant.entries] == ["DPSearchCV"]
        assert accountant.total() == (1.0, 1e-6)
        assert accountant.event == search.privacy_.event
        lengths.add(len(payments))
    assert len(lengths) > 1  # the number of draws is random, and nobody was told


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_every_draw_and_its_score_stay_within_the_price(payments, delta):
    X, y = classification()
    model = make_pipeline(
        DPStandardScaler(0.5, ranges=(-0.5, 0.5)), clone(MODEL).set_params(epsilon=2.0)
    )
    grid = {"dplogisticregression__alpha": [1e-3, 0.1]}
    search = DPSearchCV(model, grid, delta=delta, n_draws=4, random_state=3).fit(X, y)
    plan, law = search.privacy_.plan, DrawsLaw(mean=4.0)
    for draw in {id(draw): draw for draw, _ in payments}.values():
        events = [event for each, event in payments if each is draw]
        assert len(events) == 2
        if delta:
            accountant = GaussianDPAccountant()
            for event in events:
                accountant.compose(event)
            assert 0.999 * plan["draw_mu"] < accountant.mu <= plan["draw_mu"] * (1.0 + 1e-9)
            assert selection_epsilon(delta, accountant.mu, law) <= 1.0 + 1e-8
        else:
            spent = sum(event.epsilon for event in (p for e in events for p in e.events))
            assert selection_pure_epsilon(spent, law) <= 1.0 + 1e-8
    scaler, fitted = search.best_estimator_[0], search.best_estimator_[1]
    if delta:  # they share as their own epsilons say
        mus = [gaussian_mu(part.epsilon, part.delta) for part in (scaler, fitted)]
        assert mus[1] == pytest.approx(4.0 * mus[0], rel=1e-6)
    else:
        assert fitted.epsilon == pytest.approx(4.0 * scaler.epsilon)
    noise = search.privacy_.releases[0].noise_scale / plan["n_test"]
    assert search.score_noise_ == pytest.approx(noise * (1.0 if delta else np.sqrt(2.0)))


def test_best_score_is_the_noisy_score_of_the_kept_model():
    X, y = classification(20_000)
    grid = [{"method": ["gradient"]}, {"method": [OutputPerturbation(alpha=1e3)]}]
    search = DPSearchCV(MODEL, grid, draws="poisson", random_state=0).fit(X, y)
    assert search.best_params_ == {"method": "gradient"}
    assert abs(search.best_score_ - search.score(X, y)) < 6.0 * search.score_noise_ + 0.02
    assert search.predict_proba(X).shape == (len(X), 2)
    assert list(search.classes_) == [0, 1]
    assert search.n_features_in_ == 3


def test_regression_with_distributions_of_parameters():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (4000, 2))
    search = DPSearchCV(
        DPRidge(data_norm=1.0, target_range=(-1, 1)),
        {"alpha": loguniform(1e-6, 1e2)},
        n_candidates=5,
        score_range=(-4.0, 0.0),
    ).fit(X, X[:, 0])
    assert len(search.candidates_) == 5
    assert search.best_params_ in search.candidates_
    assert not hasattr(search, "predict_proba")


SEVERAL = make_pipeline(BoundedScaler([(-0.5, 0.5)] * 3), MODEL)


@pytest.mark.parametrize(
    "estimator, grid, options, message",
    [
        (LogisticRegression(), {"C": [1.0]}, {}, "private estimator"),
        (MODEL, {"epsilon": [1.0, 2.0]}, {}, "the search itself sets"),
        (SEVERAL, {"dplogisticregression__random_state": [1]}, {}, "the search itself sets"),
        (MODEL, {"method": ["gradient", "objective"]}, {}, "not Gaussian-DP"),
        (MODEL, {"method": ["gradient"]}, {"delta": 0}, "delta"),
        (MODEL, {"alpha": [-1.0, 0.1]}, {}, "alpha"),
        (BaggingClassifier(MODEL, n_estimators=3), {"n_estimators": [3]}, {}, "BaggingClassifier"),
        (MODEL.set_params(), {"neighbouring": ["add_remove"]}, {}, "the search itself sets"),
        (MODEL, GRID, {"n_draws": 1}, "mean"),
        (MODEL, GRID, {"draws": "fixed"}, "name"),
        (MODEL, GRID, {"test_size": 1.0}, "test_size"),
        (MODEL, GRID, {"test_size": 0.9999}, "no record to fit on"),
        (MODEL, GRID, {"scoring": "neg_log_loss"}, "score_range"),
        (MODEL, {"classes": [[0, 1, 2]]}, {"scoring": "roc_auc"}, "is for two classes"),
        (MODEL, ["method"], {}, "dict or a list of dicts"),
        (MODEL, GRID, {"accountant": "mine"}, "must be None or a BudgetAccountant"),
        (DPLogisticRegression(neighbouring="add_remove", n_public=200, classes=[0, 1]), GRID, {},
         "replace_one"),
    ],
)  # fmt: skip
def test_refusals_come_before_the_payment(estimator, grid, options, message):
    X, y = classification(200)
    search = DPSearchCV(clone(estimator), grid, **options)
    refused = pytest.raises((TypeError, ValueError), match=message)
    with BudgetAccountant(10.0, 1e-5) as accountant, refused:
        search.fit(X, y)
    assert accountant.entries == ()
    assert not hasattr(search, "best_estimator_")


@pytest.mark.parametrize("bad", ["nan", "label"])
def test_bad_records_are_found_wherever_they_are_held(bad):
    X, y = classification(200)
    for seed in range(4):  # one record is held out or not
        X_bad, y_bad = X.copy(), y.copy()
        if bad == "nan":
            X_bad[17, 1] = np.nan
        else:
            y_bad[17] = 7
        with BudgetAccountant(10.0, 1e-5) as accountant, pytest.raises(ValueError):
            DPSearchCV(MODEL, GRID, random_state=seed).fit(X_bad, y_bad)
        assert accountant.entries == ()


@pytest.mark.parametrize("pure", [True, False])
def test_a_release_above_the_limit_is_refused(pure):
    limit = 0.5 if pure else selection_mu(1.0, 1e-6, DrawsLaw(mean=10))
    kind = PureEvent if pure else (lambda mu, relation: GaussianEvent(1.0 / mu, relation))
    draw = Prepaid(limit, pure)
    draw.cover(kind(0.6 * limit, "replace_one"), "")
    with pytest.raises(ValueError, match="more than one draw"):
        draw.cover(kind((0.5 if pure else 0.9) * limit, "replace_one"), "")


def test_every_draw_has_noise_of_its_own(monkeypatch):
    X, y = classification(200)
    seen = []
    original = DPLogisticRegression.fit
    monkeypatch.setattr(
        DPLogisticRegression,
        "fit",
        lambda self, *data: seen.append(self.random_state) or original(self, *data),
    )
    for state in (3, None):
        seen.clear()
        DPSearchCV(MODEL, GRID, draws="poisson", random_state=state).fit(X, y)
        drawn = seen[2 * len(GRID["fit_intercept"]) :]
        assert len(drawn) > 1
        assert len(set(drawn)) == (1 if state is None else len(drawn))


class Seen(DPLogisticRegression):
    """Keeps the records of its fits, and may fit twice."""

    fitted, n_fits = [], 1

    def fit(self, X, y):
        Seen.fitted.append(X)
        for _ in range(self.n_fits):
            super().fit(X, y)
        return self


def test_no_record_is_both_fitted_and_scored(monkeypatch):
    monkeypatch.setattr(Seen, "fitted", [])
    scored = []

    def scoring(model, X, y):
        scored.append(X)
        return np.ones(len(y))

    X, y = classification(400)
    model = Seen(data_norm=1.0, classes=[0, 1])
    DPSearchCV(model, {"alpha": [0.1]}, scoring=scoring, score_range=(0, 1)).fit(X, y)
    parts = [{tuple(map(tuple, part)) for part in parts} for parts in (Seen.fitted[1:], scored)]
    ((train,), (test,)) = parts  # the same in all draws; the first fit is a rehearsal on all
    assert (len(train), len(test), len({*train, *test})) == (300, 100, 400)


def test_a_part_that_is_fitted_twice_in_a_draw_is_refused(monkeypatch):
    monkeypatch.setattr(Seen, "n_fits", 2)
    model = Seen(data_norm=1.0, classes=[0, 1])
    with pytest.raises(ValueError, match="more than one draw may"):
        DPSearchCV(model, {"alpha": [0.1]}).fit(*classification(400))


def test_what_another_thread_releases_is_not_prepaid():
    event = PureEvent(0.1, Neighbouring.REPLACE_ONE)
    with BudgetAccountant(1.0) as accountant, Prepaid(1.0, True).paying():
        context = contextvars.copy_context()  # as threads that inherit it have
        thread = threading.Thread(target=context.run, args=(charge, event, "other", None))
        thread.start()
        thread.join()
        charge(event, "own", None)
    assert [entry.label for entry in accountant.entries] == ["other"]


def test_scores_without_a_value_are_the_worst_wherever_they_come(monkeypatch):
    """The proof needs one order of all scores."""
    X, y = classification(200)
    released = Scoring.released
    for place in (0, 1):
        seen = []

        def scored(self, plan, point, place=place, seen=seen):
            seen.append(released(self, plan, point))
            return seen[-1] | ({"test_score": np.nan} if len(seen) == place + 1 else {})

        monkeypatch.setattr(Scoring, "released", scored)
        search = DPSearchCV(MODEL, GRID, draws="poisson", random_state=0).fit(X, y)
        rest = [each["test_score"] for k, each in enumerate(seen) if k != place]
        assert len(rest) > 1 and search.best_score_ == max(rest)


def test_warnings_do_not_tell_the_number_of_draws():
    X, y = classification(300)
    seen = []
    for seed in range(3):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            DPSearchCV(DPLogisticRegression(), GRID, random_state=seed).fit(X, y)
        seen.append(sorted((w.category.__name__, str(w.message)) for w in caught))
    assert any(name == PrivacyLeakWarning.__name__ for name, _ in seen[0])
    assert all(each == seen[0] for each in seen)


@pytest.mark.filterwarnings("ignore:Parts around a private fit")
def test_nothing_outside_of_the_result_tells_the_number_of_draws(capsys, tmp_path):
    X, y = classification()
    model = DPMaxGroupLossClassifier(method="output", data_norm=2.0, classes=[0, 1], verbose=1)
    steps = GaussianRandomProjection(2), DPStandardScaler(ranges=(-0.5, 0.5)), model
    pipeline = make_pipeline(*steps, verbose=True, memory=str(tmp_path))
    grid = {"dpmaxgrouplossclassifier__verbose": [1]}
    before = np.random.get_state()  # noqa: NPY002
    search = DPSearchCV(pipeline, grid, n_draws=3, draws="poisson").fit(X, y)
    assert capsys.readouterr().out == ""
    assert not list(tmp_path.iterdir())  # draws would share the scaler in the cache
    assert str(np.random.get_state()) == str(before)  # noqa: NPY002
    assert search.best_params_ == {"dpmaxgrouplossclassifier__verbose": 1}


def test_no_error_tells_of_a_release_that_was_not_paid_for():
    def refuse(Z):  # rows scaled by a release reach further than those scaled by ranges
        if np.abs(Z).max() > 1.01:
            raise ValueError("released")
        return Z

    X, y = classification()
    model = make_pipeline(DPStandardScaler(ranges=(-0.5, 0.5)), FunctionTransformer(refuse), MODEL)
    with BudgetAccountant(1.0, 1e-6) as accountant, pytest.raises(ValueError, match="released"):
        DPSearchCV(model, {"dplogisticregression__alpha": [0.1]}).fit(X, y)
    assert len(accountant.entries) == 1


@pytest.mark.parametrize("bad", ["X", "y"])
def test_errors_quote_no_record(bad):
    X, y = classification(20)
    X, y = (np.array(987654.25), y) if bad == "X" else (X, y + 987654.25j)
    with pytest.raises((TypeError, ValueError)) as caught:
        DPSearchCV(MODEL, GRID).fit(X, y)
    assert "987654" not in str(caught.value)


def test_steps_of_candidates_that_learn_are_named():
    pipeline = make_pipeline("passthrough", MODEL)
    grid = {"passthrough": ["passthrough", StandardScaler(), StandardScaler(with_std=False)]}
    with pytest.warns(PrivacyLeakWarning, match="StandardScaler") as caught:
        DPSearchCV(pipeline, grid).fit(*classification())
    assert len(caught) == 1 and str(caught[0].message).count("StandardScaler") == 1
