"""Searches for neighbours that move a released quantity of private tuning as far as possible.

Many data sets at once, in whitened coordinates (penalty 1, rows of norm at most U), in plain numpy
and without the package. A data set has a few distinct rows; the first training and the first
validating one count once, as one record, and share the rest of the weight among the others. An
evolution keeps the best data sets and moves their rows and targets at random.
"""

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from skdp.algorithms.plan import Run
from skdp.algorithms.tuning import TuningObjective
from skdp.problems import Records
from skdp.solvers import Newton

NEWTON = Newton()


def exactly(function, data, loss, penalties, alpha, splits, accuracy=1e-11, solver=NEWTON):
    """A number of the exact minimisers, without noise."""
    objective = TuningObjective.of(data, loss, penalties)
    run = Run(solver, np.random.default_rng(0))
    return function(splits.of(data, np.arange(data.n_records)), objective, alpha, accuracy, run)


def records(loss, n=101, seed=0, sparse=False):
    """Rows with an intercept of 0.1, and targets that depend on two of four features."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4)) * 0.6
    z = X[:, 0] - 0.5 * X[:, 2] + 0.3 * rng.standard_normal(n)
    t = np.clip(z, -1, 1) if loss == "squared" else (z > 0).astype(float)
    return Records(sp.csr_array(X) if sparse else X, 1.0, 0.1), t


class DataSets:
    """Genomes of shape (population, ...) and what they mean."""

    def __init__(self, loss, norm, d, n_train, n_validate, n_others=2):
        self.loss, self.norm, self.d = loss, norm, d
        self.n_train, self.n_validate = n_train, n_validate
        self.m = 1 + (n_others if n_train > 1 else 0)
        self.k = 1 + (n_others if n_validate > 1 else 0)
        # one record more: the replacement
        self.size = (self.m + self.k + 1) * (d + 1)

    def weights(self, n, m):
        rest = [(1.0 - 1.0 / n) / (m - 1)] * (m - 1) if m > 1 else []
        return np.array([1.0 / n, *rest])

    def decode(self, genomes):
        """Rows inside the ball, targets in their range."""
        records = genomes.reshape(len(genomes), -1, self.d + 1)
        X, t = records[..., : self.d], records[..., self.d]
        X = X * (self.norm / np.maximum(np.linalg.norm(X, axis=-1, keepdims=True), 1.0))
        t = np.clip(t, -1, 1) if self.loss == "squared" else (t > 0).astype(float)
        return X, t

    def neighbours(self, genomes, role):
        """(train X, t, validate X, t) of both data sets."""
        X, t = self.decode(genomes)
        m, k = self.m, self.k
        first = [X[:, :m], t[:, :m], X[:, m : m + k], t[:, m : m + k]]
        second = [part.copy() for part in first]
        place = 0 if role == "train" else 2
        second[place][:, 0], second[place + 1][:, 0] = X[:, -1], t[:, -1]
        return first, second


def derivatives(loss, margins, t):
    if loss == "squared":
        return margins - t, np.ones_like(margins)
    p = expit(margins)
    return p - t, p * (1 - p)


def values(loss, margins, t):
    if loss == "squared":
        return 0.5 * (margins - t) ** 2
    return np.logaddexp(0, margins) - t * margins


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


def released(what, sets, data):
    """The quantity before noise, shape (population, entries)."""
    X, t, Xv, tv = data
    w, wv = sets.weights(sets.n_train, sets.m), sets.weights(sets.n_validate, sets.k)
    v = minimise(sets.loss, X, t, w)
    if what == "solution":
        return v
    margins = np.einsum("pmd,pd->pm", Xv, v)
    if what == "score":
        return (values(sets.loss, margins, tv) @ wv)[:, None]
    r, _ = derivatives(sets.loss, margins, tv)
    g = np.einsum("m,pm,pmd->pd", wv, r, Xv)
    _, c = derivatives(sets.loss, np.einsum("pmd,pd->pm", X, v), t)
    K = np.einsum("m,pm,pmd,pme->pde", w, c, X, X) + np.eye(sets.d)
    turned = np.linalg.solve(K, g[..., None])[..., 0]
    product = -v * turned
    # one group, or one per coordinate
    return product.sum(axis=1, keepdims=True) if what == "one" else product


def largest_movement(what, sets, role, seed, population=96, generations=60):
    """The largest movement found, and the genome that shows it."""
    rng = np.random.default_rng(seed)
    genomes = rng.standard_normal((6 * population, sets.size))
    genomes *= rng.choice([0.3, 1.0, 3.0], (6 * population, 1))
    best, scale = np.empty((0, sets.size)), 0.5
    for _ in range(generations):
        pool = np.concatenate([best, genomes])
        first, second = sets.neighbours(pool, role)
        moved = released(what, sets, first) - released(what, sets, second)
        moved = np.linalg.norm(moved, axis=1)
        order = np.argsort(-moved)[: population // 6]
        best, record = pool[order], moved[order]
        parents = best[rng.integers(len(best), size=population)]
        change = rng.standard_normal(parents.shape) * (rng.random(parents.shape) < 0.4)
        sizes = scale * 10.0 ** rng.uniform(-2.5, 0.3, (population, 1))
        genomes = parents + sizes * change
    return float(record[0]), best[0]
