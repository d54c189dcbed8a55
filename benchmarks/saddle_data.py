"""Saddle problems of the benchmarks whose solutions and gaps can be computed exactly.

Records come from known distributions of bounded support, so that gaps can be taken both over
the records and over their distribution. Domains are unit balls (4 and 3 coordinates), or a ball
and a simplex. Bounds and proportions are public; nothing is scaled or clipped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import expit

from skdp.algorithms import GroupObjective, MaxGroupLossBound
from skdp.problems import (
    Ball,
    Design,
    EmpiricalRisk,
    GroupWeights,
    LogisticLoss,
    MaxGroupLossProblem,
    Records,
    SaddleProblem,
    counted,
)
from tests.support.bilinear_problem import BilinearProblem

DX, DY = 4, 3


@dataclass
class Counter:
    """What a solver has evaluated, in records."""

    limit: float = math.inf
    operators: int = 0
    hessians: int = 0

    def report(self, operators: int) -> None:
        self.operators = operators
        if operators > self.limit:
            raise OutOfWork

    def add_hessian(self, records: int) -> None:
        self.hessians += records


class OutOfWork(Exception):
    """Raised inside a solver that has become too expensive."""


def watched(problem: SaddleProblem, counter: Counter) -> SaddleProblem:
    """The problem with a count of its operators and Hessians."""
    own = counted(problem, counter.report)
    kind: Any = type(own)

    class Watched(kind):
        def hessian_x(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
            counter.add_hessian(self.n_records)
            return super().hessian_x(x, y)

    own.__class__ = Watched
    return own


# --------------------------------------------------------------------------------- bilinear

#: Means of the matrix and of the offsets. "interior": the coupling is strong and the saddle point
#: inside; "boundary": the offsets are strong and it lies on both spheres; "flat": nothing but
#: offsets as large as the privacy noise of their mean, what lower bounds are proven with.
BILINEAR = ("interior", "boundary", "flat")


@dataclass(frozen=True)
class QuadraticForm:
    """``x'Qx/2 + x'Ay + b'x - c'y - y'Ry/2`` on unit balls, Q and R diagonal."""

    A: np.ndarray
    b: np.ndarray
    c: np.ndarray
    Q: np.ndarray
    R: np.ndarray

    def gap(self, x: np.ndarray, y: np.ndarray) -> float:
        """``max over y' of F(x, y') - min over x' of F(x', y)``."""
        high = 0.5 * x @ (self.Q * x) + self.b @ x - least(self.R, self.c - self.A.T @ x)
        low = -0.5 * y @ (self.R * y) - self.c @ y + least(self.Q, self.b + self.A @ y)
        return float(high - low)


def least(diagonal: np.ndarray, slope: np.ndarray) -> float:
    """``min over the unit ball of w' diag w / 2 + slope'w``; diag >= 0."""
    size = float(np.linalg.norm(slope))
    if not diagonal.any() or size == 0:
        return -size

    def point(shift: float) -> np.ndarray:
        return -slope / (diagonal + shift)

    low = 1e-15 * (1.0 + size)
    shift = 0.0
    if np.linalg.norm(point(low)) > 1.0:
        shift = brentq(lambda s: np.linalg.norm(point(s)) - 1.0, low, size, xtol=1e-16, rtol=1e-14)
    w = point(max(shift, low))
    return float(0.5 * w @ (diagonal * w) + slope @ w)


