"""The file of a ledger: whatever happens to it, it is read as it was written or refused."""

import hashlib
import json
import math
import os
import random
import signal
import socket

import pytest
from interruptions import ends, pure

from skdp.privacy import BudgetAccountant, ComposedEvent, LedgerError, ledger_files

HEADER = {
    "ledger": "skdp", "version": 2, "id": "a", "epsilon": 1.0, "delta": 0.0, "neighbouring": None,
}  # fmt: skip


def spent(event):
    return {"spent": event.to_dict(), "label": "", "time": "", "id": ""}


@pytest.fixture(autouse=True)
def without_patience(monkeypatch):
    monkeypatch.setattr(ledger_files, "_PATIENCE", 0.0)


def write(path, *lines, header=HEADER, end=True):
    """Write a ledger by hand; lines are dictionaries or bytes."""
    data = b"".join(
        line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n"
        for line in (header, *lines)
    )
    if end:
        data += json.dumps({"end": hashlib.sha256(data).hexdigest()}).encode() + b"\n"
    with open(path, "wb") as file:
        file.write(data)


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def refuses(path, match, error=LedgerError):
    """Nothing reads it or spends from it, and nothing waits for ever."""
    handle = BudgetAccountant(1.0)
    handle._path = str(path)
    for use in (
        lambda: BudgetAccountant.load(path),
        lambda: BudgetAccountant(1.0, path=path),
        handle.total,
        lambda: handle.spend(pure()),
        handle.__enter__,
    ):
        with pytest.raises(error, match=match):
            ends(use)


def test_written_by_hand(path):
    """What the tests below write is a ledger if nothing is wrong with it, of any size."""
    write(path, spent(pure()), {"closed": "x"})
    accountant = BudgetAccountant.load(path)
    accountant.spend(pure(), "x" * 2**20)
    assert accountant.total() == (0.5, 0.0)


class TestDamage:
    @pytest.fixture
    def used(self, path):
        accountant = BudgetAccountant(9.0, path=path)
        for number in range(4):
            accountant.spend(pure(0.25 + number), f"fit {number}")
        with accountant:
            pass
        return accountant

    def test_every_cut_is_found(self, path, used):
        """Also those between two lines."""
        data = contents(path)
        ends_of_lines = [i for i, byte in enumerate(data) if byte == ord("\n")]
        for size in {*range(0, len(data), 7), *ends_of_lines, *(end + 1 for end in ends_of_lines)}:
            if size == len(data):
                continue
            os.truncate(path, size)
            with pytest.raises(LedgerError, match=r"is empty|no ledger|last line .* unfinished"):
                used.total()
            with open(path, "wb") as file:
                file.write(data)
        assert len(used.entries) == 4

    @pytest.mark.parametrize("where", [1, 2, -2])
    def test_a_missing_or_repeated_line_is_found(self, path, used, where):
        lines = contents(path).splitlines(keepends=True)
        for wrong in (
            [*lines[:where], *lines[where + 1 :]],
            [*lines[:where], lines[where], *lines[where:]],
        ):
            with open(path, "wb") as file:
                file.writelines(wrong)
            with pytest.raises(LedgerError, match="was changed"):
                used.total()
            with pytest.raises(LedgerError, match="was changed"):
                BudgetAccountant.repair(path)
            assert contents(path) == b"".join(wrong)

    def test_a_changed_byte_is_found(self, path, used):
        data, before, rng = contents(path), used.entries, random.Random(0)
        found = 0
        for position in range(0, len(data), 5):
            wrong = bytearray(data)
            wrong[position] ^= rng.randrange(1, 256)
            with open(path, "wb") as file:
                file.write(wrong)
            try:
                assert used.entries == before  # another white space
            except LedgerError:
                found += 1
        assert found > 0.98 * len(data) / 5

    def test_what_is_appended_is_found(self, path, used):
        for more in (b"x", b"\n", b"{}\n", b'{"end": "x"}\n', contents(path)):
            with open(path, "ab") as file:
                file.write(more)
            with pytest.raises(LedgerError):
                used.total()
            os.truncate(path, os.path.getsize(path) - len(more))

    @pytest.mark.parametrize("cut", [1, 20, -1])
    def test_an_unfinished_line_is_removed_by_repair(self, path, cut):
        accountant = BudgetAccountant(1.0, path=path)
        accountant.spend(pure())
        whole = os.path.getsize(path)
        accountant.spend(pure())
        os.truncate(path, os.path.getsize(path) - 1 if cut == -1 else whole + cut)
        refuses(path, r"last line .* is unfinished")
        assert BudgetAccountant.repair(path) and not BudgetAccountant.repair(path)
        # the end line alone was unfinished in the last case
        assert len(accountant.entries) == (2 if cut == -1 else 1)
        accountant.spend(pure())

    def test_a_line_over_a_part_of_the_end_line_is_removed_by_repair(self, path):
        accountant = BudgetAccountant(1.0, path=path)
        accountant.spend(pure())
        before = contents(path)
        accountant.spend(pure())
        after = contents(path)
        for size in range(1, len(after), 3):
            with open(path, "wb") as file:
                file.write(after[:size] + before[size:])
            if contents(path) in (before, after):
                continue
            with pytest.raises(LedgerError):
                accountant.total()
            assert BudgetAccountant.repair(path)
            assert len(accountant.entries) in (1, 2)

    def test_a_cut_between_lines_is_closed_by_repair(self, path, used):
        """Whoever calls it says that nothing is missing."""
        lines = contents(path).splitlines(keepends=True)
        with open(path, "wb") as file:
            file.writelines(lines[:3])
        refuses(path, "missing")
        assert BudgetAccountant.repair(path) and len(used.entries) == 2


