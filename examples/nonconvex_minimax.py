"""Groups that no linear model serves together: accuracy of the worst group against epsilon.

Two groups, of 70 and 30 % of the records, ten features, noisy labels. On the left the label follows
one feature in the one group, and its negative in the other: a linear model has at most 1/2 for one
of them, whatever it is trained for, and a network (`DPMaxGroupLossMLPClassifier`) serves both. On
the right the label follows the same feature in both groups: a linear model is right, and the
network pays for its many weights with noise.

Run ``python examples/nonconvex_minimax.py``. It prints accuracies on other records and draws them
as ``nonconvex_minimax.svg`` beside this file. Records and noise are seeded, so that everyone gets
the same picture. Leave `random_state` out where privacy matters.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from charts import Panel, Series, write_line_chart

from skdp.linear_model import DPLogisticRegression
from skdp.robust import DPMaxGroupLossClassifier, DPMaxGroupLossMLPClassifier

SHARES = {"large": 0.7, "small": 0.3}
TASKS = {"opposite": "opposite signs in the groups", "same": "the same in both groups"}

Rows = tuple[np.ndarray, np.ndarray, np.ndarray]


def draw(task: str, n: int, seed: int) -> Rows:
    """Rows of norm at most 1 that show the group, labels and groups."""
    rng = np.random.default_rng(seed)
    is_small = rng.random(n) < SHARES["small"]
    X = np.column_stack([rng.uniform(-0.5, 0.5, (n, 9)), np.where(is_small, 0.5, -0.5)])
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    sign = np.where(is_small, -1.0, 1.0) if task == "opposite" else 1.0
    y = (10.0 * sign * X[:, 0] + rng.logistic(size=n) > 0).astype(int)
    return X, y, np.where(is_small, "small", "large")


def models(epsilon: float, seed: int) -> dict[str, Callable[[Rows], Any]]:
    """Functions that fit a model to rows, labels and groups."""
    shared: dict[str, Any] = {"data_norm": 1.0, "classes": [0, 1], "random_state": seed}
    grouped = shared | {"group_names": list(SHARES), "group_proportions": SHARES}
    return {
        "plain": lambda data: DPLogisticRegression(epsilon, **shared).fit(*data[:2]),
        "worst group, linear": lambda data: DPMaxGroupLossClassifier(epsilon, **grouped).fit(
            *data[:2], groups=data[2]
        ),
        "worst group, network": lambda data: DPMaxGroupLossMLPClassifier(
            epsilon, hidden_units=16, **grouped
        ).fit(*data[:2], groups=data[2]),
    }


def worst_accuracy(model: Any, data: Rows) -> float:
    """Accuracy of the group that has the least."""
    X, y, groups = data
    hits = model.predict(X) == y
    return float(min(hits[groups == name].mean() for name in SHARES))


def main() -> None:
    """Fit, print the tables and draw them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1.0, 2.0, 8.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--output", type=Path, default=Path(__file__).with_name("nonconvex_minimax.svg")
    )
    options = parser.parse_args()
    panels = []
    for task, title in TASKS.items():
        fit_on, test = draw(task, options.records, 0), draw(task, 10_000, 1)
        found: dict[str, list[list[float]]] = {}
        for epsilon in options.epsilon:
            for seed in range(options.seeds):
                for name, fit in models(epsilon, seed).items():
                    cells = found.setdefault(name, [[] for _ in options.epsilon])
                    cells[options.epsilon.index(epsilon)].append(worst_accuracy(fit(fit_on), test))
        print(f"{title:26}" + "".join(f"{epsilon:>17g}" for epsilon in options.epsilon))
        series = []
        for name, cells in found.items():
            means, spreads = np.mean(cells, axis=1), np.std(cells, axis=1)
            pairs = zip(means, spreads, strict=True)
            print(f"{name:26}" + "".join(f"{mean:9.3f} ({spread:.3f})" for mean, spread in pairs))
            series.append(Series(name, options.epsilon, means.tolist(), spreads.tolist()))
        limit = ("no linear model is above", 0.5) if task == "opposite" else None
        panels.append(Panel(title, series, limit, y_range=(0.0, 1.0), label_below=True))
    write_line_chart(
        options.output,
        panels,
        title="Accuracy of the worst group",
        subtitle=f"{options.records:,} records, delta 1e-6, means of {options.seeds} draws of the "
        "noise, on other records",
        x_label="epsilon",
    )


if __name__ == "__main__":
    main()
