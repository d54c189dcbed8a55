"""SIGKILL at random times never leaves a ledger below what had begun."""

import os

import pytest
from kills import kill_fits

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="kills children that it forks"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),  # threads and fork
]


def test_no_kill_loses_a_payment():
    kills, begun, entries, _ = kill_fits(40, seed=0)
    assert kills == 40 and entries >= begun >= 10


def test_a_late_payment_is_found():
    """The same, with the payment after the fit."""
    with pytest.raises(AssertionError, match="are in the ledger"):
        kill_fits(200, seed=0, pays_late=True)
