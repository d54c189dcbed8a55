"""Solvers and penalties of a user's own, beside the default and models without privacy.

Each data set of `benchmarks.data`, targets in [-1, 1]: solvers with `method="auto"` (prepared
output perturbation) and as published; `alpha` beside scikit-learn's model with that penalty and a
free intercept.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from benchmarks import tables
from benchmarks.data import Dataset, load
from benchmarks.models import ours, public
from skdp.methods import OutputPerturbation
from skdp.solvers import ScipySolver

DELTA, EPSILONS, ALPHAS = 1e-5, (0.3, 1.0, 3.0), (1e-6, 1e-3, 0.1, 100.0)


def descend(problem: Any, accuracy: float) -> np.ndarray:
    """Accelerated gradient descent with restarts: a callable of the user."""
    step, w = 1.0 / problem.smoothness, np.zeros(problem.dimension)
    ahead, momentum = w, 1.0
    for _ in range(10_000):
        gradient = problem.gradient(ahead)
        if np.linalg.norm(gradient) < 0.5 * accuracy * problem.strong_convexity:
            break
        after = ahead - step * gradient
        if gradient @ (after - w) > 0.0:
            momentum = 1.0
        faster = 0.5 + math.sqrt(0.25 + momentum**2)
        ahead = after + (momentum - 1.0) / faster * (after - w)
        w, momentum = after, faster
    return ahead


SOLVERS = {
    **{name: name for name in ("newton", "lbfgs", "svrg", "katyusha")},
    "scipy": ScipySolver("L-BFGS-B"), "callable": descend,
}  # fmt: skip
GIVEN: dict[str, dict[str, Any]] = {
    "default": {},
    **{f"solver {name}": {"solver": solver} for name, solver in SOLVERS.items()},
    "as published": {"method": OutputPerturbation(solver="lbfgs")},
    **{f"alpha {alpha:g}": {"alpha": alpha} for alpha in ALPHAS},
}


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    warnings.filterwarnings("ignore", message="method='auto' is", category=UserWarning)
    warnings.filterwarnings("ignore", message="The noise ", category=UserWarning)
    seeds = 1 if options.quick else min(options.seeds, 5)
    for dataset in load(options.adult, options.california, options.quick):
        for epsilon in EPSILONS[1:2] if options.quick else EPSILONS:
            yield from measured(in_unit(dataset), epsilon, seeds)


def in_unit(dataset: Dataset) -> Dataset:
    """Map targets to [-1, 1]."""
    if dataset.target_range is None:
        return dataset
    low, high = dataset.target_range
    y = 2.0 * (dataset.y - low) / (high - low) - 1.0
    return replace(dataset, y=y, target_range=(-1.0, 1.0))


def measured(dataset: Dataset, epsilon: float, seeds: int) -> list[dict[str, Any]]:
    """Return one row for each model: mean scores, and those of its reference."""
    n = int(0.8 * len(dataset.y))
    scores: dict[str, list[tuple[float, float]]] = {}
    for seed in range(seeds):
        X, X_new, y, y_new = train_test_split(dataset.X, dataset.y, train_size=n, random_state=seed)

        def add(name: str, model: Any, data: tuple[Any, ...] = (X_new, y_new)) -> None:
            scores.setdefault(name, []).append(scored(model, *data))

        is_class = dataset.classes is not None and len(dataset.classes) > 2
        best = np.bincount(y).argmax() if is_class else y.mean()
        add("constant", np.full(len(y_new), best))
        for name, given in GIVEN.items():
            model = ours(dataset, epsilon, DELTA, "replace_one", n, seed).set_params(**given)
            add(name, model.fit(X, y))
            if epsilon == EPSILONS[1] and "alpha" in given:
                add(f"reference of {name}", public(dataset, given["alpha"], len(y)).fit(X, y))
    means = {name: np.mean(found, axis=0) for name, found in scores.items()}
    missing = np.full(2, math.nan)
    return [
        {
            "data": dataset.name, "n": n, "d": dataset.X.shape[1], "epsilon": epsilon,
            "given": name, "score": means[name][0], "log_loss": means[name][1],
            "error": tables.standard_error([score for score, _ in scores[name]]),
            "over_default": means[name][0] - means["default"][0],
            "over_constant": means[name][0] - means["constant"][0],
            "reference": means.get(f"reference of {name}", missing)[0],
        }
        for name in GIVEN
    ]  # fmt: skip


def scored(model: Any, X: Any, y: Any) -> tuple[float, float]:
    """Return R2 and NaN, or accuracy and log loss; a model may be its predictions."""
    if isinstance(model, np.ndarray):
        predicted = model
    elif not hasattr(model, "predict_proba"):
        predicted = model.predict(X)
    else:
        predicted = model.predict_proba(X)
        if predicted.shape[1] > 2:
            right = model.classes_[predicted.argmax(axis=1)] == y
            return float(right.mean()), float(log_loss(y, predicted, labels=model.classes_))
        predicted = predicted[:, 1]
    if y.dtype.kind in "iu" and len(np.unique(y)) > 2:  # the most frequent class
        return float((y == np.round(predicted)).mean()), math.nan
    if set(np.unique(y)) != {0, 1}:
        return 1.0 - float(((y - predicted) ** 2).mean() / y.var()), math.nan
    p = np.clip(predicted, 1e-15, 1.0 - 1e-15)
    return float(((p > 0.5) == y).mean()), float(log_loss(y, p))


SHOWN = [
    "data",
    "n",
    "d",
    "epsilon",
    "given",
    "score",
    "over_default",
    "over_constant",
    "reference",
]
MARK = "prepared"


def page(table: pd.DataFrame) -> str:
    """Return the scores at epsilon = 1."""
    table = table[table["epsilon"] == EPSILONS[1]]
    named = [f"alpha {alpha:g}" for alpha in ALPHAS[1:]]
    rows = []
    for (data, n, d), part in table.groupby(["data", "n", "d"], sort=False):
        found = part.set_index("given")
        solved = found["score"].filter(like="solver ")
        default, published = (found["score"][name] for name in ("default", "as published"))
        cells = [default, solved.min(), solved.max(), published]
        pairs = [(found["score"][name], found["reference"][name]) for name in named]
        rows.append([
            data, n, d, *(f"{cell:.3f}" for cell in cells),
            *(f"{ours:.3f} / {theirs:.3f}" for ours, theirs in pairs),
        ])  # fmt: skip
    head = ["data", "n", "d", "default", "solvers, worst", "best", "as published", *named]
    return "\n".join(tables.markdown(head, rows))
