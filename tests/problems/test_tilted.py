"""Tilted risks: limits, constants, rounding, solvers."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from every_loss import BOUND, LOSSES, targets_for
from extended_precision import LONG, bounded_rows

from skdp.privacy.events import Neighbouring
from skdp.problems import (
    AbsoluteLoss,
    Ball,
    Design,
    HalfSquaredLoss,
    LogisticLoss,
    Records,
    TiltedProblem,
    TiltedRisk,
)
from skdp.problems.constants import generalised_linear_constants
from skdp.problems.tilted import tilted_constants
from skdp.solvers import SOLVERS

every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def random_problem(loss, tilt, *, sparse=False, n=25, d=3, alpha=0.1, radius=2.0, seed=0, **kwargs):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    rows = Records(sp.csr_matrix(X) if sparse else X, 1.5, 0.4)
    return TiltedProblem(
        rows.with_targets(targets_for(loss, rng, n)), loss, alpha, Ball(radius), tilt, **kwargs
    )


def exact(problem, w):
    """Value and gradient in extended precision, from the definition."""
    X, loss, t = bounded_rows(problem), problem.loss, problem.records.targets
    t = t.astype(LONG) if t.dtype.kind == "f" else t
    w = np.asarray(w, dtype=LONG)
    margins = X @ w.reshape(loss.n_outputs, -1).T
    margins = margins if loss.n_outputs > 1 else margins[:, 0]
    losses = loss.value(margins, t)
    assert losses.dtype == LONG
    tilt, top = LONG(problem.tilt), losses.max()
    weights = np.exp(tilt * (losses - top))
    away = w if problem.center is None else w - problem.center
    value = top + np.log(weights.mean()) / tilt + LONG(problem.alpha) / 2 * (away @ away)
    weights = weights / weights.sum()
    slope = loss.derivative(margins, t).reshape(len(X), -1)
    gradient = ((weights[:, None] * slope).T @ X).ravel() + LONG(problem.alpha) * away
    return value, gradient


# --- constants -------------------------------------------------------------------------------


def test_smoothness_is_attained():
    """Two opposite records of equal loss: the covariance of the gradients is ``L^2``."""
    X = np.array([[1.0], [-1.0]])
    for tilt in (0.5, 50.0):
        loss = AbsoluteLoss(1.0).smoothed(0.01)
        problem = TiltedProblem(
            Records(X, 1.0, targets=np.array([1.0, 1.0])), loss, 1e-9, Ball(0.1), tilt
        )
        assert problem.hessian(np.zeros(1))[0, 0] == pytest.approx(tilt, rel=1e-6)
        assert problem.smoothness == pytest.approx(tilt + 100.0, rel=1e-6)


def test_smoothness_holds_on_three_times_the_radius():
    """Two records of equal loss, which is steeper there: accelerated methods may go there."""
    X = math.sqrt(0.5) * np.array([[1.0, 1.0], [1.0, -1.0]])
    data = Records(X, 1.0, targets=-np.ones(2))
    problem = TiltedProblem(data, HalfSquaredLoss(1.0), 1e-9, Ball(1.0), 2.0)
    largest = np.linalg.eigvalsh(problem.hessian(np.array([3.0, 0.0]))).max()
    assert 0.25 * problem.smoothness < largest <= problem.smoothness


def constants_of(loss, tilt, n, radius, feature_norm=1.0, alpha=1.0):
    design = Design(feature_norm, 2, n)
    mean = generalised_linear_constants(loss, design, alpha, radius)
    return mean, tilted_constants(mean, loss, tilt, design)


def largest_weight(loss, tilt, n, radius, seed=0):
    """Largest weight that a search finds one record to have among n - 1 equal others."""
    rng, m = np.random.default_rng(seed), 2000
    k = loss.n_outputs
    w = rng.standard_normal((m, k))
    w *= radius / np.linalg.norm(w, axis=1, keepdims=True)
    x = rng.choice([-1.0, 1.0, 1.0], (m, 2)) * rng.choice([0.0, 0.5, 1.0, 1.0, 1.0], (m, 2))
    t = np.array([targets_for(loss, rng, 2) for _ in range(m)])
    if t.dtype.kind == "f" and len(np.unique(t)) > 2:
        met = np.clip(w[:, 0] * x[:, 1], -BOUND, BOUND)
        t = np.column_stack([BOUND * np.sign(t[:, 0]), np.where(rng.random(m) < 0.7, met, t[:, 1])])
    values = []
    for j in (0, 1):
        z = w * x[:, j : j + 1]
        values.append(loss.value(z if k > 1 else z[:, 0], t[:, j]))
    exponent = tilt * (values[0] - values[1])
    return (1.0 / (1.0 + (n - 1) * np.exp(-exponent))).max()


@pytest.mark.parametrize(
    ("tilt", "radius", "n"), [(0.01, 1.0, 2), (0.5, 2.0, 1000), (3.0, 0.2, 10)]
)
@every_loss
def test_weight_of_a_record(loss, tilt, radius, n):
    """``C / (C + n - 1)``: never exceeded, attained by exact ranges, below the printed form."""
    mean, constants = constants_of(loss, tilt, n, radius)
    weight, found = constants.record_weight, largest_weight(loss, tilt, n, radius)
    assert 1 / n <= weight <= 1
    assert found <= weight * (1 + 1e-12)
    printed = min(1.0, math.exp(tilt * loss.value_range(1.0, radius)) / n)
    assert weight <= printed
    if isinstance(loss, (LogisticLoss, HalfSquaredLoss)):
        assert found >= 0.95 * weight
    assert constants.gradient_diameter == mean.gradient_diameter
    assert constants.lipschitz == mean.lipschitz
    moved = constants.argmin_sensitivity(Neighbouring.REPLACE_ONE)
    assert moved == pytest.approx(min(mean.gradient_diameter * weight, 2 * mean.radius), rel=1e-8)


@every_loss
def test_no_solution_leaves_the_radius(loss):
    """A tilted solution weighs the same terms: it lies in the ball of the mean's solution."""
    best, feature_norm = 0.0, math.hypot(1.5, 0.4)
    for seed in range(4):
        for alpha in (1e-2, 1.0, 100.0):
            bound = loss.solution_radius(feature_norm, alpha)
            problem = random_problem(
                loss, 3.0, n=[1, 2, 6][seed % 3], seed=seed, radius=1.5 * bound, alpha=alpha
            )
            point = SOLVERS["newton"]().solve(problem, 1e-4 * bound).point
            best = max(best, np.linalg.norm(point) / bound)
    assert 0.6 <= best <= 1 + 1e-4


