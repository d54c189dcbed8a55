"""Payments to several ledgers: each file once, all or none, whatever happens to its names."""

import os
import shutil
import signal
import sys

import pytest
from interruptions import ends, pure

from skdp.privacy import (
    BudgetAccountant,
    BudgetExceededError,
    LedgerError,
    blocks,
    ledger,
    ledger_files,
    spend,
)

without_windows = pytest.mark.skipif(
    sys.platform == "win32", reason="an open file is neither replaced nor renamed there"
)


def before_the_lock(monkeypatch, action, count=1):
    """Do something once, while a process has opened a file and waits for its lock."""
    original, calls = ledger_files._lock, []

    def locked(descriptor):
        calls.append(descriptor)
        if len(calls) == count:
            action()
        original(descriptor)

    monkeypatch.setattr(ledger_files, "_lock", locked)


def ways_to_pay(path):
    accountant = BudgetAccountant.load(path)

    def in_a_block():
        with accountant:
            spend(pure())

    return [lambda: accountant.spend(pure()), lambda: spend(pure(), accountant), in_a_block]


@without_windows
class TestWhileWaiting:
    """The path comes to denote another file, or none."""

    @pytest.mark.parametrize("way", range(3))
    def test_replaced(self, tmp_path, path, monkeypatch, way):
        """By a copy, as editors and backups do it: the payment is in the file at the path."""
        BudgetAccountant(1.0, path=path)
        pay = ways_to_pay(path)[way]

        def replace():
            shutil.copy(path, tmp_path / "copy")
            os.replace(tmp_path / "copy", path)

        before_the_lock(monkeypatch, replace, 2 if way == 2 else 1)
        pay()
        assert len(BudgetAccountant.load(path).entries) == 1

    @pytest.mark.parametrize("way", range(3))
    @pytest.mark.parametrize("remove", [os.unlink, lambda path: os.rename(path, path + ".old")])
    def test_removed(self, path, monkeypatch, way, remove):
        BudgetAccountant(1.0, path=path)
        pay = ways_to_pay(path)[way]
        before_the_lock(monkeypatch, lambda: remove(path), 2 if way == 2 else 1)
        with pytest.raises(LedgerError, match="There is no ledger"):
            pay()
        if os.path.exists(path + ".old"):
            assert BudgetAccountant.load(path + ".old").entries == ()

    @pytest.mark.parametrize("way", range(3))
    def test_moved(self, path, monkeypatch, way):
        accountant = BudgetAccountant(1.0, path=path)
        pay = ways_to_pay(path)[way]
        before_the_lock(monkeypatch, lambda: accountant.save(path + ".new"), 2 if way == 2 else 1)
        pay()
        assert len(BudgetAccountant.load(path).entries) == 1
        assert BudgetAccountant.load(path).path == path + ".new"

    def test_it_becomes_a_name_of_another_ledger_that_is_locked(self, tmp_path, monkeypatch):
        first, second = _in_order(tmp_path)
        before_the_lock(monkeypatch, lambda: _link_over(first.path, second.path))

        def pay():
            with first:
                spend(pure(), second)

        ends(pay)
        assert len(first.entries) == 1

    def test_repair(self, path, monkeypatch):
        """Of a file that is replaced meanwhile, the new one is looked at."""
        BudgetAccountant(1.0, path=path).spend(pure())
        os.truncate(path, os.path.getsize(path) - 1)
        whole = BudgetAccountant(1.0, path=path + ".whole")
        before_the_lock(monkeypatch, lambda: os.replace(whole.path, path))
        assert not BudgetAccountant.repair(path)


def _link_over(source, path):
    os.unlink(path)
    os.link(source, path)


def _in_order(tmp_path, *budgets):
    """Two accountants, in the order in which their ledgers are locked."""
    made = [BudgetAccountant(1.0, path=tmp_path / name) for name in ("a", "b")]
    return sorted(made, key=lambda each: ledger_files.identity(each.path))


@without_windows
@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_one_ledger_under_two_names_pays_once(tmp_path, path, link):
    accountant = BudgetAccountant(1.0, path=path)
    link(path, tmp_path / "other")
    other = BudgetAccountant.load(tmp_path / "other")

    def pay():
        with accountant, other:
            spend(pure(), accountant)
            spend(pure(), other)

    ends(pay)
    assert len(accountant.entries) == len(other.entries) == 2
    other.save(tmp_path / "new")
    ends(pay)
    assert len(accountant.entries) == len(other.entries) == 4


@pytest.mark.parametrize("refuses", [0, 1])
def test_one_that_refuses_stops_all(tmp_path, refuses):
    """Whichever of them is looked at first."""
    made = _in_order(tmp_path)
    made[refuses].spend(pure(0.9))
    with made[0], made[1], pytest.raises(BudgetExceededError):
        spend(pure())
    assert [each.total().epsilon for each in made] == ([0.9, 0.0] if refuses == 0 else [0.0, 0.9])


