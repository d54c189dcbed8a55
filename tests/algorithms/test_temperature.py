"""Temperature: no record moves the release further, rounding included."""

from __future__ import annotations

import numpy as np
import pytest
from descent_plans import RELATIONS, REPLACE, objective
from plain_noise import Silent

from skdp.algorithms.centering import CenteredRows, Centering, sum_rounding
from skdp.algorithms.temperature import plan_temperature
from skdp.problems import Design, LogisticLoss, Records, SoftmaxLoss


@RELATIONS
@pytest.mark.parametrize("loss", [LogisticLoss(), SoftmaxLoss(3)], ids=repr)
def test_no_record_moves_the_temperature_further(loss, relation):
    rng = np.random.default_rng(3)
    centering = Centering(np.array([0.3, 0.1]), 0.05, rng.normal(size=loss.n_outputs), 0.15)
    design = Design(1.01, 3, 1, 256, 1.0 if relation is REPLACE else 10.0, 0.1)
    plan = plan_temperature(loss, design, relation, 1.0)
    w = 10.0 * rng.normal(size=(loss.n_outputs, 3))
    sums, limits = [], []
    for _ in range(60):
        row = rng.normal(size=2) * 10.0 ** rng.uniform(-1, 1)
        target = rng.integers(loss.n_margins + 1) % 2
        target = int(target) if isinstance(loss, SoftmaxLoss) else float(target)
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
            plan.release(CenteredRows(records, centering), w, centering.offsets, 0.8, Silent())
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
