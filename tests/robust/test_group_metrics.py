"""Scores and losses of the worst group, alone and in searches."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.metrics import accuracy_score, log_loss, make_scorer, mean_squared_error
from sklearn.model_selection import GridSearchCV, KFold, cross_validate

from skdp import DPLogisticRegression
from skdp.robust import (
    DPMaxGroupLossClassifier,
    worst_group_loss,
    worst_group_score,
)


def data(n=3000):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, size=(n, 3))
    groups = rng.choice(["few", "most"], size=n, p=[0.2, 0.8])
    return X, np.where(groups == "most", X[:, 0], X[:, 1]), groups


def test_they_are_the_extremes_over_groups():
    rng = np.random.default_rng(1)
    y, groups = rng.integers(0, 2, 60), rng.integers(0, 3, 60)
    p = rng.uniform(0.1, 0.9, 60)
    scores = [accuracy_score(y[groups == g], p[groups == g] > 0.5) for g in range(3)]
    losses = [log_loss(y[groups == g], p[groups == g], labels=[0, 1]) for g in range(3)]
    assert worst_group_score(y, p > 0.5, groups) == min(scores)
    assert worst_group_loss(y, p, groups, labels=[0, 1]) == max(losses)
    squares = worst_group_loss(y, p, groups.astype(str), metric=mean_squared_error)
    assert squares == max(((y - p)[groups == g] ** 2).mean() for g in range(3))


@pytest.mark.parametrize("function", [worst_group_score, worst_group_loss])
def test_missing_groups_are_errors(function):
    with pytest.raises(ValueError, match=r"set_score_request\(groups=True\)"):
        function([0, 1], [0, 1])
    with pytest.raises(ValueError, match="inconsistent numbers"):
        function([0, 1], [0, 1], ["a"])
    with pytest.raises(ValueError, match="missing values"):
        function([0, 1], [0, 1], ["a", None])


@pytest.mark.filterwarnings("ignore:Parts around a private fit")
def test_a_search_selects_by_the_worst_group():
    """Metadata routing brings the groups to the fits and to the scorer."""
    X, y, groups = data()
    labels = (y > 0).astype(int)
    declared = {"data_norm": 1.0, "group_names": ["few", "most"], "random_state": 0}
    with config_context(enable_metadata_routing=True):
        scorer = make_scorer(worst_group_score).set_score_request(groups=True)
        loss = make_scorer(
            worst_group_loss,
            response_method="predict_proba",
            greater_is_better=False,
            labels=[0, 1],
        ).set_score_request(groups=True)
        model = DPMaxGroupLossClassifier(classes=[0, 1], **declared).set_fit_request(groups=True)
        found = cross_validate(
            model, X, labels, params={"groups": groups}, cv=KFold(2),
            scoring={"score": scorer, "loss": loss}, return_indices=True, return_estimator=True,
        )  # fmt: skip
        for i, fitted in enumerate(found["estimator"]):
            rows = found["indices"]["test"][i]
            part = X[rows], labels[rows], groups[rows]
            assert found["test_score"][i] == min(fitted.group_scores(*part).values())
            assert found["test_loss"][i] == pytest.approx(-max(fitted.group_losses(*part).values()))
        grid = {"epsilon": [1e-3, 10.0]}
        search = GridSearchCV(model, grid, scoring=scorer, cv=KFold(2), refit=False)
        search.fit(X, labels, groups=groups)
        assert search.best_params_ == {"epsilon": 10.0}
        # a model that knows no groups is judged by them, too
        plain = DPLogisticRegression(10.0, classes=[0, 1], data_norm=1.0, random_state=0)
        scores = cross_validate(plain, X, labels, params={"groups": groups}, scoring=scorer, cv=2)
        assert (scores["test_score"] < 0.75).all()
