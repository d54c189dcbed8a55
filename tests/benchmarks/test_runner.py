"""The benchmark runner works and its cases do what they say; nothing is timed."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

pd = pytest.importorskip("pandas")
pytest.importorskip("dp_accounting")

ROOT = Path(__file__).parents[2]
CASES = sorted(
    path.stem for path in (ROOT / "benchmarks" / "cases").glob("*.py") if path.stem != "__init__"
)


def run(*arguments):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "run.py"), *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,  # against hangs
    )


@pytest.mark.slow
def test_list_names_every_case():
    done = run("--list")
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == CASES


def test_data_sets_are_prepared_as_in_the_examples(monkeypatch):
    """The quickstart and the benchmarks declare the same ranges of the cell nuclei."""
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    data, quickstart = map(importlib.import_module, ("benchmarks.data", "quickstart"))
    assert np.array_equal(data.BREAST_CANCER, quickstart.CELL_NUCLEUS_RANGES)


def test_unknown_case_is_refused():
    done = run("no_such_case")
    assert done.returncode == 2
    assert "no_such_case" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("cases", [CASES[k::4] for k in range(4)], ids=" ".join)
def test_cases_run_quickly_and_can_be_read_again(cases, tmp_path):
    """Several cases in one process, as imports take most of the time of some."""
    done = run(*cases, "--quick", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    for case in cases:
        assert f"=== {case}:" in done.stdout
        first, head, *rows = (tmp_path / f"{case}.csv").read_text().splitlines()
        assert first.startswith("# skdp ") and first.endswith("threads 1; quick True")
        assert "," in head and rows
    again = run(*cases, "--redraw", "--out", tmp_path)
    assert again.returncode == 0, again.stderr
    heads = [re.findall(r"=== (\w+: \d+ rows)", each.stdout) for each in (done, again)]
    assert heads[0] == heads[1] and len(heads[0]) == len(cases)


@pytest.fixture
def tabular(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.cases.tabular")


def mixed(tabular, n):
    """Five numbers, and a category of four values as one-hot columns."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, n)[:, None] == np.arange(4)
    X = np.hstack([rng.uniform(-1.0, 1.0, (n, 5)), codes])
    parts = {"target_range": (-5.0, 8.0), "n_numbers": 5, "blocks": (4,)}
    return tabular.Dataset("mixed", X, X[:, 0], **parts)


def test_dp_ebm_gets_numbers_and_categories(tabular, tmp_path):
    """A stand-in for the other environment's Python gets what the peer is to see."""
    split = next(tabular.splits(mixed(tabular, 300), 1))
    peer = tmp_path / "python"
    peer.write_text(
        f"#!{sys.executable}\nimport sys, numpy as np\n"
        "given = np.load(sys.argv[2])\n"
        "assert given['numbers'].shape[1] == 5 and given['codes'].max() == 3\n"
        "assert sys.argv[4:] == ['3.0', '1e-05', '0'] and list(given['target_range']) == [-5, 8]\n"
        "np.save(sys.argv[3], given['numbers_test'][:, 0])\n"
    )
    peer.chmod(0o755)
    found = tabular.fit_dp_ebm(str(peer), 3.0, split)
    np.testing.assert_array_equal(found, split.X_test[:, 0])


def test_splines_give_every_column_the_same_share_of_a_unit_row(tabular):
    dataset = mixed(tabular, 2000)
    rows = tabular.splines(dataset).fit_transform(dataset.X)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0)
    squares = (rows**2).mean(axis=0)
    shares = np.add.reduceat(squares, range(0, 36, 7))  # 5 numbers of 7 splines, one category
    np.testing.assert_allclose(shares, 1 / 6, atol=0.01)


def test_the_one_hot_coding_is_undone(tabular):
    X = np.array([[0.5, 1, 0, 0, 0, 1], [-0.5, 0, 0, 0, 1, 0]])
    dataset = tabular.Dataset("d", X, np.zeros(2), n_numbers=1, blocks=(3, 2))
    numbers, codes = tabular.numbers_and_codes(dataset, X)
    np.testing.assert_array_equal(numbers, [[0.5], [-0.5]])
    np.testing.assert_array_equal(codes, [[0, 1], [-1, 0]])


@pytest.fixture
def worst_group(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.cases.worst_group")


def test_worst_group_scores_are_those_of_the_worst_group(worst_group):
    data = worst_group.conflict(10, 0.5, 1000)
    perfect = np.where(data.y_test == 1, 50.0, -50.0)
    few = data.groups_test == "minority"
    scores = data.scores(np.where(few, -perfect, perfect))
    assert scores["worst_group"] == "minority"
    assert (scores["worst_accuracy"], scores["worst_log_loss"]) == (0.0, 50.0)
    assert scores["accuracy"] == pytest.approx((~few).mean())


def test_worst_group_conflict_is_one(worst_group):
    """The minority does badly unless it is asked for."""
    data = worst_group.conflict(4000, 0.1, 4000)
    point = worst_group.minimax(worst_group.problem_of(data))
    fair = data.scores(worst_group.predicted(point, data.X_test))
    mean = LogisticRegression().fit(data.X, data.y).decision_function(data.X_test)
    assert fair["worst_log_loss"] < 0.66 < 1.0 < data.scores(mean)["worst_log_loss"]
