"""Schedules of noisy steps: cost, noise of the average, and the guard of the weights."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from descent_plans import centering_of
from plain_noise import PlainNoise, Silent, seeded

from skdp.algorithms.descent.schedule import (
    WEIGHT_LIMIT,
    Schedule,
    descend,
    plan_accelerated,
    plan_schedule,
)
from skdp.algorithms.preparation.centered_rows import CenteredRows, Centering, clipped_sum
from skdp.problems import LogisticLoss, Records

pytestmark = pytest.mark.usefixtures("kept_order")


@pytest.mark.parametrize("curvatures", [(0.0,), (0.01, 0.1, 0.7)])
@pytest.mark.parametrize(("n_blocks", "n_steps"), [(1, 40), (3, 60), (7, 70), (10, 150)])
def test_steps_of_every_block_cost_the_same(n_blocks, n_steps, curvatures):
    schedule = Schedule(
        n_steps=n_steps, n_blocks=n_blocks, step_size=1.0, momentum=0.9, mu=0.7,
        curvatures=curvatures,
    )  # fmt: skip
    for k in range(n_blocks):
        cost = (schedule.multipliers[k::n_blocks] ** -2.0).sum()
        assert cost == pytest.approx(0.49, rel=1e-12)


@pytest.mark.parametrize("is_preconditioned", [False, True])
@pytest.mark.parametrize("horizon", [6.0, 60.0, 2000.0])
@pytest.mark.parametrize("typical", [0.1, 1.0, 10.0])
def test_noise_is_nearly_that_of_one_release(horizon, is_preconditioned, typical):
    """No split of mu over the steps has less noise than all of it for the sum of their weights."""
    schedule = plan_schedule(
        horizon, 0.4, rate=3.0, n_blocks=1, products=1.0, is_preconditioned=is_preconditioned
    )
    average = min(typical / schedule.path, 0.5 / schedule.step_size)  # as the plan says
    around = average * np.array([0.125, 0.5, 2.0])
    schedule = replace(schedule, curvatures=tuple(around.tolist()))
    curvatures = average * np.array([0.125, 0.5, 1.0, 2.0])
    least = np.abs(schedule.noise_weights(curvatures)).sum(axis=0) / 0.4
    found = np.sqrt([schedule.average_variance(h, 1.0) for h in curvatures])
    assert (found > (1.0 - 1e-12) * least).all()
    assert (found < 1.1 * least).all()


@pytest.mark.parametrize("curvature", [0.0, 0.02, 0.3])
def test_noise_for_one_curvature_is_the_least_there_is(curvature):
    schedule = Schedule(
        n_steps=60, n_blocks=1, step_size=1.0, momentum=0.9, mu=0.4, curvatures=(curvature,)
    )
    least = np.abs(schedule.noise_weights(np.array([curvature]))).sum() / 0.4
    assert schedule.average_variance(curvature, 1.0) == pytest.approx(least**2, rel=1e-12)


@pytest.mark.parametrize("is_accelerated", [False, True])
def test_variance_of_the_result_is_that_of_simulated_steps(is_accelerated):
    """The recursion against the linear map of the noise, formed step by step."""
    schedule, h = plan_schedule(500.0, 0.4, rate=3.0, n_blocks=2, products=1.0), 0.21
    if is_accelerated:
        schedule = plan_accelerated(500.0, 0.4, learnt=200.0, step_size=3.0, products=1.0)
        assert 0 < schedule.n_skipped < schedule.n_steps - 2
    T, skipped = schedule.n_steps, schedule.n_skipped
    total = np.zeros(T)
    for source in range(T):
        w = v = average = 0.0
        for t in range(T):
            k = t + 1
            momentum, size = schedule.momentum, schedule.step_size
            if is_accelerated:
                momentum = max(2 * k - 3, 0) / (2 * k + 1)
                size *= 4.0 * (2 * k - 1) / (2 * k + 1)
            v = momentum * v - size * (h * w + (t == source))
            w += v
            average += w / (T - skipped) if t >= skipped else 0.0
        total[source] = average * schedule.multipliers[source] * 0.3
    assert schedule.average_variance(h, 0.3) == pytest.approx((total**2).sum(), rel=1e-10)


@pytest.mark.parametrize(("n_steps", "n_skipped"), [(10, 9), (40, 39), (40, 23)])
def test_accelerated_steps_have_the_closed_form_of_their_method(n_steps, n_skipped):
    """Errors of a quadratic, by the steps that are really taken; path is the last one's slope."""
    schedule = Schedule(
        n_steps=n_steps, n_blocks=1, step_size=0.5, momentum=0.0, mu=1.0, is_accelerated=True,
        n_skipped=n_skipped,
    )  # fmt: skip
    angles = np.linspace(0.01, math.pi / 2, 30)
    curvatures = np.sin(angles) ** 2 / 0.5

    def gradient(w, k):
        return curvatures * (w - 1.0)

    found = descend(schedule, gradient, lambda w: 1.0, (1, 30), 1, Silent())
    odd = 2.0 * np.arange(n_skipped + 1, n_steps + 1)[:, None] + 1.0  # of the averaged iterates
    errors = (np.sin(odd * angles) / (odd * np.sin(angles))).mean(axis=0)
    np.testing.assert_allclose(1.0 - found[0], errors, atol=1e-12)
    slow, last = 1e-7, replace(schedule, n_skipped=n_steps - 1)
    w = descend(last, lambda w, k: slow * (w - 1.0), lambda w: 1.0, (1, 1), 1, Silent())
    assert schedule.path == pytest.approx(w.item() / slow, rel=1e-3)


