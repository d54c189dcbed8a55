"""A tuned penalty tells on the records it was tuned on.

"I only publish the penalty; surely one number in which no record appears is
harmless." It is not. The penalty that is best on validation data is a function of the exact fit,
so it carries the records as far as its digits go. So does a *hypergradient*, the derivative that
tuners follow, even where the outer objective does not look at the data at all (Kornowski,
"Differentially Private Bilevel Optimization", Example 3.1).

Three parts:

1. The example of the paper. The outer objective is ``||x + y||^2 / 2``, free of data; y is the mean
   of the records. One hypergradient at x = 0 *is* that mean, and whoever knows all records but
   one reads that one off.
2. Ridge regression. Somebody knows all records but the label of one, +1 or -1, and sees what is
   published: the tuned alpha, or one hypergradient. Both labels are tried; the one that gives
   the published number is the answer. It is right, however many other records there are, unless
   alpha is at an end of its range; two digits of it are enough.
3. The same with the noise of ``skdp``: ridge regression tuned on noisy hypergradients, which is
   ``DPRidgeCV(method="hypergradient")`` and the private counterpart of part 2. Alpha, path and
   coefficients are functions of noisy releases. The guess is the likelier label given alpha and
   coefficients. It is an example of an attack; that no attack whatever is right more often than
   the dashed line is proven. The line depends on epsilon and delta alone, and holds for the
   default method, too.

Run ``python examples/tuning_leak.py``. It prints a table and draws ``tuning_leak.svg`` beside this
file, in about half a minute. Records and noise are seeded, so that everyone gets the same picture.
Leave the seed out where privacy matters.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
from charts import Panel, Series, write_line_chart
from threadpoolctl import threadpool_limits  # scikit-learn brings it along

from skdp.algorithms import Run
from skdp.algorithms.tuning import tune
from skdp.mechanisms import NoiseSource
from skdp.privacy import PrivacyBudget
from skdp.privacy.gaussian_dp import gaussian_mu
from skdp.problems import HalfSquaredLoss, PenaltyGroups, Records

N_FEATURES = 100
BOUNDS = (1e-6, 10.0)
EPSILONS, DELTA = (1.0, 5.0), 1e-6
NAIVE = {
    "alpha": "tuned alpha, no privacy",
    "hypergradient": "one hypergradient, no privacy",
}
PRIVATE = 'private, method="hypergradient"'


def draw(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of norm at most one and labels +-1 that a linear model hardly explains."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, N_FEATURES)) / math.sqrt(N_FEATURES)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    score = 2.0 * X @ np.linspace(1.0, 0.0, N_FEATURES) + rng.standard_normal(n)
    return X, np.where(score > 0, 1.0, -1.0)


class RidgeTuner:
    """Exact tuning on one split, without privacy: even records train, odd ones validate."""

    def __init__(self, X: np.ndarray) -> None:
        parts = X[::2], X[1::2]
        second_moments = [part.T @ part / len(part) for part in parts]
        self.values, basis = np.linalg.eigh(second_moments[0])  # in it every model is a quotient
        self.H_v = basis.T @ second_moments[1] @ basis
        self.train, self.validate = (part @ basis / len(part) for part in parts)

    def hypergradient(self, alpha: float, y: np.ndarray) -> float:
        """Derivative of the validation loss in log alpha."""
        return self._derivative(alpha, y[::2] @ self.train, y[1::2] @ self.validate)

    def alpha(self, y: np.ndarray) -> float:
        """Zero of the derivative, by bisection in log alpha to the last digit."""
        c, c_v = y[::2] @ self.train, y[1::2] @ self.validate
        low, high = (math.log(bound) for bound in BOUNDS)
        for _ in range(60):
            middle = 0.5 * (low + high)
            positive = self._derivative(math.exp(middle), c, c_v) > 0
            low, high = (low, middle) if positive else (middle, high)
        return math.exp(low)

    def _derivative(self, alpha: float, c: np.ndarray, c_v: np.ndarray) -> float:
        K = self.values + alpha
        w = c / K
        return -alpha * float((w / K) @ (self.H_v @ w - c_v))


def leak_of_the_mean() -> None:
    """Part 1: a hypergradient of an objective without data is the mean of the data."""
    rng = np.random.default_rng(0)
    records = rng.uniform(-1.0, 1.0, size=(1000, 3))
    # lower level: y* = argmin sum_i ||y - record_i||^2 / 2; d/dx ||x + y*||^2 / 2 = x + y* at x = 0
    hypergradient = records.mean(axis=0)
    recovered = 1000 * hypergradient - records[1:].sum(axis=0)
    print("1. A hypergradient of ||x + y*||^2 / 2, y* the mean of 1000 records, at x = 0")
    print(f"   record 0          {np.array2string(records[0], precision=6)}")
    print(f"   read off          {np.array2string(recovered, precision=6)}")
    print(f"   largest error     {np.abs(recovered - records[0]).max():.0e}\n")


def both_labels(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The data sets that are possible for somebody who does not know the first label."""
    negative, positive = y.copy(), y.copy()
    negative[0], positive[0] = -1.0, 1.0
    return negative, positive


