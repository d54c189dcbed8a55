"""The worst group's loss: a private classifier for groups that disagree.

    python examples/worst_group.py                      # made data, then Adult from OpenML
    python examples/worst_group.py --csv adult.csv      # reads your copy of Adult
    python examples/worst_group.py --made-only

A classifier for the mean loss serves the largest group. `DPMaxGroupLossClassifier` minimises the
largest mean loss of a group instead. Four models, at several budgets:

- `DPLogisticRegression`, which knows no groups;
- `DPMaxGroupLossClassifier`;
- private stochastic gradient descent ascent (`skdp.algorithms.dp_sgda`) with declared shares of the
  groups, and steps that were tuned by hand on these data, which no accountant has paid for;
- the exact minimiser of the largest loss in a ball, that of a good predictor, without privacy
  (dashed).

The made data have a minority of 15 % whose labels follow other features than those of the rest.
In Adult (income above 50 000 dollars, groups by sex and race) the largest group, white men, is
also the one that is hardest to predict: a plain model already does nearly what it can for the
worst group, and the model for the worst group is nearly that one. The example shows both.

It needs pandas for Adult. Splits and noise are seeded; leave `random_state` out where privacy
matters.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import adult_income
import numpy as np
from charts import Panel, Series, write_line_chart
from threadpoolctl import threadpool_limits  # scikit-learn brings it along

from skdp.algorithms import Run, dp_sgda
from skdp.linear_model import DPLogisticRegression
from skdp.mechanisms import NoiseSource
from skdp.privacy import PrivacyBudget
from skdp.problems import (
    Design,
    EmpiricalRisk,
    GroupWeights,
    LogisticLoss,
    MaxGroupLossProblem,
    Records,
)
from skdp.robust import DPMaxGroupLossClassifier
from skdp.solvers import solve_certified

DELTA = 1e-6
NAMES = ("plain", "worst group", "worst group, DP-SGDA")

# Of the adults that the survey of 1994 asked, in percent. Groups below 2 % are taken together with
# others: noise grows in proportion to the inverse of the smallest share.
ADULT_SHARES = {
    "Female Black": 5,
    "Female White": 26,
    "Female other": 2,
    "Male Black": 5,
    "Male White": 59,
    "Male other": 3,
}


@dataclass(frozen=True)
class Data:
    """Training and test records of norm one, with public shares of the groups."""

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    groups_test: np.ndarray
    shares: dict[str, float]

    def losses(self, scores: np.ndarray) -> list[float]:
        """Largest mean log loss of a group, and mean log loss, on the test records."""
        loss = np.logaddexp(0.0, -np.where(self.y_test == 1, scores, -scores))
        return [max(loss[self.groups_test == name].mean() for name in self.shares), loss.mean()]


def made_data(n: int = 100_000) -> Data:
    """Labels of the majority follow one feature, those of the minority another one."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2 * n, 6))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    groups = np.where(rng.random(2 * n) < 0.15, "minority", "majority")
    weights = np.where(groups[:, None] == "minority", [0, 12, 0, 0, 0, 0], [12, -4, 0, 0, 0, 0])
    y = (rng.random(2 * n) < 1 / (1 + np.exp(-(weights * X).sum(axis=1)))).astype(int)
    shares = {"minority": 0.15, "majority": 0.85}
    return Data(X[:n], y[:n], groups[:n], X[n:], y[n:], groups[n:], shares)


def adult(csv: Path | None) -> Data:
    """UCI Adult with public preprocessing, groups by sex and race."""
    frames = adult_income.split(adult_income.load(csv))
    encode = adult_income.pipeline("passthrough").fit(frames[0])
    parts = []
    for frame in frames:
        race = frame["race"].where(frame["race"].isin(["White", "Black"]), "other")
        X = encode.transform(frame)
        parts += [
            X.toarray() if hasattr(X, "toarray") else np.asarray(X),
            (frame["income"] == adult_income.CLASSES[1]).to_numpy().astype(int),
            (frame["sex"].astype(str) + " " + race.astype(str)).to_numpy(),
        ]
    return Data(*parts, {name: share / 100 for name, share in ADULT_SHARES.items()})


