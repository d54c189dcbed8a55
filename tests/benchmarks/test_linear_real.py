"""The real tables of the comparison of linear models: features, targets and rows."""

import argparse
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


@pytest.mark.parametrize(("metric", "sign"), [("R2", 1.0), ("log loss", -1.0)])
def test_other_tables_choose_the_setting(case, metric, sign):
    """Two tables with two settings: each is compared with the one that the other likes."""
    rng = np.random.default_rng(0)
    ours = rng.uniform(0.6, 0.7, size=(2, 5, len(case.EPSILONS)))
    theirs = np.stack([ours - 0.2, ours - 0.1], axis=-1)
    theirs[1] = theirs[1, :, :, ::-1]  # the second table likes the first setting
    theirs[:, 0] += 0.05  # a split that is easy
    tables = [{metric: (sign * ours[k], sign * theirs[k])} for k in range(2)]
    found = case.over_other_tables(tables)
    assert set(found) == {(k, metric, e) for k in range(2) for e in case.EPSILONS}
    for row in found.values():
        assert row["gain_other_tables"] == pytest.approx(0.2 - 0.05 / 5)
        assert row["gain_other_tables_se"] == pytest.approx(0.05 / 5)
        assert row["gain_without_choice"] == pytest.approx(-0.1)
        assert row["gain_without_choice_se"] == pytest.approx(0.0, abs=1e-12)
    alone = case.over_other_tables(tables[:1])
    assert all(np.isnan(row["gain_other_tables"]) for row in alone.values())


def test_tables_are_compared_with_those_of_their_kind(case, monkeypatch):
    """Two kinds of rows with two tables each; the report counts each score and kind."""
    X, y = np.zeros((10, 2)), np.zeros(10)
    monkeypatch.setattr(
        case,
        "tables",
        lambda *_: [
            (case.Dataset(f"{i}", X, y, target_range=(-1.0, 1.0)), kind)
            for i in range(2)
            for kind in ("unit", "short")
        ],
    )
    made = iter(range(4))

    def sides(data, seeds, settings):
        k, epsilons = next(made), case.EPSILONS  # 0 unit, 0 short, 1 unit, 1 short
        theirs = np.zeros((3, len(epsilons), len(settings)))
        theirs[:, :, 0], theirs[:, :, 1] = 0.1, 0.2 if k % 2 else -0.2
        theirs[0, :, :] += 0.01
        ours = np.full((3, len(epsilons)), 0.15) + k // 2
        return {"R2": (ours, theirs)}

    monkeypatch.setattr(case, "both_sides", sides)
    rows = pd.DataFrame(case.run(argparse.Namespace(quick=True, rdatasets=None)))
    rows = rows[rows["epsilon"] == 1.0].set_index(["table", "rows"])
    gain = rows["gain_other_tables"].round(4).to_dict()
    assert gain == {
        ("0", "unit"): pytest.approx(0.05 - 0.01 / 3, abs=1e-4),
        ("0", "short"): pytest.approx(-0.05 - 0.01 / 3, abs=1e-4),
        ("1", "unit"): pytest.approx(1.05 - 0.01 / 3, abs=1e-4),
        ("1", "short"): pytest.approx(0.95 - 0.01 / 3, abs=1e-4),
    }
    text = case.summarise(rows.reset_index())
    assert "R2, unit rows, above / level / below:\n  the best setting: 2 / 0 / 0" in text
    assert "R2, short rows, above / level / below:\n  the best setting: 1 / 0 / 1" in text
    assert "the other tables' setting against the best one: 0 / 2 / 0" in text


def test_counts_are_by_two_standard_errors(case):
    gains, errors = pd.Series([2.1, 1.9, 0.0, -1.9, -2.1, -3.0]), pd.Series(np.ones(6))
    assert case.above_level_below(gains, errors) == "1 / 3 / 2"
