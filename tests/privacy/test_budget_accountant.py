"""The accountant alone: totals, refusals, its file, and what happens when processes die."""

import copy
import json
import math
import multiprocessing
import os
import pickle
import platform
import threading

import pytest
from interruptions import pure
from sklearn.base import clone

import skdp
from skdp.privacy import (
    ApproximateEvent,
    BudgetAccountant,
    BudgetExceededError,
    GaussianEvent,
    Neighbouring,
    PureEvent,
    budget_accountant,
    spend,
)
from skdp.privacy.events import event_from_dict

ONE, ADDED = Neighbouring.REPLACE_ONE, Neighbouring.ADD_REMOVE


class TestTotal:
    def test_the_budget_is_used_up_and_not_exceeded(self):
        """Ten times 0.1 is allowed in binary fractions too; one more is not."""
        accountant = BudgetAccountant(1.0)
        for _ in range(10):
            accountant.spend(pure(0.1))
        before = accountant.total()
        assert before.epsilon == pytest.approx(1.0, abs=1e-12)
        with pytest.raises(BudgetExceededError, match=r"from epsilon = 1 to 1.1 at delta = 0"):
            accountant.spend(pure(0.1))
        with pytest.raises(BudgetExceededError):
            accountant.spend(pure(1e-9))
        assert accountant.total() == before and len(accountant.entries) == 10

    @pytest.mark.parametrize(
        ("delta", "events"),
        [
            (0.0, [GaussianEvent(8.0, ONE)]),
            (1e-6, [ApproximateEvent(0.1, ONE, 6e-7), ApproximateEvent(0.1, ONE, 6e-7)]),
            (1e-6, [ApproximateEvent(0.1, ONE, 1e-6), GaussianEvent(8.0, ONE)]),
        ],
    )
    def test_an_infinite_total_says_which_delta_is_needed(self, delta, events):
        accountant = BudgetAccountant(3.0, delta)
        for event in events[:-1]:
            accountant.spend(event)
        remedy = "above the sum" if delta else "delta=0 of this budget admits pure fits alone"
        with pytest.raises(BudgetExceededError, match=remedy):
            accountant.spend(events[-1])
        with pytest.raises(BudgetExceededError, match=r"nothing was charged\.$"):
            accountant.spend(pure(4.0))  # too much, but finite

    def test_what_is_refused(self, tmp_path):
        ledger = tmp_path / "absent" / "ledger.jsonl"
        for error, message, call in (
            (BudgetExceededError, "to inf at delta = 0",
             lambda: BudgetAccountant(100.0).spend(GaussianEvent(10.0, ONE))),
            (FileNotFoundError, r"no folder .*absent", lambda: BudgetAccountant(3.0, path=ledger)),
            (TypeError, "must be None or a BudgetAccountant", lambda: spend(pure(), 3.0)),
            (ValueError, "Unknown event 'laplace'", lambda: event_from_dict({"type": "laplace"})),
            (ValueError, "must be", lambda: BudgetAccountant(epsilon=0.0)),
            (ValueError, "must be", lambda: BudgetAccountant(epsilon=1.0, delta=1.0)),
            (ValueError, "delta", lambda: BudgetAccountant(math.inf, -1.0)),
        ):  # fmt: skip
            with pytest.raises(error, match=message):
                call()


class TestRelation:
    def test_one_per_ledger(self):
        accountant = BudgetAccountant(9.0)
        accountant.spend(pure())
        with pytest.raises(ValueError, match=r"here .*'replace_one': a fit under 'add_remove'"):
            accountant.spend(pure(relation=ADDED))
        assert accountant.neighbouring is ONE and len(accountant.entries) == 1

    def test_declared(self, path):
        accountant = BudgetAccountant(9.0, neighbouring="add_remove", path=path)
        with pytest.raises(ValueError, match="replace_one"):
            accountant.spend(pure())
        assert BudgetAccountant.load(path).neighbouring is ADDED
        with pytest.raises(ValueError, match="add_remove"):
            BudgetAccountant(9.0, neighbouring="replace_one", path=path).spend(pure())


class TestFile:
    def test_goes_on_another_day(self, path):
        BudgetAccountant(1.0, path=path).spend(pure(0.6))
        again = BudgetAccountant(1.0, path=path)
        with pytest.raises(BudgetExceededError):
            again.spend(pure(0.6))
        loaded = BudgetAccountant.load(path)
        assert loaded.total() == again.total() == (0.6, 0.0)
        assert (loaded.epsilon, loaded.delta) == (1.0, 0.0) and repr(loaded) == repr(again)

    def test_another_budget_is_refused(self, path):
        BudgetAccountant(1.0, path=path)
        with pytest.raises(ValueError, match="was made for epsilon=1, delta=0"):
            BudgetAccountant(2.0, path=path)


