"""The estimators for the worst group: public plan, budget, law of the noise, audit."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
import scipy.sparse as sp
from group_models import FEW, GROUPS, NAMES, X, Y, classifier, conflicting, every_mode, every_model
from plain_noise import scale_noise, use_plain_noise
from scipy import stats

from skdp.algorithms import MaxGroupLossPlan
from skdp.algorithms.output.saddle import SaddleOutputPerturbationPlan
from skdp.audit import epsilon_lower_bound
from skdp.mechanisms import NoiseSource
from skdp.privacy import tightest_epsilon
from skdp.problems import GroupWeights, HalfSquaredLoss, LogisticLoss, MaxGroupLossProblem, Records
from skdp.robust import DPMaxGroupLossRegressor
from skdp.solvers import solve_certified

#: Most fits here do not care how large the groups are.
pytestmark = pytest.mark.filterwarnings("ignore:group_proportions were not declared")


# ------------------------------------------------------------------------------------ public plan


def other_data(n, d, seed):
    """Unlike X, Y: out of all ranges, one label, nearly one group."""
    rng = np.random.default_rng(seed)
    features = rng.choice([-1e200, 0.0, 3.0], (n, d))
    return features, np.ones(n, dtype=int), np.where(np.arange(n) < n - 1, "few", "most")


@pytest.mark.mostly("slow", 5)
@every_model
@every_mode
@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_report_is_public(model, mode, container):
    """Data sets of one shape, however different, have one report.

    With public groups these must agree; with a histogram those released with the same noise do
    if the sizes of the groups agree.
    """
    reports = []
    for features, y, groups in ((X, Y, GROUPS), other_data(*X.shape, 1), (0 * X, 1 - Y, GROUPS)):
        if mode == "public":
            groups = GROUPS
        elif mode == "histogram":
            groups = np.sort(GROUPS)[:: 1 if features is X else -1]
        for weights in (False, True):
            fitted = model(group_mode=mode, release_group_weights=weights)
            fitted.fit(container(features), y, groups=groups)
            reports.append((json.dumps(fitted.privacy_.to_dict()), fitted.alpha_, weights))
    assert len(set(reports)) == 2
    report = json.loads(reports[0][0])
    assert report["plan"]["group_mode"] == mode
    assert report["plan"]["regularisation"] and report["plan"]["other_regularisation"] > 0


@every_model
@pytest.mark.parametrize("method", ["output", "phased"])
def test_a_fit_plans_once(model, method, monkeypatch):
    plans, create = [], MaxGroupLossPlan.__init__

    def counted(self, *args, **kwargs):
        create(self, *args, **kwargs)
        plans.append(self)

    monkeypatch.setattr(MaxGroupLossPlan, "__init__", counted)
    model(method=method).fit(X, Y, groups=GROUPS)
    assert len(plans) == 1 and math.isfinite(plans[0].bound())


@pytest.mark.slow
def test_public_parameters_show_in_the_report():
    """The comparison above is not empty."""
    reports = set()
    for change in (
        {}, {"epsilon": 2.0}, {"delta": 0.0}, {"data_norm": 2.0}, {"coef_norm": 0.3},
        {"group_proportions": [0.7, 0.3]}, {"max_group_weight": 1.5}, {"group_mode": "floored"},
        {"group_mode": "histogram"}, {"group_mode": "histogram", "histogram_share": 0.2},
        {"release_group_weights": True}, {"alpha": 0.5}, {"method": "output"}, {"loss": "hinge"},
        {"objective": "population"}, {"group_names": [*NAMES, "else"]}, {"fit_intercept": False},
    ):  # fmt: skip
        fitted = classifier(**change).fit(X, Y, groups=GROUPS)
        reports.add(json.dumps(fitted.privacy_.to_dict()))
    assert len(reports) >= 16  # "output" may be what was chosen before


@every_model
def test_report(model):
    features, y, groups = conflicting(3000, 1)
    fitted = model(20.0, coef_norm=2.0).fit(features, y, groups=groups)
    report, plan = fitted.privacy_, fitted.privacy_.plan
    assert report.method == "phased" and len(plan["block_sizes"]) > 1
    assert sum(plan["block_sizes"]) == 3000 == report.releases[0].n_records
    assert fitted.alpha_ == 0.0
    printed = str(report)
    assert "phases: " + ", ".join(map(str, plan["block_sizes"])) in printed
    assert "replace-one" in printed
    once = model(20.0, method="output", alpha=0.25).fit(features, y, groups=groups)
    assert once.privacy_.method == "output"
    assert once.alpha_ == 0.25 + once.privacy_.plan["regularisation"][0]


# ----------------------------------------------------------------------------- releases and budget


@pytest.mark.mostly("slow", 1)
@pytest.mark.parametrize("delta", [1e-5, 0.0])
@every_mode
@every_model
def test_budget_is_spent_and_not_exceeded(model, mode, delta):
    for weights, method, epsilon in itertools.product(
        (False, True), ("output", "phased"), (0.1, 1.0, 20.0)
    ):
        fitted = model(
            epsilon, delta, group_mode=mode, method=method, release_group_weights=weights
        ).fit(X, Y, groups=GROUPS)
        report = fitted.privacy_
        assert (report.epsilon, report.delta) == (epsilon, delta)
        assert len(report.releases) == (2 if mode == "histogram" else 1)
        total = tightest_epsilon(report.event, delta)
        assert 0.999 * epsilon <= total <= epsilon * (1 + 1e-9)
        released = report.releases[-1]
        outputs = 2 if weights else 0
        assert released.dimension == 4 + outputs
        assert ("group weights" in released.name) == weights


@pytest.mark.parametrize("mode", ["proportions", "public", "floored"])
@every_model
def test_published_calibration_is_within_the_budget(model, mode):
    report = model(0.5, calibration="paper", group_mode=mode).fit(X, Y, groups=GROUPS).privacy_
    assert tightest_epsilon(report.event, report.delta) <= 0.5
    assert report.method == "phased" and len(set(report.plan["block_sizes"])) <= 2


@pytest.mark.parametrize("share", [0.1, 0.6])
def test_composition_against_dp_accounting(share):
    """Two Gaussians with the noise that the report states cost epsilon by Google's accountant."""
    dp_accounting = pytest.importorskip("dp_accounting")
    fitted = classifier(1.0, 1e-5, group_mode="histogram", histogram_share=share)
    releases = fitted.fit(X, Y, groups=GROUPS).privacy_.releases
    assert [release.name for release in releases] == ["group proportions", "coefficients"]
    oracle = dp_accounting.pld.PLDAccountant()
    for release in releases:
        multiplier = release.noise_scale / release.sensitivity
        oracle.compose(dp_accounting.GaussianDpEvent(multiplier))
    assert oracle.get_epsilon(1e-5) == pytest.approx(1.0, rel=2e-3)


