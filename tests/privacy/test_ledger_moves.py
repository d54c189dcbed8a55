"""`BudgetAccountant.save`: whoever interrupts it, one file can be spent from, with all entries."""

import multiprocessing
import os
import pickle
import re
import sys
import threading

import pytest
from interruptions import at_calls, at_lines, ends, kills, pure

from skdp.privacy import (
    BudgetAccountant,
    BudgetExceededError,
    LedgerError,
    budget_accountant,
    ledger,
    ledger_files,
    ledger_moves,
    spend,
)

without_windows = pytest.mark.skipif(
    sys.platform == "win32", reason="a rename does there what a hard link does elsewhere"
)
forks = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="kills children that it forks"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),  # threads and fork
]


@pytest.fixture
def without_links(monkeypatch):
    monkeypatch.setattr(os, "link", _no_link)


class TestSave:
    def test_moves_all_handles(self, tmp_path, path):
        accountant = BudgetAccountant(1.25)
        handle, old = pickle.loads(pickle.dumps(accountant)), accountant.path
        accountant.spend(pure())
        accountant.save(path)
        handle.spend(pure())
        spend(pure(), accountant)
        assert accountant.path == path != old
        assert len(BudgetAccountant.load(path).entries) == 3 == len(handle.entries)
        accountant.save(path)  # again: nothing to do
        handle.save(path)
        with pytest.raises(FileExistsError):
            BudgetAccountant(1.0).save(path)
        assert len(accountant.entries) == 3
        os.symlink(path, tmp_path / "link")
        accountant.save(tmp_path / "link")  # another name of the same file
        with accountant:  # inside of a block
            spend(pure())
            accountant.save(path + ".new")
            spend(pure())
        assert len(BudgetAccountant.load(path).entries) == 5

    def test_several_moves(self, tmp_path):
        accountant = BudgetAccountant(1.0, path=tmp_path / "0")
        handles = []
        for number in range(1, 6):
            handles.append(pickle.loads(pickle.dumps(accountant)))
            accountant.spend(pure(0.125))
            accountant.save(tmp_path / str(number))
        assert all(len(handle.entries) == 5 for handle in handles)
        with pytest.raises(FileExistsError):
            accountant.save(tmp_path / "2")

    @without_windows
    @pytest.mark.usefixtures("without_links")
    def test_without_hard_links(self, path):
        """The name is taken by an empty file, which the ledger replaces."""
        accountant = BudgetAccountant(1.0)
        accountant.spend(pure())
        accountant.save(path)
        with pytest.raises(FileExistsError):
            BudgetAccountant(1.0).save(path)
        accountant.spend(pure())
        assert len(BudgetAccountant.load(path).entries) == 2
        assert os.listdir(os.path.dirname(path)) == [os.path.basename(path)]

    @without_windows
    @pytest.mark.usefixtures("without_links")
    def test_where_no_file_can_be_named(self, path, monkeypatch):
        accountant = BudgetAccountant(1.0)
        accountant.spend(pure())
        monkeypatch.setattr(os, "replace", _no_link)
        with pytest.raises(OSError, match="no hard links"):
            accountant.save(path)
        monkeypatch.undo()
        assert len(accountant.entries) == 1 and not os.path.exists(path)
        accountant.save(path)

    def test_an_empty_file_is_waited_for(self, path, monkeypatch):
        """Another process is about to replace it."""
        accountant = BudgetAccountant(1.0)
        open(path, "x").close()

        def filled(seconds):
            os.unlink(path)
            accountant.save(path)

        monkeypatch.setattr(ledger_files.time, "sleep", filled)
        assert BudgetAccountant.load(path).path == path

    @pytest.mark.parametrize("error", [OSError("No space left on device"), KeyboardInterrupt()])
    def test_an_error_before_the_announcement_leaves_the_old_file(self, path, monkeypatch, error):
        accountant = BudgetAccountant(1.0)
        accountant.spend(pure())
        before = accountant.path

        def fails(*arguments):
            monkeypatch.undo()
            raise error

        monkeypatch.setattr(ledger_files.LockedFile, "rewrite", fails)
        with pytest.raises(type(error)):
            accountant.save(path)
        assert accountant.path == before and not os.path.exists(path)
        assert len(accountant.entries) == 1
        accountant.save(path)
        assert len(accountant.entries) == 1

    def test_an_error_after_the_announcement_leaves_the_new_file(self, path, monkeypatch):
        accountant = BudgetAccountant(1.0)
        accountant.spend(pure())
        folder = os.path.dirname(accountant.path)

        def fails(*arguments):
            raise OSError("No space left on device")

        monkeypatch.setattr(ledger.Ledger, "begin", fails)
        with pytest.raises(OSError, match="No space"):
            accountant.save(path)
        budget_accountant._remove(folder, os.getpid(), budget_accountant.platform.node())
        assert os.path.exists(folder)  # as long as nobody could take the new file into use
        monkeypatch.undo()
        budget_accountant._remove(folder, os.getpid(), budget_accountant.platform.node())
        assert not os.path.exists(folder)
        assert len(BudgetAccountant.load(path).entries) == 1


