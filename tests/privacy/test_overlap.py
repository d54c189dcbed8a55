"""What releases from overlapping parts of the records cost: what the dearest record does."""

import contextlib
import math
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from skdp.privacy import BudgetAccountant, Neighbouring, PureEvent, RepeatedEvent, spend
from skdp.privacy.overlap import OverlappingParts

ONE = Neighbouring.REPLACE_ONE


@pytest.mark.parametrize("seed", range(2))
def test_an_accountant_pays_for_what_it_was_open_for(seed):
    """The largest cost of a record; one that is opened for a few releases owes what they cost."""
    rng = np.random.default_rng(seed)
    members = rng.random((30, 6)) < 0.5
    parts, (always, mine) = OverlappingParts(members), (BudgetAccountant(math.inf) for _ in "12")
    costs, of_all = np.zeros((2, 30))
    with always:
        for number in rng.integers(6, size=20):
            with parts.part(number):
                if rng.random() < 0.5:
                    spend(PureEvent(0.25, ONE))
                else:
                    with mine:
                        spend(PureEvent(0.25, ONE))
                    costs += 0.25 * members[:, number]
                assert mine.total().epsilon == costs.max()
            of_all += 0.25 * members[:, number]
            assert always.total().epsilon == of_all.max()
    assert always.total().epsilon > mine.total().epsilon > 0


EVENT = PureEvent(1.0, ONE)


def charged(accountant, number, parts):
    with parts.part(number):
        spend(EVENT, accountant)


#: What may happen between the payments of two parts that share no record, and their total: they
#: cost 1 as long as the ledger knows of both, and one part's payment is lost with its ledger.
BETWEEN = {
    "nothing": (lambda accountant, parts, copy: parts, 1.0),
    "a move": (lambda accountant, parts, copy: accountant.save(f"{accountant.path}.new"), 1.0),
    "an older copy": (lambda accountant, parts, copy: copy(), 1.0),
    "an older copy, another release": (
        lambda accountant, parts, copy: copy() and accountant.spend(EVENT, "another"), 2.0
    ),
    # which would not see what the others add to the ledger
    "copies of parts": (lambda accountant, parts, copy: pickle.loads(pickle.dumps(parts)), 2.0),
}  # fmt: skip


@pytest.mark.parametrize(("happens", "total"), BETWEEN.values(), ids=BETWEEN)
def test_what_happens_between_two_payments(path, happens, total):
    parts = OverlappingParts(np.eye(2, dtype=bool))
    accountant = BudgetAccountant(10.0, path=path)
    older = Path(path).read_bytes()
    charged(accountant, 0, parts)
    other = happens(accountant, parts, lambda: Path(path).write_bytes(older))
    charged(accountant, 1, other if isinstance(other, OverlappingParts) else parts)
    assert accountant.total().epsilon == total


@pytest.mark.parametrize("is_opened_inside", [False, True])
def test_a_new_ledger_at_the_path_of_a_removed_one_pays_in_full(tmp_path, is_opened_inside):
    """Nothing of what the other one was charged is in it."""
    parts, path = OverlappingParts(np.eye(2, dtype=bool)), tmp_path / "ledger"
    charged(BudgetAccountant(10.0, path=path), 0, parts)
    path.unlink()
    with parts.part(0) if is_opened_inside else contextlib.nullcontext():
        accountant = BudgetAccountant(10.0, path=path)
    accountant.spend(EVENT)  # as many entries as the other one had
    for number, total in ((1, 2.0), (0, 2.0), (0, 3.0)):
        charged(accountant, number, parts)
        assert accountant.total().epsilon == total


@pytest.mark.parametrize("is_restored", [False, True])
def test_payments_that_look_alike_are_not_taken_for_each_other(tmp_path, monkeypatch, is_restored):
    """With the same event, label and time."""
    monkeypatch.setattr("skdp.privacy.ledger._now", lambda: "2026-01-01T00:00:00+00:00")
    parts, others = (OverlappingParts(np.eye(2, dtype=bool)) for _ in range(2))
    path = tmp_path / "ledger"
    accountant = BudgetAccountant(10.0, path=path)
    (tmp_path / "copy").write_bytes(path.read_bytes())
    copy = BudgetAccountant.load(tmp_path / "copy")
    charged(accountant, 0, parts)
    if is_restored:
        path.write_bytes((tmp_path / "copy").read_bytes())
        charged(accountant, 0, others)
        charged(accountant, 1, parts)
    else:
        charged(copy, 1, parts)
        charged(accountant, 0, parts)
    assert accountant.total().epsilon == 2.0


def test_numbers_of_releases_from_parts_have_no_limit():
    parts = OverlappingParts(np.array([[1, 1], [0, 1]], dtype=bool))
    accountant = BudgetAccountant(math.inf)
    for number in (0, 1):
        with parts.part(number):
            spend(RepeatedEvent(PureEvent(2.0**-70, "replace_one"), 2**62), accountant)
    assert accountant.total().epsilon == pytest.approx(2.0**-7)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_releases_of_forks_inside_of_a_part_are_charged(tmp_path):
    """Record 1 is in the second part alone: two releases, in two processes, cost it 2."""
    parts = OverlappingParts(np.array([[1, 0], [0, 1]], dtype=bool))
    event = PureEvent(1.0, "replace_one")
    accountant = BudgetAccountant(10.0, path=tmp_path / "ledger")
    with parts.part(0):
        spend(event, accountant)
    for _ in range(2):
        with parts.part(1):
            child = os.fork()
            if child == 0:
                try:
                    spend(event, accountant)
                finally:
                    os._exit(0)
            os.waitpid(child, 0)
    assert accountant.total().epsilon >= 2.0
