"""Time and memory of one phased fit at ten million records, against a million.

X is written in chunks to a temporary ``.npy`` file. Each fit runs in a process of its own, on the
mapped file ("mapped") or on a copy in memory ("memory"). ``seconds`` is the time of ``fit``,
``cpu_seconds`` what the processor spent on it, which says more where others use the machine as
well. Ratios are to the smallest n, taken round by round; their median counts. Before a fit, the
process reads the file once and takes and returns as much memory as a fit may need: on a virtual
machine, memory that is used for the first time costs far more than the arithmetic does
(``first_touch_seconds``).

Memory is in units of the size of X, from Linux' process status. ``extra`` is the highest growth of
anonymous memory during ``fit``, sampled: what the fit allocates. ``total`` is the peak of the
resident set over that of the process before it had X: X itself is in it, and of a mapped file the
pages that were touched, which the system can drop. Elsewhere than on Linux the columns are empty.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import threadpoolctl

from benchmarks.cases.memory import reset_resident_peak, resident_bytes
from skdp.linear_model import DPLogisticRegression, DPRidge

MODELS = ("logistic", "ridge")
LAYOUTS = ("mapped", "memory")
#: Limits that a fit should keep: of the time for ten times the records, and of memory.
TIME_LIMIT, MEMORY_LIMIT = 12.0, 2.0
_CHUNK = 1 << 18
_SAMPLING_SECONDS = 0.01


@dataclass(frozen=True)
class Size:
    """Numbers of records to compare, and of features."""

    records: tuple[int, ...]
    d: int
    repeats: int


FULL = Size((10**6, 10**7), 20, 3)
QUICK = Size((2_000, 20_000), 5, 1)


@dataclass(frozen=True)
class Sample:
    """What one process has measured; memory in bytes, NaN where it cannot be known."""

    seconds: float
    cpu_seconds: float
    first_touch_seconds: float
    extra_bytes: float
    file_bytes: float
    total_bytes: float
    phases: int


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    size = QUICK if options.quick else FULL
    models, layouts = (MODELS[:1], LAYOUTS[:1]) if options.quick else (MODELS, LAYOUTS)
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        folders = {n: Path(directory) / str(n) for n in size.records}
        for n, folder in folders.items():
            folder.mkdir()
            write_records(folder, n, size.d)
        for model in models:
            for layout in layouts:
                print(f"phased_scale: {model}, {layout}", file=sys.stderr, flush=True)
                # in turn, so that a busy machine slows all of them
                rounds = [
                    {
                        n: in_fresh_process(folder, model, layout, options.threads)
                        for n, folder in folders.items()
                    }
                    for _ in range(size.repeats)
                ]
                rows += [row(rounds, model, layout, n, size.d) for n in folders]
    return rows


def write_records(folder: Path, n: int, d: int) -> None:
    """Rows of which about half are longer than the default `data_norm`, and two targets."""
    rng = np.random.default_rng(0)
    direction = rng.standard_normal(d)
    direction *= 4.0 / np.linalg.norm(direction)
    arrays = {
        name: np.lib.format.open_memmap(folder / f"{name}.npy", "w+", np.float64, shape)
        for name, shape in {"X": (n, d), "logistic": (n,), "ridge": (n,)}.items()
    }
    for start in range(0, n, _CHUNK):
        part = slice(start, min(start + _CHUNK, n))
        X = rng.standard_normal((part.stop - part.start, d)) / np.sqrt(d)
        scores = X @ direction
        arrays["X"][part] = X
        arrays["logistic"][part] = scores + rng.logistic(size=len(X)) > 0
        arrays["ridge"][part] = np.clip(0.3 * scores + 0.3 * rng.standard_normal(len(X)), -1, 1)
    for array in arrays.values():
        array.flush()


def in_fresh_process(folder: Path, model: str, layout: str, threads: int) -> Sample:
    context = multiprocessing.get_context("spawn")  # holds nothing of this process
    with ProcessPoolExecutor(1, mp_context=context) as fresh:
        return fresh.submit(measure, folder, model, layout, threads).result()


def measure(folder: Path, model: str, layout: str, threads: int) -> Sample:
    """Fit once; to be called once in a process."""
    threadpoolctl.threadpool_limits(threads)
    # everything that is imported or allocated once and for all
    first = np.random.default_rng(0).uniform(-0.1, 0.1, size=(200, 2))
    make(model).fit(first, np.arange(200) % 2)
    first_touch = warm_up(folder, 2.0)
    before, files = reset_resident_peak(), resident_bytes("RssFile")
    mode = "r" if layout == "mapped" else None
    X, y = (np.load(folder / f"{name}.npy", mmap_mode=mode) for name in ("X", model))
    with AnonymousPeak() as watched:
        start, cpu = time.perf_counter(), time.process_time()
        fitted = make(model).fit(X, y)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak, file = resident_bytes("VmHWM"), resident_bytes("RssFile")
    return Sample(
        seconds,
        cpu,
        first_touch,
        watched.growth,
        np.nan if file is None or files is None else float(file - files),
        np.nan if peak is None or before is None else float(peak - before),
        len(fitted.privacy_.plan["block_sizes"]),
    )


def warm_up(folder: Path, factor: float) -> float:
    """Read all files and touch `factor` times the memory of X; the seconds of the latter."""
    for file in folder.iterdir():
        with file.open("rb") as stream:
            while stream.read(1 << 24):
                pass
    start = time.perf_counter()
    np.ones(int(factor * (folder / "X.npy").stat().st_size), dtype=np.uint8)
    return time.perf_counter() - start


def make(model: str) -> Any:
    if model == "ridge":
        return DPRidge(method="phased", target_range=(-1.0, 1.0), random_state=0)
    return DPLogisticRegression(method="phased", classes=(0, 1), random_state=0)


class AnonymousPeak:
    """Largest growth of the process' anonymous memory while the context is open."""

    def __init__(self) -> None:
        self.growth = np.nan
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> AnonymousPeak:
        self._before = self._highest = resident_bytes("RssAnon")
        if self._before is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            self._stop.set()
            self._thread.join()
            self.growth = float(self._highest - self._before)

    def _watch(self) -> None:
        while True:
            self._highest = max(self._highest, resident_bytes("RssAnon") or 0)
            if self._stop.wait(_SAMPLING_SECONDS):
                return


