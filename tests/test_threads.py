"""Sums over parts of sparse rows in threads: the same numbers, without a word."""

import threading
import warnings

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from plain_noise import seeded
from threadpoolctl import ThreadpoolController

from skdp._runtime import Threads, spare_processors
from skdp.algorithms.core.centered_rows import CenteredRows, Centering
from skdp.algorithms.core.fit import plan_core
from skdp.algorithms.plan import Run
from skdp.linear_model import DPRidge
from skdp.privacy import PrivacyBudget
from skdp.problems import Design, EmpiricalRisk, HalfSquaredLoss, Objective, Records
from skdp.problems.rounding import tree_sum

N, D = 70_000, 30


@pytest.fixture(scope="module")
def records():
    rng = np.random.default_rng(0)
    X = sp.random(N, D, density=0.1, format="csr", random_state=rng)
    X.data /= 10.0
    return Records(X, 1.0, 0.1, targets=rng.uniform(-1.0, 1.0, N))


def pulled(block, norms):
    return block.pull_back(block.margins(np.ones((1, D + 1))) / norms)[0]


def test_threads_give_the_sum_of_the_parts_in_their_order(records, monkeypatch):
    """Whatever the number of processors is."""
    rows = CenteredRows(records, Centering.unknown(D, 1))
    parts = rows._parts
    assert len(parts) > 1
    sizes = [part.matrix.shape[0] for part in parts]
    assert max(sizes) - min(sizes) < len(sizes) and sum(sizes) == N
    positions = np.concatenate([np.arange(N)[part.positions] for part in parts])
    np.testing.assert_array_equal(positions, np.arange(N))
    serial = tree_sum(map(pulled, parts, rows.norms))
    for n in (1, 2, 5):
        monkeypatch.setattr(joblib, "cpu_count", lambda n=n: n)
        again = CenteredRows(records, Centering.unknown(D, 1))
        np.testing.assert_array_equal(again.full_total(pulled), serial)


def test_several_threads_take_part(monkeypatch):
    monkeypatch.setattr(joblib, "cpu_count", lambda: 2)
    together = threading.Barrier(2, timeout=30.0)  # passes only two threads at once
    assert list(Threads().map(lambda i: together.wait() >= 0 and i, range(2))) == [0, 1]
    assert list(Threads().map(lambda a, b: a - b, range(50), range(0, 100, 2))) == [
        *range(0, -50, -1)
    ]


def test_threads_are_as_silent_as_their_caller(records):
    def divide(block, norms):
        return np.ones(1) / np.zeros(1)

    rows = CenteredRows(records, Centering.unknown(D, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with np.errstate(divide="ignore"):
            assert rows.full_total(divide)[0] == np.inf


def test_an_error_of_a_thread_reaches_the_caller():
    def fail(i):
        raise ValueError(f"part {i}")

    with pytest.raises(ValueError, match="part 0"):
        list(Threads().map(fail, range(3)))


def test_linear_algebra_has_one_thread_during_sparse_fits_alone(monkeypatch):
    seen = []
    sparse, dense = sp.csr_array(np.eye(3)), np.eye(3)

    def numbers():
        return [lib["num_threads"] for lib in ThreadpoolController().info()]

    before = numbers()
    for matrix in (sparse, dense):
        with spare_processors(sp.issparse(matrix)):
            seen.append(numbers())
    assert seen == [[1] * len(before), before] and numbers() == before

    prepare = CenteredRows.__init__

    def recorded(self, *args, **kwargs):
        seen.append(numbers())
        prepare(self, *args, **kwargs)

    monkeypatch.setattr(CenteredRows, "__init__", recorded)
    model = DPRidge(epsilon=1.0, delta=1e-6, data_norm=1.0, target_range=(-1.0, 1.0))
    y = np.linspace(-1.0, 1.0, 2000)
    X = np.column_stack([y, 1.0 - abs(y)]) / 2.0
    for rows in (sp.csr_array(X), X):
        model.fit(rows, y)
    assert seen[2:] == [[1] * len(before), before] and numbers() == before


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_overlapping_fits_leave_linear_algebra_its_threads(order):
    """With two threads before, one while any sparse fit goes on, and two after the last one."""
    controller = ThreadpoolController()

    def numbers():
        return {lib["num_threads"] for lib in controller.info()}

    with controller.limit(limits=2):
        before = numbers()
        fits = [spare_processors(True) for _ in range(2)]
        for fit in fits:
            fit.__enter__()
        assert numbers() == {1}
        fits[order[0]].__exit__(None, None, None)
        assert numbers() == {1}
        fits[order[1]].__exit__(None, None, None)
        assert numbers() == before


def test_parts_of_sparse_rows_do_not_depend_on_their_entries():
    """How sums are divided is to be public: empty rows and full ones have the same parts."""
    parts = []
    for entries in (0.0, 1.0):
        X = sp.csr_array(np.full((40_000, 8), entries / 3.0))
        rows = CenteredRows(Records(X, 1.0, 0.1), Centering.unknown(8, 1))
        parts.append([(part.positions, part.matrix.shape) for part in rows._parts])
    assert parts[0] == parts[1] and len(parts[0]) > 1


def test_a_run_is_silent_by_itself(records):
    """Errors of floating point and filters of the caller say nothing of sparse records."""
    goal = Objective(EmpiricalRisk(HalfSquaredLoss(1.0)), Design.of(records))
    plan = plan_core(goal, PrivacyBudget(1.0, 1e-6))

    def warn(*args, **kwargs):
        warnings.warn("of the records", RuntimeWarning, stacklevel=1)
        return prepare(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        prepare = type(plan).prepare
        patch.setattr(type(plan), "prepare", warn)
        warnings.simplefilter("error")
        with np.errstate(all="raise"):
            assert np.isfinite(plan.run(records, Run(noise=seeded())).point).all()


def test_threads_end_with_their_owner(records):
    before = set(threading.enumerate())  # those of other tests may still end
    rows = CenteredRows(records, Centering.unknown(D, 1))
    rows.full_total(pulled)
    workers = set(threading.enumerate()) - before
    assert workers
    del rows
    for worker in workers:
        worker.join(timeout=30.0)
    assert not any(worker.is_alive() for worker in workers)
