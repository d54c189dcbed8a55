"""Saddle solvers: operator evaluations against n for Alg. 3 and for the planned phases of Alg. 4.

An evaluation is the operator of one record's function; a full operator is n of them, certificates
included, and a Hessian or a derivative of the best response counts n more. Every run asks for the
accuracy that the plan of the private algorithm asks for (epsilon = 1, delta = 1e-6) and
counts only if :func:`skdp.solvers.certify_saddle` proves it.

- ``Alg. 3``: strongly convex and concave with mu_x = mu_y such that kappa, the condition number
  of one record's function in the metric of the moduli, is sqrt(n): mu ~ 1 / sqrt(n), as where a
  merely convex problem is regularised against sampling error.
- ``Alg. 4``: all phases as planned by public bounds, each around the released point of the one
  before, noise included; kappa is the largest of the phases.

Theory is Table 2 of Zhang et al. (2022) for solvers in the metric of the moduli, in which the
regulariser costs nothing; their n^2 and n^{5/4} for Extragradient and Catalyst in Alg. 4 are
without it. ``theory here`` is the slope of the formula on the same n, batches of b records and
public kappas, ``Table 2`` the published limit for Alg. 3 at kappa = sqrt(n) and for Alg. 4.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.saddle_data import Counter, Instance, OutOfWork, bilinear, groups, watched
from skdp.algorithms import (
    plan_phased_saddle_output_perturbation,
    plan_saddle_output_perturbation,
)
from skdp.algorithms.output.blocks import assign_blocks
from skdp.mechanisms import NoiseSource
from skdp.privacy import PrivacyBudget
from skdp.problems import SaddleConstants, SaddleProblem
from skdp.solvers import SaddleSolver, certify_saddle
from skdp.solvers.saddle import (
    GDA,
    LSVRE,
    AcceleratedSaddleSVRG,
    BestResponse,
    Catalyst,
    Extragradient,
    SaddleSAGA,
    SaddleSVRG,
)

BUDGET = PrivacyBudget(1.0, 1e-6)
#: No theory says more than what is asked for: near-linear growth, up to this exponent.
NEAR_LINEAR = 1.1
_MANY = 1e6


@dataclass(frozen=True)
class Contestant:
    """A solver and its theory; the exponents are those of Table 2."""

    make: Callable[[], SaddleSolver]
    color: str
    formula: str = ""
    leading: Callable[[float, float, float, float, float], float] | None = None  # n, k, kx, ky, b
    alg3: str = "-"
    alg4: str = "-"


def _catalyst(n: float, k: float, kx: float, ky: float, b: float) -> float:
    m = n / b
    return n + b * (math.sqrt(m * kx * ky) + m**0.75 * math.sqrt(k))


CONTESTANTS = {
    "GDA": Contestant(
        lambda: GDA(max_iterations=10**8),
        "C1",
        "n kappa^2",
        lambda n, k, kx, ky, b: n * k**2,
        "2",
        "-",
    ),
    "Extragradient": Contestant(
        Extragradient, "C2", "n kappa", lambda n, k, kx, ky, b: n * k, "1.5", "2 (1.5 scaled)"
    ),
    "SVRG": Contestant(
        lambda: SaddleSVRG(max_passes=_MANY),
        "C4",
        "n + b kappa^2",
        lambda n, k, kx, ky, b: n + b * k**2,
        "1",
        "1",
    ),
    "SAGA": Contestant(
        lambda: SaddleSAGA(max_passes=_MANY),
        "C6",
        "n + b kappa^2",
        lambda n, k, kx, ky, b: n + b * k**2,
        "1",
        "1",
    ),
    "Accelerated SVRG": Contestant(
        lambda: AcceleratedSaddleSVRG(max_passes=_MANY),
        "C0",
        "n + sqrt(b n) kappa",
        lambda n, k, kx, ky, b: n + math.sqrt(n * b) * k,
        "1",
        "1",
    ),
    "L-SVRE": Contestant(
        lambda: LSVRE(max_passes=_MANY),
        "C9",
        "n + sqrt(b n) kappa",
        lambda n, k, kx, ky, b: n + math.sqrt(n * b) * k,
        "1",
        "1",
    ),
    "Catalyst, acc. SVRG": Contestant(
        lambda: Catalyst(AcceleratedSaddleSVRG(max_passes=_MANY), max_passes=_MANY),
        "C3",
        "n + sqrt(b n kx ky) + n^3/4 sqrt(kappa)",
        _catalyst,
        "1",
        "1.25 (1 scaled)",
    ),
    "Catalyst, L-SVRE": Contestant(
        lambda: Catalyst(LSVRE(max_passes=_MANY), max_passes=_MANY),
        "C5",
        "n + sqrt(b n kx ky) + n^3/4 sqrt(kappa)",
        _catalyst,
        "1",
        "1.25 (1 scaled)",
    ),
    "Best response, Newton": Contestant(lambda: BestResponse("newton"), "0.3"),
}
WITHOUT_BATCHES = ("GDA", "Extragradient", "Best response, Newton")


@dataclass(frozen=True)
class Grid:
    """The sizes of a run."""

    n: tuple[int, ...]
    fit_from: int  # batches have 256 records from n = 4096 on
    seconds: float  # of computing, of one solve; who needs more is not tried at larger n
    seeds: int
    d: int


FULL = Grid((1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000), 10_000, 40.0, 3, 10)
QUICK = Grid((200, 400), 200, 0.3, 1, 3)


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    return list(rows_of(QUICK if options.quick else FULL))


def rows_of(grid: Grid) -> Iterator[dict[str, Any]]:
    given_up: set[tuple[str, str, str]] = set()
    for n in grid.n:
        for given in (bilinear("interior", n), groups(n, grid.d)):
            for algorithm in ("Alg. 3", "Alg. 4"):
                for name in CONTESTANTS:
                    key = (given.name, algorithm, name)
                    columns = {"problem": given.name, "algorithm": algorithm, "n": n}
                    columns |= {"solver": name}
                    if key in given_up:
                        yield columns | {"certified": False, "note": "not tried: too slow before"}
                        continue
                    row = columns | measured(given, algorithm, name, grid)
                    if not row["certified"] and row["note"]:
                        given_up.add(key)
                    print(f"saddle_gradients: {row}", file=sys.stderr, flush=True)
                    yield row


class Deadline(Counter):
    """Raises :class:`OutOfWork` after some seconds of computing, however busy the machine is."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.end = time.process_time() + seconds

    def report(self, operators: int) -> None:
        super().report(operators)
        if time.process_time() > self.end:
            raise OutOfWork


