"""Persons with several records, and costs of classes: ours, the usual ways, and no privacy.

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
from sklearn.metrics import balanced_accuracy_score, log_loss, r2_score

from benchmarks import tables
from skdp import DPLogisticRegression, DPRidge
from skdp.privacy.gaussian_dp import gaussian_epsilon, gaussian_mu

#: Numbers of records per person, persons, epsilon, and the share of variance between persons.
FAMILIES = (
    ("1", 500, 1.0, 0.5),
    ("1", 2000, 1.0, 0.5),
    ("1-50", 500, 1.0, 0.05),
    ("1-20", 2000, 1.0, 0.05),
    ("log-normal", 500, 1.0, 0.5),
    ("log-normal", 1000, 1.0, 0.5),
    ("log-normal", 2000, 1.0, 0.5),
    ("log-normal", 2000, 4.0, 0.5),
    ("log-normal", 500, 4.0, 0.5),
)
#: Records and share of positives, at epsilon 1.
RARE = ((20_000, 0.1), (20_000, 0.05), (20_000, 0.02), (5000, 0.05), (2000, 0.1), (2000, 0.05))
#: Distances to no privacy that a prototype had on a draw of its own of these families.
AIMS = {
    ("1-50, 0.05 between", 500, 1.0, "log loss"): 0.025,
    ("1-50, 0.05 between", 500, 1.0, "R2"): 0.010,
    ("log-normal, 0.5 between", 500, 1.0, "log loss"): 0.025,
    ("log-normal, 0.5 between", 2000, 1.0, "log loss"): 0.0050,
    ("log-normal, 0.5 between", 2000, 1.0, "R2"): 0.0013,
    ("log-normal, 0.5 between", 2000, 4.0, "log loss"): 0.0016,
    ("log-normal, 0.5 between", 2000, 4.0, "R2"): 0.0029,
    ("10% positives", 20_000, 1.0, "balanced accuracy"): 0.004,
    ("5% positives", 20_000, 1.0, "balanced accuracy"): 0.004,
    ("2% positives", 20_000, 1.0, "balanced accuracy"): 0.004,
    ("5% positives", 5000, 1.0, "balanced accuracy"): 0.0088,
    ("10% positives", 2000, 1.0, "balanced accuracy"): 0.0150,
    ("5% positives", 2000, 1.0, "balanced accuracy"): 0.0619,
}
WEIGHTS = np.array([1.2, -1.0, 0.8, 0.6, -0.4, 0.3, 0.0, 0.0])
BOUND, DELTA = 6.0, 1e-6
SHOWN = ["family", "n", "epsilon", "score", "distance", "error", "aim", "behind"]


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    seeds = 2 if options.quick else options.seeds
    for family in FAMILIES[:1] if options.quick else FAMILIES:
        yield from longitudinal(*family, seeds)
    for n, share in RARE[-1:] if options.quick else RARE:
        found = pd.DataFrame([costs(n, share, seed) for seed in range(seeds)])
        yield row(f"{share:.0%} positives", n, 1.0, "balanced accuracy", found, "shift")


def row(
    family: str, n: int, epsilon: float, score: str, found: pd.DataFrame, ours: str
) -> dict[str, Any]:
    """Means over seeds, how far ours is from no privacy, and what it is behind.

    By more than two standard errors: of the other ways, and of the aim.
    """
    found = found if score != "log loss" else -found
    others = found.columns.drop([ours, "none"])
    gaps = {name: found[ours] - found[name] for name in others}
    distance, aim = found["none"] - found[ours], AIMS.get((family, n, epsilon, score), np.nan)
    gaps["aim"] = aim - distance
    return {
        "family": family,
        "n": n,
        "epsilon": epsilon,
        "score": score,
        **found.mean().abs().to_dict(),
        "distance": distance.mean(),
        "error": tables.standard_error(distance),
        "aim": aim,
        "behind": ", ".join(
            name
            for name, gap in gaps.items()
            if gap.mean() + 2.0 * tables.standard_error(gap) < -1e-6  # not rounding
        ),
    }


def longitudinal(
    numbers: str, n: int, epsilon: float, between: float, seeds: int
) -> Iterator[dict[str, Any]]:
    """Both scores of one family."""
    found = [one_split(numbers, n, epsilon, between, seed) for seed in range(seeds)]
    for score in ("log loss", "R2"):
        of_score = pd.DataFrame([each[score] for each in found])
        yield row(f"{numbers}, {between:g} between", n, epsilon, score, of_score, "persons")


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


def imbalanced(
    rng: np.random.Generator, n: int, share: float, d: int = 10
) -> tuple[np.ndarray, np.ndarray]:
    """Two normal laws of equal covariance."""
    y = (rng.random(n) < share).astype(int)
    X = (rng.normal(size=(n, d)) + 0.56 * y[:, None]) / (1.95 * np.sqrt(d))
    return X / np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None], y


def costs(n: int, share: float, seed: int) -> dict[str, float]:
    """Balanced accuracies with costs that balance the classes."""
    rng = np.random.default_rng(seed)
    (X, y), (seen, labels) = imbalanced(rng, n, share), imbalanced(rng, 40_000, share)
    given: dict[str, Any] = {"data_norm": 1.0, "classes": [0, 1], "random_state": seed}
    ratio = share / (1.0 - share)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of noise that is large
        models = {
            "shift": DPLogisticRegression(class_weight="balanced", **given).fit(X, y),
            "weights": DPLogisticRegression(weight_bound=1.0, **given).fit(
                X, y, sample_weight=np.where(y, 1.0, ratio)
            ),
            "none": LogisticRegression(C=1e3, class_weight="balanced").fit(X, y),
        }
    return {
        name: balanced_accuracy_score(labels, model.predict(seen)) for name, model in models.items()
    }


def page(table: pd.DataFrame) -> str:
    """Return the tables of docs/benchmarks/persons.md."""
    is_rare = table["score"] == "balanced accuracy"
    ways = ["persons", "at most 1/4", "one record", "group privacy", "none"]
    parts = []
    for part, columns, title in (
        (table[~is_rare], ways, "records per person"),
        (table[is_rare], ["shift", "weights", "none"], "records"),
    ):
        names = ["n", "epsilon", "score"]
        rows = [
            (
                *(row.family, row.n, f"{row.epsilon:g}", row.score),
                *(f"{row[c]:.3f}" for c in columns),
                f"{row.distance:.4f} ({row.error:.4f})",
                "" if np.isnan(row.aim) else f"{row.aim:.4f}",
                row.behind,
            )
            for _, row in part.iterrows()
        ]
        heads = [title, *names, *columns[:-1], "no privacy", "distance", "aim", "behind"]
        parts += [*tables.markdown(heads, rows), ""]
    return "\n".join(parts)


MARK = "persons table"
