"""Accuracy under attack: adversarially robust training with differential privacy.

Run ``python examples/adversarial_accuracy.py``. An attacker who moves each feature of a test
record by a little can turn the prediction of an ordinary linear model, if many weak features add
up. `DPAdversarialClassifier` minimises the worst case instead. The table and the picture compare
it with `DPLogisticRegression`, on clean and on attacked test records:

- made data: one feature that the attack hardly turns, and nineteen weak ones;
- two of scikit-learn's handwritten digits, 4 and 9: 250 training records with 64 pixels, few for
  privacy and for robustness at once.

Splits and noise are seeded, so that everyone gets the same picture. Leave `random_state` out where
privacy matters.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from charts import Panel, Series, write_line_chart
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits  # scikit-learn brings it along

from skdp.robust import DPAdversarialClassifier

EPSILONS = (0.3, 1.0, 3.0, 10.0, 30.0)
RADII = (0.01, 0.02, 0.04, 0.08, 0.16)
NAMES = ("plain, clean", "plain, attacked", "robust, clean", "robust, attacked")

Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def made_data(seed: int) -> Split:
    """One strong feature that is wrong for one record in twenty, and many weak ones."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, 8000)
    sign = 2 * y - 1
    X = 0.15 * rng.standard_normal((len(y), 20)) + 0.06 * sign[:, None]
    X[:, 0] = sign * rng.choice([0.35, -0.35], len(y), p=[0.95, 0.05])
    return train_test_split(X, y, test_size=0.5, random_state=seed)


def digits(seed: int) -> Split:
    """The digits 4 and 9; pixels from their range 0 to 16 to [-1, 1], then rows of norm one."""
    data = load_digits()
    chosen = np.isin(data.target, (4, 9))
    X = normalize((data.data[chosen] - 8) / 8)
    return train_test_split(X, data.target[chosen] == 9, test_size=0.3, random_state=seed)


def scores(split: Split, epsilon: float, radius: float, seed: int) -> list[float]:
    """Test accuracies in the order of `NAMES`; every feature is attacked."""
    X, X_test, y, y_test = split
    out = []
    for trained_for in (0.0, radius):  # 0 is DPLogisticRegression(method="output")
        model = DPAdversarialClassifier(
            epsilon,
            attack_norm=np.inf,
            attack_radius=trained_for,
            data_norm=1.0,
            classes=[0, 1],
            random_state=seed,
        ).fit(X, y.astype(int))
        out.append(model.attacked_score(X_test, y_test, 0.0))
        out.append(model.attacked_score(X_test, y_test, radius))
    return out


def run(
    data: Callable[[int], Split], settings: Sequence[tuple[float, float]], seeds: int
) -> tuple[np.ndarray, float]:
    """Scores of shape (settings, seeds, 4), and clean accuracy without privacy."""
    table, public = np.empty((len(settings), seeds, len(NAMES))), []
    for seed in range(seeds):
        split = data(seed)
        reference = LogisticRegression(C=100.0, max_iter=1000).fit(split[0], split[2])
        public.append(reference.score(split[1], split[3]))
        for i, (epsilon, radius) in enumerate(settings):
            table[i, seed] = scores(split, epsilon, radius, seed)
    return table, float(np.mean(public))


def main() -> None:
    """Run the three comparisons, print the tables and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10, help="number of random splits")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(__file__).resolve().with_suffix(".svg"),
        help="picture to write (SVG)",
    )
    arguments = parser.parse_args()
    print(f"Test accuracy: mean over {arguments.seeds} random splits")
    panels = []
    for title, data, x, settings in [
        ("Made data, radius 0.08, by epsilon", made_data, EPSILONS, [(e, 0.08) for e in EPSILONS]),
        ("Made data, epsilon 3, by attack radius", made_data, RADII, [(3.0, a) for a in RADII]),
        (
            "Digits 4 and 9, radius 0.04, by epsilon",
            digits,
            EPSILONS,
            [(e, 0.04) for e in EPSILONS],
        ),
    ]:
        with threadpool_limits(1):  # matrices as small as these are fastest on one thread
            table, public = run(data, settings, arguments.seeds)
        print(f"\n{title}\n{'':18}" + "".join(f"{value:>8g}" for value in x))
        lines = []
        for j, name in enumerate(NAMES):
            mean, spread = table[:, :, j].mean(axis=1), table[:, :, j].std(axis=1)
            print(f"{name:18}" + "".join(f"{value:8.3f}" for value in mean))
            lines.append(Series(name, x, mean, spread))
        print(f"{'no privacy, clean':18}{public:8.3f}")
        panels.append(Panel(title, lines, ("guessing", 0.5), (0.0, 1.0)))
    write_line_chart(
        arguments.output,
        panels,
        title="Accuracy under attack of differentially private classifiers",
        subtitle="Test accuracy of plain and robust training when each feature may be moved by the "
        "radius, and when none is moved",
        x_label="epsilon, or attack radius in the middle",
        footnote=f"Mean over {arguments.seeds} random splits; bars: one standard deviation. Attack "
        "in the maximum norm; delta = 1e-6, replace-one neighbours; other parameters at their "
        "defaults.",
    )
    print(f"\nPicture: {arguments.output}")


if __name__ == "__main__":
    main()
