"""Measured excess risk against n and d, beside the rates of the theorems.

Classes of losses as in Lowy and Razaviyayn (2021): F strongly convex, H also smooth, G convex,
J also smooth; G and J are regularised for privacy. ``kind`` says what an instance is for:

- ``tight``: losses of w itself whose every direction feels the noise (a cone around one point, a
  quadratic around each record). The upper bounds cannot be improved there by more than constants,
  so that the slopes should be those of the theory. Penalty of G and J: the minimiser of the bound.
- ``linear model``: losses of one margin, as the estimators minimise them. The signal is in one
  direction and the comparator has a fixed norm. Isotropic noise of scale s moves a margin by s
  however many directions there are, so that the excess grows less with d than the theory for
  general losses allows. Penalty of G and J: the package's own choice.

``theory_slope`` is the least-squares slope on the same grid of the published rate, ``bound_slope``
of a public bound with all its terms; for linear models it is the one that the package plans with.
``fitted_slope`` is that of the measured excess: over the exact minimiser on the records, or over
the best predictor for objective "population", averaged over seeds. A seed gives the same noise, up
to its scale, at every n. Rates are upper bounds: what is below them may fall faster with n.
Published rates of phases and of "population" have a term n^-1/2 for what a sample does not tell,
which smooth losses, and residuals that are spread out, do not attain.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from skdp.algorithms import (
    Run,
    exponential_mechanism,
    output_perturbation,
    phased_output_perturbation,
    plan_output_perturbation,
)
from skdp.algorithms.output.regularized_risk import plan_regularized_risk, utility_bound
from skdp.mechanisms import NoiseSource, calibrated_mechanism
from skdp.privacy import PrivacyBudget
from skdp.problems import (
    AbsoluteLoss,
    Ball,
    DeclaredProblem,
    Design,
    EmpiricalRisk,
    FiniteSumProblem,
    HalfSquaredLoss,
    HingeLoss,
    LogisticLoss,
    Loss,
    Objective,
    Problem,
    Records,
)
from skdp.problems.piecewise_linear import PiecewiseLinearLoss
from skdp.solvers import Newton, resolve_solver

#: Of the studies that do not say otherwise.
EPSILON = 1.0
#: Of the studies of phases: with less privacy, sampling hides the noise.
PHASED_EPSILON = 0.1
DELTAS = (0.0, 1e-6)
#: Alpha of the penalty of classes F and H on linear models.
ALPHA = 0.1


@dataclass(frozen=True)
class Grid:
    """Values of the axis that varies, and the other axis at its fixed value."""

    n: tuple[int, ...]
    d: tuple[int, ...]
    fixed_n: int
    fixed_d: int
    seeds: int

    def points(self, axis: str) -> list[tuple[int, int]]:
        if axis == "n":
            return [(n, self.fixed_d) for n in self.n]
        return [(self.fixed_n, d) for d in self.d]


@dataclass(frozen=True)
class Measurement:
    """Excess risks of one (n, d), one per seed, and a public bound on their mean."""

    excess: np.ndarray
    bound: float


#: (n, d, budget, seeds) -> Measurement
Experiment = Callable[[int, int, PrivacyBudget, int], Measurement]


@dataclass(frozen=True)
class Study:
    """One line of the figure.

    Attributes
    ----------
    family : str
        F, H, G or J; "phased" and "exponential" hold for more than one.
    kind, instance, method, objective : str
    experiment : callable
    rate : callable
        ``(n, q) -> float`` with q = d / epsilon or sqrt(d) sigma / sensitivity: the theory's rate
        up to factors without n and d.
    grid : Grid
    epsilon : float
    deltas : tuple of float
    """

    family: str
    kind: str
    instance: str
    experiment: Experiment
    rate: Callable[[int, float], float]
    grid: Grid
    method: str = "output"
    objective: str = "empirical"
    epsilon: float = EPSILON
    deltas: tuple[float, ...] = DELTAS


RATES: dict[str, Callable[[int, float], float]] = {
    "F": lambda n, q: q / n,
    "H": lambda n, q: (q / n) ** 2,
    "G": lambda n, q: (q / n) ** 0.5,
    "J": lambda n, q: (q / n) ** (2.0 / 3.0),
    "phased": lambda n, q: n**-0.5 + q / n,
    "exponential": lambda n, q: q / n,
}


def population_rate(family: str) -> Callable[[int, float], float]:
    return lambda n, q: RATES[family](n, q) + n**-0.5


def noise_units(d: int, budget: PrivacyBudget) -> float:
    """Root mean square of the noise for sensitivity 1: about d / epsilon, or sqrt(d) sigma."""
    return math.sqrt(calibrated_mechanism(budget, 1.0).mean_square(d))


def theory_units(d: int, budget: PrivacyBudget) -> float:
    """The same without lower-order terms."""
    return d / budget.epsilon if budget.is_pure else noise_units(d, budget)


# ------------------------------------------------------------------------- tight instances


def released(problem: Problem, budget: PrivacyBudget, seeds: Iterable[int]) -> np.ndarray:
    """Private points, shape (len(seeds), dimension); the exact solution is found once."""
    plan = plan_output_perturbation(problem.constants, budget)
    zero, rng = np.zeros(problem.dimension), np.random.default_rng(0)
    solution = resolve_solver("auto")._solve(problem, 0.25 * plan.accuracy, zero, rng)
    points = [
        output_perturbation(
            problem,
            budget,
            run=Run(
                solver=lambda problem, accuracy: solution,
                noise=NoiseSource(np.random.default_rng(seed).bytes),
            ),  # certified for every seed again
        ).point
        for seed in seeds
    ]
    return np.array(points)


def cone(n: int, d: int, budget: PrivacyBudget, seeds: int, convex: bool) -> Measurement:
    """``||w - c||`` for every record: the kink is at the minimiser, where the noise costs most.

    What is minimised is the cone's Moreau envelope, what is measured the cone. Strongly convex: a
    public penalty ``||w||^2 / 2`` belongs to the loss; else the penalty is there for privacy and
    minimises ``L E||z|| + (alpha / 2) R^2`` (R = 1).
    """
    center = np.full(d, 0.5 / math.sqrt(d))
    units = noise_units(d, budget) / n
    alpha = 2.0 * math.sqrt(units) if convex else 1.0
    noise = 2.0 / alpha * units  # Lipschitz constant 1, hence sensitivity 2 / (alpha n)
    width = 0.05 * noise  # costs at most 2.5 % of what the noise costs

    def value_and_gradient(w: np.ndarray) -> tuple[float, np.ndarray]:
        offset = w - center
        distance = float(np.linalg.norm(offset))
        if distance <= width:
            return 0.5 * distance**2 / width, offset / width
        return distance - 0.5 * width, offset / distance

    def hessian(w: np.ndarray) -> np.ndarray:
        offset = w - center
        distance = float(np.linalg.norm(offset))
        if distance <= width:
            return np.eye(d) / width
        return np.eye(d) / distance - np.outer(offset, offset) / distance**3

    problem = DeclaredProblem(
        value_and_gradient,
        dimension=d,
        lipschitz=1.0,
        smoothness=1.0 / width,
        alpha=alpha,
        domain=Ball(1.0),
        n_records=n,
        mean_of_records=True,
        hessian=hessian,
    )
    points = released(problem, budget, range(seeds))
    excess = np.linalg.norm(points - center, axis=1)
    if not convex:  # the center minimises the penalised cone too: its slope 1 exceeds alpha ||c||
        excess += 0.5 * alpha * ((points**2).sum(axis=1) - center @ center)
    return Measurement(excess, noise + (0.5 * alpha if convex else 0.0))


def quadratic(n: int, d: int, budget: PrivacyBudget, seeds: int, convex: bool) -> Measurement:
    """``||w - x_i||^2 / 2`` for records in the unit ball: their mean is the minimiser.

    Strongly convex as it is (class H). As a member of class J it is regularised like a loss of
    which only smoothness is known, with the penalty that minimises
    ``E||z||^2 / 2 + (alpha / 2) R^2`` (R = 1).
    """
    rng = np.random.default_rng([n, d])
    records = rng.standard_normal((n, d))
    records *= 0.5 / np.linalg.norm(records, axis=1, keepdims=True)
    records += 0.5 / math.sqrt(d)
    mean = records.mean(axis=0)
    square = 0.5 * float((records**2).sum(axis=1).mean())
    diameter = 2.0  # of the gradients w - x_i
    units = noise_units(d, budget) * diameter / n  # root mean square of the noise times mu
    alpha = (2.0 * units**2) ** (1.0 / 3.0) if convex else 0.0
    problem = DeclaredProblem(
        lambda w: (square + 0.5 * float(w @ w) - float(w @ mean), w - mean),
        dimension=d,
        lipschitz=2.0,
        smoothness=1.0,
        strong_convexity=0.0 if convex else 1.0,
        alpha=alpha,
        domain=Ball(1.0),
        n_records=n,
        mean_of_records=True,
        gradient_diameter=diameter,
        hessian=lambda w: np.eye(d),
    )
    points = released(problem, budget, range(seeds))
    excess = 0.5 * ((points - mean) ** 2).sum(axis=1)
    noise = 0.5 * (units / (alpha if convex else 1.0)) ** 2
    return Measurement(excess, noise + 0.5 * alpha)


# -------------------------------------------------------------------------- linear models


@dataclass(frozen=True)
class Model:
    """A loss, records for it and the norm of the coefficients that are looked for."""

    name: str
    loss: Loss
    radius: float
    residual: float = 0.5  # largest, of a regression

    @property
    def is_classification(self) -> bool:
        return isinstance(self.loss, HingeLoss | LogisticLoss)

    def records(self, n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Rows in the unit ball with all of the signal in the first feature."""
        rng = np.random.default_rng([seed, n, d])
        first = rng.uniform(-0.7, 0.7, size=(n, 1))
        rest = rng.standard_normal((n, d - 1))
        if d > 1:
            rest *= 0.7 / np.linalg.norm(rest, axis=1, keepdims=True)
        X = np.hstack([first, rest])
        if self.is_classification:
            y = (4.0 * X[:, 0] + rng.logistic(size=n) > 0).astype(float)
        else:  # within [-1, 1] without clipping
            y = 0.7 * X[:, 0] + self.residual * rng.uniform(-1.0, 1.0, size=n)
        return X, y