def measured(given: Instance, algorithm: str, name: str, grid: Grid) -> dict[str, Any]:
    """One row: medians over the seeds."""
    n = given.problem.n_records
    seeds = grid.seeds if n <= 30_000 else 1
    if name in WITHOUT_BATCHES and algorithm == "Alg. 3":
        seeds = 1
    evaluations, hessians, passed = [], [], []
    steps = alg3 if algorithm == "Alg. 3" else alg4
    start = time.process_time()
    visited: list[SaddleConstants] = []
    for seed in range(seeds):
        counter = Deadline(grid.seconds)
        try:
            certified, visited = steps(given, CONTESTANTS[name].make(), seed, counter)
        except OutOfWork:
            return {
                "certified": False,
                "passes_before": counter.operators / n,
                "note": f"stopped after {grid.seconds:g} s",
            }
        evaluations.append(counter.operators + counter.hessians)
        hessians.append(counter.hessians)
        passed.append(certified)
    contestant, batch = CONTESTANTS[name], 1.0
    predicted = math.nan
    if contestant.leading is not None:
        predicted = 0.0
        for c in visited:
            if name not in WITHOUT_BATCHES:
                batch = max(1, min(256, c.n_records // 16))
            kx = max(1.0, c.x.smoothness / c.x.modulus, c.coupling / c.x.modulus)
            ky = max(1.0, c.coupling / c.y.modulus)
            predicted += contestant.leading(c.n_records, c.data_lipschitz, kx, ky, batch)
    return {
        "kappa": max(c.data_lipschitz for c in visited),
        "phases": len(visited),
        "records_per_batch": batch,
        "seeds": seeds,
        "evaluations": statistics.median(evaluations),
        "evaluations_min": min(evaluations),
        "evaluations_max": max(evaluations),
        "hessians": statistics.median(hessians),
        "formula": predicted,
        "seconds": (time.process_time() - start) / seeds,
        "certified": all(passed),
        "note": "",
    }


Outcome = tuple[bool, list[SaddleConstants]]


def alg3(given: Instance, solver: SaddleSolver, seed: int, counter: Counter) -> Outcome:
    n = given.problem.n_records
    unit = given.problem.with_regularisers(1.0, 1.0).constants.data_lipschitz
    mu = unit / math.sqrt(n)
    problem = given.problem.with_regularisers(mu, mu)
    plan = plan_saddle_output_perturbation(problem.constants, BUDGET)
    rng = np.random.default_rng(seed)
    accuracy = 0.5 * plan.accuracy
    point = solver._solve(watched(problem, counter), accuracy, problem.start(), rng)
    found = certify_saddle(problem, *problem.project(*point))
    return found.distance <= accuracy, [problem.constants]


def alg4(given: Instance, solver: SaddleSolver, seed: int, counter: Counter) -> Outcome:
    problem = given.problem
    plan = plan_phased_saddle_output_perturbation(problem.constants, BUDGET, utility=given.utility)
    rng, noise = np.random.default_rng(seed), NoiseSource(np.random.default_rng(seed + 1000).bytes)
    assignment = assign_blocks(rng, problem.n_records, plan.block_sizes, None)
    own, center = watched(problem, counter), problem.domain_x.project(problem.center_x)
    passed, visited = True, []
    for k, (phase, alpha) in enumerate(zip(plan.phases, plan.regularisation, strict=True)):
        block: SaddleProblem = own
        if plan.block_sizes[0] < problem.n_records:
            block = own.take(np.flatnonzero(assignment == k))
        block = block.with_regularisers(alpha, plan.other_regularisation, center, problem.center_y)
        accuracy = 0.5 * phase.accuracy
        x, y = block.project(*solver._solve(block, accuracy, block.start(), rng))
        found = certify_saddle(block, x, y)
        passed &= found.distance <= accuracy
        visited.append(block.constants)
        center = block.domain_x.project(phase.mechanism.release(found.x, noise))
    return passed, visited


# ---------------------------------------------------------------------------------- results


def slope(n: Any, work: Any) -> float:
    if len(n) < 2:
        return math.nan
    return float(np.polyfit(np.log(np.asarray(n, float)), np.log(np.asarray(work, float)), 1)[0])


def fit_from(table: pd.DataFrame) -> int:
    return QUICK.fit_from if bool(table["quick"].all()) else FULL.fit_from


def exponents(table: pd.DataFrame) -> pd.DataFrame:
    """Growth of the evaluations with n, by least squares on logarithms."""
    done = table[table["certified"].astype(bool) & (table["n"] >= fit_from(table))]
    rows = []
    for (problem, algorithm, name), group in done.groupby(
        ["problem", "algorithm", "solver"], sort=False
    ):
        n, work = group["n"], group["evaluations"]
        contestant = CONTESTANTS[name]
        row = {"problem": problem, "algorithm": algorithm, "solver": name, "points": len(group)}
        row["largest n"] = int(n.max())
        row["evaluations/n"] = work.iloc[-1] / n.iloc[-1]
        row["exponent"] = slope(n, work)
        row["over log n"] = slope(n, work / np.log(n))
        row["kappa ~ n^"] = slope(n, group["kappa"])
        if group["formula"].notna().all():
            row["theory here"] = slope(n, group["formula"])
        row["Table 2"] = contestant.alg3 if algorithm == "Alg. 3" else contestant.alg4
        row["seconds"] = group["seconds"].iloc[-1]
        rows.append(row)
    return pd.DataFrame(rows)


def summarise(table: pd.DataFrame) -> str:
    fits = exponents(table)
    show = {"index": False, "float_format": "{:.3g}".format, "na_rep": "-"}
    stopped = table[table["note"].fillna("").str.startswith("stopped")]
    failed = table[~table["certified"].astype(bool) & (table["note"].fillna("") == "")]
    whole = fits[(fits["algorithm"] == "Alg. 4") & (fits["largest n"] == table["n"].max())]
    near = whole[whole["exponent"] <= NEAR_LINEAR]
    lines = [
        f"operator evaluations ~ n^exponent, from n = {fit_from(table)}",
        fits.to_string(**show),
        "",
        "stopped, and not tried at larger n: "
        + "; ".join(
            f"{row.problem}, {row.algorithm}, {row.solver} at n = {row.n}"
            for row in stopped.itertuples()
        ),
        f"finished without a certificate: {len(failed)}",
        f"Alg. 4 up to n = {table['n'].max()}, exponent at most {NEAR_LINEAR}:",
    ]
    for problem, group in whole.groupby("problem", sort=False):
        good = near[near["problem"] == problem]
        lines.append(
            f"  {problem}: {len(good)} of {len(group)} solvers; {', '.join(good['solver'])}"
        )
    return "\n".join(lines)


def plot(table: pd.DataFrame, path: Path) -> None:
    from matplotlib import pyplot as plt

    fits = exponents(table)
    done = table[table["certified"].astype(bool)]
    problems, algorithms = table["problem"].unique(), table["algorithm"].unique()
    figure, axes = plt.subplots(2, 2, figsize=(15.0, 10.5), squeeze=False)
    for problem, line in zip(problems, axes, strict=True):
        for algorithm, panel in zip(algorithms, line, strict=True):
            part = done[(done["problem"] == problem) & (done["algorithm"] == algorithm)]
            for name, curve in part.groupby("solver", sort=False):
                fit = fits[
                    (fits["problem"] == problem)
                    & (fits["algorithm"] == algorithm)
                    & (fits["solver"] == name)
                ]
                label = name
                if len(fit) and math.isfinite(fit["exponent"].iloc[0]):
                    label += f": {fit['exponent'].iloc[0]:.2f}"
                    if "theory here" in fit and math.isfinite(fit["theory here"].iloc[0]):
                        label += f" ({fit['theory here'].iloc[0]:.2f})"
                panel.plot(
                    curve["n"],
                    curve["evaluations"] / curve["n"],
                    marker="o",
                    ms=4,
                    color=CONTESTANTS[name].color,
                    label=label,
                )
            panel.set(xscale="log", yscale="log", xlabel="n", title=f"{problem}, {algorithm}")
            panel.set_ylabel("evaluations / n")
            panel.legend(
                loc="center left",
                bbox_to_anchor=(1.01, 0.5),
                fontsize=8.5,
                frameon=False,
                title="exponent (theory here)",
                title_fontsize=9,
            )
    figure.tight_layout()
    figure.savefig(path, dpi=90)
    plt.close(figure)
