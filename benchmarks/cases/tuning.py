"""Test loss of models that choose their penalty privately, and what the choice costs in time.

`DPRidgeCV` and `DPLogisticRegressionCV` by all of their methods, against other private ways to
choose (``benchmarks/tuning_baselines.py``), alphas written down before, and what is not
private: the best alpha in hindsight, with and without noise. Every method gets the same
records (norm at most 1, targets in [-1, 1], both public), delta = 1e-6, replace-one neighbours.
Seeds give the records (or the split of a data set) and the noise; methods are compared seed by
seed.

The loss of ridge is the mean squared error in units of half the target range, predictions
clipped to that range; ``unclipped`` is without. That of logistic regression is the log loss.
"""

from __future__ import annotations

import argparse
import inspect
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import train_test_split

from benchmarks import data, tuning_baselines
from benchmarks.tuning_baselines import GRID, INTERCEPT, BaseFits, Choice, total_epsilon
from skdp.linear_model import DPLogisticRegression, DPRidge
from skdp.methods import Bilevel
from skdp.methods.tuning import INNER
from skdp.model_selection import DPLogisticRegressionCV, DPRidgeCV

EPSILONS = (0.5, 1.0, 3.0)
DELTA = 1e-6
#: Strengths of the models without privacy, besides those of the grid.
PUBLIC_ALPHAS = (1e-6, 1e-5)
#: From here on the default is held against the baselines.
LARGE = 10_000
#: Records of synthetic test sets.
_TEST = 20_000
#: Methods that took longer are left out at larger data sets.
_PATIENCE = 10.0
#: Our methods besides the default, which have no claim to show, get this many seeds.
_FEW = 3
#: Shares of a record that no fit sees: of data sets that are given.
_HELD_OUT = 0.2

DEFAULT = "default"
OURS, BASELINE, PUBLIC = "ours", "private baseline", "not private"


