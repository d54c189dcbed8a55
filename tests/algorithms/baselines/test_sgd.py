"""DP-SGD: price, clipping, batches, noise, and that nothing but public numbers makes the plan.

Seeded tests of a law either always pass or always fail; the rate of false alarms is stated for
those who change a seed.
"""

import importlib
import inspect
import itertools
import json
import math
import os
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_noise import in_step, seeded
from refusals import one_at_a_time
from scipy import stats
from scipy.optimize import brentq

from skdp._runtime import without_warnings
from skdp.algorithms import Run, dp_sgd, plan_dp_sgd
from skdp.algorithms.baselines.sgd import DPSGDPlan, clipped_gradient_sum
from skdp.mechanisms import NoiseSource
from skdp.privacy import (
    ComposedEvent,
    GaussianEvent,
    Neighbouring,
    PrivacyBudget,
    RepeatedEvent,
    tightest_epsilon,
)
from skdp.problems import (
    Ball,
    FiniteSumProblem,
    HalfSquaredLoss,
    HingeLoss,
    LogisticLoss,
    Records,
    SoftmaxLoss,
    WholeSpace,
)
from skdp.problems.rounding import EPS, chain
from skdp.solvers import Newton

LOSSES = [LogisticLoss(), SoftmaxLoss(2), SoftmaxLoss(4), HalfSquaredLoss(1.0)]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)
#: Valid public arguments without noise to speak of.
WITH_NAN = np.array([[0.0, 1.0], [math.nan, 1.0]])
RUN = {"n_public": 10, "sampling_rate": 1.0, "n_steps": 1, "noise_multiplier": 1e-12}
PLAN = {"n_public": 100, "loss": LogisticLoss(), "width": 3, "sampling_rate": 0.1, "n_steps": 20}


def targets_for(loss, rng, n):
    if isinstance(loss, LogisticLoss):
        return rng.integers(0, 2, n).astype(float)
    if isinstance(loss, SoftmaxLoss):
        return rng.integers(0, loss.n_classes, n)
    return rng.uniform(-1, 1, n)


# --- price --------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_search_may_end_on_the_wrong_side(monkeypatch):
    pytest.importorskip("dp_accounting")
    module = importlib.import_module("skdp.mechanisms.sampled_gaussian")
    monkeypatch.setattr(module, "brentq", lambda *args, **kwargs: brentq(*args, **kwargs) - 0.01)
    plan = plan_dp_sgd(PrivacyBudget(0.111, 1e-5), **PLAN)
    assert tightest_epsilon(plan.event, 1e-5) <= 0.111


def test_the_total_of_a_plan_holds_under_add_remove_only():
    """Replacing a record moves a clipped sum by twice the clipping norm: 11.0 and not 4.9."""
    plan = plan_dp_sgd(**PLAN | {"sampling_rate": 1.0, "n_steps": 16}, noise_multiplier=4.0)
    assert plan.neighbouring is plan.event.neighbouring is Neighbouring.ADD_REMOVE
    assert plan.releases[0].event.neighbouring is Neighbouring.ADD_REMOVE
    assert plan.epsilon(1e-6) == pytest.approx(4.9, abs=0.05)
    replaced = RepeatedEvent(GaussianEvent(0.5 * plan.noise_multiplier, "replace_one"), 16)
    assert tightest_epsilon(replaced, 1e-6) == pytest.approx(11.0, abs=0.05)
    with pytest.raises(ValueError, match="'add_remove', must be 'replace_one'"):
        tightest_epsilon(plan.event, 1e-6, "replace_one")
    with pytest.raises(ValueError, match="must be 'add_remove'"):
        ComposedEvent([plan.event, replaced])
    with pytest.raises(ValueError, match="no budget"):
        plan.epsilon()


# --- the plan is public -------------------------------------------------------------------


def test_the_plan_depends_on_public_numbers_only():
    pytest.importorskip("dp_accounting")
    rng = np.random.default_rng(0)
    results = [
        dp_sgd(
            Records(scale * rng.standard_normal((n, 3)), 1.0, 0.1, targets=np.full(n, target)),
            LogisticLoss(), PrivacyBudget(0.5, 1e-5), n_public=50, sampling_rate=0.1, n_steps=20,
        )
        for n, scale, target in [(50, 1.0, 0.0), (73, 1e200, 1.0), (1, 0.0, 0.0), (0, 1.0, 0.0)]
    ]  # fmt: skip
    plans = [result.plan for result in results]
    assert plans == plans[:1] * 4
    assert isinstance(plans[0], DPSGDPlan)
    assert plans[0].expected_batch == pytest.approx(5.0)
    assert plans[0].dimension == 4
    assert all(np.isfinite(result.point).all() for result in results)