def problem_of(data: Data, radius: float, bound: float) -> MaxGroupLossProblem:
    """The objective of the two baselines, with weights of the groups up to `bound`."""
    names, alpha = sorted(data.shares), 1e-4
    weights = GroupWeights.of_proportions([data.shares[name] for name in names], bound)
    codes = np.searchsorted(names, data.groups)
    rows = Records(data.X, 1.0, 0.1)
    y = data.y.astype(float)
    return MaxGroupLossProblem(
        rows.with_targets(y, codes), LogisticLoss(), weights, radius, alpha, alpha
    )


def scores_of(data: Data, point: np.ndarray) -> np.ndarray:
    """Linear scores of the test records; the last weight is that of the constant feature 0.1."""
    return data.X_test @ point[:-1] + 0.1 * point[-1]


def run(data: Data, epsilons: Sequence[float], seeds: int) -> tuple[np.ndarray, list[float]]:
    """Test losses of shape (models, epsilons, seeds, 2), and those without privacy."""
    table = np.empty((len(NAMES), len(epsilons), seeds, 2))
    radius = EmpiricalRisk(LogisticLoss()).reference_norm(Design.of(Records(data.X, 1.0, 0.1)))
    shared = {"delta": DELTA, "data_norm": 1.0, "classes": [0, 1]}
    for i, epsilon in enumerate(epsilons):
        for seed in range(seeds):
            plain = DPLogisticRegression(epsilon, **shared, random_state=seed).fit(data.X, data.y)
            table[0, i, seed] = data.losses(plain.decision_function(data.X_test))
            worst = DPMaxGroupLossClassifier(
                epsilon, **shared, group_names=list(data.shares), random_state=seed
            ).fit(data.X, data.y, groups=data.groups)
            table[1, i, seed] = data.losses(worst.decision_function(data.X_test))
            steps = dp_sgda(
                problem_of(data, radius, 10.0),
                PrivacyBudget(epsilon, DELTA),
                sampling_rate=1.0,
                n_steps=50,
                learning_rate_x=5.0,
                learning_rate_y=0.3,
                run=Run(noise=NoiseSource(np.random.default_rng(seed).bytes)),
            )
            table[2, i, seed] = data.losses(scores_of(data, steps.x))
    exact = solve_certified(problem_of(data, radius, 1e6), 1e-4)
    return table, data.losses(scores_of(data, exact.x))


def main() -> None:
    """Run both comparisons, print the tables and draw the pictures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    adult_income.add_options(parser)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.3, 1.0, 3.0, 10.0])
    parser.add_argument("--seeds", type=int, default=5, help="number of draws of the noise")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(__file__).resolve().with_suffix(".svg"),
        help="picture to write (SVG)",
    )
    arguments = parser.parse_args()
    epsilons = sorted(set(arguments.epsilon))
    # before the long computations
    kinds = adult_income.after(("Made data", made_data()), adult, arguments)
    panels = []
    for title, data in kinds:
        with threadpool_limits(1):  # matrices as small as these are fastest on one thread
            table, exact = run(data, epsilons, arguments.seeds)
        for j, measure in enumerate(("largest group loss", "mean loss")):
            print(f"\n{title}, {measure} (log loss on test records)")
            print(f"{'epsilon':24}" + "".join(f"{value:>16g}" for value in epsilons))
            lines = []
            for k, name in enumerate(NAMES):
                mean, spread = table[k, :, :, j].mean(axis=1), table[k, :, :, j].std(axis=1)
                cells = (f"{m:8.3f} ({s:.3f})" for m, s in zip(mean, spread, strict=True))
                print(f"{name:24}" + "".join(cells))
                lines.append(Series(name, epsilons, mean, spread))
            print(f"{'worst group, no privacy':24}{exact[j]:8.3f}")
            panels.append(Panel(f"{title}: {measure}", lines, ("no privacy", exact[j])))
    write_line_chart(
        arguments.output,
        panels,
        title="The worst group under differential privacy",
        subtitle="Log loss on test records of the group that fares worst, and of all of them",
        x_label="epsilon",
        footnote=f"Mean over {arguments.seeds} draws of the noise; bars: one standard deviation. "
        f"delta = {DELTA:g}, replace-one neighbours.",
    )
    print(f"\nPicture: {arguments.output}")


if __name__ == "__main__":
    main()
