"""The benchmark runner works and its cases do what they say; nothing is timed."""

import importlib
import math
import os
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
def test_cases_run_quickly_and_write_their_tables_and_figures(cases, tmp_path):
    """Several cases in one process, as imports take most of the time of some."""
    done = run(*cases, "--quick", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    for case in cases:
        assert f"=== {case}:" in done.stdout
        table = pd.read_csv(tmp_path / f"{case}.csv")
        assert len(table) > 0
        assert {"skdp", "scikit-learn", "threads", "quick"} <= set(table.columns)
        assert table["quick"].all()
        assert (tmp_path / f"{case}.png").stat().st_size > 0


@pytest.fixture
def methods(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.methods")


def test_methods_add_the_best_and_keep_every_candidate(methods):
    rows = [
        {"method": method, "epsilon": 1.0, "selection": selection, "mean": mean}
        for method, selection, mean in [
            ("a", "fixed", 0.9),
            ("b", "candidate", 0.5),
            ("b", "candidate", 0.7),
        ]
    ]
    *kept, best = methods.with_best(rows)
    assert kept == rows
    assert best == rows[2] | {"selection": methods.BEST}
    assert "not private" in best["selection"]


@pytest.mark.parametrize("name", ["breast_cancer", "digits", "diabetes"])
def test_methods_run_dp_sgd_on_every_task(methods, name):
    """With next to no noise it predicts better than a constant."""
    (dataset,) = (d for d in methods.data.load(quick=True) if d.name == name)
    setting = methods.Setting(1.0, 60, learning_rate=2.0)
    fit = methods.dp_sgd_fit(dataset)
    predict, again = (fit(setting, 1e3, dataset.X, dataset.y, seed=0) for _ in range(2))
    np.testing.assert_array_equal(predict(dataset.X), again(dataset.X))
    constant = methods.constant_fit(dataset)(None, math.nan, dataset.X, dataset.y, 0)
    scores = [methods.score(dataset, f(dataset.X), dataset.y)[0] for f in (predict, constant)]
    assert scores[0] > scores[1] + 0.2
    assert str(setting) == "sampling_rate=1 steps=60 learning_rate=2 clip_norm=1"


@pytest.fixture
def nonlinear(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.cases.nonlinear")


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


@pytest.mark.parametrize(
    ("solver", "at_sqrt_n", "at_n"),
    [
        ("gradient_descent", 1.5, 2.0),
        ("accelerated_gradient", 1.25, 1.5),
        ("svrg", 1.0, 1.0),
        ("katyusha", 1.0, 1.0),
    ],
)
def test_solvers_theory_is_that_of_the_paper(solvers, solver, at_sqrt_n, at_n):
    # Zhang et al. (2022), Remark 1
    theory = solvers.THEORY[solver]
    assert theory.exponent(0.5) == pytest.approx(at_sqrt_n, abs=0.01)
    assert theory.exponent(1.0) == pytest.approx(at_n, abs=0.01)


def test_solvers_fit_leaves_out_what_was_skipped_or_not_certified(solvers):
    row = {"part": "gradients", "solver": "svrg", "batch": "16", "kappa": "n", "certified": True}
    rows = [
        row | {"n": n, "gradients": 7.0 * n**1.5, "records_per_batch": 16} for n in (10, 100, 1000)
    ]
    rows.append(rows[0] | {"n": 10_000, "gradients": np.nan, "certified": np.nan})
    rows.append(rows[0] | {"n": 10_000, "gradients": 1.0, "certified": False})
    (fit,) = solvers.exponents(pd.DataFrame(rows), 10).to_dict("records")
    assert fit["points"] == 3
    assert fit["exponent"] == pytest.approx(1.5)
    assert fit["theory here"] == pytest.approx(1.0)  # 17 n


def test_solvers_auto_is_compared_with_certified_answers_only(solvers):
    point = solvers.QUICK.points[0]
    row = {"certified": True, "gradients": 5, "hessians": 0, "note": ""}
    timed = [
        row | {"solver": "newton", "seconds": 0.1, "certified": False, "gradients": 1},
        row | {"solver": "lbfgs", "seconds": 1.0},
        row | {"solver": "svrg", "seconds": 4.0, "gradients": 6},
        row | {"solver": "auto", "seconds": 2.0, "ratio_to_best": 1.9},
        row | {"solver": "scikit-learn saga", "seconds": 0.5},
    ]
    auto = solvers.auto_row(point, timed)
    assert (auto["auto_is"], auto["best_solver"]) == ("lbfgs", "lbfgs")
    assert auto["ratio_to_best"] == 1.9  # of the pairs


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
    fair = data.scores(worst_group.margins_of(data, worst_group.minimax(data)))
    mean = worst_group.LogisticRegression().fit(data.X, data.y).decision_function(data.X_test)
    assert fair["worst_log_loss"] < 0.66 < 1.0 < data.scores(mean)["worst_log_loss"]


@pytest.fixture
def regression(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.cases.worst_group_regression")


def test_worst_group_regression_has_the_largest_error_of_a_group(regression):
    data = regression.conflict(2_000, 0)
    few = data.groups[2_000:] == "few"
    loss = data.worst_loss(lambda X: data.y[2_000:] + 0.2 * few)
    clipped = np.clip(data.y[2_000:] + 0.2, -1.0, 1.0) - data.y[2_000:]
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
