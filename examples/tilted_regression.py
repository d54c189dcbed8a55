"""Tilted least squares: what a rare group gains, and what privacy charges for it.

One record in ten belongs to a group for which the target depends on the first feature in another
way. One linear model cannot fit both groups, nobody recorded who is in which, and the mean loss
listens to the many. A tilt t > 0 replaces it by ``log(mean(exp(t * loss))) / t``, in which records
with a large loss weigh more: the larger the tilt, the more evenly the errors are shared.

A tilt has two prices. One record can weigh more than 1 / n, by a factor of up to exp(t (A - a)) if
losses are between a and A, and the noise grows by it, whereupon the automatic penalty shrinks the
coefficients. So a private model gains from moderate tilts only; the larger the budget, the
larger they can be. And a tilt listens to every large loss: an outlier that is an error of the data
is weighed like a person of a rare group.

Run ``python examples/tilted_regression.py``. It prints the errors of both groups on new records and
draws them as ``tilted_regression.svg`` beside this file. Records and noise are seeded, so that
everyone gets the same picture. Leave `random_state` out where privacy matters.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from charts import Panel, Series, write_line_chart
from threadpoolctl import threadpool_limits  # scikit-learn brings it along

from skdp.linear_model import DPRidge

TILTS = (1.0, 2.0, 4.0, 8.0, 16.0)
RARE = 0.1  # share of the rare group
SLOPES = {"common": 0.0, "rare": 0.9}  # of the target in the first feature
#: Public knowledge: how large targets are, and how large coefficients need to be. Both bound the
#: losses, and hence the weight of a record.
TARGET_RANGE, COEF_NORM = (-0.9, 0.9), 0.5
#: No privacy to speak of: the noise is below the last digit shown.
NO_PRIVACY = 1e9
BUDGETS = {"no privacy": NO_PRIVACY, "epsilon = 10": 10.0, "epsilon = 1": 1.0}


def draw(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features in the unit disc, targets in TARGET_RANGE, and who belongs to the rare group."""
    rng = np.random.default_rng(seed)
    first = rng.uniform(0.7, 0.95, size=n) * rng.choice([-1.0, 1.0], size=n)
    X = np.column_stack([first, rng.uniform(-0.3, 0.3, size=n)])
    rare = rng.random(n) < RARE
    y = np.where(rare, SLOPES["rare"], SLOPES["common"]) * X[:, 0] + 0.2 * X[:, 1]
    return X, np.clip(y + rng.normal(scale=0.05, size=n), *TARGET_RANGE), rare


def errors(epsilon: float, tilt: float, n: int, seed: int) -> tuple[float, float]:
    """Root mean square errors on new records: of the common and of the rare group."""
    X, y, _ = draw(n, seed)
    model = DPRidge(
        epsilon=epsilon,
        tilt=tilt,
        data_norm=1.0,
        target_range=TARGET_RANGE,
        coef_norm=COEF_NORM,
        fit_intercept=False,
        random_state=seed,
    )
    with warnings.catch_warnings():
        # the largest tilts let one record outweigh all others and give mostly noise, which is shown
        warnings.filterwarnings("ignore", message="tilt ==", category=UserWarning)
        warnings.filterwarnings("ignore", message="The noise ", category=UserWarning)
        model.fit(X, y)
    X, y, rare = draw(20_000, 10_000 + seed)
    square = (model.predict(X) - y) ** 2
    return float(np.sqrt(square[~rare].mean())), float(np.sqrt(square[rare].mean()))


def run(n: int, seeds: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Errors of both groups: per budget of shape (tilts, seeds, 2), and of the mean loss."""
    tilted = {
        name: np.array(
            [[errors(epsilon, tilt, n, seed) for seed in range(seeds)] for tilt in TILTS]
        )
        for name, epsilon in BUDGETS.items()
    }
    plain = np.array([errors(NO_PRIVACY, 0.0, n, seed) for seed in range(seeds)])
    return tilted, plain.mean(axis=0)


def print_table(group: str, j: int, tilted: dict[str, np.ndarray], plain: np.ndarray) -> None:
    """One row per budget: mean and standard deviation of a group's error."""
    print(f"\nError of the {group} group; without tilt and privacy {plain[j]:.3f}")
    print(f"{'tilt':14}" + "".join(f"{tilt:>14g}" for tilt in TILTS))
    for name, table in tilted.items():
        cells = "".join(f"{row.mean():7.3f} ({row.std():.3f})" for row in table[:, :, j])
        print(f"{name:14}{cells}")


def main() -> None:
    """Fit for every tilt and budget, print the tables and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=5, help="number of data sets")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(__file__).resolve().with_suffix(".svg"),
        help="picture to write (SVG)",
    )
    arguments = parser.parse_args()
    print(
        f"Root mean square error on new records, {arguments.records} training records: "
        f"mean (standard deviation) over {arguments.seeds} data sets"
    )
    with threadpool_limits(1):
        tilted, plain = run(arguments.records, arguments.seeds)
    panels = []
    top = 1.1 * max(float(table.mean(axis=1).max()) for table in tilted.values())
    for j, (group, share) in enumerate([("common", 1.0 - RARE), ("rare", RARE)]):
        print_table(group, j, tilted, plain)
        lines = [
            Series(name, TILTS, table[:, :, j].mean(axis=1), table[:, :, j].std(axis=1))
            for name, table in tilted.items()
        ]
        panels.append(
            Panel(
                f"The {group} group, {share:.0%} of the records",
                lines,
                ("no tilt, no privacy", float(plain[j])),
                (0.0, top),
                label_below=group == "common",
            )
        )
    write_line_chart(
        arguments.output,
        panels,
        title="A tilt shares errors more evenly; privacy limits how far",
        subtitle="Root mean square error of tilted least squares on new records against the tilt; "
        "delta = 1e-6",
        x_label="tilt",
        footnote=f"{arguments.records} training records. Mean over {arguments.seeds} data sets; "
        "bars: one standard deviation.",
    )
    print(f"\nPicture: {arguments.output}")


if __name__ == "__main__":
    main()
