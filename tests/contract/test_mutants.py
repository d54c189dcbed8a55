"""Defects to plant are kept up to date; tests/support/mutants.py plants them and runs tests."""

from mutants import MUTANTS, ROOT


def test_mutants_can_be_planted():
    """The text that a mutant replaces is there, and so are the tests that must fail."""
    for mutant in MUTANTS:
        assert mutant.old in (ROOT / "skdp" / mutant.path).read_text(), mutant.name
        assert (ROOT / mutant.tests.split()[0]).exists(), mutant.name