LOGISTIC = Model("logistic", LogisticLoss(), 6.0)
HINGE = Model("hinge", HingeLoss(), 6.0)
SQUARED = Model("squared", HalfSquaredLoss(1.0), 1.0)
ABSOLUTE = Model("absolute", AbsoluteLoss(1.0), 1.0)
#: Every record has its kink at the minimiser.
EXACT = Model("absolute, exact fit", AbsoluteLoss(1.0), 1.0, residual=0.0)


@dataclass(frozen=True)
class Sample:
    """Records of a linear model, and the objective on them."""

    model: Model
    n: int
    d: int
    seed: int = 0

    @cached_property
    def data(self) -> tuple[np.ndarray, np.ndarray]:
        return self.model.records(self.n, self.d, self.seed)

    @cached_property
    def records(self) -> Records:
        X, y = self.data
        return Records(X, 1.0, targets=y)

    @property
    def design(self) -> Design:
        return Design.of(self.records)

    def objective(self, points: np.ndarray, alpha: float) -> np.ndarray:
        """Mean loss and penalty at some points, shape (len(points),)."""
        X, y = self.data
        total = np.array([self.model.loss.value(X @ point, y).mean() for point in points])
        return total + 0.5 * alpha * (points**2).sum(axis=1)

    @cache  # noqa: B019 - `sample` keeps few of them
    def least(self, alpha: float) -> float:
        """Minimum of the objective over the ball of the model's radius.

        Of a loss with a kink: its value at the minimiser of a narrow envelope, which is above
        the minimum by at most half of the width.
        """
        loss, point = self.model.loss, np.zeros(self.d)
        widths = (0.1, 1e-2, 1e-3) if isinstance(loss, PiecewiseLinearLoss) else (0.0,)
        for width in widths:
            smooth = loss.smoothed(width) if isinstance(loss, PiecewiseLinearLoss) else loss
            problem = FiniteSumProblem(
                self.records,
                smooth,
                max(alpha, 1e-9),
                Ball(self.model.radius),
            )
            point = Newton()._solve(problem, 1e-4, point, np.random.default_rng(0))
        return float(self.objective(point[None], alpha)[0])


