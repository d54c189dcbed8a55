"""
A cluster that loses a worker
=============================

Records in Parquet files, a Dask cluster of two workers that read them, and a fit in the middle of
which one of the workers is killed. The coefficients are those of the fit in memory.
"""

# %%
# A hundred thousand invented payments, of which some are fraud, in 16 row groups: 5 MB.

import os
import signal
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from dask.distributed import Client, LocalCluster

from skdp import DPLogisticRegression
from skdp.data import ParquetRecords
from skdp.data.dask import DaskRecords

FEATURES = ["amount", "hour", "age", "distance", "trust", "visits"]


def write_payments(folder: Path, n: int = 100_000) -> None:
    """Write rows of norm 1 at most."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1.0, 1.0, (n, len(FEATURES))) / np.sqrt(len(FEATURES))
    frame = pd.DataFrame(rows, columns=FEATURES)
    score = 6 * frame["amount"] + 4 * frame["distance"] - 5 * frame["trust"] - 2
    frame["fraud"] = (rng.logistic(size=n) < score).astype(int)
    frame.to_parquet(folder / "payments.parquet", row_group_size=n // 16)


# %%
# ``verbose`` may be a function, which is called after each planned step. This one notes the time,
# and kills a worker after the fourth step. The seed is only for this page, so that both fits have
# the same noise: leave it out where privacy matters.


class Watch:
    """Notes the times of steps, and kills a process after one of them."""

    def __init__(self, victim: int | None = None, after: int = 4) -> None:
        self.victim, self.after = victim, after
        self.times = [time.monotonic()]

    def __call__(self, name: str, done: float, planned: float) -> None:
        self.times.append(time.monotonic())
        if self.victim is not None and done == self.after:
            os.kill(self.victim, signal.SIGKILL)


def fitted(records: tuple, watch: Watch) -> DPLogisticRegression:
    """Fit with progress for the watch."""
    model = DPLogisticRegression(
        epsilon=1.0, delta=1e-7, classes=[0, 1], data_norm=1.0, random_state=0, verbose=watch
    )
    return model.fit(*records)


# %%
# The workers are processes of this machine, which is why there is a guard; elsewhere ``Client`` has
# the address of a scheduler. Each step reads the records of its block where they are. The tasks of
# the lost worker run again on the other one, until a new one has started.

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        write_payments(Path(folder))
        frame = pd.read_parquet(folder)
        in_memory = fitted((frame[FEATURES], frame["fraud"]), Watch())
        source = ParquetRecords(f"{folder}/*.parquet", target="fraud")
        with (
            LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster) as client,
        ):
            watch = Watch(victim=min(client.run(os.getpid).values()))
            on_cluster = fitted((DaskRecords(source, client=client),), watch)
    print(on_cluster.privacy_)
    change = np.abs(on_cluster.coef_ - in_memory.coef_).max()
    print(f"\nlargest difference of a coefficient: {change:.0e}")

    fig, (left, right) = plt.subplots(1, 2, figsize=(6.4, 2.8), layout="constrained")
    seconds = np.diff(watch.times)[1:]  # the first has the releases before the steps, too
    steps = np.arange(2, len(seconds) + 2)
    is_hit = steps == watch.after + 1
    left.bar(steps[~is_hit], seconds[~is_hit])
    left.bar(steps[is_hit], seconds[is_hit], label="a worker is killed")
    left.set(xlabel="step", ylabel="seconds", ylim=(0, 1.3 * seconds.max()))
    left.legend(frameon=False, loc="upper left")
    for model, label, size in ((in_memory, "in memory", 9), (on_cluster, "on the cluster", 4)):
        right.plot(FEATURES, model.coef_[0], "o", markersize=size, label=label)
    right.set_ylabel("coefficient")
    right.tick_params(axis="x", rotation=40)
    right.legend(frameon=False)
    plt.show()
