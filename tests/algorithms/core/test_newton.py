"""The release of a Newton step: its lemma, its rounding, and the deviations that follow."""

from dataclasses import replace

import numpy as np
import pytest
from laboratory import Laboratory
from plain_noise import Silent, seeded
from public_objectives import REPLACE, centering_of

from skdp.algorithms.core.centered_rows import CenteredRows, sum_rounding
from skdp.algorithms.core.intervals import (
    Newton,
    NewtonTerms,
    least_records,
    plan_newton,
    release_newton,
)
from skdp.problems import Design, HalfSquaredLoss, LogisticLoss, Records, SoftmaxLoss
from skdp.problems.rounding import EPS, two_margins

#: Losses, and numbers of outputs.
LOSSES = {
    "squares": (HalfSquaredLoss(1.0), 1),
    "two classes": (LogisticLoss(), 1),
    "three classes": (SoftmaxLoss(3), 2),
}
NAMES = pytest.mark.parametrize("name", LOSSES)


def made(name, X, rng, mean=0.0, scale=0.5, shared=None):
    """Records of random targets as centered rows, and the plan of a release."""
    loss, k = LOSSES[name]
    n, d = X.shape
    y = rng.integers(k + 1, size=n) if loss.has_odds else rng.uniform(-1.0, 1.0, n)
    records = Records(X, 1.0, 1.0, targets=y if shared is None else shared)
    rows = CenteredRows(records, centering_of(np.full(d, mean), scale))
    return rows, loss, k, plan_newton(Design.of(records), REPLACE, 1.0, k)


def value_of(rows, loss, k, plan, weights, deviation=0.3):
    """The exact sum of a release, and the sensitivity that goes with it."""
    with Laboratory(numbers={0: np.zeros(plan.n_entries)}) as laboratory:
        release_newton(plan, rows, loss, weights, np.zeros(k), deviation, 4.0, seeded(0))
    (draw,) = laboratory.draws
    return draw.value, draw.mechanism.sensitivity


@NAMES
def test_lemma_7_no_record_moves_a_newton_step_further(name):
    """Opposite long rows at large residuals are near the bound."""
    rng, vectors = np.random.default_rng(0), []
    weights = rng.standard_normal((LOSSES[name][1], 3)) * 1e-3
    for _ in range(40):
        x = rng.standard_normal((1, 2)) * rng.choice([0.01, 1.0])
        x *= 0.9999 / max(np.linalg.norm(x), 0.9999)
        for sign in (-1.0, 1.0):
            rows, *others = made(name, sign * x, rng)
            vectors.append(value_of(rows, *others, weights)[0])
    apart = np.linalg.norm(np.array(vectors)[:, None] - vectors, axis=2).max()
    assert 0.6 < apart / others[-1].sensitivity <= 1.0


@pytest.mark.parametrize("k", [1, 3])
def test_lemma_7_bounds_all_vectors_of_its_proof(k):
    """Scores, curvatures and their weights are free; the bound of one output is attained."""
    rng, farthest = np.random.default_rng(1), 0.0
    limit = plan_newton(Design(1.0, 4, 100), REPLACE, 1.0, k).sensitivity
    for angle in np.linspace(0.0, np.pi, 400):
        ends = []
        for at in (0.0, angle):
            x = np.array([np.cos(at), np.sin(at), 0.0])
            r, root = np.eye(k)[rng.integers(k)], np.eye(k)[rng.integers(k)]
            score = np.kron(r if at == 0.0 else -r, x)
            curvature = np.kron(np.outer(root, root), np.outer(x, x))
            squares = np.outer(score, score)
            ends.append(
                np.concatenate([score, np.sqrt(2.0) * curvature.ravel(), 0.5 * squares.ravel()])
            )
        farthest = max(farthest, float(np.linalg.norm(ends[0] - ends[1])))
    assert 0.95 < farthest / limit <= 1.0 + 1e-12


