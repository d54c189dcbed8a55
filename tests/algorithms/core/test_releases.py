"""The releases of the core: Lemmas 1, 3 and 4 are attacked."""

import math
from dataclasses import replace

import numpy as np
import pytest

from skdp.algorithms.core.means import MeansSum, plan_means
from skdp.algorithms.core.noisy_sums import Level
from skdp.algorithms.core.size import Derivatives, ShortenedSquares, shortening
from skdp.privacy.events import Neighbouring
from skdp.problems import Design, HalfSquaredLoss, LogisticLoss, Records, SoftmaxLoss


def mean_vectors(rng, n_classes, has_rows, d=3, n=400):
    """Vectors of single records at the ends of their set and inside of it."""
    X = rng.standard_normal((n, d))
    X *= rng.choice([0.0, 0.3, 1.0], (n, 1)) / np.linalg.norm(X, axis=1, keepdims=True)
    X[: n // 2] = rng.choice([-1.0, 1.0], n // 2)[:, None] * np.eye(d)[0]
    y = rng.integers(n_classes, size=n) if n_classes else rng.choice([-1.0, 0.0, 0.5, 1.0], n)
    records = Records(X, 1.0, 1.0, targets=y)
    statistic = MeansSum(1.0, d * has_rows, n_classes, 1.0)
    return np.array([records.total(statistic, part=slice(i, i + 1)) for i in range(n)])


@pytest.mark.parametrize("has_rows", [True, False])
@pytest.mark.parametrize("n_classes", [0, 2, 4])
def test_means_move_by_no_more_than_lemma_1(n_classes, has_rows):
    vectors = mean_vectors(np.random.default_rng(0), n_classes, has_rows)
    design = Design(feature_norm=1.0, width=4, n_records=100, intercept=1.0)
    plans = [
        plan_means(n_classes, design, relation, Level(1.0), has_rows)
        for relation in (Neighbouring.REPLACE_ONE, Neighbouring.ADD_REMOVE)
    ]
    apart = np.linalg.norm(vectors[:, None] - vectors, axis=2).max()
    assert 0.99 < apart / plans[0].sensitivity <= 1.0 + 1e-12
    assert 0.9 < np.linalg.norm(vectors, axis=1).max() / plans[1].sensitivity <= 1.0 + 1e-12


def derivatives(loss, rng, k):
    """Statistics of a random released model."""
    is_number = bool(loss.target_bound)
    return Derivatives(
        loss=loss,
        weights=rng.standard_normal((k, 3)) * 3.0,
        size=float(rng.uniform(0.1, 4.0)),
        shift=rng.standard_normal(k) * (0.3 if is_number else 2.0),
        unit=math.sqrt(2.0) if isinstance(loss, LogisticLoss) else 1.0,
        spread=0.3 if is_number else 1.0,
        top=float(rng.choice([0.5, 2.0, 10.0])),
    )


LOSSES = {
    "squares": (HalfSquaredLoss(1.0), 1),
    "two classes": (LogisticLoss(), 1),
    "four classes": (SoftmaxLoss(4), 3),
}


@pytest.mark.parametrize("name", LOSSES)
def test_vectors_of_rounds_change_by_no_more_than_lemma_4(name):
    loss, k = LOSSES[name]
    rng, steepest = np.random.default_rng(1), 0.0
    for _ in range(150):
        statistic = derivatives(loss, rng, k)
        x = rng.standard_normal(2) * rng.choice([0.01, 0.1, 0.3, 1.0])
        y = rng.choice([-1.0, 1.0]) if loss.target_bound else rng.integers(k + 1)
        step = 1e-6 * rng.standard_normal(2)
        rows = Records(np.array([x, x + step]), 100.0, 1.0, targets=np.array([y, y]))
        ends = [rows.block(slice(i, i + 1)) for i in range(2)]
        moved = np.linalg.norm(statistic(ends[1], None) - statistic(ends[0], None))
        margins = np.linalg.norm(statistic.weights[:, :2] @ step)
        steepest = max(steepest, moved / margins / statistic.steepness)
    assert 0.01 < steepest <= 1.0


@pytest.mark.parametrize("name", LOSSES)
def test_vectors_of_rounds_are_shortened(name):
    loss, k = LOSSES[name]
    rng = np.random.default_rng(2)
    statistic = replace(derivatives(loss, rng, k), top=0.7)
    y = rng.choice([-1.0, 1.0], 50) if loss.target_bound else rng.integers(k + 1, size=50)
    records = Records(rng.standard_normal((50, 2)), 100.0, 1.0, targets=y)
    lengths = [np.linalg.norm(statistic(records.block(slice(i, i + 1)), None)) for i in range(50)]
    assert 0.7 - 1e-12 < max(lengths) <= 0.7 + 1e-12


@pytest.mark.parametrize("k", [1, 3])
def test_far_margins_count_less_by_their_root_mean_square(k):
    z = np.array([[0.5], [2.0], [4.0]]) * np.ones(k)
    assert shortening(z)[:, 0] == pytest.approx([1.0, 1.0, 2.0])


@pytest.mark.parametrize("k", [1, 3])
def test_squares_of_margins_are_at_most_1_and_no_steeper_than_stated(k):
    rng, steepest, largest = np.random.default_rng(3), 0.0, 0.0
    statistic = ShortenedSquares(rng.standard_normal((k, 3)))
    for _ in range(300):
        x = rng.standard_normal(2) * rng.choice([0.1, 1.0, 2.0, 10.0])
        step = 1e-6 * rng.standard_normal(2)
        rows = Records(np.array([x, x + step]), 100.0, 1.0, targets=np.zeros(2))
        ends = [statistic(rows.block(slice(i, i + 1)), None) for i in range(2)]
        moved = np.linalg.norm(statistic.weights[:, :2] @ step)
        steepest = max(steepest, float(abs(ends[1] - ends[0])[0]) / moved / statistic.steepness)
        largest = max(largest, float(ends[0][0]))
    assert 0.8 < steepest <= 1.0 + 1e-6
    assert largest == 1.0
