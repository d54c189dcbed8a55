"""What several tests of the accountants need."""

import sys

import pytest
from exact_losses import PLD_MODULE


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "ledger.jsonl")


@pytest.fixture
def without_dp_accounting(monkeypatch):
    monkeypatch.setitem(sys.modules, PLD_MODULE, None)
