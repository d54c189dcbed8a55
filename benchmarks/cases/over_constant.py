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

Two rivals show where the limits are hard to meet. `constant_mean` and `constant_worst` are of the
constant released with the whole budget: the expected excess, and that of the worst of the seeds, by
40 draws of the noise. `exact_mean` and `exact_worst` are of the same estimator at epsilon 1e6 on
the same records, where the model is above a limit.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import islice, product
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import truncnorm

from benchmarks import tables
from skdp.linear_model import DPLogisticRegression, DPRidge
from skdp.privacy.gaussian_dp import gaussian_mu
from skdp.robust import (
    DPMaxGroupLossClassifier,
    DPMaxGroupLossMLPClassifier,
    DPMaxGroupLossRegressor,
)

MEAN, WORST, FEWEST = 0.05, 0.3, 20
N_NEW, SPREAD = 20_000, 0.1
#: Delta of the estimators, draws of a private constant for each seed, and epsilon for no noise.
DELTA, N_DRAWS, NO_NOISE = 1e-6, 40, 1e6
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
    """Return the excess in all records, and in the parts where it is largest; those of rivals."""
    trials = [Trial(cell, seed) for seed in range(seeds)]
    found = pd.DataFrame([trial.excess(trial.predicted(cell.epsilon)) for trial in trials])
    means, worst = found.mean(), found.max()
    is_above = above(means.max(), worst.max())
    row = asdict(cell) | {
        "seeds": seeds, "all": means["all"], "part": means.idxmax(), "mean": means.max(),
        "worst_part": worst.idxmax(), "worst": worst.max(), "is_above": is_above,
    }  # fmt: skip
    released = pd.DataFrame([
        {"draw": k, **trial.excess(np.full(N_NEW, value))}
        for trial in trials
        for k, value in enumerate(trial.private_constants())
    ])  # fmt: skip
    of_draws = released.groupby("draw").max().mean()
    row["constant_mean"] = released.drop(columns="draw").mean().max()
    row["constant_worst"] = of_draws.max()
    row["is_constant_above"] = above(row["constant_mean"], row["constant_worst"])
    if is_above:
        exact = pd.DataFrame([trial.excess(trial.predicted(NO_NOISE)) for trial in trials])
        row["exact_mean"], row["exact_worst"] = exact.mean().max(), exact.max().max()
        row["is_exact_above"] = above(row["exact_mean"], row["exact_worst"])
    return row


def above(mean: float, worst: float) -> bool:
    return bool(mean > MEAN or worst > WORST)


