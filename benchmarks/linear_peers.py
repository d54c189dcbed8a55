"""The peers of the comparison of linear models that need no environment of their own.

DP-SGD is Abadi et al. (2016), Alg. 1, with the mean of the second half of the iterates, for many
settings at once: all models of one split and one schedule take the
same batches, so that a step is two products of matrices. Its noise comes from a seeded generator,
is the same up to its scale for all models, and is calibrated by privacy loss distributions for the
relation of the cell. AdaSSP is Wang (2018) with exact Gaussian accounting. Nothing in this file is
for real data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby

import numpy as np
from scipy.special import expit, ndtri, softmax
from scipy.stats import rankdata

from benchmarks import models
from benchmarks.data import Dataset
from benchmarks.linear_protocol import (
    ADD_REMOVE,
    DELTA,
    EPSILONS,
    RELATIONS,
    Scores,
    Split,
    metrics_of,
    score,
    splits,
)
from skdp.mechanisms import SampledGaussianMechanism, gaussian_noise_multiplier
from skdp.privacy import Neighbouring, PrivacyBudget

NO_PRIVACY, CONSTANT = "no privacy", "constant"
DP_SGD_BEST = "DP-SGD, best setting"
DP_SGD_HALF = "DP-SGD, other half's setting"
DP_SGD_OTHERS = "DP-SGD, other sets' setting"
ADASSP = "AdaSSP"
#: Penalties of the model without privacy, the best of which on the test records counts.
PENALTIES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
#: Constant feature of AdaSSP, and the probability that one of its bounds fails.
INTERCEPT, ADASSP_FAILURE = 0.1, 0.05
#: Numbers of a block of records that are worked on at once.
_BLOCK = 1 << 17


@dataclass(frozen=True, order=True)
class Setting:
    """One choice of DP-SGD's parameters; the learning rate is in units of 1 / clip_norm.

    The intercept is the weight of a constant feature of this value.
    """

    sampling_rate: float
    n_steps: int
    intercept: float
    learning_rate: float
    clip_norm: float

    @property
    def schedule(self) -> tuple[float, int, float]:
        return self.sampling_rate, self.n_steps, self.intercept

    def __str__(self) -> str:
        return (
            f"q={self.sampling_rate:g} steps={self.n_steps} rate={self.learning_rate:g} "
            f"clip={self.clip_norm:g} intercept={self.intercept:g}"
        )


#: Sampling rate, steps, intercept, learning rate and clipping norm of what ``linear_table`` tries.
#: They were chosen such that some of them is close to the best of about 350 in every cell of that
#: table (a few seeds), which flatters DP-SGD.
SETTINGS = {
    task: tuple(Setting(*choice) for choice in choices)
    for task, choices in {
        "classification": (
            *((0.05, 200, 0.1, 4, 1), (0.05, 200, 0.1, 16, 0.5), (0.05, 200, 0.4, 16, 1)),
            *((0.2, 250, 0.1, 1, 0.25), (0.2, 250, 0.1, 4, 0.1)),
            *((1, 10, 0.1, 0.25, 0.1), (1, 10, 0.1, 1, 0.1), (1, 10, 0.1, 4, 0.1)),
            *((1, 10, 0.1, 8, 0.1), (1, 10, 0.1, 8, 0.25), (1, 10, 0.4, 32, 1)),
            *((1, 30, 0.1, 0.25, 0.25), (1, 30, 0.1, 4, 0.25), (1, 30, 0.1, 8, 0.25)),
            *((1, 30, 0.4, 1, 0.25), (1, 100, 0.1, 0.25, 0.5), (1, 100, 0.1, 16, 0.1)),
            *((1, 300, 0.1, 0.25, 0.1), (1, 300, 0.1, 0.5, 0.25), (1, 300, 0.1, 1, 0.1)),
            *((1, 300, 0.1, 2, 0.1), (1, 300, 0.1, 16, 0.1), (1, 300, 0.1, 16, 0.5)),
            (1, 300, 0.4, 4, 0.5),
        ),
        "regression": (
            *((0.05, 200, 0.1, 1, 0.25), (0.05, 200, 0.1, 0.25, 0.1), (0.2, 250, 0.1, 0.25, 0.1)),
            *((0.2, 250, 0.1, 0.5, 0.1), (0.2, 250, 0.1, 2, 0.25), (1, 10, 0.1, 4, 0.1)),
            *((1, 10, 0.4, 1, 0.1), (1, 10, 0.4, 4, 0.5), (1, 30, 0.1, 0.25, 0.1)),
            *((1, 30, 0.1, 0.5, 0.1), (1, 30, 0.1, 1, 0.1), (1, 30, 0.4, 0.03, 0.05)),
            *((1, 30, 0.4, 0.12, 0.05), (1, 100, 0.1, 0.25, 0.5), (1, 100, 0.4, 0.12, 0.05)),
            (1, 1000, 0.1, 2, 0.5),
        ),
    }.items()
}
#: Without sampling, which takes seconds to calibrate.
QUICK = (Setting(1, 20, 0.1, 2, 0.5), Setting(1, 10, 0.1, 1, 1))


@cache
def noise_scale(relation: str, epsilon: float, sampling_rate: float, n_steps: int) -> float:
    """Standard deviation of a step's noise in units of the clipping norm."""
    mechanism = SampledGaussianMechanism.calibrated(
        PrivacyBudget(epsilon, DELTA), None, Neighbouring(relation),
        sensitivity=1.0 if relation == ADD_REMOVE else 2.0, sampling_rate=sampling_rate,
        n_steps=n_steps,
    )  # fmt: skip
    return mechanism.noise_multiplier * mechanism.sensitivity


