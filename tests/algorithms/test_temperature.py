"""Temperature: no record moves the release further, rounding included."""

from __future__ import annotations

import numpy as np
import pytest
from descent_plans import ADD, RELATIONS, REPLACE, objective
from plain_noise import Silent

from skdp.algorithms.centering import CenteredRows, Centering, sum_rounding
from skdp.algorithms.temperature import plan_temperature
from skdp.problems import Design, HalfSquaredLoss, LogisticLoss, Records, SoftmaxLoss


@RELATIONS
@pytest.mark.parametrize("loss", [LogisticLoss(), SoftmaxLoss(3), HalfSquaredLoss(2.0)], ids=repr)
def test_no_record_moves_the_temperature_further(loss, relation):
    rng = np.random.default_rng(3)
    centering = Centering(np.array([0.3, 0.1]), 0.05, rng.normal(size=loss.n_outputs), 0.15)
    design = Design(1.01, 3, 1, 256, 1.0 if relation is REPLACE else 10.0, 0.1)
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
    assert plan.mechanism.sensitivity == pytest.approx(2.0 * (1.0 + 1e-9) + rounding, rel=1e-12)


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
            scores = np.array([score])
            return plan._derivatives(scores / unit, factor * scores + offset, block, spread)

        size = bound + abs(offset) + loss.target_bound
        moved = np.linalg.norm(vector(score + 1e-6) - vector(score)) / 1e-6
        largest = max(largest, moved / plan._steepness(factor, bound, size, unit, spread))
    assert 1.0 / 30.0 < largest <= 1.0


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