def guess_without_privacy(tuner: RidgeTuner, y: np.ndarray, what: str) -> tuple[bool, float]:
    """Whether the label is found out, and how many digits of the number that takes."""

    def publish(labels: np.ndarray) -> float:
        return tuner.alpha(labels) if what == "alpha" else tuner.hypergradient(0.1, labels)

    published = publish(y)
    guesses = [publish(labels) for labels in both_labels(y)]
    digits = -math.log10(max(abs(guesses[1] - guesses[0]) / abs(published), 1e-16))
    positive = abs(guesses[1] - published) < abs(guesses[0] - published)
    return positive == (y[0] > 0), digits


def guess_with_privacy(X: np.ndarray, y: np.ndarray, epsilon: float, seed: int) -> bool:
    """Whether the likelier of both labels, given what is published, is the right one."""
    rows = Records(X, data_norm=1.0)
    penalties = PenaltyGroups((0,) * N_FEATURES, (1.0,) * N_FEATURES, *BOUNDS)
    tuned = tune(
        "hypergradient",
        rows.with_targets(y),
        HalfSquaredLoss(1.0),
        penalties,
        PrivacyBudget(epsilon, DELTA),
        coef_norm=1.0,
        run=Run(noise=NoiseSource(np.random.default_rng(seed).bytes)),
    )
    # Gaussian noise: the likelier label is the one whose exact fit is nearer
    K = X.T @ X / len(y) + float(tuned.alpha[0]) * np.eye(N_FEATURES)
    fits = [np.linalg.solve(K, X.T @ labels / len(y)) for labels in both_labels(y)]
    distances = [np.linalg.norm(tuned.point - fit) for fit in fits]
    return bool((distances[1] < distances[0]) == (y[0] > 0))


def attack(n: int, trials: int) -> tuple[dict[str, float], dict[float, float], dict[str, float]]:
    """Rates of right guesses without privacy and per epsilon, and the digits that it takes."""
    right: dict[str, list[bool]] = {what: [] for what in NAIVE}
    digits: dict[str, list[float]] = {what: [] for what in NAIVE}
    private: dict[float, list[bool]] = {epsilon: [] for epsilon in EPSILONS}
    for trial in range(trials):
        X, y = draw(n, trial)
        y[0] = 1.0 if trial % 2 else -1.0
        tuner = RidgeTuner(X)
        for what in NAIVE:
            found, length = guess_without_privacy(tuner, y, what)
            right[what].append(found)
            digits[what].append(length)
        for epsilon in EPSILONS:
            private[epsilon].append(guess_with_privacy(X, y, epsilon, trial))
    print(f"   {trials} data sets of {n} records attacked", flush=True)
    return (
        {what: float(np.mean(found)) for what, found in right.items()},
        {epsilon: float(np.mean(found)) for epsilon, found in private.items()},
        {what: float(np.median(lengths)) for what, lengths in digits.items()},
    )


def largest_rate(epsilon: float) -> float:
    """No attack on a Gaussian release is right more often: ``Phi(mu / 2)``."""
    return 0.5 * math.erfc(-0.5 * gaussian_mu(epsilon, DELTA) / math.sqrt(2.0))


def main() -> None:
    """Attack what is published with and without privacy; print the table, draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--trials", type=int, default=100, help="number of data sets of each size")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(__file__).resolve().parent / "tuning_leak.svg",
        help="where to write the picture (SVG)",
    )
    arguments = parser.parse_args()
    sizes, trials = sorted(set(arguments.sizes)), arguments.trials
    leak_of_the_mean()
    print("2. and 3. How often the label of one record is found out")
    with threadpool_limits(1):  # matrices as small as these are fastest on one thread
        naive, private, digits = zip(*(attack(n, trials) for n in sizes), strict=True)
    print(f"{'records':48}" + "".join(f"{n:>9}" for n in sizes))
    for what, label in NAIVE.items():
        print(f"{label:48}" + "".join(f"{rates[what]:9.3f}" for rates in naive))
    for epsilon in EPSILONS:
        label = f"{PRIVATE}, epsilon = {epsilon:g}"
        print(f"{label:48}" + "".join(f"{rates[epsilon]:9.3f}" for rates in private))
        print(f"{'  no attack on it is right more often than':48}{largest_rate(epsilon):9.3f}")
    print("Digits of the number that give the label away (median)")
    for what, label in NAIVE.items():
        print(f"{label:48}" + "".join(f"{lengths[what]:9.1f}" for lengths in digits))

    def series(label: str, rates: list[float]) -> Series:
        y = np.array(rates)
        return Series(label, sizes, y, np.sqrt(y * (1.0 - y) / trials))

    panels = [
        Panel(
            f"The private model has epsilon = {epsilon:g}",
            [
                *(series(label, [rates[what] for rates in naive]) for what, label in NAIVE.items()),
                series(PRIVATE, [rates[epsilon] for rates in private]),
            ],
            ("tossing a coin", 0.5),
            y_range=(0.4, 1.0),
            label_below=True,
            limit=("no attack on it exceeds", largest_rate(epsilon)),
        )
        for epsilon in EPSILONS
    ]
    write_line_chart(
        arguments.output,
        panels,
        title="A tuned penalty tells on the records it was tuned on",
        subtitle="How often the label of one record is found out from what is published",
        x_label="records",
        footnote=f"{trials} data sets of {N_FEATURES} features; bars: one standard error; "
        f"delta = {DELTA:g}.",
    )
    print(f"Picture: {arguments.output}")


if __name__ == "__main__":
    main()
