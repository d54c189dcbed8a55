"""A penalty that tunes itself: all methods of `DPRidgeCV` and `DPLogisticRegressionCV`.

Run ``python examples/private_tuning.py``. Each model chooses its penalty within its
one privacy budget. The table and the picture show the test loss against epsilon for every method,
and the penalty of a fit at epsilon = 1 after each private step. Step 0 is a public
start. "bilevel" and "hypergradient" go on from it by noisy steps, "newton" chooses anew after each
of three releases; "sufficient_statistics" and "exponential" choose once, and "public" not at all.

Records and noise are seeded, so that everyone gets the same picture. Leave `random_state` out
where privacy matters.
"""

from __future__ import annotations

import argparse
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from charts import Panel, Series, write_line_chart
from sklearn.linear_model import LogisticRegression, Ridge
from threadpoolctl import threadpool_limits  # scikit-learn brings it along

from skdp.model_selection import DPLogisticRegressionCV, DPRidgeCV

EPSILONS = (0.3, 1.0, 3.0, 10.0)
OTHERS = ("bilevel", "hypergradient", "exponential", "public")
N_FEATURES = 20


def draw(model: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of norm one, and targets that a linear model explains in part."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, N_FEATURES))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    score = math.sqrt(2.0) * X[:, : N_FEATURES // 2].sum(axis=1)  # half of the features matter
    if model == "ridge":
        return X, np.clip(0.3 * score + 0.2 * rng.standard_normal(n), -1.0, 1.0)
    return X, (2.0 * score + rng.logistic(size=n) > 0).astype(int)


def loss(fitted: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Mean squared error, or log loss of a classifier."""
    if hasattr(fitted, "predict_log_proba"):
        return -float(fitted.predict_log_proba(X)[np.arange(len(y)), y].mean())
    return float(((fitted.predict(X) - y) ** 2).mean())


def alphas(method: str, fitted: Any) -> Series:
    """The logarithm of alpha after each private step, of which there may be none."""
    path = fitted.alpha_path_
    if method == "sufficient_statistics":
        path = path[-1:]  # one release; the others are candidates that were compared on it
    first = 0 if method in ("bilevel", "hypergradient", "public") else 1
    steps = [float(first + k) for k in range(len(path))]
    return Series(method, steps, np.log10(path).tolist(), [0.0] * len(path))


def run(model: str, n: int, seeds: int) -> tuple[list[Series], list[Series], float]:
    """Test losses against epsilon, alphas by step at epsilon = 1, loss without privacy."""
    X_test, y_test = draw(model, 20_000, 10_000)
    ridge = model == "ridge"
    own = "sufficient_statistics" if ridge else "newton"
    losses, paths = [], []
    for method in (own, *OTHERS):
        table = np.empty((len(EPSILONS), seeds))
        for i, epsilon in enumerate(EPSILONS):
            for seed in range(seeds):
                X, y = draw(model, n, seed)
                shared = {"method": method, "data_norm": 1.0, "random_state": seed}
                if ridge:
                    fitted: Any = DPRidgeCV(epsilon, target_range=(-1.0, 1.0), **shared)
                else:
                    fitted = DPLogisticRegressionCV(epsilon, classes=[0, 1], **shared)
                fitted.fit(X, y)
                table[i, seed] = loss(fitted, X_test, y_test)
                if epsilon == 1.0 and seed == 0:
                    paths.append(alphas(method, fitted))
        losses.append(Series(method, EPSILONS, table.mean(axis=1), table.std(axis=1)))
    X, y = draw(model, n, 0)
    public = Ridge(alpha=1e-3) if ridge else LogisticRegression(C=1e3, max_iter=1000)
    return losses, paths, loss(public.fit(X, y), X_test, y_test)


def main() -> None:
    """Run both models, print the tables and draw the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5, help="number of samples and noises")
    parser.add_argument("--records", type=int, default=30_000)
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(__file__).resolve().parent,
        help="folder for the pictures (SVG)",
    )
    arguments = parser.parse_args()
    # the smallest budgets give little but noise, which is what the picture shows
    warnings.filterwarnings("ignore", message="The noise ", category=UserWarning)
    for model in ("ridge", "logistic"):
        with threadpool_limits(1):  # matrices as small as these are fastest on one thread
            losses, paths, exact = run(model, arguments.records, arguments.seeds)
        print(f"\n{model}: test loss, {arguments.records} records")
        print(f"{'epsilon':24}" + "".join(f"{value:>16g}" for value in EPSILONS))
        for series in losses:
            cells = zip(series.y, series.spread, strict=True)
            print(f"{series.label:24}" + "".join(f"{m:8.4f} ({s:.4f})" for m, s in cells))
        print(f"{'no privacy':24}{exact:8.4f}")
        write_line_chart(
            arguments.output / f"private_tuning_{model}.svg",
            [
                Panel("Test loss", losses, ("no privacy", exact), label_below=True),
                Panel(
                    "log10 of alpha, one fit at epsilon = 1",
                    paths,
                    None,
                    steps=True,
                    x_label="private steps so far",
                ),
            ],
            title=f"Private {model} regression that tunes its own penalty",
            subtitle=f"{arguments.records} records, {N_FEATURES} features; delta = 1e-6, "
            "replace-one neighbours",
            x_label="epsilon",
            footnote=f"Test loss: mean over {arguments.seeds} samples; bars: one standard "
            "deviation. Step 0: a public start.",
        )
    print(f"\nPictures: {arguments.output}")


if __name__ == "__main__":
    main()
