"""An estimate for n = 1e9, d = 50 on 100 workers, from parts that are measured here. Nobody ran it.

A fit for 1e9 records is run on 250,000 of them, of which an engine says that it has 4,000 times as
many: the plan and its passes are those of 1e9 records. Each pass is timed. A worker has 1e7
records in memory, and its work in a pass is 40 times that time. The scheduler's time is that of a
pass of as many tasks over nothing, with two workers on this machine.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.cases.limited import in_fresh_process
from skdp import DPLogisticRegression, DPMaxGroupLossClassifier
from skdp.data import Chunk, ChunkSource, RecordSource
from skdp.data.sources import merge_tree

N_RECORDS, N_FEATURES, N_WORKERS, N_TASKS = 10**9, 50, 100, 400
#: Chunks that there are, and their rows.
N_CHUNKS, ROWS = 4, 62_500
#: Assumed seconds until all workers have heard of a pass and answered.
LATENCY = 0.1
NAMES = {
    "SurveyTask": "the first one",
    "MeansSum": "means",
    "ClippedGradients": "a step",
    "ShortenedSquares": "squares of margins",
    "Derivatives": "size and shift",
}


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    per_task = in_fresh_process(seconds_per_task, 4 if options.quick else N_TASKS)
    models = {
        "logistic": DPLogisticRegression(1.0, 1e-10, classes=[0, 1], data_norm=1.0),
        "worst group": DPMaxGroupLossClassifier(
            1.0, 1e-10, classes=[0, 1], group_names=[0, 1], data_norm=1.0
        ),
    }
    for name, model in models.items():
        source = Repeated(1_000 if options.quick else ROWS)
        model.fit(source)
        times = pd.Series(source.seconds).groupby(source.kinds)
        million = 1e6 / (N_CHUNKS * source.rows)  # in the table: seconds for as many records
        for kind, seconds in times.median().items():
            number = times.size()[kind]
            yield {"model": name, "pass": kind, "number": number, "million": million * seconds}
        passes = len(source.seconds)
        work = sum(source.seconds) * million * N_RECORDS / N_WORKERS / 1e6
        others = passes * (N_TASKS * per_task + LATENCY)
        yield {
            "model": name, "pass": "all", "number": passes, "seconds_per_task": per_task,
            "work": work, "others": others, "together": work + others,
        }  # fmt: skip


class Repeated(RecordSource):
    """An engine that has 1e9 records, by what it says; sums are those of a few, many times."""

    def __init__(self, rows: int) -> None:
        self.rows, self.n_chunks = rows, N_RECORDS // rows
        self.chunk_sizes = (rows,) * self.n_chunks
        self.times = self.n_chunks // N_CHUNKS
        self.kinds, self.seconds = [], []
        rng = np.random.default_rng(0)
        X = rng.uniform(-1.0, 1.0, (N_CHUNKS, rows, N_FEATURES)) * np.sqrt(3.0 / N_FEATURES) / 2
        y = (X[:, :, 0] + 0.1 * rng.standard_normal(X.shape[:2]) > 0).astype(int)
        self.chunks = list(map(Chunk, X, y, rng.integers(0, 2, y.shape)))

    def read(self, k: int) -> Chunk:
        return self.chunks[k]

    def reduce(self, task: Any, merge: Any) -> Any:
        function = getattr(task, "function", task)
        kind = type(getattr(function, "statistic", function)).__name__
        start = time.process_time()
        found = merge_tree((task(k, self) for k in range(N_CHUNKS)), merge)
        self.seconds.append(time.process_time() - start)
        self.kinds.append(NAMES.get(kind, "losses and sizes of groups"))
        if hasattr(found, "sizes"):  # of the first pass
            persons = found.n_persons * self.times
            return replace(found, sizes=found.sizes * self.times, n_persons=persons)
        return replace(found, count=found.count * self.times, sums=self._repeated(found.sums))

    def _repeated(self, sums: Any) -> Any:
        if isinstance(sums, tuple):
            return tuple(map(self._repeated, sums))
        is_mark = getattr(sums, "dtype", None) == np.uint64
        return sums if is_mark else sums * self.times


def seconds_per_task(n_tasks: int) -> float:
    """Processor time of the process with the scheduler, for a task that does nothing."""
    from dask.distributed import Client

    from skdp.data.dask import DaskRecords

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with Client(**options) as client:
        empty = ChunkSource(lambda k: np.zeros((0, 1)), n_tasks)
        source = DaskRecords(empty, client=client, tasks_per_thread=n_tasks // 2)
        passes = []
        for _ in range(5):
            start = time.process_time()
            assert source.reduce(lambda k, source: 1, sum) == n_tasks
            passes.append(time.process_time() - start)
    return min(passes) / n_tasks


def summarise(table: pd.DataFrame) -> str:
    return table.to_string(index=False, float_format="{:.3g}".format, na_rep="")
