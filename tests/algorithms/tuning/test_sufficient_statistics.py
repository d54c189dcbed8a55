"""Tuning on released second moments: the proofs of docs/theory/tuning.md, attacked."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_noise import PlainNoise
from ridge_tuning import (
    GAUSSIAN,
    HUGE,
    PURE,
    Recorder,
    exact_moments,
    one_alpha,
    plan_of,
    records,
    tune,
    tune_by_sufficient_statistics,
)

from skdp.algorithms import Run
from skdp.algorithms.tuning import plan_private_moments, private_moments
from skdp.algorithms.tuning.moments import mean_rounding, pack, unpack
from skdp.privacy import PrivacyBudget
from skdp.privacy.events import RECORD_RELATIONS, Neighbouring
from skdp.problems import Design, PenaltyGroups, Records
from skdp.problems.rounding import chain


@pytest.mark.parametrize("size", [1, 2, 5])
def test_coordinates_are_an_isometry(size):
    rng = np.random.default_rng(size)
    matrices = rng.normal(size=(2, size, size))
    A, B = matrices + matrices.transpose(0, 2, 1)
    assert pack(A).shape == (size * (size + 1) // 2,)
    np.testing.assert_allclose(unpack(pack(A), size), A, rtol=1e-15)
    np.testing.assert_array_equal(unpack(pack(A), size), unpack(pack(A), size).T)
    assert pack(A) @ pack(B) == pytest.approx((A * B).sum(), rel=1e-12)


@pytest.mark.search
@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**31),
    n=st.integers(1, 6),
    d=st.integers(1, 4),
    data_norm=st.sampled_from([1e-3, 1.0, 50.0]),
    target_bound=st.sampled_from([1e-2, 1.0, 1e3]),
    coef_norm=st.sampled_from([1e-9, 1.0, 100.0]),
    intercept=st.sampled_from([0.0, 0.3, 5.0]),
    size=st.sampled_from([0.5, 1.0, 1e10, 1e300]),
)
def test_neighbours_never_move_further(
    seed, n, d, data_norm, target_bound, coef_norm, intercept, size
):
    """One replaced record moves the value before the noise by at most the sensitivity."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * data_norm * size
    t = rng.choice([-1.0, 1.0, 0.3], size=n) * target_bound
    i = rng.integers(n)
    other_X, other_t = X.copy(), t.copy()
    other_X[i] = rng.choice([-1.0, 0.0, 1.0]) * X[i] + rng.choice([0.0, 1.0]) * rng.normal(size=d)
    other_t[i] = rng.choice([-t[i], t[i]])
    values = []
    for matrix, targets in ((X, t), (other_X, other_t)):
        rows = Records(matrix, data_norm, intercept * data_norm)
        plan = plan_of(rows, target_bound, coef_norm=coef_norm)
        out = private_moments(rows.with_targets(targets), plan, Recorder(silent=True))
        square = out.square * plan.weight**2
        column = np.append(out.vector * plan.weight, square)[:, None]
        values.append(np.hstack([np.vstack([out.matrix, column[:-1].T]), column]))
        expected = exact_moments(rows, targets, plan.weight)
        np.testing.assert_allclose(values[-1], expected, rtol=1e-9, atol=1e-9 * data_norm**2)
    assert np.linalg.norm(values[0] - values[1]) <= plan.mechanism.sensitivity


@pytest.mark.parametrize("intercept", [0.0, 0.1])
@pytest.mark.parametrize("n", [1, 50])
def test_sensitivity_is_attained(n, intercept):
    """Two longest records with orthogonal ``(x, gamma t)``."""
    rows = Records(np.zeros((n, 2)), 1.0, intercept)
    plan = plan_of(rows)
    cosine = plan.weight**2 - intercept**2
    first, second = [1.0, 0.0], [cosine, math.sqrt(1.0 - cosine**2)]
    values = []
    for row, target in ((first, 1.0), (second, -1.0)):
        X, t = np.full((n, 2), 0.4), np.full(n, 0.3)
        X[-1], t[-1] = row, target
        values.append(exact_moments(Records(X, 1.0, intercept), t, plan.weight))
    moved = np.linalg.norm(values[0] - values[1])
    assert 0.999 * plan.mechanism.sensitivity <= moved <= plan.mechanism.sensitivity


