"""Kill processes that fit and pay, at random times, and count what they left.

``python tests/support/kills.py 1000`` prints how many kills there were, how many fits had begun,
and how many of those the ledger does not know. A process writes one byte to a pipe when the private
algorithm begins to read the records. The killer counts the bytes.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
import warnings

import numpy as np

from skdp.algorithms.plan import Run
from skdp.linear_model import DPRidge
from skdp.linear_model.base import DPLinearModel
from skdp.privacy import BudgetAccountant, LedgerError


class _Announced(DPRidge):
    """Ridge regression that says when its algorithm begins."""

    def _pay_and_run(self, plan, records):
        kind = type(plan)
        announced = type(
            kind.__name__,
            (kind,),
            {"run": lambda plan, *given: (os.write(self._pipe, b"."), kind.run(plan, *given))[1]},
        )
        object.__setattr__(plan, "__class__", announced)
        if self._pays_late:
            result = plan.run(records, Run("auto"))
            self._spend(plan.event)
            return result
        return DPLinearModel._pay_and_run(self, plan, records)


def _fit_for_ever(path, pipe, pays_late):
    warnings.simplefilter("ignore")
    tempfile.tempdir = os.path.dirname(path)  # what the killed leave goes with it
    X = np.linspace(-0.5, 0.5, 20)[:, None]
    model = _Announced(
        epsilon=0.5, delta=0.0, method="output", alpha=0.1, data_norm=1.0, target_range=(-1.0, 1.0)
    )
    model._pipe, model._pays_late = pipe, pays_late
    with BudgetAccountant.load(path):
        while True:
            model.fit(X, X[:, 0])


def kill_fits(n_kills, seed, n_workers=2, pays_late=False, longest=0.1):
    """Return the numbers of kills, of fits that had begun, of entries, and of torn lines.

    Raises AssertionError as soon as the ledger is below what had begun.
    """
    rng = random.Random(seed)
    torn = 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "ledger.jsonl")
        accountant = BudgetAccountant(1e6, path=path)
        read, write = os.pipe()
        os.set_blocking(read, False)
        begun = entries = kills = 0
        while kills < n_kills:
            workers = []
            for _ in range(min(n_workers, n_kills - kills)):
                worker = os.fork()
                if worker == 0:
                    try:
                        _fit_for_ever(path, write, pays_late)
                    finally:
                        os._exit(1)
                workers.append(worker)
            for worker in workers:
                time.sleep(rng.uniform(0.0, longest))
                os.kill(worker, signal.SIGKILL)
                kills += 1
            for worker in workers:
                os.waitpid(worker, 0)
            try:
                while data := os.read(read, 1 << 16):
                    begun += len(data)
            except BlockingIOError:
                pass
            try:
                entries = len(accountant.entries)
            except LedgerError:
                torn += accountant.repair(path)
                entries = len(accountant.entries)
            if entries < begun:
                raise AssertionError(f"{begun} fits had begun, {entries} are in the ledger")
        os.close(read)
        os.close(write)
    return kills, begun, entries, torn


if __name__ == "__main__":
    print(
        "kills {}, fits begun {}, in the ledger {}, torn lines {}".format(
            *kill_fits(int(sys.argv[1]), seed=0, longest=0.3)
        )
    )
