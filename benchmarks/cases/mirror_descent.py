"""Mirror descent in the l1 geometry: test loss, growth with d, gap exponents, a large sparse fit.

Synthetic data: rows of independent signs, and a logistic model with five coefficients of 0.6 in
absolute value. All methods have epsilon 1, delta 1e-6 and public parameters; the number of steps
and the learning rate of DP-SGD are the best of a small grid on the test set, which favours it.

- "loss": test loss of one model;
- "group": largest test loss of a group, of which the smaller one has 20 % of the records and
  coefficients of its own, by `DPMaxGroupLossClassifier`;
- "gap": duality gaps in games, and excess values of functions of one simplex, of each smoothness,
  beside the exponents of Table 1 of the paper;
- "large": time and memory of a fit to a large CSR matrix.
"""

from __future__ import annotations

import argparse
import math
import resource
import time
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from benchmarks import figures, tables
from skdp.algorithms import (
    Run,
    anytime_mirror_descent,
    bias_reduced_mirror_descent,
    dp_sgd,
    frank_wolfe,
    mirror_descent,
    plan_anytime_mirror_descent,
    plan_bias_reduced_mirror_descent,
    plan_mirror_descent,
    plan_variance_reduced_frank_wolfe,
    variance_reduced_frank_wolfe,
)
from skdp.linear_model import DPLogisticRegression
from skdp.mechanisms import NoiseSource
from skdp.methods import GroupMirrorDescent, MirrorDescent
from skdp.privacy import PrivacyBudget
from skdp.problems import LogisticLoss, Records
from skdp.problems.vertices import FunctionProblem, LinearDesign, LinearProblem, VertexDesign
from skdp.robust import DPMaxGroupLossClassifier

BUDGET = PrivacyBudget(1.0, 1e-6)
RADIUS = 3.0
#: Exponents in n of the private terms of Table 1 of Gonzalez et al. (2024). For saddle problems the
#: algorithm is the first, but for "bias reduced": the third, which has the row of Table 1 for
#: functions that are smooth of the second order. "convex": problems over one simplex.
TABLE_1 = {
    "bilinear": -0.5, "quadratic": -0.5, "second-order": -0.5, "second-order, bias reduced": -0.5,
    "first-order": -1.0 / 3.0, "convex, second-order, anytime": -0.5,
    "convex, first-order, anytime": -0.4, "convex, first-order, Frank-Wolfe": -2.0 / 3.0,
}  # fmt: skip
SMOOTHNESS = {"second-order": "second_order", "first-order": "first_order"}
#: Largest second derivatives of the terms of :func:`game`.
CURVATURE = {"second-order": 1.0, "first-order": 5.0}


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    quick = options.quick
    n, seeds = (2000, range(2)) if quick else (20_000, range(3))
    # first: later the process' peak of memory would be that of the other parts
    yield large(*((1000, 1000) if quick else (100_000, 100_000)))
    for part, measure, sizes in (
        ("loss", losses, (20, 40) if quick else (100, 300, 1000)),
        ("group", worst_group, (20,) if quick else (50, 500)),
    ):
        for d, seed in product(sizes, seeds):
            for case, loss in measure(n, d, seed).items():
                yield {"part": part, "case": case, "n": n, "d": d, "seed": seed, "loss": loss}
    sizes = (1000, 4000) if quick else (1000, 4000, 16_000, 64_000)
    for case, n, seed in product(TABLE_1, sizes, range(2 if quick else 5)):
        yield {"part": "gap", "case": case, "n": n, "gap": gap(case, n, seed)}


