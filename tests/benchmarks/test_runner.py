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
