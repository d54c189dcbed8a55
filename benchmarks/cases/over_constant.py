"""The defaults against a constant: 200 simulated tables, all records, groups and categories.

Families of tables:

- ``rare``: one or ten one-hot categories of 0.1 to 5 % of the records, with an effect;
- ``groups``: the same, where the categories are the groups of a model for the worst group;
- ``classes``: 1 to 20 % of positives; models for the worst group take the classes as groups;
- ``off_centre``: rows far from the origin, add/remove, a wrong public number of records;
- ``mixed``: four numbers and three categorical columns of 2, 6 (the groups) and 12 categories.

A part is all records, a category, or a group with at least 20 training records. The excess of a
model in a part is its expected log loss on new records minus that of the constant, or its mean
square error over that of the constant, minus 1. The constant is the mean of the training targets;
1/2 where the classes are the groups. The limits are 0.05 for the mean over the seeds and 0.3 for
the worst seed, in every part. New records have rare categories more often than the law, and a
weight that undoes it.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice, product
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit

from benchmarks import tables
from skdp.linear_model import DPLogisticRegression, DPRidge
from skdp.robust import (
    DPMaxGroupLossClassifier,
    DPMaxGroupLossMLPClassifier,
    DPMaxGroupLossRegressor,
)

MEAN, WORST, FEWEST = 0.05, 0.3, 20
N_NEW, SPREAD = 20_000, 0.1
MODELS = {
    "logistic": DPLogisticRegression, "ridge": DPRidge, "groups": DPMaxGroupLossClassifier,
    "network": DPMaxGroupLossMLPClassifier, "groups_ridge": DPMaxGroupLossRegressor,
}  # fmt: skip
ALONE, GROUPED = ("logistic", "ridge"), ("groups", "groups_ridge")
#: Shares of the groups but the largest one.
SHARES = {"1%": [0.01], "5%": [0.05], "8 x 1%": [0.01] * 8}
SHARES["unequal"] = [0.06, 0.04, 0.02, 0.02, 0.01, 0.005, 0.005]


@dataclass(frozen=True)
class Cell:
    """A configuration; `kind` is a share, or n_public over n, and `width` a number of columns."""

    family: str
    kind: Any
    width: int
    n: int
    epsilon: float
    model: str


def every(step: int, family: str, *values: Any) -> list[Cell]:
    return [Cell(family, *row) for row in islice(product(*values), 0, None, step)]


def cells() -> list[Cell]:
    """List the configurations: each product is thinned such that all its values occur."""
    sizes, budgets = (500, 4_000, 16_000, 50_000, 100_000), (0.1, 0.3, 1.0, 10.0, 100.0)
    shares = (0.001, 0.005, 0.01, 0.05)
    fewer, positives = (1_000, 5_000, 16_000, 100_000), (0.01, 0.03, 0.08, 0.2)
    off_centre = (0.5, 0.8, 2.0), (5, 20), (1_000, 20_000, 100_000), (0.3, 1.0, 100.0)
    return [
        *every(9, "rare", shares, (1, 10), sizes, budgets, ALONE),
        *every(7, "groups", SHARES, (2,), fewer, budgets, (*GROUPED, *ALONE)),
        *every(7, "classes", positives, (5, 60), sizes[:-1], budgets[:-1], ("groups", "logistic")),
        *every(7, "off_centre", *off_centre, ("logistic", "ridge", "groups")),
        *every(3, "mixed", ("",), (4,), (500, *fewer), budgets, (*GROUPED, *ALONE)),
        *every(3, "groups", ("1%", "5%"), (2,), fewer[:-1], budgets[:-1], ("network",)),
        *every(3, "mixed", ("",), (4,), (500, *fewer[:-1]), budgets[:-1], ("network",)),
    ]


@dataclass(frozen=True)
class Table:
    """Rows, log odds, means of targets, weights, groups, and the members of the categories."""

    X: np.ndarray
    odds: np.ndarray
    means: np.ndarray
    weights: np.ndarray
    groups: np.ndarray | None = None
    categories: tuple[tuple[str, np.ndarray], ...] = ()


def made(cell: Cell, n: int, rng: np.random.Generator, is_new: bool = False) -> Table:
    """Draw n records; new ones have a category half of the time from the uniform law."""
    one, weights = np.ones(n), np.ones(n)

    def codes_of(shares: Any) -> np.ndarray:
        law = np.array(shares) / np.sum(shares)
        used = 0.5 * law + 0.5 / len(law) if is_new else law
        codes = rng.choice(len(law), n, p=used)
        weights[:] *= (law / used)[codes]
        return codes

    if cell.family == "classes":
        Z = rng.uniform(-1.0, 1.0, (n, cell.width))
        odds = 3.0 / np.sqrt(5.0) * Z[:, :5].sum(axis=1)
        shift = brentq(lambda shift: expit(odds + shift).mean() - cell.kind, -20.0, 20.0)
        return Table(Z / np.sqrt(cell.width), odds + shift, 0.0 * one, weights)
    if cell.family == "off_centre":
        X = unit(0.9 + rng.uniform(-0.5, 0.5, (n, cell.width)))
        slope, groups = 8.0 * (X[:, 0] - X[:, 1]), (X[:, 2] > X[:, 3]).astype(int)
        return Table(X, slope - 1.5, 0.1 * slope + 0.2, weights, groups)
    if cell.family == "mixed":
        Z, law = rng.normal(size=(n, 4)), np.random.default_rng(5)
        odds, columns, found = Z @ [0.8, -0.4, 0.2, 0.0] + 1.0, [Z / 4.0], {}
        for size in (2, 6, 12):
            found[size] = codes = codes_of(np.geomspace(1.0, 0.5 if size == 2 else 0.003, size))
            odds = odds + law.normal(0.0, 0.8, size)[codes]
            columns.append(0.5 * np.eye(size)[codes])
        categories = tuple((f"{k} of {s}", c == k) for s, c in found.items() for k in range(s))
        means = np.clip(0.15 * odds, -0.8, 0.8)
        return Table(np.hstack(columns), odds, means, weights, found[6], categories)
    rare = SHARES[cell.kind] if cell.family == "groups" else [cell.kind] * cell.width
    codes = codes_of([1.0 - sum(rare), *rare])
    Z, effect = rng.uniform(-1.0, 1.0, (n, 2)), -1.5 * (codes > 0)
    X = unit(np.hstack([Z, np.eye(len(rare) + 1)[codes]]))
    categories = tuple((str(k), codes == k) for k in range(len(rare) + 1))
    means = 0.4 + 0.2 * effect + 0.3 * Z[:, 0]
    return Table(X, 2.2 + effect + 1.5 * Z[:, 0], means, weights, codes, categories)


def unit(X: np.ndarray) -> np.ndarray:
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for cell in cells()[::25] if options.quick else cells():
        cell = replace(cell, n=min(cell.n, 1_000)) if options.quick else cell
        yield measured(cell, 2 if options.quick else min(options.seeds, 5))


def measured(cell: Cell, seeds: int) -> dict[str, Any]:
    """Return the excess in all records, and in the parts where it is largest."""
    found = pd.DataFrame([excesses(cell, seed) for seed in range(seeds)])
    means, worst = found.mean(), found.max()
    return asdict(cell) | {
        "seeds": seeds, "all": means["all"], "part": means.idxmax(), "mean": means.max(),
        "worst_part": worst.idxmax(), "worst": worst.max(),
        "is_above": bool(means.max() > MEAN or worst.max() > WORST),
    }  # fmt: skip


def excesses(cell: Cell, seed: int) -> dict[str, float]:
    """Return the excess of one fit over the constant in each part."""
    rng = np.random.default_rng([seed, cell.n, round(1e3 * cell.epsilon)])
    train, new = made(cell, cell.n, rng), made(cell, N_NEW, rng, is_new=True)
    is_ridge, is_grouped = "ridge" in cell.model, cell.model not in ALONE
    groups: Any = train.groups if is_grouped else None
    model = MODELS[cell.model](cell.epsilon, data_norm=1.0, random_state=seed)
    if is_ridge:
        y = np.clip(train.means + SPREAD * rng.normal(size=cell.n), -1.0, 1.0)
        model.set_params(target_range=(-1.0, 1.0))
    else:
        y = (rng.random(cell.n) < expit(train.odds)).astype(float)
        model.set_params(classes=[0, 1])
    if cell.family == "off_centre":
        model.set_params(neighbouring="add_remove", n_public=round(cell.kind * cell.n))
    if groups is not None:
        model.set_params(group_names=np.unique(np.asarray(new.groups)).tolist())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # much noise, groups without a record
        model.fit(train.X, y, **({} if groups is None else {"groups": groups}))

    # Weights of new records as positives and as negatives.
    chance = expit(new.odds)
    both = new.weights[:, None] * np.column_stack([chance, 1.0 - chance])
    parts = {"all": both} | {f"category {k}": both * of[:, None] for k, of in new.categories}
    constant = y.mean()
    if groups is not None:
        for g in np.flatnonzero(np.bincount(groups) >= FEWEST):
            parts[f"group {g}"] = both * (new.groups == g)[:, None]
    elif is_grouped:
        constant = 0.5
        for k, size in enumerate((y.sum(), cell.n - y.sum())):
            if size >= FEWEST:
                parts[("positives", "negatives")[k]] = both * (np.arange(2) == k)

    if is_ridge:
        losses = [(v - new.means) ** 2 + SPREAD**2 for v in (model.predict(new.X), constant)]
    else:  # a constant of 0 or 1, where no record has the other label, is moved by half a record
        constant = np.clip(constant, 0.5 / cell.n, 1.0 - 0.5 / cell.n)
        odds = (model.decision_function(new.X), np.full(N_NEW, np.log(constant / (1.0 - constant))))
        losses = [np.column_stack([np.logaddexp(0.0, -v), np.logaddexp(0.0, v)]) for v in odds]
    found = {}
    for name, w in parts.items():
        if w.any():
            ours, its = (np.vdot(w.sum(1) if is_ridge else w, loss) / w.sum() for loss in losses)
            found[name] = float(ours / its - 1.0 if is_ridge else ours - its)
    return found


SHOWN = ["family", "kind", "width", "n", "epsilon", "model", "all", "part", "mean", "worst"]
MARK = "over_constant"


def summarise(table: pd.DataFrame) -> str:
    return "\n".join([*counted(table), "", tables.show(table[table["is_above"]], SHOWN)])


def counted(table: pd.DataFrame) -> list[str]:
    """Count configurations above the limits, by family and model."""
    head = ["family", "model", "configurations", "above", "mean of all", "largest mean"]
    rows = [
        [*key, len(t), int(t["is_above"].sum()), *(f"{v:+.2f}" for v in values)]
        for key, t in table.groupby(["family", "model"], sort=False)
        for values in [(t["all"].mean(), t["mean"].max(), t["worst"].max())]
    ]
    return tables.markdown([*head, "worst seed"], rows)


def page(table: pd.DataFrame) -> str:
    above, of_all = int(table["is_above"].sum()), int((table["all"] > MEAN).sum())
    text = f"{above} of {len(table)} configurations are above a limit in some part, "
    return "\n".join([f"{text}{of_all} of them for all records.", "", *counted(table)])
