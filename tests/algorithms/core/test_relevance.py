"""Weights of features that show nothing but noise."""

import numpy as np
import pytest

from skdp import DPLogisticRegression, DPRidge
from skdp.algorithms.core import fit
from skdp.algorithms.core.size import Size, relevant

NOISE = 0.01


def shrunk(noisy, size, sampled=0.0):
    return relevant(noisy, size, NOISE, sampled)


def drawn(n_features, n_relevant, k=1, scale=1.0, seed=0):
    """Return true weights and noisy ones, and the size of margins that isotropic rows give them."""
    rng = np.random.default_rng(seed)
    true = scale * rng.standard_normal((k, n_features)) / np.sqrt(n_relevant)
    true[:, n_relevant:] = 0.0
    noisy = true + np.sqrt(NOISE) * rng.standard_normal((k, n_features))
    square = float((noisy**2).sum()) / k
    best = max(square - NOISE * n_features, 0.0) / np.sqrt(square)
    return true, noisy, Size(np.sqrt(square), best, 0.01, NOISE * n_features)


@pytest.mark.parametrize("k", [1, 3])
def test_posterior_means_are_closer_to_sparse_weights(k):
    """With one number on all weights they are at best where the size is; 20 draws."""
    errors, plain, ratios, lengths, signals = [], [], [], [], []
    for seed in range(20):
        true, noisy, size = drawn(200, 10, k, seed=seed)
        found, left = shrunk(noisy, size)
        assert left.deviation == size.deviation
        lengths.append(np.linalg.norm(found) / np.sqrt(k) / left.deviation)
        best = float((true * found).sum() / (found**2).sum())
        before = float((true * noisy).sum() / (noisy**2).sum())
        ratios.append(left.size / best / (size.size / before))
        cosine = (true * found).sum() / np.linalg.norm(true) / np.linalg.norm(found)
        signals.append([1.0 - left.noise / left.deviation**2, cosine**2])
        errors.append(((left.size / left.deviation * found - true) ** 2).sum())
        plain.append(((size.size / size.deviation * noisy - true) ** 2).sum())
    assert np.mean(errors) < 0.55 * np.mean(plain)
    # a size as near the best one as before, and the deviation that is said
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.1)
    assert np.mean(lengths) == pytest.approx(1.0, abs=0.1)
    said, seen = np.mean(signals, axis=0)
    assert 0.8 * seen < said < 1.1 * seen


@pytest.mark.parametrize("n_features", [1, 2, 10, 300])
@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_little_changes_where_weights_have_one_variance(n_features, scale):
    """Directions, and sizes where there is one; ten draws."""
    changes, sizes = [], []
    for seed in range(10):
        _, noisy, size = drawn(n_features, n_features, scale=scale, seed=seed)
        found, left = shrunk(noisy, size)
        changes.append(np.linalg.norm(found - noisy) / np.linalg.norm(noisy))
        sizes.append((left.size - size.size) / max(size.size, 0.3 * size.deviation))
    assert np.mean(changes) < (0.1 if scale == 3.0 else 0.25)
    assert np.abs(sizes).mean() < 0.25


def test_neither_the_order_of_features_nor_the_size_of_numbers_matters():
    _, noisy, size = drawn(50, 5)
    order = np.random.default_rng(1).permutation(50)
    found, left = shrunk(noisy, size)
    other, of_other = shrunk(noisy[:, order], size)
    assert other == pytest.approx(found[:, order], rel=1e-9)
    assert of_other.slopes == pytest.approx(np.asarray(left.slopes)[order], rel=1e-9)
    for unit in (1e-150, 1e-8, 1e8, 1e150):
        found, left = shrunk(unit * noisy, size)
        assert np.isfinite(found).all() and np.isfinite([left.size, left.noise]).all()
        assert np.isfinite(left.slopes).all()


def test_what_the_sample_adds_is_noise():
    _, noisy, size = drawn(200, 10)
    plain, _ = relevant(noisy, size, NOISE + 0.005, 0.0)
    assert shrunk(noisy, size, 0.005)[0] == pytest.approx(plain)
    assert plain != pytest.approx(shrunk(noisy, size)[0])


def test_what_the_sample_adds_to_a_fit(monkeypatch):
    """A fifth of the variance of least squares, for rows that vary alike in all directions."""
    given = []

    def kept(weights, size, noise, sampled):
        given.append(sampled)
        return weights, size

    monkeypatch.setattr(fit, "relevant", kept)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 10))
    y = X @ np.full(10, 0.25) + 0.6 * rng.standard_normal(2000)
    DPRidge(300.0, 1e-6, data_norm=6.0, target_range=(-4, 4), random_state=0).fit(X, y)
    unexplained = 0.36 / y.var()
    assert given == [pytest.approx(0.2 * unexplained * 10 / 2000, rel=0.4)]


def test_slopes_are_derivatives():
    """Given how many features matter, by a difference in one weight; outputs are one."""
    _, noisy, size = drawn(400, 20)
    found, left = shrunk(noisy, size)
    for j in (0, 3, 300):
        moved = noisy.copy()
        moved[0, j] += 1e-4
        change = shrunk(moved, size)[0][0, j] - found[0, j]
        assert left.slopes[j] == pytest.approx(change / 1e-4, rel=0.1, abs=0.01)


def records(n_useless, seed, n=4000):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (2 * n, 5 + n_useless))
    signal = X[:, :5] @ np.array([1.0, -1.0, 0.7, 0.5, -0.6])
    signal /= signal.std()
    labels = (rng.random(2 * n) < 1.0 / (1.0 + np.exp(-2.0 * signal))).astype(int)
    return X, signal + 0.6 * rng.standard_normal(2 * n), labels, n


@pytest.mark.parametrize("model", ["ridge", "logistic"])
@pytest.mark.parametrize(("n_useless", "gained"), [(0, False), (100, True)])
def test_fits_with_features_that_do_not_matter(model, n_useless, gained, monkeypatch):
    """A fit with the rule and without it, on the same noise; two tables."""
    scores = []
    for rule in (relevant, lambda weights, size, *_: (weights, size)):
        monkeypatch.setattr(fit, "relevant", rule)
        found = []
        for seed in range(2):
            X, y, labels, n = records(n_useless, seed)
            given = {"data_norm": 1.1 * np.sqrt(X.shape[1] / 3.0), "random_state": seed}
            if model == "ridge":
                fitted = DPRidge(0.7, 1e-6, target_range=(-4, 4), **given).fit(X[:n], y[:n])
                found.append(fitted.score(X[n:], y[n:]))
            else:
                fitted = DPLogisticRegression(0.7, 1e-6, classes=[0, 1], **given)
                chances = fitted.fit(X[:n], labels[:n]).predict_proba(X[n:])
                found.append(np.log(chances[np.arange(n), labels[n:]]).mean())
        scores.append(np.mean(found))
    gain = scores[0] - scores[1]
    assert gain > 0.03 if gained else abs(gain) < 0.003
