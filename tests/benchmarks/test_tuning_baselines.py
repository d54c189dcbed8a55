"""Baselines of private tuning: accounting, selection and the law of the number of runs."""

import importlib
import math
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("dp_accounting")

from scipy.optimize import brentq

from skdp.linear_model import DPLogisticRegression, DPRidge
from skdp.mechanisms import gaussian_noise_multiplier
from skdp.methods import OutputPerturbation
from skdp.privacy import GaussianEvent, PureEvent
from skdp.privacy.gaussian_dp import gaussian_epsilon

ROOT = Path(__file__).parents[2]
DELTA = 1e-6
SHAPES = (0.0, 0.5, 1.0, math.inf)


@pytest.fixture
def baselines(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.tuning_baselines")


@pytest.fixture
def case(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.cases.tuning")


def fits(baselines, logistic=False, n=2000, d=6, groups=None):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    scores = X[:, 0] * math.sqrt(d)
    if logistic:
        y = (rng.random(n) < 1 / (1 + np.exp(-3 * scores))).astype(float)
    else:
        y = np.clip(0.4 * scores + 0.1 * rng.standard_normal(n), -1, 1)
    return baselines.BaseFits(X, y, logistic, groups)


# --------------------------------------------------------------------------------------- accounting


@pytest.mark.mostly("slow", 1)
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
@pytest.mark.parametrize("logistic", [False, True])
def test_every_baseline_spends_at_most_the_budget_and_nearly_all_of_it(
    baselines, logistic, epsilon
):
    groups = np.arange(6) // 3
    data = fits(baselines, logistic, n=300, groups=groups)
    for name, baseline in baselines.baselines(logistic, 2).items():
        choice = baseline(data, epsilon, DELTA, np.random.default_rng(0))
        assert choice.weights.shape == (7,)
        if name == "constant":
            assert choice.event is None
            continue
        spent = baselines.total_epsilon(choice.event, DELTA)
        assert (1 - 1e-4) * epsilon <= spent <= epsilon * (1 + 1e-9), name


def test_adassp_parameters_add_up_to_the_budget(baselines):
    """Three Gaussian releases: the sum of squares is that of one release of the whole budget."""
    choice = baselines.adassp(fits(baselines), 1.0, DELTA, np.random.default_rng(0))
    assert choice.event.count == 3
    mu_squared = 3 / choice.event.event.noise_multiplier**2
    assert mu_squared == pytest.approx(gaussian_noise_multiplier(1.0, DELTA) ** -2, rel=1e-12)


@pytest.mark.search
def test_adassp_sensitivities_by_search(baselines):
    """Replaced records move A'A, A'b and the least eigenvalue no further than claimed."""
    rng = np.random.default_rng(0)
    reached = np.zeros(3)
    for trial in range(3000):
        d = 2 if trial % 2 else 3
        rows = rng.standard_normal((2, d))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        if trial % 3 == 0:  # the extremes: orthogonal rows, opposite ones
            rows[1] = rows[0][::-1] * np.where(np.arange(d) % 2, -1, 1) if d == 2 else -rows[0]
        signs = rng.choice([-1.0, 1.0], 2)
        moments = [np.outer(row, row) for row in rows]
        base = 0.5 * np.diag(rng.random(d))
        least = [np.linalg.eigvalsh(base + moment)[0] for moment in moments]
        moved = (
            np.linalg.norm(moments[0] - moments[1]) / math.sqrt(2),
            np.linalg.norm(signs[0] * rows[0] - signs[1] * rows[1]) / 2,
            abs(least[0] - least[1]),
        )
        reached = np.maximum(reached, moved)
    assert (reached <= 1 + 1e-12).all()
    assert (reached[:2] > 0.999).all()


@pytest.mark.parametrize("shape", [0.0, 1.0])
def test_repeated_pure_runs_cost_what_the_theorem_says(baselines, shape, monkeypatch):
    """Liu and Talwar: 3 epsilon for geometric repetitions; (2 + shape) epsilon in general.

    Rényi orders tend to infinity in the limit, where the theorem on them is that statement.
    """
    import dp_accounting

    monkeypatch.setattr(baselines, "ORDERS", tuple(np.geomspace(1.1, 1e9, 200)))
    monkeypatch.setattr(
        baselines, "_converted", lambda event: dp_accounting.LaplaceDpEvent(1 / event.epsilon)
    )
    event = baselines.RepeatAndSelect(PureEvent(0.5, "replace_one"), 10.0, shape)
    spent = baselines.total_epsilon.__wrapped__(event, 1e-300)
    assert spent == pytest.approx((2 + shape) * 0.5, rel=1e-4)


@pytest.mark.mostly("slow", 1)
@pytest.mark.parametrize("shape", [0.0, 1.0, math.inf])
def test_repetition_costs_more_than_one_run_and_less_than_all(baselines, shape):
    event = baselines.calibrated_base(1.0, DELTA, 10.0, shape)
    mu = math.sqrt(sum(part.noise_multiplier**-2 for part in event.base.events))
    one = gaussian_epsilon(DELTA, mu)
    assert 1.5 * one < 1.0 < gaussian_epsilon(DELTA, math.sqrt(10.0) * mu)


def test_repeat_and_select_formula_of_papernot_and_steinke(baselines):
    """Theorem 2, written out, on the accountant's orders."""
    mu, mean = 0.1, 10.0
    orders = np.array(baselines.ORDERS)
    rdp = 0.5 * mu**2 * orders
    for shape, gamma in ((1.0, 0.1), (0.0, None)):
        if gamma is None:  # (1 / gamma - 1) / log(1 / gamma) == mean
            gamma = 1 / brentq(lambda g: (g - 1) / math.log(g) - mean, 1.1, 1e4, xtol=1e-9)
        extra = (1 + shape) * ((1 - 1 / orders) * rdp + math.log(1 / gamma) / orders).min()
        total = rdp + extra + math.log(mean) / (orders - 1)
        epsilon = total + np.log1p(-1 / orders) - np.log(DELTA * orders) / (orders - 1)
        event = baselines.RepeatAndSelect(GaussianEvent(1 / mu, "replace_one"), mean, shape)
        assert baselines.total_epsilon(event, DELTA) == pytest.approx(epsilon.min(), rel=1e-4)


# ----------------------------------------------------------------------------------- number of runs


@pytest.mark.mostly("audit", 1)
@pytest.mark.parametrize("shape", SHAPES)
def test_repetitions_have_the_mean_and_the_law(baselines, shape):
    rng = np.random.default_rng(0)
    drawn = np.array([baselines.repetitions(10.0, shape, rng) for _ in range(20_000)])
    assert drawn.mean() == pytest.approx(10.0, abs=5 * drawn.std() / math.sqrt(len(drawn)))
    if shape == math.inf:
        assert drawn.var() == pytest.approx(10.0, rel=0.05)
        return
    assert drawn.min() == 1
    law = baselines.repetition_law(10.0, shape)
    for k in (1, 2, 5, 20):
        expected = law[k - 1]
        error = math.sqrt(expected * (1 - expected) / len(drawn))
        assert (drawn == k).mean() == pytest.approx(expected, abs=5 * error)


def test_special_repetition_laws(baselines):
    k = np.arange(1, 60)
    geometric = baselines.repetition_law(10.0, 1.0)[:59]
    np.testing.assert_allclose(geometric, 0.1 * 0.9 ** (k - 1), rtol=1e-6)
    logarithmic = baselines.repetition_law(10.0, 0.0)[:59]
    q = logarithmic[1] / logarithmic[0] * 2
    np.testing.assert_allclose(logarithmic, q**k / (-k * math.log1p(-q)), rtol=1e-6)
    # the normaliser of Definition 1 at shape 1/2
    law = baselines.repetition_law(10.0, 0.5)
    q = law[1] / law[0] / (1.5 / 2)
    assert law[0] == pytest.approx(0.5 * q / ((1 - q) ** -0.5 - 1), rel=1e-6)


# --------------------------------------------------------------------------------------------- fits


@pytest.mark.parametrize("logistic", [False, True])
def test_base_fits_are_those_of_the_estimators(baselines, logistic):
    data = fits(baselines, logistic)
    found = data.solution(0.1)
    shared = {"method": OutputPerturbation(alpha=0.1), "random_state": 0}
    model, exact = (DPRidge(e, DELTA, **shared) for e in (1.0, 1e12))
    y = data.targets
    if logistic:
        shared["classes"] = [0, 1]
        model, exact = (DPLogisticRegression(e, DELTA, **shared) for e in (1.0, 1e12))
        y = y.astype(int)
    release = model.fit(data.X, y).privacy_.releases[0]
    assert found.sensitivity == release.sensitivity
    np.testing.assert_allclose(
        found.weights[:-1], np.ravel(exact.fit(data.X, y).coef_), atol=2e-3 * found.sensitivity
    )
    draws = np.array([data.release(0.1, 3.0, np.random.default_rng(i)) for i in range(400)])
    assert np.linalg.norm(draws, axis=1).max() <= found.radius * (1 + 1e-12)
    assert draws.std(axis=0) == pytest.approx(3.0 * found.sensitivity, rel=0.2)


def test_base_fit_of_groups_is_the_minimiser(baselines):
    data = fits(baselines, groups=np.arange(6) // 3)
    alphas = (0.3, 0.02)
    w = data.release(alphas, 0.0, np.random.default_rng(0))
    A = np.hstack([data.X, np.full((data.n, 1), 0.1)])
    penalties = np.append(np.repeat(alphas, 3), 0.02)
    exact = np.linalg.solve(A.T @ A / data.n + np.diag(penalties), A.T @ data.targets / data.n)
    np.testing.assert_allclose(w, exact, atol=1e-4)


@pytest.mark.parametrize("logistic", [False, True])
def test_exponential_scores_move_as_claimed(baselines, logistic):
    """Two data sets, one record apart: extreme records, small n, weak penalties."""
    rng = np.random.default_rng(1)
    worst = 0.0
    for trial in range(40):
        data = fits(baselines, logistic, n=8, d=2)
        X, y = data.X.copy(), data.targets.copy()
        X[0] = rng.standard_normal(2)
        X[0] /= np.linalg.norm(X[0])
        y[0] = 1 - y[0] if logistic else rng.choice([-1.0, 1.0])
        other = baselines.BaseFits(X, y, logistic)
        alpha = 0.3 if trial % 2 else 3.0
        scores = [one.score(one.solution(alpha).weights) for one in (data, other)]
        moves = data.score_slope * data.row_norm * data.solution(alpha).sensitivity
        worst = max(worst, abs(scores[0] - scores[1]) / (moves + data.score_bound / data.n))
    assert 0.05 < worst <= 1.0


@pytest.mark.parametrize("logistic", [False, True])
def test_selection_works_without_noise_to_speak_of(baselines, logistic):
    """At a huge epsilon every choice is the alpha with the best score among those tried:

    of exact minimisers, scored on the records that they were fitted to, the weakest.
    """
    data = fits(baselines, logistic, groups=np.arange(6) // 3)
    rng = np.random.default_rng(0)
    epsilon = 1e10
    for name in ("grid, split budget", "exponential mechanism over a grid"):
        choice = baselines.baselines(logistic)[name](data, epsilon, DELTA, rng)
        assert choice.penalty == min(choice.asked), name
    for shape in (0.0, 1.0):
        baseline = baselines.repeat_and_select(30.0, shape)
        choice = baseline(data, epsilon, DELTA, rng)
        assert choice.penalty == min(choice.asked)
        assert choice.runs == len(choice.asked)
    several = baselines.repeat_and_select(20.0, 1.0, (0.01, 1.0), 2)
    chosen = several(data, epsilon, DELTA, rng)
    # all signal is in the first group
    assert chosen.penalty[0] == min(one[0] for one in chosen.asked) == 0.01
    assert data.score(chosen.weights) < data.score(np.zeros(7))


def test_adassp_is_least_squares_without_noise_to_speak_of(baselines):
    data = fits(baselines)
    choice = baselines.adassp(data, 1e8, DELTA, np.random.default_rng(0))
    A = np.hstack([data.X, np.full((data.n, 1), 0.1)])
    exact = np.linalg.lstsq(A, data.targets, rcond=None)[0]
    assert choice.penalty == 0.0
    np.testing.assert_allclose(choice.weights, exact, atol=1e-3)


# ----------------------------------------------------------------------------------------- the case


def test_the_summary_counts_points_and_names_those_that_are_lost(case):
    pd = pytest.importorskip("pandas")
    row = {"part": "loss", "model": "ridge", "dataset": "a", "d": 5, "penalty_groups": 1}
    row |= {"epsilon": 1.0, "n_seeds": 4, "mean": 0.3, "default_minus_std": 0.02}
    rows = []
    for n, differences in ((500, (1.0,)), (10_000, (-0.1, 0.019)), (20_000, (-0.1, 0.021))):
        rows.append(row | {"n": n, "method": "default", "role": case.OURS, "mean": 0.25})
        for i, difference in enumerate(differences):
            other = {"n": n, "method": f"b{i}", "role": case.BASELINE}
            rows.append(row | other | {"default_minus": difference})
        for name in ("constant", "no privacy"):
            rows.append(row | {"n": n, "method": name, "role": case.PUBLIC, "mean": len(name)})
    time = {"part": "time", "model": "ridge", "n": 100, "d": 5, "time_ratio": 0.5}
    text = case.summarise(pd.DataFrame([*rows, time]))
    assert "at 1 of 2 points with n >= 10000" in text
    assert "at 0 its mean is" in text
    behind = text.split("It is behind:")[1].split("\n\n")[0]
    assert "20000" in behind and " b1" in behind and " b0" not in behind
    assert "0.50 times" in text


@pytest.mark.parametrize("kind", ["isotropic", "decay", "heavy", "groups"])
def test_synthetic_records_keep_their_public_bounds(case, kind):
    for logistic in (False, True):
        records = case.synthetic(kind, logistic, 2000, 32)(3)
        norms = np.linalg.norm(np.vstack([records.X, records.X_test]), axis=1)
        assert norms.max() <= 1 + 1e-12
        assert kind != "heavy" or 0.01 < (norms > 1 - 1e-12).mean() < 0.5
        assert set(np.unique(records.y)) == {0, 1} if logistic else np.abs(records.y).max() <= 1
        constant = records.y_test.var() if not logistic else 0.25
        assert constant > 0.1


# -------------------------------------------------------------------------------------------- noise


class Zeros:
    """Draws that are all the same, to take the noise of a baseline apart."""

    def __init__(self, part, value):
        self.part, self.value, self.count = part, value, 0

    def standard_normal(self, size=None):
        self.count += 1
        if self.count - 1 == self.part:
            return np.full(size, self.value) if size is not None else self.value
        return np.zeros(size) if size is not None else 0.0


def test_adassp_adds_the_noise_that_it_states(baselines, monkeypatch):
    """Least eigenvalue, above the diagonal, diagonal, vector: one at a time, recovered from what
    is solved. Deviations per orthonormal coordinate: multiplier times X^2, sqrt(2) X^2, 2 X Y."""
    data, epsilon = fits(baselines), 1.0
    solved, solve = [], np.linalg.solve
    monkeypatch.setattr(
        baselines.np.linalg, "solve", lambda A, b: solved.append((A, b)) or solve(A, b)
    )
    for part, value in ((-1, 0.0), (0, -1.0), (1, 1.0), (2, 1.0), (3, 1.0)):
        choice = baselines.adassp(data, epsilon, DELTA, Zeros(part, value))
    multiplier = choice.event.event.noise_multiplier
    square = 1.0 + baselines.INTERCEPT**2
    (A, b), least, above, diagonal, vector = solved
    d = len(b)
    upper = np.triu_indices(d, 1)
    spread = multiplier * math.sqrt(2.0) * square
    # the Frobenius norm has every entry above the diagonal twice
    np.testing.assert_allclose((above[0] - A)[upper] * math.sqrt(2.0), spread, rtol=1e-9)
    np.testing.assert_allclose((above[0] - A).T[upper] * math.sqrt(2.0), spread, rtol=1e-9)
    np.testing.assert_allclose(np.diag(diagonal[0] - A), spread, rtol=1e-9)
    np.testing.assert_allclose(vector[1] - b, multiplier * 2.0 * math.sqrt(square), rtol=1e-9)
    moved = np.diag(least[0] - A)  # the penalty, by the noise of the least eigenvalue
    np.testing.assert_allclose(moved, multiplier * square, rtol=1e-6)


@pytest.mark.slow
def test_scores_of_the_baselines_have_the_noise_that_is_paid_for(baselines, monkeypatch):
    """Scores move by bound / n each: what a constant score plus noise spreads by."""
    data = fits(baselines, n=300)
    monkeypatch.setattr(baselines.BaseFits, "score", lambda self, weights: 0.0)
    seen = []

    class Watched:
        def __init__(self, seed):
            self.rng = np.random.default_rng(seed)

        def standard_normal(self, size=None):
            drawn = self.rng.standard_normal(size)
            seen.append((size, drawn))
            return drawn

    # split budget: k scores are one vector, of sensitivity sqrt(k) bound / n
    grid = baselines.SMALL_GRID
    k, argmin, noisy = len(grid), np.argmin, []
    monkeypatch.setattr(baselines.np, "argmin", lambda a: noisy.append(a) or argmin(a))
    choice = baselines.split_budget()(data, 1.0, DELTA, Watched(0))
    multiplier = choice.event.event.noise_multiplier
    expected = multiplier * math.sqrt(k) * 0.5 / 300
    np.testing.assert_allclose(noisy[-1] / seen[-1][1], expected, rtol=1e-9)
    # repeat and select: the least of the noisy scores of at least 30 runs
    rng = np.random.default_rng(1)
    event = baselines.calibrated_base(1.0, DELTA, 30.0, math.inf)
    score = event.base.events[1].noise_multiplier * 0.5 / 300
    found, kept = [], min
    monkeypatch.setattr(
        baselines, "min", lambda *a, **key: found.append(a[1][0]) or kept(*a, **key), raising=False
    )
    monkeypatch.setattr(baselines.BaseFits, "release", lambda self, *a: np.zeros(7))
    for _ in range(80):
        baselines.repeat_and_select(30.0, math.inf)(data, 1.0, DELTA, rng)
    assert len(found) > 2000
    # 6 standard errors
    assert np.std(found) == pytest.approx(score, rel=6 / math.sqrt(2 * len(found)))


@pytest.mark.parametrize("logistic", [False, True])
def test_scores_are_clipped_to_their_bound(baselines, logistic):
    """A record of an absurd model counts no more than the bound that noise is made for."""
    data = fits(baselines, logistic, n=300)
    for size in (0.0, 1.0, 1e6):
        assert 0.0 < data.score(np.full(7, size)) <= data.score_bound
    assert data.score(np.full(7, 1e6)) > 0.3 * data.score_bound


def test_baseline_of_the_exponential_mechanism_draws_by_its_law(baselines, monkeypatch):
    """Scores that differ by their sensitivity are drawn with odds ``e^(share / 2)``."""
    data = fits(baselines, n=300)
    for key in baselines.STRONG_GRID[:2]:
        data.solution(key)
    first, second = (data.solution(key) for key in baselines.STRONG_GRID[:2])
    slope = data.score_slope * data.row_norm
    moves = max(slope * one.sensitivity for one in (first, second)) + data.score_bound / data.n
    epsilon = 20.0
    run = baselines.exponential_over_grid(baselines.STRONG_GRID[:2])
    event = run(data, epsilon, DELTA, np.random.default_rng(0)).event
    share = event.events[0].epsilon
    multiplier = event.events[1].noise_multiplier
    public = [0.5 * (data.row_norm * multiplier * one.sensitivity) ** 2 for one in (first, second)]

    def score(self, weights):
        return -public[0] if weights is first.weights else moves - public[1]

    monkeypatch.setattr(baselines.BaseFits, "score", score)
    rng = np.random.default_rng(1)
    drawn = [run(data, epsilon, DELTA, rng).penalty for _ in range(3000)]
    wanted = 1.0 / (1.0 + math.exp(-share / 2.0))
    rate = np.mean(np.array(drawn) == baselines.STRONG_GRID[0])
    assert rate == pytest.approx(wanted, abs=5 * math.sqrt(wanted * (1 - wanted) / 3000))
    assert wanted < 0.999