def problem_of(fitted, features, y, groups):
    """The saddle problem that a one-shot fit without intercept solves."""
    plan = fitted.privacy_.plan
    rows = Records(features, fitted.data_norm_, 0.0)
    loss, targets = LogisticLoss(), np.asarray(y, dtype=float)
    if isinstance(fitted, DPMaxGroupLossRegressor):
        low, high = fitted.target_range
        loss, targets = HalfSquaredLoss(float(max(-low, high))), np.clip(targets, low, high)
    return MaxGroupLossProblem(
        rows.with_targets(targets, np.searchsorted(fitted.group_names_, groups)),
        loss,
        GroupWeights(tuple(plan["largest_group_weights"]), fitted.group_mode == "floored"),
        plan["radius"],
        plan["alpha"] + plan["regularisation"][0],
        plan["other_regularisation"],
    )


@pytest.mark.audit
@every_model
@every_mode
@pytest.mark.parametrize("delta", [1e-3, 0.0])
def test_noise_law(model, mode, delta, monkeypatch):
    """Fits minus the exact solution, in units of the reported scale: standard noise.

    Squared lengths of Gaussian noise add up to a chi-squared number, lengths of spherical Laplace
    noise to a Gamma number. False alarms: 1e-4 per test; the seeds are fixed.
    """
    fits = 60 if mode != "histogram" else 20
    fitted = model(
        30.0, delta, group_mode=mode, method="output", alpha=2.0, fit_intercept=False, coef_norm=2.0
    )
    lengths = []
    exact = None
    for seed in range(fits):
        fitted.set_params(random_state=seed).fit(X, Y, groups=GROUPS)
        release, radius = fitted.privacy_.releases[-1], fitted.privacy_.plan["radius"]
        assert np.linalg.norm(fitted.coef_) < 0.99 * radius  # nothing was projected
        if exact is None or mode == "histogram":
            problem = problem_of(fitted, X, Y, GROUPS)
            exact = solve_certified(problem, 1e-3 * release.noise_scale).x
        lengths.append(np.linalg.norm(np.ravel(fitted.coef_) - exact) / release.noise_scale)
    law, statistic = stats.chi2(3 * fits), float(np.square(lengths).sum())
    if delta == 0:
        law, statistic = stats.gamma(3 * fits), float(np.sum(lengths))
    assert law.ppf(5e-5) <= statistic <= law.isf(5e-5)


