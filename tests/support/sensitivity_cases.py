"""Records, exact solutions and climbs of the searches for a larger sensitivity."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.optimize import differential_evolution
from scipy.special import expit, logsumexp, softmax

from skdp.problems import HalfSquaredLoss, LogisticLoss, SoftmaxLoss

N_CLASSES = 3
TARGET_BOUND = 2.0
LOSSES = {
    "logistic": LogisticLoss(),
    "ridge": HalfSquaredLoss(TARGET_BOUND),
    "softmax": SoftmaxLoss(N_CLASSES),
}
LABELS = {"logistic": (0.0, 1.0), "ridge": (-TARGET_BOUND, TARGET_BOUND), "softmax": (0, 1, 2)}


def norms(weights):
    """Euclidean norm of each weight matrix of a batch."""
    return np.sqrt((weights.reshape(len(weights), -1) ** 2).sum(axis=1))


def link(kind, margins, targets):
    """Value, slope and curvature of the loss in the margins, shape (batch, n, k)."""
    if kind == "softmax":
        p = softmax(margins, axis=-1)
        own = np.eye(N_CLASSES)[targets.astype(int)]
        value = logsumexp(margins, axis=-1) - (own * margins).sum(axis=-1)
        return value, p - own, p[..., None] * np.eye(N_CLASSES) - p[..., :, None] * p[..., None, :]
    z = margins[..., 0]
    if kind == "ridge":
        return (z - targets) ** 2 / 2, (z - targets)[..., None], np.ones((*z.shape, 1, 1))
    p = expit(z)
    return (
        np.logaddexp(0, z) - targets * z,
        (p - targets)[..., None],
        (p * expit(-z))[..., None, None],
    )


def objective(kind, X, targets, weights, alpha, W):
    """Value, gradient and Hessian of ``sum_i weights_i phi_i(W) + alpha/2 ||W||^2``."""
    batch, k, d = W.shape
    value, slope, curvature = link(kind, X @ W.transpose(0, 2, 1), targets)
    gradient = (weights[..., None] * slope).transpose(0, 2, 1) @ X + alpha[:, None, None] * W
    hessian = np.empty((batch, k, d, k, d))
    for i, j in itertools.product(range(k), repeat=2):
        bend = (weights * curvature[..., i, j])[:, None, :]
        hessian[:, i, :, j] = (X.transpose(0, 2, 1) * bend) @ X
    hessian = hessian.reshape(batch, k * d, k * d)
    hessian[:, range(k * d), range(k * d)] += alpha[:, None]
    return (weights * value).sum(axis=1) + alpha / 2 * norms(W) ** 2, gradient, hessian


def free_minimisers(kind, X, targets, weights, alpha, start):
    """Damped Newton on a batch of problems over the whole space."""
    W, todo = start.copy(), np.arange(len(start))
    target = 2e-15 * (weights * np.sqrt((X**2).sum(axis=2))).sum(axis=1)
    value, gradient, hessian = objective(kind, X, targets, weights, alpha, W)
    for _ in range(60):
        go = norms(gradient) > target[todo] + 1e-300
        if not go.any():
            break
        todo, value, gradient, hessian = todo[go], value[go], gradient[go], hessian[go]
        part = (kind, X[todo], targets[todo], weights[todo], alpha[todo])
        w = W[todo]
        step = -np.linalg.solve(hessian, gradient.reshape(len(todo), -1, 1)).reshape(w.shape)
        slope = (gradient * step).sum(axis=(1, 2))
        for _ in range(30):
            new_value, new_gradient, new_hessian = objective(*part, w + step)
            bad = new_value > value + 1e-4 * slope
            bad &= norms(new_gradient) > 0.5 * norms(gradient)
            if not bad.any():
                break
            step[bad] *= 0.5
            slope[bad] *= 0.5
        W[todo] = w + step
        value, gradient, hessian = new_value, new_gradient, new_hessian
    return W


def exact_solutions(kind, X, targets, weights, alpha, radius):
    """Minimisers over the ball of ``sum_i weights_i phi_i(W) + alpha/2 ||W||^2``, and their errors.

    Parameters: X (batch, n, d), targets and weights (batch, n); a weight 0 removes a record.
    With W on the sphere and t >= 0, ``||grad + t W|| / alpha`` bounds the distance to the
    solution (strong convexity); the second array returned holds that bound.
    """
    batch, _, d = X.shape
    alpha, radius = np.full(batch, alpha, dtype=float), np.full(batch, radius, dtype=float)
    start = np.zeros((batch, N_CLASSES if kind == "softmax" else 1, d))
    W, multiplier = free_minimisers(kind, X, targets, weights, alpha, start), np.zeros(batch)
    active = np.flatnonzero(norms(W) > radius)
    if active.size:
        part = (kind, X[active], targets[active], weights[active])
        a, r, w = alpha[active], radius[active], W[active]
        t, low, high = np.zeros(active.size), np.zeros(active.size), np.full(active.size, np.inf)
        for _ in range(60):  # safeguarded Newton for the t at which the norm is the radius
            excess = norms(w) / r - 1
            if (abs(excess) < 1e-13).all():
                break
            low, high = np.where(excess > 0, t, low), np.where(excess < 0, t, high)
            flat = w.reshape(len(w), -1, 1)
            bend = (flat * np.linalg.solve(objective(*part, a + t, w)[2], flat)).sum(axis=(1, 2))
            trial = t + norms(w) ** 2 / bend * excess
            middle = np.where(np.isinf(high), 2 * t + a, (low + np.minimum(high, 1e300)) / 2)
            t = np.where((trial > low) & (trial < high), trial, middle)
            w = free_minimisers(*part, a + t, w)
        W[active], multiplier[active] = w * (r / norms(w))[:, None, None], t
    gradient = objective(kind, X, targets, weights, alpha + multiplier, W)[1]
    return W, norms(gradient) / alpha


def decode(kind, genes, d, intercept):
    """Genes (batch, n, d + 1) to rows of norm at most 1 with an intercept, and targets."""
    X, label = genes[..., :d], genes[..., d]
    X = X / np.maximum(1.0, np.sqrt((X**2).sum(axis=-1)))[..., None]
    if intercept:
        X = np.concatenate([X, np.full((*X.shape[:2], 1), intercept)], axis=-1)
    if kind == "ridge":
        return X, np.clip(1.2 * label, -1, 1) * TARGET_BOUND
    classes = len(LABELS[kind])
    return X, np.clip((label + 1) / 2 * classes, 0, classes - 1e-9).astype(int)


def evolve(ratio, n_genes, generations=150, seed=0):
    """Largest value of `ratio`, a function of genes (batch, n_genes) in [-1.2, 1.2]."""
    result = differential_evolution(
        lambda genes: -ratio(np.atleast_2d(genes.T)),
        [(-1.2, 1.2)] * n_genes,
        vectorized=True,
        updating="deferred",
        maxiter=generations,
        popsize=12,
        seed=seed,
        tol=1e-8,
        polish=False,
    )
    return -result.fun
