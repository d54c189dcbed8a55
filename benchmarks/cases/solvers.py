"""Solvers: gradient evaluations against n and kappa, and wall time against scikit-learn's.

Every run asks for the distance ``L / (mu n)`` to the solution that Zhang et al. (2022), Alg. 1,
asks for, and counts only if :func:`skdp.solvers.certify` proves it. kappa is the smoothness of
one record's loss divided by alpha. The features have scales from 1 to 1e-4 and all carry signal,
so that whatever kappa is, some directions are better conditioned than alpha and some are not.

The table has three parts:

- ``gradients``: gradients of single records that a solver evaluates, at kappa = sqrt(n) and n,
  and their growth with n beside what theory promises (Zhang et al. 2022, Remark 1);
- ``wall time``: seconds of every solver, and of scikit-learn's solvers stopped by the loosest
  tolerance (a power of ten) with which they reach the same certified distance;
- ``auto``: the solver that "auto" is against the fastest, at every point of ``wall time``.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from skdp.problems.counting import counted
from skdp.problems.domains import Ball, WholeSpace
from skdp.problems.finite_sum import FiniteSumProblem
from skdp.problems.losses import HalfSquaredLoss, LogisticLoss, Loss, SoftmaxLoss
from skdp.problems.records import Records
from skdp.solvers import SOLVERS, GradientDescent, Newton, Solver, certify, resolve_solver
from skdp.solvers.mini_batches import StochasticSolver

KAPPAS = {"sqrt(n)": 0.5, "n": 1.0}
#: Records per batch in the part "gradients", beside the solvers' default.
SMALL_BATCH = 16
NAMES = (
    "newton",
    "lbfgs",
    "gradient_descent",
    "accelerated_gradient",
    "svrg",
    "sarah",
    "saga",
    "katyusha",
)
COLORS = dict(zip(NAMES, ("C0", "C1", "C2", "C9", "C4", "C3", "C6", "0.3"), strict=True))
STOCHASTIC = tuple(name for name in NAMES if issubclass(SOLVERS[name], StochasticSolver))
#: A combination whose predicted gradients exceed this is not run: the smaller the batch,
#: the longer a gradient takes.
WORK_CAPS = {"all": 1e10, "default": 1.5e9, str(SMALL_BATCH): 6e7}
#: A solver that takes so many times as long as the fastest before it is stopped.
PATIENCE = 10.0
#: Seconds that one fit of scikit-learn may take.
SKLEARN_SECONDS = 60.0
TOLERANCES = tuple(10.0**-k for k in range(2, 11))


@dataclass(frozen=True)
class Point:
    """One problem of the part "wall time"; `kappa` is a key of ``KAPPAS``."""

    n: int
    d: int
    kappa: str
    model: str = "logistic"
    density: float = 1.0
    with_sklearn: bool = True

    @property
    def layout(self) -> str:
        return "dense" if self.density == 1 else f"CSR, {self.density:.1%} non-zero"

    @property
    def columns(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "layout": self.layout,
            "n": self.n,
            "d": self.d,
            "kappa": self.kappa,
        }


@dataclass(frozen=True)
class Grid:
    """The sizes of a run."""

    gradient_ns: tuple[int, ...]
    gradient_d: int
    fit_from: int
    rounds: int  # of timing what takes less than 50 ms
    points: tuple[Point, ...]


SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
FULL = Grid(
    SIZES,
    20,
    3_000,
    9,
    (
        *(Point(n, d, kappa) for d in (20, 50) for n in SIZES for kappa in KAPPAS),
        *(
            Point(n, d, kappa, model, density, with_sklearn=False)
            for n, d, model, density in (
                (100_000, 5_000, "logistic", 0.005),
                (20_000, 20_000, "logistic", 0.001),
                (2_000, 1_000, "logistic", 1.0),
                (2_000, 400, "logistic", 1.0),
                (10_000, 300, "logistic", 1.0),
                (10_000, 600, "logistic", 1.0),
                (10_000, 50, "softmax", 1.0),
                (100_000, 50, "squares", 1.0),
            )
            for kappa in KAPPAS
        ),
    ),
)
QUICK = Grid(
    (100, 200, 400),
    5,
    100,
    2,
    (
        *(Point(200, 5, kappa) for kappa in KAPPAS),
        Point(200, 50, "n", density=0.1, with_sklearn=False),
        Point(200, 5, "n", model="softmax", with_sklearn=False),
        Point(200, 5, "n", model="squares", with_sklearn=False),
    ),
)


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    grid = QUICK if options.quick else FULL
    rows = list(gradient_rows(grid))
    for point in grid.points:
        timed = Race(point, grid).rows()
        rows += [*timed, auto_row(point, timed)]
    return rows


# -------------------------------------------------------------------------------- problems


class Data:
    """Records of one distribution; those of a smaller n are the first ones of a larger."""

    _kept: tuple[tuple[Any, ...], tuple[Any, np.ndarray]] | None = None

    @classmethod
    def draw(cls, n: int, largest: int, point: Point) -> tuple[Any, np.ndarray]:
        """The first n of `largest` records, of norm at most 1."""
        key = (largest, point.d, point.model, point.density)
        if cls._kept is None or cls._kept[0] != key:
            cls._kept = None  # frees the memory
            cls._kept = (key, cls._draw(largest, point))
        X, targets = cls._kept[1]
        return X[:n], targets[:n]

    @staticmethod
    def _draw(n: int, point: Point) -> tuple[Any, np.ndarray]:
        rng = np.random.default_rng(0)
        scales = np.geomspace(1.0, 1e-4, point.d)
        if point.density == 1:
            X: Any = rng.uniform(-1.0, 1.0, size=(n, point.d))
        else:
            X = sp.random(
                n,
                point.d,
                point.density,
                format="csr",
                random_state=rng,
                data_rvs=lambda size: rng.uniform(-1.0, 1.0, size),
            )
        # before scaling every feature carries the same signal; 3 is its standard deviation
        outputs = 9 if point.model == "softmax" else 1
        signal = X @ rng.choice([-1.0, 1.0], size=(point.d, outputs))
        signal *= 3.0 / math.sqrt(point.d * point.density / 3.0)
        if point.density == 1:
            X *= scales / np.linalg.norm(scales)
        else:
            X = X @ sp.diags(scales)
            X = sp.csr_matrix(X / max(1e-300, float(np.sqrt(X.multiply(X).sum(axis=1)).max())))
        if point.model == "squares":
            return X, np.clip(0.2 * signal[:, 0] + 0.3 * rng.standard_normal(n), -1.0, 1.0)
        scores = np.column_stack([np.zeros(n), signal])
        return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def loss_of(model: str) -> Loss:
    return {
        "logistic": LogisticLoss(),
        "softmax": SoftmaxLoss(10),
        "squares": HalfSquaredLoss(1.0),
    }[model]


def make_problem(X: Any, targets: np.ndarray, model: str, kappa: float) -> FiniteSumProblem:
    loss, rows = loss_of(model), Records(X, 1.0)
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


def make_solver(name: str, batch: int | None = None) -> Solver:
    if name in STOCHASTIC:
        return SOLVERS[name](batch_size=batch, max_passes=1e6)  # type: ignore[call-arg]
    return GradientDescent(max_iterations=10**8) if name == "gradient_descent" else SOLVERS[name]()


# ------------------------------------------------------------------------- part "gradients"


@dataclass(frozen=True)
class Theory:
    """Gradient evaluations up to a logarithm, at b records per batch."""

    formula: str
    leading: Callable[[float, float, float], float]

    def exponent(self, kappa_power: float) -> float:
        """Growth with n at batches of one record and ``kappa = n**kappa_power``, as n grows."""
        n = 1e60
        return math.log(self.leading(n, n**kappa_power, 1.0)) / math.log(n)


_REDUCED = Theory("n + b kappa", lambda n, kappa, b: n + b * kappa)
THEORY = {
    "gradient_descent": Theory("n kappa", lambda n, kappa, b: n * kappa),
    "accelerated_gradient": Theory("n sqrt(kappa)", lambda n, kappa, b: n * math.sqrt(kappa)),
    "svrg": _REDUCED,
    "sarah": _REDUCED,
    "saga": _REDUCED,
    "katyusha": Theory("n + sqrt(b n kappa)", lambda n, kappa, b: n + math.sqrt(b * n * kappa)),
}


def gradient_rows(grid: Grid) -> Iterator[dict[str, Any]]:
    for kappa_name, power in KAPPAS.items():
        for n in grid.gradient_ns:
            point = Point(n, grid.gradient_d, kappa_name)
            X, targets = Data.draw(n, max(grid.gradient_ns), point)
            problem = make_problem(X, targets, "logistic", n**power)
            for name in NAMES:
                for batch in ("default", str(SMALL_BATCH)) if name in STOCHASTIC else ("all",):
                    report(f"gradients, n = {n}, kappa = {kappa_name}, {name}, batch {batch}")
                    counts = count_gradients(problem, name, batch, n**power)
                    yield {"part": "gradients"} | point.columns | counts


def count_gradients(
    problem: FiniteSumProblem, name: str, batch: str, kappa: float
) -> dict[str, Any]:
    """One row: medians over the seeds of the solver."""
    n, accuracy = problem.n_records, wanted_distance(problem)
    size = None if batch in ("all", "default") else int(batch)
    records = float(n)
    if name in STOCHASTIC:
        solver = make_solver(name, size)
        assert isinstance(solver, StochasticSolver)
        records = n / len(solver.batches(problem))
    predicted = math.nan
    if name in THEORY:
        predicted = THEORY[name].leading(n, kappa, records) * math.log(n)
    row = {
        "alpha": problem.alpha,
        "accuracy": accuracy,
        "solver": name,
        "batch": batch,
        "records_per_batch": records,
        "predicted_gradients": predicted,
    }
    if predicted > WORK_CAPS[batch]:
        return row | {"note": f"skipped: predicted gradients above {WORK_CAPS[batch]:.0e}"}
    # a cheap combination can afford three seeds
    cheap = n <= 100_000 and predicted <= WORK_CAPS[batch] / 6.0
    seeds = 3 if name in STOCHASTIC and cheap else 1
    runs = []
    for seed in range(seeds):
        given = counted(problem.for_solver())
        start = time.perf_counter()
        found = make_solver(name, size)._solve(
            given, accuracy, np.zeros(problem.dimension), np.random.default_rng(seed)
        )
        seconds = time.perf_counter() - start
        runs.append(
            {
                "gradients": given.counts.gradients,
                "hessians": given.counts.hessians,
                "seconds": seconds,
                "certified": certify(problem, found).distance <= accuracy,
            }
        )
    gradients = [each["gradients"] for each in runs]
    return row | {
        "seeds": seeds,
        "gradients": statistics.median(gradients),
        "gradients_min": min(gradients),
        "gradients_max": max(gradients),
        "hessians": statistics.median(each["hessians"] for each in runs),
        "seconds": statistics.median(each["seconds"] for each in runs),
        "certified": all(each["certified"] for each in runs),
        "note": "",
    }


# -------------------------------------------------------------------------- part "wall time"


class OutOfTime(Exception):
    """Raised inside a solver that has become too slow."""


@dataclass
class Race:
    """All solvers on one problem, in turn, in one process.

    ``seconds`` is the time of `minimise`. What any of them needs besides, building the problem
    and the final certificate, is ``setup_seconds``; the ratios to scikit-learn, whose time
    includes its validation, contain it.
    """

    point: Point
    grid: Grid
    times: dict[str, list[float]] = field(default_factory=dict)
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    @cached_property
    def data(self) -> tuple[Any, np.ndarray]:
        shape = (self.point.d, self.point.model, self.point.density)
        sizes = [p.n for p in self.grid.points if (p.d, p.model, p.density) == shape]
        return Data.draw(self.point.n, max(sizes), self.point)

    @cached_property
    def problem(self) -> FiniteSumProblem:
        return make_problem(*self.data, self.point.model, self.kappa)

    @property
    def kappa(self) -> float:
        return self.point.n ** KAPPAS[self.point.kappa]

    def rows(self) -> list[dict[str, Any]]:
        entrants = {name: make_solver(name) for name in NAMES} | {"auto": resolve_solver("auto")}
        for name, solver in entrants.items():
            self._try(name, solver)
        self._repeat(entrants)
        setup = statistics.median(self._set_up() for _ in range(3))
        seconds = {name: statistics.median(times) for name, times in self.times.items() if times}
        if self.point.with_sklearn:
            public = {f"scikit-learn {name}": self._sklearn(name) for name in ("saga", "lbfgs")}
        else:
            public = {}
        rivals = {name: time for name, time in seconds.items() if name != "auto"}
        best = min(rivals.values())
        final = self._final(entrants, min(rivals, key=rivals.__getitem__), best)
        rows = []
        for name in entrants:
            own = seconds.get(name, math.nan)
            gradients, hessians = self.counts.get(name, (math.nan, math.nan))
            row = {
                "solver": name,
                "batch": "default" if name in STOCHASTIC else "all",
                "gradients": gradients,
                "hessians": hessians,
                "seconds": own,
                "setup_seconds": setup,
                "repeats": len(self.times.get(name, [])),
                "certified": name in seconds,
                "ratio_to_best": final if name == "auto" else own / best,
                "note": self.notes.get(name, ""),
            }
            for rival, result in public.items():
                row[f"ratio_to_{rival}"] = (own + setup) / result["seconds"]
            rows.append(row)
        rows += [{"solver": name} | result for name, result in public.items()]
        return [
            {"part": "wall time"}
            | self.point.columns
            | {"alpha": self.problem.alpha, "accuracy": wanted_distance(self.problem)}
            | row
            for row in rows
        ]

    def _try(self, name: str, solver: Solver) -> None:
        """First run: warms up, counts, checks the answer, stops what is hopeless."""
        report(f"wall time, {self.point}, {name}")
        if name == "newton" and not Newton.affordable(self.problem):
            self.notes[name] = f"skipped: more than {Newton.max_dimension} coefficients"
            return
        fastest = min((times[0] for times in self.times.values()), default=math.inf)
        limit = min(60.0, max(0.2, PATIENCE * fastest))
        start = time.perf_counter()

        def watch(_: int) -> None:
            if time.perf_counter() - start > limit:
                raise OutOfTime

        given = counted(self.problem.for_solver(), watch)
        accuracy = wanted_distance(self.problem)
        zero = np.zeros(self.problem.dimension)
        try:
            found = solver._solve(given, accuracy, zero, np.random.default_rng(0))
        except OutOfTime:
            self.notes[name] = f"stopped after {limit:.2g} s"
            return
        seconds = time.perf_counter() - start
        self.counts[name] = given.counts.gradients, given.counts.hessians
        assert isinstance(found, np.ndarray)
        if certify(self.problem, found).distance > accuracy:
            self.notes[name] = "did not reach the accuracy"
            return
        self.times[name] = [seconds]

    def _repeat(self, entrants: dict[str, Solver]) -> None:
        """Time what has succeeded, in rounds, so that a busy machine slows all of them."""
        first = {name: times.pop() for name, times in self.times.items()}
        for i in range(self.grid.rounds):
            for name, seconds in first.items():
                if seconds > 0.05 and i >= (3 if seconds < 1.5 else 1):
                    continue
                if seconds < 0.05:  # it would show what the solver before left in the cache
                    self._time(entrants[name], i)
                self.times[name].append(self._time(entrants[name], i))

    def _final(self, entrants: dict[str, Solver], best: str, seconds: float) -> float:
        """The automatic choice against the fastest, pair by pair: the median ratio."""
        ratios = []
        for i in range(3 * self.grid.rounds if seconds < 0.05 else 5 if seconds < 1.5 else 3):
            pair = {name: self._time(entrants[name], i) for name in ("auto", best)}
            ratios.append(pair["auto"] / pair[best])
        return statistics.median(ratios)

    def _time(self, solver: Solver, seed: int) -> float:
        zero, rng = np.zeros(self.problem.dimension), np.random.default_rng(seed)
        start = time.perf_counter()
        solver._solve(self.problem, wanted_distance(self.problem), zero, rng)
        return time.perf_counter() - start

    def _set_up(self) -> float:
        start = time.perf_counter()
        problem = make_problem(*self.data, self.point.model, self.kappa)
        certify(problem, np.zeros(problem.dimension))
        return time.perf_counter() - start

    def _sklearn(self, solver: str) -> dict[str, Any]:
        """scikit-learn with the loosest tolerance that reaches the accuracy."""
        report(f"wall time, {self.point}, scikit-learn {solver}")
        accuracy = wanted_distance(self.problem)
        epochs = 100_000
        if solver == "saga":  # some epochs, to know what they cost
            seconds, _ = self._sklearn_fit(solver, 1e-12, 3)
            epochs = max(1, min(epochs, int(SKLEARN_SECONDS / (seconds / 3.0))))
        result: dict[str, Any] = {"seconds": math.nan, "certified": False, "batch": "scikit-learn"}
        for tolerance in TOLERANCES:
            seconds, model = self._sklearn_fit(solver, tolerance, epochs)
            if certify(self.problem, model.coef_.ravel()).distance <= accuracy:
                repeats = 3 if seconds < 1.5 else 1
                more = [self._sklearn_fit(solver, tolerance, epochs)[0] for _ in range(repeats - 1)]
                return result | {
                    "seconds": statistics.median([seconds, *more]),
                    "repeats": repeats,
                    "certified": True,
                    "sklearn_tol": tolerance,
                    "sklearn_iterations": int(model.n_iter_[0]),
                    "note": "",
                }
            if int(model.n_iter_[0]) >= epochs:
                note = f"did not reach the accuracy in {epochs} iterations, {seconds:.2g} s"
                return result | {"note": note, "sklearn_tol": tolerance}
        return result | {"note": f"did not reach the accuracy with tol = {TOLERANCES[-1]:g}"}

    def _sklearn_fit(
        self, solver: str, tolerance: float, iterations: int
    ) -> tuple[float, LogisticRegression]:
        X, targets = self.data
        model = LogisticRegression(
            C=1.0 / (self.problem.alpha * self.point.n),
            fit_intercept=False,
            solver=solver,
            tol=tolerance,
            max_iter=iterations,
            random_state=0,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those about convergence: it is certified instead
            start = time.perf_counter()
            model.fit(X, targets)
            return time.perf_counter() - start, model


# ------------------------------------------------------------------------------- part "auto"


def auto_row(point: Point, timed: list[dict[str, Any]]) -> dict[str, Any]:
    """The automatic choice against the fastest; its evaluations show which solver it is."""
    own = {row["solver"]: row for row in timed if row["solver"] in (*NAMES, "auto")}
    auto = own.pop("auto")
    counts = auto["gradients"], auto["hessians"]
    same = [name for name, row in own.items() if (row["gradients"], row["hessians"]) == counts]
    best = min((row for row in own.values() if row["certified"]), key=lambda row: row["seconds"])
    return {
        "part": "auto",
        **point.columns,
        "solver": "auto",
        "auto_is": " or ".join(same),
        "best_solver": best["solver"],
        "best_seconds": best["seconds"],
        "seconds": auto["seconds"],
        "certified": auto["certified"],
        "ratio_to_best": auto["ratio_to_best"],
        "note": auto["note"],
    }


# ----------------------------------------------------------------------------------- results


def exponents(table: pd.DataFrame, fit_from: int) -> pd.DataFrame:
    """Growth of the gradient evaluations with n, by least squares on logarithms.

    ``theory here`` is the same fit to the formula, with its batch size, at the same n;
    ``theory, b = 1`` its limit for batches of one record.
    """
    part = table[(table["part"] == "gradients") & table["gradients"].notna()]
    part = part[part["certified"].astype(bool) & (part["n"] >= fit_from)]
    rows = []
    for (name, batch, kappa), group in part.groupby(["solver", "batch", "kappa"], sort=False):
        theory = THEORY.get(name)
        power = KAPPAS[kappa]
        row = {"solver": name, "batch": batch, "kappa": kappa, "points": len(group)}
        row["largest n"] = int(group["n"].max())
        row["passes there"] = group["gradients"].iloc[-1] / group["n"].iloc[-1]
        row["exponent"] = slope(group["n"], group["gradients"])
        row["over log n"] = slope(group["n"], group["gradients"] / np.log(group["n"]))
        if theory is not None:
            sizes = zip(group["n"], group["records_per_batch"], strict=True)
            work = [theory.leading(n, n**power, b) for n, b in sizes]
            row["theory here"] = slope(group["n"], work)
            row["theory, b = 1"] = theory.exponent(power)
            row["formula"] = theory.formula
        rows.append(row)
    return pd.DataFrame(rows)


def slope(n: Any, work: Any) -> float:
    if len(n) < 2:
        return math.nan
    return float(np.polyfit(np.log(np.asarray(n, float)), np.log(np.asarray(work, float)), 1)[0])


def fit_from(table: pd.DataFrame) -> int:
    return QUICK.fit_from if bool(table["quick"].all()) else FULL.fit_from


def summarise(table: pd.DataFrame) -> str:
    show = {"index": False, "float_format": "{:.3g}".format, "na_rep": "-"}
    gradients = table[table["part"] == "gradients"]
    skipped = gradients[gradients["gradients"].isna()]
    failed = gradients[gradients["gradients"].notna() & (gradients["certified"] != True)]  # noqa: E712
    timed = table[table["part"] == "wall time"]
    auto = table[table["part"] == "auto"]
    late = auto[~(auto["ratio_to_best"] <= 1.5)]
    return "\n".join(
        [
            f"gradient evaluations ~ n^exponent, from n = {fit_from(table)}",
            exponents(table, fit_from(table)).to_string(**show),
            f"skipped: {len(skipped)}, without a certificate: {len(failed)}",
            "",
            "time relative to scikit-learn at the same certified distance, below 1 skdp is faster",
            against_sklearn(timed).to_string(**show),
            "",
            f'"auto" against the fastest: {len(late)} of {len(auto)} points above 1.5',
            auto[
                [
                    *("model", "layout", "n", "d", "kappa", "auto_is", "seconds"),
                    *("best_solver", "best_seconds", "ratio_to_best"),
                ]
            ].to_string(**show),
        ]
    )


def against_sklearn(timed: pd.DataFrame) -> pd.DataFrame:
    """One row per point that scikit-learn has solved or tried."""
    keys = ["model", "layout", "d", "kappa", "n"]
    rows = []
    for values, group in timed.groupby(keys, sort=False):
        public = group[group["solver"].str.startswith("scikit-learn")]
        if public.empty:
            continue
        own = group[group["solver"].isin(NAMES)].sort_values("seconds").iloc[0]
        auto = group[group["solver"] == "auto"].iloc[0]
        row = dict(zip(keys, values, strict=True)) | {"best": own["solver"]}
        row |= {
            "best s": own["seconds"],
            "auto s": auto["seconds"],
            "setup s": own["setup_seconds"],
        }
        for name, seconds in zip(public["solver"], public["seconds"], strict=True):
            short = name.replace("scikit-learn ", "")
            row |= {
                f"{short} s": seconds,
                f"best/{short}": own[f"ratio_to_{name}"],
                f"auto/{short}": auto[f"ratio_to_{name}"],
            }
        rows.append(row)
    return pd.DataFrame(rows)


def plot(table: pd.DataFrame, path: Path) -> None:
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(17.0, 8.5))
    for axis, kappa in zip(axes, KAPPAS, strict=False):
        draw_gradients(axis, table, kappa)
    draw_times(axes[2], table[table["part"] == "wall time"])
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    plt.close(figure)


def draw_gradients(axis: Any, table: pd.DataFrame, kappa: str) -> None:
    fits = exponents(table, fit_from(table))
    part = table[(table["part"] == "gradients") & (table["kappa"] == kappa)]
    done = part[part["gradients"].notna()]
    for (name, batch), group in done.groupby(["solver", "batch"], sort=False):
        fit = fits[(fits["solver"] == name) & (fits["batch"] == batch) & (fits["kappa"] == kappa)]
        label = name.replace("_", " ")
        if name in STOCHASTIC:
            label += ", default batch" if batch == "default" else f", batch {batch}"
        if len(fit):
            label += f": {fit['exponent'].iloc[0]:.2f}"
            if name in THEORY:
                label += f" ({fit['theory here'].iloc[0]:.2f})"
        axis.plot(
            group["n"],
            group["gradients"] / group["n"],
            marker="o",
            markersize=4,
            color=COLORS[name],
            linestyle="--" if batch == "default" else "-",
            label=label,
        )
        if name in THEORY and batch != "default":
            fitted = group[group["n"] >= fit_from(table)]
            n = fitted["n"].to_numpy(dtype=float)
            sizes = zip(n, fitted["records_per_batch"], strict=True)
            work = [THEORY[name].leading(x, x ** KAPPAS[kappa], b) for x, b in sizes] * np.log(n)
            scale = fitted["gradients"].to_numpy()[:1] / work[:1] if len(n) else 1.0
            axis.plot(n, scale * work / n, color=COLORS[name], linestyle=":", linewidth=1.2)
    axis.plot([], [], color="0.5", linestyle=":", label="formula times log(n)")
    axis.set(xscale="log", yscale="log", xlabel="n", title=f"kappa = {kappa}")
    axis.set_ylabel("gradient evaluations / n")
    axis.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.08),
        ncols=2,
        fontsize=8,
        frameon=False,
        title="growth of the evaluations with n (theory, same n and batches)",
        title_fontsize=9,
    )


def draw_times(axis: Any, timed: pd.DataFrame) -> None:
    for color, rival in enumerate(("saga", "lbfgs")):
        column = f"ratio_to_scikit-learn {rival}"
        part = timed[(timed["solver"] == "auto") & timed[column].notna()]
        for (d, kappa), group in part.groupby(["d", "kappa"], sort=False):
            axis.plot(
                group["n"],
                group[column],
                color=f"C{color}",
                marker="o" if kappa == "n" else "s",
                markersize=5,
                linestyle="-" if d == part["d"].max() else ":",
                label=f"{rival}, d = {d}, kappa = {kappa}",
            )
    axis.axhline(1.0, color="grey", linewidth=1)
    axis.set(xscale="log", yscale="log", xlabel="n", title="time at the same certified distance")
    axis.set_ylabel('solver="auto" / solver of scikit-learn')
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=2, fontsize=8, frameon=False)


def report(message: str) -> None:
    print(f"solvers: {message}", file=sys.stderr, flush=True)
