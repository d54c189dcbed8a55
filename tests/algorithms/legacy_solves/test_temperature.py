"""Temperature: no record moves the release further, rounding included."""

from __future__ import annotations

import math

import numpy as np
import pytest
from plain_noise import PlainNoise, Scales, Silent
from public_objectives import ADD, RELATIONS, REPLACE, centering_of, objective

from skdp.algorithms.core.centered_rows import CenteredRows, Centering, sum_rounding
from skdp.algorithms.legacy_solves.temperature import (
    TemperatureDerivatives,
    _left,
    _step,
    plan_temperature,
)
from skdp.problems import Design, HalfSquaredLoss, LogisticLoss, Records, SoftmaxLoss


@RELATIONS
@pytest.mark.parametrize("loss", [LogisticLoss(), SoftmaxLoss(3), HalfSquaredLoss(2.0)], ids=repr)
def test_no_record_moves_the_temperature_further(loss, relation):
    rng = np.random.default_rng(3)
    centering = Centering(
        mean=np.array([0.3, 0.1]),
        scale=0.05,
        offsets=rng.normal(size=loss.n_outputs),
        target_variance=0.15,
    )
    design = Design(1.01, 3, 1, 1.0 if relation is REPLACE else 10.0, 0.1)
    plan = plan_temperature(loss, design, relation, 1.0)
    w = (0.01 if loss.target_bound else 10.0) * rng.normal(size=(loss.n_outputs, 3))
    sums, limits = [], []
    for _ in range(60):
        row = rng.normal(size=2) * 10.0 ** rng.uniform(-1, 1)
        target = rng.integers(loss.n_margins + 1) % 2
        target = int(target) if isinstance(loss, SoftmaxLoss) else float(target)
        target = target if not loss.target_bound else 4.0 * target - 2.0
        records = Records(np.array([row]), 1.0, 0.1, targets=np.array([target]))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                "skdp.mechanisms.GaussianMechanism.release",
                lambda this, value, noise: (
                    sums.append(value),
                    limits.append(this.sensitivity),
                    value,
                )[2],
            )
            rows = CenteredRows(records, centering)
            spread = 0.3 if loss.target_bound else 1.0
            plan.release(rows, w, centering.offsets, 0.8, Silent(), spread)
    assert max(map(np.linalg.norm, sums)) <= 1.0 + 1e-12
    gaps = [np.linalg.norm(a - b) for a in sums for b in sums]
    assert max(gaps) > 1.0
    k = 2.0 if relation is REPLACE else 1.0
    assert k <= min(limits) and max(limits) <= k * (1.0 + 1e-6)


def test_the_noise_of_the_temperature_covers_rounding():
    design = objective(LogisticLoss(), 10**9, 2).design
    plan = plan_temperature(LogisticLoss(), design, REPLACE, 1.0)
    rounding = sum_rounding(design, 1.0)
    assert rounding > 1e-3
    assert plan.sum.bound() == pytest.approx(2.0 * (1.0 + 1e-9) + rounding, rel=1e-12)


def vector_of(plan, block, score, factor, unit, spread, offset):
    """Vector of a record that has a constant feature alone."""
    derivatives = TemperatureDerivatives(
        loss=plan.loss,
        weights=np.array([[0.0, score / block.intercept]]),
        offset=np.array(offset),
        factor=factor,
        unit=unit,
        spread=spread,
        has_shift=plan._has_shift,
    )
    return derivatives(block, np.ones(1))


@pytest.mark.parametrize("loss", [LogisticLoss(), HalfSquaredLoss(2.0)], ids=repr)
def test_no_vector_moves_further_than_its_score_says(loss):
    """Of records at random scores, shifted by 1e-6; the bound is not loose by more than 30."""
    rng, largest = np.random.default_rng(0), 0.0
    plan = plan_temperature(loss, objective(loss, 100, 2).design, ADD, 1.0)
    for _ in range(2000):
        factor, bound, spread, unit = 10.0 ** rng.uniform(-1, 1, size=4)
        unit = unit if loss.target_bound else 3.0 + unit
        score, offset = rng.uniform(-bound, bound), rng.normal()
        target = rng.integers(2) * (loss.target_bound or 1.0)
        records = Records(np.zeros((1, 1)), 1.0, 0.1, targets=np.array([float(target)]))
        (block,) = records.blocks()

        def vector(score, unit=unit, factor=factor, offset=offset, block=block, spread=spread):
            return vector_of(plan, block, score, factor, unit, spread, offset)

        size = bound + abs(offset) + loss.target_bound
        moved = np.linalg.norm(vector(score + 1e-6) - vector(score)) / 1e-6
        largest = max(largest, moved / plan._steepness(factor, bound, size, unit, spread))
    assert 1.0 / 30.0 < largest <= 1.0