class QuadraticSaddleProblem(BilinearProblem):
    """A :class:`BilinearProblem` with public ``x'Qx/2 - y'Ry/2`` in every record's function.

    The matrices are the same for all records, so the offsets alone tell records apart. Q and R have
    zeros: the functions are strongly convex and concave in some coordinates only.
    """

    Q = np.array([1.0, 0.3, 0.1, 0.0])
    R = np.array([1.0, 0.2, 0.0])
    offers = frozenset()

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        c, bounds = self.constants, arguments[3]
        largest = float(self.Q.max()), float(self.R.max())
        x, y = (
            replace(block, lipschitz=block.lipschitz + curvature, smoothness=curvature)
            for block, curvature in zip((c.x, c.y), largest, strict=True)
        )
        ranges = ((2.0 * bounds[1], 2.0 * bounds[2]),)
        self.constants = replace(c, x=x, y=y, gradient_ranges=ranges)

    def value(self, x: np.ndarray, y: np.ndarray) -> float:
        return super().value(x, y) + 0.5 * float(x @ (self.Q * x) - y @ (self.R * y))

    def data_operator(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        slope_x, slope_y = super().data_operator(x, y)
        return slope_x + self.Q * x, slope_y + self.R * y

    def batch_operator(
        self, rows: slice | np.ndarray, x: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        slope_x, slope_y = super().batch_operator(rows, x, y)
        return slope_x + self.Q * x, slope_y + self.R * y


@dataclass(frozen=True)
class Instance:
    """A problem and the exact loss of utility of a pair."""

    name: str
    problem: SaddleProblem
    forms: tuple[Any, Any]  # of the distribution, of the records
    utility: Any = None
    solver: str = "auto"

    def measures(self, x: np.ndarray, y: np.ndarray | None) -> dict[str, float]:
        """Duality gap (and what else there is) over the distribution and over the records."""
        found = {}
        for over, form in zip(("distribution", "records"), self.forms, strict=True):
            if y is not None:
                found[f"duality gap, {over}"] = form.gap(x, y)
            if isinstance(form, GroupForm):
                found[f"primal excess, {over}"] = form.excess(x)
        return found


def bilinear(name: str, n: int, seed: int = 0, mu: float = 1.0, scale: float = 0.0) -> Instance:
    """`scale`: length of the mean offsets of "flat", also in `QUADRATIC`."""
    rng = np.random.default_rng(seed)
    if name == "flat":  # in pairs of opposite records: the mean is what is wanted, exactly
        half = random_signs(rng, n // 2, DX + DY)
        signs = np.concatenate([half, -half, np.zeros((n % 2, DX + DY))])
        coupling = np.zeros((DX, DY))
        mean = np.concatenate([np.full(DX, scale / 2.0), np.full(DY, scale / math.sqrt(3.0))])
        bounds = (0.0, 1.0, 1.0)
        mean = np.minimum(mean, 0.2)
        spread = 0.25
    else:
        signs = random_signs(rng, n, DX + DY)
        coupling = np.zeros((DX, DY))
        strength, offset = {"interior": (0.4, 0.05), "boundary": (0.02, 0.3)}[name]
        coupling[:DY] = strength * np.diag([1.0, 0.8, 0.6])
        mean = offset * np.array([0.5, -0.5, 0.5, 0.5, 0.6, -0.6, 0.5])
        bounds = (1.0, 1.0, 1.0)
        spread = 0.3
    matrices = np.broadcast_to(coupling, (n, DX, DY)).copy()
    if name != "flat":
        matrices += 0.1 * random_signs(rng, n, DX * DY).reshape(n, DX, DY)
    offsets = mean + spread * signs
    problem = BilinearProblem(
        matrices, offsets[:, :DX], offsets[:, DX:], bounds, Ball(1.0), Ball(1.0), mu, mu
    )
    zero = np.zeros(DX), np.zeros(DY)
    return Instance(
        f"bilinear, {name}",
        problem,
        (
            QuadraticForm(coupling, mean[:DX], mean[DX:], *zero),
            QuadraticForm(problem.mean_matrix, problem.mean_x, problem.mean_y, *zero),
        ),
    )


def quadratic(n: int, seed: int = 0, mu: float = 1.0) -> Instance:
    rng = np.random.default_rng(seed)
    coupling = np.zeros((DX, DY))
    coupling[:DY] = 0.3 * np.diag([1.0, 0.8, 0.6])
    mean = 0.2 * np.array([0.5, -0.5, 0.5, 0.5, 0.6, -0.6, 0.5])
    offsets = mean + 0.3 * random_signs(rng, n, DX + DY)
    matrices = np.broadcast_to(coupling, (n, DX, DY))
    bounds = (0.45, 1.0, 1.0)  # 0.42 is the norm of the coupling
    problem = QuadraticSaddleProblem(
        matrices, offsets[:, :DX], offsets[:, DX:], bounds, Ball(1.0), Ball(1.0), mu, mu
    )
    public = problem.Q, problem.R
    return Instance(
        "quadratic",
        problem,
        (
            QuadraticForm(coupling, mean[:DX], mean[DX:], *public),
            QuadraticForm(coupling, problem.mean_x, problem.mean_y, *public),
        ),
        solver="extragradient",  # its operators are those of means: batches would take longer
    )


def random_signs(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return rng.integers(0, 2, size=(n, d), dtype=np.int8) * 2.0 - 1.0


# ----------------------------------------------------------------------------------- groups

PROPORTIONS = (0.6, 0.3, 0.1)
RADIUS = 5.0


@dataclass(frozen=True)
class GroupForm:
    """Largest group loss, from the shares of the finitely many kinds of records.

    Attributes
    ----------
    signed : ndarray of shape (kinds, d)
        Features times the label, +1 or -1.
    weights : ndarray of shape (groups, kinds)
        c_g times the share of the kind of the group.
    """

    signed: np.ndarray
    weights: np.ndarray

    def losses(self, x: np.ndarray) -> np.ndarray:
        return self.weights @ np.logaddexp(0.0, -self.signed @ x)

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        return -(self.weights * expit(-self.signed @ x)) @ self.signed

    @cached_property
    def least(self) -> float:
        """``min over w of the largest loss``."""
        d = self.signed.shape[1]
        found = minimize(
            lambda v: v[-1],
            np.append(np.zeros(d), 1.0),
            jac=lambda v: np.append(np.zeros(d), 1.0),
            method="SLSQP",
            options={"ftol": 1e-15, "maxiter": 500},
            constraints=[
                {
                    "type": "ineq",
                    "fun": lambda v: v[-1] - self.losses(v[:-1]),
                    "jac": lambda v: np.column_stack(
                        [-self.jacobian(v[:-1]), np.ones(len(self.weights))]
                    ),
                },
                {
                    "type": "ineq",
                    "fun": lambda v: RADIUS**2 - v[:-1] @ v[:-1],
                    "jac": lambda v: np.append(-2.0 * v[:-1], 0.0),
                },
            ],
        )
        return float(self.losses(found.x[:-1]).max())

    def excess(self, x: np.ndarray) -> float:
        return float(self.losses(x).max()) - self.least

    def gap(self, x: np.ndarray, y: np.ndarray) -> float:
        found = minimize(
            lambda w: float(y @ self.losses(w)),
            np.zeros(self.signed.shape[1]),
            jac=lambda w: y @ self.jacobian(w),
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
            constraints=[
                {"type": "ineq", "fun": lambda w: RADIUS**2 - w @ w, "jac": lambda w: -2.0 * w}
            ],
        )
        return float(self.losses(x).max() - found.fun)


def groups(n: int, d: int = 5, seed: int = 0, mu: float = 1.0) -> Instance:
    """Logistic losses of three groups that agree on some features and disagree on others.

    Features are random signs, of norm 1 together: 2^d kinds, with two labels each.
    """
    corners = np.array(np.meshgrid(*[(-1.0, 1.0)] * d, indexing="ij")).reshape(d, -1).T
    kinds = corners / math.sqrt(d)
    coefficients = np.full((3, d), 2.0)
    coefficients[1, d // 2] = -2.0
    coefficients[2, d // 2 :] = -2.0
    ones = expit(coefficients @ kinds.T)  # probability of the label 1, group by kind
    shares = np.array(PROPORTIONS)[:, None] / len(kinds)
    expected = np.concatenate([shares * ones, shares * (1.0 - ones)], axis=1)
    rng = np.random.default_rng(seed)
    group = rng.choice(3, size=n, p=PROPORTIONS)
    kind = rng.integers(len(kinds), size=n)
    label = (rng.random(n) < ones[group, kind]).astype(float)
    cell = kind + len(kinds) * (label == 0)
    observed = np.bincount(group * 2 * len(kinds) + cell, minlength=expected.size) / n
    weights = GroupWeights.of_proportions(PROPORTIONS, 10.0)
    scale = np.array(weights.largest)[:, None]
    signed = np.concatenate([kinds, -kinds])
    rows = Records(kinds[kind], 1.0)
    loss = LogisticLoss()
    problem = MaxGroupLossProblem(rows.with_targets(label, group), loss, weights, RADIUS, mu, mu)
    risk = EmpiricalRisk(loss)
    return Instance(
        "groups",
        problem,
        (
            GroupForm(signed, scale * expected),
            GroupForm(signed, scale * observed.reshape(expected.shape)),
        ),
        MaxGroupLossBound(GroupObjective(risk, Design.of(rows), coef_norm=RADIUS, weights=weights)),
    )
