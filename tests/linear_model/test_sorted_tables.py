"""Tables that are kept sorted: replacing one record moves all others to other positions.

The neighbours here differ in one record as multisets, and in every row as tables
(docs/theory/order.md).
"""

import warnings

import numpy as np
import pytest
from laboratory import Laboratory
from plain_noise import seeded
from sklearn.base import clone

from skdp import DPLogisticRegression, DPRidge
from skdp.audit import audit_estimator
from skdp.mechanisms import SecretLabels

N, PERIOD = 30_000, 3
SHARED = {"epsilon": 8.0, "data_norm": 1.0, "method": "gradient", "random_state": 0}
MODELS = {
    "logistic": DPLogisticRegression(classes=[0, 1], **SHARED),
    "ridge": DPRidge(target_range=(-1, 1), **SHARED),
}


def sorted_table(latest, n=N, period=PERIOD, first=0):
    """By date; every third record is of one kind. One record is the first or the latest."""
    own, rest = np.array([[0.6, 0.0]]), np.tile([0.1, 0.5], (n - 1, 1))
    kind = np.arange(n - 1) % period == first
    rest[kind] = [0.6, -0.5]
    parts = [(own, [0]), (rest, np.where(kind, 1, 0))]
    X, y = zip(*(parts[::-1] if latest else parts), strict=True)
    return np.vstack(X), np.concatenate(y)


def largest_move(model, labels_of, monkeypatch):
    """What a draw's exact value changes by, in units of its sensitivity, at equal history.

    `labels_of` makes the labels of the first and of the second table.
    """
    seen, releases = [], None
    for latest in (False, True):

        def members(labels, n, latest=latest):
            given = labels_of(labels.n_labels, latest)
            return [np.flatnonzero(given == k) for k in range(labels.n_labels)]

        with monkeypatch.context() as patch, Laboratory(releases=releases) as laboratory:
            patch.setattr(SecretLabels, "members", members)
            model.fit(*sorted_table(latest))
        releases = laboratory.releases
        seen.append(laboratory.draws)
    return max(
        float(np.linalg.norm(one.value - other.value)) / one.mechanism.sensitivity
        for one, other in zip(*seen, strict=True)
    )


@pytest.mark.parametrize("name", MODELS)
def test_records_keep_their_labels_when_all_positions_change(name, monkeypatch):
    """Lemma 2: labels go with the records, and one record moves no release by more than stated."""
    numbers = []

    def coupled(n_labels, latest):
        numbers.append(n_labels)
        labels = SecretLabels(n_labels, seeded(7)).of(0, N)
        return np.roll(labels, -1) if latest else labels

    assert largest_move(MODELS[name], coupled, monkeypatch) <= 1.0
    assert numbers and max(numbers) > 1  # there are blocks


@pytest.mark.parametrize("name", ["logistic", "ridge"])
def test_blocks_by_position_are_not_private_for_sorted_tables(name, monkeypatch):
    """What labels by position would be: a record moves sums by far more than stated."""

    def positions(n_labels, latest):
        return np.arange(N) % n_labels

    assert largest_move(MODELS[name], positions, monkeypatch) > 100.0


@pytest.mark.audit
@pytest.mark.parametrize("name", ["logistic", "ridge"])
def test_whole_fits_on_sorted_tables(name, request):
    """100,000 records at epsilon 1: an attacker tells blocks by position apart, and not the fits.

    One kind of records is in the last block, or all of it moves to the first one.
    """
    model = clone(MODELS[name]).set_params(epsilon=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        period = model.fit(*sorted_table(False, 100_000)).privacy_.plan["n_blocks"]
        tables = [sorted_table(latest, 100_000, period, period - 1) for latest in (False, True)]
        found = audit_estimator(model, *tables, n_runs=200, random_state=0)
        assert found.epsilon_lower_bound < 0.5
        request.getfixturevalue("kept_order")
        assert audit_estimator(model, *tables, n_runs=200, random_state=0).refutes


def test_fits_draw_fresh_labels(monkeypatch):
    """Two fits without a seed divide the records differently."""
    seen, members = [], SecretLabels.members

    def spied(labels, n):
        seen.append(labels.of(0, n))
        return members(labels, n)

    monkeypatch.setattr(SecretLabels, "members", spied)
    for _ in range(2):
        clone(MODELS["ridge"]).set_params(random_state=None).fit(*sorted_table(False))
    assert (seen[0] != seen[1]).mean() > 0.5
