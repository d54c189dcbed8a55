"""Fits on sources of records against the same fits in memory: processor time and memory.

Fits take turns, each in a process of its own that is spawned, so that a busy machine slows all; the
ratios are of processor times of the process, to the fit in memory of the same round. Memory is the
growth of the anonymous resident set, whose peak Linux does not tell: a thread reads it every 5 ms.
Dask: two worker processes on this machine; the processor time is that of the driver.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import threadpoolctl

from skdp import DPLogisticRegression, DPMaxGroupLossClassifier, DPRidge
from skdp.data import ArrayRecords, ChunkSource, ParquetRecords

N_FEATURES = 20
KINDS = ("memory", "mapped", "read", "scratch", "Parquet", "function", "Dask")
#: What is fitted: models and numbers of records, and how many of the kinds.
FITS = (
    ("logistic", 1_000_000, 7), ("squares", 1_000_000, 4), ("worst group", 1_000_000, 4),
    ("logistic", 4_000_000, 4), ("squares", 4_000_000, 4),
)  # fmt: skip
#: Rows of a row group and of a chunk that is made.
ROWS = 62_500


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    fits = (("logistic", ROWS, 4),) if options.quick else FITS
    rounds = 1 if options.quick else 3
    with tempfile.TemporaryDirectory() as folder:
        for n in {n for _, n, _ in fits}:
            in_fresh_process(write, folder, n)
        for model, n, n_kinds in fits:
            kinds = KINDS[:n_kinds]
            found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
            for _ in range(rounds):
                for kind in kinds:
                    found[kind].append(
                        in_fresh_process(fit, model, kind, folder, n, options.threads)
                    )
            for kind in kinds:
                yield summary(model, kind, n, found[kind], found["memory"])


def summary(model: str, kind: str, n: int, rows: list[Any], memory: list[Any]) -> dict[str, Any]:
    """One row: medians of the rounds, and the largest difference of coefficients."""
    pairs = list(zip(rows, memory, strict=True))
    return {
        "model": model, "kind": kind, "n": n, "d": N_FEATURES,
        "cpu_seconds": np.median([row["cpu"] for row in rows]),
        "cpu_over_memory": np.median([row["cpu"] / other["cpu"] for row, other in pairs]),
        "growth_mb": np.median([row["growth"] for row in rows]) / 1e6,
        "difference": max(np.abs(row["coef"] - other["coef"]).max() for row, other in pairs),
    }  # fmt: skip


def in_fresh_process(function: Any, *arguments: Any) -> Any:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as fresh:
        return fresh.submit(function, *arguments).result()


def chunk(k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(k)
    X = rng.uniform(-1.0, 1.0, size=(ROWS, N_FEATURES)) * np.sqrt(3.0 / N_FEATURES) / 2
    return X, (X[:, 0] + 0.1 * rng.standard_normal(ROWS) > 0).astype(int), rng.integers(0, 2, ROWS)


def paths(folder: str, n: int) -> list[str]:
    return [f"{folder}/{name}-{n}.npy" for name in ("X", "y", "groups")]


def write(folder: str, n: int) -> None:
    """Write the records as .npy and as Parquet."""
    parts = [np.concatenate(part) for part in zip(*map(chunk, range(n // ROWS)), strict=True)]
    for path, part in zip(paths(folder, n), parts, strict=True):
        np.save(path, part)
    X, y, groups = parts
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(N_FEATURES)]).assign(y=y, g=groups)
    frame.to_parquet(f"{folder}/{n}.parquet", row_group_size=ROWS)


def make(model: str) -> Any:
    given: dict[str, Any] = {"data_norm": 1.0, "random_state": 0}
    if model == "squares":
        return DPRidge(target_range=(0, 1), **given)
    if model == "logistic":
        return DPLogisticRegression(classes=[0, 1], **given)
    return DPMaxGroupLossClassifier(classes=[0, 1], group_names=[0, 1], **given)


def source_of(kind: str, model: str, folder: str, n: int) -> Any:
    grouped = model == "worst group"
    if kind in ("Parquet", "scratch"):
        scratch = folder if kind == "scratch" else None
        groups = "g" if grouped else None
        features = [f"x{j}" for j in range(N_FEATURES)]
        return ParquetRecords(
            f"{folder}/{n}.parquet", "y", groups=groups, features=features, scratch=scratch
        )
    if kind == "function":
        return ChunkSource(lambda k: chunk(k)[: 2 + grouped], n // ROWS)
    return ArrayRecords(*paths(folder, n)[: 2 + grouped], mapped=kind != "read")


def fit(model: str, kind: str, folder: str, n: int, threads: int) -> dict[str, Any]:
    """Time and memory of one fit; to be called once in a process."""
    threadpoolctl.threadpool_limits(threads)
    columns = 3 if model == "worst group" else 2
    some = [np.load(path, mmap_mode="r")[:2000] for path in paths(folder, n)[:columns]]
    make(model).fit(*some)  # imports, and tables that are made once
    with contextlib.ExitStack() as stack:
        given: Any = [source_of(kind, model, folder, n)]
        if kind == "memory":
            given = [np.load(path) for path in paths(folder, n)[:columns]]
        elif kind == "Dask":
            from dask.distributed import Client

            from skdp.data.dask import DaskRecords

            client = stack.enter_context(
                Client(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0")
            )
            given = [DaskRecords(given[0], client=client)]
        with resident_growth() as growth:
            cpu = time.process_time()
            coef = make(model).fit(*given).coef_
            cpu = time.process_time() - cpu
    return {"coef": coef, "cpu": cpu, "growth": growth[0]}


@contextlib.contextmanager
def resident_growth() -> Iterator[list[float]]:
    """Yield a list that has the growth of the anonymous resident set at the end."""
    done, found = threading.Event(), [float("nan")]
    first = resident_bytes()
    if first is None:
        yield found
        return
    peak = [first]

    def watch() -> None:
        while not done.wait(0.005):
            peak[0] = max(peak[0], resident_bytes() or 0)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        done.set()
        watcher.join()
        found[0] = float(peak[0] - first)


def resident_bytes() -> int | None:
    """Size of the anonymous resident set, where Linux tells it."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon")), None)


SHOWN = ["model", "kind", "n", "cpu_over_memory", "growth_mb", "difference"]