def test_the_vector_of_squares_moves_as_far_as_its_bound_says():
    """Where terms of one kind rule: the ratio is at most 1 and nearly 1."""
    loss = HalfSquaredLoss(2.0)
    plan = plan_temperature(loss, objective(loss, 100, 2).design, ADD, 1.0)
    cases = {  # factor, bound, unit, spread; targets are opposite to the scores
        "residual": (1e-9, 1e-6, 1e3, 1e2),
        "factor": (1e2, 1e3, 1e6, 1e2),
        "square": (1e-9, 1e3, 1e6, 1e12),
    }
    for factor, bound, unit, spread in cases.values():
        records = Records(np.zeros((1, 1)), 1.0, 0.1, targets=np.array([-2.0]))
        (block,) = records.blocks()

        def vector(score, unit=unit, factor=factor, block=block, spread=spread):
            return vector_of(plan, block, score, factor, unit, spread, 0.0)

        step = 1e-3 * bound
        moved = np.linalg.norm(vector(bound) - vector(bound - step)) / step
        ratio = moved / plan._steepness(factor, bound, bound + 2.0, unit, spread)
        assert 0.4 < ratio <= 1.0 + 1e-9


@pytest.mark.parametrize(("length", "bound"), [(1e6, 2.0), (1e-3, 1e7)])
def test_noise_of_the_factor_covers_the_rounding_of_moved_records(length, bound):
    """Add/remove: the formula of Lemma 4 for squares, written out."""
    loss = HalfSquaredLoss(bound)
    design = Design(1.01, 3, 100, 10.0, 0.1)
    plan, noise = plan_temperature(loss, design, ADD, 1.0), Scales()
    rows = CenteredRows(
        Records(np.eye(2), 1.0, 0.1, targets=bound * np.ones(2)),
        centering_of(np.array([0.6, 0.8]), 1e-3),
    )
    w, offset, factor, spread = np.array([[length, 0.0, 0.0]]), 5.0, 0.7, 0.3 * bound
    plan.release(rows, w, np.array([offset]), factor, noise, spread)
    largest = rows.norm_bound * length
    size, unit = largest + offset + bound, max(2.0 * length / math.sqrt(2.0), 1e-3 * spread)
    of_score = (1.0 + factor) * size / spread + factor * largest / spread + 2.0 * largest / unit
    moved = 2.0 * (2 + 8) * np.finfo(float).eps * size * of_score / unit
    fixed = 1.0 + 1e-9 + sum_rounding(design, 1.0)
    assert noise.seen == [pytest.approx(fixed + 100 * 10.0 * moved, rel=1e-9)]
    assert 1000 * moved > 1e-8


def rescaled(targets, weights, factor=1.0, mu=1e9, noise=None):
    """Factor of squares, and the sums of the release without noise; vectors are not clipped."""
    X = np.random.default_rng(1).uniform(-0.5, 0.5, size=(400, 2))
    y = targets(X) if callable(targets) else targets
    records = Records(X, 1.0, 0.1, targets=y)
    plan = plan_temperature(HalfSquaredLoss(1e3), Design.of(records), REPLACE, mu)
    rows = CenteredRows(records, Centering.unknown(2, 1))
    w = np.array([[*weights, 0.0]])
    unit, scores = 2.0 * np.linalg.norm(w) / math.sqrt(2.0), X @ weights
    sums = [(factor * scores - y) @ scores / unit, scores @ scores / unit**2]
    found = plan.release(rows, w, np.zeros(1), factor, noise or Silent(), 1.0)[0]
    return found, sums, unit, plan.sum.mechanism().noise_scale


