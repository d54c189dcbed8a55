"""A method is a class with a plan: estimators take a user's object, which is in no table."""

import math

import numpy as np
import pytest
from toy_method import Toy

from skdp import DPLinearClassifier, DPLogisticRegression, DPRidge
from skdp.methods.choice import METHODS
from skdp.privacy.events import RECORD_RELATIONS, Neighbouring


class Bounded(Toy):
    """With a bound for the comparison by "auto", and a solver as those have."""

    def __init__(self, scale=1.0, bound=1.0, solver="auto"):
        super().__init__(scale)
        self.bound = bound
        self.solver = solver

    def candidate(self, objective, budget):
        return self.bound, lambda: self.plan(objective, budget)


class Penalised(Toy):
    takes_alpha = True


class Pure(Toy):
    is_pure = True


class Approximate(Toy):
    needs_delta = True


class Wide(Toy):
    relations = RECORD_RELATIONS


def fit(estimator, n=2000, n_classes=2, **parameters):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (n, 3))
    y = X[:, 0]
    if "classes" in estimator().get_params():
        y = np.digitize(y, np.linspace(-0.5, 0.5, n_classes + 1)[1:-1])
        parameters["classes"] = range(n_classes)
    else:
        parameters["target_range"] = (-1.0, 1.0)
    return estimator(data_norm=1.0, random_state=0, **parameters).fit(X, y)


@pytest.mark.parametrize("estimator", [DPLogisticRegression, DPRidge])
@pytest.mark.parametrize(
    ("method", "parameters", "message"),
    [
        (Toy(), {"neighbouring": "add_remove"}, r"method=Toy\(\) is proven for .*'replace_one'"),
        (Toy(), {"alpha": 0.1}, r"method=Toy\(\) has no penalty"),
        (Toy(), {"solver": "newton"}, r"method=Toy\(\) has no solver"),
        (Bounded(), {"solver": "newton"}, "has no solver"),
        (Bounded(solver="simplex"), {}, "solver == 'simplex'"),
        (Pure(), {}, r"method=Pure\(\) gives pure privacy: delta must be 0"),
        (Approximate(), {"delta": 0.0}, r"method=Approximate\(\) needs delta > 0"),
    ],
)
def test_what_a_class_does_not_cover_is_refused(estimator, method, parameters, message):
    with pytest.raises(ValueError, match=message):
        fit(estimator, method=method, **parameters)


def test_attributes_widen_what_is_covered():
    assert fit(DPRidge, method=Pure(), delta=0.0).privacy_.delta == 0.0
    assert fit(DPRidge, method=Penalised(), alpha=0.25).alpha_ == 0.25
    report = fit(DPRidge, method=Wide(), neighbouring="add_remove", n_public=2000).privacy_
    assert report.neighbouring is Neighbouring.ADD_REMOVE


def test_estimators_of_other_losses_an_unknown_name_and_a_class():
    assert fit(DPLinearClassifier, method=Toy(), loss="squared_hinge").privacy_.method == "Toy"
    with pytest.raises(ValueError, match=r"method == 'toy'.*'gradient'"):  # among those there are
        fit(DPRidge, method="toy")
    with pytest.raises(TypeError, match=r"pass an object, Toy\(\), not the class"):
        fit(DPRidge, method=Toy)


def test_auto_takes_the_smallest_bound(monkeypatch):
    """A row of the table is compared where it has a bound; no object outside of it is."""

    def chosen():
        report = fit(DPLinearClassifier, loss="squared_hinge", solver="newton", delta=0.0).privacy_
        return report.method, report.plan.get("method_bounds", {})

    before, bounds = chosen()
    monkeypatch.setitem(METHODS, "toy", Toy())  # by name only
    assert chosen() == (before, bounds)
    monkeypatch.setitem(METHODS, "toy", Bounded(bound=1e-9))
    method, compared = chosen()
    assert method == "toy" and compared == bounds | {"toy": 1e-9}
    monkeypatch.setitem(METHODS, "toy", Bounded(bound=1e9))
    assert chosen() == (before, bounds | {"toy": 1e9})
    monkeypatch.setitem(METHODS, "toy", Bounded(bound=math.inf))
    assert chosen() == (before, bounds)