class TestRaces:
    """Two accountants that are saved to one path."""

    @pytest.mark.parametrize("point", ["create_file", "_name"])
    def test_one_wins(self, path, monkeypatch, point):
        """The other one comes while the first is about to create its file."""
        first, second = BudgetAccountant(1.0), BudgetAccountant(1.0)
        first.spend(pure(0.9))
        second.spend(pure(0.5))
        module = ledger_moves if point == "create_file" else ledger_files
        original = getattr(module, point)

        def interrupted(*arguments):
            monkeypatch.undo()
            second.save(path)
            return original(*arguments)

        monkeypatch.setattr(module, point, interrupted)
        with pytest.raises(FileExistsError):
            first.save(path)
        assert first.total().epsilon == 0.9 and second.total().epsilon == 0.5
        with pytest.raises(BudgetExceededError):
            first.spend(pure(30.0))
        assert BudgetAccountant.load(path).entries == second.entries
        first.save(path + ".other")
        assert first.total().epsilon == 0.9

    def test_two_handles_of_one_ledger(self, path, monkeypatch):
        """The second one waits for the lock of the first, and finds that the ledger is there."""
        first = BudgetAccountant(1.0)
        first.spend(pure())
        second = pickle.loads(pickle.dumps(first))
        for target in (path, path + ".other"):
            original = ledger_moves._rest_of_a_move

            def interrupted(*arguments, target=target, original=original):
                monkeypatch.undo()
                second.save(target)
                return original(*arguments)

            monkeypatch.setattr(ledger_moves, "_rest_of_a_move", interrupted)
            first.save(path + ".last" if target != path else path)
        assert first.path == path + ".last" and len(second.entries) == 1
        assert BudgetAccountant.load(path).path == first.path

    @pytest.mark.parametrize("links", [True, False])
    def test_processes(self, tmp_path, monkeypatch, links):
        """All of them at once: nobody loses an entry."""
        if not links:
            monkeypatch.setattr(os, "link", _no_link)
        start = multiprocessing.get_context("fork" if hasattr(os, "fork") else "spawn")
        target, sources = str(tmp_path / "target"), [str(tmp_path / f"{i}") for i in range(4)]
        for i, source in enumerate(sources):
            BudgetAccountant(9.0, path=source).spend(pure(1.0 + i))
        begin = start.Barrier(4)
        workers = [start.Process(target=_save, args=(s, target, begin)) for s in sources]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert sum(worker.exitcode == 0 for worker in workers) == 1
        totals = [BudgetAccountant.load(source).total().epsilon for source in sources]
        assert totals == [1.0, 2.0, 3.0, 4.0]
        assert BudgetAccountant.load(target).total().epsilon in totals


def _no_link(*paths):
    raise OSError("no hard links here")


def _save(source, target, begin):
    begin.wait()
    try:
        BudgetAccountant.load(source).save(target)
    except FileExistsError:
        os._exit(7)


def _files(folder):
    """Paths of the files of a folder."""
    return sorted(entry.path for entry in os.scandir(folder) if not entry.is_dir())


def _known(path):
    """A file without what is drawn or measured: its name, its links and its contents."""
    drawn = r"[0-9a-f]{8,}|[0-9]+-[0-9]+-[0-9]+T[0-9:+]+"
    with open(path, encoding="utf-8") as file:
        text = file.read()
    return re.sub(drawn, "", path), os.stat(path).st_nlink, re.sub(drawn, "", text)


