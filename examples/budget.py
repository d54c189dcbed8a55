"""What a cross-validation costs: plain addition, all folds, and folds as they overlap.

Run ``python examples/budget.py``. It fits logistic regressions on 2 to 20 folds inside of a budget,
prints what the ledger says, and draws the same as ``budget.svg`` beside this file. Three totals are
compared, at delta = 1e-5, for models at epsilon = 0.5 and delta = 1e-6:

- the sum of the epsilons;
- what ``cross_val_score`` is charged: every fit, composed tightly. Its scores are not private;
- what ``dp_cross_validate`` is charged: one fit less, since each record is in the training sets of
  all folds but one, and one noisy score at epsilon = 0.1.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from charts import Panel, Series, write_line_chart
from sklearn.model_selection import KFold, cross_val_score

from skdp import BudgetAccountant, DPLogisticRegression
from skdp.model_selection import dp_cross_validate

FOLDS = (2, 5, 10, 20)
EPSILON = 0.5


def main() -> None:
    """Cross-validate, print the totals and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".svg"))
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", message="The noise ", category=UserWarning)
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, size=(2000, 3))
    y = (X[:, 0] + 0.1 * rng.standard_normal(2000) > 0).astype(int)
    model = DPLogisticRegression(epsilon=EPSILON, delta=1e-6, data_norm=1.0, classes=[0, 1])
    plain, overlapping = [], []
    print("folds   sum   cross_val_score   dp_cross_validate   mean noisy accuracy")
    for n_folds in FOLDS:
        with BudgetAccountant(epsilon=50.0, delta=1e-5) as accountant:
            cross_val_score(model, X, y, cv=KFold(n_folds))
        plain.append(accountant.total().epsilon)
        with BudgetAccountant(epsilon=50.0, delta=1e-5) as accountant:
            found = dp_cross_validate(model, X, y, cv=n_folds, epsilon=0.1)
        overlapping.append(accountant.total().epsilon)
        print(
            f"{n_folds:5d} {n_folds * EPSILON:5.1f} {plain[-1]:17.3f} {overlapping[-1]:19.3f} "
            f"{found['test_score'].mean():21.3f}"
        )
    none = [0.0] * len(FOLDS)
    lines = [
        Series("cross_val_score (exact scores)", FOLDS, plain, none),
        Series("dp_cross_validate (noisy scores)", FOLDS, overlapping, none),
        Series("sum of the epsilons", FOLDS, [n * EPSILON for n in FOLDS], none),
    ]
    panels = [
        Panel("The ledger and plain addition", lines, None, y_range=(0.0, 10.0)),
        Panel("The ledger alone", lines[:2], None, y_range=(0.0, 2.5)),
    ]
    write_line_chart(
        arguments.output,
        panels,
        title="What a cross-validation costs",
        subtitle="Total epsilon (delta = 1e-5) by number of folds; models at epsilon = 0.5",
        x_label="folds",
        footnote="Noisy scores: epsilon = 0.1 each, one fit less. Exact scores are not private.",
    )
    print(f"\nPicture: {arguments.output}")


if __name__ == "__main__":
    main()
