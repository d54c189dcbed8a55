"""What a plan knows of a problem before the records are there."""

import numpy as np
import pytest
from every_loss import targets_for

from skdp.problems import (
    AbsoluteLoss,
    Design,
    EmpiricalRisk,
    HalfSquaredLoss,
    HingeLoss,
    LogisticLoss,
    OneVsRestLoss,
    Records,
    SmoothedLoss,
    SoftmaxLoss,
    TiltedRisk,
)

RISKS = [
    EmpiricalRisk(LogisticLoss()),
    EmpiricalRisk(HalfSquaredLoss(1.0)),
    EmpiricalRisk(SoftmaxLoss(3)),
    EmpiricalRisk(HingeLoss().smoothed(0.1)),
    TiltedRisk(LogisticLoss(), 0.5),
    TiltedRisk(HalfSquaredLoss(1.0), 0.5),
]


@pytest.mark.parametrize("risk", RISKS, ids=str)
@pytest.mark.parametrize("center_norm", [0.0, 0.5])
def test_constants_are_those_of_the_problem(risk, center_norm):
    some = Records(np.random.default_rng(0).uniform(-1, 1, (50, 3)), 1.0, 0.1)
    design = Design.of(some)
    assert design.n_records == 50 and Design.of(some, 70).n_records == 70  # a nominal size
    radius = risk.radius(design, 0.1, 2.0)
    center = np.zeros(risk.loss.n_outputs * design.width)
    center[0] = center_norm
    problem = risk.problem(
        some.with_targets(targets_for(risk.loss, np.random.default_rng(0), 50)),
        0.1,
        radius,
        center=center,
    )
    planned = risk.constants(design, 0.1, radius, center_norm=min(center_norm, radius))
    assert problem.constants == planned
    assert problem.dimension == planned.dimension


@pytest.mark.parametrize("loss", [HingeLoss(), AbsoluteLoss(1.0), OneVsRestLoss(HingeLoss(), 3)])
def test_smoothing_costs_a_small_part_of_what_noise_does(loss):
    risk = EmpiricalRisk(loss)
    assert not risk.is_smooth
    for spread in (1e-3, 1.0, 100.0):
        smooth = risk.smoothed(spread)
        assert smooth.is_smooth and smooth.smoothed(7.0) is smooth
        kinked, envelope = getattr(loss, "base", loss), smooth.loss
        envelope = getattr(envelope, "base", None) if loss.n_outputs > 1 else envelope
        assert isinstance(envelope, SmoothedLoss) and envelope.width == smooth.smoothing
        margins = np.linspace(-3, 3, 1001) * max(1.0, spread)
        labels = np.ones(1001)
        bias = kinked.value(margins, labels) - envelope.value(margins, labels)
        assert bias.min() >= -1e-12 * spread
        assert bias.max() <= 0.025 * kinked.derivative_bound * spread * (1 + 1e-9)
