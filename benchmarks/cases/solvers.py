"""Solvers: gradients and time to a certified distance, and the automatic choice against the best.

Every run asks for the distance ``L / (mu n)`` to the solution that Zhang et al. (2022), Alg. 1,
asks for, and counts only if :func:`skdp.solvers.certify` proves it. kappa is the smoothness of
one record's loss divided by alpha. The features have scales from 1 to 1e-4 and all carry signal,
so that whatever kappa is, some directions are better conditioned than alpha and some are not.
``gradients`` and ``hessians`` count records: a pass over the data is n of them.

The solvers run in turn, so that a busy machine slows all of them; "auto" and the fastest are timed
again in pairs, and ``ratio_to_best`` of "auto" is the median of theirs. The constants of
`skdp.solvers.registry.Auto` come from such measurements.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from benchmarks import tables
from skdp.problems import (
    Ball,
    FiniteSumProblem,
    HalfSquaredLoss,
    LogisticLoss,
    Loss,
    Records,
    SoftmaxLoss,
    WholeSpace,
    counted,
)
from skdp.solvers import SOLVERS, GradientDescent, Newton, Solver, certify, resolve_solver
from skdp.solvers.mini_batches import StochasticSolver

KAPPAS = {"sqrt(n)": 0.5, "n": 1.0}
NAMES = ("newton", "lbfgs", "gradient_descent", "accelerated_gradient")
NAMES += ("svrg", "sarah", "saga", "katyusha")
LOSSES: dict[str, Loss] = {
    "logistic": LogisticLoss(),
    "softmax": SoftmaxLoss(10),
    "squares": HalfSquaredLoss(1.0),
}
#: Model, n, d and share of the entries that are not 0.
POINTS = (
    *(("logistic", n, d, 1.0) for d in (20, 50) for n in (1_000, 10_000, 100_000, 1_000_000)),
    *(("logistic", n, d, 1.0) for n, d in ((2_000, 1_000), (2_000, 400), (10_000, 600))),
    *(("logistic", 100_000, 5_000, 0.005), ("logistic", 20_000, 20_000, 0.001)),
    *(("softmax", 10_000, 50, 1.0), ("squares", 100_000, 50, 1.0)),
)
QUICK = (("logistic", 200, 5, 1.0), ("logistic", 200, 50, 0.1), ("softmax", 200, 5, 1.0))
#: A solver that takes so many times as long as the fastest before it is stopped.
PATIENCE = 10.0


class OutOfTime(Exception):
    """Raised inside a solver that has become too slow."""


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for model, n, d, density in QUICK if options.quick else POINTS:
        X, targets = records(model, n, d, density)
        for kappa, power in KAPPAS.items():
            problem = make_problem(X, targets, model, n**power)
            layout = "dense" if density == 1 else f"CSR, {density:.1%} non-zero"
            for row in race(problem, 2 if options.quick else 9):
                yield {"model": model, "layout": layout, "n": n, "d": d, "kappa": kappa} | row


def records(model: str, n: int, d: int, density: float) -> tuple[Any, np.ndarray]:
    """Rows of norm at most 1, and targets."""
    rng = np.random.default_rng(0)
    scales = np.geomspace(1.0, 1e-4, d)
    if density == 1:
        X: Any = rng.uniform(-1.0, 1.0, size=(n, d))
    else:
        draw = lambda size: rng.uniform(-1.0, 1.0, size)  # noqa: E731
        X = sp.random(n, d, density, format="csr", random_state=rng, data_rvs=draw)
    # before scaling every feature carries the same signal; 3 is its standard deviation
    signal = X @ rng.choice([-1.0, 1.0], size=(d, 9 if model == "softmax" else 1))
    signal *= 3.0 / math.sqrt(d * density / 3.0)
    if density == 1:
        X *= scales / np.linalg.norm(scales)
    else:
        X = X @ sp.diags(scales)
        X = sp.csr_matrix(X / max(1e-300, float(np.sqrt(X.multiply(X).sum(axis=1)).max())))
    if model == "squares":
        return X, np.clip(0.2 * signal[:, 0] + 0.3 * rng.standard_normal(n), -1.0, 1.0)
    scores = np.column_stack([np.zeros(n), signal])
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def make_problem(X: Any, targets: np.ndarray, model: str, kappa: float) -> FiniteSumProblem:
    loss, rows = LOSSES[model], Records(X, 1.0)
    alpha = loss.smoothness(rows.norm_bound) / kappa
    # the squared loss has no Lipschitz constant on the whole space
    domain = (
        Ball(loss.solution_radius(rows.norm_bound, alpha)) if model == "squares" else WholeSpace()
    )
    return FiniteSumProblem(rows.with_targets(targets), loss, alpha, domain)


def wanted_distance(problem: FiniteSumProblem) -> float:
    """That of Zhang et al. (2022), Alg. 1, but no more than 1 % of the way to the solution."""
    constants = problem.constants
    published = constants.lipschitz / (problem.alpha * problem.n_records)
    return min(published, 0.01 * constants.localisation)


def make_solver(name: str) -> Solver:
    if name == "auto":
        return resolve_solver("auto")
    if name == "gradient_descent":
        return GradientDescent(max_iterations=10**8)
    kind = SOLVERS[name]
    return kind(max_passes=1e6) if issubclass(kind, StochasticSolver) else kind()  # type: ignore


def race(problem: FiniteSumProblem, rounds: int) -> Iterator[dict[str, Any]]:
    """All solvers on one problem, in turn, in one process."""
    accuracy, solvers = wanted_distance(problem), {n: make_solver(n) for n in (*NAMES, "auto")}

    def timed(name: str, given: Any, seed: int) -> tuple[float, Any]:
        zero, rng = np.zeros(problem.dimension), np.random.default_rng(seed)
        start = time.perf_counter()
        found = solvers[name]._solve(given, accuracy, zero, rng)
        return time.perf_counter() - start, found

    rows: dict[str, dict[str, Any]] = {}
    first: dict[str, float] = {}
    for name in solvers:  # warms up, counts, checks the answer, stops what is hopeless
        rows[name] = {"solver": name, "certified": False, "note": ""}
        if name == "newton" and not Newton.affordable(problem):
            rows[name]["note"] = f"skipped: more than {Newton.max_dimension} coefficients"
            continue
        limit = min(60.0, max(0.2, PATIENCE * min(first.values(), default=math.inf)))
        end = time.perf_counter() + limit

        def watch(_: int, end: float = end) -> None:
            if time.perf_counter() > end:
                raise OutOfTime

        given = counted(problem.for_solver(), watch)
        try:
            seconds, found = timed(name, given, 0)
        except OutOfTime:
            rows[name]["note"] = f"stopped after {limit:.2g} s"
            continue
        rows[name] |= {"gradients": given.counts.gradients, "hessians": given.counts.hessians}
        if certify(problem, found).distance <= accuracy:
            first[name], rows[name]["certified"] = seconds, True
    times: dict[str, list[float]] = {name: [] for name in first}
    for seed in range(rounds):
        for name, seconds in first.items():
            if seconds < 0.05 or seed < (3 if seconds < 1.5 else 1):
                times[name].append(timed(name, problem, seed)[0])
    medians = {name: statistics.median(each) for name, each in times.items()}
    best = min((name for name in medians if name != "auto"), key=medians.__getitem__)
    repeats = 3 * rounds if medians[best] < 0.05 else 5 if medians[best] < 1.5 else 3
    pairs = [
        timed("auto", problem, seed)[0] / timed(best, problem, seed)[0] for seed in range(repeats)
    ]
    for name, row in rows.items():
        seconds = medians.get(name, math.nan)
        row |= {"seconds": seconds, "ratio_to_best": seconds / medians[best]}
        yield row | ({"ratio_to_best": statistics.median(pairs)} if name == "auto" else {})


def summarise(table: pd.DataFrame) -> str:
    auto = table[table["solver"] == "auto"]
    keys = ["model", "layout", "n", "d", "kappa"]
    wide = table.pivot_table("seconds", keys, "solver", sort=False).reset_index()
    late = (~(auto["ratio_to_best"] <= 1.5)).sum()
    return (
        f"seconds\n{tables.show(wide, list(wide))}\n"
        f'"auto" against the fastest: {late} of {len(auto)} points above 1.5, '
        f"largest ratio {auto['ratio_to_best'].max():.2f}"
    )
