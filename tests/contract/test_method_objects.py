"""Methods are objects with parameters: copied, searched, shown and pickled as estimators are."""

import inspect
import pickle

import numpy as np
import pytest
from fit_cases import CASES
from sklearn.base import clone

import skdp.methods
from skdp.linear_model import DPLogisticRegression
from skdp.methods import Method, OutputPerturbation
from skdp.methods.choice import GROUP_METHODS, METHODS, SYNTHETIC_METHODS, TUNING_METHODS
from skdp.model_selection import DPLogisticRegressionCV
from skdp.robust import DPMaxGroupLossClassifier

ROWS = {
    f"{kind.__name__}, {name}": (kind, row)
    for kind, table in (
        (DPLogisticRegression, METHODS),
        (DPMaxGroupLossClassifier, GROUP_METHODS),
        (DPLogisticRegressionCV, TUNING_METHODS),
    )
    for name, row in table.items()
}
every_row = pytest.mark.parametrize(("kind", "row"), ROWS.values(), ids=ROWS)


def unusual(row):
    """The object with another value of each of its parameters."""
    return type(row)(**{name: _other(value) for name, value in row.get_params().items()})


def _other(value):
    if isinstance(value, bool):
        return not value
    return "lbfgs" if isinstance(value, str) else 2.5 if value is None else value + 1.0


def test_the_tables_have_all_public_methods_with_their_defaults():
    tables = METHODS, GROUP_METHODS, TUNING_METHODS, SYNTHETIC_METHODS
    rows = [row for table in tables for row in table.values()]
    assert {type(row).__name__ for row in rows} | {"Method"} == set(skdp.methods.__all__)
    for row in rows:
        assert repr(row) == f"{type(row).__name__}()" and not hasattr(row, "fit")


@every_row
def test_parameters_are_those_of_the_model_too(kind, row):
    own = row.get_params()
    assert set(own) == set(inspect.signature(type(row)).parameters)
    model = kind(method=unusual(row))
    nested = {f"method__{name}": value for name, value in model.method.get_params().items()}
    assert nested.items() <= model.get_params().items()
    assert not nested.keys() & model.get_params(deep=False).keys()
    assert not any(name.startswith("method__") for name in kind(method="auto").get_params())
    for name, value in own.items():
        model.set_params(**{f"method__{name}": value})
    assert repr(model.method) == repr(row)
    for name in ("no_such_parameter", *(["alpha"] if "alpha" not in own else [])):
        with pytest.raises(ValueError, match=f"Invalid parameter '{name}'"):
            model.set_params(**{f"method__{name}": 0.5})


@every_row
def test_copies_are_equal_and_apart(kind, row):
    method = unusual(row)
    model = kind(method=method)
    copies = clone(method), clone(model).method, pickle.loads(pickle.dumps(model)).method
    for copy in (*copies, eval(repr(method), vars(skdp.methods))):
        assert copy is not method and type(copy) is type(method)
        assert copy.get_params() == method.get_params()
        for name, value in row.get_params().items():
            copy.set_params(**{name: value})
    assert method.get_params() == unusual(row).get_params()
    assert repr(row) == f"{type(row).__name__}()"


@pytest.mark.parametrize("method", ["output_perturbation", "auto", "gradient"])
def test_a_name_has_no_parameters(method):
    model = DPLogisticRegression(method=method)
    with pytest.raises(ValueError, match=rf"method='{method}' is a name.*pass an object of"):
        model.set_params(method__alpha=0.5)
    assert model.method == method and repr(METHODS["output_perturbation"]) == "OutputPerturbation()"
    model.set_params(method=OutputPerturbation(), method__alpha=0.5)
    assert model.method.alpha == 0.5
    with pytest.raises(ValueError, match="is a name"):
        model.set_params(method=method, method__alpha=0.1)


@pytest.mark.filterwarnings("ignore::UserWarning")  # of much noise
@pytest.mark.parametrize(
    "name", ["logistic, output, alpha 0, delta 0.01", "vertices, ridge", "ridge, two phases"]
)
def test_a_fitted_model_keeps_its_object_and_is_pickled_with_it(name):
    case = CASES[name]
    model = case.make()
    given, shown = model.method, repr(model.method)
    assert isinstance(given, Method)
    records = case.records(0)
    model.fit(records.X, records.y)
    assert model.method is given and repr(given) == shown
    loaded = pickle.loads(pickle.dumps(model))
    assert repr(loaded) == repr(model)
    np.testing.assert_array_equal(loaded.predict(records.X), model.predict(records.X))
    assert not hasattr(clone(loaded), "coef_")
