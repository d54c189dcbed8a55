"""What privacy costs: features of real tables, groups, rare classes, and the page."""

import importlib
from pathlib import Path

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("dp_accounting")


@pytest.fixture
def real_tables(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    return importlib.import_module("benchmarks.real_tables")


@pytest.fixture
def case(real_tables):
    return importlib.import_module("benchmarks.cases.costs")


def test_a_table_has_numbers_in_their_range_and_categories_as_features(
    real_tables, tmp_path, monkeypatch
):
    n, rng = 1000, np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "number": rng.normal(size=n),
            "pair": rng.choice(["a", "b"], n),
            "three": rng.choice(["x", "y", "z"], n),
            "constant": 1.0,
            "left": rng.normal(size=n),
            "label": rng.choice(["yes", "no"], n),
            "target": rng.normal(size=n),
        }
    )
    frame.loc[3, "number"] = np.nan
    frame.to_csv(tmp_path / "T.csv")
    monkeypatch.setattr(real_tables, "TABLES", real_tables.TABLES.copy())
    real_tables.TABLES.loc["T"] = ["label", "yes", "left target", "pair"]
    data = real_tables.table(tmp_path, "T")
    assert data.X.shape == (n, 5) and data.classes == (0, 1) and data.name == "T, label"
    assert np.linalg.norm(data.X, axis=1).max() <= 1.0
    assert np.abs(data.X).max() == pytest.approx(1.0 / np.sqrt(5.0))
    assert data.y.sum() == (frame["label"] == "yes").sum()
    real_tables.TABLES.loc["T"] = ["target", "", "left label", "pair"]
    data = real_tables.mixed_table(tmp_path, "T", largest=900)
    assert len(data.X) == 900 and data.target_range == (-1.0, 1.0)
    assert data.y.min() == -1.0 and data.y.max() == 1.0
    assert data.n_numbers == 1 and data.blocks == (2, 3) and data.names[0] == "number"
    assert data.groups == ("pair",)
    chosen = np.random.default_rng(0).permutation(n)[:900]
    for column, name in zip(data.X.T[1:], data.names[1:], strict=True):
        of, _, level = name.partition("=")
        np.testing.assert_array_equal(column, (frame[of] == level).to_numpy()[chosen])


def split_of(case, y, groups):
    """Test records of two groups, a flag, and a column whose values are no groups."""
    X = np.column_stack([np.where(groups == "few", 1.0, -1.0), groups == "a", groups == "b"])
    dataset = case.tabular.Dataset(
        *("T", np.hstack([X, X[:, 1:]]), y, (0, 1)),
        n_numbers=1,
        blocks=(2, 2),
        names=("flag", "letter=a", "letter=b", "other=a", "other=b"),
        groups=("letter", "flag"),
    )
    return case.Split(dataset, 0, dataset.X, y, dataset.X, y)


def test_scores_are_of_groups_with_enough_records_of_each_class(case):
    groups = np.repeat(["a", "b", "few"], [60, 60, 40])
    y = np.concatenate([np.arange(60) < 30, np.arange(60) < 9, np.arange(40) < 20]).astype(int)
    split = split_of(case, y, groups)
    chances = np.where(groups == "a", y, 0.5)
    found = pd.DataFrame(case.scores(split, np.column_stack([1.0 - chances, chances])))
    auc = found[found["metric"] == "ROC AUC"].set_index("part")
    assert auc["records"].to_dict() == {"all": 160, "letter=a": 60, "flag=0": 120}
    assert auc.loc["letter=a", "score"] == 1.0
    assert 0.5 < auc.loc["flag=0", "score"] < 1.0
    assert "rare class" not in set(found["part"])


def test_a_rare_class_is_scored_on_its_own_records(case):
    y = (np.arange(200) < 10).astype(int)
    split = split_of(case, y, np.repeat("none", 200))
    chances = np.where(np.arange(200) < 4, 0.5, 0.1)  # four of the ten stand out
    found = pd.DataFrame(case.scores(split, np.column_stack([1.0 - chances, chances])))
    rare = found[found["part"] == "rare class"].set_index("metric")["score"]
    assert rare["log loss"] == pytest.approx(-0.4 * np.log(0.5) - 0.6 * np.log(0.1))
    # 16 more of the tenth are drawn from 196 records, of which six are of the class
    assert 0.4 <= rare["found"] <= 0.6
    level = pd.DataFrame(case.scores(split, np.full((200, 2), 0.5)))
    level = level[level["metric"] == "found"]["score"].item()
    assert level <= 0.4  # not the first records of the table


def results(case, scores, part="all", n=900, table="T"):
    """A line for each epsilon and model: five private scores, and those of three others."""
    methods = [(case.PLANNED, e) for e in case.EPSILONS] + [(m, np.inf) for m in case.BESIDE]
    shared = {"dataset": table, "n_train": n, "part": part, "metric": "R2"}
    return [
        {
            **shared,
            "method": m,
            "epsilon": e,
            "score": score,
            "records": 500 if part == "all" else 20,
        }
        for (m, e), score in zip(methods, scores, strict=True)
    ]


def test_the_page_says_what_is_kept_and_who_loses_most(case):
    rows = results(case, [0.0, 0.1, 0.2, 0.4, 0.5, 0.4, 0.3, 0.0])
    rows += results(case, [0.3, 0.3, 0.3, 0.3, 0.3, 0.2, 0.3, -0.1], n=9_000, table="U")
    rows += results(case, [0.0, 0.1, 0.1, 0.4, 0.5, 0.6, 0.3, 0.2], part="sex=F")
    rows += results(case, [0.2] * 7 + [0.0], part="sex=M")
    text = case.page(pd.DataFrame(rows))
    lines = text.splitlines()
    assert "| 0 to 300 | 2 | 12% | 0% | 0.350 | 0.400 |" in lines
    assert "| 10,000 to 100,000 | 2 | 100% | 100% | 0.000 | 0.000 |" in lines
    assert "not better on 1 of 2 tables at epsilon 1, and on 2 at epsilon 10" in text
    assert "From 1,000 on the median cell keeps" in text
    assert "less than a tenth is kept on T." in text
    assert "At epsilon 1 the 2 groups of less than a tenth of the records lose 0.250" in text
    assert "whole table: T, sex=F (0.300); T, sex=M (-0.200)." in text
    constants = "0.400 | 0.300 | 0.000 |"
    scores = "**0.000** | 0.100 | 0.200 | 0.400 | 0.500"
    assert f"| T | 900 | R2 | {scores} | {constants}" in lines
    assert lines.index(f"| T | 900 | R2 | {scores} | {constants}") > next(
        i for i, line in enumerate(lines) if line.startswith("| U | 9,000 |")
    )
    assert (
        "| T | sex=F (4%) | R2 | **0.000** | **0.100** | 0.500 | 0.600 | 0.300 | 0.200 |" in lines
    )
    assert "sex=M (" not in text.split("whole table: ")[1].split("\n", 1)[1]