@lru_cache(maxsize=4)
def sample(model: Model, n: int, d: int, seed: int = 0) -> Sample:
    return Sample(model, n, d, seed)


def private_linear(
    given: Sample,
    alpha: float | None,
    budget: PrivacyBudget,
    seeds: Iterable[int],
    population: bool = False,
) -> tuple[np.ndarray, float]:
    """Points of one-shot output perturbation, and a bound on their excess."""
    model, design, risk = given.model, given.design, EmpiricalRisk(given.model.loss)
    norm = model.radius if alpha is None else None
    objective = Objective(risk, design, alpha=alpha or 0.0, coef_norm=norm, population=population)
    plan = plan_regularized_risk(objective, budget)
    constants = plan.step.constants
    assert constants.domain_radius is not None
    problem = plan.objective.problem(given.records, plan.alpha, constants.domain_radius)
    bound = utility_bound(
        plan.objective,
        constants,
        plan.step.accuracy,
        plan.step.mechanism.mean_square(constants.dimension),
        comparator_norm=model.radius,
        second_moment=1.0,
    )
    return released(problem, budget, seeds), bound


def linear(model: Model, alpha: float | None) -> Experiment:
    """One-shot output perturbation of a linear model, on the records."""

    def experiment(n: int, d: int, budget: PrivacyBudget, seeds: int) -> Measurement:
        given = sample(model, n, d)
        points, bound = private_linear(given, alpha, budget, range(seeds))
        return Measurement(excess_of(given, points, alpha or 0.0), bound)

    return experiment


