"""Planted defects are found: see tests/support/mutants.py."""

from __future__ import annotations

import shutil

import pytest
from mutants import MUTANTS, ROOT, is_killed, plant

every_mutant = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)


@every_mutant
def test_mutants_can_be_planted(mutant, tmp_path):
    """The text that a mutant replaces is there, and the file is still Python with it."""
    target = tmp_path / mutant.path
    target.parent.mkdir(parents=True)
    shutil.copy(ROOT / "src" / "skdp" / mutant.path, target)
    plant(mutant, tmp_path)
    compile(target.read_text(), mutant.path, "exec")


@pytest.mark.search
@every_mutant
def test_mutants_are_killed(mutant):
    """A test of the contract fails with the defect, and none without it."""
    killed, output = is_killed(mutant)
    assert killed, output