@dataclass(frozen=True)
class Records:
    """Training and test records of one seed."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


@dataclass(frozen=True)
class Point:
    """A data set at a size; `draw(seed)` makes its records.

    `groups` are group labels of the features for the methods that tune several alphas.
    """

    name: str
    logistic: bool
    draw: Callable[[int], Records]
    seeds: int
    groups: np.ndarray | None = None

    @property
    def model(self) -> str:
        return "logistic" if self.logistic else "ridge"

    @property
    def n_groups(self) -> int:
        return 1 if self.groups is None else len(np.unique(self.groups))


# --------------------------------------------------------------------------------------------- data


def synthetic(kind: str, logistic: bool, n: int, d: int) -> Callable[[int], Records]:
    """Rows of norm at most 1 and targets of a linear or logistic model of them.

    - "isotropic": unit rows, all directions alike.
    - "decay": features of standard deviation ``1 / (j + 1)``, rows longer than 1 shortened.
    - "heavy": isotropic rows times a Student t variable of 2.5 degrees; targets are made from the
      rows as they were, models see them shortened to norm 1.
    - "groups": unit rows; the signal of the 16 groups of features falls by half from one to the
      next, so that the last have none that could be found.
    """

    def draw(seed: int) -> Records:
        rng = np.random.default_rng([seed, n, d])
        direction = rng.standard_normal(d)
        spread = np.ones(d)
        if kind == "decay":
            spread = 1.0 / np.arange(1, d + 1)
        if kind == "groups":
            direction *= 0.5 ** feature_groups(d, 16)
        signal = direction * spread
        direction /= np.linalg.norm(signal)
        m = n + min(n, _TEST)
        X = rng.standard_normal((m, d))
        X *= spread
        if kind == "heavy":
            X *= np.abs(rng.standard_t(2.5, size=(m, 1)))
        scores = X @ direction  # of standard deviation 1
        if logistic:
            y = (rng.random(m) < expit(3.0 * scores)).astype(int)
        else:
            y = np.clip(0.4 * scores + 0.2 * rng.standard_normal(m), -1.0, 1.0)
        norms = np.linalg.norm(X, axis=1, keepdims=True)
        if kind in ("decay", "heavy"):
            scale = 2.0 * np.linalg.norm(spread)  # public: about twice the usual norm
            norms = np.maximum(norms, scale)
        X /= norms
        return Records(X[:n], y[:n], X[n:], y[n:])

    return draw


def feature_groups(d: int, q: int) -> np.ndarray:
    """Labels 0, ..., q - 1 in order, for d features."""
    return np.arange(d) * q // d


def split(dataset: data.Dataset) -> Callable[[int], Records]:
    """Random splits; targets mapped to [-1, 1] by their public range."""
    y = np.asarray(dataset.y)
    if dataset.target_range is not None:
        low, high = dataset.target_range
        y = (np.clip(y, low, high) - 0.5 * (low + high)) / (0.5 * (high - low))

    def draw(seed: int) -> Records:
        X, X_test, t, t_test = train_test_split(
            dataset.X, y, test_size=_HELD_OUT, random_state=seed
        )
        return Records(X, t, X_test, t_test)

    return draw


#: kind, n, d, numbers of penalty groups.
RIDGE_SIZES = (
    *(
        (kind, n, d, (1,))
        for kind, d in (("isotropic", 10), ("isotropic", 50), ("decay", 50))
        for n in (3_000, 10_000, 100_000, 1_000_000)
    ),
    *(("heavy", n, 20, (1,)) for n in (10_000, 100_000)),
    *(("groups", n, 64, (1, 4, 16)) for n in (10_000, 100_000)),
    *(("isotropic", n, 500, (1,)) for n in (10_000, 100_000)),
)
LOGISTIC_SIZES = (*RIDGE_SIZES[:-2], ("isotropic", 10_000, 200, (1,)), *RIDGE_SIZES[-2:])


def points(options: argparse.Namespace) -> Iterator[Point]:
    if options.quick:
        yield Point("isotropic", True, synthetic("isotropic", True, 300, 5), 2)
        draw = synthetic("groups", False, 300, 8)
        yield Point("groups", False, draw, 2, feature_groups(8, 4))
        return
    half = math.ceil(options.seeds / 2)
    for logistic, sizes in ((False, RIDGE_SIZES), (True, LOGISTIC_SIZES)):
        given = [data.breast_cancer()] if logistic else [data.diabetes()]
        if logistic and options.adult:
            given.append(data.read_adult(options.adult))
        if not logistic and options.california:
            given.append(data.read_california(options.california))
        for dataset in given:
            seeds = options.seeds if len(dataset.y) < 3 * LARGE else half
            yield Point(dataset.name, logistic, split(dataset), seeds)
        for kind, n, d, numbers in sizes:
            seeds = options.seeds if n * d <= 1e6 else half
            if n * d > 6e6 or d >= 200:
                seeds = min(3, seeds)
            for q in numbers:
                groups = feature_groups(d, q) if q > 1 else None
                yield Point(kind, logistic, synthetic(kind, logistic, n, d), seeds, groups)


# ------------------------------------------------------------------------------------------ methods


def estimator(logistic: bool) -> Any:
    return DPLogisticRegressionCV if logistic else DPRidgeCV


def our_methods(logistic: bool, n_groups: int) -> dict[str, dict[str, Any]]:
    """Parameters by name: the default first, and every other method."""
    kind = estimator(logistic)
    usual = inspect.signature(kind).parameters["method"].default
    found: dict[str, dict[str, Any]] = {DEFAULT: {}}
    if n_groups > 1:
        found[f"{DEFAULT}, one alpha"] = {"penalty_groups": None}
    found |= {f"method={name}": {"method": name} for name in kind._methods if name != usual}
    published = {inner: Bilevel(as_published=True, inner=inner) for inner in INNER}
    return found | {f"bilevel, {inner}": {"method": own} for inner, own in published.items()}


def our_fit(
    point: Point, parameters: dict[str, Any], records: Records, epsilon: float, seed: int
) -> tuple[Any, float]:
    """A fitted self-tuning estimator and the seconds of its fit."""
    known: dict[str, Any] = {"classes": (0, 1)} if point.logistic else {"target_range": (-1, 1)}
    known |= {"penalty_groups": point.groups, "random_state": seed, "data_norm": 1.0} | parameters
    model = estimator(point.logistic)(epsilon, DELTA, **known)
    start = time.perf_counter()
    model.fit(records.X, records.y)
    return model, time.perf_counter() - start


def weights_of(model: Any) -> np.ndarray:
    """Coefficients and that of the constant feature."""
    return np.append(np.ravel(model.coef_), np.ravel(model.intercept_)[0] / INTERCEPT)


def automatic(logistic: bool) -> tuning_baselines.Baseline:
    """Output perturbation with alpha by a public rule."""

    def run(fits: BaseFits, epsilon: float, delta: float, rng: np.random.Generator) -> Choice:
        seed = int(rng.integers(2**31))
        shared: dict[str, Any] = {"method": "output_perturbation", "random_state": seed}
        model: Any = DPRidge(epsilon, delta, target_range=(-1.0, 1.0), **shared)
        if logistic:
            model = DPLogisticRegression(epsilon, delta, classes=(0, 1), **shared)
        model.fit(fits.X, fits.targets.astype(int) if logistic else fits.targets)
        return Choice(weights_of(model), model.alpha_, model.privacy_.releases[0].event)

    return run


def losses(logistic: bool, records: Records, weights: np.ndarray) -> tuple[float, float]:
    """Test loss, and without clipping (ridge) or one minus the accuracy (logistic)."""
    margins = records.X_test @ weights[:-1] + INTERCEPT * weights[-1]
    y = records.y_test
    if logistic:
        log_loss = float(np.logaddexp(0.0, np.where(y == 1, -margins, margins)).mean())
        return log_loss, float(((margins > 0) != (y == 1)).mean())
    clipped = np.clip(margins, -1.0, 1.0)
    return float(((clipped - y) ** 2).mean()), float(((margins - y) ** 2).mean())


# ----------------------------------------------------------------------------------------- the case


@dataclass
class Result:
    """What one method did at one point and epsilon: a list over the seeds of each number."""

    role: str
    losses: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)
    alphas: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)
    spent: float = math.nan


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    slow: dict[tuple[bool, str], int] = {}
    if options.quick:  # the calibration of a sampled Gaussian takes seconds at any size
        slow = {(logistic, "bilevel, localized_sgd"): 0 for logistic in (False, True)}
    for point in points(options):
        yield from evaluate(point, EPSILONS[1:2] if options.quick else EPSILONS, slow)
    for logistic in (False, True):
        yield from times(logistic, *((500, 5, 1) if options.quick else (1_000_000, 50, 5)))


def evaluate(
    point: Point, epsilons: tuple[float, ...], slow: dict[tuple[bool, str], int]
) -> Iterator[dict[str, Any]]:
    """One row per method and epsilon. `slow` remembers methods that have become too slow."""
    results: dict[tuple[str, float], Result] = {}
    own = our_methods(point.logistic, point.n_groups)
    others = tuning_baselines.baselines(point.logistic, point.n_groups)
    others["public rule"] = automatic(point.logistic)

    def add(
        name: str,
        epsilon: float,
        role: str,
        weights: np.ndarray,
        alpha: Any,
        seconds: float = math.nan,
        runs: int = 1,
        spent: float = math.nan,
    ) -> None:
        result = results.setdefault((name, epsilon), Result(role))
        loss, other = losses(point.logistic, records, weights)
        result.losses.append(loss)
        result.others.append(other)
        result.alphas.append(typical(alpha))
        result.seconds.append(seconds)
        result.runs.append(runs)
        result.spent = spent

    for seed in range(point.seeds):
        records = point.draw(seed)
        (n, d), targets = records.X.shape, records.y.astype(np.float64)
        fits = BaseFits(records.X, targets, point.logistic, point.groups)
        for epsilon in epsilons:
            for name, parameters in own.items():
                if slow.get((point.logistic, name), n * d) < n * d:
                    continue
                if name != DEFAULT and seed >= _FEW:
                    continue
                try:
                    model, seconds = our_fit(point, parameters, records, epsilon, seed)
                except ValueError as error:  # a method that is not made for this
                    print(f"tuning: {name} left out: {error}", file=sys.stderr, flush=True)
                    continue
                if seconds > _PATIENCE:
                    slow[point.logistic, name] = n * d
                spent = model.privacy_.epsilon
                add(*(name, epsilon, OURS, weights_of(model), model.alpha_, seconds), spent=spent)
            for number, (name, baseline) in enumerate(others.items()):
                rng = np.random.default_rng([seed, number])
                start, known = time.perf_counter(), set(fits._solutions)
                choice = baseline(fits, epsilon, DELTA, rng)
                seconds = time.perf_counter() - start
                # what was solved for another method is charged here as well
                seconds += sum(fits.solution(key).seconds for key in set(choice.asked) & known)
                spent = 0.0 if choice.event is None else total_epsilon(choice.event, DELTA)
                assert spent <= epsilon * (1.0 + 1e-9), (name, spent)
                add(
                    *(name, epsilon, BASELINE, choice.weights, choice.penalty),
                    *(seconds, choice.runs, spent),
                )
        for alpha in (*PUBLIC_ALPHAS, *GRID):
            weights = fits.solution(alpha).weights
            add(f"no privacy, alpha={alpha:g}", math.inf, PUBLIC, weights, alpha)
    best = hindsight(results, "no privacy, alpha=", math.inf)
    for epsilon in epsilons:
        chosen = {name: found for (name, e), found in results.items() if e == epsilon}
        chosen["best fixed in hindsight"] = hindsight(results, "fixed alpha=", epsilon)
        chosen["no privacy"] = best
        for name, found in chosen.items():
            yield {
                "part": "loss", "model": point.model, "dataset": point.name, "n": n, "d": d,
                "penalty_groups": point.n_groups, "epsilon": epsilon, "delta": DELTA,
                "method": name, "role": found.role, **summary(found, chosen.get(DEFAULT)),
            }  # fmt: skip


def typical(alpha: Any) -> float:
    """Geometric mean of the alphas of all groups."""
    with np.errstate(divide="ignore"):
        return float(np.exp(np.log(np.asarray(alpha, dtype=float)).mean()))


def hindsight(results: dict[tuple[str, float], Result], prefix: str, epsilon: float) -> Result:
    """The best of some methods on the test records."""
    candidates = [
        found for (name, e), found in results.items() if name.startswith(prefix) and e == epsilon
    ]
    best = min(candidates, key=lambda found: np.mean(found.losses))
    return replace(best, role=PUBLIC, seconds=[math.nan], spent=math.nan)


def summary(found: Result, default: Result | None) -> dict[str, Any]:
    """Columns of a row; `default_minus` compares seed by seed."""
    values = np.array(found.losses)
    columns = {
        "n_seeds": len(values), "mean": values.mean(),
        "std": values.std(ddof=1) if len(values) > 1 else math.nan,
        "unclipped_or_error": float(np.mean(found.others)), "alpha": float(np.median(found.alphas)),
        "seconds": float(np.median(found.seconds)), "runs": float(np.mean(found.runs)),
        "epsilon_spent": found.spent,
    }  # fmt: skip
    if default is not None and len(default.losses) == len(values):
        difference = np.array(default.losses) - values
        columns["default_minus"] = difference.mean()
        if len(values) > 1:
            columns["default_minus_std"] = difference.std(ddof=1)
    return columns


def times(logistic: bool, n: int, d: int, pairs: int) -> Iterator[dict[str, Any]]:
    """The default's fit and one of scikit-learn's without privacy, in turn."""
    point = Point("isotropic", logistic, synthetic("isotropic", logistic, n, d), 1)
    row = {"part": "time", "model": point.model, "dataset": point.name, "n": n, "d": d}
    records = point.draw(0)
    for pair in range(pairs):
        _, ours = our_fit(point, {}, records, 1.0, pair)
        peer: Any = LogisticRegression(C=1e3 / n) if logistic else Ridge(alpha=1e-3 * n)
        start = time.perf_counter()
        peer.fit(records.X, records.y)
        theirs = time.perf_counter() - start
        row |= {"method": DEFAULT, "role": OURS, "seconds": ours, "sklearn_seconds": theirs}
        yield row | {"time_ratio": ours / theirs}


# -------------------------------------------------------------------------------------------- table

_KEYS = ["model", "dataset", "n", "d", "penalty_groups", "epsilon"]


def verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """The default against every private baseline.

    "behind": by more than two standard errors of the differences seed by seed; "strictly behind":
    the mean is above, however little.
    """
    found = table[(table["part"] == "loss") & (table["role"] == BASELINE)]
    found = found[found["default_minus"].notna()]
    error = found["default_minus_std"].fillna(0.0) / np.sqrt(found["n_seeds"])
    above = found["default_minus"] > 1e-12
    behind = above & (found["default_minus"] > 2.0 * error)
    return found.assign(**{"error": error, "strictly behind": above, "behind": behind})


def summarise(table: pd.DataFrame) -> str:
    parts = []
    compared = verdicts(table)
    columns = [*_KEYS[1:], "method", "mean", "default_minus", "error"]
    for model, group in compared.groupby("model", sort=False):
        large = group[group["n"] >= LARGE]
        by_point = large.groupby(_KEYS, sort=False)[["behind", "strictly behind"]].any()
        parts.append(
            f"{model}: at {int((~by_point['behind']).sum())} of {len(by_point)} points with n >= "
            f"{LARGE} the default is at or below every private baseline within two standard "
            f"errors over the seeds, at {int((~by_point['strictly behind']).sum())} its mean is."
        )
        small = group[group["n"] < LARGE]
        within = large["strictly behind"] & ~large["behind"]
        for title, rows in (
            ("It is behind", large[large["behind"]]),
            ("Its mean is above, within two standard errors", large[within]),
            (f"It is behind at n < {LARGE}", small[small["behind"]]),
        ):
            if len(rows):
                parts.append(f"{title}:\n" + rows[columns].to_string(index=False))
    for model, group in table[table["part"] == "time"].groupby("model", sort=False):
        first = group.iloc[0]
        parts.append(
            f"{model}: one fit of the default takes {group['time_ratio'].median():.2f} times "
            f"(range {group['time_ratio'].min():.2f} to {group['time_ratio'].max():.2f}) one of "
            f"scikit-learn without privacy, n = {first['n']}, d = {first['d']}."
        )
    return "\n\n".join(parts)