def excess_of(given: Sample, points: np.ndarray, alpha: float) -> np.ndarray:
    return given.objective(points, alpha) - given.least(alpha)


def population(model: Model) -> Experiment:
    """Excess over the best predictor on new records; new records for every seed, too.

    The best predictor of both regressions is the one that the targets are made with, and the
    residuals are uniform on [-1/2, 1/2], so that the expected loss of a margin is known; the
    mean over the features is one over rows that are drawn once.
    """

    def experiment(n: int, d: int, budget: PrivacyBudget, seeds: int) -> Measurement:
        fresh, _ = model.records(20_000, d, seed=1)
        best = np.zeros(d)
        best[0] = 0.7
        excess, bound = [], 0.0
        for seed in range(seeds):
            given = Sample(model, n, d, 2 + seed)
            points, bound = private_linear(given, None, budget, [seed], population=True)
            moved = np.abs(fresh @ (points[0] - best))
            if isinstance(model.loss, HalfSquaredLoss):
                excess.append(0.5 * np.mean(moved**2))
            else:
                excess.append(np.mean(np.where(moved < 0.5, moved**2, moved - 0.25)))
        return Measurement(np.array(excess), bound)

    return experiment


def phased(model: Model) -> Experiment:
    """Phases on disjoint blocks, on all records."""

    def experiment(n: int, d: int, budget: PrivacyBudget, seeds: int) -> Measurement:
        given = sample(model, n, d)
        risk = EmpiricalRisk(model.loss)
        results = [
            phased_output_perturbation(
                given.records,
                risk,
                budget,
                radius=model.radius,
                run=Run(
                    rng=np.random.default_rng([1, seed]),
                    noise=NoiseSource(np.random.default_rng([0, seed]).bytes),
                ),
            )
            for seed in range(seeds)
        ]
        points = np.array([result.point for result in results])
        bound = results[0].plan.bound()
        return Measurement(excess_of(given, points, 0.0), bound)

    return experiment


def exponential(n: int, d: int, budget: PrivacyBudget, seeds: int) -> Measurement:
    """Draws from the exponential mechanism on the ball, least squares."""
    given = sample(SQUARED, n, d)
    results = [
        exponential_mechanism(
            given.records,
            SQUARED.loss,
            budget,
            radius=SQUARED.radius,
            run=Run(noise=NoiseSource(np.random.default_rng(seed).bytes)),
        )
        for seed in range(seeds)
    ]
    points = np.array([result.point for result in results])
    return Measurement(excess_of(given, points, 0.0), results[0].plan.bound())


# --------------------------------------------------------------------------------- studies