def test_the_factor_comes_from_the_noisy_sums():
    class Known(PlainNoise):
        def standard_normal(self, size):
            return np.array([-1.0, 1.0])

        def add_normal(self, value, scale):
            self.scale = scale
            return super().add_normal(value, scale)

    def y(X):
        return 0.7 * X @ [0.2, -0.1]

    found, (q, h), unit, scale = rescaled(y, [0.2, -0.1], mu=0.02, noise=(known := Known()))
    assert scale <= known.scale < 1.0001 * scale  # which pays for records that are elsewhere, too
    scale = known.scale
    assert scale > 0.5 * h  # the sum of squares is about as large as its noise
    q, h = q - scale, h + scale
    change = -q * h / (h * h + scale**2) / unit
    assert found == pytest.approx(1.0 + change, rel=1e-9) and 1.1 < found < 20.0


def test_the_factor_keeps_its_limits():
    assert rescaled(lambda X: -X @ [0.2, -0.1], [0.2, -0.1])[0] == pytest.approx(0.4)
    assert rescaled(lambda X: 4.0 * X @ [0.2, -0.1], [0.02, -0.01])[0] == pytest.approx(20.0)
    plan = plan_temperature(HalfSquaredLoss(1.0), Design(1.01, 3, 2, 1.0, 0.1), REPLACE, 1.0)
    records = Records(np.eye(2), 1.0, 0.1, targets=np.ones(2))
    rows = CenteredRows(records, Centering.unknown(2, 1))
    found, _ = plan.release(rows, np.zeros((1, 3)), np.zeros(1), 1.0, Silent(), 0.3)
    assert found == 1.0  # nothing to scale, and a number


def test_squares_are_scaled_to_the_best_factor():
    """Without noise, one step of Newton's method from any factor; vectors are not clipped."""
    rng = np.random.default_rng(1)
    X, w = rng.uniform(-0.5, 0.5, size=(400, 2)), np.array([[0.2, -0.1, 0.0]])
    records = Records(X, 1.0, 0.1, targets=0.7 * X @ [0.2, -0.1] + 0.1 * rng.normal(size=400))
    rows = CenteredRows(records, Centering.unknown(2, 1))
    plan = plan_temperature(HalfSquaredLoss(1.0), Design.of(records), REPLACE, 1e9)
    scores = X @ w[0, :2]
    best = scores @ records.targets / (scores @ scores)
    for factor in (0.5, 1.0):
        found, shift = plan.release(rows, w, np.zeros(1), factor, Silent(), 1.0)
        assert found == pytest.approx(best, rel=1e-6) and shift == 0.0


@pytest.mark.parametrize("scale", [0.0, 1e-200, 1e-9, 1.0])
@pytest.mark.parametrize("unit", [1e-3, 3.0, 1e8])
def test_the_step_is_taken_whatever_was_released(scale, unit):
    """Also for matrices that have no inverse in doubles: of rank one or zero."""
    prior = np.diag([(unit / 4.0) ** 2, 0.09])
    for a, b in [(0.0, 0.0), (1.0, 1.0), (1e-300, 1e-300), (1e8, 1.0), (-1.0, 2.0), (1e9, 1e-9)]:
        cross = math.sqrt(2.0 * abs(a * b))
        step = _step(np.array([1.0, -1.0, a, cross, b]), prior, scale)
        assert step.shape == (2,) and np.isfinite(step).all()


def test_the_step_solves_its_equations():
    """Exact in rational arithmetic, up to rounding."""
    step = _step(np.array([1.0, 0.5, 4.0, 0.0, 2.0]), np.diag([1.0, 0.09]), 0.5)
    np.testing.assert_allclose(step, [-4.0 / 16.25, -0.09 * 2.0 * 0.5 / (0.36 + 0.25)], rtol=1e-12)


@pytest.mark.parametrize("curvature", [0.0, 1e-300, 1e-200, 1.0])
def test_its_noise_is_finite_where_all_margins_are_huge(curvature):
    kept, variance = _left(curvature, 0.1, 1.0, 0.5)
    assert 0.0 <= kept <= 1.0
    assert math.isfinite(variance)
