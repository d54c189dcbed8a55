"""Persons with several records: ours, the usual ways, and no privacy.

Simulated data, test records of other persons, each person with a weight of 1. "one record": one
random record per person and no ids, which is private for persons, too. "group privacy": all records
and no ids, with mu of Gaussian differential privacy over the largest number of records of a person.
"at most 1/4": a record has at most a quarter of the weight of its person.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss, r2_score

from benchmarks import tables
from skdp import DPLogisticRegression, DPRidge
from skdp.privacy.gaussian_dp import gaussian_epsilon, gaussian_mu

#: Numbers of records per person, persons, epsilon, and the share of variance between persons.
FAMILIES = (
    ("1", 500, 1.0, 0.5), ("1", 2000, 1.0, 0.5), ("1-50", 500, 1.0, 0.05),
    ("1-20", 2000, 1.0, 0.05), ("log-normal", 500, 1.0, 0.5), ("log-normal", 1000, 1.0, 0.5),
    ("log-normal", 2000, 1.0, 0.5), ("log-normal", 2000, 4.0, 0.5), ("log-normal", 500, 4.0, 0.5),
)  # fmt: skip
WEIGHTS = np.array([1.2, -1.0, 0.8, 0.6, -0.4, 0.3, 0.0, 0.0])
BOUND, DELTA = 6.0, 1e-6
WAYS = ["persons", "at most 1/4", "one record", "group privacy", "none"]
SHOWN = ["family", "n", "epsilon", "score", *WAYS]


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    seeds = 2 if options.quick else options.seeds
    for family in FAMILIES[:1] if options.quick else FAMILIES:
        yield from longitudinal(*family, seeds)


def longitudinal(
    numbers: str, n: int, epsilon: float, between: float, seeds: int
) -> Iterator[dict[str, Any]]:
    """Both scores of one family, means over seeds."""
    found = [one_split(numbers, n, epsilon, between, seed) for seed in range(seeds)]
    for score in ("log loss", "R2"):
        means = pd.DataFrame([each[score] for each in found]).mean().to_dict()
        cell = {"family": f"{numbers}, {between:g} between", "n": n, "epsilon": epsilon}
        yield cell | {"score": score} | means


def persons(
    rng: np.random.Generator, numbers: str, n: int, between: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows of norm at most 1, labels, numbers and ids."""
    if numbers == "log-normal":
        m = np.clip(np.round(np.exp(rng.normal(np.log(4.0), 0.9, n))), 1, 50).astype(int)
    else:
        m = rng.integers(1, int(numbers.split("-")[-1]) + 1, n)
    ids, d = np.repeat(np.arange(n), m), len(WEIGHTS)
    X = np.sqrt(between) * rng.normal(size=(n, d))[ids]
    X += np.sqrt(1.0 - between) * rng.normal(size=X.shape)
    z = X @ WEIGHTS + 0.6 * rng.normal(size=n)[ids]
    y = (rng.random(len(z)) < 1.0 / (1.0 + np.exp(-z))).astype(int)
    X /= 2.0 * np.sqrt(d)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    return X, y, np.clip(z + 0.8 * rng.normal(size=len(z)), -BOUND, BOUND), ids


def one_split(
    numbers: str, n: int, epsilon: float, between: float, seed: int
) -> dict[str, dict[str, float]]:
    rng = np.random.default_rng(1000 + seed)  # not those that constants were chosen with
    X, y, t, ids = persons(rng, numbers, n, between)
    tested = persons(rng, numbers, 3000, between)
    sizes = np.bincount(ids)
    own, weights = 1.0 / sizes[ids], 1.0 / np.bincount(tested[3])[tested[3]]
    one = np.cumsum(sizes) - sizes + (rng.random(n) * sizes).astype(int)
    of_record = gaussian_epsilon(DELTA, gaussian_mu(epsilon, DELTA) / sizes.max())
    ways: dict[str, tuple[Any, float, Any, dict[str, Any]]] = {
        "persons": (slice(None), epsilon, ids, {}),
        "at most 1/4": (slice(None), epsilon, ids, {"max_records_per_user": 4}),
        "one record": (one, epsilon, None, {}),
        "group privacy": (slice(None), of_record, None, {}),
    }
    found: dict[str, dict[str, float]] = {"log loss": {}, "R2": {}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of noise that is large
        for name, (part, budget, of_persons, others) in ways.items():
            given = {"epsilon": budget, "data_norm": 1.0, "random_state": seed, **others}
            p = DPLogisticRegression(classes=[0, 1], **given)
            r = DPRidge(target_range=(-BOUND, BOUND), **given)
            p.fit(X[part], y[part], user_ids=of_persons)
            r.fit(X[part], t[part], user_ids=of_persons)
            loss = log_loss(tested[1], p.predict_proba(tested[0]), sample_weight=weights)
            found["log loss"][name] = loss
            found["R2"][name] = r2_score(tested[2], r.predict(tested[0]), sample_weight=weights)
    plain = LogisticRegression(C=1e3).fit(X, y, sample_weight=own).predict_proba(tested[0])
    found["log loss"]["none"] = log_loss(tested[1], plain, sample_weight=weights)
    line = Ridge(1e-3).fit(X, t, sample_weight=own).predict(tested[0])
    found["R2"]["none"] = r2_score(tested[2], line, sample_weight=weights)
    return found


def page(table: pd.DataFrame) -> str:
    """Return the table of docs/benchmarks/tables.md."""
    heads = ["records per person", "n", "epsilon", "score", *WAYS[:-1], "no privacy"]
    rows = [
        (row.family, row.n, f"{row.epsilon:g}", row.score, *(f"{row[way]:.3f}" for way in WAYS))
        for _, row in table.iterrows()
    ]
    return "\n".join(tables.markdown(heads, rows))


MARK = "persons table"