BAD_HEADERS = [
    *({**HEADER, "epsilon": value} for value in (math.nan, 0, "1", True, 1e400, 10**400)),
    *({**HEADER, "delta": value} for value in (-0.1, 1, None)),
    *({**HEADER, "version": value} for value in (1, 3, True, "2")),
    *({**HEADER, name: 7} for name in ("ledger", "id", "neighbouring")),
    {"ledger": "skdp"},
    [1],
    b"\xff\xfe\n",
    b'{"ledger": "\xe9"}\n',
    b"[" * 100_000 + b"]" * 100_000 + b"\n",
    b"a,b\n1,2\n",
    b"\n",
]
BAD_LINES = [
    b"rubbish\n", b"\n", b"\xff\xfe\n", b"[" * 100_000 + b"\n", b'{"spent": ' * 100_000 + b"\n",
    {"refund": 1}, {"moved": "/elsewhere"}, {"end": "x"}, {"closed": 1},
    {"spent": {"type": "free"}, "label": "", "time": ""}, {"spent": 1, "label": "", "time": ""},
    {"spent": pure().to_dict()}, {**spent(pure()), "label": 1}, {**spent(pure()), "id": []},
    {**spent(pure()), "more": 1},
    {"spent": {**pure().to_dict(), "epsilon": math.nan}, "label": "", "time": ""},
    {"spent": {**pure().to_dict(), "epsilon": 10**400}, "label": "", "time": ""},
]  # fmt: skip


@pytest.mark.parametrize("header", BAD_HEADERS, ids=lambda header: repr(header)[-60:])
def test_other_headers_are_refused(path, header):
    for end in (True, False):
        write(path, header=header, end=end)
        before = contents(path)
        refuses(path, "no ledger that this version")
        with pytest.raises(LedgerError, match="no ledger that this version"):
            BudgetAccountant.repair(path)
        assert contents(path) == before


@pytest.mark.parametrize("line", BAD_LINES, ids=lambda value: repr(value)[:60])
def test_an_unknown_line_stops_everything(path, line):
    write(path, spent(pure()), line)
    refuses(path, "Line 3")


def test_several_relations_are_refused(path):
    write(path, spent(pure()), header={**HEADER, "neighbouring": "add_remove"})
    refuses(path, "no single relation")
    write(path, spent(ComposedEvent([])), spent(pure(relation="add_remove")), spent(pure()))
    refuses(path, "no single relation")


