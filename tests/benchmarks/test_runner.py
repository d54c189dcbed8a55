"""The benchmark runner works and its DP-SGD baseline costs what it claims; nothing is timed."""

import importlib
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
def dp_sgd(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.baselines.dp_sgd")


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


def test_accuracy_adds_the_best_and_keeps_every_candidate(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    accuracy = importlib.import_module("benchmarks.cases.accuracy")
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


@pytest.mark.parametrize("epsilon", [0.3, 3.0])
@pytest.mark.parametrize(("sampling_rate", "steps"), [(0.05, 200), (1.0, 30)])
def test_dp_sgd_noise_honours_the_budget(dp_sgd, epsilon, sampling_rate, steps):
    delta = 1e-5
    multiplier = dp_sgd.noise_multiplier(epsilon, delta, sampling_rate, steps)
    # a finer discretisation than that of the calibration, hence a tighter bound
    spent = dp_sgd.spent_epsilon(multiplier, sampling_rate, steps, delta, interval=2e-4)
    assert spent <= epsilon
    assert spent > 0.97 * epsilon  # no more noise than needed


def test_dp_sgd_clips_each_record(dp_sgd):
    # without noise, one step over all records moves by at most learning_rate / n per record
    setting = dp_sgd.Setting(1.0, 1, learning_rate=1.0, clip_norm=0.5)
    X, y = np.array([[100.0, 0.0], [0.0, 0.1]]), np.array([50.0, -1.0])
    w = dp_sgd.dp_sgd(X, y, "squared", setting, 0.0, np.random.default_rng(0))
    np.testing.assert_allclose(w, [0.5 / 0.5 / 2, -0.1 / 0.5 / 2])


@pytest.mark.parametrize("loss", ["logistic", "softmax", "squared"])
def test_dp_sgd_without_noise_finds_the_direction(dp_sgd, loss):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    positive = X[:, 0] > 0
    targets = {
        "logistic": positive.astype(float),
        "softmax": np.column_stack([~positive, positive]).astype(float),
        "squared": X[:, 0],
    }[loss]
    setting = dp_sgd.Setting(0.5, 100, learning_rate=2.0)
    w = dp_sgd.dp_sgd(X, targets, loss, setting, 0.0, rng)
    scores = X @ w
    predicted = scores[:, 1] > scores[:, 0] if loss == "softmax" else scores > 0
    assert (predicted == positive).mean() > 0.95
