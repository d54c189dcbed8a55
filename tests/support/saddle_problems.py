"""Saddle problems with known solutions, and one whose functions are not bilinear.

The bilinear ones have dyadic numbers and solutions that were chosen first: the linear parts that
make them so are computed without rounding, so the solutions are exact.
"""

import dataclasses
import functools
import math

import numpy as np

from skdp.problems import Ball, BilinearProblem, Simplex, WholeSpace
from skdp.problems.saddle import BlockConstants, SaddleConstants, SaddleProblem

#: Domain, solution and a normal vector there, of x in two and of y in three dimensions.
X_PLACES = {
    "interior": (Ball(1.25), [0.25, -0.375], [0.0, 0.0]),
    "sphere": (Ball(1.25), [0.75, 1.0], [0.375, 0.5]),
    "space": (WholeSpace(), [2.0, -3.0], [0.0, 0.0]),
}
Y_PLACES = {
    "face": (Simplex(3), [0.5, 0.25, 0.25], [0.0, 0.0, 0.0]),
    "edge": (Simplex(3), [0.5, 0.5, 0.0], [0.25, 0.25, -0.5]),
    "vertex": (Simplex(3), [1.0, 0.0, 0.0], [0.5, -0.25, 0.25]),
    "sphere": (Ball(2.25), [1.0, -2.0, 0.25], [0.5, -1.0, 0.125]),
}


@functools.cache
def chosen(place, mu_x=1.0, mu_y=1.0, n=4, size=1.0):
    """A problem with the solution of `place`, and that solution."""
    rng = np.random.default_rng(n)
    (domain_x, x, normal_x), (domain_y, y, normal_y) = X_PLACES[place[0]], Y_PLACES[place[1]]
    x, y = np.array(x), np.array(y)
    mean = rng.integers(-8, 9, size=(2, 3)) / 16 * size
    half = rng.integers(-8, 9, size=(n // 2, 2, 3)) / 16 * size
    matrices = mean + np.concatenate([half, -half])
    linear_x = -np.array(normal_x) - mu_x * x - mean @ y
    linear_y = x @ mean - mu_y * y - np.array(normal_y)
    bounds = (4.0 * size, 8.0 + 8.0 * mu_x, 8.0 + 8.0 * mu_y)
    problem = BilinearProblem(
        matrices, np.tile(linear_x, (n, 1)), np.tile(linear_y, (n, 1)), bounds,
        domain_x, domain_y, mu_x, mu_y,
    )  # fmt: skip
    assert np.array_equal(problem.mean_matrix, mean)  # nothing was scaled
    assert np.array_equal(problem.mean_x, linear_x) and np.array_equal(problem.mean_y, linear_y)
    return problem, (x, y)


def changed(constants, **changes):
    """Saddle constants with other values; ``x_lipschitz`` is the Lipschitz constant of x."""
    blocks = {"x": {}, "y": {}}
    for name in list(changes):
        if name[:2] in ("x_", "y_"):
            blocks[name[0]][name[2:]] = changes.pop(name)
    parts = {
        name: dataclasses.replace(getattr(constants, name), **fields)
        for name, fields in blocks.items()
    }
    return dataclasses.replace(constants, **parts, **changes)


def distance(problem, x, y, exact):
    away_x = np.linalg.norm(x.astype(np.longdouble) - exact[0])
    away_y = np.linalg.norm(y.astype(np.longdouble) - exact[1])
    return problem.constants.norm(float(away_x), float(away_y))


class ConcaveRecords(BilinearProblem):
    """Every record has ``-(1/2) ||y||^2`` of its own, and y no regulariser."""

    def __init__(self, problem):
        vars(self).update(vars(problem.for_solver()))
        c = problem.constants
        self.constants = changed(
            c, y_modulus=1.0, y_smoothness=1.0, y_lipschitz=c.y.lipschitz + c.y.radius
        )
        self.alpha_y = 0.0

    def value(self, x, y):
        return super().value(x, y) - 0.5 * y @ y

    def data_operator(self, x, y):
        slope_x, slope_y = super().data_operator(x, y)
        return slope_x, slope_y + y

    def batch_operator(self, rows, x, y):
        slope_x, slope_y = super().batch_operator(rows, x, y)
        return slope_x, slope_y + y


class GroupLogistic(SaddleProblem):
    """``f(w, p; i) = (p_g / share) log(1 + exp(-t <a, w>))`` for record i = (a, t, group g).

    The worst of the groups' mean losses, where every group has the same share of the records.
    Rows have norms of at most 1.
    """

    offers = frozenset({"hessian"})

    def __init__(self, rows, signs, groups, n_groups, radius, mu_x, mu_y):
        self.records = rows * signs[:, None]
        self.groups, self.weight = groups, float(n_groups)
        (n, d), largest = rows.shape, math.log1p(math.exp(radius))
        domain_x, domain_y = Ball(radius), Simplex(n_groups)
        center = domain_y.center(n_groups)
        constants = SaddleConstants(
            n_records=n,
            x=BlockConstants.on(
                domain_x, d, modulus=mu_x, lipschitz=self.weight, smoothness=0.25 * self.weight
            ),
            y=BlockConstants.on(
                domain_y, n_groups, center, modulus=mu_y, lipschitz=self.weight * largest
            ),
            coupling=self.weight,
            summation_chain=1000,
        )
        super().__init__(domain_x, domain_y, constants, center_y=center)

    @classmethod
    def random(cls, n, d, n_groups, mu_x, mu_y, radius=2.0, seed=0):
        """Groups whose labels follow different directions."""
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(n, d))
        groups = rng.integers(0, n_groups, size=n)
        directions = rng.normal(size=d) + rng.normal(size=(n_groups, d))
        noise = rng.logistic(size=n)
        signs = np.sign(np.einsum("ij,ij->i", rows, directions[groups]) + noise)
        rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1))[:, None]
        return cls(rows, signs, groups, n_groups, radius, mu_x, mu_y)

    def _parts(self, part, x, y):
        rows, groups, n = self.records[part], self.groups[part], self.constants.y.dimension
        margins = rows @ x
        losses = np.bincount(groups, np.logaddexp(0.0, -margins), n)
        slopes = -self.weight * y[groups] / (1.0 + np.exp(margins))
        return rows.T @ slopes / len(rows), -losses * (self.weight / len(rows))

    def data_operator(self, x, y):
        return self._parts(slice(None), x, y)

    def batch_operator(self, rows, x, y):
        return self._parts(rows, x, y)

    def value(self, x, y):
        return float(-self._parts(slice(None), x, y)[1] @ y) + self.regulariser(x, y)

    def hessian_x(self, x, y):
        p = 1.0 / (1.0 + np.exp(-self.records @ x))
        weights = self.weight * y[self.groups] * p * (1.0 - p)
        return (self.records.T * weights) @ self.records / self.n_records

    def cross_derivative(self, x):
        slopes = -self.weight / (1.0 + np.exp(self.records @ x)) / self.n_records
        return np.stack(
            [
                np.bincount(self.groups, slopes * column, self.constants.y.dimension)
                for column in self.records.T
            ],
            axis=1,
        )
