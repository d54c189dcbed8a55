"""The estimators for the worst group: groups in columns, pipelines and searches."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from group_models import FEW, GROUPS, NAMES, X, Y, classifier, every_model, regressor
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline

from skdp.preprocessing import BoundedScaler
from skdp.robust import DPMaxGroupLossClassifier

pytestmark = pytest.mark.filterwarnings("ignore:Parts around a private fit")


@pytest.mark.parametrize(("model", "make"), [(classifier, pd.DataFrame), (regressor, pl.DataFrame)])
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
        assert other.group_scores(data, Y, groups) == scores
    assert fitted.fit(plain, Y, groups=GROUPS)._group_column is None
    # a name as long as there are records
    few = make({"ab": ["most", "few"], "x": [0.5, 0.1]})
    assert model().fit(few, [0, 1], groups="ab").n_features_in_ == 1


@pytest.mark.parametrize("data", [X.tolist(), sp.csr_matrix(X), pd.DataFrame(X)])
def test_no_such_column(data):
    fitted = classifier()
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
    expected = {"most": fitted.score(X[~FEW], Y[~FEW]), "few": fitted.score(X[FEW], Y[FEW])}
    index = range(300, 420)
    for container in (
        np.ndarray.tolist, sp.csr_matrix, lambda data: pd.DataFrame(data, index=index),
        pl.DataFrame,
    ):  # fmt: skip
        if container is pl.DataFrame:
            fitted = clone(fitted).fit(container(X), Y, groups=GROUPS)
        scores = fitted.group_scores(container(X), pd.Series(Y, index=index), GROUPS.tolist())
        assert list(scores) == NAMES and scores == pytest.approx(expected, rel=1e-12)
    fitted = clone(fitted).fit(X, Y, groups=GROUPS)
    with pytest.raises(ValueError, match="not in `group_names`"):
        fitted.group_scores(X, Y, np.full(120, "else"))
    with pytest.raises(ValueError, match="not in `group_names`"):
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


def test_metadata_routing(seen):
    """The groups of the training records reach every fit."""
    with config_context(enable_metadata_routing=True):
        piped(routed()).fit(X, Y, groups=GROUPS)
        np.testing.assert_array_equal(seen.pop(), GROUPS)
        for validate in (cross_validate, cross_val_score):
            kwargs = {"error_score": "raise", "cv": KFold(3)}
            validate(piped(routed()), X, Y, params={"groups": GROUPS}, **kwargs)
            for got, expected in zip(seen, FOLDS, strict=True):
                np.testing.assert_array_equal(got, expected)
            seen.clear()
        grid = {"dpmaxgrouplossclassifier__epsilon": [0.5, 5.0]}
        search = GridSearchCV(piped(routed()), grid, cv=KFold(3), error_score="raise")
        search.fit(X, Y, groups=GROUPS)
        for got, expected in zip(seen, [*FOLDS * 2, GROUPS], strict=True):
            np.testing.assert_array_equal(got, expected)


@pytest.mark.filterwarnings("ignore:Parts around a private fit")
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


def test_groups_without_routing(seen):
    with config_context(enable_metadata_routing=False):
        steps = [("scale", BoundedScaler((-1, 1))), ("clf", classifier())]
        Pipeline(steps).fit(X, Y, clf__groups=GROUPS).predict(X)
        np.testing.assert_array_equal(seen.pop(), GROUPS)
        kwargs = {"cv": KFold(3), "error_score": "raise"}
        cross_val_score(classifier(), X, Y, params={"groups": GROUPS}, **kwargs)
        search = GridSearchCV(Pipeline(steps), {"clf__epsilon": [0.5, 5.0]}, **kwargs)
        search.fit(X, Y, clf__groups=GROUPS)
        for got, expected in zip(seen, [*FOLDS * 3, GROUPS], strict=True):
            np.testing.assert_array_equal(got, expected)
        # a search keeps `groups` for its splitter; the declared names turn that into an error
        with pytest.raises(ValueError, match="given no groups"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The groups parameter is ignored")
            GridSearchCV(classifier(), GRID, **kwargs).fit(X, Y, groups=GROUPS)
