"""Sums over Poisson samples: calibration of runs with sampled parts, batches."""

import importlib
import math
import sys

import numpy as np
import pytest
from scipy.optimize import brentq

from skdp.mechanisms import NoiseSource, SampledGaussianMechanism, gaussian_noise_multiplier
from skdp.mechanisms.sampled_gaussian import poisson_sample, sampling_rates, smallest_scale
from skdp.privacy import PrivacyBudget
from skdp.privacy.composition import tightest_epsilon
from skdp.privacy.events import (
    ComposedEvent,
    GaussianEvent,
    Neighbouring,
    PoissonSampledSumEvent,
    RepeatedEvent,
)

BUDGET = PrivacyBudget(1.0, 1e-6)
WHOLE = gaussian_noise_multiplier(1.0, 1e-6)

RELATIONS = pytest.mark.parametrize("relation", ["replace_one", "add_remove"])


def calibrated(budget=BUDGET, relation="replace_one", noise_multiplier=None, **changes):
    """Steps whose records add vectors of norm 1, so that replacing one moves a sum by 2."""
    relation = Neighbouring(relation)
    schedule = {"sampling_rate": 0.1, "n_steps": 20} | changes
    sensitivity = 2.0 if relation.is_replaced else 1.0
    return SampledGaussianMechanism.calibrated(
        budget, noise_multiplier, relation, sensitivity=sensitivity, **schedule
    )


@pytest.mark.mostly("slow", 1)
@pytest.mark.parametrize(
    ("epsilon", "delta", "sampling_rate", "n_steps", "relation"),
    [
        (0.3, 1e-5, 0.05, 200, "replace_one"),
        (2.0, 1e-5, 0.05, 200, "add_remove"),
        (0.7, 1e-8, 0.5, 1, "replace_one"),
    ],
)
def test_noise_honours_the_budget(epsilon, delta, sampling_rate, n_steps, relation):
    accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import PLDAccountant

    schedule = {"sampling_rate": sampling_rate, "n_steps": n_steps}
    mechanism = calibrated(PrivacyBudget(epsilon, delta), relation, **schedule)
    assert tightest_epsilon(mechanism.event(relation), delta, relation) <= epsilon
    # the library itself, with steps finer than those of the calibration: a tighter bound
    step = accounting.PoissonSampledDpEvent(
        sampling_rate, accounting.GaussianDpEvent(mechanism.noise_scale)
    )
    neighbours = {
        "replace_one": accounting.NeighboringRelation.REPLACE_ONE,
        "add_remove": accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
    }[relation]
    accountant = PLDAccountant(neighbours, value_discretization_interval=5e-5 * epsilon)
    spent = accountant.compose(step, n_steps).get_epsilon(delta)
    assert 0.99 * epsilon < spent <= epsilon  # no more noise than needed


