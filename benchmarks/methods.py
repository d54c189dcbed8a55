"""Methods with their settings, scored alike: accuracy, or R2 of clipped predictions.

Splits are 80/20 with one seed per repetition. R2 is that of predictions clipped to the public range
of y, for every method, since that is free; ``unclipped_mean`` is without.
A method of several settings has one row per setting ("candidate") and one for the best of them on
the mean *test* score, which is not private and flatters every method.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import train_test_split

from benchmarks import data
from skdp.algorithms import Run, dp_sgd
from skdp.mechanisms import NoiseSource
from skdp.privacy import PrivacyBudget
from skdp.problems import HalfSquaredLoss, LogisticLoss, Loss, Records, SoftmaxLoss

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
#: Of every method that has a delta; below 1/n for every data set.
DELTA = 1e-5
#: Penalties of the model without privacy, which needs little of it.
PUBLIC_ALPHAS = (1e-6, 1e-5, 1e-4, 1e-3)


@dataclass(frozen=True)
class Setting:
    """One choice of DP-SGD's parameters, see :func:`skdp.algorithms.dp_sgd`."""

    sampling_rate: float
    n_steps: int
    learning_rate: float
    clip_norm: float = 1.0

    def __str__(self) -> str:
        return (
            f"sampling_rate={self.sampling_rate:g} steps={self.n_steps} "
            f"learning_rate={self.learning_rate:g} clip_norm={self.clip_norm:g}"
        )


#: DP-SGD: sampling rate, steps, learning rate, clipping norm; the first is the fixed setting.
#: Chosen by hand from a wider search on the same data sets, which flatters DP-SGD.
DP_SGD = {
    "classification": (
        Setting(0.05, 200, 4.0),
        Setting(0.05, 200, 1.0),
        Setting(0.05, 200, 16.0),
        Setting(0.2, 250, 2.0),
        Setting(0.2, 250, 16.0),
        Setting(1.0, 30, 4.0),
        Setting(1.0, 30, 16.0),
    ),
    "regression": (
        Setting(0.05, 200, 1.0, 0.25),
        Setting(0.05, 200, 2.0, 0.25),
        Setting(0.05, 200, 1.0),
        Setting(0.05, 200, 4.0),
        Setting(0.2, 250, 0.5, 0.25),
        Setting(0.2, 250, 1.0),
        Setting(1.0, 30, 0.5, 0.25),
        Setting(1.0, 30, 1.0),
    ),
}
#: Constant feature of DP-SGD, as in skdp's default.
INTERCEPT = 0.1
FIXED, CANDIDATE = "fixed", "candidate"
BEST = "best candidate on the test score (not private)"

Predictor = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Method:
    """A way to fit, with the settings that are tried.

    ``fit(setting, epsilon, X, y, seed)`` returns a function that predicts. Several settings
    stand for one method that is given the best of them.
    """

    name: str
    neighbouring: str
    delta: float
    settings: tuple[Any, ...]
    fit: Callable[[Any, float, np.ndarray, np.ndarray, int], Predictor]
    private: bool = True


def evaluate(
    dataset: data.Dataset,
    n_seeds: int,
    quick: bool,
    make_methods: Callable[[data.Dataset, bool], list[Method]],
) -> Iterator[dict[str, Any]]:
    """One row per method, setting and epsilon."""
    scores: dict[tuple[str, Any, float], list[tuple[float, float]]] = {}
    alphas: dict[tuple[str, Any, float], float] = {}
    methods: list[Method] = []
    for seed in range(n_seeds):
        X, X_test, y, y_test = train_test_split(
            dataset.X, dataset.y, test_size=0.2, random_state=seed
        )
        methods = make_methods(dataset, quick)
        for method in methods:
            for setting in method.settings:
                for epsilon in ((1.0,) if quick else EPSILONS) if method.private else (math.inf,):
                    key = (method.name, setting, epsilon)
                    predict = method.fit(setting, epsilon, X, y, seed)
                    scores.setdefault(key, []).append(score(dataset, predict(X_test), y_test))
                    model = getattr(predict, "__self__", None)
                    given = setting if isinstance(setting, float) else math.nan
                    alphas[key] = getattr(model, "alpha_", given)
    for method in methods:
        for (name, setting, epsilon), values in scores.items():
            if name != method.name:
                continue
            clipped, unclipped = np.array(values).T
            yield {
                "dataset": dataset.name,
                "n_train": len(y),
                "n_features": dataset.X.shape[1],
                "metric": "accuracy" if dataset.is_classification else "R2",
                "method": name,
                "selection": FIXED if len(method.settings) == 1 else CANDIDATE,
                "setting": str(setting),
                "alpha": alphas[name, setting, epsilon],
                "epsilon": epsilon,
                "delta": method.delta,
                "neighbouring": method.neighbouring,
                "n_seeds": n_seeds,
                "mean": clipped.mean(),
                "std": clipped.std(ddof=1) if n_seeds > 1 else math.nan,
                "unclipped_mean": unclipped.mean(),
            }


def score(dataset: data.Dataset, predicted: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Accuracy twice, or R2 with and without clipping to the public range of y."""
    if dataset.target_range is None:
        accuracy = float(accuracy_score(y, predicted))
        return accuracy, accuracy
    clipped = np.clip(predicted, *dataset.target_range)
    return float(r2_score(y, clipped)), float(r2_score(y, predicted))


def with_best(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows and, for each method and epsilon with candidates, a copy of the best."""
    best: dict[tuple[str, float], dict[str, Any]] = {}
    for row in rows:
        key = (row["method"], row["epsilon"])
        if row["selection"] == CANDIDATE and (key not in best or row["mean"] > best[key]["mean"]):
            best[key] = row
    return rows + [row | {"selection": BEST} for row in best.values()]


def dp_sgd_fit(dataset: data.Dataset) -> Callable:
    def with_intercept(X: np.ndarray) -> np.ndarray:
        return np.hstack([X, np.full((len(X), 1), INTERCEPT)])

    def fit(setting: Any, epsilon: float, X: np.ndarray, y: np.ndarray, seed: int) -> Predictor:
        def weights(targets: np.ndarray, loss: Loss) -> np.ndarray:
            result = dp_sgd(
                Records(X, 1.0, INTERCEPT, targets=targets),
                loss,
                PrivacyBudget(epsilon, DELTA),
                n_public=len(y),
                run=Run(noise=NoiseSource(np.random.default_rng(seed).bytes)),
                **asdict(setting),
            )
            return result.point.reshape(loss.n_outputs, -1)

        if dataset.target_range is not None:
            low, high = dataset.target_range
            middle, half = 0.5 * (low + high), 0.5 * (high - low)
            w = weights((np.clip(y, low, high) - middle) / half, HalfSquaredLoss(1.0))[0]
            return lambda X: middle + half * (with_intercept(X) @ w)
        classes = np.array(dataset.classes)
        if len(classes) == 2:
            w = weights((y == classes[1]).astype(float), LogisticLoss())[0]
            return lambda X: classes[(with_intercept(X) @ w > 0).astype(int)]
        loss = SoftmaxLoss(len(classes))
        w = loss.basis @ weights((y[:, None] == classes).argmax(axis=1), loss)
        return lambda X: classes[(with_intercept(X) @ w.T).argmax(axis=1)]

    return fit


def constant_fit(dataset: data.Dataset) -> Callable:
    """The most frequent class, or the mean of y."""

    def fit(setting: Any, epsilon: float, X: np.ndarray, y: np.ndarray, seed: int) -> Predictor:
        model = DummyClassifier() if dataset.is_classification else DummyRegressor()
        return model.fit(X, y).predict

    return fit