class TestKills:
    pytestmark = forks

    @pytest.fixture
    def places(self, tmp_path):
        return str(tmp_path / "old"), str(tmp_path / "new" / "ledger")

    def _try(self, arm, every, places, minimum):
        """Check each state of the files that a kill leaves, by both of their names."""
        old, new = places
        folders = [os.path.dirname(place) for place in places]
        state = {}

        def prepare():
            for folder in folders:
                os.makedirs(folder, exist_ok=True)
                for name in _files(folder):
                    os.unlink(name)
            state["accountant"] = BudgetAccountant(1.0, path=old)
            state["accountant"].spend(pure(0.5))

        def save():
            state["accountant"].save(new)

        left = {}  # states, and the kill that left them first
        for number in kills(save, prepare, arm, range(0, 10**6, every)):
            files = tuple(_known(name) for folder in folders for name in _files(folder))
            if left.setdefault(files, number) == number:
                self._check(state["accountant"], old, new, is_new_first=False)
        assert number >= minimum and len(left) >= 5, len(left)
        assert state["accountant"].entries == BudgetAccountant.load(new).entries
        for _ in kills(save, prepare, arm, left.values()):
            self._check(state["accountant"], old, new, is_new_first=True)

    def _check(self, accountant, old, new, is_new_first):
        """Both files lead to one ledger, whichever is asked first; the save can be repeated."""
        empty = os.path.exists(new) and not os.path.getsize(new)
        names = [old] if empty or not os.path.exists(new) else [old, new]
        names = names[::-1] if is_new_first else names
        first = BudgetAccountant.load(names[0])
        first.spend(pure(0.25))
        assert [BudgetAccountant.load(name).total().epsilon for name in names] == [0.75] * len(
            names
        )
        for name in names:
            with pytest.raises(BudgetExceededError):
                BudgetAccountant.load(name).spend(pure(0.5))
        if empty:
            os.unlink(new)
        accountant.save(new)
        loaded = BudgetAccountant.load(new)
        assert loaded.path == new and loaded.total().epsilon == 0.75
        assert accountant.entries == loaded.entries == BudgetAccountant.load(old).entries

    @pytest.mark.parametrize(
        ("links", "arm", "every", "minimum"),
        [
            (True, at_calls, 2, 30),
            pytest.param(False, at_calls, 1, 30, marks=pytest.mark.slow),
            pytest.param(True, at_lines, 6, 100, marks=pytest.mark.slow),
        ],
    )
    def test_at_every_step(self, places, monkeypatch, links, arm, every, minimum):
        if not links:
            monkeypatch.setattr(os, "link", _no_link)
            monkeypatch.setattr(ledger_files, "_PATIENCE", 0.0)
        self._try(arm, every, places, minimum)

    def test_a_payment_at_every_call(self, path):
        """A process that dies while it pays leaves a ledger that can be read."""

        def prepare():
            if os.path.exists(path):
                os.unlink(path)
            BudgetAccountant(1.0, path=path).spend(pure(0.5))

        numbers = []
        for _ in kills(lambda: BudgetAccountant.load(path).spend(pure(0.25)), prepare):
            numbers.append(len(BudgetAccountant.load(path).entries))
        assert set(numbers) == {1, 2} and numbers == sorted(numbers)

    def test_a_new_ledger_at_every_call(self, path):
        def prepare():
            if os.path.exists(path):
                os.unlink(path)

        for _ in kills(lambda: BudgetAccountant(1.0, path=path), prepare):
            assert BudgetAccountant(1.0, path=path).entries == ()


