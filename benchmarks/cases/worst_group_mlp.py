"""Worst group: the private network against private linear models, DP-SGDA and DP-GD.

- ``made``: two groups (a quarter and the rest, which a feature tells apart) whose labels follow
  one feature with opposite signs: no linear model serves both. DP-RGDA is
  ``DPMaxGroupLossMLPClassifier`` at its defaults; "with differences" releases changes of gradients
  in three of four steps; "DP-GD on Phi" is the same objective with steps that are not normalised;
  DP-SGDA takes Poisson batches of 10 % and steps in x and y at once.
- ``conflict``: that of the case ``worst_group``, a minority of a tenth that a linear model serves.
- ``breast_cancer``: 426 records, the classes are the groups; what few records do to the network.
- ``slopes``: numbers; two groups (a fifth and the rest) whose slopes differ in one feature, n =
  20,000, targets in [-3, 3]. The score is the mean loss of the worst group.
- ``adult``, ``california`` with ``--adult PATH``, ``--california PATH``: defaults alone. Groups of
  Adult: sex and race with public shares; of California (median value above 200,000 dollars): the
  places of the census, taken as public.

Scores are on test records: worst accuracy and worst mean log loss of a group, means over seeds of
the noise. All budgets are (epsilon, 1e-6), replace-one.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import data as prepared
from benchmarks.cases.worst_group import adult, conflict, labels
from benchmarks.groups import Data, divided, unit_rows
from skdp.algorithms import RGDASettings, Run, plan_dp_rgda
from skdp.linear_model import DPLogisticRegression
from skdp.mechanisms import NoiseSource
from skdp.privacy import PrivacyBudget
from skdp.problems import (
    GroupNetworkProblem,
    GroupWeights,
    LogisticLoss,
    MinimaxProblem,
    Network,
    NullControl,
    RecordGradients,
    Records,
    Simplex,
)
from skdp.robust import (
    DPMaxGroupLossClassifier,
    DPMaxGroupLossMLPClassifier,
    DPMaxGroupLossRegressor,
)

DELTA = 1e-6
SHARES = {"few": 0.25, "most": 0.75}
#: Records of the small sets, which have rows at epsilon 1 alone.
FEW = 2_000


def made(n: int, test: int, seed: int = 0, d: int = 10) -> Data:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n + test, d))
    few = rng.random(n + test) < SHARES["few"]
    X[:, -1] = np.where(few, 1.5, -0.5)
    y = labels(np.where(few, -3.0, 3.0) * X[:, 0] + 2.0 * X[:, 1], rng)
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), np.sqrt(d))
    return divided("made", (X, y, np.where(few, "few", "most")), n, SHARES)


def breast_cancer() -> Data:
    """A random quarter for testing; classes and their shares are those of the documentation."""
    loaded = prepared.breast_cancer()
    order = np.roll(np.random.default_rng(0).permutation(len(loaded.y)), -143)
    records = loaded.X, loaded.y, loaded.y.astype(str)
    return divided("breast_cancer", records, len(order) - 143, {"0": 0.37, "1": 0.63}, order)


def slopes(n: int, seed: int, d: int = 6) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, targets and groups."""
    rng = np.random.default_rng(seed)
    X = unit_rows(rng, n, d)
    groups = (rng.random(n) < 0.2).astype(int)
    y = 1.5 * X[:, 0] + np.where(groups == 1, X[:, 1], -X[:, 1]) + 0.3 * rng.standard_normal(n)
    return X, np.clip(y, -3.0, 3.0), groups


def california(path: str) -> Data:
    loaded = prepared.read_california(path)
    places = pd.read_csv(path)["ocean_proximity"].replace("ISLAND", "NEAR OCEAN")
    groups = places.to_numpy(dtype=str)
    test = np.random.default_rng(0).random(len(groups)) < 1 / 3
    records, order = (
        (loaded.X, (loaded.y > 200_000.0).astype(int), groups),
        np.argsort(test, kind="stable"),
    )
    shares = dict.fromkeys(sorted(set(groups)), 1.0)
    return divided("california", records, int((~test).sum()), shares, order)