@pytest.mark.audit
@pytest.mark.parametrize("delta", [1e-3, 0.0])
def test_noise_law_of_proportions(delta):
    """Proportions are released with the stated noise. False alarms: 1e-4 per test."""
    fits, counts = 40, np.array([FEW.sum(), (~FEW).sum()]) / 120
    fitted = classifier(20.0, delta, group_mode="histogram", max_group_weight=1e9, method="output")
    lengths = []
    for seed in range(fits):
        fitted.set_params(random_state=seed).fit(X, Y, groups=GROUPS)
        release = fitted.privacy_.releases[0]
        released = 1.0 / np.array(fitted.privacy_.plan["largest_group_weights"])
        assert released.min() > 1e-6  # nothing was cut off
        lengths.append(np.linalg.norm(released - counts) / release.noise_scale)
    assert release.sensitivity == pytest.approx(math.sqrt(2) / 120)
    law, statistic = stats.chi2(2 * fits), float(np.square(lengths).sum())
    if delta == 0:
        law, statistic = stats.gamma(2 * fits), float(np.sum(lengths))
    assert law.ppf(5e-5) <= statistic <= law.isf(5e-5)


@pytest.mark.mostly("slow", 3)
@pytest.mark.parametrize("weights", [False, True], ids=["coefficients", "joint"])
@every_mode
def test_phases_are_solutions_plus_scaled_draws(mode, weights, monkeypatch):
    """Each phase draws once, and releases its projected solution plus that, times the scale."""
    drawn, steps, draw = [], [], NoiseSource.standard_normal
    step = SaddleOutputPerturbationPlan.run

    def recorded_draw(self, size):
        drawn.append(draw(self, size))
        return drawn[-1]

    def recorded_step(plan, problem, run):
        steps.append((problem, plan, step(plan, problem, run)))
        return steps[-1][-1]

    use_plain_noise(monkeypatch)
    monkeypatch.setattr(NoiseSource, "standard_normal", recorded_draw)
    monkeypatch.setattr(SaddleOutputPerturbationPlan, "run", recorded_step)
    features, y, groups = conflicting(4000, 3, d=4)
    fitted = classifier(100.0, group_mode=mode, release_group_weights=weights, coef_norm=3.0)
    fitted.fit(features, y, groups=groups)
    report, center = fitted.privacy_, np.zeros(5)
    if mode == "histogram":
        noise, release = drawn.pop(0), report.releases[0]
        sizes = np.array([np.sum(groups == name) for name in fitted.group_names_])
        proportions = sizes / 4000 + release.noise_scale * noise
        np.testing.assert_allclose(
            1 / np.array(report.plan["largest_group_weights"]), np.maximum(proportions, 0.1)
        )
    assert len(drawn) == len(steps) == len(report.plan["block_sizes"]) > 1
    for noise, (problem, plan, result) in zip(drawn, steps, strict=True):
        exact = solve_certified(problem, plan.accuracy)
        np.testing.assert_allclose(problem.center_x, center, atol=1e-12)
        noisy = exact.x + plan.noise_scale_x * noise[:5]
        allowed = 2 * plan.accuracy / math.sqrt(plan.constants.x.modulus)
        center = problem.domain_x.project(noisy)
        assert np.linalg.norm(result.x - center) <= allowed <= 0.05 * plan.noise_scale_x
        assert len(noise) == plan.dimension
        center = result.x
    final = np.r_[fitted.coef_.ravel(), fitted.intercept_ / 0.1]
    np.testing.assert_allclose(final, center, rtol=1e-12)
    assert report.releases[-1].noise_scale == steps[-1][1].mechanism.noise_scale
    if weights:
        weights_released = steps[-1][-1].y
        np.testing.assert_array_equal(fitted.group_weights_, weights_released)
        noisy = exact.y + plan.noise_scale_y * noise[5:]
        np.testing.assert_allclose(
            weights_released, problem.domain_y.project(noisy), atol=0.05 * plan.noise_scale_y
        )


