"""Coverage of confidence intervals of coefficients on made tables of known populations.

Each table is a new sample. Pooled over coefficients, or points of effects, and of the worst one;
`error` is the standard error of one at 0.9. Ends at infinity cover; `infinite` is their part.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import pyplot
from scipy.stats import norm

from skdp import DPTabularClassifier, DPTabularRegressor
from skdp.inspection import PartialEffectDisplay
from skdp.linear_model import DPLogisticRegression, DPRidge

#: Kind of rows, of targets, and n/d/epsilon.
CELLS = {
    ("isotropic", "numbers"): "1000/5/.5 1000/5/1 1000/5/3 1000/5/10 10000/30/.5 30000/30/3",
    ("correlated", "numbers"): "3000/5/3 3000/10/1 3000/10/3 10000/10/.5 10000/10/1 30000/30/1 "
    "30000/30/10 100000/10/10",
    ("mixing", "numbers"): "10000/30/3 30000/10/1 30000/10/10 100000/30/1",
    ("square mixing", "numbers"): "10000/20/1",
    ("faint", "numbers"): "10000/10/1 30000/10/1",
    ("one-hot", "numbers"): "10000/10/1 10000/10/3",
    ("binary", "numbers"): "10000/10/1 10000/10/10",
    ("correlated", "heavy tails"): "3000/5/3 10000/10/3",
    ("skewed", "numbers"): "10000/10/1 10000/10/10",
    ("correlated", "heteroscedastic"): "3000/5/3 10000/10/1 10000/10/10",
    ("correlated", "skewed, heteroscedastic"): "3000/5/3 10000/10/1 10000/10/10 30000/10/3",
    ("skewed", "skewed, heteroscedastic"): "10000/10/3",
    ("correlated", "non-linear"): "3000/5/3 10000/10/1 10000/10/10 30000/10/3",
    ("isotropic", "classes"): "1000/5/.5 1000/5/1 1000/5/3 1000/5/10 10000/30/.5 30000/30/3",
    ("correlated", "classes"): "3000/5/3 3000/10/1 3000/10/3 10000/10/.5 10000/10/1 30000/30/1 "
    "30000/30/10 100000/10/10",
    ("mixing", "classes"): "10000/30/3 30000/10/1 30000/10/10 100000/30/1",
    ("square mixing", "classes"): "10000/20/1",
    ("faint", "classes"): "10000/10/1 10000/10/3",
    ("one-hot", "classes"): "10000/10/1 10000/10/3",
    ("binary", "classes"): "10000/10/3 10000/10/10",
    ("binary", "three classes"): "10000/5/10",
    ("skewed", "classes"): "10000/10/1 10000/10/10",
    ("correlated", "rare class"): "10000/10/3 30000/10/1 30000/10/10",
    ("correlated", "three classes"): "3000/5/3 10000/5/1 10000/5/10",
    ("mixing", "three classes"): "30000/5/1",
    ("effects", "numbers"): "20000/5/1 20000/5/3",
    ("effects", "classes"): "20000/5/1 20000/5/3",
}  # fmt: skip


def rows(kind: str, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Draw rows of a population, of mean 0 but for one-hot and binary ones.

    Columns of faint ones have lengths from 1 to 1/20, and coefficients over them.
    """
    root = np.linalg.cholesky(0.7 ** np.abs(np.subtract.outer(np.arange(d), np.arange(d)))).T
    if kind in ("isotropic", "correlated", "faint"):
        root = np.eye(d) if kind == "isotropic" else root
        order = np.random.default_rng(d).permutation(d)
        return rng.normal(size=(n, d)) @ root * 0.05 ** (order / (d - 1.0) * (kind == "faint"))
    if kind == "skewed":
        return (rng.exponential(size=(n, d)) - 1.0) @ root
    if kind == "binary":
        return (rng.random((n, d)) < np.linspace(0.05, 0.5, d)).astype(float)
    if kind == "one-hot":
        shares = 1.0 / np.arange(2.0, d // 2 + 3)
        codes = rng.choice(d // 2 + 1, size=n, p=shares / shares.sum())
        own = 1.5 * (codes[:, None] == np.arange(d // 2))
        return np.column_stack([rng.normal(size=(n, d - d // 2)), own])
    k = d if kind == "square mixing" else 2 * d
    return rng.normal(size=(n, k)) @ np.random.default_rng(d).normal(size=(k, d))


@lru_cache(maxsize=1)
def scale(kind: str, d: int) -> tuple[float, np.ndarray]:
    """Return what rows are multiplied by, and their second moments then."""
    many = rows(kind, 10**5, d, np.random.default_rng(10**6))
    unit = 0.6 / np.sqrt((many**2).sum(axis=1).mean())
    return unit, np.cov(unit * many.T)


def table(kind: str, of: str, n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray, Any]:
    """Draw a table; return the coefficients of the population, too."""
    unit, moments = scale(kind, d)
    X, rng = (
        unit * rows(kind, n, d, np.random.default_rng(seed)),
        np.random.default_rng(10**7 + seed),
    )
    coef = np.random.default_rng(d + 1).normal(size=(3 if of == "three classes" else 1, d))
    coef /= np.sqrt(np.diag(moments)) if kind == "faint" else 1.0
    coef /= np.sqrt(np.einsum("si,ij,sj->s", coef, moments, coef))[:, None]
    X, along = X + 0.1 / np.sqrt(d), X[:, 0] / np.sqrt(moments[0, 0])
    if of == "three classes":
        coef = 1.5 * (coef - coef.mean(axis=0))
        return X, (X @ coef.T + rng.gumbel(size=(n, 3))).argmax(axis=1), coef
    if "class" in of:
        scores = 1.5 * X @ coef[0] + (-3.5 if of == "rare class" else -0.4)
        return X, (scores + rng.logistic(size=n) > 0.0).astype(int), 1.5 * coef
    noise = rng.exponential(size=n) - 1.0 if "skewed" in of else rng.normal(size=n)
    noise = rng.standard_t(3, size=n) / np.sqrt(3.0) if "tails" in of else noise
    noise *= 0.3 * (0.5 + 0.6 * np.abs(along) if "hetero" in of else 1.0)
    noise += 0.1 * (along**2 - 1.0) * (of == "non-linear")
    return X, 0.3 * X @ coef[0] + 0.2 + noise, 0.3 * coef


def effects(of: str, n: int, d: int, epsilon: float, seed: int) -> list[np.ndarray]:
    """Return errors of effects of numbers in a table, and their deviations."""
    rng, coef = np.random.default_rng(seed), np.random.default_rng(d).normal(size=d) / np.sqrt(d)
    X, given = rng.uniform(-1, 1, (n, d)), {"maps": None, "intervals": True, "random_state": seed}
    rows, curve = (at + 0.7 * np.cos(np.pi * (at + 1.0)) for at in (X, np.linspace(-1, 1, 10)))
    model: Any = DPTabularRegressor(epsilon, target_range=(-4, 4), **given)
    y = rows @ coef + 0.3 * rng.normal(size=n)
    if of == "classes":
        model, coef = DPTabularClassifier(epsilon, classes=[0, 1], **given), 1.5 * coef
        y = (rows @ coef + rng.logistic(size=n) > 0.0).astype(int)
    names = [f"x{j}" for j in range(d)]
    drawn = PartialEffectDisplay.from_estimator(model.fit(X, y), names, grid_resolution=10)
    pyplot.close(drawn.figure_)
    estimate, high = np.array([(e.estimate, e.high) for e in drawn.effects_]).swapaxes(0, 1)
    error = estimate - np.outer(coef, curve - curve.mean())
    return [error.ravel(), (high - estimate).ravel() / norm.isf(0.025)]


def measured(kind: str, of: str, size: str, n_tables: int | None = None) -> dict[str, Any]:
    """Measure a cell."""
    warnings.simplefilter("ignore", UserWarning)
    n, d, epsilon = (float(each) if i == 2 else int(each) for i, each in enumerate(size.split("/")))
    given: dict[str, Any] = {"data_norm": 1.0, "intervals": True}
    model: Any = DPRidge(epsilon, target_range=(-2, 2), **given)
    if "class" in of:
        model = DPLogisticRegression(epsilon, classes=range(2 + (of[0] == "t")), **given)
    n_tables, found = n_tables or int(np.clip(1e6 / n, 40, 300)), []
    for seed in range(n_tables):
        if kind == "effects":
            found.append(effects(of, n, d, epsilon, seed))
            continue
        X, y, coef = table(kind, of, n, d, seed)
        each = model.set_params(random_state=seed).fit(X, y).coef_interval()
        std = np.where(np.isinf(each.low), np.inf, np.hypot(each.noise_std, each.sampling_std))
        found.append([np.ravel(each.estimate - coef), np.ravel(std)])
    error, std = np.array(found).transpose(1, 0, 2)
    finite, row = std < np.inf, {"rows": kind, "targets": of, "n": n, "d": d, "eps": epsilon}
    for level in (0.9, 0.95):
        covered = (np.abs(error) <= norm.isf(0.5 - 0.5 * level) * std).mean(axis=0)
        row |= {f"at_{level}": 100 * covered.mean(), f"worst_{level}": 100 * covered.min()}
    seen = np.median(np.abs(error[finite])) / norm.isf(0.25) if finite.any() else np.nan
    row |= {"stated_over_seen": np.median(std[finite]) / seen if finite.any() else np.nan}
    return row | {"infinite": 1 - finite.mean(), "tables": n_tables, "error": 30 / n_tables**0.5}


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    cells = [(*key, size) for key, sizes in CELLS.items() for size in sizes.split()]
    cells = cells[:2] if options.quick else cells
    with ProcessPoolExecutor(options.jobs or 1) as pool:
        waiting = [pool.submit(measured, *cell, 3 if options.quick else None) for cell in cells]
        yield from (each.result() for each in waiting)


def summarise(cells: pd.DataFrame) -> str:
    off = cells[["at_0.9", "at_0.95"]] - [90, 95]
    low, high = off.min(axis=1), off.max(axis=1)
    counts = {
        "within 2 points": (low >= -2) & (high <= 2),
        "above": (low >= -2) & (high > 2),
        "of these with infinite ends": (low >= -2) & (high > 2) & (cells["infinite"] > 0),
        "below": low < -2,
        "below by more than 3": low < -3,
    }
    told = ", ".join(f"{name}: {each.sum()}" for name, each in counts.items())
    return f"{cells.round(2).to_string(index=False)}\n{len(cells)} cells; {told}"