@pytest.mark.parametrize("delta", [1e-5, 1e-300])
@RELATIONS
def test_noise_without_sampling_is_exact_and_needs_no_extra(delta, relation, monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    mechanism = calibrated(PrivacyBudget(0.7, delta), relation, sampling_rate=1.0, n_steps=30)
    event = RepeatedEvent(GaussianEvent(mechanism.noise_multiplier, relation), 30)
    assert mechanism.event(relation) == event
    assert 0.7 * (1 - 1e-6) < tightest_epsilon(event, delta, relation) <= 0.7


@pytest.mark.slow
def test_the_search_may_end_on_the_wrong_side(monkeypatch):
    pytest.importorskip("dp_accounting")
    module = importlib.import_module("skdp.mechanisms.sampled_gaussian")
    monkeypatch.setattr(module, "brentq", lambda *args, **kwargs: brentq(*args, **kwargs) - 0.01)
    event = calibrated(PrivacyBudget(0.111, 1e-5)).event("replace_one")
    assert tightest_epsilon(event, 1e-5) <= 0.111


def test_the_sampled_event_says_what_happened():
    mechanism = calibrated(None, noise_multiplier=1.5)
    gaussian = GaussianEvent(1.5, "replace_one")
    step = PoissonSampledSumEvent(0.1, gaussian, mechanism.noise_scale)
    assert mechanism.event("replace_one") == RepeatedEvent(step, 20)
    mechanism = calibrated(None, "add_remove", 1.5)
    step = PoissonSampledSumEvent(0.1, GaussianEvent(1.5, "add_remove"), 1.5)
    assert mechanism.event("add_remove") == RepeatedEvent(step, 20)


def test_a_delta_beyond_the_convolution_gets_more_noise_not_less_privacy():
    pytest.importorskip("dp_accounting")
    usual, tiny = (calibrated(PrivacyBudget(0.5, delta)) for delta in (1e-5, 1e-30))
    assert tiny.noise_multiplier > usual.noise_multiplier
    assert tightest_epsilon(tiny.event("replace_one"), 1e-30) <= 0.5  # without sampling


def test_a_missing_accountant_is_named(monkeypatch):
    library = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    budget = PrivacyBudget(0.123, 1e-5)
    event = calibrated(None, noise_multiplier=1.5).event("replace_one")
    unsampled = tightest_epsilon(RepeatedEvent(GaussianEvent(1.5, "replace_one"), 20), 1e-5)
    assert tightest_epsilon(event, 1e-5) < 0.5 * unsampled
    with monkeypatch.context() as patch:
        patch.setattr(library, "from_gaussian_mechanism", lambda sampling_prob: None)
        with pytest.raises(ImportError, match=r"0\.5 or newer"):
            calibrated(budget)
        assert tightest_epsilon(event, 1e-5) == unsampled
    for name in ("dp_accounting", "dp_accounting.pld", library.__name__):
        monkeypatch.setitem(sys.modules, name, None)
    for relation in ("replace_one", "add_remove"):
        with pytest.raises(ImportError, match=r"skdp\[accounting\].*noise_multiplier"):
            calibrated(budget, relation)
    assert tightest_epsilon(event, 1e-5) == unsampled


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"n_steps": 0}, "n_steps"),
        ({"sampling_rate": 1.1}, "sampling_rate"),
        ({"noise_multiplier": 0.0, "budget": None}, "noise_multiplier"),
        ({"budget": None}, "Exactly one of budget and noise_multiplier"),
        ({"noise_multiplier": 1.0}, "Exactly one of"),
        ({"budget": 1.0}, "PrivacyBudget"),
        ({"budget": PrivacyBudget(1.0)}, "delta == 0"),
    ],
)
def test_invalid_schedules_are_refused(changes, match):
    with pytest.raises((ValueError, TypeError), match=match):
        calibrated(**changes)


def half_sampled(scale, rate=0.1, steps=10):
    """Half of the budget for one Gaussian, half for sampled sums."""
    sampled = SampledGaussianMechanism(1.0, scale * WHOLE * math.sqrt(2 * steps), rate, steps)
    whole = GaussianEvent(WHOLE * math.sqrt(2), "replace_one")
    return ComposedEvent((whole, sampled.event("replace_one")))


def test_sampling_rates():
    assert sampling_rates(half_sampled(1.0)) == [(0.1, 10)]
    assert sampling_rates(half_sampled(1.0, rate=1.0)) == []
    for rate, found in ((1.0, []), (0.3, [(0.3, 1)])):
        event = PoissonSampledSumEvent(rate, GaussianEvent(1.0, "replace_one"), 2.0)
        assert sampling_rates(event) == found


@pytest.mark.slow
def test_scale_of_the_sampled_part_of_a_run():
    pytest.importorskip("dp_accounting")
    scale = smallest_scale(half_sampled, BUDGET)
    assert scale < 0.5
    assert 0.998 < tightest_epsilon(half_sampled(scale), 1e-6) <= 1.0
    assert tightest_epsilon(half_sampled(0.98 * scale), 1e-6) > 1.0


def test_noise_never_vanishes():
    pytest.importorskip("dp_accounting")
    for rate, steps in ((1e-9, 10), (9e-7, 1), (0.0, 3)):
        with pytest.raises(ValueError, match="ever drawn"):
            smallest_scale(lambda s, r=rate, k=steps: half_sampled(s, r, k), BUDGET)


def test_too_much_is_left_to_the_caller():
    pytest.importorskip("dp_accounting")
    event = ComposedEvent((half_sampled(1.0), GaussianEvent(WHOLE / 2, "replace_one")))
    assert smallest_scale(lambda s: event, BUDGET) == 1.0
    assert tightest_epsilon(event, 1e-6) > 1.0


def test_batches():
    """Each record by itself: 2000 batches of 50, deviations of 5 standard errors (3e-5 in all)."""
    noise, rate, runs = NoiseSource(np.random.default_rng(0).bytes), 0.3, 2000
    taken = np.zeros((runs, 50))
    for k in range(runs):
        batch = poisson_sample(50, rate, noise)
        assert (np.diff(batch) > 0).all()
        taken[k, batch] = 1.0
    spread = math.sqrt(rate * (1 - rate) / runs)
    assert (np.abs(taken.mean(axis=0) - rate) < 5 * spread).all()
    sizes = taken.sum(axis=1)
    assert sizes.var() == pytest.approx(50 * rate * (1 - rate), rel=5 * math.sqrt(2 / runs))