def sample(n: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = rng.choice([-1.0, 1.0], size=(n, d))
    scores = X[:, :5] @ np.array([0.6, -0.6, 0.6, 0.6, -0.6])
    return X, (rng.uniform(size=n) < 1.0 / (1.0 + np.exp(-scores))).astype(np.float64)


def losses(n: int, d: int, seed: int) -> dict[str, float]:
    """Test losses of all methods; of DP-SGD the best of a grid."""
    rng = np.random.default_rng(seed)
    X, y = sample(n, d, rng)
    test = sample(20_000, d, rng)
    loss = LogisticLoss()

    def score(w: np.ndarray) -> float:
        return float(loss.value(test[0] @ w, test[1]).mean())

    def quiet() -> Run:
        return Run(rng=rng, noise=NoiseSource(rng.bytes))

    norm = math.sqrt(d)
    records = Records(X, 1.001 * norm, targets=y)
    design = LinearDesign.of(loss, n, d, RADIUS, 1.0)
    problem = LinearProblem(records, loss, design)
    (drawn,) = mirror_descent(problem, BUDGET, run=quiet()).point
    found = {
        "zero coefficients": math.log(2.0),
        **{name: score(w) for name, w in variants(problem, seed).items()},
        "mirror descent": score(problem.coefficients((drawn,))),
        "Frank-Wolfe": score(frank_wolfe(problem, BUDGET, run=quiet()).point),
    }
    for method in ("output", "gradient"):
        model = DPLogisticRegression(
            method=method, data_norm=norm, fit_intercept=False, classes=[0, 1], random_state=seed
        )
        found[method] = score(model.fit(X, y).coef_[0])
    found["DP-SGD, best of grid"] = min(
        score(
            dp_sgd(
                records, loss, BUDGET, run=quiet(), n_steps=steps, learning_rate=rate, n_public=n,
                sampling_rate=1.0, clip_norm=0.5 * norm,
            ).point
        )
        for steps in (10, 40)
        for rate in (0.03, 0.1, 0.3, 1.0)
    )  # fmt: skip
    return found


def variants(problem: LinearProblem, seed: int) -> dict[str, np.ndarray]:
    """Coefficients by the other published algorithms."""
    rng, found = np.random.default_rng([seed, 1]), {}
    for name, algorithm in (
        ("anytime", anytime_mirror_descent),
        ("bias reduced", bias_reduced_mirror_descent),
        ("variance-reduced Frank-Wolfe", variance_reduced_frank_wolfe),
    ):
        run = Run(rng=rng, noise=NoiseSource(rng.bytes))
        found[name] = problem.coefficients(algorithm(problem, BUDGET, run=run).point)
    return found


def worst_group(n: int, d: int, seed: int) -> dict[str, float]:
    """Largest test loss of two groups; the groups share three of their five features."""
    rng = np.random.default_rng(seed)
    coefficients = np.zeros((2, d))
    for group in range(2):
        coefficients[group, 2 * group : 2 * group + 5] = 0.6 * np.array([1.0, -1.0, 1.0, 1.0, -1.0])

    def draw(m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        X = rng.choice([-1.0, 1.0], size=(m, d))
        groups = (rng.uniform(size=m) < 0.2).astype(int)
        scores = np.einsum("ij,ij->i", X, coefficients[groups])
        return X, (scores + rng.logistic(size=m) > 0).astype(int), groups

    (X, y, groups), test = draw(n), draw(20_000)
    found = {"zero coefficients": math.log(2.0)}
    bounds: dict[str, dict[str, Any]] = {
        "mirror_descent": {"method": GroupMirrorDescent(feature_bound=1.0)},
        "gradient": {"method": "gradient", "data_norm": math.sqrt(d)},
    }
    for name, bound in bounds.items():
        model = DPMaxGroupLossClassifier(
            fit_intercept=False, classes=[0, 1], group_names=[0, 1],
            group_proportions=[0.8, 0.2], random_state=seed, **bound,
        )  # fmt: skip
        found[name] = float(max(model.fit(X, y, groups=groups).group_losses(*test).values()))
    return found


def game(case: str, n: int, rng: np.random.Generator) -> tuple[FunctionProblem, Any]:
    """A saddle problem of 20 by 20 vertices and its duality gap, for records that are alike.

    ``x'Ay`` with a convex term in x of each smoothness added, and its mirror image in y.
    """
    d = 20
    A = rng.uniform(-1.0, 1.0, size=(d, d))
    bend = partial(convex_term, case)
    noise = rng.choice([-0.5, 0.5], size=n)

    def derivative(points: Any, batch: slice) -> Any:
        x, y = points
        shift = noise[batch, None]
        return A @ y + bend(x)[1] + shift * (A @ y), x @ A - bend(y)[1] + shift * (x @ A)

    def duality_gap(x: np.ndarray, y: np.ndarray) -> float:
        upper = best_response(lambda v: (-(x @ A @ v) + bend(v)[0], -(x @ A) + bend(v)[1]), d)
        lower = best_response(lambda v: (v @ A @ y + bend(v)[0], A @ y + bend(v)[1]), d)
        return bend(x)[0] - upper - (lower - bend(y)[0])

    design = VertexDesign(n, (d, d), (2.0, 2.0), (4.0, 4.0))
    return FunctionProblem(design, derivative), duality_gap


def convex_term(case: str, x: np.ndarray) -> tuple[float, np.ndarray]:
    """A convex function with the smoothness of a case, 0 at its minimum, and its gradient."""
    d = len(x)
    r = x - (np.eye(d)[0] * 0.5 + 0.5 / d)
    if case == "quadratic":
        return 0.5 * float(r @ r), r
    if "second-order" in case:
        return float(np.log(np.cosh(2.0 * r)).sum()) / 4.0, np.tanh(2.0 * r) / 2.0
    if "first-order" in case:  # Huber: its second derivative jumps
        inside = np.abs(r) <= 0.1
        value = np.where(inside, r * r / 0.2, np.abs(r) - 0.05)
        return 0.5 * float(value.sum()), 0.5 * np.clip(r / 0.1, -1.0, 1.0)
    return 0.0, np.zeros(d)


def excess(case: str, n: int, seed: int) -> float:
    """Excess of a function of 20 weights, whose records have linear terms of mean 0 besides."""
    rng, d = np.random.default_rng(seed), 20
    signs = rng.choice([-0.5, 0.5], size=(n, d))
    _, kind, algorithm = case.split(", ")

    def derivative(points: Any, batch: slice) -> Any:
        return [convex_term(case, points[0])[1] + signs[batch]]

    problem = FunctionProblem(VertexDesign(n, (d,), (1.0,), (2.0,)), derivative)
    plan: Any
    if algorithm == "anytime":
        plan = plan_anytime_mirror_descent(
            problem.design, BUDGET, rng=rng, smoothness=SMOOTHNESS[kind],
            full_batch=False,
        )  # fmt: skip
    else:
        plan = plan_variance_reduced_frank_wolfe(problem.design, BUDGET, smoothness=CURVATURE[kind])
    result = plan.run(problem, Run(rng=rng, noise=NoiseSource(rng.bytes)))
    return convex_term(case, problem.weights(result.point)[0])[0]


def best_response(function: Any, d: int) -> float:
    """Minimum of a convex function on the simplex, by entropic descent."""
    scores, best = np.zeros(d), math.inf
    for t in range(2000):
        x = np.exp(scores - scores.max())
        x /= x.sum()
        value, slope = function(x)
        best = min(best, value)
        scores -= slope * (2.0 if t < 1000 else 20.0)
    for j in range(d):
        best = min(best, function(np.eye(d)[j])[0])
    return best


def gap(case: str, n: int, seed: int) -> float:
    """Duality gap, or excess, of the algorithm of a case, with its default sizes."""
    if case.startswith("convex"):
        return excess(case, n, seed)
    rng = np.random.default_rng(seed)
    problem, duality_gap = game(case, n, np.random.default_rng(seed))
    if case.endswith("bias reduced"):
        plan = plan_bias_reduced_mirror_descent(problem.design, BUDGET, rng=rng)
    else:
        smoothness = SMOOTHNESS.get(case, "quadratic")
        plan = plan_mirror_descent(problem.design, BUDGET, smoothness=smoothness)
    result = plan.run(problem, Run(rng=rng, noise=NoiseSource(rng.bytes)))
    return float(duality_gap(*problem.weights(result.point)))


def large(n: int, d: int) -> dict[str, Any]:
    """Time and additional memory of a fit to a CSR matrix of density 0.1 %."""
    rng = np.random.default_rng(0)
    per_row = max(1, d // 1000)
    indices = rng.integers(d, size=(n, per_row))
    indices.sort(axis=1)
    X = sp.csr_matrix(
        (rng.uniform(-1.0, 1.0, size=n * per_row), indices.ravel(), np.arange(n + 1) * per_row),
        shape=(n, d),
    )
    X.sum_duplicates()
    y = (np.asarray(X[:, :50].sum(axis=1)).ravel() + 0.01 * rng.normal(size=n) > 0).astype(int)
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    model = DPLogisticRegression(
        method=MirrorDescent(feature_bound=1.0), classes=[0, 1], random_state=0
    ).fit(X, y)
    seconds = time.perf_counter() - start
    grown = 1024.0 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    return {
        "part": "large", "case": "CSR", "n": n, "d": d, "seconds": seconds,
        "memory_of_X": grown / size, "rounds": model.privacy_.plan["n_rounds"],
    }  # fmt: skip


def exponents(table: pd.DataFrame) -> dict[str, float]:
    """Least-squares slopes of the log of the mean gap over log n."""
    gaps = table[table["part"] == "gap"].groupby(["case", "n"])["gap"].mean()
    return {case: tables.slope(gaps[case].index, gaps[case]) for case in TABLE_1}


def summarise(table: pd.DataFrame) -> str:
    parts = []
    for name, title in (("loss", "test loss"), ("group", "largest test loss of a group")):
        part = table[table["part"] == name]
        means = part.pivot_table(index="case", columns="d", values="loss", aggfunc=["mean", "std"])
        parts.append(f"{title}\n{means.round(4).to_string()}")
    parts += [
        f"gap exponent in n, {case}: measured {value:.2f}, Table 1 {TABLE_1[case]:.2f}"
        for case, value in exponents(table).items()
    ]
    large_fit = table[table["part"] == "large"].iloc[0]
    parts.append(
        f"n = {large_fit.n:.0f}, d = {large_fit.d:.0f}, CSR: {large_fit.seconds:.1f} s, "
        f"{large_fit.memory_of_X:.2f} times the memory of X beside it"
    )
    return "\n".join(parts)


def plot(table: pd.DataFrame) -> Any:
    """Draw test losses by features, and gaps by records with the exponents of both kinds."""
    losses, gaps = (table[table["part"] == part] for part in ("loss", "gap"))
    slopes = exponents(table)
    titles = {
        case: f"gap, {case}:\n{slopes[case]:.2f} (Table 1: {exponent:.2f})"
        for case, exponent in TABLE_1.items()
    }
    parts = [
        losses.assign(panel="test log loss", line=losses["case"], at=losses["d"], y=losses["loss"]),
        gaps.assign(
            panel=gaps["case"].map(titles), line="duality gap", at=gaps["n"], y=gaps["gap"]
        ),
    ]
    title = "features, or records"
    cells = pd.concat(parts).rename(columns={"at": title})
    return figures.curves(cells, title, "y", "panel", "line", log="xy", ylabel="", columns=3)
