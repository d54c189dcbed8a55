"""Non-linear private models: splines on public knots before a private linear model.

    python examples/nonlinear_models.py                        # invented data, seconds
    python examples/nonlinear_models.py --adult adult.csv --california housing.csv

Hourly rentals of bicycles have two peaks a day and fall when it is too warm: no linear model can
follow that. `BoundedSplineTransformer` turns each number into a few smooth bumps over its declared
range; a linear model of these is a sum of curves. Knots, ranges and categories are declared, so the
preparation learns nothing, and the whole budget goes to the one private fit behind it.

The first panel shows test scores against epsilon, the second the rentals that the models predict
for each hour. The UCI Adult data and the California housing data (CSV files) add a panel each.
Records and noise are seeded; leave `random_state` out where privacy matters.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from adult_income import CATEGORIES, CLASSES, Unavailable, load
from charts import Panel, Series, write_line_chart
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer, OneHotEncoder
from threadpoolctl import threadpool_limits  # scikit-learn brings it along

from skdp.linear_model import DPLogisticRegression, DPRidge
from skdp.preprocessing import BoundedScaler, BoundedSplineTransformer

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
DELTA = 1e-6
LINES = ("splines, private", "linear, private", "splines, no privacy")


@dataclass(frozen=True)
class Task:
    """Records in two parts and all that is public about them.

    `X` and `X_test` have numbers in the first columns, in the order of `ranges`, and codes of
    categories 0, 1, ... in the others; another code is unknown.
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    ranges: tuple[tuple[float, float], ...]
    n_categories: tuple[int, ...]
    target_range: tuple[float, float] | None = None  # None: two classes, 0 and 1
    n_knots: int = 5

    def pipeline(self, splines: bool, model: Any) -> Pipeline:
        """Public features, rows of norm one, then the model."""
        n = len(self.ranges)
        numbers: Any = BoundedScaler(self.ranges)
        weights = {}
        if splines:
            numbers = BoundedSplineTransformer(self.ranges, n_knots=self.n_knots)
            # all numbers together have norm one, like each category; this makes it each number
            weights = {"numbers": n**0.5}
        categories = OneHotEncoder(
            categories=[np.arange(k, dtype=float) for k in self.n_categories],
            handle_unknown="ignore",
        )
        columns = ColumnTransformer(
            [
                ("numbers", numbers, list(range(n))),
                ("categories", categories, list(range(n, n + len(self.n_categories)))),
            ],
            transformer_weights=weights,
            sparse_threshold=0.0,
        )
        return make_pipeline(columns, Normalizer(), model)

    def private(self, splines: bool, epsilon: float, seed: int) -> Pipeline:
        """Fit the default private model."""
        shared = {"epsilon": epsilon, "delta": DELTA, "data_norm": 1.0, "random_state": seed}
        model: Any
        if self.target_range is None:
            model = DPLogisticRegression(classes=[0, 1], **shared)
        else:
            model = DPRidge(target_range=self.target_range, **shared)
        return self.pipeline(splines, model).fit(self.X, self.y)

    def exact(self) -> Pipeline:
        """Fit splines without privacy."""
        if self.target_range is None:
            model: Any = LogisticRegression(C=100.0, max_iter=5000)
        else:
            model = Ridge(alpha=0.1)
        return self.pipeline(True, model).fit(self.X, self.y)

    def score(self, model: Pipeline) -> float:
        """Accuracy or R2 on the test records."""
        return float(model.score(self.X_test, self.y_test))


def rentals(seed: int, n: int = 20_000) -> Task:
    """Invented records of one hour each: hour of the day, degrees Celsius, wind, weather."""
    rng = np.random.default_rng(seed)
    hour, degrees = rng.uniform(0, 24, n), rng.normal(15, 8, n)
    wind, weather = rng.gamma(2.0, 6.0, n), rng.choice(3, n, p=[0.6, 0.3, 0.1])
    mean = (
        300
        + 250 * np.exp(-(((hour - 8) / 1.5) ** 2))
        + 300 * np.exp(-(((hour - 18) / 2.5) ** 2))
        - 100 * np.cos(2 * np.pi * (hour - 2) / 24)
        - 0.8 * (degrees - 22) ** 2
        - 2 * wind
        - np.array([0.0, 40.0, 120.0])[weather]
    )
    y = np.maximum(mean + rng.normal(0, 80, n), 0.0)
    X = np.column_stack([hour, degrees, wind, weather])
    return _split("bicycle rentals (invented)", X, y)(
        ranges=((0, 24), (-15, 40), (0, 60)),
        n_categories=(3,),
        target_range=(0.0, 1000.0),
        n_knots=9,  # every three hours
    )


def adult(path: Path) -> Task:
    """UCI Adult; the amounts of capital enter as log10(1 + dollars)."""
    ranges = {
        "age": (17, 90),
        "education_num": (1, 16),
        "hours_per_week": (1, 99),
        "capital_gain": (0, 5),
        "capital_loss": (0, 5),
    }
    frame = load(path)
    for amount in ("capital_gain", "capital_loss"):
        frame[amount] = np.log10(1.0 + frame[amount])
    # years of schooling are among the numbers
    categories = {name: known for name, known in CATEGORIES.items() if name != "education"}
    codes = [frame[name].map({v: i for i, v in enumerate(categories[name])}) for name in categories]
    X = np.column_stack([frame[list(ranges)], *(code.fillna(-1) for code in codes)])
    y = (frame["income"] == CLASSES[1]).to_numpy(dtype=int)
    return _split("UCI Adult", X.astype(float), y)(
        ranges=tuple(ranges.values()),
        n_categories=tuple(len(known) for known in categories.values()),
    )