def row(rounds: list[dict[int, Sample]], model: str, layout: str, n: int, d: int) -> dict[str, Any]:
    """One row: medians over the rounds, and of the ratios within a round."""
    smallest = min(rounds[0])
    table = pd.DataFrame([asdict(samples[n]) for samples in rounds])
    base = pd.DataFrame([asdict(samples[smallest]) for samples in rounds])
    ratios, middle, size = table / base, table.median(), 8.0 * n * d
    return {
        "model": model,
        "layout": layout,
        "n": n,
        "d": d,
        "phases": int(middle["phases"]),
        "repeats": len(rounds),
        "X_bytes": int(size),
        "seconds": middle["seconds"],
        "seconds_min": table["seconds"].min(),
        "seconds_max": table["seconds"].max(),
        "cpu_seconds": middle["cpu_seconds"],
        "first_touch_seconds": middle["first_touch_seconds"],
        "n_ratio": n / smallest,
        "time_ratio": ratios["seconds"].median(),
        "time_ratio_min": ratios["seconds"].min(),
        "time_ratio_max": ratios["seconds"].max(),
        "cpu_ratio": ratios["cpu_seconds"].median(),
        "extra_over_X": middle["extra_bytes"] / size,
        "total_over_X": middle["total_bytes"] / size,
        "file_pages_over_X": middle["file_bytes"] / size,
    }


def summarise(table: pd.DataFrame) -> str:
    columns = ["model", "layout", "n", "d", "phases", "seconds", "n_ratio", "time_ratio"]
    columns += ["cpu_seconds", "cpu_ratio"]
    columns += ["first_touch_seconds", "extra_over_X", "total_over_X", "file_pages_over_X"]
    largest = table[(table["n"] == table["n"].max()) & ~table["quick"].astype(bool)]
    verdicts = [
        f"{row.model}, {row.layout}: time ratio {row.time_ratio:.1f} "
        f"({'within' if row.time_ratio <= TIME_LIMIT else 'ABOVE'} {TIME_LIMIT:g}), "
        f"of the processor's {row.cpu_ratio:.1f}, "
        f"memory {row.total_over_X:.2f} X "
        f"({'within' if row.total_over_X <= MEMORY_LIMIT else 'ABOVE'} {MEMORY_LIMIT:g})"
        for row in largest.itertuples(index=False)
    ]
    return "\n".join(
        [table[columns].to_string(index=False, float_format="{:.3g}".format), *verdicts]
    )


def plot(table: pd.DataFrame, path: Path) -> None:
    from matplotlib import pyplot as plt

    figure, (times, memory) = plt.subplots(1, 2, figsize=(9.5, 3.8))
    kinds = [(model, layout) for model in MODELS for layout in LAYOUTS]
    sizes = sorted(table["n"].unique())
    for i, (model, layout) in enumerate(kinds):
        part = table[(table["model"] == model) & (table["layout"] == layout)]
        label, color = f"{model}, {layout}", f"C{i}"
        spread = [
            part["seconds"] - part["seconds_min"],
            part["seconds_max"] - part["seconds"],
        ]
        times.errorbar(part["n"], part["seconds"], yerr=spread, fmt="o-", color=color, label=label)
        # one group of bars per n
        heights = np.array([sizes.index(n) for n in part["n"]]) + 0.2 * (i - 1.5)
        memory.barh(heights, part["total_over_X"], height=0.18, color=color, label=label)
        memory.plot(part["extra_over_X"], heights, "k|", ms=9)
    low = table.loc[table["n"] == sizes[0], "seconds"].min()
    times.plot(
        sizes, [0.7 * low * n / sizes[0] for n in sizes], "--", color="grey", label="slope 1"
    )
    times.set_xscale("log")
    times.set_yscale("log")
    times.set_xlabel("n")
    times.set_ylabel("seconds of one phased fit")
    times.legend(fontsize=8)
    memory.plot([], [], "k|", ms=9, label="allocated by fit")
    memory.axvline(MEMORY_LIMIT, color="grey", linestyle="--", linewidth=1)
    memory.set_yticks(range(len(sizes)), [f"n = {n:,}".replace(",", " ") for n in sizes])
    memory.invert_yaxis()
    memory.set_xlabel("peak of the resident set / size of X (X included)")
    memory.set_xlim(0, 1.75 * table["total_over_X"].max())
    memory.legend(fontsize=8, loc="center right")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
