"""What leaves a fit, against the bits that went in: coefficients, choices and densities.

The record of draws (test_fits.py) sees the noise when it is added. Here the *output* must move as
that noise says: nothing on the way from a release to the model may take noise off again, and the
draws without additive noise must have the probabilities that their events are priced for. No test
here depends on chance.
"""

import math
import warnings

import numpy as np
import pytest
from fit_case import TableCase, TabularCase
from fit_cases import CASES
from laboratory import Laboratory

from skdp.algorithms.exponential.localisation import LocalizedExponentialPlan
from skdp.algorithms.exponential.mechanism import bound_oscillation
from skdp.linear_model import DPLogisticRegression, DPRidge
from skdp.mechanisms import NoiseSource
from skdp.methods import ExponentialMechanism
from skdp.problems import HalfSquaredLoss, LogisticLoss

SEED = 0
#: Methods that release moments, gradients or vertices, not coefficients.
MOMENTS = ("gradient", "bilevel", "rgda")
#: The way from the last release to the model is that of delta > 0 for delta 0 as well.
ADDITIVE = [
    name
    for name, case in CASES.items()
    if case.parameters.get("delta") != 0
    and not isinstance(case, (TableCase, TabularCase))
    and not name.startswith(("row ", "blocks, "))
    and case.parameters.get("method") not in MOMENTS
    and not case.draws_vertices
    and not any(mode in name for mode in ("histogram", "look", "network", "solved", "one group"))
    and not any(mode in name for mode in ("gradient", "classifier, output", "regressor, output"))
    and "intervals" not in case.parameters
]


def weights_of(fitted):
    """The released weights, with the intercept's as that of a constant feature."""
    weights = np.atleast_2d(fitted.coef_)
    if fitted.fit_intercept:
        middle = 0.0 if hasattr(fitted, "classes_") else 0.5 * sum(fitted.target_range)
        value = fitted._intercept_value
        weights = np.column_stack([weights, (np.atleast_1d(fitted.intercept_) - middle) / value])
    return weights


# -------------------------------------------------------------------------------- additive noise


@pytest.mark.mostly("slow", 12)
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * CASES[name].is_slow) for name in ADDITIVE],
)
def test_coefficients_move_with_the_last_noise(name):
    """The first coordinate of the last draw moves the weights in the ball's interior as stated."""
    case = CASES[name]

    def fit(numbers):
        with warnings.catch_warnings(), Laboratory(numbers=numbers) as laboratory:
            warnings.simplefilter("ignore")
            return case.fit(case.records(SEED)), laboratory

    fitted, laboratory = fit({})
    last, draw = len(laboratory.draws) - 1, laboratory.draws[-1]
    release, plan = fitted.privacy_.releases[-1], fitted.privacy_.plan
    scale = release.noise_scale
    if "block_sizes" in plan:
        scale = plan["noise_scales"][-1]
    if hasattr(fitted, "alpha_path_"):  # in coordinates in which all alphas are 1
        scale /= math.sqrt(np.ravel(fitted.alpha_)[0])
    # half-way to the origin of the domain, of one block of a joint release
    inside = -0.5 * draw.value / draw.scale
    if plan.get("released") == "joint":
        inside[case.d + fitted.fit_intercept :] = 0.0
    step = np.zeros(draw.dimension)
    step[0] = 1e-3 * np.linalg.norm(inside)
    assert step[0] > 0
    first, second = (weights_of(fit({last: inside + s * step})[0]) for s in (0.0, 1.0))
    moved = np.linalg.norm(second - first)
    assert moved == pytest.approx(scale * step[0], rel=1e-6)


# ------------------------------------------------------------------------------------- densities


class Rejected(Exception):
    """The first proposal was not taken."""


