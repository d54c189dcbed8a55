"""The real tables of the comparison of linear models: features, targets and rows."""

import importlib
from pathlib import Path

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("dp_accounting")


@pytest.fixture
def case(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    return importlib.import_module("benchmarks.cases.linear_real")


def test_a_table_has_numbers_in_their_range_and_categories_as_features(case, tmp_path):
    n, rng = 1000, np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "number": rng.normal(size=n),
            "pair": rng.choice(["a", "b"], n),
            "three": rng.choice(["x", "y", "z"], n),
            "constant": 1.0,
            "left out": rng.normal(size=n),
            "label": rng.choice(["yes", "no"], n),
            "target": rng.normal(size=n),
        }
    )
    frame.loc[3, "number"] = np.nan
    frame.to_csv(tmp_path / "T.csv")
    data = case.table(tmp_path, ("T", "label", "yes", ("left out", "target")), "unit")
    assert data.X.shape == (n, 5) and data.classes == (0, 1) and data.name == "T, label"
    np.testing.assert_allclose(np.linalg.norm(data.X, axis=1), 1.0)
    assert data.y.sum() == (frame["label"] == "yes").sum()
    data = case.table(tmp_path, ("T", "target", ("left out", "label")), "short")
    assert np.linalg.norm(data.X, axis=1).max() <= 1.0
    assert np.abs(data.X).max() == pytest.approx(1.0 / np.sqrt(5.0))
    assert data.target_range == (-1.0, 1.0)
    assert data.y.min() == -1.0 and data.y.max() == 1.0


def test_other_tables_choose_the_setting(case):
    """Two tables with two settings: each is compared with the one that the other likes."""
    rng = np.random.default_rng(0)
    ours = rng.uniform(0.6, 0.7, size=(2, 5, len(case.EPSILONS)))
    theirs = np.stack([ours - 0.2, ours - 0.1], axis=-1)
    theirs[1] = theirs[1, :, :, ::-1]  # the second table likes the first setting
    theirs[:, 0] += 0.05  # a split that is easy
    tables = [{"R2": (ours[k], theirs[k])} for k in range(2)]
    found = case.over_other_tables(tables)
    assert set(found) == {(k, "R2", e) for k in range(2) for e in case.EPSILONS}
    for row in found.values():
        assert row["gain_other_tables"] == pytest.approx(0.2 - 0.05 / 5)
        assert row["gain_other_tables_se"] == pytest.approx(0.05 / 5)
        assert row["without_choice"] == pytest.approx(-0.1)
        assert row["without_choice_se"] == pytest.approx(0.0, abs=1e-12)