def accelerated(path, mu=1.0, learnt=100.0, products=1.0):
    return plan_accelerated(path, mu, learnt=learnt, step_size=1.0, products=products)


def test_accelerated_steps_go_the_path_that_is_wanted_or_the_longest_one():
    for path, n_steps, size in ((5.0, 10, 15.0 / 220.0), (300.0, 21, None), (1e9, 40, 1.0)):
        schedule = accelerated(path, products=1e9)
        assert schedule.n_steps == n_steps and schedule.is_accelerated
        assert schedule.path == pytest.approx(min(path, 2.0 / 3.0 * 40 * 41))
        assert schedule.step_size <= 1.0
        if size:
            assert schedule.step_size == pytest.approx(size)
    assert accelerated(1e9, products=1e8).n_steps == 72  # 2.8e7^(1/4)
    assert accelerated(1e9).n_steps == 120


@pytest.mark.parametrize("path", [5.0, 200.0, 300.0, 3000.0])
def test_iterates_are_averaged_from_where_a_path_has_been_learnt(path):
    """All whose path is at least 200, and the last one alone where none is."""
    schedule = accelerated(path, learnt=200.0)
    k = np.arange(1, schedule.n_steps)
    before = 2.0 / 3.0 * k * (k + 1) * schedule.step_size < 200.0
    assert schedule.n_skipped == before.sum()
    assert (schedule.n_skipped == schedule.n_steps - 1) is (path <= 200.0)


@pytest.mark.parametrize("curvatures", [(0.0,), (0.01, 0.1, 0.7)])
@pytest.mark.parametrize("learnt", [30.0, 100.0])
def test_accelerated_steps_cost_the_budget(curvatures, learnt):
    schedule = replace(accelerated(100.0, mu=0.7, learnt=learnt), curvatures=curvatures)
    assert (schedule.multipliers**-2.0).sum() == pytest.approx(0.49, rel=1e-12)


def test_steps_on_equal_blocks_in_turn_are_those_on_all_records():
    """Without noise, record i being one of three of its kind: block k has one of each."""
    rng, seen = np.random.default_rng(0), []
    X, t = rng.normal(size=(50, 4)), rng.integers(0, 2, 50).astype(float)
    records = Records(np.repeat(X, 3, axis=0), 2.0, 0.1, targets=np.repeat(t, 3))
    centering = Centering(
        mean=np.zeros(4), scale=0.5, offsets=np.array([0.3]), target_variance=0.15
    )

    def average(n_blocks):
        rows = CenteredRows(records, centering)
        rows.divide(n_blocks, Silent())

        def total(w, k):
            seen.append(k)
            return clipped_sum(rows, LogisticLoss(), w, centering.offsets, 0.3, k)

        schedule = Schedule(n_steps=12, n_blocks=n_blocks, step_size=1.0, momentum=0.7, mu=1.0)
        return descend(schedule, total, lambda w: 1.0, (1, 5), 150, Silent())

    whole, in_turn = average(1), average(3)
    assert seen == 12 * [0] + 4 * [0, 1, 2]
    assert np.linalg.norm(whole) > 0.1
    np.testing.assert_allclose(in_turn, whole, rtol=1e-12, atol=1e-14)