# ------------------------------------------------------------------------------------------- DP-SGD


def dp_sgd(
    split: Split, settings: tuple[Setting, ...], scales: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Fit models of one schedule; predict the test records, shape (n_test, [n_classes,] n_models).

    `scales` are standard deviations of the models' noise, in units of their clipping norms.
    """
    ((q, n_steps, intercept),) = {setting.schedule for setting in settings}
    rates = np.array([s.learning_rate / s.clip_norm for s in settings], dtype=np.float32)
    clips = np.array([s.clip_norm for s in settings], dtype=np.float32)
    deviations = (scales * clips).astype(np.float32)
    A, A_test = (with_intercept(X, intercept).astype(np.float32) for X in (split.X, split.X_test))
    norms = np.linalg.norm(A, axis=1)
    targets, n_outputs = encode(split)
    n, M = len(A), len(settings)
    W = np.zeros((A.shape[1], n_outputs, M), dtype=np.float32)
    total = np.zeros_like(W)
    size = max(1, _BLOCK // (n_outputs * M))
    for step in range(n_steps):
        batch = None if q == 1.0 else np.flatnonzero(rng.random(n) < q)
        rows, t, r = (x if batch is None else x[batch] for x in (A, targets, norms))
        gradient = np.zeros_like(W)
        flat = W.reshape(len(W), -1)
        for i in range(0, len(rows), size):
            block = rows[i : i + size]
            margins = (block @ flat).reshape(len(block), n_outputs, M)
            residuals = residual(split.dataset, margins, t[i : i + size])
            lengths = np.sqrt((residuals**2).sum(axis=1)) if n_outputs > 1 else abs(residuals[:, 0])
            lengths *= r[i : i + size, None]
            residuals *= (clips / np.maximum(lengths, clips))[:, None]
            gradient += (block.T @ residuals.reshape(len(block), -1)).reshape(W.shape)
        noise = rng.standard_normal(W.shape[:2], dtype=np.float32)[:, :, None] * deviations
        W = W - rates * (gradient + noise) / np.float32(q * n)
        if 2 * (step + 1) > n_steps:
            total += W
    total /= n_steps - n_steps // 2
    margins = np.einsum("ij,jkm->ikm", A_test, total, optimize=True)
    return predictions(split.dataset, margins.astype(np.float64))


def with_intercept(X: np.ndarray, value: float) -> np.ndarray:
    return np.hstack([X, np.full((len(X), 1), value)])


def encode(split: Split) -> tuple[np.ndarray, int]:
    """Targets of shape (n, n_outputs): labels in {0, 1}, one-hot, or in [-1, 1]."""
    data = split.dataset
    if data.classes is None:
        middle, half = middle_and_half(data)
        return ((np.clip(split.y, *data.target_range) - middle) / half)[:, None].astype("f4"), 1
    if len(data.classes) == 2:
        return (split.y == data.classes[1])[:, None].astype("f4"), 1
    return (split.y[:, None] == np.array(data.classes)).astype("f4"), len(data.classes)


def middle_and_half(data: Dataset) -> tuple[float, float]:
    assert data.target_range is not None
    low, high = data.target_range
    return 0.5 * (low + high), 0.5 * (high - low)


def residual(data: Dataset, margins: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Derivative of the loss at margins of shape (n, n_outputs, n_models)."""
    if data.classes is None:
        return margins - targets[:, :, None]
    if margins.shape[1] == 1:
        return expit(margins) - targets[:, :, None]
    margins -= margins.max(axis=1, keepdims=True)
    np.exp(margins, out=margins)
    margins /= margins.sum(axis=1, keepdims=True)
    return margins - targets[:, :, None]


def predictions(data: Dataset, margins: np.ndarray) -> np.ndarray:
    if data.classes is None:
        middle, half = middle_and_half(data)
        return middle + half * margins[:, 0]
    if len(data.classes) == 2:
        return np.concatenate([expit(-margins), expit(margins)], axis=1)
    return softmax(margins, axis=1)


def dp_sgd_scores(
    dataset: Dataset,
    seeds: int,
    settings: tuple[Setting, ...],
    epsilons: tuple[float, ...],
) -> dict[str, np.ndarray]:
    """Scores of shape (relation, epsilon, setting, seed) by metric."""
    shape = (len(RELATIONS), len(epsilons), len(settings), seeds)
    found = {metric: np.full(shape, np.nan) for metric in metrics_of(dataset)}
    for split in splits(dataset, seeds):
        for indices in by_schedule(settings):
            group = [settings[i] for i in indices]
            q, n_steps, _ = group[0].schedule
            scales = np.array(
                [[noise_scale(r, e, q, n_steps) for e in epsilons] for r in RELATIONS]
            )
            models = tuple(group) * scales.size
            rng = np.random.default_rng([split.seed, n_steps, int(1000 * q)])
            predicted = dp_sgd(split, models, np.repeat(scales.ravel(), len(group)), rng)
            for metric, values in score(split, predicted).items():
                cells = values.reshape(*scales.shape, len(group))
                found[metric][:, :, indices, split.seed] = cells
    return found


def by_schedule(settings: tuple[Setting, ...]) -> Iterator[list[int]]:
    def schedule(i: int) -> tuple[float, int, float]:
        return settings[i].schedule

    for _, indices in groupby(sorted(range(len(settings)), key=schedule), schedule):
        yield list(indices)


def best_of(
    scores: np.ndarray, metric: str, settings: tuple[Setting, ...]
) -> tuple[np.ndarray, str]:
    """Scores of the setting that is best on the mean over seeds; `scores` are (setting, seed)."""
    i = int((scores.mean(axis=1) * sign(metric)).argmax())
    return scores[i], str(settings[i])


def best_on_other_sets(means: np.ndarray, metric: str) -> np.ndarray:
    """Index of the setting with the best mean rank on the other data sets, for each data set.

    Ranks, since one data set with a very low score would decide a mean; `means` are (set, setting).
    """
    ranks = rankdata(-sign(metric) * means, axis=1)
    return np.asarray((ranks.sum(axis=0) - ranks).argmin(axis=1))


def best_on_other_half(
    scores: np.ndarray, metric: str, settings: tuple[Setting, ...]
) -> tuple[np.ndarray, str]:
    """Scores of each half of the seeds with the setting that is best on the other half."""
    even = np.arange(scores.shape[1]) % 2 == 0
    found, names = np.empty(scores.shape[1]), []
    for half in (even, ~even):
        i = int((scores[:, ~half].mean(axis=1) * sign(metric)).argmax())
        found[half] = scores[i, half]
        names.append(str(settings[i]))
    return found, " / ".join(names)


def sign(metric: str) -> float:
    return -1.0 if metric == "log loss" else 1.0


# --------------------------------------------------------------------------------------- the others


def adassp(split: Split, relation: str, epsilon: float) -> np.ndarray:
    targets, _ = encode(split)
    multiplier = gaussian_noise_multiplier(epsilon, DELTA) * math.sqrt(3.0)
    weights, _ = adassp_release(
        with_intercept(split.X, INTERCEPT), targets[:, 0].astype(float), math.hypot(1.0, INTERCEPT),
        multiplier, np.random.default_rng(split.seed), Neighbouring(relation),
    )  # fmt: skip
    margins = with_intercept(split.X_test, INTERCEPT) @ weights
    return predictions(split.dataset, margins[:, None, None])


def adassp_release(
    A: np.ndarray,
    targets: np.ndarray,
    row_norm: float,
    multiplier: float,
    rng: np.random.Generator,
    neighbouring: Neighbouring,
) -> tuple[np.ndarray, float]:
    """Coefficients and penalty of AdaSSP from three releases with one noise multiplier.

    Rows are of norm X at most: a replaced record moves the least eigenvalue by X^2, ``A'A`` by
    sqrt(2) X^2 in the Frobenius norm, and ``A'b`` by 2 X. `lower` bounds the least eigenvalue.
    """
    replaced = neighbouring is Neighbouring.REPLACE_ONE
    d, square = A.shape[1], row_norm**2
    moments, vector = A.T @ A, A.T @ targets
    # per orthonormal coordinate of symmetric matrices, which are sqrt(2) entries
    s = multiplier * square * (1.0 if replaced else math.sqrt(0.5))
    deviation = multiplier * square
    least = np.linalg.eigvalsh(moments)[0] + deviation * rng.standard_normal()
    lower = max(0.0, float(least - deviation * ndtri(1.0 - ADASSP_FAILURE)))
    noise = np.triu(s * rng.standard_normal((d, d)), 1)
    noise = noise + noise.T + np.diag(math.sqrt(2.0) * s * rng.standard_normal(d))
    moved = (2.0 if replaced else 1.0) * row_norm
    vector = vector + multiplier * moved * rng.standard_normal(d)
    penalty = max(0.0, s * math.sqrt(d * math.log(2 * d**2 / ADASSP_FAILURE)) - lower)
    return np.linalg.solve(moments + noise + penalty * np.eye(d), vector), penalty


def without_privacy(split: Split) -> np.ndarray:
    """Predictions of scikit-learn's model for all penalties, as many models."""
    fitted = [
        models.public(split.dataset, penalty, len(split.y)).fit(split.X, split.y)
        for penalty in PENALTIES
    ]
    return np.stack([models.predictions(model, split.X_test) for model in fitted], axis=-1)


def constant(split: Split) -> np.ndarray:
    """The shares of the classes, or the mean of y, in the training records."""
    if split.dataset.classes is None:
        return np.full(len(split.y_test), split.y.mean())
    shares = (split.y[:, None] == np.array(split.dataset.classes)).mean(axis=0)
    return np.tile(shares, (len(split.y_test), 1))


def add_peers(
    scores: Scores,
    dataset: Dataset,
    seeds: int,
    settings: tuple[Setting, ...],
    epsilons: tuple[float, ...] = EPSILONS,
) -> dict[str, np.ndarray]:
    """Fit and score all peers of this module on one data set; return the scores of DP-SGD."""
    found = dp_sgd_scores(dataset, seeds, settings, epsilons)
    for metric, values in found.items():
        for i, relation in enumerate(RELATIONS):
            for j, epsilon in enumerate(epsilons):
                cell = values[i, j]
                rows = {
                    DP_SGD_BEST: best_of(cell, metric, settings),
                    DP_SGD_HALF: best_on_other_half(cell, metric, settings),
                }
                for method, (chosen, setting) in rows.items():
                    scores.add(dataset, relation, epsilon, method, metric, chosen, setting)
    if not dataset.is_classification:
        cells = [(relation, epsilon) for relation in RELATIONS for epsilon in epsilons]
        scores.add_method(dataset, ADASSP, adassp, cells, seeds)
    by_metric: dict[str, list[np.ndarray]] = {metric: [] for metric in found}
    for split in splits(dataset, seeds):
        for metric, values in score(split, without_privacy(split)).items():
            by_metric[metric].append(values)
    for metric, values in by_metric.items():
        best = np.array(values).T
        i = int((best.mean(axis=1) * sign(metric)).argmax())
        setting = f"penalty={PENALTIES[i]:g}"
        scores.add(dataset, "", math.inf, NO_PRIVACY, metric, best[i], setting)
    scores.add_method(dataset, CONSTANT, lambda s, r, e: constant(s), [("", math.inf)], seeds)
    return found


def add_other_sets(
    scores: Scores,
    found: list[tuple[Dataset, dict[str, np.ndarray]]],
    settings: tuple[Setting, ...],
    epsilons: tuple[float, ...] = EPSILONS,
) -> None:
    """Add the scores of DP-SGD with the setting that is best on the other data sets of a task.

    `found` has each data set with what :func:`add_peers` returned for it.
    """
    if len(found) < 2:
        return
    for metric in found[0][1]:
        for i, relation in enumerate(RELATIONS):
            for j, epsilon in enumerate(epsilons):
                cells = [of_set[metric][i, j] for _, of_set in found]
                chosen = best_on_other_sets(np.array([c.mean(axis=1) for c in cells]), metric)
                for (dataset, _), cell, k in zip(found, cells, chosen, strict=True):
                    setting, values = str(settings[k]), cell[k]
                    scores.add(dataset, relation, epsilon, DP_SGD_OTHERS, metric, values, setting)
