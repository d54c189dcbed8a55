"""Phases against one shot: which private method is better for how many records.

One-shot output perturbation solves one penalised problem on all records and adds noise once. It
needs a penalty strong enough to keep the noise small, and pays for it with bias. The phased method
solves on disjoint blocks of records, each around the noisy solution of the block before. It starts
from a weak penalty and ends with little noise, but sees each record once only. With few records or
a small budget, noise is all that matters and one shot is better; with more, its bias is what
remains and phases win. With ``preparation=None`` and a solver, ``method="auto"`` compares public
bounds of both before it sees a record. (Otherwise it takes "gradient" or, with a solver, "output"
on prepared rows, which are better than both.)

Run ``python examples/phased_growth.py``. It prints test losses and what "auto" chose, and draws
them as ``phased_growth_ridge.svg`` and ``phased_growth_logistic.svg`` beside this file. Records
and noise are seeded, so that everyone gets the same pictures. Leave `random_state` out where
privacy matters.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from charts import Panel, Series, write_line_chart
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss, mean_squared_error
from threadpoolctl import threadpool_limits  # scikit-learn brings it along

from skdp.linear_model import DPLogisticRegression, DPRidge

EPSILONS = (0.1, 1.0)
METHODS = {"output": "one shot", "phased": "phased", "auto": "auto"}
#: What "auto" may choose; the third is objective perturbation, for the log loss.
CHOICES = {**METHODS, "objective": "objective"}
MODELS = {"ridge": "mean squared error", "logistic": "log loss"}
N_FEATURES = 20


def draw(model: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of norm one, and targets that a linear model explains in part."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, N_FEATURES))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    score = X.sum(axis=1)  # of standard deviation one
    if model == "logistic":
        return X, (2.0 * score + rng.logistic(size=n) > 0).astype(int)
    return X, np.clip(0.3 * score + 0.2 * rng.standard_normal(n), -1.0, 1.0)


def private_model(model: str, epsilon: float, method: str, seed: int) -> Any:
    """Other parameters at their defaults; delta is 1e-6."""
    settings = {
        "method": method,
        "solver": "newton",
        "preparation": None,
        "data_norm": 1.0,
        "random_state": seed,
    }
    if model == "ridge":
        return DPRidge(epsilon, **settings, target_range=(-1.0, 1.0))
    return DPLogisticRegression(epsilon, **settings, classes=(0, 1))


def public_model(model: str) -> Any:
    """Without privacy."""
    return Ridge(alpha=1e-3) if model == "ridge" else LogisticRegression(C=1e3, max_iter=1000)


def test_loss(fitted: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Mean squared error, or log loss of a classifier."""
    if hasattr(fitted, "predict_proba"):
        return float(log_loss(y, fitted.predict_proba(X)))
    return float(mean_squared_error(y, fitted.predict(X)))


def run(
    model: str, sizes: list[int], seeds: int
) -> tuple[dict[tuple[float, str], np.ndarray], dict[float, list[str]], float]:
    """Test losses of shape (sizes, seeds), what "auto" chose, and the loss without privacy."""
    cases = [(epsilon, method) for epsilon in EPSILONS for method in METHODS]
    losses = {case: np.empty((len(sizes), seeds)) for case in cases}
    chosen: dict[float, list[str]] = {epsilon: [""] * len(sizes) for epsilon in EPSILONS}
    fresh = draw(model, 20_000, 10_000)
    for i, n in enumerate(sizes):
        for seed in range(seeds):
            X, y = draw(model, n, seed)
            for epsilon, method in cases:
                fitted = private_model(model, epsilon, method, seed).fit(X, y)
                losses[epsilon, method][i, seed] = test_loss(fitted, *fresh)
                if method == "auto":
                    chosen[epsilon][i] = CHOICES[fitted.privacy_.method]
    public = test_loss(public_model(model).fit(X, y), *fresh)  # on the largest data set
    return losses, chosen, public


def print_table(
    model: str,
    sizes: list[int],
    losses: dict[tuple[float, str], np.ndarray],
    chosen: dict[float, list[str]],
    public: float,
) -> None:
    """One row per budget and method."""
    print(f"\n{model}: {MODELS[model]} on new records; without privacy {public:.4f}")
    print(f"{'n':24}" + "".join(f"{n:>17}" for n in sizes))
    for (epsilon, method), table in losses.items():
        cells = "".join(f"{row.mean():8.4f} ({row.std():.4f})" for row in table)
        print(f"epsilon = {epsilon:<4g}{METHODS[method]:10}{cells}")
        if method == "auto":
            print(f"{'':14}{'chosen':10}" + "".join(f"{name:>17}" for name in chosen[epsilon]))


def main() -> None:
    """Fit both models for every size, budget and method, print the tables, draw the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[3_000, 10_000, 30_000, 100_000, 300_000]
    )
    parser.add_argument("--seeds", type=int, default=3, help="number of data sets of each size")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(__file__).resolve().parent,
        help="directory for the pictures (SVG)",
    )
    arguments = parser.parse_args()
    sizes = sorted(set(arguments.sizes))
    print(f"Mean (standard deviation) over {arguments.seeds} data sets, d = {N_FEATURES}")
    for model, score in MODELS.items():
        with threadpool_limits(1):
            losses, chosen, public = run(model, sizes, arguments.seeds)
        print_table(model, sizes, losses, chosen, public)
        panels = [
            Panel(
                f"epsilon = {epsilon:g}",
                [
                    Series(
                        name,
                        sizes,
                        losses[epsilon, method].mean(axis=1),
                        losses[epsilon, method].std(axis=1),
                    )
                    for method, name in METHODS.items()
                ],
                ("no privacy", public),
            )
            for epsilon in EPSILONS
        ]
        picture = arguments.output / f"phased_growth_{model}.svg"
        write_line_chart(
            picture,
            panels,
            title=f"One shot or phases: private {model} regression as the data grow",
            subtitle=f"Test {score} against the number of records; delta = 1e-6, "
            f"{N_FEATURES} features",
            x_label="records",
            footnote=f"Mean over {arguments.seeds} data sets; bars: one standard deviation. "
            '"auto" takes the method with the smaller public bound.',
        )
        print(f"Picture: {picture}")


if __name__ == "__main__":
    main()
