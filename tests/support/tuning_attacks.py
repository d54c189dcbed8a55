"""Searches for neighbours that move the solution of a private fit as far as possible.

Many data sets at once, in whitened coordinates (penalty 1, rows of norm at most U), in plain numpy
and without the package. A data set has a few distinct rows; the first one counts once, as one
record, and the others share the rest of the weight. An evolution keeps the best data sets and moves
their rows and targets at random.
"""

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from skdp.problems import Records


def records(loss, n=101, seed=0, sparse=False):
    """Rows with an intercept of 0.1, and targets that depend on two of four features."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4)) * 0.6
    z = X[:, 0] - 0.5 * X[:, 2] + 0.3 * rng.standard_normal(n)
    t = np.clip(z, -1, 1) if loss == "squared" else (z > 0).astype(float)
    return Records(sp.csr_array(X) if sparse else X, 1.0, 0.1), t


class DataSets:
    """Genomes of shape (population, size) and what they mean."""

    def __init__(self, loss, norm, d, n, n_others=2):
        self.loss, self.norm, self.d = loss, norm, d
        self.m = 1 + (n_others if n > 1 else 0)
        self.size = (self.m + 1) * (d + 1)  # one record more: the replacement
        self.weights = np.array([1.0 / n, *[(1.0 - 1.0 / n) / n_others] * (self.m - 1)])

    def neighbours(self, genomes):
        """Rows inside the ball and targets in their range, of both data sets."""
        records = genomes.reshape(len(genomes), -1, self.d + 1)
        X, t = records[..., : self.d], records[..., self.d]
        X = X * (self.norm / np.maximum(np.linalg.norm(X, axis=-1, keepdims=True), 1.0))
        t = np.clip(t, -1, 1) if self.loss == "squared" else (t > 0).astype(float)
        first = [X[:, : self.m], t[:, : self.m]]
        second = [part.copy() for part in first]
        second[0][:, 0], second[1][:, 0] = X[:, -1], t[:, -1]
        return first, second


def derivatives(loss, margins, t):
    if loss == "squared":
        return margins - t, np.ones_like(margins)
    p = expit(margins)
    return p - t, p * (1 - p)


def minimise(loss, X, t, w):
    """Minimiser of the penalised mean loss, by Newton's method."""
    p, d = len(X), X.shape[-1]
    v = np.zeros((p, d))
    for _ in range(1 if loss == "squared" else 25):
        r, c = derivatives(loss, np.einsum("pmd,pd->pm", X, v), t)
        g = np.einsum("m,pm,pmd->pd", w, r, X) + v
        H = np.einsum("m,pm,pmd,pme->pde", w, c, X, X) + np.eye(d)
        step = np.linalg.solve(H, g[..., None])[..., 0]
        # self-concordance keeps this short of overshooting for the moderate norms in use
        scale = np.abs(np.einsum("pmd,pd->pm", X, step)).max(axis=1, initial=1e-9)
        v = v - step * (np.minimum(1.0, 2.0 / scale)[:, None] if loss != "squared" else 1.0)
    return v


def largest_movement(sets, seed, population=96, generations=60):
    """The largest movement of a solution that is found."""
    rng = np.random.default_rng(seed)
    genomes = rng.standard_normal((6 * population, sets.size))
    genomes *= rng.choice([0.3, 1.0, 3.0], (6 * population, 1))
    best, scale = np.empty((0, sets.size)), 0.5
    for _ in range(generations):
        pool = np.concatenate([best, genomes])
        ends = (minimise(sets.loss, *data, sets.weights) for data in sets.neighbours(pool))
        moved = np.linalg.norm(np.subtract(*ends), axis=1)
        order = np.argsort(-moved)[: population // 6]
        best, record = pool[order], moved[order]
        parents = best[rng.integers(len(best), size=population)]
        change = rng.standard_normal(parents.shape) * (rng.random(parents.shape) < 0.4)
        sizes = scale * 10.0 ** rng.uniform(-2.5, 0.3, (population, 1))
        genomes = parents + sizes * change
    return float(record[0])