def test_sensitivity_has_room_for_rounding():
    """It grows over the exact one with the length of the sums."""
    exact = math.sqrt(2.0) * 2.0 / 10**9
    design = Design(1.0, 3, 10**9)
    plan = plan_private_moments(GAUSSIAN, design, target_bound=1.0, coef_norm=1e-9)
    rounding = 2.0 * chain(10**9) * 2.0**-53 * 2.0  # of two sums, relative to U = 2
    assert exact + rounding < plan.mechanism.sensitivity < 1.001 * exact


@pytest.mark.parametrize("seed", range(2))
def test_bounds_are_respected(seed):
    """Whatever the noise; for all alphas that are looked at."""
    X, y = records(30, 3)
    for low, high in ((1e-6, 10.0), (0.1, 0.3), (1e-12, 1e-11)):
        penalties = PenaltyGroups((0, 1, 1), (1.0, 1.0, 0.01), low, high)
        tuned = tune(X, y, penalties=penalties, run=Run(noise=Recorder(seed)))
        assert low <= tuned.path.min() and tuned.path.max() <= high
        assert np.isfinite(tuned.point).all()


@pytest.mark.parametrize(("low", "groups"), [(1e-12, 1), (1e-3, 4)])
def test_the_records_are_read_once(low, groups, monkeypatch):
    """However many alphas are compared; rows of several blocks."""
    X, y = records(5000, 4)
    rows = Records(X, 1.0)
    rows.block_size = 1000
    read, original = [], Records.block

    def counting(self, which, raw=False):
        read.append(np.arange(5000)[which])
        return original(self, which, raw)

    monkeypatch.setattr(Records, "block", counting)
    penalties = PenaltyGroups(tuple(np.arange(4) % groups), (1.0,) * 4, low, 1e3)
    tune_by_sufficient_statistics(
        rows.with_targets(y), 1.0, penalties, GAUSSIAN, coef_norm=1.0,
        run=Run(noise=Recorder()),
    )  # fmt: skip
    np.testing.assert_array_equal(np.sort(np.concatenate(read)), np.arange(5000))
    assert max(map(len, read)) <= 1000


def test_equal_moments_give_equal_models():
    """Records with turned signs have the same second moments."""
    X, y = records(40, 3)
    signs = np.where(np.arange(40) % 3 == 0, -1.0, 1.0)
    first, second = tune(X, y), tune(X * signs[:, None], y * signs)
    np.testing.assert_array_equal(first.point, second.point)
    np.testing.assert_array_equal(first.alpha, second.alpha)


@pytest.mark.parametrize(
    ("X", "budget"),
    [
        (np.zeros((6, 2)), GAUSSIAN),
        (np.full((6, 2), 1e300), PURE),
        (np.full((6, 2), 1e-310), HUGE),
        (np.eye(6, 2), PURE),
    ],
    ids=["zeros", "huge", "tiny", "eye"],
)
def test_degenerate_records(X, budget):
    for target in (0.0, 1.0):
        tuned = tune(X, np.full(6, target), budget)
        assert np.isfinite(tuned.point).all() and np.isfinite(tuned.path).all()
    tuned = tune(X[:2], np.zeros(2), budget)
    assert np.isfinite(tuned.point).all()
    with pytest.raises(ValueError, match="records, the plan"):
        private_moments(
            Records(X[:0], 1.0, targets=np.zeros(0)), plan_of(Records(X, 1.0)), Recorder()
        )


