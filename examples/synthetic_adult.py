"""Synthetic records of a census table: error of all two-way marginals against epsilon.

    python examples/synthetic_adult.py                  # simulated data, then Adult from OpenML
    python examples/synthetic_adult.py --csv adult.csv  # reads your copy of Adult
    python examples/synthetic_adult.py --made-only

`DPSyntheticData` learns the distribution of a categorical table. The measure is the mean
total-variation distance between the two-way marginals of the records and those of

- the fitted distribution (`answer()`), and as many sampled records (`sample(n)`);
- Gaussian histograms: noise on all two-way marginals, each projected onto the distributions. These
  are tables and no records, and contradict each other;
- the same, made to agree on single columns;
- the uniform distribution, which needs no records.

Adult has nine categorical columns here, ages in declared bins. The categories are declared from the
code book of the census.

It needs pandas for Adult. The noise is seeded; leave `random_state` out where privacy matters.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import adult_income
import numpy as np
from charts import Panel, Series, write_line_chart
from threadpoolctl import threadpool_limits  # scikit-learn brings it along

from skdp.mechanisms import gaussian_noise_multiplier
from skdp.synthetic import DPSyntheticData

DELTA = 1e-6
NAMES = (
    "DPSyntheticData, answers",
    "DPSyntheticData, sample",
    "Gaussian histograms",
    "consistent histograms",
)
AGES = [0, 25, 35, 45, 55, 65, 200]
COLUMNS = ("workclass", "education", "marital_status", "occupation", "relationship", "race", "sex")

Tables = dict[tuple[int, int], np.ndarray]


@dataclass(frozen=True)
class Data:
    """A table, the declared categories of its columns, and its records as positions in them."""

    table: Any
    categories: list[list[Any]]
    codes: np.ndarray

    @property
    def sizes(self) -> list[int]:
        return [len(values) for values in self.categories]


def made_data(n: int) -> Data:
    """Seven columns that depend on a latent class."""
    rng = np.random.default_rng(0)
    latent, sizes = rng.integers(0, 5, n), (2, 3, 4, 6, 8, 12, 2)
    laws = [rng.dirichlet(np.full(size, 0.5), 5).cumsum(axis=1) for size in sizes]
    columns = [(rng.random(n)[:, None] > law[latent, :-1]).sum(axis=1) for law in laws]
    codes = np.column_stack(columns)
    return Data(codes, [list(range(size)) for size in sizes], codes)


def adult(csv: Path | None) -> Data:
    """UCI Adult; values that the code book does not have become "?"."""
    frame = adult_income.load(csv)
    import pandas as pd  # `load` says what to do without it

    labels = [f"{low}-{high - 1}" for low, high in itertools.pairwise(AGES)]
    table = pd.DataFrame({"age": pd.cut(frame["age"], AGES, right=False, labels=labels)})
    declared = {"age": labels}
    for name in COLUMNS:
        known = adult_income.CATEGORIES[name]
        table[name] = frame[name].where(frame[name].isin(known), "?")
        declared[name] = [*known, "?"] if name in ("workclass", "occupation") else known
    table["income"], declared["income"] = frame["income"], adult_income.CLASSES
    codes = [pd.Categorical(table[name], values).codes for name, values in declared.items()]
    return Data(table, list(declared.values()), np.column_stack(codes).astype(np.intp))


def marginals(codes: np.ndarray, sizes: Sequence[int]) -> Tables:
    """Shares of the records in the cells of all pairs of columns."""
    tables = {}
    for a, b in itertools.combinations(range(len(sizes)), 2):
        cells = codes[:, a] * sizes[b] + codes[:, b]
        counts = np.bincount(cells, minlength=sizes[a] * sizes[b])
        tables[a, b] = counts.reshape(sizes[a], sizes[b]) / len(codes)
    return tables


def distance(one: Tables, other: Tables) -> float:
    """Mean total-variation distance of the marginals."""
    return float(np.mean([0.5 * np.abs(one[key] - other[key]).sum() for key in one]))


def projected(table: np.ndarray) -> np.ndarray:
    """The nearest distribution in Euclidean distance."""
    ordered = np.sort(table.ravel())[::-1]
    excess = np.cumsum(ordered) - 1.0
    last = np.flatnonzero(ordered * np.arange(1, ordered.size + 1) > excess)[-1]
    return np.maximum(table - excess[last] / (last + 1), 0.0)


def histograms(exact: Tables, n: int, epsilon: float, seed: int) -> Tables:
    """Gaussian noise on all marginals: a replaced record moves two cells of each by 1 / n."""
    rng = np.random.default_rng(seed)
    scale = math.sqrt(2.0 * len(exact)) / n * gaussian_noise_multiplier(epsilon, DELTA)
    return {
        key: projected(part + scale * rng.standard_normal(part.shape))
        for key, part in exact.items()
    }


def consistent(tables: Tables, rounds: int = 30) -> Tables:
    """Shift the marginals of a column to their mean, and project all tables, in turn."""
    tables = dict(tables)
    for _ in range(rounds):
        for c in sorted({c for key in tables for c in key}):
            axes = {key: 1 - key.index(c) for key in tables if c in key}
            sums = [tables[key].sum(axis=axis) for key, axis in axes.items()]
            # of equally noisy cells, the shorter sum is the more accurate
            weights = [1.0 / tables[key].shape[axis] for key, axis in axes.items()]
            mean = np.average(sums, axis=0, weights=weights)
            for (key, axis), total, weight in zip(axes.items(), sums, weights, strict=True):
                tables[key] = tables[key] + np.expand_dims((mean - total) * weight, axis)
        tables = {key: projected(part) for key, part in tables.items()}
    return tables


def run(data: Data, epsilons: Sequence[float], seeds: int) -> np.ndarray:
    """Distances of shape (methods, epsilons, seeds)."""
    exact, n = marginals(data.codes, data.sizes), len(data.codes)
    found = np.empty((len(NAMES), len(epsilons), seeds))
    for i, epsilon in enumerate(epsilons):
        for seed in range(seeds):
            model = DPSyntheticData(
                epsilon, delta=DELTA, categories=data.categories, random_state=seed
            ).fit(data.table)
            answers = dict(zip(exact, model.answer("2-way").values(), strict=True))
            rows = np.asarray(model.sample(n, random_state=0), dtype=object)
            positions = [{value: k for k, value in enumerate(values)} for values in data.categories]
            codes = np.column_stack(
                [list(map(at.__getitem__, rows[:, j])) for j, at in enumerate(positions)]
            )
            noisy = histograms(exact, n, epsilon, seed)
            tables = (answers, marginals(codes, data.sizes), noisy, consistent(noisy))
            found[:, i, seed] = [distance(exact, each) for each in tables]
    return found


def main() -> None:
    """Run the comparison, print the tables and draw the picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    adult_income.add_options(parser)
    parser.add_argument("--records", type=int, default=20_000, help="size of the simulated table")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 0.3, 1.0, 3.0, 10.0])
    parser.add_argument("--seeds", type=int, default=3, help="number of draws of the noise")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(__file__).resolve().with_suffix(".svg"),
        help="picture to write (SVG)",
    )
    arguments = parser.parse_args()
    epsilons = sorted(set(arguments.epsilon))
    # before the long computations
    kinds = adult_income.after(("Simulated data", made_data(arguments.records)), adult, arguments)
    panels = []
    for title, data in kinds:
        with threadpool_limits(1):  # matrices as small as these are fastest on one thread
            table = run(data, epsilons, arguments.seeds)
        exact = marginals(data.codes, data.sizes)
        uniform = distance(exact, {k: np.full(v.shape, 1 / v.size) for k, v in exact.items()})
        print(f"\n{title}, {len(data.codes)} records: mean distance of two-way marginals")
        print(f"{'epsilon':26}" + "".join(f"{value:>18g}" for value in epsilons))
        lines = []
        for name, values in zip(NAMES, table, strict=True):
            mean, spread = values.mean(axis=1), values.std(axis=1)
            cells = (f"{m:9.4f} ({s:.4f})" for m, s in zip(mean, spread, strict=True))
            print(f"{name:26}" + "".join(cells))
            lines.append(Series(name, epsilons, mean, spread))
        print(f"{'uniform':26}{uniform:9.4f}")
        panels.append(Panel(title, lines, ("uniform", uniform), log_y=True, label_below=True))
    write_line_chart(
        arguments.output,
        panels,
        title="Synthetic records under differential privacy",
        subtitle="Mean total-variation distance of all two-way marginals from those of the records",
        x_label="epsilon",
        footnote=f"Mean over {arguments.seeds} draws of the noise; bars: one standard deviation. "
        f"delta = {DELTA:g}, replace-one neighbours.",
    )
    print(f"\nPicture: {arguments.output}")


if __name__ == "__main__":
    main()
