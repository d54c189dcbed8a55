"""The folder in which processes tell each other of open with-blocks."""

import os
import stat
import tempfile

import pytest
from interruptions import pure

from skdp.privacy import BudgetAccountant, LedgerError, blocks, private_folder, spend

pytestmark = pytest.mark.skipif(not hasattr(os, "getuid"), reason="folders of users")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where it is, before it is there."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"skdp-{os.getuid()}"


def test_is_private_and_holds_files_of_open_blocks(folder):
    assert not folder.exists()
    with BudgetAccountant(1.0):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        (name,) = os.listdir(folder)
        assert name.startswith(f"{os.getpid()}-")
        assert stat.S_IMODE(os.stat(folder / name).st_mode) == 0o600
    assert os.listdir(folder) == []


@pytest.mark.parametrize("mode", [0o777, 0o750, 0o704])
def test_others_may_not_use_it(folder, mode):
    folder.mkdir()
    folder.chmod(mode)
    _is_refused(folder)
    with pytest.raises(LedgerError, match="mode 700"):  # a parent may have an open block
        spend(pure())


@pytest.mark.parametrize("target", ["elsewhere", "missing"])
def test_a_link_or_a_file_is_refused(folder, target):
    (folder.parent / "elsewhere").mkdir(0o700)
    folder.symlink_to(folder.parent / target)
    _is_refused(folder)
    assert os.listdir(folder.parent / "elsewhere") == []
    folder.unlink()
    folder.write_text("")  # nor is a file a folder
    _is_refused(folder)


def test_a_folder_of_somebody_else(folder, monkeypatch):
    """Nobody writes there, and what is read there is not believed."""
    folder.mkdir(0o700)
    own = os.path.join(folder, os.path.basename(blocks._file_of(os.getppid())))
    with open(own, "w") as file:
        file.write('[["/nonexistent", "x", "host", 1, false]]')
    with pytest.raises(LedgerError, match="There is no ledger"):
        spend(pure())
    lstat = os.lstat

    def of_another(path, **options):
        status = list(lstat(path, **options))
        status[4] += 1
        return os.stat_result(status)

    monkeypatch.setattr(private_folder.os, "lstat", of_another)
    spend(pure())
    _is_refused(folder)
    private_folder.remove_private(own)
    assert os.path.exists(own)


def test_a_block_ends_whatever_happened_to_the_folder(folder):
    outer, inner = BudgetAccountant(1.0), BudgetAccountant(1.0)
    with outer:
        with inner:
            folder.chmod(0o755)
        folder.chmod(0o700)
        spend(pure())
    assert len(outer.entries) == 1 and inner.entries == ()
    assert "SKDP_ACCOUNTANTS" not in os.environ


def _is_refused(folder):
    accountant = BudgetAccountant(1.0)
    with pytest.raises(LedgerError, match=r"must be a folder of this user with mode 700.* TMPDIR"):
        accountant.__enter__()
    assert (
        "SKDP_ACCOUNTANTS" not in os.environ
        or accountant.path not in os.environ["SKDP_ACCOUNTANTS"]
    )
    assert not blocks._OPEN
