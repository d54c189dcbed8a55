"""Solutions in extended precision, found without the package's solvers or certificates.

The active constraints are read off a point in double precision; Newton's method on the
optimality conditions of that face, with residuals in extended precision, gives the candidate;
it is accepted only if it is feasible and its multipliers have the right signs, which for a strongly
convex problem proves it.
"""

import numpy as np
import scipy.sparse as sp

from skdp.problems import Ball, Box, Simplex, WholeSpace

LONG = np.longdouble


def bounded_rows(problem):
    """The rows as the problem defines them, in extended precision."""
    rows = problem.records
    X = rows.matrix.toarray() if sp.issparse(rows.matrix) else rows.matrix
    X = np.asarray(X, dtype=LONG)
    if rows.scale is not None:
        X = X * np.asarray(rows.scale, dtype=LONG)[:, None]
    if rows.intercept:
        X = np.column_stack([X, np.full(len(X), LONG(rows.intercept))])
    return X


def gradient(problem, w):
    """Gradient in extended precision."""
    X = bounded_rows(problem)
    k = problem.loss.n_outputs
    margins = X @ w.reshape(k, -1).T
    targets = problem.records.targets
    if k == 1:
        margins = margins[:, 0]
    if targets.dtype.kind == "f":
        targets = targets.astype(LONG)
    residuals = problem.loss.derivative(margins, targets).reshape(len(X), k)
    offset = w if problem.center is None else w - problem.center.astype(LONG)
    return (residuals.T @ X).ravel() / problem.n_public + LONG(problem.alpha) * offset


def face(problem, guess):
    """Columns that span the free directions, and the equality constraints' normals."""
    d, domain = problem.dimension, problem.domain
    if isinstance(domain, Box):
        free = (guess > domain.lower) & (guess < domain.upper)
        return free, np.zeros((0, d))
    if isinstance(domain, Simplex):
        return guess > 1e-12, np.ones((1, d))
    return np.ones(d, dtype=bool), np.zeros((0, d))


def solve(problem, guess, steps=60):
    """The solution in extended precision, from a double-precision guess."""
    domain = problem.domain
    w = np.asarray(guess, dtype=LONG)
    radius = None
    if isinstance(domain, Ball):
        near = float(np.linalg.norm(guess)) > domain.radius * (1 - 1e-9)
        radius = LONG(domain.radius) if near else None
    free, normals = face(problem, np.asarray(guess))
    if len(normals):
        w[~free] = 0
    t = LONG(0)
    if radius is not None:
        t = max(LONG(0), -(gradient(problem, w) @ w) / (w @ w))
    for _ in range(steps):
        g = gradient(problem, w)
        hessian = problem.hessian(w.astype(float))[np.ix_(free, free)]
        if radius is not None:
            inner = np.block(
                [
                    [hessian + float(t) * np.eye(len(w)), w.astype(float)[:, None]],
                    [w.astype(float)[None], np.zeros((1, 1))],
                ]
            )
            residual = np.append(g + t * w, (w @ w - radius**2) / 2)
            step = np.linalg.solve(inner, -residual.astype(float))
            w, t = w + step[:-1], t + step[-1]
        elif len(normals):
            m = int(free.sum())
            ones = np.ones((m, 1))
            inner = np.block([[hessian, ones], [ones.T, np.zeros((1, 1))]])
            residual = np.append(g[free] - g[free].mean(), w.sum() - LONG(1))
            step = np.linalg.solve(inner, -residual.astype(float))
            w[free] += step[:m]
        else:
            step = np.linalg.solve(hessian, -g[free].astype(float))
            w[free] += step
        if np.linalg.norm(step.astype(float)) <= 1e-19 * float(1 + abs(w).max()):
            break
    verify(problem, w, free, radius is not None, t)
    return w


def verify(problem, w, free, on_sphere, t):
    """Raise unless w satisfies the optimality conditions to extended precision."""
    domain, g = problem.domain, gradient(problem, w)
    scale = 1e-17 * (float(abs(g).max()) + problem.smoothness * float(abs(w).max()) + 1e-30)
    if isinstance(domain, WholeSpace):
        assert float(abs(g).max()) <= scale
    elif isinstance(domain, Ball):
        assert float(np.sqrt(w @ w)) <= domain.radius * (1 + 1e-15)
        assert float(abs(g + t * w).max()) <= scale
        assert (float(t) >= 0) if on_sphere else float(t) == 0
    elif isinstance(domain, Box):
        assert float(abs(g[free]).max(initial=0)) <= scale
        assert (w >= domain.lower).all() and (w <= domain.upper).all()
        assert (g[w == domain.lower] >= -scale).all() and (g[w == domain.upper] <= scale).all()
    else:
        multiplier = g[free].mean()
        assert float(abs(g[free] - multiplier).max()) <= 10 * scale
        assert (w >= 0).all()
        assert (g[~free] >= multiplier - 10 * scale).all()
