"""The benchmark runner works and its cases do what they say; nothing is timed."""

import importlib
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")
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
@pytest.mark.parametrize("cases", [CASES[k::6] for k in range(6)], ids=" ".join)
def test_cases_run_quickly_and_can_be_drawn_again(cases, tmp_path):
    """Several cases in one process, as imports take most of the time of some."""
    done = run(*cases, "--quick", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    for case in cases:
        assert f"=== {case}:" in done.stdout
        first, head, *rows = (tmp_path / f"{case}.csv").read_text().splitlines()
        assert first.startswith("# skdp ") and first.endswith("threads 1; quick True")
        assert "," in head and rows
        module = (ROOT / "benchmarks" / "cases" / f"{case}.py").read_text()
        assert (tmp_path / f"{case}.png").exists() == ("def plot(" in module)
    again = run(*cases, "--redraw", "--out", tmp_path)
    assert again.returncode == 0, again.stderr
    heads = [re.findall(r"=== (\w+: \d+ rows)", each.stdout) for each in (done, again)]
    assert heads[0] == heads[1] and len(heads[0]) == len(cases)


@pytest.fixture
def nonlinear(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.cases.nonlinear")


def test_nonlinear_adds_the_best_and_keeps_every_candidate(nonlinear):
    rows = [{"epsilon": 1.0, "selection": "candidate", "mean": mean} for mean in (0.5, 0.7, 0.6)]
    *kept, best = nonlinear.with_best(rows)
    assert kept == rows
    assert best == rows[1] | {"selection": nonlinear.BEST}
    assert "not private" in best["selection"]
    fixed = [{"epsilon": 1.0, "selection": "fixed", "mean": 0.9}]
    assert nonlinear.with_best(fixed) == fixed


@pytest.mark.parametrize("name", ["breast_cancer", "diabetes"])
def test_nonlinear_runs_dp_sgd_on_every_task(nonlinear, name):
    """With next to no noise it predicts better than a constant."""
    (dataset,) = (d for d in nonlinear.data.load(quick=True) if d.name == name)
    split = nonlinear.Split(dataset, 0, dataset.X, dataset.y, dataset.X, dataset.y)
    predicted, again = (nonlinear.fit_dp_sgd((1.0, 60, 2.0, 1.0), 1e3, split) for _ in range(2))
    np.testing.assert_array_equal(predicted, again)
    constant = nonlinear.fit_constant("", math.nan, split)
    scores = [nonlinear.score(split, each)[0] for each in (predicted, constant)]
    assert scores[0] > scores[1] + 0.2


def test_nonlinear_gives_dp_ebm_numbers_and_categories(nonlinear, tmp_path):
    """A stand-in for the other environment's Python gets what the peer is to see."""
    dataset = nonlinear.data.synthetic_additive(300, unit_rows=False)
    split = next(nonlinear.splits(dataset, 1))
    peer = tmp_path / "python"
    peer.write_text(
        f"#!{sys.executable}\nimport sys, numpy as np\n"
        "given = np.load(sys.argv[2])\n"
        "assert given['numbers'].shape[1] == 5 and given['codes'].max() == 3\n"
        "assert sys.argv[4:] == ['3.0', '1e-05', '0'] and list(given['target_range']) == [-5, 8]\n"
        "np.save(sys.argv[3], given['numbers_test'][:, 0])\n"
    )
    peer.chmod(0o755)
    found = nonlinear.fit_dp_ebm(str(peer), "", 3.0, split)
    np.testing.assert_array_equal(found, split.X_test[:, 0])


def test_nonlinear_gives_every_column_the_same_share_of_a_unit_row(nonlinear):
    dataset = nonlinear.data.synthetic_additive(2000, unit_rows=False)
    rows = nonlinear.splines(dataset).fit_transform(dataset.X)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0)
    squares = (rows**2).mean(axis=0)
    shares = np.add.reduceat(squares, range(0, 36, 7))  # 5 numbers of 7 splines, one category
    np.testing.assert_allclose(shares, 1 / 6, atol=0.01)


def test_nonlinear_undoes_the_one_hot_coding(nonlinear):
    X = np.array([[0.5, 1, 0, 0, 0, 1], [-0.5, 0, 0, 0, 1, 0]])
    dataset = nonlinear.data.Dataset("d", X, np.zeros(2), n_numbers=1, blocks=(3, 2))
    numbers, codes = nonlinear.numbers_and_codes(dataset, X)
    np.testing.assert_array_equal(numbers, [[0.5], [-0.5]])
    np.testing.assert_array_equal(codes, [[0, 1], [-1, 0]])


@pytest.fixture
def solvers(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.cases.solvers")


def test_solvers_count_certified_answers_and_stop_what_is_hopeless(solvers, monkeypatch):
    X, targets = solvers.records("logistic", 300, 5, 1.0)
    problem = solvers.make_problem(X, targets, "logistic", 300.0)
    assert problem.constants.smoothness / problem.alpha == pytest.approx(300.0, rel=0.01)
    rows = {row["solver"]: row for row in solvers.race(problem, 1)}
    assert list(rows) == [*solvers.NAMES, "auto"]
    assert rows["newton"]["certified"] and rows["newton"]["hessians"] > 0
    assert all(row["gradients"] % 300 == 0 for name, row in rows.items() if name == "lbfgs")
    best = min(row["ratio_to_best"] for name, row in rows.items() if name != "auto")
    assert best == 1.0
    monkeypatch.setattr(solvers, "NAMES", ("newton", "lbfgs"))
    monkeypatch.setattr(solvers.Newton, "affordable", lambda problem: False)
    rows = {row["solver"]: row for row in solvers.race(problem, 1)}
    assert not rows["newton"]["certified"] and rows["newton"]["note"].startswith("skipped")


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
    point = worst_group.groups.minimax(worst_group.problem_of(data))
    fair = data.scores(worst_group.groups.predicted(point, data.X_test))
    mean = worst_group.LogisticRegression().fit(data.X, data.y).decision_function(data.X_test)
    assert fair["worst_log_loss"] < 0.66 < 1.0 < data.scores(mean)["worst_log_loss"]


@pytest.fixture
def regression(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.cases.worst_group_regression")


def test_worst_group_regression_has_the_largest_error_of_a_group(regression):
    data = regression.conflict(2_000, 0)
    few = data.groups_test == "few"
    loss = regression.worst_loss(data, data.y_test + 0.2 * few)
    clipped = np.clip(data.y_test + 0.2, -1.0, 1.0) - data.y_test
    assert loss == pytest.approx(0.5 * (clipped[few] ** 2).mean())


def test_worst_group_regression_marks_the_best_private_model(regression):
    found = {"plain": 0.3, "gradient": 0.1, "phased": 0.2, "no privacy": 0.05}
    rows = [
        {"data": "made", "method": method, "epsilon": epsilon, "loss": loss + 0.01 * seed}
        for method, loss in found.items()
        for epsilon in ((0.1, 1.0) if method != "no privacy" else (math.inf,))
        for seed in (-1, 1)
    ]
    lines = regression.page(pd.DataFrame(rows)).splitlines()
    assert [line.count("**") // 2 for line in lines[2:5]] == [0, 2, 0]
    assert lines[3].endswith("| 0.050 |")
    assert lines[-1] == "Largest standard error: 0.010 at epsilon 0.1, 0.010 else."
