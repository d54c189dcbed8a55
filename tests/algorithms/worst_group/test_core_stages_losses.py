"""Models of the core for the worst group: losses of numeric targets, and hinges."""

import math
from dataclasses import replace

import numpy as np
import pytest
from noisy_group_runs import ADD, REPLACE, planned, records_of

from skdp.algorithms.core.centered_rows import CenteredRows, Centering
from skdp.algorithms.worst_group.group_losses import clipped_losses, loss_range, loss_sensitivity
from skdp.algorithms.worst_group.margin_fits import MixFit
from skdp.problems import (
    AbsoluteLoss,
    Design,
    HalfSquaredLoss,
    HingeLoss,
    LogisticLoss,
    OneVsRestLoss,
    SoftmaxLoss,
    SquaredHingeLoss,
    huber_loss,
)
from skdp.problems.rounding import EPS

SQUARES = HalfSquaredLoss(2.0)


LOSSES = [
    SQUARES, AbsoluteLoss(3.0), huber_loss(1.0, 0.05), HingeLoss(), SquaredHingeLoss(),
    OneVsRestLoss(SquaredHingeLoss(), 3), LogisticLoss(), SoftmaxLoss(5),
]  # fmt: skip


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_terms_are_within_their_range_and_slope(loss):
    """Lemmas 2 and 5, for records whose losses are 0, small, at the limit and far beyond it."""
    centre, largest = loss_range(loss)
    assert not loss.has_odds or centre == math.log(loss.n_outputs + 1)
    values = np.array([-centre, largest - centre])
    moved = [np.hypot(a, b) for a in values for b in values]
    same = abs(values[0] - values[1])
    assert loss_sensitivity(loss, True) == pytest.approx(max(same, *moved), rel=1e-12)
    assert loss_sensitivity(loss, False) == pytest.approx(abs(values).max(), rel=1e-12)
    plan = planned(loss, Design(1.01, 5, 10**5, 1.0, 0.1), REPLACE).plain
    smooth, clipped = plan.loss, clipped_losses(plan)
    rng, n = np.random.default_rng(0), 20000
    size = (n,) if smooth.n_outputs == 1 else (n, smooth.n_outputs)
    z = 10.0 ** rng.uniform(-3, 1, size) * rng.choice([-1.0, 1.0], size)
    t = rng.uniform(-1, 1, n) * loss.target_bound if loss.target_bound else rng.integers(0, 2, n)
    terms = clipped.terms(smooth.value(z, t))
    assert terms.min() >= -centre and terms.max() <= largest - centre
    assert np.ptp(terms) > 0.95 * largest
    step = 1e-6 * rng.normal(size=size)
    lengths = np.abs(step) if smooth.n_outputs == 1 else np.linalg.norm(step, axis=1)
    slopes = np.abs(clipped.terms(smooth.value(z + step, t)) - terms) / lengths
    assert slopes.max() <= clipped.slope * (1.0 + 1e-3)
    assert slopes.max() > (0.4 if loss.has_odds else 0.6) * clipped.slope


def test_of_many_classes_a_change_of_the_group_moves_most():
    """Two sums, each by the loss of a model that knows nothing."""
    loss = SoftmaxLoss(40)
    centre, largest = loss_range(loss)
    assert loss_sensitivity(loss, True) == pytest.approx(math.sqrt(2.0) * centre, rel=1e-12)
    assert loss_sensitivity(loss, True) > largest


def test_numeric_losses_are_clipped_at_a_multiple_of_the_released_moment():
    """The unit follows the released variance, not the records; a bound of 2 to 3 deviations."""
    for n, deviations in ((3000, 2.0), (10**9, 3.0)):
        plan = planned(SQUARES, Design(1.01, 5, n, 1.0, 0.1), REPLACE, 1.0, 1e-12).plain
        for variance in (0.15, 0.01):
            means = replace(plan.numbers.means, deviation=math.sqrt(variance))  # as of a run
            found = clipped_losses(replace(plan, found=replace(plan.numbers, means=means)))
            residual = deviations * 2.0 * math.sqrt(variance)
            assert found.unit == pytest.approx(0.5 * residual**2, rel=1e-12)
            assert found.losses(np.array([1.0 / deviations**2 - found.centre])) == pytest.approx(
                0.5
            )


