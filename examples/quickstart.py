"""Private logistic regression against epsilon, on two data sets that scikit-learn brings along.

Run ``python examples/quickstart.py``. It prints the test accuracy for several privacy budgets next
to that of scikit-learn's own model and draws the same as ``quickstart.svg`` beside this file.

Nothing about the records is learned outside of the private fit:

- the features are scaled by declared ranges (`BoundedScaler`) and each record to norm one
  (`Normalizer`), one record at a time;
- the labels are declared (`classes`).

The random splits and the noise are seeded, so that everyone gets the same picture. Leave
`random_state` out where privacy matters.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from charts import Panel, Series, write_line_chart
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from threadpoolctl import threadpool_limits  # scikit-learn brings it along

from skdp.linear_model import DPLogisticRegression
from skdp.preprocessing import BoundedScaler

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)

# What a laboratory could declare without these records: round numbers whose middle is a typical
# value. (They were chosen knowing this old, public data set; for your own data the knowledge has
# to come from elsewhere.)
CELL_NUCLEUS_RANGES = {
    "worst radius": (5, 30),
    "worst texture": (10, 40),
    "worst perimeter": (50, 200),
    "worst area": (0, 2000),
    "worst smoothness": (0.08, 0.20),
    "worst compactness": (0, 0.6),
    "worst concavity": (0, 0.8),
    "worst concave points": (0, 0.3),
    "worst symmetry": (0.1, 0.5),
    "worst fractal dimension": (0.05, 0.15),
}


@dataclass(frozen=True)
class Task:
    """A data set and what is declared about it."""

    name: str
    X: np.ndarray
    y: np.ndarray
    ranges: object
    classes: list[int]
    n_public: int  # nominal number of training records, for add/remove


def load_tasks() -> list[Task]:
    """Breast cancer (2 classes) and handwritten digits (10 classes)."""
    cancer = load_breast_cancer()
    columns = [list(cancer.feature_names).index(name) for name in CELL_NUCLEUS_RANGES]
    digits = load_digits()
    return [
        Task(
            name="Breast cancer: 2 classes, d = 10, n = 455",
            X=cancer.data[:, columns],
            y=cancer.target,
            ranges=list(CELL_NUCLEUS_RANGES.values()),
            classes=[0, 1],
            n_public=450,
        ),
        Task(
            name="Digits: 10 classes, d = 64, n = 1437",
            X=digits.data,
            y=digits.target,
            ranges=(0, 16),  # a pixel counts the dark points of a 4 x 4 field
            classes=list(range(10)),
            n_public=1400,
        ),
    ]


def settings(task: Task) -> dict[str, dict[str, object]]:
    """The guarantees to compare."""
    return {
        "replace-one, delta = 1e-6": {},
        "add/remove, delta = 1e-6": {"neighbouring": "add_remove", "n_public": task.n_public},
        "replace-one, delta = 0": {"delta": 0.0},
    }


def run(task: Task, seeds: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Test accuracies: per setting of shape (epsilons, seeds), and without privacy (seeds,)."""
    private = {name: np.empty((len(EPSILONS), seeds)) for name in settings(task)}
    public = np.empty(seeds)
    for seed in range(seeds):
        X, X_test, y, y_test = train_test_split(task.X, task.y, test_size=0.2, random_state=seed)
        scaling = make_pipeline(BoundedScaler(task.ranges), Normalizer())
        # rows of norm one need a weak penalty
        model = make_pipeline(scaling, LogisticRegression(C=100.0, max_iter=1000))
        public[seed] = model.fit(X, y).score(X_test, y_test)
        for name, parameters in settings(task).items():
            for i, epsilon in enumerate(EPSILONS):
                model = make_pipeline(
                    scaling,
                    DPLogisticRegression(
                        epsilon=epsilon, classes=task.classes, random_state=seed, **parameters
                    ),
                )
                private[name][i, seed] = model.fit(X, y).score(X_test, y_test)
    return private, public


def print_table(task: Task, private: dict[str, np.ndarray], public: np.ndarray) -> None:
    """One row per guarantee: mean and standard deviation of the test accuracy."""
    print(f"\n{task.name}")
    print(f"{'epsilon':27}" + "".join(f"{epsilon:>14g}" for epsilon in EPSILONS))
    for name, scores in private.items():
        cells = "".join(f"{row.mean():7.3f} ({row.std():.3f})" for row in scores)
        print(f"{name:27}{cells}")
    print(f"{'no privacy (scikit-learn)':27}{public.mean():7.3f} ({public.std():.3f})")


def main() -> None:
    """Run both tasks, print the tables and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10, help="number of random splits")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(__file__).resolve().with_suffix(".svg"),
        help="picture to write (SVG)",
    )
    arguments = parser.parse_args()
    print(f"Test accuracy: mean (standard deviation) over {arguments.seeds} random splits")
    panels = []
    for task in load_tasks():
        with threadpool_limits(1):  # matrices as small as these are fastest on one thread
            private, public = run(task, arguments.seeds)
        print_table(task, private, public)
        lines = [
            Series(name, EPSILONS, scores.mean(axis=1), scores.std(axis=1))
            for name, scores in private.items()
        ]
        panels.append(Panel(task.name, lines, ("no privacy", float(public.mean()))))
    write_line_chart(
        arguments.output,
        panels,
        title="Accuracy of differentially private logistic regression",
        subtitle="Test accuracy against the privacy budget epsilon; "
        "a small epsilon is a strong guarantee",
        x_label="epsilon",
        footnote=f"Mean over {arguments.seeds} random splits; bars: one standard deviation. "
        "Parameters other than the guarantee at their defaults.",
    )
    print(f"\nPicture: {arguments.output}")


if __name__ == "__main__":
    main()
