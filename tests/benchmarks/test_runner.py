"""The benchmark runner works and its cases do what they say; nothing is timed."""

import importlib
import math
import os
import subprocess
import sys
import time
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
def slopes(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.cases.slopes")


@pytest.mark.parametrize(
    ("family", "in_n", "in_d", "in_root_d"),
    [
        ("F", -1, 1, 1 / 2),
        ("H", -2, 2, 1),
        ("G", -1 / 2, 1 / 2, 1 / 4),
        ("J", -2 / 3, 2 / 3, 1 / 3),
    ],
)
def test_slopes_theory_is_that_of_the_paper(slopes, family, in_n, in_d, in_root_d):
    # Lowy and Razaviyayn (2021), Table 5 and 6
    rate, grid = slopes.RATES[family], (10, 20, 40)
    assert slopes.slope(grid, [rate(n, 3.0) for n in grid]) == pytest.approx(in_n)
    for delta, expected in [(0.0, in_d), (1e-6, in_root_d)]:
        budget = slopes.PrivacyBudget(1.0, delta)
        rates = [rate(1000, slopes.theory_units(d, budget)) for d in grid]
        assert slopes.slope(grid, rates) == pytest.approx(expected)


@pytest.mark.parametrize("name", ["cone", "quadratic"])
@pytest.mark.parametrize("convex", [False, True])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_slopes_of_tight_instances_are_those_of_the_theory(slopes, name, convex, delta):
    """The same noise at every n, so that a few seeds are enough."""
    family = {"cone": "FG", "quadratic": "HJ"}[name][convex]
    grid, budget = (20_000, 40_000, 80_000), slopes.PrivacyBudget(1.0, delta)
    found = [getattr(slopes, name)(n, 4, budget, 5, convex) for n in grid]
    means = [measured.excess.mean() for measured in found]
    theory = slopes.slope(grid, [slopes.RATES[family](n, 1.0) for n in grid])
    assert slopes.slope(grid, means) == pytest.approx(theory, abs=0.05)
    assert all(0.0 < mean < 4.0 * f.bound for mean, f in zip(means, found, strict=True))


@pytest.mark.slow
def test_slopes_minimum_of_a_linear_model_is_one(slopes):
    for model in (slopes.HINGE, slopes.LOGISTIC, slopes.ABSOLUTE, slopes.SQUARED):
        given = slopes.Sample(model, 500, 3)
        points = np.random.default_rng(0).standard_normal((200, 3))
        points *= (model.radius * np.linspace(0.1, 1.0, 200) / np.linalg.norm(points, axis=1))[
            :, None
        ]
        for alpha in (0.0, 0.1):
            assert slopes.excess_of(given, points, alpha).min() > 0.0
    exact = slopes.Sample(slopes.EXACT, 500, 3)
    assert exact.least(0.0) == pytest.approx(0.0, abs=1e-6)


def test_slopes_need_positive_values(slopes):
    assert np.isnan(slopes.slope((1, 2), (1.0, 0.0)))
    assert slopes.slope((1, 10, 100), (3.0, 0.3, 0.03)) == pytest.approx(-1.0)


@pytest.fixture
def phased_scale(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.cases.phased_scale")


def test_phased_scale_compares_with_the_smallest_n(phased_scale):
    def sample(seconds, cpu):
        return phased_scale.Sample(seconds, cpu, 0.0, 160.0, 80.0, 320.0, 2)

    rounds = [{10: sample(2.0, 1.0), 100: sample(2.0 * r, 3.0 * r)} for r in (8.0, 30.0, 9.0)]
    smallest, larger = (phased_scale.row(rounds, "ridge", "mapped", n, 2) for n in (10, 100))
    assert [smallest[key] for key in ("n_ratio", "time_ratio", "cpu_ratio")] == [1.0, 1.0, 1.0]
    assert larger["n_ratio"] == 10.0
    assert [larger[f"time_ratio{end}"] for end in ("", "_min", "_max")] == [9.0, 8.0, 30.0]
    assert larger["cpu_ratio"] == 27.0
    assert (smallest["extra_over_X"], smallest["total_over_X"]) == (1.0, 2.0)


@pytest.mark.slow
def test_phased_scale_sees_what_is_allocated(phased_scale):
    if phased_scale.resident_bytes("RssAnon") is None:
        pytest.skip("no /proc/self/status")
    size = 1 << 26
    with phased_scale.AnonymousPeak() as watched:
        held = np.ones(size, dtype=np.uint8)
        time.sleep(10 * phased_scale._SAMPLING_SECONDS)
        del held
    assert 0.9 * size < watched.growth < 1.5 * size


def test_phased_scale_writes_chunks_of_one_data_set(phased_scale, tmp_path, monkeypatch):
    phased_scale.write_records(tmp_path, 1000, 3)
    X, labels, y = (np.load(tmp_path / f"{name}.npy") for name in ("X", "logistic", "ridge"))
    assert X.shape == (1000, 3)
    assert set(labels) == {0.0, 1.0}
    assert np.abs(y).max() <= 1.0
    assert 0.2 < (np.linalg.norm(X, axis=1) > 1.0).mean() < 0.8
    assert np.linalg.norm(X, axis=1).min() > 0.0
    monkeypatch.setattr(phased_scale, "_CHUNK", 300)
    phased_scale.write_records(tmp_path, 1000, 3)
    assert np.linalg.norm(np.load(tmp_path / "X.npy"), axis=1).min() > 0.0


@pytest.fixture
def saddle_data(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.saddle_data")


@pytest.mark.parametrize("diagonal", [(0.0, 0.0, 0.0), (2.0, 0.5, 0.0), (1.0, 1.0, 3.0)])
@pytest.mark.parametrize("size", [0.0, 0.1, 3.0])
def test_saddle_data_least_of_a_quadratic_on_the_ball(saddle_data, diagonal, size):
    diagonal, rng = np.array(diagonal), np.random.default_rng(0)
    slope = rng.standard_normal(3)
    slope *= size / np.linalg.norm(slope)
    w = rng.standard_normal((200_000, 3))
    w *= (rng.random((len(w), 1)) ** 0.2) / np.linalg.norm(w, axis=1, keepdims=True)
    values = 0.5 * (w**2) @ diagonal + w @ slope
    least = saddle_data.least(diagonal, slope)
    assert least <= values.min() + 1e-12
    assert least == pytest.approx(values.min(), abs=0.02)


@pytest.mark.parametrize("name", ["interior", "boundary", "flat", "quadratic", "groups"])
def test_saddle_data_gaps_are_zero_at_the_saddle_point_only(saddle_data, name):
    from skdp.solvers import solve_certified

    make = {"quadratic": saddle_data.quadratic, "groups": saddle_data.groups}
    given = make[name](3000) if name in make else saddle_data.bilinear(name, 3000, scale=0.1)
    weak = given.problem.with_regularisers(1e-5, 1e-5)
    found = solve_certified(weak, 1e-6)
    at_start = given.measures(*given.problem.start())
    at_solution = given.measures(found.x, found.y)
    assert {"duality gap, records", "duality gap, distribution"} <= set(at_start)
    for measure, value in at_solution.items():
        assert value > -1e-7
        if measure.endswith("records"):
            assert value < 1e-4 < 0.02 * at_start[measure]


def test_saddle_data_quadratic_is_the_derivative_of_its_value(saddle_data):
    problem = saddle_data.quadratic(50, mu=0.3).problem
    rng = np.random.default_rng(0)
    x, y = 0.3 * rng.standard_normal(4), 0.3 * rng.standard_normal(3)
    slopes, step = problem.operator(x, y), 1e-6
    for i in range(4):
        e = step * np.eye(4)[i]
        change = (problem.value(x + e, y) - problem.value(x - e, y)) / (2.0 * step)
        assert slopes[0][i] == pytest.approx(change, abs=1e-8)
    for i in range(3):
        e = step * np.eye(3)[i]
        change = (problem.value(x, y + e) - problem.value(x, y - e)) / (2.0 * step)
        assert -slopes[1][i] == pytest.approx(change, abs=1e-8)
    halves = [problem.batch_operator(slice(j, 50, 2), x, y) for j in range(2)]
    for whole, first, second in zip(problem.data_operator(x, y), *halves, strict=True):
        np.testing.assert_allclose(whole, 0.5 * (first + second), atol=1e-14)
    # the public constants bound every record's operator, and the difference of two
    singles = [problem.batch_operator(slice(i, i + 1), x, y) for i in range(50)]
    (range_x, range_y), c = problem.constants.ranges[0], problem.constants
    for block, bound, width in ((0, c.x.lipschitz, range_x), (1, c.y.lipschitz, range_y)):
        slopes = np.array([single[block] for single in singles])
        assert np.linalg.norm(slopes, axis=1).max() <= bound
        apart = np.linalg.norm(slopes[:, None] - slopes[None], axis=2).max()
        assert apart <= width


def test_saddle_data_counts_operators_and_hessians(saddle_data):
    from skdp.solvers.saddle import BestResponse, Extragradient

    counts = []
    for solver in (Extragradient(), BestResponse("newton")):
        counter = saddle_data.Counter()
        problem = saddle_data.watched(saddle_data.groups(500, 3).problem, counter)
        solver._solve(problem, 1e-3, problem.start(), np.random.default_rng(0))
        assert counter.operators > 0 and counter.operators % 500 == 0
        counts.append(counter.hessians)
    assert counts[0] == 0 < counts[1]
    short = saddle_data.Counter(limit=600)
    problem = saddle_data.watched(saddle_data.groups(500, 3).problem, short)
    with pytest.raises(saddle_data.OutOfWork):
        Extragradient()._solve(problem, 1e-6, problem.start(), np.random.default_rng(0))


@pytest.fixture
def saddle_gradients(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.cases.saddle_gradients")


def test_saddle_gradients_formulas_have_the_exponents_of_table_2(saddle_gradients):
    # Zhang et al. (2022), Table 2, Alg. 3 at kappa = sqrt(n)
    large = np.array([1e40, 1e42])
    for name, contestant in saddle_gradients.CONTESTANTS.items():
        if contestant.leading is None:
            assert name == "Best response, Newton"
            continue
        work = [contestant.leading(n, n**0.5, n**0.5, n**0.5, 1.0) for n in large]
        expected = float(contestant.alg3)
        assert saddle_gradients.slope(large, work) == pytest.approx(expected, abs=0.01)


def test_saddle_gradients_fit_leaves_out_what_was_not_certified(saddle_gradients):
    row = {"problem": "p", "algorithm": "Alg. 3", "solver": "SVRG", "quick": False}
    row |= {"certified": True, "kappa": 1.0, "formula": 2.0, "seconds": 1.0}
    rows = [row | {"n": n, "evaluations": 5.0 * n**1.5} for n in (10_000, 100_000)]
    rows.append(row | {"n": 1_000_000, "evaluations": 1.0, "certified": False})
    rows.append(row | {"n": 1_000, "evaluations": 1.0})  # another size of batches
    (fit,) = saddle_gradients.exponents(pd.DataFrame(rows)).to_dict("records")
    assert (fit["points"], fit["largest n"]) == (2, 100_000)
    assert fit["exponent"] == pytest.approx(1.5)


@pytest.fixture
def saddle_gap(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.cases.saddle_gap")


def test_saddle_gap_compares_the_joint_release_with_the_baseline(saddle_gap):
    row = {"problem": "p", "measure": "duality gap, records", "n": 10, "epsilon": 1.0}
    row |= {"passes": 4.0, "hessian_passes": 1.0, "cheapest_passes": 2.0, "standard_error": 0.1}
    means = {saddle_gap.JOINT: 3.0, saddle_gap.BOTH: 1.0, saddle_gap.SGDA: 2.0}
    rows = [row | {"method": method, "mean": mean} for method, mean in means.items()]
    rows.append(row | {"method": saddle_gap.PAPER, "mean": math.nan})
    (found,) = saddle_gap.compared(pd.DataFrame(rows)).to_dict("records")
    assert found["ratio"] == 1.5
    assert found["passes ours"] == 5.0
    assert found["+-"] == pytest.approx(2 * 1.5 * math.hypot(0.1 / 3, 0.1 / 2))
    assert saddle_gap.verdict(found) == "above"
    assert saddle_gap.verdict(found | {"ratio": 1.1}).startswith("level")


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
