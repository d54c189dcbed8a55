"""Methods are objects with parameters: copied, searched, shown and pickled as estimators are."""

import inspect
import pickle

import pytest
from sklearn.base import clone

import skdp.methods
from skdp.linear_model import DPLogisticRegression
from skdp.methods import OutputPerturbation
from skdp.methods.choice import GROUP_METHODS, METHODS, TUNING_METHODS
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
