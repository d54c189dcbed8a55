"""Defects to plant are kept up to date; tests/support/mutants.py plants them and runs tests."""

import shutil

import pytest
from mutants import MUTANTS, ROOT, plant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutants_can_be_planted(mutant, tmp_path):
    """The text that a mutant replaces is there, and the file is still Python with it."""
    target = tmp_path / mutant.path
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "skdp" / mutant.path, target)
    plant(mutant, tmp_path)
    compile(target.read_text(), mutant.path, "exec")