# --- the largest loss ------------------------------------------------------------------------


def test_the_warning_names_the_tilt_from_which_one_record_decides():
    loss, design = LogisticLoss(), Design(1.0, 2, 5001)
    limit = math.log(5000.0) / 2.0

    def alarms(tilt):
        risk = TiltedRisk(loss, tilt)
        return risk.alarms(risk.constants(design, 1e-3, 2.0), design)

    assert not alarms(limit * (1 - 1e-9))
    (text,) = alarms(limit * (1 + 1e-9))
    assert f"take less than {limit:.2g}" in text


# --- rounding and solvers --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "tilt", "sparse", "radius"),
    [
        *(
            (loss, (1e-5, 0.7, 8.0)[i % 3], bool(i % 2), 3.0)
            for i, loss in enumerate(LOSSES.values())
        ),
        (LogisticLoss(), 1e3, False, 1.0),
        (LogisticLoss(), 1.0, True, 2e3),
        (LogisticLoss(), 1e5, False, 1e-2),
    ],
)
def test_rounding_is_below_its_bound(loss, tilt, sparse, radius):
    """Of every loss, tilts and layouts by turns; and with exponents up to 1e4."""
    for n, factor in ((3, 1e-3), (1000, 1.0), (1000, 10.0)):
        problem = random_problem(loss, factor * tilt, sparse=sparse, n=n, radius=radius)
        rng = np.random.default_rng(5)
        for scale in (1e-3, 0.3, 1.0):
            w = rng.standard_normal(problem.dimension)
            w = problem.domain.project(scale * radius * w / np.linalg.norm(w))
            with np.errstate(over="raise", invalid="raise", divide="raise"):
                found, slope = problem.value_and_gradient(w)
                assert np.isfinite(problem.hessian(w)).all()
            value, gradient = exact(problem, w)
            rel = max(1e-12, 1e-17 / problem.tilt)  # of the logarithm in extended precision
            assert found == pytest.approx(float(value), rel=rel)
            error = slope.astype(LONG) - gradient
            assert float(np.sqrt(error @ error)) <= problem.gradient_rounding(w)


def test_many_small_weights_are_not_rounded_away():
    """One record outweighs each of many others, but not their sum."""
    n = 100_000
    X = np.ones((n, 1))
    X[0] = -1.0
    y = np.ones(n)
    for radius, tilt in ((30.0, 1.0), (30.0, 2.0)):
        problem = TiltedProblem(
            Records(X, 1.0, targets=y), LogisticLoss(), 1e-3, Ball(radius), tilt
        )
        for w in np.linspace(0.3, 0.999, 4) * radius:
            w_long = LONG(w)
            losses = np.array([np.logaddexp(LONG(0), w_long), np.logaddexp(LONG(0), -w_long)])
            slopes = np.array([1 / (1 + np.exp(-w_long)), -1 / (1 + np.exp(w_long))])
            weights = np.exp(LONG(tilt) * (losses - losses.max())) * np.array([1, n - 1])
            total = weights.sum()
            gradient = (weights * slopes).sum() / total + LONG(1e-3) * w_long
            value = losses.max() + np.log(total / n) / LONG(tilt) + LONG(1e-3) * w_long**2 / 2
            point = np.array([w])
            error = abs(float(LONG(problem.gradient(point)[0]) - gradient))
            assert error <= 0.1 * problem.gradient_rounding(point)
            assert problem.value(point) == pytest.approx(float(value), rel=1e-13, abs=1e-13)


def test_rounding_of_losses_that_do_not_vanish_with_the_weights():
    """At w = 0 nearly, losses near 1/2 with errors of their own decide the weights."""
    rng = np.random.default_rng(8)
    X, y = rng.choice([-1.0, 1.0], (50, 1)), 1.0 - 1e-7 * rng.random(50)
    for tilt in (1e4, 1e6):
        problem = TiltedProblem(
            Records(X, 1.0, targets=y), HalfSquaredLoss(1.0), 1.0, Ball(1e-7), tilt
        )
        for w in (np.array([3e-8]), np.array([-1e-8])):
            error = problem.gradient(w).astype(LONG) - exact(problem, w)[1]
            assert float(abs(error[0])) <= problem.gradient_rounding(w)
            if tilt == 1e6:  # a bound for a mean would not do
                assert float(abs(error[0])) >= 1e3 * np.finfo(float).eps