class Trial:
    """Training and new records of a configuration; `parts` has weights of both labels by part."""

    def __init__(self, cell: Cell, seed: int) -> None:
        rng = np.random.default_rng([seed, cell.n, round(1e3 * cell.epsilon)])
        self.cell, self.seed = cell, seed
        self.train, self.new = made(cell, cell.n, rng), made(cell, N_NEW, rng, is_new=True)
        self.is_ridge, self.is_grouped = "ridge" in cell.model, cell.model not in ALONE
        self.groups: Any = self.train.groups if self.is_grouped else None
        if self.is_ridge:
            self.y = np.clip(self.train.means + SPREAD * rng.normal(size=cell.n), -1.0, 1.0)
        else:
            self.y = (rng.random(cell.n) < expit(self.train.odds)).astype(float)
        self.has_own_constant = not self.is_grouped or self.groups is not None
        share = self.y.mean() if self.has_own_constant else 0.5
        if not self.is_ridge:  # one of 0 or 1, without a record of the other label, is moved
            share = logit(np.clip(share, 0.5 / cell.n, 1.0 - 0.5 / cell.n))
        self.constant = float(share)
        self.parts = {name: w for name, w in self._parts().items() if w.any()}

    def _parts(self) -> dict[str, np.ndarray]:
        chance, new = expit(self.new.odds), self.new
        both = new.weights[:, None] * np.column_stack([chance, 1.0 - chance])
        parts = {"all": both} | {f"category {k}": both * of[:, None] for k, of in new.categories}
        if self.groups is not None:
            for g in np.flatnonzero(np.bincount(self.groups) >= FEWEST):
                parts[f"group {g}"] = both * (new.groups == g)[:, None]
        elif self.is_grouped:
            for k, size in enumerate((self.y.sum(), self.cell.n - self.y.sum())):
                if size >= FEWEST:
                    parts[("positives", "negatives")[k]] = both * (np.arange(2) == k)
        return parts

    def predicted(self, epsilon: float) -> np.ndarray:
        """Return the values, or the log odds, of new records by one fit."""
        cell = self.cell
        model = MODELS[cell.model](epsilon, data_norm=1.0, random_state=self.seed)
        model.set_params(**{"target_range": (-1.0, 1.0)} if self.is_ridge else {"classes": [0, 1]})
        if cell.family == "off_centre":
            model.set_params(neighbouring="add_remove", n_public=round(cell.kind * cell.n))
        groups = self.groups
        if groups is not None:
            model.set_params(group_names=np.unique(np.asarray(self.new.groups)).tolist())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # much noise, groups without a record
            model.fit(self.train.X, self.y, **({} if groups is None else {"groups": groups}))
        return np.asarray((model.predict if self.is_ridge else model.decision_function)(self.new.X))

    def private_constants(self) -> list[float]:
        """Return constants released with the whole budget, shrunk as those of the models are."""
        if not self.has_own_constant:
            return [self.constant]
        cell, rng = self.cell, np.random.default_rng([self.seed, 7])
        n_changes = 1.0 if cell.family == "off_centre" else 2.0
        deviation = n_changes / (cell.n * gaussian_mu(cell.epsilon, DELTA))
        if self.is_ridge:
            noisy = self.y.mean() + deviation * rng.normal(size=N_DRAWS)
            return np.clip(noisy, -1.0, 1.0).tolist()
        scale = 0.5 * deviation
        noisy = self.y.mean() + scale * rng.normal(size=N_DRAWS)
        shares = truncnorm.mean(-noisy / scale, (1.0 - noisy) / scale, loc=noisy, scale=scale)
        return logit(np.clip(shares, 0.005, 0.995)).tolist()

    def excess(self, values: np.ndarray) -> dict[str, float]:
        """Return the excess of values, or log odds, over the constant in each part."""
        losses, found = self._losses(values), {}
        for name, w in self.parts.items():
            ours = float(np.vdot(w, losses) / w.sum())
            its = float(np.vdot(w, self._losses_of_constant) / w.sum())
            found[name] = ours / its - 1.0 if self.is_ridge else ours - its
        return found

    @cached_property
    def _losses_of_constant(self) -> np.ndarray:
        return self._losses(np.full(N_NEW, self.constant))

    def _losses(self, values: np.ndarray) -> np.ndarray:
        if self.is_ridge:
            return np.repeat(((values - self.new.means) ** 2 + SPREAD**2)[:, None], 2, axis=1)
        return np.column_stack([np.logaddexp(0.0, -values), np.logaddexp(0.0, values)])


SHOWN = ["family", "kind", "width", "n", "epsilon", "model", "all", "part", "mean", "worst"]
MARK = "over_constant"


def summarise(table: pd.DataFrame) -> str:
    return "\n".join([*counted(table), "", tables.show(table[table["is_above"]], SHOWN)])


def counted(table: pd.DataFrame) -> list[str]:
    """Count configurations above the limits, by family and model; those of rivals among them."""
    head = ["family", "model", "configurations", "above", "a private constant, too"]
    head += ["without noise, too", "mean of all", "largest mean", "worst seed"]
    rows = [
        [*key, len(t), *map(str, among(t)), *(f"{v:+.2f}" for v in values)]
        for key, t in table.groupby(["family", "model"], sort=False)
        for values in [(t["all"].mean(), t["mean"].max(), t["worst"].max())]
    ]
    return tables.markdown(head, rows)


def among(table: pd.DataFrame) -> tuple[int, int, int]:
    """Count configurations above a limit; of these the private constant, the exact model."""
    those = table[table["is_above"]]
    rivals = (those[key].astype(bool) for key in ("is_constant_above", "is_exact_above"))
    return (len(those), *(int(rival.sum()) for rival in rivals))


def page(table: pd.DataFrame) -> str:
    above, constant, exact = among(table)
    of_all, of_means = (int((table[key] > MEAN).sum()) for key in ("all", "mean"))
    text = (
        f"{above} of {len(table)} configurations are above a limit in some part, {of_means} by "
        f"their mean, {of_all} for all records. In {constant} of them the constant released with "
        f"the whole budget is above a limit, too, and in {exact} the same estimator without noise."
    )
    return "\n".join([text, "", *counted(table)])
