"""Peak memory that one fit adds, as a multiple of the size of X.

Each fit runs in a process of its own; X of the layout "mapped" is a file, fitted in phases. The
figure is the peak of ``tracemalloc``, which sees every array of NumPy but not what BLAS or C code
allocates for itself. A copy of X costs 1.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import threadpoolctl

from benchmarks.cases.fit_time import Workload, private_model, problem, public_model

ALPHA = 1e-3
#: Layouts of X, and its shape and type.
SHAPES = (
    *((layout, Workload("", 200_000, 50)) for layout in ("C", "F")),
    ("C", Workload("", 200_000, 50, dtype="float32")),
    ("CSR", Workload("", 100_000, 5000, 0.005)),
    ("CSR", Workload("", 100_000, 5000, 0.005, dtype="float32")),
    ("mapped", Workload("", 1_000_000, 20)),
)
QUICK = (("C", Workload("", 20_000, 20)), ("mapped", Workload("", 20_000, 20)))
MODELS = (("logistic", 2), ("ridge", 2), ("logistic", 10))


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    models = MODELS[:1] if options.quick else MODELS
    for (layout, shape), (model, n_classes) in product(QUICK if options.quick else SHAPES, models):
        work = replace(shape, model=model, n_classes=n_classes)
        for package in ("skdp", "sklearn"):
            # spawned, so that it holds nothing of this process
            context = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(1, mp_context=context) as fresh:
                yield fresh.submit(measure, package, layout, work, options.threads).result()


def measure(package: str, layout: str, work: Workload, threads: int) -> dict[str, Any]:
    """One row; to be called once in a process."""
    threadpoolctl.threadpool_limits(threads)
    X, y = problem(work)
    X = X * np.sqrt(3.0).astype(X.dtype)  # about half of the rows are longer than `data_norm`
    if layout == "F":
        X = np.asfortranarray(X)
    if layout == "mapped":
        file = tempfile.NamedTemporaryFile(suffix=".npy")  # noqa: SIM115 - ends with the process
        np.save(file.name, X)
        X = np.load(file.name, mmap_mode="r")
    size = X.nbytes if layout != "CSR" else X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    estimator = private_model(work, ALPHA) if package == "skdp" else public_model(work, ALPHA)
    if package == "skdp" and layout == "mapped" and work.n_classes == 2:
        estimator.set_params(alpha="auto", method="phased")
    # everything that is imported or allocated once and for all
    estimator.fit(X[:200], y[:200])
    tracemalloc.start()
    estimator.fit(X, y)
    traced = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {
        "package": package, "model": work.name, "layout": layout, "dtype": work.dtype,
        "n": work.n, "d": work.d, "density": work.density, "alpha": ALPHA, "X_bytes": size,
        "peak_bytes": traced, "peak_over_X": traced / size,
    }  # fmt: skip


def summarise(table: pd.DataFrame) -> str:
    wide = table.pivot(index=["layout", "dtype", "model"], columns="package", values="peak_over_X")
    return "extra memory / size of X\n" + wide.to_string(float_format="{:.2f}".format)