def studies(quick: bool) -> list[Study]:
    if quick:
        tight = models = phases = many = Grid((1000, 4000), (2, 4), 4000, 2, 2)
        low = Grid((1000, 4000), (1, 2), 4000, 1, 2)
    else:
        decades = (3_000, 10_000, 30_000, 100_000, 300_000)
        tight = Grid(decades, (4, 8, 16, 32, 64, 128), 300_000, 8, 100)
        models = Grid((1_000, 3_000, 10_000, 30_000, 100_000), (2, 4, 8, 16, 32), 30_000, 8, 50)
        phases = Grid((3_000, 10_000, 30_000, 100_000, 300_000), (2, 4, 8, 16, 32), 100_000, 8, 12)
        many = Grid((1_000, 3_000, 10_000, 30_000, 100_000), (2, 4, 8, 16, 32), 30_000, 8, 20)
        low = Grid((1_000, 3_000, 10_000, 30_000), (1, 2, 3, 4, 6), 10_000, 2, 50)

    def study(family: str, kind: str, instance: str, experiment: Experiment, grid: Grid) -> Study:
        return Study(family, kind, instance, experiment, RATES[family], grid)

    def on_tight(family: str, name: str, function: Any, convex: bool) -> Study:
        def experiment(n: int, d: int, budget: PrivacyBudget, seeds: int) -> Measurement:
            return function(n, d, budget, seeds, convex)

        return study(family, "tight", name, experiment, tight)

    def on_model(family: str, model: Model) -> Study:
        experiment = linear(model, ALPHA if family in "FH" else None)
        return study(family, "linear model", model.name, experiment, models)

    return [
        on_tight("F", "cone and penalty", cone, False),
        on_model("F", HINGE),
        on_model("F", EXACT),
        on_tight("H", "quadratic", quadratic, False),
        on_model("H", LOGISTIC),
        on_model("H", SQUARED),
        on_tight("G", "cone", cone, True),
        on_model("G", HINGE),
        on_model("G", ABSOLUTE),
        on_model("G", EXACT),
        on_tight("J", "quadratic", quadratic, True),
        on_model("J", LOGISTIC),
        on_model("J", SQUARED),
        *(
            Study(
                *(family, "linear model", model.name, population(model), population_rate(family)),
                grid=many,
                objective="population",
            )
            for family, model in (("G", ABSOLUTE), ("J", SQUARED))
        ),
        *(
            Study(
                *("J", "linear model", model.name, phased(model), RATES["phased"], phases),
                method="phased",
                epsilon=PHASED_EPSILON,
            )
            for model in (LOGISTIC, SQUARED)
        ),
        Study(
            *("J", "linear model", "squared", exponential, RATES["exponential"], low),
            method="exponential",
            deltas=(0.0,),
        ),
    ]


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    rows = []
    chosen = studies(options.quick)
    if options.quick:  # one of each sort
        sorts = {
            (study.family, study.kind, study.method, study.objective): study for study in chosen
        }
        chosen = list(sorts.values())
    for study in chosen:
        for axis in ("n", "d"):
            print(
                f"slopes: {study.family}, {study.instance}, {study.method}, "
                f"{study.objective}, against {axis}",
                file=sys.stderr,
                flush=True,
            )
            # delta varies fastest, so that the records of a point are made once
            points = study.grid.points(axis)
            found = {
                (n, d, delta): study.experiment(
                    n, d, PrivacyBudget(study.epsilon, delta), study.grid.seeds
                )
                for n, d in points
                for delta in study.deltas
            }
            for delta in study.deltas:
                curve = [found[n, d, delta] for n, d in points]
                rows += curve_rows(study, axis, delta, points, curve)
    return rows


def curve_rows(
    study: Study,
    axis: str,
    delta: float,
    points: list[tuple[int, int]],
    curve: list[Measurement],
) -> list[dict[str, Any]]:
    """One row per point; the three slopes of the curve are in each of them."""
    grid = [n if axis == "n" else d for n, d in points]
    budget = PrivacyBudget(study.epsilon, delta)
    rates = [study.rate(n, theory_units(d, budget)) for n, d in points]
    means = [float(found.excess.mean()) for found in curve]
    slopes = {
        "theory_slope": slope(grid, rates),
        "bound_slope": slope(grid, [found.bound for found in curve]),
        "fitted_slope": slope(grid, means),
    }
    return [
        {
            "class": study.family,
            "kind": study.kind,
            "instance": study.instance,
            "method": study.method,
            "objective": study.objective,
            "epsilon": study.epsilon,
            "delta": delta,
            "axis": axis,
            "n": n,
            "d": d,
            "seeds": len(found.excess),
            "excess": mean,
            "standard_error": float(found.excess.std()) / math.sqrt(len(found.excess)),
            "bound": found.bound,
        }
        | slopes
        for (n, d), found, mean in zip(points, curve, means, strict=True)
    ]


def slope(grid: Any, values: Any) -> float:
    """Least-squares slope on logarithms; NaN if a value is not positive."""
    values = np.asarray(values, dtype=float)
    if len(values) < 2 or not (values > 0).all():
        return math.nan
    return float(np.polyfit(np.log(np.asarray(grid, dtype=float)), np.log(values), 1)[0])