def estimators(data: Data, epsilon: float) -> dict[str, Callable[[int], Any]]:
    shared = {"epsilon": epsilon, "delta": DELTA, "data_norm": 1.0, "classes": [0, 1]}
    known = "public" if data.name == "california" else data.shares

    def grouped(kind: Any) -> Callable[[int], Any]:
        return lambda seed: kind(
            **shared, group_proportions=known, group_names=data.names, random_state=seed
        ).fit(data.X, data.y, groups=data.groups)

    found = {
        "DPLogisticRegression": lambda seed: DPLogisticRegression(**shared, random_state=seed).fit(
            data.X, data.y
        ),
        "DPMaxGroupLossClassifier": grouped(DPMaxGroupLossClassifier),
    }
    for method in ("phased", "rgda"):
        if method == "rgda" or len(data.X) <= FEW:
            own = partial(DPMaxGroupLossClassifier, method=method)
            found[f"DPMaxGroupLossClassifier, {method}"] = grouped(own)
    return found | {"DP-RGDA: DPMaxGroupLossMLPClassifier": grouped(DPMaxGroupLossMLPClassifier)}


class Bench:
    """The network's problem on simulated data, for the algorithms that are no estimator."""

    def __init__(self, data: Data, hidden_units: int = 32) -> None:
        self.data = data
        codes = np.searchsorted(data.names, data.groups)
        self.records = Records(data.X, 1.0, 0.3, targets=data.y.astype(float), groups=codes)
        self.weights = GroupWeights.of_proportions([SHARES[g] for g in data.names], 10.0)
        width = self.records.width
        self.network = Network(width, hidden_units, 1, 1.5 / self.records.norm_bound)
        self.solved = GroupNetworkProblem(
            self.records, LogisticLoss(), self.weights, self.network, 0.3
        )

    def joint(self) -> MinimaxProblem:
        """Return the problem with a dual that is not solved for, as DP-SGDA has it."""
        loss, network, c = LogisticLoss(), self.network, np.array(self.weights.largest)
        k = len(c)

        def gradients(block: str, point: Any, rows: np.ndarray) -> np.ndarray:
            x, y = point
            part = self.records.block(rows)
            outputs, features = network.forward(part, x)
            values, residuals = loss.value_and_derivative(outputs[:, 0], part.targets)
            residuals = (residuals * (y * c)[part.groups])[:, None]
            factors = network.backward(x, residuals, features)
            first = (factors[:, :, None] * part.rows()[:, None, :]).reshape(len(rows), -1)
            own = np.zeros((len(rows), k))
            own[np.arange(len(rows)), part.groups] = np.minimum(values, 2.0) * c[part.groups]
            return np.hstack([first, residuals * features, 0.1 * own])

        return RecordGradients(
            self.records.n_records, network.dimension, k, gradients,
            public_gradient=lambda point: (np.zeros(network.dimension), 0.03 * (1 / k - point[1])),
            project_y=Simplex(k).project,
        )  # fmt: skip

    def fit(self, kind: str, epsilon: float, seed: int, **options: Any) -> np.ndarray:
        problem = {"solved": self.solved, "null": NullControl(self.solved)}.get(kind)
        problem = self.joint() if problem is None else problem
        shared: dict[str, Any] = {"average": True, "radius": 1e4}
        if kind != "joint":
            shared |= {"share_y": 0.1, "unit_y": 2.0}
        plan = plan_dp_rgda(
            PrivacyBudget(epsilon, DELTA), settings=RGDASettings(**shared, **options),
            n_public=problem.n_records, dimension_x=problem.dimension_x,
            dimension_y=problem.dimension_y, linear_dual=kind != "joint",
        )  # fmt: skip
        rng = np.random.default_rng(seed)
        run = Run(rng=rng, noise=NoiseSource(np.random.default_rng([seed, 1]).bytes))
        k = problem.dimension_y
        start = self.network.start(rng), np.full(k, 1 / k)
        return np.asarray(plan.run(problem, run, start).point)

    def scores(self, x: np.ndarray) -> dict[str, Any]:
        data = self.data
        block = Records(data.X_test, 1.0, 0.3).block(slice(0, len(data.X_test)))
        return data.scores(self.network.forward(block, x)[0][:, 0])