@without_windows
@pytest.mark.parametrize("order", [1, -1])
def test_locks_are_taken_in_one_order(tmp_path, monkeypatch, order):
    """So two processes never wait for each other, whichever they name first."""
    first, second = _in_order(tmp_path)[::order]
    locks, original = [], ledger_files._lock

    def locked(descriptor):
        locks.append(ledger_files._identity(os.fstat(descriptor)))
        original(descriptor)

    with first, second:
        monkeypatch.setattr(ledger_files, "_lock", locked)
        spend(pure())
        spend(pure(), second)
    assert locks[:4] == 2 * sorted(locks[:2]) and len(set(locks)) == 2


def test_nobody_else_reads_while_the_lock_is_held(path):
    fcntl = pytest.importorskip("fcntl")
    accountant = BudgetAccountant(1.0, path=path)
    with accountant._ledger(), open(path, "rb") as file:
        for kind in (fcntl.LOCK_SH, fcntl.LOCK_EX):
            with pytest.raises(BlockingIOError):
                fcntl.flock(file, kind | fcntl.LOCK_NB)
    with open(path, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@without_windows
def test_a_file_system_without_locks(path, monkeypatch):
    accountant = BudgetAccountant(1.0, path=path)

    def refused(descriptor, kind):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(ledger_files.fcntl, "flock", refused)
    with pytest.raises(LedgerError, match=r"cannot be locked \(No locks available\)"):
        spend(pure(), accountant)


class TestMissingLedgers:
    def test_of_a_block_that_is_open(self):
        """A temporary ledger is missing, and its process lives."""
        accountant = BudgetAccountant(1.0)
        with accountant:
            os.unlink(accountant.path)
            with pytest.raises(LedgerError, match="There is no ledger"):
                spend(pure())
            with BudgetAccountant(1.0) as other, pytest.raises(LedgerError):
                spend(pure())
        assert other.entries == ()

    @pytest.mark.parametrize("is_gone", [True, False])
    @pytest.mark.parametrize("is_temporary", [True, False])
    def test_of_another_process(self, path, monkeypatch, is_gone, is_temporary):
        """A temporary one goes with its process; nothing else excuses that it is missing."""
        monkeypatch.setattr(blocks, "_is_alive", lambda process: not is_gone)
        where = blocks.platform.node(), os.getpid() + 1
        block = blocks.Block(path, "name", *where, is_temporary)
        accountant = BudgetAccountant(1.0)
        if is_gone and is_temporary:
            spend(pure(), accountant, carried=[block])
            assert len(accountant.entries) == 1
        else:
            with pytest.raises(LedgerError, match="There is no ledger"):
                spend(pure(), accountant, carried=[block])
            assert accountant.entries == ()

    def test_it_goes_while_a_fit_waits(self, path, monkeypatch):
        BudgetAccountant(1.0, path=path)
        where = blocks.platform.node(), 2**30
        monkeypatch.setattr(blocks, "_is_alive", lambda process: False)
        block = blocks.Block(path, "name", *where, True)
        before_the_lock(monkeypatch, lambda: os.unlink(path))
        spend(pure(), carried=[block])
        assert not os.path.exists(path)

    def test_of_an_accountant(self, path):
        accountant = BudgetAccountant(1.0, path=path)
        os.unlink(path)
        with BudgetAccountant(1.0) as other, pytest.raises(LedgerError, match="There is no"):
            spend(pure(), accountant)
        assert other.entries == ()


def test_a_block_that_has_ended_does_not_pay(path):
    """Nor does it stop those that pay."""
    ended, accountant = BudgetAccountant(1.0, path=path), BudgetAccountant(1.0)
    with ended:
        (block,) = blocks._own()
    blocks._CLOSED.discard(block.id)  # as in a process that has not seen it
    spend(pure(), accountant, carried=[block])
    assert ended.entries == () and len(accountant.entries) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="no process is stopped there")
def test_a_stopped_process_holds_the_lock(tmp_path, monkeypatch):
    """The wait has a limit; nothing is charged, and later payments go on."""
    monkeypatch.setattr(ledger_files, "_LONGEST_WAIT", 0.2)
    accountant = BudgetAccountant(9.0, path=tmp_path / "ledger.jsonl")
    holder = os.fork()
    if not holder:
        try:
            with ledger.locked(accountant.path):
                os.kill(os.getpid(), signal.SIGSTOP)
        finally:
            os._exit(0)
    try:
        os.waitpid(holder, os.WUNTRACED)
        with pytest.raises(LedgerError, match=r"has held the lock .* nothing was charged"):
            accountant.spend(pure(1.0))
    finally:
        os.kill(holder, signal.SIGCONT)
        os.waitpid(holder, 0)
    accountant.spend(pure(2.0))
    assert accountant.total().epsilon == 2.0
