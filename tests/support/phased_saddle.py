"""Saddle problems, plans and runs of phased saddle output perturbation."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from plain_noise import Silent
from saddle_problems import changed

from skdp.algorithms import (
    Run,
    phased_saddle_output_perturbation,
    plan_phased_saddle_output_perturbation,
)
from skdp.privacy import PrivacyBudget
from skdp.problems import (
    Ball,
    BilinearProblem,
    BlockConstants,
    GroupWeights,
    LogisticLoss,
    MaxGroupLossProblem,
    Records,
    SaddleConstants,
    Simplex,
)
from skdp.solvers import SaddleSolver

#: The reference case: L = 1 jointly, D = 1.
UNIT = SaddleConstants(
    1000, BlockConstants(10, 1.0, 0.8, radius=1.0), BlockConstants(10, 1.0, 0.6, radius=1.0)
)
BUDGET = PrivacyBudget(0.5, 1e-5)
ACCURACY_FRACTION = 1e-3


@dataclasses.dataclass(frozen=True)
class Weakest:
    """Likes regularisers of a given small alpha."""

    alpha: float

    def __call__(self, phases):
        wanted = (phases[0].regularisation, phases[0].other_regularisation)
        return sum(abs(math.log(alpha / self.alpha)) for alpha in wanted)


class Curved(BilinearProblem):
    """Every record's function has ``(own_x/2) ||x||^2 - (own_y/2) ||y||^2`` of its own."""

    offers = frozenset()

    def __init__(self, *args, own):
        super().__init__(*args)
        self.own = own
        c = self.constants
        constants = changed(
            c, x_modulus=own[0] + self.alpha_x, y_modulus=own[1] + self.alpha_y,
            x_lipschitz=c.x.lipschitz + own[0] * c.x.radius,
            y_lipschitz=c.y.lipschitz + own[1] * c.y.radius, x_smoothness=own[0],
            y_smoothness=own[1], gradient_ranges=((2 * c.x.lipschitz, 2 * c.y.lipschitz),),
        )  # fmt: skip
        super(BilinearProblem, self).__init__(
            self.domain_x, self.domain_y, constants, None, None, self.alpha_x, self.alpha_y
        )

    def value(self, x, y):
        return super().value(x, y) + 0.5 * float(self.own[0] * (x @ x) - self.own[1] * (y @ y))

    def data_operator(self, x, y):
        slope_x, slope_y = super().data_operator(x, y)
        return slope_x + self.own[0] * x, slope_y + self.own[1] * y

    def batch_operator(self, rows, x, y):
        slope_x, slope_y = super().batch_operator(rows, x, y)
        return slope_x + self.own[0] * x, slope_y + self.own[1] * y


def spying(function):
    """A solver object that calls a function of a test, which may keep what it sees."""

    class Spy(SaddleSolver):
        def _solve(self, problem, accuracy, start, rng):
            return function(problem, accuracy)

    return Spy()


def problem_of(n=600, seed=0, dims=(3, 2), domains=None, bounds=(0.5, 1.0, 1.0), **kwargs):
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=shape) for shape in ((n, *dims), (n, dims[0]), (n, dims[1]))]
    domains = domains or (Ball(2.0), Simplex(dims[1]))
    own = kwargs.pop("own", None)
    arguments = (*parts, bounds, *domains, 1.0, 1.0)
    if own is not None:
        return Curved(*arguments, own=own)
    return BilinearProblem(*arguments, **kwargs)


def group_problem(n=900, seed=0, public=False, loss=None, block_size=None):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) / np.sqrt(3)
    groups = rng.choice(3, n, p=[0.7, 0.2, 0.1])
    targets = (X[:, 0] + 0.5 * (groups == 2) * X[:, 1] + 0.1 * rng.standard_normal(n) > 0) * 1.0
    rows = Records(X, 1.0)
    if block_size:
        rows.block_size = block_size
    weights = GroupWeights.of_proportions((0.7, 0.2, 0.1), 4.0, public_groups=public)
    return MaxGroupLossProblem(
        rows.with_targets(targets, groups), loss or LogisticLoss(), weights, 2.0, 1.0, 1.0
    )


def plan_of(problem, budget=BUDGET, **kwargs):
    return plan_phased_saddle_output_perturbation(
        problem.constants, budget, record_moduli=problem.record_moduli, **kwargs
    )


def run(problem, budget=BUDGET, seed=3, solver="auto", noise=None, **kwargs):
    how = Run(
        solver,
        np.random.default_rng(seed),
        Silent(np.random.default_rng(seed).bytes) if noise is None else noise,
    )
    return phased_saddle_output_perturbation(problem, budget, run=how, **kwargs)


TABLE = SaddleConstants(10**5, *(BlockConstants(20, 1.0, 2**-0.5, radius=1.0) for _ in range(2)))
TABLE_BUDGET = PrivacyBudget(1.0, 1e-5**1.1)
