"""Kill processes that fit and pay, at random times, and count what they left.

``python tests/support/kills.py 1000`` prints how many kills there were, how many fits had begun,
and how many of those the ledger does not know. A process appends a line to a file when the private
algorithm begins to read the records, and one when it ends. The killer counts the lines.
"""

import os
import random
import signal
import sys
import tempfile
import threading
import time
import warnings

import numpy as np
from joblib.externals.loky.process_executor import TerminatedWorkerError
from sklearn.model_selection import KFold, cross_validate

from skdp.algorithms.plan import Run
from skdp.linear_model import DPRidge
from skdp.linear_model.base import DPLinearModel
from skdp.privacy import BudgetAccountant, LedgerError

try:
    from joblib import parallel_config
except ImportError:  # before joblib 1.3
    from joblib import parallel_backend as parallel_config


class _Announced(DPRidge):
    """Ridge regression that says when its algorithm begins and ends, also in clones."""

    _log, _seconds, _pays_late = "", 0.0, False

    def __sklearn_clone__(self):
        cloned = super().__sklearn_clone__()
        cloned._log, cloned._seconds, cloned._pays_late = self._log, self._seconds, self._pays_late
        return cloned

    def _say(self, word):
        with open(self._log, "ab", buffering=0) as log:
            log.write(f"{word} {os.getpid()}\n".encode())

    def _pay_and_run(self, plan, records):
        kind = type(plan)

        def run(plan, *given):
            self._say("begin")
            result = kind.run(plan, *given)
            time.sleep(self._seconds)
            self._say("end")
            return result

        object.__setattr__(plan, "__class__", type(kind.__name__, (kind,), {"run": run}))
        if self._pays_late:
            result = plan.run(records, Run("auto"))
            self._spend(plan.event)
            return result
        return DPLinearModel._pay_and_run(self, plan, records)


def _announced(log, pays_late, seconds=0.0):
    model = _Announced(
        epsilon=0.5, delta=0.0, method="output", alpha=0.1, data_norm=1.0, target_range=(-1.0, 1.0)
    )
    model._log, model._pays_late, model._seconds = log, pays_late, seconds
    return model


def _count(log, word):
    """Return the processes of the lines of a kind."""
    with open(log) as lines:
        return [int(line.split()[1]) for line in lines if line.startswith(word)]


def _fit_for_ever(path, log, pays_late):
    warnings.simplefilter("ignore")
    tempfile.tempdir = os.path.dirname(path)  # what the killed leave goes with it
    X = np.linspace(-0.5, 0.5, 20)[:, None]
    model = _announced(log, pays_late)
    with BudgetAccountant.load(path):
        while True:
            model.fit(X, X[:, 0])


def _entries(accountant):
    """Return how many entries a ledger has, and how many torn lines were removed before."""
    torn = 0
    while True:
        try:
            return len(accountant.entries), torn
        except LedgerError:
            torn += accountant.repair(accountant.path)


def kill_fits(n_kills, seed, n_workers=2, pays_late=False, longest=0.1):
    """Numbers of kills, begun fits, entries and torn lines; an error if the ledger is below."""
    rng = random.Random(seed)
    torn = 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "ledger.jsonl")
        log = os.path.join(folder, "log")
        open(log, "x").close()
        accountant = BudgetAccountant(1e6, path=path)
        begun = entries = kills = 0
        while kills < n_kills:
            workers = []
            for _ in range(min(n_workers, n_kills - kills)):
                worker = os.fork()
                if worker == 0:
                    try:
                        _fit_for_ever(path, log, pays_late)
                    finally:
                        os._exit(1)
                workers.append(worker)
            for worker in workers:
                time.sleep(rng.uniform(0.0, longest))
                os.kill(worker, signal.SIGKILL)
                kills += 1
            for worker in workers:
                os.waitpid(worker, 0)
            begun = len(_count(log, "begin"))
            entries, more = _entries(accountant)
            torn += more
            if begun < kills:  # a busy machine needs longer until a fit begins
                longest *= 1.1
            if entries < begun:
                raise AssertionError(f"{begun} fits had begun, {entries} are in the ledger")
    return kills, begun, entries, torn


def kill_workers(n_kills, seed, pays_late=False, seconds=0.05):
    """Kill workers of loky: dead cross-validations, begun and ended fits, and entries."""
    rng = random.Random(seed)
    X = np.linspace(-0.5, 0.5, 200)[:, None]
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        open(log, "x").close()
        accountant = BudgetAccountant(1e6, path=os.path.join(folder, "ledger.jsonl"))
        model, died = _announced(log, pays_late, seconds), 0
        for _ in range(n_kills):
            target = len(_count(log, "begin")) + rng.randint(1, 6)
            killer = threading.Thread(target=_kill, args=(log, target, rng.uniform(0, seconds / 2)))
            killer.start()
            try:
                with accountant, parallel_config("loky", n_jobs=2):
                    cross_validate(model, X, X[:, 0], cv=KFold(40), error_score="raise")
            except TerminatedWorkerError:
                died += 1
            killer.join()
        return died, len(_count(log, "begin")), len(_count(log, "end")), _entries(accountant)[0]


def _kill(log, target, delay):
    """Kill the process of a fit soon after it began."""
    while len(begun := _count(log, "begin")) < target:
        time.sleep(0.001)
    time.sleep(delay)
    os.kill(begun[target - 1], signal.SIGKILL)


if __name__ == "__main__":
    print(
        "kills {}, fits begun {}, in the ledger {}, torn lines {}".format(
            *kill_fits(int(sys.argv[1]), seed=0, longest=0.3)
        )
    )
