"""Peak memory that one fit adds, as a multiple of the size of X.

Each fit runs in a process of its own; X of the layout "mapped" is a file, fitted in phases. The
figure is the peak of ``tracemalloc``, which sees every array of NumPy but not what BLAS or C code
allocates for itself. The growth of the resident set, whose peak is reset before the fit, is a check
where the operating system tells it; it can be smaller, because memory that was freed after X was
made is used again, and larger by the pages of a file that were read. A copy of X costs 1.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import threadpoolctl
from sklearn.linear_model import LogisticRegression, Ridge

from skdp.linear_model import DPLogisticRegression, DPRidge

ALPHA = 1e-3


@dataclass(frozen=True)
class Shape:
    """Of X; `layout` is "C", "F", "CSR" or "mapped"."""

    layout: str
    dtype: str
    n: int
    d: int
    density: float = 1.0


SHAPES = (
    Shape("C", "float64", 200_000, 50), Shape("F", "float64", 200_000, 50),
    Shape("C", "float32", 200_000, 50), Shape("CSR", "float64", 100_000, 5000, 0.005),
    Shape("CSR", "float32", 100_000, 5000, 0.005), Shape("mapped", "float64", 1_000_000, 20),
)  # fmt: skip
QUICK = (Shape("C", "float64", 20_000, 20), Shape("mapped", "float64", 20_000, 20))
MODELS = ("logistic", "ridge", "logistic, 10 classes")


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    models = MODELS[:1] if options.quick else MODELS
    for shape, model in product(QUICK if options.quick else SHAPES, models):
        for package in ("skdp", "sklearn"):
            # spawned, so that it holds nothing of this process
            context = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(1, mp_context=context) as fresh:
                yield fresh.submit(measure, package, model, shape, options.threads).result()


def measure(package: str, model: str, shape: Shape, threads: int) -> dict[str, Any]:
    """One row; to be called once in a process."""
    threadpoolctl.threadpool_limits(threads)
    X, y = problem(model, shape)
    if shape.layout == "mapped":
        file = tempfile.NamedTemporaryFile(suffix=".npy")  # noqa: SIM115 - ends with the process
        np.save(file.name, X)
        X = np.load(file.name, mmap_mode="r")
    size = X.nbytes if shape.layout != "CSR" else X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    estimator = make(package, model, shape)
    # everything that is imported or allocated once and for all
    make(package, model, replace(shape, n=200)).fit(
        X[:200], np.arange(200) % (10 if "10" in model else 2)
    )
    resident = reset_resident_peak()
    tracemalloc.start()
    estimator.fit(X, y)
    traced = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    peak = resident_bytes("VmHWM")
    extra_resident = np.nan if resident is None or peak is None else peak - resident
    return {
        "package": package, "model": model, **asdict(shape), "alpha": ALPHA, "X_bytes": size,
        "peak_bytes": traced, "peak_over_X": traced / size, "resident_peak_bytes": extra_resident,
        "resident_peak_over_X": extra_resident / size,
    }  # fmt: skip


def problem(model: str, shape: Shape) -> tuple[Any, np.ndarray]:
    """Rows of which about half are longer than the default `data_norm`."""
    rng = np.random.default_rng(0)
    if shape.layout == "CSR":
        X: Any = sp.random(shape.n, shape.d, shape.density, format="csr", random_state=rng)
        X.data *= np.sqrt(3.0 / (shape.density * shape.d))
        X = X.astype(shape.dtype)
        scores = X @ rng.standard_normal((shape.d, 10))
    else:
        X = rng.uniform(-1.0, 1.0, size=(shape.n, shape.d)) * np.sqrt(3.0 / shape.d)
        X = np.array(X, dtype=shape.dtype, order="F" if shape.layout == "F" else "C")
        scores = X @ rng.standard_normal((shape.d, 10))
    scores += 0.3 * rng.standard_normal(scores.shape)
    if model == "ridge":
        return X, np.clip(scores[:, 0], -1.0, 1.0).astype(shape.dtype)
    return X, scores.argmax(axis=1) if "10" in model else (scores[:, 0] > 0).astype(int)


def make(package: str, model: str, shape: Shape) -> Any:
    if package == "skdp":
        given: dict[str, Any] = {"alpha": ALPHA}
        if shape.layout == "mapped" and "10" not in model:
            given = {"method": "phased"}
        if model == "ridge":
            return DPRidge(**given, target_range=(-1.0, 1.0))
        return DPLogisticRegression(**given, classes=range(10 if "10" in model else 2))
    if model == "ridge":
        return Ridge(alpha=shape.n * ALPHA)
    return LogisticRegression(C=1.0 / (shape.n * ALPHA), max_iter=10_000)


def reset_resident_peak() -> int | None:
    """Make the peak of the resident set start anew; its present size, if it can be known."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return None
    return resident_bytes("VmRSS")


def resident_bytes(field: str) -> int | None:
    """A field of Linux' process status; not getrusage, whose peak includes the parent's."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(field)), None)


def summarise(table: pd.DataFrame) -> str:
    wide = table.pivot(
        index=["layout", "dtype", "model"],
        columns="package",
        values=["peak_over_X", "resident_peak_over_X"],
    )
    return "extra memory / size of X: traced peak, and resident set as a check\n" + (
        wide.to_string(float_format="{:.2f}".format)
    )
