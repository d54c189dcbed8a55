"""DP-SPIDER and its variants: recursions written out anew, counted queries, attacks by movement."""

import numpy as np
import pytest
from plain_noise import seeded

from skdp.algorithms import Run, dp_spider, spider_settings
from skdp.algorithms.recursive.oracle import NoisyGradientOracle
from skdp.privacy import PrivacyBudget
from skdp.problems import RecordGradients

N = 200
CENTRES = np.random.default_rng(0).normal(size=(N, 3)) / 4.0
BUDGET = PrivacyBudget(2.0, 1e-6)


def quadratic(block, point, rows):
    """Of ``||x - c_i||^2 / 2``."""
    return point[0] - CENTRES[rows]


PROBLEM = RecordGradients(N, 3, 0, quadratic)
DRIFTS = {"sto_spider": 0.05, "ada_dp_spider": 0.05}


def solved(variant, noise_multiplier=None, budget=None, problem=PROBLEM, **settings):
    if variant in DRIFTS:
        settings = {"drift": DRIFTS[variant], **settings}
    return dp_spider(
        problem, budget, variant=variant, n_steps=40, noise_multiplier=noise_multiplier,
        settings={"period": 4, "clip": 10.0, "step_size": 0.2, **settings},
        start=(np.full(3, 1.0), np.zeros(problem.dimension_y)), run=Run(noise=seeded()),
    )  # fmt: skip


@pytest.mark.parametrize("variant", ["dp_spider", "sto_spider", "ada_dp_spider", "private_diff"])
def test_without_noise_the_recursion_is_gradient_descent(variant):
    x = np.full(3, 1.0)
    for _ in range(40):
        x = x - 0.2 * (x - CENTRES.mean(axis=0))
    assert solved(variant, 1e-9).point == pytest.approx(x, abs=1e-6)


@pytest.mark.parametrize("variant", ["sto_spider", "ada_dp_spider"])
def test_gradients_are_released_anew_after_a_drift(variant, monkeypatch):
    """By the squared steps of x, at most as often as charged; the rest are differences."""
    kinds, query = [], NoisyGradientOracle.query

    def recorded(oracle, kind):
        kinds.append(kind)
        return query(oracle, kind)

    monkeypatch.setattr(NoisyGradientOracle, "query", recorded)
    result = solved(variant, 1e-9)
    expected, x, moved = [], np.full(3, 1.0), 0.0
    for t in range(40):
        refresh = t == 0 or moved >= 0.05
        expected.append("refresh" if refresh else "increment")
        step = 0.2 * (x - CENTRES.mean(axis=0))
        moved = (0.0 if refresh else moved) + float(step @ step)
        x = x - step
    assert kinds == expected and 2 < kinds.count("refresh") < 10
    counts = result.plan.settings.n_queries
    assert counts == (10, 39)
    kinds.clear()
    solved(variant, 1e-9, drift=1e-12)  # asks for a gradient in each step
    assert (kinds.count("refresh"), kinds.count("increment")) == (10, 30)


@pytest.mark.parametrize("variant", ["dp_spider", "sto_spider", "ada_dp_spider", "private_diff"])
def test_no_record_moves_a_release_further_than_charged(variant, monkeypatch):
    """A record with huge gradients that jump with the point, against its mirror image."""
    from skdp.mechanisms import GaussianMechanism

    values, bounds, release = [], [], GaussianMechanism.release

    def recorded(mechanism, value, noise):
        values.append(value)
        bounds.append(mechanism.sensitivity)
        return release(mechanism, 0.0 * value, noise)  # the same path for both

    monkeypatch.setattr(GaussianMechanism, "release", recorded)

    def attack(sign):
        def gradients(block, point, rows):
            out = quadratic(block, point, rows)
            out[rows == 0] = sign * 1e6 * np.sign(np.sin(1e6 * point[0]))
            return out

        values.clear(), bounds.clear()
        solved(variant, 0.5, problem=RecordGradients(N, 3, 0, gradients))
        return np.array(values), np.array(bounds)

    (first, charged), (second, _) = attack(1.0), attack(-1.0)
    moved = np.linalg.norm(first - second, axis=1)
    assert (moved <= charged * (1.0 + 1e-9)).all()
    assert moved.max() > 0.999 * charged[moved.argmax()]


def test_the_cost_is_that_of_all_steps():
    for variant in ("dp_spider", "ada_dp_spider"):
        plan = solved(variant, budget=BUDGET).plan
        counts, multiplier = plan.settings.n_queries, plan.ledger.refresh.noise_multiplier
        assert plan.epsilon() == pytest.approx(2.0, rel=1e-6)
        # full batches: sum of 1 / m^2 is mu^2; mu of (2, 1e-6) is 0.4476
        assert np.sqrt(sum(counts)) / multiplier == pytest.approx(0.4476, rel=2e-3)


@pytest.mark.parametrize(
    ("variant", "settings", "message"),
    [
        ("sto_spider", {}, "which need it"),
        ("dp_spider", {"drift": 1.0}, "drift is for"),
        ("dp_spider", {"smoothness": 1.0}, "smoothness is for"),
        ("ada_dp_spider", {"drift": 1.0, "inner_steps": 2}, "inner_steps is for"),
        ("spider", {}, "variant"),
    ],
)
def test_settings_of_other_methods_are_refused(variant, settings, message):
    with pytest.raises(ValueError, match=message):
        spider_settings(variant, 10, **settings)