def line_of(loss, weights=((2.0, 0.0, 0.0, 0.3), (-2.0, 1.0, 0.0, -0.3))):
    """A fit on the line between two models, on rows of norm 1."""
    rng, n = np.random.default_rng(0), 4000
    X = rng.normal(size=(n, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = rng.uniform(-1, 1, n) * loss.target_bound if loss.target_bound else rng.integers(0, 2, n)
    records = records_of(X, y, np.zeros(n, dtype=int))
    plan = planned(loss, Design.of(records), REPLACE, 1e4)
    rows = CenteredRows(records, Centering.unknown(3, 1))
    ends = tuple(np.array([w]) for w in weights)
    fit = MixFit(plan.plain, rows, ends, np.zeros(1))
    terms = []

    def part(block, _):
        terms.append(np.array(fit.terms()(block)))
        return np.zeros(1)

    rows.full_total(part)
    return plan, fit, np.concatenate(terms, axis=1).T, X, y, rows


@pytest.mark.parametrize("loss", [SQUARES, HalfSquaredLoss(1e-3), SquaredHingeLoss()], ids=repr)
def test_terms_of_the_line_reach_their_bound(loss):
    """Lemma 6: norms of at most 1, and nearly opposite vectors of records of one group."""
    plan, _, vectors, *_ = line_of(loss, ((6.0, 0.0, 0.0, 9.0), (-6.0, 1.0, 0.0, -9.0)))
    assert np.linalg.norm(vectors, axis=1).max() <= 1.0 + 1e-12
    farthest = np.sqrt(max(0.0, 2.0 - 2.0 * (vectors[:500] @ vectors.T).min()))
    assert 1.2 < farthest <= 2.0
    assert plan.last.sensitivity == 2.0
    assert planned(loss, Design(1.01, 5, 10**5, 10.0, 0.1), ADD).last.sensitivity == 1.0


def test_rounding_of_the_line_is_that_of_lemma_6():
    """Margins that move by eta move a term by no more than stated, and by a tenth of it."""
    _, fit, before, _, _, rows = line_of(SQUARES)
    eta = 1e-7
    fit.offsets = fit.offsets + eta
    found = []

    def part(block, _):
        found.append(np.array(fit.terms()(block)))
        return np.zeros(1)

    rows.full_total(part)
    moved = np.linalg.norm(np.concatenate(found, axis=1).T - before, axis=1).max()
    assert 0.1 * fit.rounding(eta) < moved <= fit.rounding(eta)
    assert fit.rounding(0.0) == pytest.approx((16 * 5 + 32) * EPS, rel=1e-12)


def test_without_noise_step_and_shift_are_the_best():
    """Squares of two groups along a line and in a shift, against a grid of their own."""
    rng = np.random.default_rng(3)
    _, fit, *_ = line_of(HalfSquaredLoss(1.0))
    u, sizes = fit.clipped.unit, np.array([3e8, 1e8])
    first, change = rng.normal(size=(2, 2, 400)) * math.sqrt(u) * 0.2
    first += math.sqrt(u) * np.array([[0.3], [-0.5]])
    last = first + change

    def values(s, b):
        return (0.5 * (first + s * change + b) ** 2).mean(axis=1).max()

    middle, unit = 0.5 * (first + last), math.sqrt(2.0 * u)
    losses = [0.5 * r**2 / u for r in (first, middle, last)]
    entries = [
        losses[0] - 0.3,
        losses[2] - losses[0],
        losses[0] + losses[2] - 2 * losses[1],
        first / unit,
        last / unit,
    ]
    means = np.stack([entry.mean(axis=1) for entry in entries], axis=1)
    step, shift = fit.step(means * sizes[:, None], 1e-9, sizes)
    grid = [values(s, b * fit.shift_unit) for s in fit_grid(0, 1.25) for b in fit_grid(-1, 1)]
    assert values(step, shift) <= 1.01 * min(grid) < 0.9 * values(0.0, 0.0)


def fit_grid(low, high):
    return np.linspace(low, high, 101)


def test_a_group_that_is_not_known_keeps_the_plain_model():
    """A step for the benefit of one group is not taken where another one may lose as much."""
    _, fit, *_ = line_of(HalfSquaredLoss(1.0))
    sizes = np.array([9000.0, 1000.0])
    means = np.array([[-0.2, 0.1, 0.05, 0.0, 0.0], [0.0, -0.2, 0.05, 0.0, 0.0]])
    assert fit.step(means * sizes[:, None], 1e-9, sizes)[0] > 0.5
    assert fit.step(means * sizes[:, None], 1e5, sizes)[0] == 0.0
