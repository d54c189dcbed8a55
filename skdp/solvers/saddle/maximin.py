"""Accelerated ascent in y over accelerated descent in x (Maximin-AG2)."""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator

from skdp.problems import SaddleProblem
from skdp.problems.domains import euclidean_norm
from skdp.problems.saddle import Pair
from skdp.solvers.base import SaddleSolver
from skdp.solvers.certificates import certify_saddle

#: Error of the best x over what the certificate has to be, in the norm of the moduli.
_INNER = 0.1
#: Most steps in x for one in y.
_STEPS = 1000


class MaximinAG2(SaddleSolver):
    """Nesterov's ascent on ``min over x of f(x, y)``, whose x is found by his descent.

    Algorithm 2 of Lin, Jin and Jordan (2020); :class:`Catalyst` around it is their Minimax-APPA,
    which Lowy and Razaviyayn (2021) name for adversarial training: ``Catalyst("maximin_ag2")``.
    The function of y has the smoothness ``beta_y + c^2 / mu_x``, c the coupling. The best x is
    found to a tenth of the accuracy, in the norm of the moduli and as an error of the gradient in
    y. It stops at the certificate, not after the published number of steps, and gives up after
    `max_passes` over the records.
    """

    def __init__(self, max_passes: float = 100_000.0) -> None:
        self.max_passes = max_passes

    def _solve(self, problem: SaddleProblem, accuracy: float, start: Pair, rng: Generator) -> Pair:
        c = problem.constants
        mu_x, mu_y = c.moduli
        steepest = c.y.smoothness + mu_y + c.coupling**2 / mu_x
        root = math.sqrt(mu_y / steepest)
        momentum = (1.0 - root) / (1.0 + root)
        inner = _INNER * accuracy / max(math.sqrt(mu_x), c.coupling / math.sqrt(mu_y))
        (x, y), spent = start, 0.0
        before = y
        while spent < self.max_passes:
            ahead = problem.project(x, y + momentum * (y - before))[1]
            x, steps = self._descent(problem, x, ahead, inner)
            ascent = -problem.operator(x, ahead)[1]
            before, y = y, problem.project(x, ahead + ascent / steepest)[1]
            spent += steps + 2.0
            # the certificate is worth its price once y hardly moves
            if steepest * euclidean_norm(y - ahead) <= accuracy * math.sqrt(mu_y):
                x, steps = self._descent(problem, x, y, inner)
                spent += steps + 2.0
                if certify_saddle(problem, x, y).distance <= accuracy:
                    break
        return x, y

    @staticmethod
    def _descent(
        problem: SaddleProblem, x: np.ndarray, y: np.ndarray, error: float
    ) -> tuple[np.ndarray, int]:
        """Return the best x for y to an error, and the number of steps."""
        mu = problem.constants.moduli[0]
        steepest = problem.constants.x.smoothness + mu
        root = math.sqrt(mu / steepest)
        momentum, before = (1.0 - root) / (1.0 + root), x
        for steps in range(1, _STEPS + 1):
            ahead = x + momentum * (x - before)
            after = problem.project(ahead - problem.operator(ahead, y)[0] / steepest, y)[0]
            before, x = x, after
            # a point after a step of length s is within 2 s (beta + mu) / mu of the minimiser
            if 2.0 * steepest * euclidean_norm(after - ahead) <= error * mu:
                return x, steps
        return x, _STEPS

    def pass_limit(self, problem: SaddleProblem, accuracy: float) -> float:
        return self.max_passes + 2.0 * _STEPS
