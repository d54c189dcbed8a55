"""Matrix sensing: private second-order points, the instance of Xu et al. (2026), section 5.

``min over U, V of max over y of (1/n) sum_i y_i (<A_i, U V'> - b_i) - y_i^2 / 2``, with p = q = 20,
rank 3, n = 400, so that ``Phi = (1 / 2n) sum_i (<A_i, U V'> - b_i)^2``; x = 0 is a strict saddle.
The targets are scaled to a Frobenius norm of 20. All runs are (epsilon, 1e-6)-private under
replace-one neighbours, by the accounting of the package, unless the row says "paper's noise". Rows,
settings and what the paper leaves out: benchmarks/README.md. `wide` has n = 5,000, p = q = 6.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skdp.algorithms import RGDASettings, Run, plan_dp_rgda
from skdp.mechanisms import NoiseSource
from skdp.privacy import PrivacyBudget
from skdp.problems import MinimaxProblem, NullControl, RecordGradients
from skdp.problems.minimax import BlockName, Point, clip_factors

DELTA = 1e-6
EPSILONS = (0.5, 2.0, 8.0)
#: Table 2 of the paper: Phi, norm of its gradient, least eigenvalue of its Hessian.
TABLE_2 = {
    "DP-RGDA (paper)": (0.9119, 0.4251, -4.8504e-2),
    "Sto-SPIDER (paper)": (13.7046, 3.4505, -2.1862e-1),
    "Ada-DP-SPIDER (paper)": (8.0751, 2.2753, -1.4378e-1),
    "PrivateDiff (paper)": (0.6546, 0.3344, -4.3622e-2),
}
#: The multiplier on 2 C / B that advanced composition of the paper's appendix D gives.
PAPER_MULTIPLIER = 1243.8


@dataclass(frozen=True)
class Instance:
    """Measurements, and where a search starts."""

    A: np.ndarray
    b: np.ndarray
    U: np.ndarray
    V: np.ndarray

    @property
    def start(self) -> np.ndarray:
        return np.concatenate([self.U.ravel(), self.V.ravel()])

    def factors(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        U, V = np.split(x, [self.U.size])
        return U.reshape(self.U.shape), V.reshape(self.V.shape)

    def residuals(self, x: np.ndarray, rows: slice | np.ndarray = slice(None)) -> np.ndarray:
        U, V = self.factors(x)
        A = self.A[rows]
        return A.reshape(len(A), -1) @ (U @ V.T).ravel() - self.b[rows]

    def jacobian(self, x: np.ndarray, rows: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Return the derivatives of the residuals, shape (m, dimension)."""
        U, V = self.factors(x)
        A = self.A[rows]
        left, right = A @ V, A.transpose(0, 2, 1) @ U
        return np.hstack([left.reshape(len(A), -1), right.reshape(len(A), -1)])

    def value(self, x: np.ndarray) -> float:
        return float(0.5 * np.mean(self.residuals(x) ** 2))

    def gradient(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(self.residuals(x) @ self.jacobian(x)) / len(self.b)

    def hessian(self, x: np.ndarray) -> np.ndarray:
        J = self.jacobian(x)
        H = J.T @ J / len(self.b)
        mean = np.tensordot(self.residuals(x), self.A, 1) / len(self.b)
        cross = np.kron(mean, np.eye(self.U.shape[1]))
        H[: self.U.size, self.U.size :] += cross
        H[self.U.size :, : self.U.size] += cross.T
        return H

    def diagnostics(self, x: np.ndarray) -> dict[str, float]:
        """Not private."""
        return {
            "phi": self.value(x),
            "gradient": float(np.linalg.norm(self.gradient(x))),
            "curvature": float(np.linalg.eigvalsh(self.hessian(x))[0]),
        }


def instance(
    seed: int = 0, norm: float | None = None, n: int = 400, p: int = 20, rank: int = 3
) -> Instance:
    """Make the instance of the paper; `norm` is that of X*, None: unscaled."""
    g = np.random.default_rng(seed)
    A = g.normal(0.0, 1.0 / p, (n, p, p))
    X = g.normal(size=(p, rank)) @ g.normal(size=(p, rank)).T
    if norm is not None:
        X *= norm / np.linalg.norm(X)
    b = A.reshape(n, -1) @ X.ravel() + 0.01 * g.normal(size=n)
    return Instance(A, b, 0.1 * g.normal(size=(p, rank)), 0.1 * g.normal(size=(p, rank)))


def value_problem(made: Instance) -> MinimaxProblem:
    """Return Phi: each record solves for its own y."""

    def gradients(block: str, point: Any, rows: np.ndarray) -> np.ndarray:
        x = point[0]
        return np.asarray(made.residuals(x, rows)[:, None] * made.jacobian(x, rows))

    return RecordGradients(len(made.b), made.start.size, 0, gradients)


class SharedDual(MinimaxProblem):
    """The problem of the paper: y has a coordinate per record.

    As printed: the gradient in y is divided by n, and an inner step of 0.8 goes 0.8 / n of the way.
    """

    def __init__(self, made: Instance) -> None:
        self.made, self.n_records = made, len(made.b)
        self.dimension_x, self.dimension_y = made.start.size, len(made.b)

    def public_gradient(self, point: Point) -> Point:
        return np.zeros(self.dimension_x), -point[1] / self.n_records

    def clipped_sum(
        self,
        block: BlockName,
        point: Point,
        anchor: Point | None,
        limit: float,
        batch: np.ndarray | None,
    ) -> np.ndarray:
        # a record has one coordinate of y: its gradient is (y_i J_i, r_i e_i)
        total, own = np.zeros(self.dimension_x), np.zeros(self.n_records)
        for rows in self.batches(batch):
            first, second = self._parts(point, rows)
            if anchor is not None:
                before = self._parts(anchor, rows)
                first, second = first - before[0], second - before[1]
            factors = clip_factors(np.hypot(np.linalg.norm(first, axis=1), second), limit)
            total += factors @ np.nan_to_num(first)
            own[rows] = factors * np.nan_to_num(second)
        return np.concatenate([total, own])

    def _parts(self, point: Point, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x, y = point
        return y[rows][:, None] * self.made.jacobian(x, rows), self.made.residuals(x, rows)


#: Grids of equal size per method: fixed options, and lists to choose from. `step_size_y` is in
#: units of n.
GRIDS: dict[str, tuple[str, dict[str, Any], dict[str, list[Any]]]] = {
    "DP-GD on Phi": (
        "value", {"normalise": False},
        {"n_steps": [40], "clip": [0.1, 0.3], "step_size": [5.0, 20.0, 60.0]},
    ),
    "DP-SGDA, shared dual": (
        "shared", {"normalise": False, "step_size_y": 0.8},
        {"n_steps": [40], "clip": [0.3, 1.0], "step_size": [0.2, 1.0, 5.0]},
    ),
    "DP-SGDA, y within the record": (
        "value", {"normalise": False, "sampling_rate": 0.25},
        {"n_steps": [100], "clip": [0.1, 0.3], "step_size": [2.0, 8.0, 24.0]},
    ),
    "DP-RGDA, shared dual": (
        "shared", {"normalise": True, "step_size_y": 0.8, "inner_steps": 2, "period": 10},
        {"n_steps": [40], "clip": [0.3, 1.0], "step_size": [0.01, 0.05, 0.2]},
    ),
    "DP-RGDA on Phi": (
        "value", {"normalise": True, "period": 4, "noise_ratio": 0.7},
        {"n_steps": [40], "clip": [0.1], "step_size": [0.1, 0.3, 0.6], "smoothness": [0.1, 0.5]},
    ),
    "DP-RGDA on Phi, no differences": (
        "value", {"normalise": True},
        {"n_steps": [40], "clip": [0.1, 0.3], "step_size": [0.1, 0.3, 0.6]},
    ),
    "DP-SPIDER on Phi": (
        "value", {"normalise": False, "period": 4, "noise_ratio": 0.7, "smoothness": 1e6},
        {"n_steps": [40], "clip": [0.1, 0.3], "step_size": [0.3, 2.0, 10.0]},
    ),
    "Sto-SPIDER on Phi": (
        "value",
        {"normalise": False, "period": 4, "drift": 0.3, "noise_ratio": 0.7, "smoothness": 1e6},
        {"n_steps": [40], "clip": [0.1, 0.3], "step_size": [0.3, 2.0, 10.0]},
    ),
    "Ada-DP-SPIDER on Phi": (
        "value", {"normalise": False, "period": 4, "drift": 0.3, "noise_ratio": 0.7},
        {"n_steps": [40], "clip": [0.1], "step_size": [0.3, 2.0, 10.0], "smoothness": [0.02, 0.1]},
    ),
    "PrivateDiff on Phi": (
        "value", {"normalise": False, "period": 4, "noise_ratio": 0.7},
        {"n_steps": [40], "clip": [0.1], "step_size": [0.3, 2.0, 10.0], "smoothness": [0.02, 0.1]},
    ),
    "PrivateDiff, shared dual": (
        "shared", {"normalise": False, "step_size_y": 0.8, "inner_steps": 2, "period": 10},
        {"n_steps": [40], "clip": [0.3, 1.0], "step_size": [0.2, 1.0, 5.0]},
    ),
}  # fmt: skip
#: Options that the cost depends on.
SCHEDULE = ("n_steps", "period", "drift", "inner_steps", "noise_ratio")
SCHEDULE += ("sampling_rate", "sampling_rate_difference")
PROBLEMS = {"value": value_problem, "shared": SharedDual}


def settings(name: str, n: int) -> Iterator[dict[str, Any]]:
    _, fixed, choices = GRIDS[name]
    if "step_size_y" in fixed:
        fixed = fixed | {"step_size_y": fixed["step_size_y"] * n}
    for values in itertools.product(*choices.values()):
        yield fixed | dict(zip(choices, values, strict=True))


@functools.cache
def multiplier(epsilon: float, **schedule: Any) -> float:
    """Calibrate the noise of a schedule of queries."""
    plan = plan_dp_rgda(
        PrivacyBudget(epsilon, DELTA), settings=RGDASettings(**schedule), n_public=1, dimension_x=1,
        dimension_y=0,
    )  # fmt: skip
    return plan.ledger.refresh.noise_multiplier


def search(
    made: Instance, problem: MinimaxProblem, epsilon: float | None, seed: int, **options: Any
) -> np.ndarray:
    noise_multiplier = options.pop("noise_multiplier", None)
    if epsilon is not None:
        schedule = {key: options[key] for key in SCHEDULE if key in options}
        noise_multiplier = multiplier(epsilon, **schedule)
    plan = plan_dp_rgda(
        settings=RGDASettings(**options),
        noise_multiplier=noise_multiplier,
        n_public=problem.n_records,
        dimension_x=problem.dimension_x,
        dimension_y=problem.dimension_y,
    )
    rng = np.random.default_rng([seed, 7])
    run = Run(rng=np.random.default_rng(seed), noise=NoiseSource(rng.bytes))
    return np.asarray(plan.run(problem, run, (made.start, np.zeros(problem.dimension_y))).last_x)


def chosen(name: str, epsilon: float, shape: dict[str, Any]) -> dict[str, Any]:
    """Return the options with the least Phi on another instance."""
    made = instance(101, **shape)
    problem, found = PROBLEMS[GRIDS[name][0]](made), []
    for options in settings(name, problem.n_records):
        end = made.value(search(made, problem, epsilon, 1, **options))
        found.append((end if math.isfinite(end) else math.inf, len(found), options))
    return min(found)[2]


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    shapes: dict[str, dict[str, Any]] = {"norm 20": {"norm": 20.0}, "wide": {"n": 5_000, "p": 6}}
    seeds = max(20, options.seeds)
    if options.quick:
        shapes, seeds = {"norm 20": {"norm": 20.0, "n": 40, "p": 4}}, 2
    for name, shape in shapes.items():
        made = instance(0, **shape)
        columns = {"instance": name, "n": len(made.b), "dimension": made.start.size}
        for label, x in (
            ("x_0", made.start),
            ("0, the strict saddle", 0.0 * made.start),
            ("gradient descent, not private", descended(made)),
        ):
            yield columns | {"method": label, "kind": "public"} | made.diagnostics(x)
        if name == "norm 20":
            yield from (columns | row for row in paper(made, seeds))
        for epsilon in EPSILONS[1:2] if options.quick else EPSILONS:
            for method in GRIDS:
                best, problem = chosen(method, epsilon, shape), PROBLEMS[GRIDS[method][0]](made)
                row = columns | {"method": method, "epsilon": epsilon, "seeds": seeds}
                row["options"] = " ".join(f"{key}={value}" for key, value in best.items())
                yield from (row | each for each in scores(made, problem, epsilon, seeds, **best))
                if epsilon == 2.0 and name == "norm 20":
                    yield from (columns | each for each in trajectory(made, method, best))
    for method, numbers in TABLE_2.items():
        row = dict(zip(("phi", "gradient", "curvature"), numbers, strict=True))
        yield {"instance": "paper's", "method": method, "kind": "Table 2", **row}


def descended(made: Instance) -> np.ndarray:
    x = made.start
    for _ in range(400):
        x = x - 0.2 * made.gradient(x)
    return x


def scores(
    made: Instance, problem: MinimaxProblem, epsilon: float | None, seeds: int, **options: Any
) -> Iterator[dict[str, Any]]:
    """Means and quantiles of the diagnostics over the seeds, and those of the null control."""
    for kind, each in (("data", problem), ("null control", NullControl(problem))):
        ends = [search(made, each, epsilon, seed, **options) for seed in range(seeds)]
        table, row = pd.DataFrame([made.diagnostics(x) for x in ends]), {"kind": kind}
        for name in table:
            row[name] = float(table[name].mean())
            row[f"{name}_low"], row[f"{name}_high"] = np.quantile(table[name], [0.1, 0.9])
        yield row


def trajectory(made: Instance, method: str, options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Diagnostics of the points of one run, as in Figure 1 of the paper; not private."""
    problem, points = PROBLEMS[GRIDS[method][0]](made), []
    public_gradient = problem.public_gradient

    def recorded(point: Point) -> Point:
        points.append(point[0])
        return public_gradient(point)

    problem.public_gradient = recorded  # type: ignore[method-assign]
    points.append(search(made, problem, 2.0, 0, **options))
    for step, x in enumerate(points[:: options.get("inner_steps", 1)]):
        if step % 4 == 0:
            row = {"method": method, "kind": "trajectory", "epsilon": 2.0, "step": step}
            yield row | made.diagnostics(x)


def paper(made: Instance, seeds: int) -> Iterator[dict[str, Any]]:
    """Alg. 2 and 3, corrected, at the values of appendix D: ours and the paper's noise."""
    options = {
        "n_steps": 400,
        "period": 10,
        "inner_steps": 5,
        "sampling_rate": 200 / len(made.b) if len(made.b) > 200 else 0.5,
        "sampling_rate_difference": 0.125,
        "clip": 1.0,
        "smoothness": 1e6,  # the clip of differences is constant in the paper
        "step_size": 0.2,
        "step_size_y": 0.8,
    }
    few = min(seeds, 20)
    for noise, epsilon, extra in (
        ("our noise", 2.0, {}),
        ("paper's noise", None, {"noise_multiplier": PAPER_MULTIPLIER}),
    ):
        row = {"method": f"DP-RGDA at the paper's values, {noise}", "epsilon": 2.0, "seeds": few}
        for each in scores(made, SharedDual(made), epsilon, few, **options, **extra):
            yield row | each


SHOWN = ["instance", "method", "kind", "epsilon", "phi", "phi_low", "phi_high", "gradient"]
SHOWN += ["curvature"]
