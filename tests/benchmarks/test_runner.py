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
        timeout=300,
    )


@pytest.fixture
def accuracy(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.cases.accuracy")


def test_list_names_every_case():
    done = run("--list")
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == CASES


def test_unknown_case_is_refused():
    done = run("no_such_case")
    assert done.returncode == 2
    assert "no_such_case" in done.stderr


@pytest.mark.parametrize("case", CASES)
def test_case_runs_quickly_and_writes_its_table_and_figure(case, tmp_path):
    done = run(case, "--quick", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert case in done.stdout
    table = pd.read_csv(tmp_path / f"{case}.csv")
    assert len(table) > 0
    assert {"skdp", "scikit-learn", "threads", "quick"} <= set(table.columns)
    assert table["quick"].all()
    assert (tmp_path / f"{case}.png").stat().st_size > 0


def test_accuracy_adds_the_best_and_keeps_every_candidate(accuracy):
    rows = [
        {"method": method, "epsilon": 1.0, "selection": selection, "mean": mean}
        for method, selection, mean in [
            ("a", "fixed", 0.9),
            ("b", "candidate", 0.5),
            ("b", "candidate", 0.7),
        ]
    ]
    *kept, best = accuracy.with_best(rows)
    assert kept == rows
    assert best == rows[2] | {"selection": accuracy.BEST}
    assert "not private" in best["selection"]


@pytest.mark.parametrize("name", ["breast_cancer", "digits", "diabetes"])
def test_accuracy_runs_dp_sgd_on_every_task(accuracy, name):
    """With next to no noise it predicts better than a constant."""
    (dataset,) = (d for d in accuracy.data.load(quick=True) if d.name == name)
    setting = accuracy.Setting(1.0, 60, learning_rate=2.0)
    fit = accuracy.dp_sgd_fit(dataset)
    predict, again = (fit(setting, 1e3, dataset.X, dataset.y, seed=0) for _ in range(2))
    np.testing.assert_array_equal(predict(dataset.X), again(dataset.X))
    constant = accuracy.constant_fit(dataset)(None, math.nan, dataset.X, dataset.y, 0)
    scores = [accuracy.score(dataset, f(dataset.X), dataset.y)[0] for f in (predict, constant)]
    assert scores[0] > scores[1] + 0.2
    assert str(setting) == "sampling_rate=1 steps=60 learning_rate=2 clip_norm=1"


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
        row | {"solver": "auto", "seconds": 2.0},
        row | {"solver": "scikit-learn saga", "seconds": 0.5},
    ]
    auto = solvers.auto_row(point, timed)
    assert (auto["auto_is"], auto["best_solver"]) == ("lbfgs", "lbfgs")
    assert auto["ratio_to_best"] == 2.0