def algorithms(bench: Bench) -> dict[str, tuple[str, list[dict[str, Any]]]]:
    """Kind of problem, and the options to choose from."""
    step = 0.24 * np.sqrt(bench.network.dimension)
    ours = {"n_steps": 100, "step_size": step, "momentum": 0.5, "decay": True}
    return {
        "DP-RGDA with differences": (
            "solved",
            [ours | {"period": 4, "smoothness": L, "noise_ratio": 0.7} for L in (0.1, 0.5)],
        ),
        "DP-GD on Phi": (
            "solved",
            [{"n_steps": 100, "step_size": s, "normalise": False} for s in (20.0, 60.0)],
        ),
        "DP-SGDA": (
            "joint",
            [
                {"n_steps": 200, "step_size": s, "normalise": False, "step_size_y": 1.0}
                | {"sampling_rate": 0.1}
                for s in (20.0, 60.0)
            ],
        ),
        "null control": ("null", [ours]),
    }


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    warnings.simplefilter("ignore")
    quick = options.quick
    seeds = 2 if quick else min(options.seeds, 5)
    sets = []
    if options.adult is not None and not quick:
        sets.append(adult(options.adult))
    if options.california is not None and not quick:
        sets.append(california(options.california))
    sets.append(made(*(500, 500) if quick else (10_000, 10_000)))
    sets.append(conflict(500 if quick else 50_000, 0.1, 10_000))
    if not quick:
        sets += [conflict(FEW, 0.1, 10_000), breast_cancer()]
    for data in sets:
        several = (3.0, 8.0) if data.name in ("adult", "california") else (0.5, 2.0, 8.0)
        for epsilon in (2.0,) if quick else (1.0,) if len(data.X) <= FEW else several:
            yield from points_of(data, epsilon, seeds)
    for epsilon in (2.0,) if quick else (0.5, 2.0, 8.0):
        yield from numbers(500 if quick else 20_000, epsilon, seeds)


def numbers(n: int, epsilon: float, seeds: int) -> Iterator[dict[str, Any]]:
    """Fit regressors; the seeds of the records are others than those that chose the constants."""
    X, y, groups = slopes(n, 2)
    test = slopes(n, 3)
    for loss, method in itertools.product(("squared_error", "huber"), ("auto", "phased", "rgda")):
        begin, losses = time.perf_counter(), []
        for seed in range(seeds):
            model = DPMaxGroupLossRegressor(
                epsilon, DELTA, loss=loss, method=method, data_norm=1.0, target_range=(-3.0, 3.0),
                group_names=[0, 1], group_proportions=[0.8, 0.2],
                random_state=seed,
            ).fit(X, y, groups=groups)  # fmt: skip
            losses.append(max(model.group_losses(*test).values()))
        name = f"DPMaxGroupLossRegressor, {loss}, {method}"
        if method == "auto":
            name += f" ({model.privacy_.method})"
        row = {"data": "slopes", "n": n, "d": X.shape[1], "epsilon": epsilon, "method": name}
        row |= {"worst_loss": np.mean(losses), "worst_loss_spread": np.std(losses, ddof=1)}
        yield row | {"seeds": seeds, "seconds": (time.perf_counter() - begin) / seeds}


def points_of(data: Data, epsilon: float, seeds: int) -> Iterator[dict[str, Any]]:
    columns = {"data": data.name, "n": len(data.X), "d": data.X.shape[1], "epsilon": epsilon}
    for name, fit in estimators(data, epsilon).items():
        begin = time.perf_counter()
        scores = [data.scores(fit(seed).decision_function(data.X_test)) for seed in range(seeds)]
        yield columns | {"method": name} | summary(scores, begin)
    if data.name == "made":
        bench, other = Bench(data), Bench(made(len(data.X), len(data.X_test), seed=1))
        for name, (kind, choices) in algorithms(bench).items():
            best = min(
                choices,
                key=lambda o: other.scores(other.fit(kind, epsilon, 9, **o))["worst_log_loss"],
            )
            begin = time.perf_counter()
            scores = [bench.scores(bench.fit(kind, epsilon, seed, **best)) for seed in range(seeds)]
            yield columns | {"method": name} | summary(scores, begin)


def summary(scores: list[dict[str, Any]], begin: float) -> dict[str, Any]:
    table, row = pd.DataFrame(scores), {}
    for name in ("worst_accuracy", "worst_log_loss", "accuracy"):
        row[name] = float(table[name].mean())
        row[f"{name}_spread"] = float(table[name].std(ddof=1))
    row["worst_group"] = table["worst_group"].mode().iloc[0]
    return row | {"seeds": len(scores), "seconds": (time.perf_counter() - begin) / len(scores)}


SHOWN = ["data", "n", "epsilon", "method", "worst_accuracy", "worst_log_loss", "accuracy"]
SHOWN += ["worst_loss"]