#: Steps of every kind that may go far, of which few are averaged.
FAR = [
    Schedule(n_steps=12, n_blocks=1, step_size=8.0, momentum=0.9, mu=1.0),
    Schedule(
        n_steps=12, n_blocks=1, step_size=8.0, momentum=0.0, mu=1.0, is_accelerated=True,
        n_skipped=5,
    ),
    Schedule(
        n_steps=12, n_blocks=1, step_size=8.0, momentum=0.0, mu=1.0, is_accelerated=True,
        n_skipped=11,
    ),
]  # fmt: skip
far = pytest.mark.parametrize("schedule", FAR, ids=["plain", "accelerated", "last"])


@far
@pytest.mark.parametrize("value", [1e308, math.inf, math.nan])
@pytest.mark.parametrize("row", [[0.0, 0.0], [1.0, 1e-300]])
def test_no_release_makes_a_record_count_for_more(value, row, schedule):
    """After the guard every record meets finite weights: its clipped gradient keeps its bound."""
    records = Records(np.array([row]), 1.0, 0.1, targets=np.array([1.0]))
    centering = centering_of(np.zeros(2), 1e-3)
    rows, seen = CenteredRows(records, centering), []

    class Huge(PlainNoise):
        def standard_normal(self, size):
            return np.full(size, value)

    def total(w, k):
        seen.append(w)
        out = clipped_sum(rows, LogisticLoss(), w, centering.offsets, 0.25, k)
        assert np.linalg.norm(out) <= 0.25 * (1.0 + 1e-9)
        return out

    with np.errstate(all="ignore"):
        out = descend(schedule, total, lambda w: 0.25, (1, 3), 1, Huge())
    assert len(seen) == 12
    assert all(np.linalg.norm(w) <= WEIGHT_LIMIT * (1.0 + 1e-12) for w in [*seen, out])


@far
@pytest.mark.parametrize("unit", [1.0, 1e-3])
def test_no_record_meets_weights_beyond_the_limit(unit, schedule):
    lengths = []

    def total(w, k):
        lengths.append(float(np.linalg.norm(w)))
        return np.zeros((1, 3))

    descend(replace(schedule, mu=1e-9), total, lambda w: 1.0, (1, 3), 1, seeded(), unit)
    assert lengths == [0.0, *11 * [pytest.approx(1e6 * unit)]]


@pytest.mark.parametrize("value", [1e308, math.inf, math.nan])
def test_a_descent_whose_weights_are_not_finite_starts_again(value):
    seen, normals = [], iter([value, *11 * [0.0]])

    class FirstHuge(PlainNoise):
        def standard_normal(self, size):
            return np.full(size, next(normals))

    def total(w, k):
        seen.append(w.item())
        return np.ones((1, 1))

    with np.errstate(all="ignore"):
        descend(
            Schedule(n_steps=12, n_blocks=1, step_size=8.0, momentum=0.5, mu=1.0), total,
            lambda w: 1.0, (1, 1), 1, FirstHuge(),
        )  # fmt: skip
    assert seen[:5] == [0.0, 0.0, -8.0, -20.0, -34.0]  # 8 times 1, 1.5 and 1.75


@far
def test_noise_has_the_sensitivity_of_the_weights_that_the_records_met(schedule):
    looks, asked = [], []

    def total(w, k):
        looks.append(w.copy())
        return np.ones((1, 2))

    def sensitivity(w):
        asked.append(w.copy())
        return 1.0 + float(np.linalg.norm(w))

    descend(schedule, total, sensitivity, (1, 2), 5, seeded())
    assert len(looks) == 12
    np.testing.assert_array_equal(looks, asked)
