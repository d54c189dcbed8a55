"""check_pipeline: what leaks by its class, and what does not fit the records."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.ensemble import VotingClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder, StandardScaler

from skdp import (
    BoundedScaler,
    BudgetAccountant,
    DPLogisticRegression,
    DPRidge,
    DPStandardScaler,
    DPSyntheticData,
)
from skdp.inspection import check_pipeline

RNG = np.random.default_rng(0)
N = 300
FRAME = pd.DataFrame(
    {
        "age": RNG.integers(18, 90, N),
        "height": RNG.normal(170.0, 10.0, N),  # in cm, declared in m
        "income": RNG.uniform(0.0, 100.0, N),  # in thousands, declared in units
        "site": 7,
        "code": RNG.choice(["a", "b"], N),
        "level": RNG.choice(["1", "2"], N),
    }
)
Y = RNG.integers(0, 2, N)
RANGES = {"age": (0, 100), "height": (0, 2.5), "income": (0, 1e6), "site": (0, 10)}


def model(**parameters):
    return DPLogisticRegression(**{"data_norm": 1.0, "classes": [0, 1], **parameters})


def kinds(check):
    return [(each.part, each.kind) for each in check.findings]


def pipeline(**parameters):
    encoder = OneHotEncoder(categories=[["a", "b", "c"], [1, 2]], handle_unknown="ignore")
    columns = ColumnTransformer(
        [
            ("numbers", BoundedScaler(RANGES), list(RANGES)),
            ("codes", encoder, make_column_selector(dtype_include=[object, "string"])),
        ]
    )
    return make_pipeline(columns, Normalizer(), model(**parameters))


def test_declarations_are_compared_with_the_records():
    check = check_pipeline(pipeline(), FRAME, Y)
    text = str(check)
    assert "column 'height': 100 % outside of the range: another unit?" in text  # centimetres
    assert "column 'income': the middle 90 % are in " in text
    assert "column 'site': constant" in text
    assert "declared categories of column 'code' that match no record: 'c'" in text
    assert "declared categories of column 'level' that match no record: 1, 2; the records" in text
    assert "300 of 300 values of column 'level' are none of the declared categories" in text
    assert "'age'" not in text
    assert text.startswith("NOT PRIVATE")


def test_what_fits_has_no_findings():
    ranges = {"age": (0, 120), "income": (0, 100)}
    columns = ColumnTransformer(
        [
            ("numbers", BoundedScaler(ranges), list(ranges)),
            ("codes", OneHotEncoder(categories=[["a", "b"]], handle_unknown="ignore"), ["code"]),
        ],
        sparse_threshold=0,
    )
    check = check_pipeline(make_pipeline(columns, Normalizer(), model()), FRAME, Y)
    assert check.findings == () and "no findings" in str(check)
    assert kinds(check_pipeline(BoundedScaler((0, 1)), [[0.1], [np.nan], [0.9]])) == []
    # without records nothing about them is said
    check = check_pipeline(make_pipeline(StandardScaler(), model()))
    assert kinds(check) == [("standardscaler", "learns")]
    assert not check.has_records and "NOT PRIVATE" not in str(check)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, pd.DataFrame])
def test_rows_targets_and_labels(form):
    X = form(RNG.normal(size=(N, 3)) * 50.0)
    assert kinds(check_pipeline(model(), X, Y)) == [("", "units")]
    assert kinds(check_pipeline(model(), X * 0.0001, Y)) == [("", "units")]
    assert kinds(check_pipeline(model(data_norm=60.0), X, Y)) == [("", "clipped")]
    assert kinds(check_pipeline(model(data_norm=200.0, classes=["0", "1"]), X, Y)) == [
        ("", "labels"),
        ("", "labels"),
    ]
    ridge = DPRidge(data_norm=200.0, target_range=(0, 1))
    assert kinds(check_pipeline(ridge, X, 1000.0 + Y)) == [("", "clipped"), ("", "constant")]
    assert kinds(check_pipeline(ridge, X, Y)) == []
    for wrong in ((1, 0), (0, np.inf), "ab", (0, 1, 2)):
        wrongly = DPRidge(data_norm=200.0, target_range=wrong)
        assert kinds(check_pipeline(wrongly, X, Y)) == [("", "error")]


def test_columns_that_are_text():
    found = check_pipeline(make_pipeline(BoundedScaler((0, 1)), model()), FRAME[["code"]], Y)
    assert ("boundedscaler", "unread") in kinds(found)
    assert ("boundedscaler", "error") in kinds(found)  # and its fit fails
    beyond = np.full((N, 1), 10**400, dtype=object)
    for X in (FRAME[["code"]], beyond):
        assert kinds(check_pipeline(model(), X, Y)) == [("", "not numeric")]
    made = DPSyntheticData(categories={"code": ["a", "b"], "level": [1, 2]})
    assert kinds(check_pipeline(made, FRAME[["code", "level"]])) == [("", "categories")] * 2


def test_no_budget_is_spent_and_nothing_is_changed():
    scaler = DPStandardScaler(ranges=(0, 100))
    before = make_pipeline(scaler, Normalizer(), model())
    with BudgetAccountant(1.0, 1e-6) as accountant:
        check = check_pipeline(before, FRAME[["age", "income"]], Y)
    assert accountant.entries == ()
    assert kinds(check) == [("dpstandardscaler", "not looked at")]
    assert not hasattr(scaler, "n_features_in_")


def test_parts_that_fail_and_parts_that_are_missing():
    def fails(X):
        raise RuntimeError("no such column")

    check = check_pipeline(make_pipeline(FunctionTransformer(fails), model()), FRAME[["age"]])
    assert kinds(check) == [("functiontransformer", kind) for kind in ("unknown", "error")]
    check = check_pipeline(BoundedScaler({"age": (0, 1), "other": (0, 1)}), FRAME[["age"]])
    assert kinds(check) == [("", "error")]
    with pytest.raises(TypeError, match="must be an estimator"):
        check_pipeline(FRAME)


def test_members_are_compared_with_the_targets_that_they_get():
    """Not with those of a meta-estimator that transforms or encodes them, or has several."""
    X = RNG.uniform(-0.5, 0.5, (N, 3))
    y = np.exp(6 + 2 * X[:, 0] + RNG.normal(size=N))
    ridge = DPRidge(data_norm=1.0, target_range=(0, 10))
    assert kinds(check_pipeline(ridge, X, y)) == [("", "clipped"), ("", "constant")]
    logs = TransformedTargetRegressor(ridge, transformer=BoundedScaler(ranges=[(-9, -8)]))
    assert kinds(check_pipeline(logs, X, y)) == [("", "learns")]
    voting = VotingClassifier([("transformer", model(data_norm=1e-3))])
    assert ("transformer", "units") in kinds(check_pipeline(voting, X, Y))
    names = np.array(["no", "perhaps", "yes"])[RNG.integers(0, 3, N)]
    for meta in (OneVsRestClassifier(model()), VotingClassifier([("a", model(classes=[0, 1, 2]))])):
        assert kinds(check_pipeline(meta, X, names)) == [("", "learns")]
    both = np.column_stack([Y, 1 - Y])
    assert kinds(check_pipeline(MultiOutputClassifier(model(classes=["0", "1"])), X, both)) == []
    assert kinds(check_pipeline(ClassifierChain(model(data_norm=2.0)), X, both)) == []
    found = kinds(check_pipeline(MultiOutputClassifier(model(data_norm=0.1)), X, both))
    assert found == [("estimator", "clipped")]
    search = GridSearchCV(model(classes=["0", "1"]), {"epsilon": [1.0]})
    assert ("estimator", "labels") in kinds(check_pipeline(search, X, Y))
