"""Weights of records are metadata of fits: who passes them, as the guide says, and who refuses."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from every_estimator import ESTIMATORS, declared, records
from sklearn import config_context, get_config
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    cross_val_predict,
    cross_validate,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from skdp import DPLogisticRegression, DPMaxGroupLossMLPClassifier, DPRidge, DPSearchCV
from skdp.data import ArrayRecords
from skdp.model_selection import dp_cross_validate
from skdp.preprocessing import BoundedScaler, DPStandardScaler
from skdp.synthetic import DPSyntheticData
from skdp.tabular import DPTabularClassifier, DPTabularRegressor

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "plan.md"
N = 60
rng = np.random.default_rng(0)
X, Y, W = rng.uniform(-0.5, 0.5, (N, 2)), np.arange(N) % 2, rng.uniform(0.1, 1.0, N)
#: Rows and weights of the fits.
SEEN = []


class Classifier(DPLogisticRegression):
    def _fit(self, X, y, groups=None, given=(None, None)):
        SEEN.append((X, given[1]))
        return super()._fit(X, y, groups, given)


class Regressor(DPRidge):
    def _fit(self, X, y, groups=None, given=(None, None)):
        SEEN.append((X, given[1]))
        return super()._fit(X, y, groups, given)


def member(kind, **more):
    public = {"classes": [0, 1]} if kind is Classifier else {"target_range": (-1, 1)}
    model = kind(data_norm=1.0, weight_bound=1.0, **public, **more)
    return asking(model).set_score_request(sample_weight=False)


def asking(model):
    """The model, which asks for weights; without routing there is nothing to ask."""
    is_on = get_config()["enable_metadata_routing"]
    return model.set_fit_request(sample_weight=True) if is_on else model


with config_context(enable_metadata_routing=True):
    C, R = member(Classifier), member(Regressor)
GIVEN = {"sample_weight": W}
#: The calls of the guide's table.
CALLS = {
    "Pipeline": lambda: Pipeline([("scale", BoundedScaler((-1, 1))), ("m", C)]).fit(X, Y, **GIVEN),
    "<step>__sample_weight": lambda: Pipeline([("scale", BoundedScaler((-1, 1))), ("m", C)]).fit(
        X, Y, m__sample_weight=W
    ),
    "VotingClassifier": lambda: VotingClassifier([("m", C)]).fit(X, Y, **GIVEN),
    "VotingRegressor": lambda: VotingRegressor([("m", R)]).fit(X, X[:, 0], **GIVEN),
    "StackingClassifier": lambda: StackingClassifier([("m", C)], C, cv=2).fit(X, Y, **GIVEN),
    "StackingRegressor": lambda: StackingRegressor([("m", R)], R, cv=2).fit(X, X[:, 0], **GIVEN),
    "SelectFromModel": lambda: SelectFromModel(C).fit(X, Y, **GIVEN),
    "RFE": lambda: RFE(C, n_features_to_select=1).fit(X, Y, **GIVEN),
    "TransformedTargetRegressor": lambda: TransformedTargetRegressor(R).fit(X, X[:, 0], **GIVEN),
    "GridSearchCV": lambda: GridSearchCV(C, {"alpha": ["auto"]}, cv=2).fit(X, Y, **GIVEN),
    "cross_validate": lambda: cross_validate(C, X, Y, params=GIVEN, cv=2),
    "cross_val_predict": lambda: cross_val_predict(C, X, Y, params=GIVEN, cv=2),
    "dp_cross_validate": lambda: dp_cross_validate(C, X, Y, params=GIVEN, cv=2),
    "DPSearchCV": lambda: asking(DPSearchCV(C, {"alpha": ["auto"]}, n_draws=2)).fit(X, Y, **GIVEN),
    "CalibratedClassifierCV": lambda: CalibratedClassifierCV(C, cv=2).fit(X, Y, **GIVEN),
    "MultiOutputClassifier": lambda: MultiOutputClassifier(C).fit(X, np.c_[Y, Y], **GIVEN),
    "ClassifierChain": lambda: ClassifierChain(C).fit(X, np.c_[Y, Y], **GIVEN),
    "OneVsRestClassifier": lambda: OneVsRestClassifier(C).fit(X, Y, **GIVEN),
    "FixedThresholdClassifier": lambda: FixedThresholdClassifier(C).fit(X, Y, **GIVEN),
    "AdaBoostClassifier": lambda: AdaBoostClassifier(C, n_estimators=2).fit(X, Y, **GIVEN),
    "AdaBoostRegressor": lambda: AdaBoostRegressor(R, n_estimators=2).fit(X, X[:, 0], **GIVEN),
    "BaggingClassifier": lambda: BaggingClassifier(C, n_estimators=2).fit(X, Y, **GIVEN),
    "BaggingRegressor": lambda: BaggingRegressor(R, n_estimators=2).fit(X, X[:, 0], **GIVEN),
    "fit(X, y, w)": lambda: C.fit(X, Y, W),
}


def table():
    """What the guide says of each name: without routing, and with it."""
    text = GUIDE.read_text(encoding="utf-8").partition("| through | routing off | routing on |")[2]
    for line in text.splitlines()[2:]:
        if not line.startswith("|"):
            return
        names, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        for name in re.findall(r"`([^`]+)`", names):
            yield name, *cells


def outcome(call):
    """What became of the weights."""
    SEEN.clear()
    try:
        call()
    except (TypeError, ValueError, NotImplementedError):
        return "raises"
    if any(
        (rows.shape[1] == X.shape[1] and len(np.unique(rows, axis=0)) < len(rows))
        or not (weights is None or np.isin(weights, W).all())
        for rows, weights in SEEN
    ):
        return "draws"  # rows, some of them several times
    return "drops" if all(weights is None for _, weights in SEEN) else "passes"


def test_the_table_is_of_all_calls():
    assert sorted(name for name, *_ in table()) == sorted(CALLS)


@pytest.mark.filterwarnings("ignore:The noise", "ignore:Since Classifier", "ignore:Parts around")
@pytest.mark.parametrize(("name", "off", "on"), list(table()))
def test_who_passes_weights(name, off, on):
    for is_on, cell in ((False, off), (True, on)):
        with config_context(enable_metadata_routing=is_on):
            assert outcome(CALLS[name]) == cell.partition(":")[0], (name, is_on)


def fitted(kind):
    """An estimator and what it is fitted to."""
    if kind is DPSyntheticData:
        return kind(categories=[[0, 1]] * 2, weight_bound=1.0), (np.c_[Y, Y[::-1]], None)
    if kind in (DPTabularClassifier, DPTabularRegressor):
        public = {"classes": [0, 1]} if kind is DPTabularClassifier else {"target_range": (-1, 1)}
        return kind(columns=(-1, 1), weight_bound=1.0, **public), (X, Y)
    if kind is DPStandardScaler:
        return kind(ranges=(-1, 1)), (X, Y)
    return declared(kind), records(kind, N)


WITHOUT = (DPMaxGroupLossMLPClassifier, DPStandardScaler)
KINDS = (*ESTIMATORS, DPTabularClassifier, DPTabularRegressor, DPSyntheticData, DPStandardScaler)


@pytest.mark.filterwarnings("ignore:The noise")
@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_asked_for_or_refused(kind):
    model, (rows, y) = fitted(kind)
    assert not has_fit_parameter(model, "sample_weight")
    with pytest.raises(TypeError, match="unexpected keyword argument 'weights'"):
        model.fit(rows, y, weights=W)
    if kind in WITHOUT:
        assert "sample_weight" not in model.get_metadata_routing().fit.requests
        with config_context(enable_metadata_routing=True), pytest.raises(TypeError, match="weight"):
            model.set_fit_request(sample_weight=True)
        with pytest.raises((TypeError, ValueError), match="sample_weight"):
            model.fit(rows, y, sample_weight=W)
        return
    assert model.get_metadata_routing().fit.requests["sample_weight"] is None
    model.fit(rows, y, sample_weight=None)
    with config_context(enable_metadata_routing=True):
        asked = asking(model).get_metadata_routing()
    assert asked.fit.requests["sample_weight"] is True and "user_ids" in asked.fit.requests


@pytest.mark.filterwarnings("ignore:The noise")
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in WITHOUT])
def test_no_weight_at_all_is_no_table(kind):
    """As an empty table: refused where n is public, in memory and in a source."""
    model, (rows, y) = fitted(kind)

    def fit(weights, in_source):
        if in_source:
            return model.fit(ArrayRecords(rows, y, sample_weight=weights))
        return model.fit(rows, y, sample_weight=weights)

    for in_source in (False, True)[: 2 if kind in (DPRidge, DPSyntheticData) else 1]:
        with pytest.raises(ValueError, match="sample_weight is zero for all records"):
            fit(np.zeros(len(rows)), in_source)
        fit(np.eye(len(rows))[-1], in_source)


def test_weights_that_leave_one_inferred_class():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = DPLogisticRegression(data_norm=1.0, weight_bound=1.0)
        with pytest.raises(ValueError, match="sample_weight leaves one class only"):
            model.fit(X, Y, sample_weight=Y)
        model.set_params(classes=[0, 1]).fit(X, Y, sample_weight=Y)