@NAMES
def test_a_newton_step_pays_for_rounding(name):
    """Rows at a thousandth of their mean, in another order; margins, norms and products."""
    rng, n = np.random.default_rng(1), 3000
    X = np.full((n, 4), 0.45) + 1e-3 * rng.normal(size=(n, 4))
    rows, loss, k, plan = made(name, X, rng, 0.45, 1e-3)
    order, y = rng.permutation(n), rows.records.targets
    others = made(name, X[order], rng, 0.45, 1e-3, y[order])[0]
    weights = rng.standard_normal((k, 5))
    (a, limit), (b, _) = (value_of(each, loss, k, plan, weights) for each in (rows, others))
    length = 1.9 / 1e-3 + 0.2
    of_sums = sum_rounding(plan.design, 2.0 * (1.5 + np.sqrt(2.0)) * length**2)
    of_places = 8.0 * (4 + 8) * EPS * n * (1.5 + np.sqrt(2.0)) * length**2
    assert limit - plan.bound() == pytest.approx(of_sums + of_places, rel=2e-3)
    assert 0.0 < np.linalg.norm(a - b) <= limit - plan.bound()
    if not loss.has_odds:  # residuals over their limit move more the smaller it is
        small = value_of(rows, loss, k, plan, weights, 1e-9)[1]
        reached = length * np.linalg.norm(weights) + loss.target_bound
        assert small - limit == pytest.approx(n * 5.0 / 4e-9 * two_margins(6, reached), rel=1e-2)


@NAMES
def test_curvatures_are_the_derivatives_of_scores(name):
    loss, k = LOSSES[name]
    rng = np.random.default_rng(2)
    rows = made(name, 0.3 * rng.normal(size=(400, 3)), rng)[0]
    weights, step = rng.normal(size=(k, 4)), 1e-5 * rng.normal(size=(k, 4))

    def released(at):
        plan = plan_newton(Design.of(rows.records), REPLACE, 1.0, k)
        return release_newton(plan, rows, loss, at, np.zeros(k), 0.3, 4.0, Silent())

    change = released(weights + step).score - released(weights - step).score
    expected = 2.0 * released(weights).curvature @ step.ravel()
    np.testing.assert_allclose(change.ravel(), expected, rtol=1e-4, atol=1e-10)


@NAMES
def test_squares_are_those_of_scores(name):
    loss, k = LOSSES[name]
    rng = np.random.default_rng(3)
    rows, _, _, plan = made(name, 0.3 * rng.normal(size=(1, 3)), rng)
    given = plan, rows, loss, rng.normal(size=(k, 4)), np.zeros(k), 0.3, 4.0
    found = release_newton(*given, Silent())
    score = found.score.ravel()
    np.testing.assert_allclose(found.squares, np.outer(score, score), atol=1e-12)


def test_records_of_shortened_rows_do_not_count():
    """Rows that are longer than the bound are not those of the model."""
    rng = np.random.default_rng(4)
    X = 0.2 * rng.normal(size=(50, 3))
    long = np.concatenate([X, 5.0 * np.eye(3)])
    loss, targets = LOSSES["two classes"][0], rng.integers(2, size=53)
    terms = NewtonTerms(loss=loss, weights=rng.normal(size=(1, 4)), offsets=np.zeros(1), limit=1.0)
    sums = []
    for rows in (X, long):
        records = Records(rows, 1.0, 1.0, targets=targets[: len(rows)])
        sums.append(CenteredRows(records, centering_of(np.zeros(3), 0.5)).full_total(terms))
    np.testing.assert_allclose(*sums, atol=1e-12)
    halves = []  # of a row that is shortened by a twentieth
    for size in (1.0, 0.95):
        records = Records(size * np.eye(3)[:1], 0.95, 1.0, targets=targets[:1])
        rows = CenteredRows(records, centering_of(np.zeros(3), 1.0))
        halves.append(rows.full_total(replace(terms, weights=np.zeros((1, 4)))))
    np.testing.assert_allclose(halves[0][:4], 0.5 * halves[1][:4], atol=1e-12)  # scores