def california(path: Path) -> Task:
    """California housing; counts enter as log10(1 + count), a missing one as 10^2.5."""
    try:
        import pandas as pd

        frame = pd.read_csv(path)
    except (ImportError, OSError) as error:
        raise Unavailable(f"Could not read {path}: {error}") from None
    counts = ["total_rooms", "total_bedrooms", "population", "households"]
    frame[counts] = np.log10(1.0 + frame[counts]).fillna(2.5)
    ranges = {
        "longitude": (-125, -114),
        "latitude": (32, 42),
        "housing_median_age": (1, 52),
        "median_income": (0, 15),
        **dict.fromkeys(counts, (0, 5)),
    }
    places = ["<1H OCEAN", "INLAND", "NEAR OCEAN", "NEAR BAY", "ISLAND"]
    code = frame["ocean_proximity"].map({place: i for i, place in enumerate(places)})
    X = np.column_stack([frame[list(ranges)], code]).astype(float)
    return _split("California housing", X, frame["median_house_value"].to_numpy(dtype=float))(
        ranges=tuple(ranges.values()),
        n_categories=(len(places),),
        target_range=(15_000.0, 500_000.0),
    )


def _split(name: str, X: np.ndarray, y: np.ndarray) -> Callable[..., Task]:
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, random_state=0)
    return lambda **public: Task(name, X, y, X_test, y_test, **public)


def scores(task: Task, seeds: int) -> Panel:
    """Print and draw test scores against epsilon."""
    table = np.array(
        [
            [
                [task.score(task.private(splines, epsilon, seed)) for seed in range(seeds)]
                for epsilon in EPSILONS
            ]
            for splines in (True, False)
        ]
    )
    exact = task.score(task.exact())
    metric = "accuracy" if task.target_range is None else "R2"
    print(f"\n{task.name}: test {metric}, {len(task.y)} training records, delta = {DELTA:g}")
    print(f"{'epsilon':20}" + "".join(f"{epsilon:>15g}" for epsilon in EPSILONS))
    for name, rows in zip(LINES, table, strict=False):
        cells = "".join(f"{row.mean():7.3f} ({row.std():.3f})" for row in rows)
        print(f"{name:20}{cells}")
    print(f"{LINES[2]:20}{exact:7.3f}")
    constant, none = [exact] * len(EPSILONS), [0.0] * len(EPSILONS)
    lines = [
        *(
            Series(name, EPSILONS, rows.mean(axis=1), rows.std(axis=1))
            for name, rows in zip(LINES, table, strict=False)
        ),
        Series(LINES[2], EPSILONS, constant, none),
    ]
    return Panel(f"{task.name}: test {metric}", lines, None, x_label="epsilon")


def curves(task: Task, seeds: int, epsilon: float = 0.1) -> Panel:
    """Draw the predicted rentals over the day at 20 degrees, a light wind and fair weather."""
    hours = np.arange(0, 25, 2)
    days = np.column_stack([hours, *(np.full(len(hours), value) for value in (20.0, 10.0, 0.0))])
    lines = []
    for name, splines in zip(LINES, (True, False), strict=False):
        found = np.array(
            [task.private(splines, epsilon, seed).predict(days) for seed in range(seeds)]
        )
        lines.append(Series(name, hours, found.mean(axis=0), found.std(axis=0)))
    lines.append(Series(LINES[2], hours, task.exact().predict(days), np.zeros(len(hours))))
    title = f"Rentals on a fair day, epsilon = {epsilon:g}"
    return Panel(title, lines, None, steps=True, x_label="hour of the day")


def main() -> None:
    """Fit all models, print the tables, draw the picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--adult", type=Path, help="UCI Adult as CSV")
    parser.add_argument("--california", type=Path, help="California housing as CSV")
    parser.add_argument("--seeds", type=int, default=5, help="number of draws of the noise")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(__file__).resolve().with_suffix(".svg"),
        help="picture to write (SVG)",
    )
    arguments = parser.parse_args()
    # the smallest budgets may give little but noise, which is what the picture shows
    warnings.filterwarnings("ignore", message="The noise ", category=UserWarning)

    readers = ((adult, arguments.adult), (california, arguments.california))
    try:
        tasks = [rentals(0), *(read(path) for read, path in readers if path is not None)]
    except Unavailable as error:
        sys.exit(str(error))
    print(f"Mean (standard deviation) over {arguments.seeds} draws of the noise")
    with threadpool_limits(1):
        panels = [scores(task, arguments.seeds) for task in tasks]
        panels.insert(1, curves(tasks[0], arguments.seeds))
    write_line_chart(
        arguments.output,
        panels,
        title="Splines on public knots before a private linear model",
        subtitle=f"DPLogisticRegression and DPRidge, defaults; delta = {DELTA:g}, replace-one",
        footnote=f"Mean over {arguments.seeds} draws of the noise; bars: one standard deviation.",
    )
    print(f"\nPicture: {arguments.output}")


if __name__ == "__main__":
    main()
