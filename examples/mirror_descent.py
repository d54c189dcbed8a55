"""Few features that matter among many: the error of private fits as the number of features grows.

Noise in every coefficient costs about the square root of their number; draws of vertices of an l1
ball cost its logarithm. Rows are random signs, and the label depends on five of them.

Run ``python examples/mirror_descent.py``. It prints test losses and draws them as
``mirror_descent.svg`` beside this file. Records and noise are seeded, so that everyone gets the
same picture. Leave `random_state` out where privacy matters.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from charts import Panel, Series, write_line_chart
from sklearn.metrics import log_loss

from skdp.linear_model import DPLogisticRegression

METHODS = {"mirror_descent": "mirror descent", "gradient": "noisy gradients (default)"}


def draw(n: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows of signs, and labels of a logistic model with five coefficients."""
    X = rng.choice([-1.0, 1.0], size=(n, d))
    scores = X[:, :5] @ np.array([0.6, -0.6, 0.6, 0.6, -0.6])
    return X, (scores + rng.logistic(size=n) > 0).astype(int)


def test_loss(method: str, n: int, d: int, seed: int) -> float:
    """Log loss on new records at epsilon 1."""
    rng = np.random.default_rng(seed)
    bound = {"feature_bound": 1.0} if method == "mirror_descent" else {"data_norm": d**0.5}
    model = DPLogisticRegression(
        method=method,
        **bound,
        fit_intercept=False,
        classes=[0, 1],
        random_state=seed,
    )
    model.fit(*draw(n, d, rng))
    X, y = draw(10_000, d, rng)
    return float(log_loss(y, model.predict_proba(X)))


def main() -> None:
    """Fit, print the table and draw it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--features", type=int, nargs="+", default=[10, 30, 100, 300, 1000])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--output", type=Path, default=Path(__file__).with_name("mirror_descent.svg")
    )
    options = parser.parse_args()
    series = []
    print(f"{'features':28}" + "".join(f"{d:>17}" for d in options.features))
    for method, label in METHODS.items():
        losses = np.array(
            [
                [test_loss(method, options.records, d, seed) for seed in range(options.seeds)]
                for d in options.features
            ]
        )
        means, spreads = losses.mean(axis=1), losses.std(axis=1)
        cells = zip(means, spreads, strict=True)
        print(f"{label:28}" + "".join(f"{mean:8.4f} ({spread:.4f})" for mean, spread in cells))
        series.append(Series(label, options.features, means.tolist(), spreads.tolist()))
    panel = Panel("test log loss", series, ("no information", float(np.log(2.0))))
    write_line_chart(
        options.output,
        [panel],
        title="Few features that matter among many",
        subtitle=f"{options.records} records, epsilon 1, delta 1e-6",
        x_label="number of features",
    )


if __name__ == "__main__":
    main()