@NAMES
def test_a_release_has_the_noise_that_it_states(name):
    loss, k = LOSSES[name]
    rng = np.random.default_rng(5)
    rows, _, _, plan = made(name, 0.3 * rng.normal(size=(60, 4)), rng)
    given = plan, rows, loss, np.zeros((k, 5)), np.zeros(k), 0.3, 4.0
    exact = release_newton(*given, Silent())
    noisy = [release_newton(*given, seeded(seed)) for seed in range(100)]
    scores = [each.score - exact.score for each in noisy]
    curvatures = [np.diag(each.curvature - exact.curvature) for each in noisy]
    squares = [np.diag(each.squares - exact.squares) for each in noisy]
    seen = [np.std(each) for each in (scores, curvatures, squares)]
    np.testing.assert_allclose(seen, noisy[0].errors, rtol=0.12)


@NAMES
def test_the_least_number_of_records_counts_the_largest_noise_of_a_direction(name):
    """In units of the curvature of classes of equal size, over all directions."""
    rng, width = np.random.default_rng(0), 41
    rows, loss, k, plan = made(name, 0.01 * rng.normal(size=(1000, width - 1)), rng)
    plan = replace(plan, mu=0.05)
    found = release_newton(plan, rows, loss, np.zeros((k, width)), np.zeros(k), 0.3, 4.0, seeded(0))
    largest = {"squares": 1.0, "two classes": 0.25, "three classes": 0.5}[name]
    average = largest * 2.0 / (k + 1.0) / width
    stated = least_records(plan, k, 1.0) / plan.design.n_records * average
    assert -np.linalg.eigvalsh(found.curvature)[0] == pytest.approx(stated, rel=0.07)


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("errors", [(0.01, 1e-6, 1e-6), (1e-6, 0.003, 1e-6)])
def test_stated_noise_is_that_of_steps(k, errors):
    """By noise of the score, and of the curvature: symmetric in outputs and in columns."""
    rng, width = np.random.default_rng(6), 4
    root = rng.normal(size=(k * width, 3 * k * width)) / np.sqrt(3.0 * k * width)
    known = Newton(
        weights=np.zeros((k, width)),
        score=rng.normal(size=(k, width)),
        curvature=root @ root.T + np.eye(k * width) + 1.0,
        squares=np.eye(k * width),
        errors=errors,
        n_records=10**6,
        unit=0.5,
        mix=rng.normal(size=(k + 1, k)),
    )
    estimates = []
    for _ in range(400):
        off = rng.normal(size=(k, width, k, width))
        off = 0.5 * (off + off.transpose(2, 1, 0, 3))
        off = 0.5 * (off + off.transpose(0, 3, 2, 1)).reshape(k * width, k * width)
        score = known.score + errors[0] * rng.normal(size=(k, width))
        noisy = replace(known, score=score, curvature=known.curvature + errors[1] * off)
        estimates.append(noisy.debiased()[0])
    along = np.vstack([np.eye(3), np.eye(3) - np.roll(np.eye(3), 1, axis=1)])  # differences, too
    seen = np.std(np.array(estimates) @ along.T, axis=0)
    np.testing.assert_allclose(known.debiased(along)[1], seen, rtol=0.15)


def test_the_sample_has_the_deviations_of_the_sandwich():
    """Also where squares are not in proportion to the curvature, above their noise."""
    curvature, squares = np.diag([1.0, 0.5, 0.25, 1.0]), np.diag([2.0, 0.1, 0.3, 1.0])
    known = Newton(
        weights=np.ones((1, 4)),
        score=np.zeros((1, 4)),
        curvature=curvature,
        squares=squares,
        errors=(1e-9, 1e-9, 1e-9),
        n_records=100,
        unit=2.0,
        mix=np.eye(1),
    )
    estimate, _, sampling, hidden = known.debiased()
    expected = np.sqrt(np.diag(squares) / 100) / np.diag(curvature) / 2.0
    np.testing.assert_allclose(sampling[0], expected[:3], rtol=1e-6)
    np.testing.assert_allclose(estimate, 0.5)
    assert not hidden.any()
    noisy = replace(known, errors=(1e-9, 1e-9, 10.0)).debiased()[2]
    expected = np.sqrt(3.4 / 2.75 / 100 / np.diag(curvature)) / 2.0  # in proportion
    np.testing.assert_allclose(noisy[0], expected[:3], rtol=1e-6)
    assert replace(known, errors=(1e-9, 0.2, 1e-9)).debiased()[3].tolist() == [[0, 0, 1]]
