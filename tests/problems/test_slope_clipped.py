"""Losses with clipped slopes: convex, with short gradients; Lemma 8 of docs/theory/core.md."""

import numpy as np
import pytest
from every_loss import ALL, SEVERAL
from scipy.optimize import minimize

from skdp.problems.slope_clipped import SlopeClippedLoss, clipped


@pytest.mark.parametrize("name", ALL)
def test_clipped_losses_are_convex_with_short_gradients(name):
    """Derivatives are those of values; where none is clipped, the loss is the one that it was."""
    rng, loss = np.random.default_rng(2), ALL[name]
    k, m, is_single = loss.n_outputs, 2000, loss.n_outputs == 1
    offsets = rng.standard_normal(k) if name == "classes" else np.full(k, 0.3 * is_single)
    made = clipped(loss, offsets, 0.2)
    labels = rng.integers(0, 2 if is_single else loss.n_classes, m)
    targets = np.column_stack([labels, 10.0 ** rng.uniform(-2, 0.5, m)])
    margins, others = 3.0 * rng.standard_normal((2, m, k))

    def evaluated(at):
        """Values, and slopes as a matrix."""
        values, slopes = made.value_and_derivative(at[:, 0] if is_single else at, targets)
        return values, slopes.reshape(m, k)

    made.check_targets(targets)
    (values, slopes), (other, bent) = evaluated(margins), evaluated(others)
    alone = made.derivative(margins[:, 0] if is_single else margins, targets).reshape(m, k)
    np.testing.assert_allclose(alone, slopes, rtol=0.0, atol=1e-12 * is_single)
    lengths = np.linalg.norm(slopes, axis=1)
    assert (lengths <= targets[:, 1]).all()
    assert (lengths / targets[:, 1]).max() > 0.99
    tangents = values + ((others - margins) * slopes).sum(axis=1)
    assert (other >= tangents - 1e-12).all()
    moved = np.linalg.norm(bent - slopes, axis=1)
    assert (
        moved <= made.curvature * np.linalg.norm(others - margins, axis=1) + 1e-12 * is_single
    ).all()
    at = margins + offsets
    plain = loss.value_and_derivative(*((at[:, 0], labels + 0.0) if is_single else (at, labels)))
    raw, bends = plain[1].reshape(m, k), []
    is_inside = np.abs(slopes - raw).max(axis=1) < 1e-12
    assert 0.04 < is_inside.mean() < (0.99 if is_single else 0.96)
    if is_single:
        limits = targets[:, 1:]
        raw = loss.derivative(at[:, 0], labels + 0.0)[:, None]
        np.testing.assert_array_equal(alone, np.clip(raw, -limits, limits))
    assert values[is_inside] == pytest.approx(plain[0][is_inside], abs=1e-12)
    assert (values <= plain[0] + 1e-12).all()
    for a in range(k):
        step = 1e-5 * np.eye(k)[a]
        ends = [evaluated(margins + sign * step) for sign in (1, -1)]
        assert (ends[0][0] - ends[1][0]) / 2e-5 == pytest.approx(slopes[:, a], abs=1e-4)
        bends.append((ends[0][1] - ends[1][1]) / 2e-5)
    hessians = made.second_derivative(margins[:, 0] if is_single else margins, targets)
    hessians = hessians.reshape(m, k, k)
    near = np.abs(np.stack(bends, axis=1) - hessians).max(axis=(1, 2)) < 1e-4
    assert near.mean() > (0.98 if is_single else 0.99)  # elsewhere there is a kink of the slope
    largest = np.linalg.eigvalsh(hessians)
    assert largest.min() > -1e-12 and largest.max() <= made.curvature
    with pytest.raises(ValueError, match="shape"):
        made.check_targets(labels)
    if is_single:
        with pytest.raises(ValueError, match="not clipped"):
            SlopeClippedLoss(made, 0.0, 1.0)


def solution(rows, targets, loss, alpha):
    both = np.column_stack([targets, loss.clip / np.linalg.norm(rows, axis=1)])
    k, d = loss.n_outputs, rows.shape[1]

    def objective(w):
        margins = rows @ w.reshape(k, d).T
        margins = margins[:, 0] if k == 1 else margins
        values, slopes = loss.value_and_derivative(margins, both)
        gradient = slopes.reshape(-1, k).T @ rows / len(rows) + alpha * w.reshape(k, d)
        return values.mean() + 0.5 * alpha * w @ w, gradient.ravel()

    return minimize(objective, np.zeros(k * d), jac=True, method="BFGS", options={"gtol": 1e-12}).x


@pytest.mark.mostly("search", 1)
@pytest.mark.parametrize("name", ALL)
def test_neighbours_move_the_solution_by_no_more_than_lemma_8(name):
    """Rows of norms from 1e-3 to 1e3; the best of 60 pairs, and of a climb, reaches the bound."""
    rng, best, found = np.random.default_rng(3), 0.0, None
    kind, n = ALL[name], 4

    def moved(rows, other, labels, label, alpha, offsets, clip):
        loss = clipped(kind, offsets, clip)
        others = np.vstack([other, rows[1:]]), np.append(label, labels[1:])
        solved = solution(rows, labels, loss, alpha) - solution(*others, loss, alpha)
        return float(np.linalg.norm(solved)) * n * alpha / loss.gradient_diameter(1e3, 1.0)

    for t in range(100):
        if t < 60:
            alpha, clip = 10.0 ** rng.uniform(-1, 1), 10.0 ** rng.uniform(-2, 0)
            rows = rng.standard_normal((n, 2)) * 10.0 ** rng.uniform(-3, 3, (n, 1))
            labels = rng.integers(0, SEVERAL[name].n_classes if name in SEVERAL else 2, n) * 1.0
            other, label = -rows[0] * 10.0 ** rng.uniform(-1, 1), labels[0]
            if rng.random() < 0.5:
                other, label = rows[0], 1.0 - min(labels[0], 1.0)
            offsets = rng.uniform(-1, 1, kind.n_outputs)
            pair = rows, other, labels, label, alpha, offsets, clip
        else:
            rows, other, labels, label, alpha, offsets, clip = found
            size = 10.0 ** rng.uniform(-3, 0)
            pair = (
                rows * (1.0 + size * rng.standard_normal(rows.shape)),
                other * (1.0 + size * rng.standard_normal(2)),
                labels, label, alpha * 2.0 ** rng.uniform(-0.3, 1.0),
                offsets + size * rng.standard_normal(len(offsets)),
                clip * 2.0 ** rng.uniform(-1.0, 0.3),
            )  # fmt: skip
        ratio = moved(*pair)
        assert ratio <= 1.0 + 1e-6
        if ratio > best:
            best, found = ratio, pair
    assert best > (0.99 if kind.n_outputs == 1 or name == "classes" else 0.7)
