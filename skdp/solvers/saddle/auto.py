"""The default: a solver by the public numbers of a problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skdp.solvers.saddle.base import Pair, SaddleSolver
from skdp.solvers.saddle.best_response import BestResponse, is_linear
from skdp.solvers.saddle.extragradient import Extragradient
from skdp.solvers.saddle.lsvre import LSVRE

if TYPE_CHECKING:
    from skdp.problems import SaddleProblem

__all__ = ["Auto", "newton_pays"]

#: Largest number of coordinates of x for which Hessians pay, at a moderate condition number and
#: at one from which other methods take very long.
_MAX_DIMENSION, _MAX_DIMENSION_IF_HARD = 200, 2000
_HARD = 1e5
#: Number of records from which steps with a part of them pay.
_MANY_RECORDS = 30_000


def newton_pays(problem: SaddleProblem) -> bool:
    """Whether Newton's method on the best response can be had at a reasonable price."""
    hard = problem.constants.condition_number > _HARD
    largest = _MAX_DIMENSION_IF_HARD if hard else _MAX_DIMENSION
    small = problem.constants.x.dimension <= largest
    return small and "hessian" in problem.offers and is_linear(problem)


class Auto(SaddleSolver):
    """Newton's method on the best response, else :class:`Extragradient` or :class:`LSVRE`.

    The first needs f to be linear in y, and Hessians, which pay up to some 200 coordinates of x,
    2000 where the public condition number is above 1e5.
    Without Hessians, extragradient steps took about as long as stochastic ones at 1e4 records, and
    twice as long at 1e5. Measured with 5 groups and condition numbers of 50 to 5e4.
    """

    def solve(
        self, problem: SaddleProblem, accuracy: float, start: Pair, rng: np.random.Generator
    ) -> Pair:
        return self.choice(problem).solve(problem, accuracy, start, rng)

    def pass_limit(self, problem: SaddleProblem, accuracy: float) -> float:
        return self.choice(problem).pass_limit(problem, accuracy)

    @staticmethod
    def choice(problem: SaddleProblem) -> SaddleSolver:
        """The solver for `problem`."""
        if newton_pays(problem):
            return BestResponse("newton")
        many = problem.has_batches and problem.n_records >= _MANY_RECORDS
        return LSVRE() if many else Extragradient()