def one_proposal(patch, point, allowance):
    """The first of the proposals is `point` with an allowance; all others have none."""
    calls = []

    def standard_normal(source, size):
        calls.append(size)
        if len(calls) > 1:
            raise Rejected
        numbers = np.full(size, 1e3)  # far outside of every ball
        numbers[: len(point)] = point
        return numbers

    def exponential(source, size):
        return np.append(allowance, np.zeros(size - 1))

    patch.setattr(NoiseSource, "standard_normal", standard_normal)
    patch.setattr(NoiseSource, "exponential", exponential)


@pytest.mark.mostly("slow", 1)
@pytest.mark.parametrize("penalty", [0.0, 0.5])
@pytest.mark.parametrize("task", ["ridge", "logistic"])
def test_point_of_a_ball_has_the_priced_density(task, penalty, monkeypatch):
    """The log density of the fitted coefficients is ``-s F``, s being that of the event.

    A proposal is taken if its allowance, an exponential variable, is large enough: its density
    times ``exp(-threshold)`` is that of the output. Thresholds are found by bisection.
    """
    rng = np.random.default_rng(2)
    X, y = rng.uniform(-0.7, 0.7, size=(5, 2)), np.array([1.0, -0.5, 0.5, 1.0, 0.0])
    method = ExponentialMechanism(alpha=penalty, coef_norm=1.0)
    shared = {"method": method, "delta": 0.0, "epsilon": 30.0}
    shared |= {"fit_intercept": False, "data_norm": 1.0}
    if task == "ridge":
        model, loss = DPRidge(target_range=(-1, 1), **shared), HalfSquaredLoss(1.0)
    else:
        model, loss = DPLogisticRegression(classes=[0, 1], **shared), LogisticLoss()
        y = (y > 0).astype(float)

    # one draw from the whole ball
    monkeypatch.setattr(LocalizedExponentialPlan, "bound", lambda plan: math.inf)

    def output(point, allowance):
        with monkeypatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one_proposal(patch, point, allowance)
            return np.ravel(model.fit(X, y).coef_)

    def is_taken(point, allowance):
        try:
            output(point, allowance)
        except Rejected:
            return False
        return True

    def threshold(point):
        if is_taken(point, 0.0):
            return 0.0
        low, high = 0.0, 600.0
        while high - low > 1e-6:
            middle = 0.5 * (low + high)
            low, high = (low, middle) if is_taken(point, middle) else (middle, high)
        return high

    logs, values = [], []
    for point in ((-0.4, -0.7), (0.7, 0.6), (0.1, 0.0), (-0.4, 0.6), (0.2, -0.3), (1.5, -0.7)):
        if not is_taken(np.array(point), 600.0):  # outside of the ball
            continue
        w = output(np.array(point), 600.0)
        logs.append(-0.5 * np.dot(point, point) - threshold(np.array(point)))
        values.append(loss.value(X @ w, y).mean() + 0.5 * penalty * (w @ w))
    release = model.privacy_.releases[0]
    concentration = release.n_records * release.event.epsilon / release.sensitivity
    assert len(logs) >= 4 and concentration * np.ptp(values) > 0.1
    np.testing.assert_allclose(
        np.subtract(logs, logs[0]), -concentration * np.subtract(values, values[0]), atol=1e-5
    )


@pytest.mark.parametrize("name", [name for name in CASES if "localised" in name])
def test_localised_point_has_the_priced_concentration(name):
    """Around a released centre: ``s = n epsilon / (2 oscillation)`` with that of the small ball."""
    case = CASES[name]
    with warnings.catch_warnings(), Laboratory() as laboratory:
        warnings.simplefilter("ignore")
        fitted = case.fit(case.records(SEED))
    _, draw = laboratory.draws
    records, plan = draw.details["records"], fitted.privacy_.plan
    center = laboratory.releases[0]
    center = center * min(1.0, plan["radius"] / np.linalg.norm(center))
    oscillation = bound_oscillation(
        records.loss,
        records.records.norm_bound,
        plan["local_radius"],
        float(np.linalg.norm(center)),
        plan["radius"],
    )
    stated = 0.5 * case.n * fitted.epsilon / oscillation
    assert draw.rate == pytest.approx(stated, rel=1e-9)
