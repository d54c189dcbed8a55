"""One fit of DP-EBM and its predictions: ``python dp_ebm.py IN.npz OUT.npy EPSILON DELTA SEED``.

The output of a classifier is its probabilities.

It runs in an environment of its own with ``interpret-core`` and imports nothing of skdp. `IN.npz`
holds ``numbers`` and ``numbers_test`` (in [-1, 1]), ``codes`` and ``codes_test`` (categories, -1
where unknown), ``y`` and ``target_range`` (empty for classification). Settings are its defaults,
with public ranges and types of columns. Its guarantee is for add/remove neighbours; it takes the
number of records and the set of labels and categories as they are.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np


def main() -> None:
    given, path = np.load(sys.argv[1]), sys.argv[2]
    epsilon, delta, seed = float(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5])
    settings = (given["target_range"], epsilon, delta, seed)
    model = unfitted(given["numbers"].shape[1], given["codes"].shape[1], *settings)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Privacy violation: using a fixed random_state")
        model.fit(columns(given["numbers"], given["codes"]), given["y"])
    X_test = columns(given["numbers_test"], given["codes_test"])
    predict = getattr(model, "predict_proba", model.predict)
    np.save(path, predict(X_test))


def unfitted(
    n_numbers: int,
    n_codes: int,
    target_range: Sequence[float],
    epsilon: float,
    delta: float,
    seed: int,
) -> Any:
    """Return the model for columns of numbers in [-1, 1] and of categories."""
    from interpret import privacy

    settings = {
        "feature_types": ["continuous"] * n_numbers + ["nominal"] * n_codes,
        "privacy_bounds": dict.fromkeys(range(n_numbers), (-1.0, 1.0)), "epsilon": epsilon,
        "delta": delta, "random_state": seed, "n_jobs": 1,
    }  # fmt: skip
    if len(target_range):
        low, high = target_range
        return privacy.DPExplainableBoostingRegressor(
            privacy_target_min=low, privacy_target_max=high, **settings
        )
    return privacy.DPExplainableBoostingClassifier(**settings)


def columns(numbers: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """One array of objects, categories as strings."""
    return np.hstack([numbers.astype(object), codes.astype(str).astype(object)])


if __name__ == "__main__":
    main()
