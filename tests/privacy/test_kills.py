"""SIGKILL at random times never leaves a ledger below what had begun."""

import os

import pytest
from kills import kill_fits, kill_workers

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="kills children that it forks"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),  # threads and fork
]


def test_no_kill_loses_a_payment():
    kills, begun, entries, _ = kill_fits(20, seed=0)
    assert kills == 20 and entries >= begun >= 5


def test_a_late_payment_is_found():
    """The same, with the payment after the fit."""
    with pytest.raises(AssertionError, match="are in the ledger"):
        kill_fits(200, seed=0, pays_late=True)


def test_no_killed_worker_of_a_cross_validation_loses_a_payment():
    """A worker of loky dies in the middle of a fit, and the others with it."""
    died, begun, ended, entries = kill_workers(1, seed=0)
    assert died == 1 and begun > ended and entries >= begun


def test_a_late_payment_of_a_killed_worker_is_found():
    died, begun, _, entries = kill_workers(1, seed=0, pays_late=True)
    assert died == 1 and entries < begun