def test_the_plan_as_plain_types_and_as_a_release():
    plan = plan_dp_sgd(**PLAN, clip_norm=0.5, domain=Ball(2.0), noise_multiplier=3.0)
    assert json.loads(json.dumps(plan.to_dict()))["radius"] == 2.0
    assert json.loads(json.dumps(plan_dp_sgd(**PLAN, noise_multiplier=3.0).to_dict()))
    release = plan.releases[0]
    assert (release.sensitivity, release.noise_scale) == (0.5, 1.5)
    assert (release.dimension, release.n_records) == (3, 100)
    assert ComposedEvent((release.event,)).to_dict()["events"][0]["type"] == "repeated"


# --- clipping -----------------------------------------------------------------------------


def test_clipping_by_hand():
    # gradients: -50 (1, 0), clipped to length 1/2; 1 (0, 0.1), which is short enough
    rows = Records(np.array([[100.0, 0.0], [0.0, 0.1]]), 1.0)
    point = dp_sgd(
        rows.with_targets(np.array([50.0, -1.0])),
        HalfSquaredLoss(50.0),
        **RUN | {"n_public": 2},
        clip_norm=0.5,
    ).point
    np.testing.assert_allclose(point, [0.5 / 0.5 / 2, -0.1 / 0.5 / 2], rtol=1e-8)


@pytest.mark.mostly("slow", 8)
@every_loss
@pytest.mark.parametrize("intercept", [0.0, 0.7])
@pytest.mark.parametrize("kind", ["dense", "csr", "float32", "csr float32"])
def test_clipped_sum_is_that_of_explicit_gradients(loss, intercept, kind):
    rng = np.random.default_rng(3)
    n, d, clip = 600, 300, 0.3  # three blocks of dense rows
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.1) * rng.uniform(0, 0.6, (n, 1))
    if "float32" in kind:
        X = X.astype(np.float32)
    rows = Records(sp.csr_array(X) if "csr" in kind else X, 1.0, intercept)
    targets = targets_for(loss, rng, n)
    weights = rng.standard_normal((loss.n_outputs, rows.width))
    for batch in (None, np.flatnonzero(rng.random(n) < 0.9), np.array([], dtype=int)):
        drawn = range(n) if batch is None else batch
        expected, clipped = np.zeros_like(weights), 0
        for i in drawn:
            x = X[i].astype(float)
            x /= max(1.0, np.linalg.norm(x))
            x = np.append(x, intercept) if intercept else x
            margins = weights @ x
            residual = loss.derivative(
                margins[None] if len(weights) > 1 else margins, targets[[i]]
            ).ravel()
            gradient = np.outer(residual, x)
            norm = np.linalg.norm(gradient)
            clipped += norm > clip
            expected += gradient * min(1.0, clip / max(norm, 1e-300))
        assert batch is None or len(batch) == 0 or 0 < clipped < len(drawn)
        total = clipped_gradient_sum(rows.with_targets(targets), loss, weights, clip, 1, batch)
        np.testing.assert_allclose(total, expected, rtol=1e-7, atol=1e-8)


def test_row_norms_include_scaling_and_intercept():
    rows = Records(np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]]), 2.0, 1.5)
    for view, known in (
        (rows, [2.5, math.hypot(0.5, 1.5), 1.5]),
        (rows.scaled(np.array([2.0, 2.0, 1.0])), [math.hypot(4.0, 1.5), math.hypot(1.0, 1.5), 1.5]),
    ):
        (block,) = view.blocks()
        np.testing.assert_allclose(block.norms(), known)


