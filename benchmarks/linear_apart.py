"""Peers of ``cases/linear_table.py`` that cannot share skdp's environment.

    python -m venv V && V/bin/pip install interpret-core pandas "scikit-learn<1.8" diffprivlib
    V/bin/python benchmarks/linear_apart.py dp-ebm diffprivlib --adult ... --california ...

Adds their scores to ``results/linear_table_peers.csv.gz``; skdp is not imported. DP-EBM has
add/remove neighbours and is for numbers and two classes. Where ranges of the features are known, it
gets them without division by the norm of a row, and categories as such. diffprivlib has replace-one
neighbours and delta = 0.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from benchmarks import data, dp_ebm, linear_protocol  # noqa: E402
from benchmarks.linear_protocol import ADD_REMOVE, DELTA, EPSILONS, REPLACE_ONE  # noqa: E402

#: DP-EBM takes seconds to minutes for a fit: few data sets, and this many seeds.
EBM_SEEDS = {
    "breast_cancer": 5, "digits >= 5": 5, "85:15 clusters": 5, "5 % positives": 3, "diabetes": 5,
    "friedman1": 5, "california": 3, "adult": 2,
}  # fmt: skip


def dp_ebm_fit(split: linear_protocol.Split, relation: str, epsilon: float) -> np.ndarray:
    dataset = split.dataset
    numbers, codes = data.numbers_and_codes(dataset, split.X)
    settings = (dataset.target_range or (), epsilon, DELTA, split.seed)
    model = dp_ebm.unfitted(numbers.shape[1], codes.shape[1], *settings)
    y = split.y if dataset.is_classification else np.clip(split.y, *dataset.target_range)
    model.fit(dp_ebm.columns(numbers, codes), y)
    X_test = dp_ebm.columns(*data.numbers_and_codes(dataset, split.X_test))
    return model.predict_proba(X_test) if dataset.is_classification else model.predict(X_test)


def diffprivlib(split: linear_protocol.Split, relation: str, epsilon: float) -> np.ndarray:
    from diffprivlib import models

    if split.dataset.classes is not None:
        model = models.LogisticRegression(epsilon=epsilon, data_norm=1.0, random_state=split.seed)
        return model.fit(split.X, split.y).predict_proba(split.X_test)
    model = models.LinearRegression(
        epsilon=epsilon,
        bounds_X=(-1.0, 1.0),
        bounds_y=split.dataset.target_range,
        random_state=split.seed,
    )
    return model.fit(split.X, split.y).predict(split.X_test)


def without_unit_rows(given: data.Dataset, options: argparse.Namespace) -> data.Dataset:
    makers = {
        "breast_cancer": data.breast_cancer,
        "diabetes": data.diabetes,
        "adult": lambda unit_rows: data.read_adult(options.adult, unit_rows),
        "california": lambda unit_rows: data.read_california(options.california, unit_rows),
    }
    return makers[given.name](unit_rows=False) if given.name in makers else given


#: Name, relation and fit of a peer.
PEERS = {
    "dp-ebm": ("DP-EBM", ADD_REMOVE, dp_ebm_fit),
    "diffprivlib": ("diffprivlib", REPLACE_ONE, diffprivlib),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peers", nargs="+", choices=list(PEERS))
    parser.add_argument("--out", type=Path, default=HERE / "results" / "linear_table_peers.csv.gz")
    parser.add_argument("--adult", metavar="PATH")
    parser.add_argument("--california", metavar="PATH")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for dataset in data.load(options.adult, options.california, options.quick):
        for peer in options.peers:
            (name, relation, fit), given = PEERS[peer], dataset
            seeds, start = linear_protocol.n_seeds(dataset, options.quick), time.perf_counter()
            if peer == "dp-ebm":
                seeds = min(seeds, EBM_SEEDS.get(dataset.name, 0))
                given = without_unit_rows(dataset, options)
            if seeds:
                scores = linear_protocol.Scores()
                scores.add_method(given, name, fit, [(relation, e) for e in EPSILONS], seeds)
                scores.write(options.out)
                seconds = time.perf_counter() - start
                print(f"{peer}: {dataset.name}, {seeds} seeds, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
