"""Inverse Hessians from changes of gradients, and guesses of where a moved solution is."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

#: Multiplies a gradient by about the inverse of a Hessian.
Inverse = Callable[[np.ndarray], np.ndarray]


class Secants:
    """The inverse BFGS matrix of some steps, by the two-loop recursion.

    Parameters
    ----------
    first : callable ``gradient -> step``
        The inverse before all corrections, a symmetric matrix with eigenvalues > 0 or nested
        secants. It is scaled by what the last step says.
    memory : int, default=10
        Number of steps that are kept.

    References
    ----------
    J. Nocedal, "Updating quasi-Newton matrices with limited storage", Mathematics of Computation
    35 (1980).
    """

    def __init__(self, first: Inverse, memory: int = 10) -> None:
        self._first, self._scale = first, 1.0
        self._pairs: deque[tuple[np.ndarray, np.ndarray, float]] = deque(maxlen=memory)

    def add(self, step: np.ndarray, change: np.ndarray) -> None:
        """Take in that the gradient changes by `change` along a step; only if it is convex."""
        product, length = float(step @ change), float(change @ self._first(change))
        if product > 0.0 and length > 0.0 and np.isfinite(scale := product / length):
            self._pairs.append((step, change, 1.0 / product))
            self._scale = scale

    def __call__(self, gradient: np.ndarray) -> np.ndarray:
        rest, taken = gradient.copy(), []
        for step, change, weight in reversed(self._pairs):
            taken.append(weight * float(step @ rest))
            rest -= taken[-1] * change
        out = self._scale * self._first(rest)
        for (step, change, weight), share in zip(self._pairs, reversed(taken), strict=True):
            out += (share - weight * float(change @ out)) * step
        return out


class SolutionPath:
    """Minimisers of ``f(w) + (alpha/2) |w - c|^2`` for one f and centers c that follow each other.

    A minimiser moves with its center by ``(H + alpha)^{-1} alpha`` times as much, H the Hessian of
    f on the way; so each one tells of H, and where the next one is. All of it depends on the
    records: it is where solvers start, and leaves no fit.

    Parameters
    ----------
    inverse : callable ``gradient -> step``
        A guess of ``(H + alpha)^{-1}``.

    Attributes
    ----------
    inverse : Secants
        The guess, corrected by the minimisers so far.
    """

    def __init__(self, inverse: Inverse) -> None:
        self.inverse = Secants(inverse)
        self._last: tuple[np.ndarray, np.ndarray] | None = None

    def correct(self, hessian: np.ndarray) -> None:
        """Guess by ``H + alpha`` at a point from now on."""
        inverse = np.linalg.inv(hessian)
        self.inverse = Secants(lambda gradient: np.asarray(inverse @ gradient))

    def start(self, pull: np.ndarray) -> np.ndarray | None:
        """Guess the minimiser for the center ``pull / alpha``; None for the first one."""
        if self._last is None:
            return None
        before, minimiser = self._last
        guess = np.asarray(minimiser + self.inverse(pull - before))
        return guess if np.isfinite(guess).all() else None

    def add(self, pull: np.ndarray, minimiser: np.ndarray) -> None:
        """Take in the minimiser for a center."""
        if self._last is not None:
            self.inverse.add(minimiser - self._last[1], pull - self._last[0])
        self._last = pull, minimiser
