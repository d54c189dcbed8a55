"""Errors name the remedy, come before anything is computed, and quote no value of a record."""

import contextlib
import datetime
import itertools
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from every_estimator import CLASSIFIERS, ESTIMATORS, REGRESSORS, declared, records
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import KFold, cross_val_predict

from skdp.linear_model import DPLinearClassifier, DPLogisticRegression, DPRidge
from skdp.methods import Bilevel, OutputPerturbation, PhasedSaddle
from skdp.model_selection import DPLogisticRegressionCV, dp_cross_validate
from skdp.preprocessing import BoundedScaler, DPStandardScaler
from skdp.problems.constants import check_nominal_size, most_records
from skdp.robust import DPAdversarialClassifier, DPAdversarialRegressor, DPMaxGroupLossClassifier

SECRET = 0.123456789
every_estimator = pytest.mark.parametrize("kind", ESTIMATORS)


def quotes_nothing(raised):
    """Of records, in whatever a traceback would print."""
    while raised is not None:
        assert not re.search("123456789|top secret", str(raised)), raised
        raised = None if raised.__suppress_context__ else raised.__context__


def message_of(model, X, y, error=ValueError, **fit_params):
    with pytest.raises(error) as caught:
        model.fit(X, y, **fit_params)
    assert not hasattr(model, "coef_")
    quotes_nothing(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize("values", [[SECRET, 1], ["top secret", "b"], [123456789, 1]])
def test_labels_are_not_quoted(kind, values):
    X, _ = records(kind, n=10)
    y = np.resize(np.array(values), 10)
    found = message_of(declared(kind), X, y)
    assert "not in `classes`: declare all labels that can occur." in found


@pytest.mark.parametrize(
    "lone", [np.array(SECRET), SECRET, np.array("top secret", dtype=object), np.full(3, SECRET)]
)
@every_estimator
def test_a_lone_value_is_not_quoted(kind, lone):
    """Nor a row: as X or y of `fit`, with groups, of cross-validation, and of predictions."""
    X, y = records(kind, n=10)
    model = declared(kind)
    for first, second in ((lone, y), (X, lone)):
        message_of(model, first, second)
        with pytest.raises(ValueError) as caught:
            dp_cross_validate(model, first, second, score_range=(0, 1), cv=2)
        quotes_nothing(caught.value)
    if hasattr(kind, "group_scores"):
        message_of(model, lone, y, groups=np.zeros(10, int))
        message_of(model, X, y, groups=lone)
    with pytest.raises(ValueError, match="Reshape your data") as caught:
        model.fit(X, y).predict(np.full(3, SECRET))
    quotes_nothing(caught.value)


def grouped(**parameters):
    return declared(DPMaxGroupLossClassifier, group_names=["a", "b"], **parameters)


def sized(**parameters):
    public = {"neighbouring": "add_remove", "n_public": 10}
    return declared(DPLinearClassifier, **public | parameters)


NAMED = {"groups": np.resize(["a", "b"], 10)}
BEYOND = np.full((10, 3), 0.1, dtype=object)
BEYOND[3, 1] = 10**400
DATES = np.array(["2020-01-01"] * 10, dtype="M8[D]")
#: Models, arguments of fit that differ from good ones, and a part of the message.
REFUSED = [
    (grouped(), {"groups": np.resize(["a", "top secret"], 10)}, "not in `group_names`"),
    (grouped(), {"groups": ["sex", "race"]}, "inconsistent numbers"),
    (grouped(group_proportions=[0.0, 1.0]), NAMED, "must be finite and > 0"),
    (grouped(group_proportions={"a": 1.0, "b": 0.0}), NAMED, "must be finite and > 0"),
    (grouped(method=PhasedSaddle(calibration=np.array(["analytic", "paper"]))), NAMED,
     "calibration =="),
    (declared(DPRidge), {"y": np.full(10, np.nan)},
     "Input y contains NaN. Leave such records out."),
    (declared(DPLogisticRegression), {"y": np.array([*"ab" * 4, "a", np.nan], dtype=object)},
     "Input y contains NaN. Leave such records out."),
    (declared(DPLogisticRegression), {"y": np.array([0, "top secret"] * 5, dtype=object)},
     "Unknown label type"),
    (declared(DPRidge), {"y": np.array(["top secret"] * 10)}, "must be numeric"),
    (declared(DPRidge), {"X": BEYOND}, "Column 1 holds an integer beyond double precision"),
    (declared(DPRidge), {"y": DATES}, "y holds dates or times"),
    (declared(DPRidge), {"y": pd.Series(DATES.astype("M8[ns]"))}, "y holds dates or times"),
    (declared(DPRidge), {"y": pd.Series(DATES.astype("M8[ns]")).dt.tz_localize("UTC")}, "must be"),
    (declared(DPRidge), {"y": np.ones(10, dtype="m8[s]")}, "y holds times"),
    (declared(DPRidge), {"y": np.ones(10) + 1j}, "y holds complex numbers"),
    (declared(DPRidge), {"y": np.ma.array(np.ones(10), mask=[True] * 10)},
     "y holds missing values"),
    (declared(DPRidge, max_records_per_user=2), {}, "there are no user_ids"),
    (sized(alpha=-1.0), {}, "alpha == -1.0, must be in [0, 1e+60]."),
    (sized(alpha=np.nan), {}, "alpha == nan, must be in [0, 1e+60]."),
    (sized(data_norm=0.0), {}, "data_norm == 0.0, must be in [1e-30, 1e+30]."),
    # no double holds them, and those of more than 4300 digits have no decimal form
    *((sized(**{name: 10**exponent}), {}, name) for name, exponent in zip(
        ("epsilon", "alpha", "classes", "loss", "method", "solver", "fit_intercept", "n_public"),
        itertools.cycle([5000, 400]), strict=False,
    )),
]  # fmt: skip


@pytest.mark.parametrize(("model", "changed", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused_and_why(model, changed, message):
    X, y = records(type(model), n=10)
    found = message_of(model, **{"X": X, "y": y} | changed, error=(TypeError, ValueError))
    assert message in found and "4300" not in found


@pytest.mark.parametrize("kind", REGRESSORS)
@pytest.mark.parametrize("bad", [None, float("nan"), np.inf, 10**400, "top secret"])
def test_targets_that_become_no_numbers_are_refused_at_once(kind, bad):
    """Before anything is drawn."""
    X, y = records(kind, n=10)
    y = y.astype(object)
    y[3] = bad
    assert re.search(r"\by\b", message_of(declared(kind), X, y))


def test_many_inferred_labels_say_nothing_about_the_records():
    """scikit-learn warns where more than half of the labels are distinct."""
    X, _ = records(DPLogisticRegression, n=30)
    model = declared(DPLogisticRegression, classes=None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, np.arange(30) % 20)
    assert not [warning for warning in caught if "unique classes" in str(warning.message)]


def test_too_many_declared_classes_are_not_blamed_on_the_labels():
    (X, y), three = records(DPLogisticRegression, n=10), {"classes": range(3)}
    bilevel = Bilevel(as_published=True)
    for model, limit in (
        (DPLogisticRegressionCV(method=bilevel, **three), "(as_published=True) supports two only"),
        (DPAdversarialClassifier(method="output", **three), "robust training of several"),
        (DPLogisticRegression(method="exponential", delta=0.0, **three),
         "method='exponential' supports two only"),
    ):  # fmt: skip
        message = message_of(model, X, y)
        assert message.startswith("classes declares 3 labels, but ") and limit in message


def test_more_records_than_bounds_hold_for_and_a_relation_that_is_an_array():
    with pytest.raises(ValueError, match="neighbouring =="):
        DPStandardScaler(neighbouring=np.array([1.0, 2.0])).fit(np.zeros((4, 1)))
    assert most_records(200_000) == 2_000_000
    with pytest.raises(ValueError) as caught:
        check_nominal_size(10, 2**20 + 1)
    assert str(caught.value) == (
        "X has more records (or persons, with user_ids) than 1048576, the most for n_public == 10."
    )


def frames(rows, names):
    """The same table as a frame of pandas and of polars."""
    pl = pytest.importorskip("polars")
    data = {name: [row[j] for row in rows] for j, name in enumerate(names)}
    return [pd.DataFrame(data), pl.DataFrame(data)]


FAULTS = {
    "contains NaN": float("nan"),
    "contains infinity": float("inf"),
    "is not numeric": "top secret",
    "holds dates or times": datetime.datetime(2001, 2, 3),
}


@pytest.mark.parametrize("kind", [*ESTIMATORS, BoundedScaler, DPStandardScaler])
@pytest.mark.parametrize("problem", FAULTS)
def test_errors_name_the_column(kind, problem):
    """In any configuration of scikit-learn."""
    X, y = np.full((10, 3), 0.1), np.arange(10) % 2
    bad = FAULTS[problem]
    is_uniform = problem in ("is not numeric", "holds dates or times")
    rows = [[0.1, bad if is_uniform or i == 3 else 0.1, 0.2] for i in range(10)]
    model = declared(kind) if kind in ESTIMATORS else kind()
    error = (TypeError, ValueError)  # numpy has a TypeError for dates
    for table in frames(rows, ["age", "TotalCharges", "last"]):
        assert f"Column 'TotalCharges' {problem}" in message_of(model, table, y, error)
    array = np.array(rows, dtype=object)
    assert f"Column 1 {problem}" in message_of(model, array, y, error)
    if problem == "is not numeric":
        assert "Complex data" in message_of(model, X + SECRET * 1j, y)
    if problem == "holds dates or times":
        assert f"Column 0 {problem}" in message_of(model, np.zeros((10, 3), "M8[s]"), y)
    if isinstance(bad, float):
        X[3, 1] = bad
        with sklearn.config_context(assume_finite=True):
            assert f"Column 1 {problem}" in message_of(model, X, y)
        if kind in ESTIMATORS:
            assert "It is in column 1." in message_of(model, sp.csr_matrix(X), y)


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_kinds_of_labels_that_differ_are_said(kind):
    X, _ = records(kind, n=10)
    y = np.arange(10) % 2
    assert "y holds strings, `classes` numbers" in message_of(declared(kind), X, y.astype(str))
    strings = declared(kind, classes=["0", "1"])
    message = message_of(strings, X, y)
    assert "y holds numbers, `classes` strings" in message
    assert "CalibratedClassifierCV" in message and "classes=range(K)" in message
    assert "classes=range(K)" in message_of(declared(kind, classes=[0, 1]), X, y.astype(str))
    assert "fractional numbers" in message_of(declared(kind), X, y + 0.25)


@pytest.mark.filterwarnings("ignore:Parts around a private fit")
@pytest.mark.parametrize(
    ("method", "ensemble", "names"),
    [
        ("sigmoid", True, ["no", "yes"]), ("temperature", False, ["a", "b", "c"]),
        ("cross_val_predict", False, [3, 7]),
    ],
)  # fmt: skip
def test_labels_in_meta_estimators_work_or_name_what_works(names, ensemble, method):
    """Labels as they are are fitted or refused with the remedy; so are their codes for them."""
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (300, 2))
    codes = (X[:, 0] > 0).astype(int) + (len(names) == 3) * (X[:, 1] > 0.2)

    def fit(y, classes):
        model = DPLogisticRegression(data_norm=1.0, classes=classes, epsilon=10.0)
        if method == "cross_val_predict":
            return cross_val_predict(model, X, y, method="predict_proba", cv=KFold(3))
        options = {"method": method, "ensemble": ensemble, "cv": KFold(3)}
        return CalibratedClassifierCV(model, **options).fit(X, y).predict_proba(X)

    for classes in (names, range(len(names))):
        try:
            fit(np.array(names)[codes], classes)
        except ValueError as error:
            assert "y = np.searchsorted(names, y)" in str(error)
            assert "classes=range(K)" in str(error)
    assert fit(np.searchsorted(names, np.array(names)[codes]), range(len(names))).shape[0] == 300


@pytest.mark.parametrize("alpha", [5e-324, 1e-310, 1e-200])
@pytest.mark.parametrize(
    ("kind", "name"),
    [(DPRidge, "output"), (DPRidge, None), (DPAdversarialRegressor, "auto"),
     (DPAdversarialRegressor, None)],
)  # fmt: skip
def test_tiny_penalties_are_fitted_or_refused(kind, name, alpha):
    """Squares of the radius of solutions are beyond all doubles."""
    X, y = records(kind, n=50)
    own = {"method": OutputPerturbation(alpha=alpha)}
    model = declared(kind, **({"method": name, "alpha": alpha} if name else own))
    with contextlib.suppress(ValueError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.isfinite(model.fit(X, y).coef_).all()


@pytest.mark.filterwarnings("ignore:X has feature names")
@pytest.mark.parametrize("kind", [BoundedScaler, DPStandardScaler])
@pytest.mark.parametrize("problem", FAULTS)
def test_transforms_name_the_column_and_quote_nothing(kind, problem):
    scaler = kind().fit(np.linspace(-1.0, 1.0, 30).reshape(10, 3))
    rows = [[0.1, FAULTS[problem], 0.2]] * 4
    named, numbered = f"Column 'TotalCharges' {problem}", f"Column 1 {problem}"
    tables = [(table, named) for table in frames(rows, ["age", "TotalCharges", "last"])]
    tables += [(np.array(rows, dtype=object), numbered), (np.full(3, SECRET), "Reshape|array")]
    tables += [(np.full((2, 3), SECRET * 1j), "Complex data")]
    for (table, message), name in itertools.product(tables, ("transform", "inverse_transform")):
        with pytest.raises((TypeError, ValueError), match=message) as caught:
            getattr(scaler, name)(table)
        quotes_nothing(caught.value)