@pytest.mark.parametrize(("data_norm", "target_bound"), [(1e-50, 1e50), (1e50, 1.0), (1.0, 1e-50)])
def test_extreme_units(data_norm, target_bound):
    """The same model in any units, and no overflow on the way."""
    X, y = records(60, 3)
    results = []
    for x_unit, y_unit in ((1.0, 1.0), (data_norm, target_bound)):
        rows = Records(X * x_unit, x_unit)
        penalties = one_alpha(3, 1e-6 * x_unit**2, 10 * x_unit**2)
        results.append(
            tune_by_sufficient_statistics(
                rows.with_targets(y * y_unit), y_unit, penalties, GAUSSIAN,
                coef_norm=y_unit / x_unit, run=Run(noise=Recorder(4)),
            ).point
            * (x_unit / y_unit)
        )  # fmt: skip
    np.testing.assert_allclose(results[1], results[0], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("low", [1e-6, 1e-30, 1e-200])
def test_noisy_moments_without_full_rank_are_solved(low):
    """Half of the eigenvalues are negative: no penalty is too small for a factorisation."""
    X, y = records(6, 5)
    for seed in range(5):
        penalties = one_alpha(5, low, 1.0)
        tuned = tune(X, y, penalties=penalties, run=Run(noise=Recorder(seed)))
        assert np.isfinite(tuned.point).all()


@pytest.mark.parametrize("dtype", [np.float32])
def test_no_copy_of_the_rows(dtype):
    rng = np.random.default_rng(0)
    X = rng.random(size=(200_000, 50), dtype=np.float32).astype(dtype, copy=False)
    y = np.clip(X[:, 0], -1, 1).astype(float)
    tracemalloc.start()
    try:
        tune(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.25 * X.size * 8


class Forbidden(PlainNoise):
    """Nothing may be released."""

    def standard_normal(self, size):
        raise AssertionError("something was released")


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"coef_norm": -1.0}, "coef_norm == -1.0"),
        ({"coef_norm": 0.0}, "coef_norm == 0.0"),
        ({"coef_norm": math.inf}, "coef_norm == inf"),
        ({"coef_norm": math.nan}, "coef_norm == nan"),
        ({"bound": -1.0}, "target_bound == -1.0"),
        ({"bound": 0.0}, "target_bound == 0.0"),
        ({"bound": math.nan}, "target_bound == nan"),
    ],
)
def test_bad_numbers_are_refused(kwargs, message):
    X, y = records(30, 2)
    with pytest.raises(ValueError, match=message):
        tune(X, y, run=Run(noise=Forbidden()), **kwargs)


def test_penalties_for_other_coefficients_are_refused():
    X, y = records(30, 2)
    with pytest.raises(ValueError, match="3 penalties for 2 coefficients"):
        tune(X, y, penalties=one_alpha(3), run=Run(noise=Forbidden()))


def test_rows_that_the_plan_is_not_made_for_are_refused():
    """Longer ones, ones of another width, and what is not a number."""
    X, y = records(30, 2)
    plan = plan_of(Records(X, 1.0))
    for rows, message in (
        (Records(X, 100.0), "rows of norm 100.0, the plan is for 1.0"),
        (Records(X, 1.0, 0.1), "rows of 3 features, the plan is for 2"),
        (Records(X[:, :1], 1.0), "rows of 1 features, the plan is for 2"),
        (Records(np.where(np.arange(30)[:, None] == 5, math.nan, X), 1.0), "finite"),
    ):
        with pytest.raises(ValueError, match=message):
            private_moments(rows.with_targets(y), plan, Forbidden())
    with pytest.raises(ValueError, match="targets must be numbers within"):
        private_moments(Records(X, 1.0, targets=3 * y), plan, Forbidden())
    # shorter ones are fine
    private_moments(Records(X, 0.5, targets=y), plan, Recorder())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((), (), 1e-3, 1.0), "one entry per coefficient"),
        (((0, 0), (1.0,), 1e-3, 1.0), "one entry per coefficient"),
        (((0, 2), (1.0, 1.0), 1e-3, 1.0), "without a gap"),
        (((0, 1), (1.0, math.inf), 1e-3, 1.0), "penalty factors"),
        (((0, 1), (1.0, math.nan), 1e-3, 1.0), "penalty factors"),
        (((0, 1), (0.0, 1.0), 1e-3, 1.0), "penalty factors"),
        (((0,), (1.0,), 1.0, 1.0), "0 < low < high"),
        (((0,), (1.0,), 1.0, math.inf), "0 < low < high"),
    ],
)
def test_groups_that_are_none_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        PenaltyGroups(*arguments)


@pytest.mark.parametrize("neighbouring", RECORD_RELATIONS)
def test_released_moments_pay_for_records_that_are_elsewhere(neighbouring):
    """Products of all records may have other last bits, in both of the sums that are compared."""
    n, width, norm = 10**9, 11, 2.0
    ratio = 1.0 if neighbouring is Neighbouring.REPLACE_ONE else 10.0
    design = Design(norm, width, n, ratio)
    plan = plan_private_moments(
        PrivacyBudget(1.0), design, target_bound=1.0, coef_norm=1.0, neighbouring=neighbouring
    )
    bound = norm**2 + plan.weight**2
    exact = math.sqrt(neighbouring.n_changes) * bound / n * (1.0 + 1e-9)
    moved = 8.0 * ratio * (width + 8) * 2.0**-52 * bound
    assert plan.mechanism.sensitivity == pytest.approx(
        exact + mean_rounding(design) * bound + moved, rel=1e-9
    )
    assert moved > 1e-7 * exact
