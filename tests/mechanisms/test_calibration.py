"""Reference values of the calibrations, and their proofs' domains."""

import math

import pytest

from skdp.mechanisms import gaussian_noise_multiplier
from skdp.privacy.gaussian_dp import gaussian_delta

# epsilon, delta, c_delta, ZWB, analytic
TABLE = [
    (0.1, 1e-5, 3.182243, 45.114542, 30.749566), (0.5, 1e-6, 3.525510, 10.070943, 8.057618),
    (1, 1e-3, 2.350625, 3.468442, 2.574657), (1, 1e-5, 3.182243, 4.608858, 3.730632),
    (1, 1e-6, 3.525510, 5.084168, 4.224679), (2, 1e-9, 4.397382, 3.187842, 2.844547),
    (5, 1e-5, 3.182243, 1.000068, 0.891868), (10, 1e-6, 3.525510, 0.584173, 0.541087),
]  # fmt: skip


@pytest.mark.parametrize(("epsilon", "delta", "c", "zwb", "analytic"), TABLE)
def test_printed_values(epsilon, delta, c, zwb, analytic):
    assert gaussian_noise_multiplier(epsilon, delta, "zwb") == pytest.approx(zwb, abs=5e-7)
    assert gaussian_noise_multiplier(epsilon, delta) == pytest.approx(analytic, abs=5e-7)
    # c_delta, from the definition of the published multiplier
    sigma = gaussian_noise_multiplier(epsilon, delta, "zwb") * math.sqrt(2) * epsilon
    assert (sigma - epsilon / sigma) / 2 == pytest.approx(c, abs=5e-7)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(1e-4, 1e-30), (1e-2, 0.499), (0.3, 1e-6), (1.0, 1e-12), (7.0, 0.3), (100.0, 1e-2),
     (1e3, 1e-30)],
)  # fmt: skip
def test_every_calibration_keeps_its_promise(epsilon, delta):
    """The exact delta of the Gaussian mechanism never exceeds the target."""
    analytic = gaussian_noise_multiplier(epsilon, delta)
    zwb = gaussian_noise_multiplier(epsilon, delta, "zwb")
    assert analytic <= zwb
    for multiplier in (analytic, zwb):
        assert gaussian_delta(epsilon, 1 / multiplier) <= delta
    # tight: a slightly smaller multiplier breaks the promise
    assert gaussian_delta(epsilon, 1 / (analytic * (1 - 1e-6))) > delta


def test_classical_calibration_is_refused_where_it_is_wrong():
    """sqrt(2 log(1.25/delta))/epsilon at epsilon = 20 misses delta = 1e-5 by a factor of 100."""
    wrong = math.sqrt(2 * math.log(1.25 / 1e-5)) / 20
    assert gaussian_delta(20, 1 / wrong) > 1e-3
    with pytest.raises(ValueError, match="epsilon < 1"):
        gaussian_noise_multiplier(20, 1e-5, "classical")
    assert gaussian_delta(0.9, 1 / gaussian_noise_multiplier(0.9, 1e-5, "classical")) <= 1e-5


def test_zwb_needs_delta_below_one_half():
    with pytest.raises(ValueError, match="1/2"):
        gaussian_noise_multiplier(1, 0.5, "zwb")


SMALL, LARGE = (5e-324, 1e-310), 1.7e308


@pytest.mark.parametrize("calibration", ["analytic", "zwb", "classical"])
def test_extreme_budgets_are_refused_or_give_finite_noise(calibration):
    reached = {(LARGE, delta) for delta in (*SMALL, 0.3)} if calibration != "classical" else set()
    reached |= {(epsilon, 0.3) for epsilon in SMALL} if calibration == "analytic" else set()
    for budget in reached:
        assert 0 < gaussian_noise_multiplier(*budget, calibration) < math.inf
    invalid = [(0, 0.3), (-1.0, 0.3), (math.inf, 0.3), (math.nan, 0.3), (10**400, 0.3)]
    invalid += [(1.0, delta) for delta in (0, -1e-6, 1.0, math.nan, 10**400, None)]
    invalid += [(epsilon, delta) for epsilon in SMALL for delta in SMALL]
    for budget in invalid:
        with pytest.raises(ValueError):
            gaussian_noise_multiplier(*budget, calibration)