def test_sparse_rows_stay_sparse():
    rng = np.random.default_rng(0)
    places = (np.arange(20_000) % 2000, rng.integers(0, 100_000, 20_000))
    rows = Records(sp.csr_array((np.ones(20_000), places), shape=(2000, 100_000)), 1.0)
    tracemalloc.start()
    dp_sgd(
        rows.with_targets(np.ones(2000)),
        LogisticLoss(),
        **RUN | {"n_public": 2000, "sampling_rate": 0.9, "n_steps": 3},
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * 8 * 100_000  # some weight vectors; dense rows would be 1.6e9


# --- sensitivity --------------------------------------------------------------------------

EXTREMES = (0.0, 1e-300, 1e-170, 1e-155, 1e-20, 1.0, 1e20, 1e155, 1.7e308)


def movement(X, targets, loss, clip, data_norm, intercept, weights):
    """How far the last record moves the clipped sum, in units of the clipping norm."""
    with without_warnings():  # as in a run
        with_it, without = (
            clipped_gradient_sum(
                Records(X[:m], data_norm, intercept, targets=targets[:m]), loss, weights, clip, 1
            )
            for m in (len(targets), len(targets) - 1)
        )
    assert np.isfinite(with_it).all()
    return np.linalg.norm((with_it - without) / clip)


@pytest.mark.slow
@settings(max_examples=300)
@given(data=st.data(), loss=st.sampled_from(LOSSES))
def test_a_record_moves_the_clipped_sum_by_the_clipping_norm_at_most(data, loss):
    """A search; the noise is calibrated to `clip_norm` exactly, so there is no tolerance."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    n, d = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    clip = data.draw(st.sampled_from([1e-50, 1e-3, 1.0, 1e3, 1e50]))
    data_norm = data.draw(st.sampled_from([1e-50, 1.0, 1e50]))
    intercept = data.draw(st.sampled_from([0.0, 0.1, 1.0]))
    X = rng.standard_normal((n, d)) * 10.0 ** data.draw(st.integers(-3, 3))
    targets = targets_for(loss, rng, n)
    if data.draw(st.booleans()):
        X = sp.csr_array(X)
    spread = data.draw(st.sampled_from([0.0, 1.0, 1e30]))
    weights = spread * rng.standard_normal((loss.n_outputs, d + bool(intercept)))
    assert movement(X, targets, loss, clip, data_norm, intercept, weights) <= 1.0


@pytest.mark.mostly("search", 3)
@every_loss
@pytest.mark.parametrize("data_norm", [1.0, 1e50])
def test_no_extreme_record_breaks_the_clipping(loss, data_norm):
    """Nothing over- or underflows, and nothing warns: rows, weights, targets out of range."""
    rng = np.random.default_rng(2)
    squared = isinstance(loss, HalfSquaredLoss)
    for size, target, spread, clip, intercept in itertools.product(
        EXTREMES, EXTREMES if squared else [1], [0.0, 1.0, 1e150, 1e300], [1e-50, 1.0], [0.0, 0.5]
    ):
        X = np.array([[1.0, 1.0], [size, -0.3 * size]])
        targets = np.array([0, target] if squared else [0, 1])
        weights = spread * rng.uniform(-1, 1, (loss.n_outputs, 2 + bool(intercept)))
        assert movement(X, targets, loss, clip, data_norm, intercept, weights) <= 1.0


def test_the_clipping_leaves_room_for_the_rounding_of_large_sums():
    """A record has less than the clipping norm by what two sums can be off, as they are formed."""
    rows, loss = Records(np.eye(3), 1.0, targets=np.array([1e3, 0.0, 0.0])), HalfSquaredLoss(1e3)
    for n_public, weights in ((10**5, [0, 0, 0]), (10**8, [0, 0, 0]), (10**5, [0, 1e3, 0])):
        total = clipped_gradient_sum(rows, loss, np.array([weights], dtype=float), 1.0, n_public)
        n, length = 10 * n_public, max(weights)
        # additions of every term; margins of other records, which may change their places
        additions = chain(n)
        rounding = n * EPS * (additions + 1.02 * (3 + 16) * length)
        assert 1e-8 < rounding < 0.3
        assert np.linalg.norm(total[0, 0]) <= 1.0 - 0.75 * rounding
        assert np.linalg.norm(total[0, 0]) > 1.0 - 2.0 * rounding
    # nothing is known of the margins: they may turn every gradient
    total = clipped_gradient_sum(rows, loss, np.array([[0.0, 1e30, 0.0]]), 1.0, 10**5)
    assert 0.0 < np.linalg.norm(total[0, 0]) <= 0.5 / 10**6


@pytest.mark.parametrize("batch", [None, np.arange(5000)])
def test_clipped_gradients_are_added_in_a_tree(batch):
    """One after the other, all but the first are lost in its last bit."""
    targets = np.full(5000, 1e-16)
    targets[0] = 1.0
    rows = Records(np.full((5000, 1), -1.0), 1.0, targets=targets)
    rows.block_size = 1
    total = clipped_gradient_sum(rows, HalfSquaredLoss(1.0), np.zeros((1, 1)), 2.0, 1, batch)
    exact = math.fsum(targets)
    assert exact - 1.0 > 4e-13
    bound = 0.51 * EPS * chain(5000, 1, 1) * exact
    assert abs(total[0, 0] - exact) <= bound < 0.1 * (exact - 1.0)


def test_the_clipping_norm_is_reached():
    rows = Records(np.eye(3), 1.0)
    total = clipped_gradient_sum(
        rows.with_targets(np.array([9.0, 0.0, 0.0])), HalfSquaredLoss(9.0), np.zeros((1, 3)), 0.5, 3
    )
    np.testing.assert_allclose(total, [[-0.5, 0.0, 0.0]], rtol=1e-8)


@pytest.mark.mostly("slow", 4)
@every_loss
@pytest.mark.parametrize("sampling_rate", [0.5, 1.0])
def test_a_record_moves_a_step_by_the_learning_rate_over_the_batch(loss, sampling_rate):
    """Neighbours under the same batches and noise: ``learning_rate / expected_batch`` at most."""
    rng = np.random.default_rng(4)
    n, learning_rate, n_public = 40, 2.0, 30
    moved = []
    for trial in range(100):
        X = rng.standard_normal((n + 1, 3)) * np.exp(3 * rng.standard_normal((n + 1, 1)))
        targets = targets_for(loss, rng, n + 1)
        points = []
        for m in (n, n + 1):
            result = dp_sgd(
                Records(X[:m], 1e3, 0.1, targets=targets[:m]),
                loss,
                n_public=n_public,
                sampling_rate=sampling_rate,  # one bit decides, so there are no ties
                n_steps=1,
                learning_rate=learning_rate,
                clip_norm=0.2,
                noise_multiplier=0.5,
                run=Run(noise=in_step(trial)),
            )
            points.append(result.point)
        moved.append(np.linalg.norm(points[1] - points[0]))
    bound = learning_rate / (sampling_rate * n_public)
    assert max(moved) <= bound * (1 + 1e-12)
    assert max(moved) > 0.99 * bound
    drawn = np.mean(np.array(moved) > 0)  # the batch has the last record; false alarms below 1e-6
    assert abs(drawn - sampling_rate) < 0.25


# --- batches --------------------------------------------------------------------------------


def test_the_chance_of_a_record_is_exact():
    """All words of 16 bits once, then, for the one that ties, all words again."""
    rate = (1234.0 + 77.0 / 2**16) / 2**16
    every_word = np.arange(2**16, dtype="<u2").tobytes()
    heads = NoiseSource(lambda n: every_word).bernoulli(2**16, 1234.0 / 2**16)
    assert list(np.flatnonzero(heads)) == list(range(1234))
    for tie, chosen in [(0, True), (76, True), (77, False), (78, False), (2**16 - 1, False)]:
        streams = iter([every_word, np.array([tie], dtype="<u2").tobytes()])
        heads = NoiseSource(lambda n, streams=streams: next(streams)).bernoulli(2**16, rate)
        assert list(np.flatnonzero(heads)) == list(range(1234 + chosen))


@pytest.mark.parametrize("rate", [0.003, 1 / 3, 0.97])
def test_batches_are_poisson_samples(rate):
    """Sizes are binomial, records and pairs of neighbours equally likely.

    Each of the three tests has a false-alarm rate of 1e-6.
    """
    n, draws, noise = 500, 2000, seeded(5)
    member = np.zeros((draws, n))
    for row in member:
        row[noise.bernoulli(n, rate)] = 1.0
    each = (member.sum(axis=0) - draws * rate) ** 2 / (draws * rate * (1 - rate))
    assert 1e-6 / 2 < stats.chi2.sf(each.sum(), n) < 1 - 1e-6 / 2
    size = member.sum(axis=1)
    dispersion = ((size - n * rate) ** 2).sum() / (n * rate * (1 - rate))
    assert 1e-6 / 2 < stats.chi2.sf(dispersion, draws) < 1 - 1e-6 / 2
    pairs = int((member[:, :-1:2] * member[:, 1::2]).sum())
    assert stats.binomtest(pairs, draws * n // 2, rate**2).pvalue > 1e-6


def test_a_step_sees_each_record_as_often_as_it_should():
    """Through the public function; the false-alarm rate is 1e-6."""
    n, steps = 200, 300
    X = np.full((n, 1), 1.0)
    point = dp_sgd(
        Records(X, 1.0, targets=np.full(n, -1e6)), HalfSquaredLoss(1e6), n_public=n,
        sampling_rate=0.1, n_steps=steps, learning_rate=1.0, noise_multiplier=1e-12,
        average=False, run=Run(noise=seeded(6)),
    ).point  # fmt: skip
    drawn = round(-point[0] * 0.1 * n)  # each draw adds one clipped gradient
    assert -point[0] * 0.1 * n == pytest.approx(drawn, abs=1e-3)
    assert stats.binomtest(drawn, n * steps, 0.1).pvalue > 1e-6


def test_batches_and_noise_are_secret_by_default(monkeypatch):
    assert inspect.signature(dp_sgd).parameters["run"].default is None
    assert inspect.signature(Run).parameters["noise"].default is None
    assert inspect.signature(NoiseSource).parameters["random_bytes"].default is os.urandom
    X = np.random.default_rng(0).standard_normal((50, 2))
    arguments = (Records(X, 1.0, targets=np.ones(50)), LogisticLoss())
    for changes in ({"sampling_rate": 0.5}, {"noise_multiplier": 1.0}):
        points = []
        for _ in range(2):
            np.random.seed(0)  # noqa: NPY002
            points.append(dp_sgd(*arguments, **RUN | changes).point)
        assert np.abs(points[0] - points[1]).max() > 1e-9  # equal batches: one in 2^50


# --- noise --------------------------------------------------------------------------------


def test_no_noise_outside_of_the_sum_zero_subspace():
    loss = SoftmaxLoss(5)
    point = dp_sgd(
        Records(np.zeros((4, 6)), 1.0, targets=np.zeros(4, dtype=int)), loss,
        **RUN | {"noise_multiplier": 1.0},
    ).point  # fmt: skip
    weights = loss.basis @ point.reshape(loss.n_outputs, -1)
    assert weights.shape == (5, 6)
    np.testing.assert_allclose(weights.sum(axis=0), 0.0, atol=1e-12)


# --- optimisation -------------------------------------------------------------------------


@every_loss
@pytest.mark.parametrize("sparse", [False, True])
def test_without_noise_it_finds_the_direction(loss, sparse):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    positive = X[:, 0] > 0
    targets = X[:, 0] if isinstance(loss, HalfSquaredLoss) else positive.astype(int)
    result = dp_sgd(
        Records(sp.csr_array(X) if sparse else X, 1.0, targets=targets), loss, n_public=500,
        sampling_rate=0.5, n_steps=100, learning_rate=2.0, noise_multiplier=1e-12,
        run=Run(noise=seeded(0)),
    )  # fmt: skip
    weights = result.point.reshape(loss.n_outputs, 3)
    if isinstance(loss, SoftmaxLoss):
        predicted = (X @ (loss.basis @ weights).T).argmax(axis=1) == 1
    else:
        predicted = X @ weights[0] > 0
    assert (predicted == positive).mean() > 0.95


@every_loss
def test_without_noise_clipping_or_sampling_it_converges_to_the_minimiser(loss):
    rng = np.random.default_rng(1)
    X, n, alpha, clip = rng.standard_normal((60, 3)), 60, 0.1, 100.0
    rows, targets = Records(X, 2.0, 0.5), targets_for(loss, rng, 60)
    result = dp_sgd(
        rows.with_targets(targets), loss, n_public=n, sampling_rate=1.0, n_steps=600,
        clip_norm=clip, learning_rate=0.3 * clip, alpha=alpha, noise_multiplier=1e-13,
    )  # fmt: skip
    problem = FiniteSumProblem(rows.with_targets(targets), loss, alpha, WholeSpace())
    exact = Newton().solve(problem, 1e-8).point
    np.testing.assert_allclose(result.point, exact, atol=1e-6)


def test_the_second_half_is_averaged_and_every_step_projected():
    rows, targets, loss = Records(np.ones((1, 1)), 1.0), np.array([1e9]), HalfSquaredLoss(1e9)

    def run(n_steps, **changes):
        settings = RUN | {"n_public": 1, "n_steps": n_steps} | changes
        return float(dp_sgd(rows.with_targets(targets), loss, **settings).point[0])

    # each step moves by 1
    for n_steps, mean in [(1, 1.0), (2, 2.0), (3, 2.5), (4, 3.5), (5, 4.0)]:
        assert run(n_steps) == pytest.approx(mean, rel=1e-8)
        assert run(n_steps, average=False) == pytest.approx(n_steps, rel=1e-8)
    ball = Ball(2.5)
    assert run(4, domain=ball) == pytest.approx(2.5, rel=1e-8)
    assert run(4, domain=ball, noise_multiplier=1e3) <= 2.5
    noisy = [run(4, domain=ball, noise_multiplier=1e6, average=False) for _ in range(9)]
    assert max(map(abs, noisy)) <= 2.5


def test_the_penalty_shrinks():
    rows, targets, loss = Records(np.ones((1, 1)), 1.0), np.array([1e9]), HalfSquaredLoss(1e9)
    settings = RUN | {"n_public": 1, "n_steps": 2, "average": False}
    # 0 -> 1 -> 1 + 1 - 0.25
    point = dp_sgd(rows.with_targets(targets), loss, **settings, alpha=0.25).point
    np.testing.assert_allclose(point, [1.75], rtol=1e-8)


# --- refusals -----------------------------------------------------------------------------


REFUSED = [
    *one_at_a_time(
        n_public=[0, 2.5, True], n_steps=[0, "many"], width=[0], clip_norm=[0.0, None],
        sampling_rate=[0.0, 1.1, math.nan, "half"], learning_rate=[0.0, math.inf], alpha=[-1.0],
        domain=[3.0], average=[1], noise_multiplier=[0.0, -1.0],
    ),
    ({"loss": HingeLoss()}, "not smooth"),
    ({"alpha": 2.0, "learning_rate": 1.0}, "overshoot"),
    ({"noise_multiplier": None}, "Exactly one of budget and noise_multiplier"),
    ({"budget": PrivacyBudget(1.0, 1e-6)}, "Exactly one of"),
    ({"budget": 1.0, "noise_multiplier": None}, "PrivacyBudget"),
    ({"budget": PrivacyBudget(1.0), "noise_multiplier": None}, "delta == 0"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "match"), REFUSED, ids=str)
def test_invalid_plans_are_refused(changes, match):
    with pytest.raises((ValueError, TypeError), match=match):
        plan_dp_sgd(**PLAN | {"noise_multiplier": 1.0} | changes)


MANY = Records(np.eye(11), 1.0, targets=np.ones(11))
REFUSED_RECORDS = [
    ({"records": np.eye(2)}, "records must be Records, got ndarray"),
    ({"records": Records(np.eye(2), 1e60)}, "norm_bound"),
    ({"records": Records(WITH_NAN, 1.0, targets=np.ones(2))}, "NaN"),
    ({"n_public": 1, "records": MANY}, "too small for the number of records"),
    ({"loss": "logistic"}, "loss must be a Loss"),
    ({"targets": np.ones(3)}, r"shape \(3,\), but there are 2 records"),
    ({"targets": np.ones((2, 1))}, "shape"),
    ({"targets": np.array(["a", "b"])}, "must be numbers"),
    *one_at_a_time("0 or 1", targets=[np.array([1.0, math.nan]), np.array([0.0, 0.5])]),
    ({"loss": SoftmaxLoss(3), "targets": np.array([0, 3])}, "must be 0 to 2"),
    ({"loss": SoftmaxLoss(3), "targets": np.array([0, -1])}, "must be 0 to 2"),
    ({"loss": SoftmaxLoss(3), "targets": np.array([0.0, 0.5])}, "class indices"),
]


@pytest.mark.parametrize(("changes", "match"), REFUSED_RECORDS)
def test_invalid_records_are_refused(changes, match):
    arguments = {"targets": np.ones(2), "loss": LogisticLoss()} | changes
    with pytest.raises((ValueError, TypeError), match=match):
        records = Records(np.eye(2), 1.0, targets=arguments.pop("targets"))
        dp_sgd(**RUN | {"records": records} | arguments)


def test_targets_of_any_real_dtype_and_lists_are_accepted():
    rows = Records(np.eye(2), 1.0)
    points = [
        dp_sgd(rows.with_targets(targets), loss, **RUN).point
        for loss in (LogisticLoss(), SoftmaxLoss(2), HalfSquaredLoss(1.0))
        for targets in ([0, 1], np.array([0.0, 1.0], dtype=np.float32), np.array([False, True]))
    ]
    for one, two, three in zip(*[iter(points)] * 3, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-9)
        np.testing.assert_allclose(one, three, atol=1e-9)
