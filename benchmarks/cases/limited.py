"""Fits on sources in processes whose address space is limited below the size of the data.

A function that makes the records of 40 chunks, and 40 row groups of Parquet files: each is larger
than what a process may have beside the interpreter and the libraries, by ``resource.setrlimit``.
The peak of the resident set is that of the whole process.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pandas as pd

from skdp import DPLogisticRegression
from skdp.data import ChunkSource, ParquetRecords

N_CHUNKS, N_FEATURES = 40, 20
SHOWN = ["kind", "n", "data_mb", "limit_mb", "peak_mb", "wall_seconds", "norm"]


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Fit in a fresh process for each kind of source."""
    rows = 5_000 if options.quick else 500_000
    for kind, size in (("function", rows), ("Parquet", rows // 4)):
        with tempfile.TemporaryDirectory() as folder:
            if kind == "Parquet":
                in_fresh_process(write, folder, size)
            yield {"kind": kind, **in_fresh_process(fit, kind, folder, size)}


def in_fresh_process(function: Any, *arguments: Any) -> Any:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as fresh:
        return fresh.submit(function, *arguments).result()


def chunk(k: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(k)
    X = rng.uniform(-1.0, 1.0, size=(rows, N_FEATURES)) * np.sqrt(3.0 / N_FEATURES) / 2
    return X, (X[:, 0] + 0.1 * rng.standard_normal(rows) > 0).astype(int)


def write(folder: str, rows: int) -> None:
    """Write 40 row groups into four files."""
    for file in range(4):
        parts = [chunk(k, rows) for k in range(file, N_CHUNKS, 4)]
        frame = pd.DataFrame(np.concatenate([X for X, _ in parts])).add_prefix("x")
        frame["y"] = np.concatenate([y for _, y in parts])
        frame.to_parquet(f"{folder}/{file}.parquet", row_group_size=rows)


def fit(kind: str, folder: str, rows: int) -> dict[str, Any]:
    """Fit with no more address space than three chunks above what the process has."""
    model = DPLogisticRegression(classes=[0, 1], data_norm=1.0, random_state=0)
    n, size = N_CHUNKS * rows, rows * N_FEATURES * 8
    source: Any = ChunkSource(lambda k: chunk(k, rows), N_CHUNKS, chunk_sizes=[rows] * N_CHUNKS)
    if kind == "Parquet":
        source = ParquetRecords(f"{folder}/*.parquet", "y")
    model.fit(*chunk(0, 2000))  # imports, and tables that are made once
    source.read(0)  # the threads of the libraries
    with open("/proc/self/statm") as status:
        address_space = int(status.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    room = 6 * size + (1 << 26)
    limit = address_space + room
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    start = time.perf_counter()
    model.fit(source)
    return {
        "n": n,
        "data_mb": N_CHUNKS * size / 1e6,
        "limit_mb": room / 1e6,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        "wall_seconds": time.perf_counter() - start,
        "norm": float(np.linalg.norm(model.coef_)),
    }
