"""Plan a private fit before there are data, then draw its accuracy against epsilon.

Run ``python examples/privacy_utility.py``; it needs matplotlib. First it prints what
``plan_fit`` says of a logistic regression for a few numbers of records: public numbers, no data.
Then it draws synthetic records and fits at several epsilons on repeated folds:
``privacy_utility.svg`` beside this file. The curves are exact functions of the records. On private
ones they would be a leak; these records are synthetic.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ShuffleSplit

from skdp import DPLogisticRegression
from skdp.inspection import PrivacyUtilityDisplay, plan_fit

N_FEATURES = 10
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)


def synthetic(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows of norm at most 1, and labels with noise."""
    X = rng.standard_normal((n, N_FEATURES))
    X /= np.maximum(np.linalg.norm(X, axis=1), 3.0)[:, None]
    scores = 8.0 * X[:, 0] - 6.0 * X[:, 1]
    return X, (scores + rng.logistic(size=n) > 0).astype(int)


def main() -> None:
    """Print plans, fit and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".svg"))
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 5000])
    parser.add_argument("--repeats", type=int, default=20)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", message="The noise ", category=UserWarning)
    matplotlib.use("svg")
    import matplotlib.pyplot as pyplot

    model = DPLogisticRegression(epsilon=1.0, data_norm=1.0, classes=[0, 1])
    print("records   method     smallest and largest noise of a release, as a part of its domain")
    for n in arguments.sizes:
        plan = plan_fit(model, n, N_FEATURES)
        shares = [release.relative_noise for release in plan.releases]
        print(f"{n:7d}   {plan.method:8s}   {min(shares):.2g} {max(shares):.2g}")
    rng = np.random.default_rng(0)
    ax = None
    for i, n in enumerate(arguments.sizes):
        X, y = synthetic(n, rng)
        is_last = i == len(arguments.sizes) - 1
        display = PrivacyUtilityDisplay.from_estimator(
            model,
            X,
            y,
            epsilons=EPSILONS,
            scoring="accuracy",
            cv=ShuffleSplit(arguments.repeats, test_size=0.3, random_state=0),
            baseline=LogisticRegression(C=100.0) if is_last else None,
            baseline_kw={"label": f"{n} records, no privacy"},
            random_state=0,
            name=f"{n} records",
            ax=ax,
        )
        ax = display.ax_
        means = ", ".join(f"{mean:.3f}" for mean in display.scores.mean(axis=1))
        print(f"{n} records: accuracy {means} at epsilon {', '.join(map(str, EPSILONS))}")
    ax.set_title("Logistic regression, 10 features: mean and one standard deviation")
    display.figure_.savefig(arguments.output)
    pyplot.close(display.figure_)
    print(f"wrote {arguments.output}")


if __name__ == "__main__":
    main()