# ------------------------------------------------------------------------------------------ audit


#: Probability that the audit of a correct cell fails; seeds are fixed, so it does or it does not.
RATE = 1e-4
#: Each mode once, and both kinds of noise.
CELLS = [("proportions", 0.1, 0.3), ("histogram", 0.1, 0.3), ("floored", 2.0, 0.0)]
every_cell = pytest.mark.parametrize(("mode", "epsilon", "delta"), CELLS)
N_FITS = 400


def audited_epsilon(mode, epsilon, delta):
    """Attack the coefficients of two neighbours, whose odd record also has another group.

    The two groups pull w in opposite directions, and their losses are nearly equal to their bound
    on a small ball: a record that changes its group moves the weights, and with them w, by about
    0.9 of what is proven. The set that speaks for one side is fixed before the fits: for Gaussian
    noise the half-line where the likelihood ratio under half of the noise exceeds e^epsilon,
    for Laplace noise what is nearer by 0.6 of the distance.
    """
    base = [(1, 1, "most"), (1, 0, "few")] * 50
    exact, counts, points = [], [], []
    for side, record in enumerate([(1, 1, "most"), (-1, 1, "few")]):
        features, y, groups = (np.array(column) for column in zip(record, *base[1:], strict=True))
        features = features[:, None].astype(float)
        fitted = classifier(
            epsilon, delta, group_mode=mode, alpha=8.0, coef_norm=0.05, fit_intercept=False,
            method="output", max_group_weight=1.5,
        )  # fmt: skip
        plan = fitted.fit(features, y, groups=groups).privacy_.plan
        # noisy proportions hardly ever lead to other weights than the largest
        assert plan["largest_group_weights"] == [1.5, 1.5]
        release = fitted.privacy_.releases[-1]
        problem = problem_of(fitted, features, y, groups)
        point = solve_certified(problem, plan["accuracies"][0] / 4)
        exact.append(point.x[0])
        # saves time; it is certified like any other
        fitted.solver = lambda problem, accuracy, point=point: (point.x, point.y)
        found = []
        for seed in range(N_FITS):
            fitted.set_params(random_state=seed + side * 1_000_000).fit(features, y, groups=groups)
            found.append(fitted.coef_[0, 0])
        points.append(np.array(found))
    here, there = exact
    gap = abs(here - there)
    # otherwise the attack could miss a violation
    assert 0.85 * release.sensitivity <= gap <= release.sensitivity
    for found in points:
        if delta:
            position = (found - (here + there) / 2) * np.sign(here - there)
            hits = position > (release.noise_scale / 2) ** 2 * epsilon / gap
        else:
            hits = abs(found - there) - abs(found - here) > 0.6 * gap
        counts.append(int(hits.sum()))
    return epsilon_lower_bound(*counts, N_FITS, delta, 1.0 - RATE)


@pytest.mark.audit
@every_cell
def test_audit_stays_below_the_claim(mode, epsilon, delta):
    """False-alarm rate 1e-4 per cell."""
    assert audited_epsilon(mode, epsilon, delta) <= epsilon


@pytest.mark.audit
@every_cell
def test_audit_finds_halved_noise(mode, epsilon, delta, monkeypatch):
    """With half of the noise the same attack refutes the claim."""
    scale_noise(monkeypatch, 0.5)
    assert audited_epsilon(mode, epsilon, delta) > epsilon