class TestLeads:
    """What a ledger says of where it goes on."""

    def pending(self, tmp_path, monkeypatch):
        """A ledger whose save was interrupted before it was announced."""
        accountant = BudgetAccountant(1.0, path=tmp_path / "old")
        accountant.spend(pure())

        def dies(*arguments):
            raise KeyboardInterrupt

        monkeypatch.setattr(ledger_moves, "create_file", _then(ledger_files.create_file, dies))
        with pytest.raises(KeyboardInterrupt):
            accountant.save(tmp_path / "new")
        monkeypatch.undo()
        assert os.path.exists(tmp_path / "new")
        return accountant

    def test_a_copy_leads_back_until_it_is_announced(self, tmp_path, monkeypatch):
        accountant = self.pending(tmp_path, monkeypatch)
        copy = BudgetAccountant.load(tmp_path / "new")
        assert copy.path == accountant.path
        with BudgetAccountant(1.0, path=tmp_path / "new") as again:
            spend(pure(), copy)
        assert len(accountant.entries) == len(copy.entries) == len(again.entries) == 2
        before = (tmp_path / "new").read_bytes()  # nobody else may take its place
        with pytest.raises(FileExistsError):
            BudgetAccountant(1.0).save(tmp_path / "new")
        assert (tmp_path / "new").read_bytes() == before

    def test_a_copy_whose_source_is_missing(self, tmp_path, monkeypatch):
        """What was spent there is unknown, except to the user."""
        accountant = self.pending(tmp_path, monkeypatch)
        assert not BudgetAccountant.repair(tmp_path / "new")  # the source is there
        os.unlink(accountant.path)
        with pytest.raises(LedgerError, match=r"being moved from .* is missing"):
            BudgetAccountant.load(tmp_path / "new")
        assert BudgetAccountant.repair(tmp_path / "new")
        assert len(BudgetAccountant.load(tmp_path / "new").entries) == 1

    def test_a_target_that_is_missing(self, tmp_path):
        accountant = BudgetAccountant(1.0, path=tmp_path / "old")
        accountant.save(tmp_path / "new")
        os.unlink(tmp_path / "new")
        with pytest.raises(LedgerError, match=r"old' goes on in .*new', which is missing"):
            BudgetAccountant.load(tmp_path / "old")
        with pytest.raises(LedgerError, match="missing"):
            spend(pure(), budget_accountant._handle(str(tmp_path / "old"), 1.0, 0.0, False))

    @pytest.mark.parametrize("lead", ["moved", "copied"])
    def test_another_ledger_at_the_target(self, tmp_path, monkeypatch, lead):
        if lead == "moved":
            accountant = BudgetAccountant(1.0, path=tmp_path / "old")
            handle = BudgetAccountant.load(tmp_path / "old")
            accountant.save(tmp_path / "new")
            other = tmp_path / "new"
        else:
            self.pending(tmp_path, monkeypatch)
            handle = budget_accountant._handle(str(tmp_path / "new"), 1.0, 0.0, False)
            other = tmp_path / "old"
        os.unlink(other)
        BudgetAccountant(1.0, path=other)
        for use in (handle.total, lambda: spend(pure(), handle), handle.__enter__):
            with pytest.raises(LedgerError, match="which is another ledger"):
                use()

    @pytest.mark.parametrize(("length", "lead"), [(1, "moved"), (2, "copied"), (3, "moved")])
    def test_circles(self, tmp_path, length, lead):
        names = [str(tmp_path / str(i)) for i in range(length)]
        BudgetAccountant(1.0, path=names[0])
        header = (tmp_path / "0").read_bytes().partition(b"\n")[0] + b"\n"
        for i, name in enumerate(names):
            path = {lead: names[(i + 1) % length]}
            with open(name, "wb") as file:
                file.write(header + ledger._end(header, **path))
        handle = budget_accountant._handle(names[0], 1.0, 0.0, False)
        for use in (
            handle.total,
            lambda: spend(pure(), handle),
            lambda: handle.save(tmp_path / "new"),
            lambda: BudgetAccountant(1.0).save(names[0]),
        ):
            with pytest.raises((LedgerError, FileExistsError), match=r"back again|There is a file"):
                ends(use)
        assert not BudgetAccountant.repair(names[0])


def _then(first, second):
    def both(*arguments):
        first(*arguments)
        second(*arguments)

    return both


@without_windows
def test_what_is_on_the_disk_when(tmp_path, monkeypatch):
    """The copy before its name, the name before the announcement, this before the copy is used."""
    accountant = BudgetAccountant(1.0, path=tmp_path / "old")
    steps, originals = [], {name: getattr(os, name) for name in ("write", "fsync", "link")}

    def what(descriptor):
        status = os.fstat(descriptor)
        names = {os.stat(tmp_path / name).st_ino: name for name in os.listdir(tmp_path)}
        names[os.stat(tmp_path).st_ino] = "folder"
        name = names[status.st_ino]
        return "draft" if name.startswith(".skdp-") else name

    def wrapped(name):
        def call(*arguments):
            steps.append((name, what(arguments[0]) if isinstance(arguments[0], int) else ""))
            return originals[name](*arguments)

        return call

    for name in originals:
        monkeypatch.setattr(os, name, wrapped(name))
    accountant.save(tmp_path / "new")
    assert steps == [
        ("fsync", "draft"),  # a file of Python wrote it
        ("link", ""),
        ("fsync", "folder"),
        ("write", "old"),
        ("fsync", "old"),
        ("write", "new"),
        ("fsync", "new"),
    ]


def test_threads_that_spend_while_the_ledger_moves(tmp_path):
    """Nobody loses a payment, whichever file it began with."""
    accountant = BudgetAccountant(100.0, path=tmp_path / "0")
    handles = [pickle.loads(pickle.dumps(accountant)) for _ in range(2)]
    threads = [
        threading.Thread(target=lambda h=h: [spend(pure(), h) for _ in range(40)]) for h in handles
    ]
    for thread in threads:
        thread.start()
    for number in range(1, 15):
        accountant.save(tmp_path / str(number))
    for thread in threads:
        ends(thread.join)
        assert not thread.is_alive()
    assert len(accountant.entries) == 80
