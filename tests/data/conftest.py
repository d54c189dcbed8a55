"""Shared by tests of fits on sources."""

import pytest

from skdp.algorithms.descent import rules


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 400 records instead of 8000, so that small tables have several."""

    def block_count(n_records, largest):
        return int(min(max(min(n_records / 400, largest), 1), 12))

    monkeypatch.setattr(rules, "block_count", block_count)
