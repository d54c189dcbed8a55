"""Time of one fit against scikit-learn's at the same penalty, as a ratio.

Both estimators fit the same X in turn, in one process, so that a busy machine slows both; the
ratio is taken repetition by repetition. scikit-learn keeps its default stopping rule, which is
looser than skdp's certified accuracy, with as many iterations as it needs; its intercept is not
penalised. Another ratio is to its default penalty, with which most users would compare.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression, Ridge

from benchmarks.tables import in_turn, markdown
from skdp.linear_model import DPLogisticRegression, DPRidge
from skdp.methods import OutputPerturbation


@dataclass(frozen=True)
class Workload:
    """Model and X; `density` below 1 means CSR, `n_classes` only for "logistic".

    With a `solver` the method is "output".
    """

    model: str
    n: int
    d: int
    density: float = 1.0
    n_classes: int = 2
    repeats: int = 7
    solver: str = "auto"

    @property
    def name(self) -> str:
        return self.model if self.n_classes == 2 else f"{self.model}, {self.n_classes} classes"


WORKLOADS = (
    *(
        Workload(model, n, d, repeats=41)
        for model in ("logistic", "ridge")
        for n, d in ((100, 10), (1000, 50))
    ),
    Workload("ridge", 10**5, 10),
    *(
        Workload(model, n, 50, repeats=7 if n < 1_000_000 else 5)
        for model in ("logistic", "ridge")
        for n in (10**4, 10**5, 10**6)
    ),
    *(Workload(model, 80_000, 100) for model in ("logistic", "ridge")),
    *(Workload(model, 10**5, 50, solver="lbfgs") for model in ("logistic", "ridge")),
    Workload("logistic", 455, 30, repeats=41),
    *(Workload(m, 10**5, 10**4, density=0.002, repeats=5) for m in ("logistic", "ridge")),
    Workload("logistic", 10**4, 50, n_classes=10, repeats=5),
)
QUICK = (
    Workload("ridge", 300, 5, repeats=2),
    Workload("logistic", 300, 50, density=0.1, repeats=2),
    Workload("ridge", 300, 5, repeats=2, solver="lbfgs"),
)


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for work in QUICK if options.quick else WORKLOADS:
        yield measure(work, *problem(work))


def measure(work: Workload, X: Any, y: np.ndarray) -> dict[str, Any]:
    """One row: medians of the times, and of the ratio within a repetition."""
    # fitted once to know the method and to load everything that is loaded lazily
    method = private_model(work).fit(X, y).privacy_.method
    # scikit-learn gets the penalty of one shot
    own = OutputPerturbation(solver=work.solver)
    published = private_model(work).set_params(method=own, solver="auto")
    used = float(published.fit(X, y).alpha_)
    fits = {
        "skdp": lambda: private_model(work).fit(X, y),
        "sklearn": lambda: public_model(work, used).fit(X, y),
        "default": lambda: public_model(work, None).fit(X, y),
    }
    seconds = in_turn(fits, work.repeats)
    ratios = seconds["skdp"] / seconds["sklearn"]
    return {
        "model": work.name,
        "layout": "dense" if work.density == 1 else f"CSR, {work.density:.1%} non-zero",
        **{"n": work.n, "d": work.d, "alpha": used},
        **{"method": method, "solver": work.solver, "epsilon": 1.0, "repeats": work.repeats},
        "skdp_seconds": np.median(seconds["skdp"][:, 0]),
        "sklearn_seconds": np.median(seconds["sklearn"][:, 0]),
        "ratio_median": np.median(ratios[:, 0]),
        "ratio_min": ratios[:, 0].min(),
        "ratio_max": ratios[:, 0].max(),
        "cpu_ratio_median": np.median(ratios[:, 1]),
        "cpu_to_default_median": np.median(seconds["skdp"][:, 1] / seconds["default"][:, 1]),
    }


def problem(work: Workload) -> tuple[Any, np.ndarray]:
    """Rows inside the unit ball and targets that a linear model explains in part."""
    rng = np.random.default_rng(0)
    if work.density == 1:
        X: Any = rng.uniform(-1.0, 1.0, size=(work.n, work.d)) / np.sqrt(work.d)
    else:
        X = sp.random(work.n, work.d, work.density, format="csr", random_state=rng)
        X.data *= 2.0 / np.sqrt(work.density * work.d) * 0.4
    scores = X @ rng.standard_normal((work.d, max(1, work.n_classes - 1)))
    scores = 4.0 * (scores - scores.mean(axis=0)) / scores.std(axis=0)
    if work.model == "ridge":
        return X, np.clip(0.2 * scores[:, 0] + 0.3 * rng.standard_normal(work.n), -1.0, 1.0)
    scores = np.column_stack([np.zeros(work.n), scores])
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def private_model(work: Workload) -> Any:
    given: dict[str, Any] = {"solver": work.solver, "data_norm": 1.0}
    if work.solver != "auto":
        given["method"] = "output"
    if work.model == "ridge":
        return DPRidge(**given, target_range=(-1.0, 1.0))
    return DPLogisticRegression(**given, classes=range(work.n_classes))


def public_model(work: Workload, alpha: float | None) -> Any:
    """scikit-learn's model at a penalty of ours, or at its own default."""
    if work.model == "ridge":
        return Ridge() if alpha is None else Ridge(alpha=work.n * alpha)
    penalty = {} if alpha is None else {"C": 1.0 / (work.n * alpha)}
    return LogisticRegression(**penalty, max_iter=100_000)


SHOWN = ["model", "layout", "n", "d", "alpha", "method", "solver"]
SHOWN += ["skdp_seconds", "sklearn_seconds", "ratio_median", "ratio_min", "ratio_max"]
SHOWN += ["cpu_ratio_median", "cpu_to_default_median"]
MARK = "fit_time"


def page(table: pd.DataFrame) -> str:
    """Part of the page of times: dense rows with 50 features."""
    shown = table[(table.layout == "dense") & (table.d == 50)]
    shown = shown[shown.model.isin(["logistic", "ridge"])]
    solvers = {"auto": "default", "lbfgs": '`method="output", solver="lbfgs"`'}
    rows = [
        [
            f"{row.n:,}",
            "`DPRidge`" if row.model == "ridge" else "`DPLogisticRegression`",
            solvers[row.solver],
            f"{row.cpu_to_default_median:.2g}",
        ]
        for row in shown.sort_values(["solver", "model", "n"]).itertuples()
    ]
    head = ["rows", "model", "settings", "times as long as scikit-learn's default"]
    return "\n".join(markdown(head, rows))
