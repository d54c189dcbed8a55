"""A method is a plan and a row in METHODS: a toy one reaches the estimators through the table."""

import json
import math
from dataclasses import dataclass

import numpy as np
import pytest

from skdp import DPLinearClassifier, DPLogisticRegression, DPRidge
from skdp.algorithms import METHODS, Method, Plan, Result
from skdp.mechanisms import AdditiveMechanism, calibrated_mechanism
from skdp.privacy.events import RECORD_RELATIONS, Neighbouring
from skdp.problems import Objective

NAMES = (
    "output",
    "phased",
    "gradient",
    "statistics",
    "objective",
    "exponential",
    "mirror_descent",
)


@dataclass(frozen=True)
class ToyPlan(Plan):
    """The mean gradient at zero, with noise: replacing a record moves it by 2 L / n."""

    objective: Objective
    mechanism: AdditiveMechanism

    @property
    def releases(self):
        n, size = self.objective.design.n_records, self.objective.dimension
        relation = self.objective.neighbouring
        return (self.mechanism.describe("coefficients", size, n, "toy", relation),)

    def to_dict(self):
        return {"alpha": self.objective.alpha, "radius": self.objective.radius}

    def run(self, data, run):
        loss, n = self.objective.risk.loss, self.objective.design.n_records
        start = np.zeros((loss.n_outputs, data.width))
        gradient = data.total(
            lambda block: block.pull_back(loss.derivative(block.margins(start), block.targets))
        )
        return Result(point=self.mechanism.release(-gradient.ravel() / n, run.noise), plan=self)


def toy(bound=None, **row):
    """A row; a bound is for the comparison by "auto"."""

    def plan(objective, budget):
        design = objective.design
        moved = 2.0 * objective.risk.loss.lipschitz(design.feature_norm, 0.0) / design.n_records
        return ToyPlan(objective, calibrated_mechanism(budget, moved * (1 + 1e-9)))

    if bound is not None:
        row["candidate"] = lambda *public: (bound, lambda: plan(*public))
    return Method(plan=plan, is_bounded=True, **row)


@pytest.fixture
def register(monkeypatch):
    return lambda method: monkeypatch.setitem(METHODS, "toy", method)


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


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize(
    ("estimator", "n_classes"), [(DPLogisticRegression, 2), (DPLogisticRegression, 3), (DPRidge, 2)]
)
def test_a_registered_method_is_fitted_and_reported(register, estimator, n_classes, delta):
    register(toy())
    model = fit(estimator, method="toy", delta=delta, n_classes=n_classes, alpha=0.25, coef_norm=2)
    report = model.privacy_
    assert (report.method, report.epsilon, report.delta) == ("toy", 1.0, delta)
    assert report.neighbouring is Neighbouring.REPLACE_ONE
    (release,) = report.releases
    assert release.mechanism == ("gaussian" if delta else "spherical_laplace")
    assert release.dimension == (n_classes - 1) * 4 and release.n_records == 2000
    assert model.alpha_ == 0.25 and report.plan["radius"] == 2.0
    assert "method_bounds" not in report.plan
    assert "toy" in str(report) and json.dumps(report.to_dict())
    assert np.isfinite(model.coef_).all()
    again = fit(estimator, method="toy", delta=delta, n_classes=n_classes, alpha=0.25, coef_norm=2)
    assert np.array_equal(model.coef_, again.coef_)


@pytest.mark.parametrize("estimator", [DPLogisticRegression, DPRidge])
def test_the_solution_is_that_of_the_plan(register, estimator):
    """With hardly any noise, the coefficients are minus the mean gradient at zero."""
    register(toy())
    model = fit(estimator, method="toy", epsilon=1e9, delta=0.0, fit_intercept=False)
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (2000, 3))
    targets = (X[:, 0] > 0) - 0.5 if estimator is DPLogisticRegression else X[:, 0]
    assert np.allclose(model.coef_, X.T @ targets / 2000, atol=1e-6)


@pytest.mark.parametrize("estimator", [DPLogisticRegression, DPRidge])
def test_auto_takes_the_smallest_bound(register, estimator):
    def chosen():
        report = fit(estimator, solver="newton", preparation=None).privacy_
        return report.method, report.plan.get("method_bounds", {})

    before, bounds = chosen()
    assert "toy" not in bounds
    register(toy())  # by name only
    assert chosen() == (before, bounds)
    register(toy(1e-9))
    method, compared = chosen()
    assert method == "toy" and compared == bounds | {"toy": 1e-9}
    register(toy(1e9))
    assert chosen() == (before, bounds | {"toy": 1e9})
    register(toy(math.inf))
    assert chosen() == (before, bounds)


@pytest.mark.parametrize("estimator", [DPLogisticRegression, DPRidge])
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"neighbouring": "add_remove"}, "method='toy' is proven for neighbouring='replace_one'"),
        ({"calibration": "paper"}, "method='toy' has no calibration='paper'"),
        ({"tilt": 1.0}, "the tilted loss is no mean over records"),
    ],
)
def test_what_a_row_does_not_cover_is_refused(register, estimator, parameters, message):
    register(toy())
    with pytest.raises(ValueError, match=message):
        fit(estimator, method="toy", **parameters)


def test_a_row_widens_what_is_covered(register):
    register(toy(is_pure=True))
    with pytest.raises(ValueError, match="method='toy' gives pure privacy: delta must be 0"):
        fit(DPRidge, method="toy")
    assert fit(DPRidge, method="toy", delta=0.0).privacy_.delta == 0.0
    register(toy(published=toy().plan, published_epsilon=1.0))
    with pytest.raises(ValueError, match="proven for epsilon < 1 and delta > 0 only"):
        fit(DPRidge, method="toy", calibration="paper", epsilon=2.0)
    assert fit(DPRidge, method="toy", calibration="paper", epsilon=0.5).privacy_.method == "toy"
    register(toy(relations=RECORD_RELATIONS))
    report = fit(DPRidge, method="toy", neighbouring="add_remove", n_public=2000).privacy_
    assert report.neighbouring is Neighbouring.ADD_REMOVE


def test_estimators_of_other_losses_and_an_unknown_name(register):
    register(toy())
    assert fit(DPLinearClassifier, method="toy", loss="squared_hinge").privacy_.method == "toy"
    with pytest.raises(ValueError, match="toy"):  # among the names that there are
        fit(DPRidge, method="no such method")


def test_a_plan_without_a_bound_is_never_the_smallest():
    assert Plan.bound(ToyPlan(None, None)) == math.inf


def test_the_table_is_restored():
    assert tuple(METHODS) == NAMES
    with pytest.raises(ValueError, match="method == 'toy'"):
        fit(DPRidge, method="toy")