class TestOtherFiles:
    def test_missing(self, path):
        with pytest.raises(LedgerError, match="There is no ledger"):
            BudgetAccountant.load(path)
        accountant = BudgetAccountant(1.0, path=path)
        os.unlink(path)
        with pytest.raises(LedgerError, match="There is no ledger"):
            accountant.spend(pure())
        assert not os.path.exists(path)
        for name in ("/tmp/\0", "/tmp/\ud800", "/" + "x" * 5000):
            with pytest.raises(LedgerError, match="cannot be opened"):
                BudgetAccountant.load(name)

    def test_empty(self, path):
        open(path, "x").close()
        with pytest.raises(LedgerError, match="There is no ledger"):
            BudgetAccountant.load(path + "/below")
        refuses(path, "is empty")
        with pytest.raises(LedgerError, match="is empty"):
            BudgetAccountant.repair(path)

    @pytest.mark.parametrize(
        "text",
        [
            "a,b\n1,2\n3,4",
            '{"ledger": "other"}\n',
            "{",
            '{"ledger": "skdp", "version": 2, "id": "x", "epsilon": 1, "delta": 0, '
            '"neighbouring": null}',  # a header that was cut off
        ],
    )
    def test_repair_leaves_other_files_alone(self, path, text):
        with open(path, "w") as file:
            file.write(text)
        with pytest.raises(LedgerError, match="no ledger"):
            BudgetAccountant.repair(path)
        with open(path) as file:
            assert file.read() == text

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
    def test_special_files(self, path, tmp_path, monkeypatch):
        os.mkfifo(path)
        refuses(path, "no regular file")
        os.mkdir(tmp_path / "folder")
        refuses(tmp_path / "folder", "cannot be opened")
        refuses("/dev/null", "no regular file")
        monkeypatch.chdir(tmp_path)  # names of sockets are short
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("socket")
            refuses(tmp_path / "socket", "cannot be opened")
        os.symlink(tmp_path / "b", tmp_path / "a")
        os.symlink(tmp_path / "a", tmp_path / "b")
        refuses(tmp_path / "a", "cannot be opened")
        os.symlink(tmp_path / "nowhere", tmp_path / "dangling")
        refuses(tmp_path / "dangling", "There is no ledger")
        for other in (path, "/dev/null", tmp_path / "folder", tmp_path / "socket"):
            with pytest.raises(LedgerError):
                ends(lambda other=other: BudgetAccountant.repair(other))
            with pytest.raises(FileExistsError):
                ends(lambda other=other: BudgetAccountant(1.0).save(other))


class TestWriting:
    def test_an_error_while_writing_changes_nothing(self, path, monkeypatch):
        """Only a part of a line is written, and then no more of it."""
        accountant = BudgetAccountant(1.0, path=path)
        before, write, calls = contents(path), os.write, []

        def half(descriptor, data):
            calls.append(data)
            if len(calls) == 2:
                raise OSError("No space left on device")
            return write(descriptor, data[: len(data) // 2] if len(calls) == 1 else data)

        monkeypatch.setattr(os, "write", half)
        with pytest.raises(OSError, match="No space"):
            accountant.spend(pure())
        assert contents(path) == before
        accountant.spend(pure())
        assert len(accountant.entries) == 1

    def test_a_full_disk_changes_nothing(self, path):
        """The operating system itself stops the write: at the largest size of a file."""
        resource = pytest.importorskip("resource")
        accountant = BudgetAccountant(9.0, path=path)
        accountant.spend(pure())
        before, limits = contents(path), resource.getrlimit(resource.RLIMIT_FSIZE)
        handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        try:
            for more in range(0, 200, 7):
                resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + more, limits[1]))
                try:
                    accountant.spend(pure())
                    assert len(accountant.entries) == 2
                    break
                except OSError:
                    assert contents(path) == before
            else:
                pytest.fail("no payment fits")
            assert more > 0
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            signal.signal(signal.SIGXFSZ, handler)

    def test_an_interrupt_while_writing_changes_nothing(self, path, monkeypatch):
        accountant = BudgetAccountant(1.0, path=path)

        def interrupted(descriptor):
            monkeypatch.undo()
            raise KeyboardInterrupt

        monkeypatch.setattr(os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            accountant.spend(pure())
        assert accountant.entries == ()

    def test_an_entry_is_on_the_disk_before_spend_returns(self, path, monkeypatch):
        accountant, sync, synced = BudgetAccountant(1.0, path=path), os.fsync, []
        monkeypatch.setattr(
            os, "fsync", lambda file: (sync(file), synced.append(os.fstat(file).st_size))
        )
        accountant.spend(pure())
        assert synced == [os.path.getsize(path)]

    def test_one_call_writes_an_entry(self, path, monkeypatch):
        """So a process that is killed leaves all of it or nothing."""
        accountant, write, written = BudgetAccountant(1.0, path=path), os.write, []
        monkeypatch.setattr(os, "write", lambda *call: (written.append(call), write(*call))[1])
        monkeypatch.setattr(os, "ftruncate", None)
        accountant.spend(pure())
        assert len(written) == 1
