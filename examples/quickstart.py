"""Private logistic regression against epsilon, on two data sets that scikit-learn brings along.

Run ``python examples/quickstart.py``. It prints the test accuracy for several privacy budgets next
to that of scikit-learn's own model and draws the same as ``quickstart.svg`` beside this file.

Nothing about the records is learned outside of the private fit:

- the features are scaled by declared ranges (`BoundedScaler`) and each record to norm one
  (`Normalizer`), one record at a time;
- the norm of a row (`data_norm`) and the labels (`classes`) are declared.

The random splits and the noise are seeded, so that everyone gets the same picture. Leave
`random_state` out where privacy matters.
"""

from __future__ import annotations

import argparse
import warnings
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

# Public knowledge: the "Summary Statistics" in the description of the data set, rounded outwards.
# Mean, standard error and worst value of each of ten measurements of a cell nucleus.
CELL_NUCLEUS_RANGES = [
    *[(6, 30), (9, 40), (40, 200), (140, 2600), (0.05, 0.17)],
    *[(0.01, 0.35), (0, 0.43), (0, 0.21), (0.1, 0.31), (0.04, 0.1)],
    *[(0.1, 3), (0.3, 5), (0.7, 22), (6, 550), (0.001, 0.032)],
    *[(0.002, 0.14), (0, 0.4), (0, 0.06), (0.007, 0.08), (0, 0.03)],
    *[(7, 37), (12, 50), (50, 260), (180, 4300), (0.07, 0.23)],
    *[(0.02, 1.1), (0, 1.3), (0, 0.3), (0.15, 0.67), (0.05, 0.21)],
]


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
    digits = load_digits()
    return [
        Task(
            name="Breast cancer: 2 classes, d = 30, n = 455",
            X=cancer.data,
            y=cancer.target,
            ranges=CELL_NUCLEUS_RANGES,
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
                        epsilon=epsilon,
                        data_norm=1.0,
                        classes=task.classes,
                        random_state=seed,
                        **parameters,
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
    # the smallest budgets give little but noise, which is what the picture shows
    warnings.filterwarnings("ignore", message="The noise ", category=UserWarning)
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
