"""The made tables of the comparison of linear models on families, and what is kept of it."""

import importlib
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("dp_accounting")

CASE = "benchmarks.cases.linear_families"


@pytest.fixture
def case(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    return importlib.import_module(CASE)


def test_made_tables_have_unit_rows_and_the_share_of_positives(case):
    for family in case.CLASSIFICATION:
        split = case.made("classification", family, 500, 10, 0.15, 3)
        assert split.X.shape == (500, 10) and split.X_test.shape == (case.N_TEST, 10)
        norms = np.linalg.norm(np.vstack([split.X, split.X_test]), axis=1)
        np.testing.assert_allclose(norms, 1.0, rtol=1e-12)
        labels = np.concatenate([split.y, split.y_test])
        assert set(labels) == {0, 1}
        assert labels.mean() == pytest.approx(0.15, abs=0.03)
        again = case.made("classification", family, 500, 10, 0.15, 3)
        np.testing.assert_array_equal(split.X, again.X)
        np.testing.assert_array_equal(split.y, again.y)


def test_made_numbers_keep_their_range_and_their_noise(case):
    rng = np.random.default_rng(0)
    for family in case.REGRESSION:
        X, _ = case.made_rows(family, 20_000, 10, 0.5, rng)
        y = case.made_numbers(X, 0.5, rng)
        assert np.abs(y).max() <= 1.0
        A = np.column_stack([X, np.ones(len(X))])
        rest = y - A @ np.linalg.lstsq(A, y, rcond=None)[0]
        assert 1.0 - rest.var() / y.var() == pytest.approx(0.8, abs=0.02)


def test_the_best_setting_is_chosen_for_each_score(case, monkeypatch):
    found = {"accuracy": [0.7, 0.8, 0.6], "log loss": [0.4, 0.6, 0.5]}
    peers = {metric: np.array([values]) for metric, values in found.items()}
    ours = {"accuracy": np.array([0.75]), "log loss": np.array([0.45])}
    monkeypatch.setattr(case, "ours_scores", lambda *_: ours)
    monkeypatch.setattr(case, "peer_scores", lambda *_: peers)
    rows = case.compared("classification", "isotropic", 300, 10, 0.4, 2, True)
    best = {row["metric"]: (row["tuned"], row["gain"]) for row in rows}
    assert best["accuracy"] == (0.8, pytest.approx(-0.05))
    assert best["log loss"] == (0.4, pytest.approx(-0.05))