# --------------------------------------------------------------------------------- results

_CURVE = ["class", "kind", "instance", "method", "objective", "axis", "delta"]
_SLOPES = ["theory_slope", "bound_slope", "fitted_slope"]


def summarise(table: pd.DataFrame) -> str:
    curves = table.groupby(_CURVE, sort=False)[_SLOPES].first().reset_index()
    largest = table.assign(share=table["excess"] / table["bound"])
    curves["excess/bound"] = largest.groupby(_CURVE, sort=False)["share"].max().to_numpy()
    curves["delta"] = [f"{delta:g}" for delta in curves["delta"]]
    return (
        "slopes of the mean excess risk; excess/bound: largest on the curve\n"
        + curves.to_string(index=False, float_format="{:.2f}".format)
    )


def plot(table: pd.DataFrame, path: Path) -> None:
    """One row of panels per class and method, the axes n and d side by side."""
    from matplotlib import pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

    parts = [
        (f"class {family}, one shot", (table["class"] == family) & own)
        for own in [(table["method"] == "output") & (table["objective"] == "empirical")]
        for family in "FHGJ"
    ]
    parts.append(("one shot, population", table["objective"] == "population"))
    parts.append(("phased and exponential", table["method"] != "output"))
    figure, axes = plt.subplots(len(parts), 2, figsize=(11.5, 3.3 * len(parts)))
    for (title, chosen), line in zip(parts, axes, strict=True):
        curves = table[chosen]
        names = {
            key: i
            for i, key in enumerate(
                dict.fromkeys(zip(curves["instance"], curves["method"], strict=True))
            )
        }
        for axis, panel in zip("nd", line, strict=True):
            for key, curve in curves[curves["axis"] == axis].groupby(_CURVE, sort=False):
                draw_curve(panel, curve, axis, names[key[2], key[3]])
            panel.set_xscale("log")
            panel.set_yscale("log")
            panel.set_xlabel(axis)
            if axis == "d":  # few and near to each other
                ticks = sorted(curves.loc[curves["axis"] == axis, "d"].unique())
                panel.set_xticks(ticks, map(str, ticks))
                panel.xaxis.set_minor_locator(NullLocator())
            panel.yaxis.set_major_locator(LogLocator(subs=_ticks(curves["excess"])))
            panel.yaxis.set_minor_formatter(NullFormatter())
            panel.yaxis.set_major_formatter("{x:g}")
            fixed = "d" if axis == "n" else "n"
            at = sorted(curves.loc[curves["axis"] == axis, fixed].unique())
            panel.set_title(f"{title}; {fixed} = {', '.join(map(str, at))}", fontsize=10)
        line[0].set_ylabel("mean excess risk")
        line[1].legend(fontsize=7.5, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    figure.suptitle("Measured excess risk (points) and slopes of the theory (lines)")
    figure.tight_layout(rect=(0, 0, 1, 0.99))
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _ticks(values: pd.Series) -> tuple[float, ...]:
    """Digits to label, fewer if there are many decades."""
    return (1.0,) if values.max() > 100.0 * values.min() else (1.0, 2.0, 5.0)


def draw_curve(panel: Any, curve: pd.DataFrame, axis: str, shape: int) -> None:
    """Points of one curve, and a line of the theory's slope through their middle."""
    first = curve.iloc[0]
    pure = first["delta"] == 0
    color = f"C{2 * shape + (0 if pure else 1)}"
    label = (
        first["instance"]
        if first["method"] == "output"
        else (f"{first['method']}, {first['instance']}")
    )
    label += ", delta = 0" if pure else f", delta = {first['delta']:g}"
    label += f": {first['fitted_slope']:.2f} ({first['theory_slope']:.2f})"
    grid, means = curve[axis].to_numpy(float), curve["excess"].to_numpy(float)
    panel.errorbar(
        grid,
        means,
        yerr=2.0 * curve["standard_error"],
        fmt="osD^"[shape],
        color=color,
        mfc=color if pure else "white",
        ms=5,
        linewidth=0.8,
        label=label,
    )
    middle = np.exp(np.mean(np.log(means))) if (means > 0).all() else math.nan
    center = np.exp(np.mean(np.log(grid)))
    panel.plot(
        grid,
        middle * (grid / center) ** first["theory_slope"],
        color=color,
        linewidth=1,
        linestyle="-" if first["kind"] == "tight" else "--",
    )