class TestBlocks:
    def test_a_nested_fit_is_charged_to_both(self):
        with BudgetAccountant(9.0) as outer:
            spend(pure())
            with BudgetAccountant(9.0) as inner:
                spend(pure(), label="both")
        spend(pure())
        assert len(outer.entries) == 2 and [entry.label for entry in inner.entries] == ["both"]

    def test_once_per_ledger(self):
        """Entered twice, given as a parameter as well, and as a handle: one payment."""
        accountant = BudgetAccountant(9.0)
        handle = pickle.loads(pickle.dumps(accountant))
        with accountant, accountant, handle:
            spend(pure(), accountant)
            spend(pure(), handle)
        assert len(accountant.entries) == 2

    def test_blocks_end_in_any_order(self):
        first, second = BudgetAccountant(9.0), BudgetAccountant(9.0)
        first.__enter__()
        second.__enter__()
        first.__exit__()
        spend(pure())
        second.__exit__()
        spend(pure())
        assert len(first.entries) == 0 and len(second.entries) == 1

    def test_environment_names_what_is_open(self):
        with BudgetAccountant(9.0) as accountant:
            ((path, *_),) = json.loads(os.environ["SKDP_ACCOUNTANTS"])
            assert path == accountant.path
        assert "SKDP_ACCOUNTANTS" not in os.environ


def test_copies_are_the_same_accountant():
    accountant = BudgetAccountant(9.0)
    assert clone(accountant, safe=False) is copy.deepcopy(accountant) is accountant
    assert copy.copy(accountant) is accountant
    model = skdp.DPRidge(accountant=accountant)
    assert clone(model).accountant is copy.deepcopy(model).accountant is accountant
    assert pickle.loads(pickle.dumps(model)).accountant.path == accountant.path


def _spend_many(path, count):
    accountant = BudgetAccountant.load(path)
    for _ in range(count):
        try:
            accountant.spend(pure(0.125))
        except BudgetExceededError:
            return


def test_threads_and_processes_share_a_budget(path):
    """Exactly as many payments as fit are made, whoever comes first."""
    accountant = BudgetAccountant(5.0, path=path)
    threads = [threading.Thread(target=_spend_many, args=(path, 15)) for _ in range(2)]
    start = multiprocessing.get_context("fork" if os.name == "posix" else "spawn")
    processes = [start.Process(target=_spend_many, args=(path, 15)) for _ in range(2)]
    for worker in (*processes, *threads):
        worker.start()
    for worker in (*processes, *threads):
        worker.join()
    assert len(accountant.entries) == 40 and accountant.total().epsilon == 5.0


def _spend_thrice(refused):
    for _ in range(3):
        try:
            spend(pure())
        except BudgetExceededError:
            refused.set()


def _start_a_child(fork, begin, refused):
    begin.wait(60.0)
    child = fork.Process(target=_spend_thrice, args=(refused,))
    child.start()
    child.join()


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs the parents of parents")
def test_a_child_of_an_earlier_worker_pays():
    """Neither has the environment of the block: the child looks for the parent of its parent."""
    fork = multiprocessing.get_context("fork")
    begin, refused = fork.Event(), fork.Event()
    worker = fork.Process(target=_start_a_child, args=(fork, begin, refused))
    worker.start()
    with BudgetAccountant(0.6) as accountant:
        begin.set()
        worker.join()
    assert len(accountant.entries) == 2 and refused.is_set()


def test_only_its_process_removes_a_temporary_ledger():
    accountant = BudgetAccountant(5.0)
    folder, owner = os.path.dirname(accountant.path), (os.getpid(), platform.node())
    budget_accountant._remove(folder, owner[0] + 1, owner[1])
    assert accountant.entries == ()
    budget_accountant._remove(folder, *owner)
    assert not os.path.exists(folder)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_that_leaves_the_block_does_not_close_it():
    accountant = BudgetAccountant(math.inf)
    with accountant:
        process = os.fork()
        if process == 0:
            accountant.__exit__(None, None, None)  # as an exception that unwinds would
            os._exit(0)
        os.waitpid(process, 0)
        spend(PureEvent(0.5, "replace_one"))
    assert accountant.total().epsilon == 0.5
