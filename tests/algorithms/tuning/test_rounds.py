"""Rounds on prepared rows: noise, neighbours, limits without noise, the choice of a penalty."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from skdp.algorithms import Run
from skdp.algorithms.output.prepared_problem import PreparedProblem
from skdp.algorithms.tuning import TuningObjective
from skdp.algorithms.tuning.final_fit import PublicRulePlan
from skdp.algorithms.tuning.rounds import (
    PenaltyRisk,
    SummedRisk,
    are_proven,
    have_known_moments,
    plan_rounds,
)
from skdp.mechanisms import NoiseSource
from skdp.privacy import PrivacyBudget, tightest_epsilon
from skdp.privacy.events import RECORD_RELATIONS, Neighbouring
from skdp.problems import (
    Design,
    EmpiricalRisk,
    HalfSquaredLoss,
    LogisticLoss,
    Objective,
    OneVsRestLoss,
    PenaltyGroups,
    ProblemConstants,
    Records,
    SoftmaxLoss,
    SquaredHingeLoss,
)

LOSSES = {"squares": HalfSquaredLoss(1.0), "log loss": LogisticLoss()}
every_loss = pytest.mark.parametrize("name", LOSSES)
every_relation = pytest.mark.parametrize("relation", RECORD_RELATIONS)


class Watched(NoiseSource):
    """Keeps values and scales of Gaussian draws, and returns given numbers or what it is told."""

    def __init__(self, releases=None, deviations=0.0):
        super().__init__(np.random.default_rng(0).bytes)
        self.values, self.scales, self.given, self.deviations = [], [], releases, deviations

    def add_normal(self, value, scale):
        self.values.append(np.array(value))
        self.scales.append(scale)
        if self.given is not None:
            return self.given[len(self.values) - 1]
        return value + scale * self.deviations


def table(n=400, d=4, seed=0, loss="squares"):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d)) * (1.0 / np.arange(1, d + 1)) + 0.2
    X /= 1.01 * np.linalg.norm(X, axis=1).max()
    margin = 3.0 * X[:, 0] - X[:, 1] + 0.2 * rng.standard_normal(n)
    return X, np.clip(0.2 * margin, -1, 1) if loss == "squares" else (margin > 0.8) * 1.0


def objective_of(data, name, relation=Neighbouring.REPLACE_ONE, n_public=None):
    nominal = relation is Neighbouring.ADD_REMOVE
    n_public = n_public or data.n_records if nominal else None
    return Objective(EmpiricalRisk(LOSSES[name]), Design.of(data, n_public), neighbouring=relation)


def planned(X, y, name, epsilon=1.0, delta=1e-6, relation=Neighbouring.REPLACE_ONE, **options):
    data = Records(X, 1.0, 0.3, targets=y)
    budget = PrivacyBudget(epsilon, delta)
    return data, plan_rounds(objective_of(data, name, relation), budget, **options)


def penalties(d, groups=None, low=1e-6, high=1e3):
    return PenaltyGroups(groups or (0,) * d, (1.0,) * d, low, high)


# -------------------------------------------------------------------------------- what it costs


@every_relation
@every_loss
@pytest.mark.parametrize("candidates", [None, penalties(5)])
@pytest.mark.parametrize(("n", "epsilon"), [(200, 0.1), (4000, 1.0), (10**6, 3.0)])
def test_the_parts_make_the_budget(name, relation, candidates, n, epsilon):
    design = Design(1.1, 6, n, 1.0 if relation is Neighbouring.REPLACE_ONE else 10.0, 0.3)
    objective = Objective(EmpiricalRisk(LOSSES[name]), design, neighbouring=relation)
    plan = plan_rounds(objective, PrivacyBudget(epsilon, 1e-6), candidates=candidates)
    assert tightest_epsilon(plan.event, 1e-6) == pytest.approx(epsilon, rel=1e-6)
    assert candidates is None or plan.temperature is None


@every_relation
@every_loss
def test_noise_drawn_is_noise_stated(name, relation):
    """All Gaussian draws of a fit, in the order of the releases."""
    data, plan = planned(*table(5000, loss=name), name, relation=relation)
    noise = Watched()
    done = plan.run(data, Run(noise=noise)).plan
    stated = [release.noise_scale for release in done.releases]
    before, last = len(plan.preparation.releases), plan.temperature is not None
    rounds = noise.scales[before : len(noise.scales) - last]
    assert len(rounds) == plan.n_solves in (8, 12, 16, 32)
    assert min(rounds) == pytest.approx(stated[before] * math.sqrt(plan.n_solves), rel=1e-9)
    assert max(rounds) < (1.0 + 1e-5) * min(rounds)
    sensitivity = done.releases[before].sensitivity
    exact = relation.n_changes * done.clip / data.n_records
    assert exact < sensitivity < (1.0 + 1e-5) * exact
    assert done.event == plan.event


@every_relation
def test_rounding_counts_twice_where_gradients_are_evaluated(relation, monkeypatch):
    """Once for each data set, at weights of the norm that they have."""
    data, plan = planned(*table(5000), "squares", relation=relation)
    prepared = plan.preparation.prepare(data, Watched())
    radii, noise = [], Watched(deviations=0.3)

    def rounding(constants):
        radii.append(constants.radius)
        return 1e-3 * constants.radius

    monkeypatch.setattr(ProblemConstants, "gradient_rounding", property(rounding))
    norms, gradient = [], PreparedProblem.gradient
    monkeypatch.setattr(
        PreparedProblem, "gradient", lambda self, w: (norms.append(w @ w), gradient(self, w))[1]
    )
    plan._solved(data, prepared, Run(noise=noise))
    found = np.array(noise.scales) * plan.level.mu / math.sqrt(plan.n_solves)
    exact = relation.n_changes * plan.clip / data.n_records
    assert found == pytest.approx(exact + 2e-3 * np.array(radii), rel=1e-6)
    assert len(norms) == len(radii) and (np.sqrt(norms) <= radii).all()


def moved(plan, first, second, before):
    """How far each round moves for the same releases, in units of its sensitivity."""
    mine = Watched(deviations=0.3)
    prepared = plan.preparation.prepare(first, mine)
    releases, results = [], []
    for data in (first, second):
        noise = Watched(releases or None, deviations=0.3)
        plan._solved(data, prepared, Run(noise=noise))
        releases = releases or [
            value + 0.3 * scale for value, scale in zip(noise.values, noise.scales, strict=True)
        ]
        results.append(noise)
    one, two = results
    multiplier = math.sqrt(plan.n_solves) / plan.level.mu
    return [
        float(np.linalg.norm(a - b)) / (scale / multiplier)
        for a, b, scale in zip(one.values, two.values, one.scales, strict=True)
    ]


@every_relation
@every_loss
def test_neighbours_move_a_round_by_no_more_than_its_sensitivity(name, relation):
    """A climb over the rows and targets of the record: it reaches 0.99 of the bound."""
    rng, replaced = np.random.default_rng(1), relation is Neighbouring.REPLACE_ONE
    X, y = table(60, seed=1, loss=name)
    best, found = 0.0, None
    for step in range(60):
        if found is None or step % 3 == 0:
            rows, labels = rng.standard_normal((2, 4)), rng.uniform(-1, 1, 2)
            rows *= 10.0 ** rng.uniform(-6, 1, (2, 1))
        else:
            rows = found[0] * 10.0 ** rng.uniform(-0.2, 0.2, (2, 1))
            rows = rows + 0.1 * rng.standard_normal((2, 4)) * np.linalg.norm(rows)
            labels = np.clip(found[1] + 0.3 * rng.standard_normal(2), -1, 1)
        labels = np.where(labels > 0, 1.0, -1.0) if rng.random() < 0.5 else labels
        if rng.random() < 0.4:  # the same row with the other label
            rows[1], labels[1] = rows[0], -labels[0]
        targets = labels if name == "squares" else (labels > 0) * 1.0
        tables = [
            Records(np.vstack([X, row]), 1.0, 0.3, targets=np.append(y, target))
            for row, target in zip(rows, targets, strict=True)
        ]
        if not replaced:
            tables[1] = Records(X, 1.0, 0.3, targets=y)
        objective = objective_of(tables[0], name, relation, 45)
        plan = plan_rounds(objective, PrivacyBudget(3.0, 1e-2))
        worst = max(moved(plan, *tables, len(plan.preparation.releases)))
        if worst > best:
            best, found = worst, (rows, labels)
    assert 0.99 < best <= 1.0


def test_no_row_is_shortened_in_a_round():
    """The long whitened row of a rare category: shortened to norm 4, it is off by 0.25."""
    rng, effects = np.random.default_rng(2), np.array([0.1, 0.2, 0.3, -0.2])
    codes = rng.choice(4, 20000, p=[0.4, 0.3, 0.295, 0.005])
    y = np.clip(effects[codes] + 0.2 * rng.standard_normal(len(codes)), -1, 1)
    data, plan = planned(np.eye(4)[codes], y, "squares", 10.0)
    point = plan.run(data, Run(noise=NoiseSource(rng.bytes))).point
    found = Records(np.eye(4), 1.0, 0.3).margins(point[None, :])[:, 0]
    assert found == pytest.approx(effects, abs=0.05)


def test_what_rounds_are_for():
    budget, design = PrivacyBudget(1.0, 1e-6), Design(1.1, 6, 5000, 1.0, 0.3)
    proven = {loss: Objective(EmpiricalRisk(loss), design) for loss in LOSSES.values()}
    assert all(
        are_proven(each, budget) and have_known_moments(each, budget) for each in proven.values()
    )
    few, wide = Design(1.1, 6, 200, 1.0, 0.3), Design(1.1, 1002, 10**9, 1.0, 0.3)
    noisy = Objective(EmpiricalRisk(LogisticLoss()), few)
    assert are_proven(noisy, budget) and not have_known_moments(noisy, budget)
    classes = Objective(EmpiricalRisk(SoftmaxLoss(3)), design)
    assert are_proven(classes, budget) and have_known_moments(classes, budget)
    for loss, other, given in (
        (SoftmaxLoss(2), design, budget),
        (OneVsRestLoss(SquaredHingeLoss(), 3), design, budget),
        (SquaredHingeLoss(), design, budget),
        (LogisticLoss(), wide, budget),
        (LogisticLoss(), design, PrivacyBudget(1.0, 0.0)),
    ):
        refused = Objective(EmpiricalRisk(loss), other)
        assert not are_proven(refused, given) and not have_known_moments(refused, given)
        with pytest.raises(ValueError, match="method='rounds' is for"):
            plan_rounds(refused, given)


# --------------------------------------------------------------------------- limits of the model


def test_without_noise_squares_are_least_squares():
    X, y = table(4000)
    data, plan = planned(X, y, "squares", 1e6)
    point = plan.run(data, Run(noise=NoiseSource(np.random.default_rng(0).bytes))).point
    exact = np.linalg.lstsq(np.column_stack([X, np.full(len(X), 0.3)]), y, rcond=None)[0]
    assert point == pytest.approx(exact, abs=2e-3)


@pytest.mark.parametrize(("share", "worse"), [(0.023, 1.03), (0.5, 1.001)])
def test_without_noise_odds_are_those_of_the_optimum(share, worse):
    """In log loss, for a rare class too, whose constant is far from the odds of all records."""
    rng = np.random.default_rng(0)
    X = rng.exponential(size=(9000, 20))
    odds = X @ rng.standard_normal(20)
    odds = 3.0 * odds / odds.std()
    shift = brentq(lambda c: expit(odds + c).mean() - share, -50.0, 50.0)
    y = (rng.random(len(X)) < expit(odds + shift)) * 1.0
    norms = np.linalg.norm(X, axis=1)
    X /= np.maximum(norms, 1.5 * np.median(norms))[:, None]
    data, plan = planned(X, y, "log loss", 1e4)
    point = plan.run(data, Run(noise=NoiseSource(rng.bytes))).point
    exact = LogisticRegression(C=1e6, solver="newton-cholesky").fit(X, y)
    ideal = log_loss(y, exact.predict_proba(X))
    assert log_loss(y, expit(data.margins(point[None, :])[:, 0])) < worse * ideal


@every_loss
@pytest.mark.parametrize("candidates", [None, penalties(2)])
def test_no_noise_makes_a_fit_fail(name, candidates):
    X, y = np.zeros((300, 2)), np.zeros(300)
    data, plan = planned(X, y, name, 3.0, 1e-3, candidates=candidates)
    sources = [NoiseSource(np.random.default_rng(seed).bytes) for seed in range(20)]
    for noise in (*sources, Watched(deviations=1e6)):
        found = plan.run(data, Run(noise=noise))
        assert np.isfinite(found.point).all() and np.isfinite(found.alpha).all()


# ------------------------------------------------------------------------- the choice of a penalty


def risk(rng, groups=(0, 0, 1, 1), **changes):
    d = len(groups)
    parts = {
        "weights": rng.standard_normal(d),
        "variances": rng.uniform(0.01, 0.3, d),
        "curvature": rng.uniform(0.5, 2.0, d),
        "known": rng.uniform(0.0, 0.2, d),
        "sizes": rng.standard_normal((d, d)),
        "penalties": penalties(d, groups),
    }
    return PenaltyRisk(**{**parts, **changes})


def test_the_risk_has_its_gradient_and_its_model():
    rng = np.random.default_rng(4)
    for _ in range(5):
        each, alpha = risk(rng), 10.0 ** rng.uniform(-2, 1, 2)
        value, gradient = each(alpha)
        for g in range(2):
            step = np.exp(1e-5 * (np.arange(2) == g))
            numeric = (each(alpha * step)[0] - each(alpha / step)[0]) / 2e-5
            assert gradient[g] == pytest.approx(numeric, rel=1e-5, abs=1e-9)
        omega = each.sizes.T @ np.diag(each.penalties.diagonal(alpha)) @ each.sizes
        hessian = np.diag(each.curvature + each.known) + omega
        expected = np.linalg.solve(hessian, each.curvature * each.weights)
        assert each.model(alpha) == pytest.approx(expected, rel=1e-9)
        assert value == pytest.approx(each.uniform(alpha[:1])[0]) or alpha[0] != alpha[1]


def test_several_outputs_have_one_penalty():
    """That of the least sum of their risks."""
    rng = np.random.default_rng(7)
    parts = [risk(rng, (0, 0, 0, 0)) for _ in range(3)]
    value, gradient = SummedRisk(parts)(np.array([0.3]))
    found = [part(np.array([0.3])) for part in parts]
    assert value == pytest.approx(sum(each for each, _ in found))
    assert gradient == pytest.approx(np.sum([each for _, each in found], axis=0))
    X, loss = table(6000)[0], SoftmaxLoss(3)
    y = (6.0 * X[:, :3] + rng.gumbel(size=(len(X), 3))).argmax(axis=1)
    data = Records(X, 1.0, 0.3, targets=y)
    objective = Objective(EmpiricalRisk(loss), Design.of(data))
    norms = []
    for grid in ((1e-6,), (1e4,), (1e4, 1e-6, 1e3)):
        budget = PrivacyBudget(3.0, 1e-6)
        plan = plan_rounds(objective, budget, candidates=penalties(4), grid=grid)
        done = plan.run(data, Run(noise=NoiseSource(np.random.default_rng(8).bytes)))
        assert done.alpha == min(grid)
        norms.append(np.linalg.norm(done.point.reshape(2, 5)[:, :4]))
    assert norms[0] == norms[2] > 1.0 > 1e-2 > norms[1]
    tuning = TuningObjective.of(data, loss, penalties(5))
    with pytest.raises(ValueError, match="losses of one margin"):
        PublicRulePlan(objective=tuning, budget=PrivacyBudget(1.0, 1e-6))


def test_the_risk_is_unbiased_but_for_a_constant():
    """Lemma C: the mean over the noise, against the loss of the model, for three penalties."""
    rng = np.random.default_rng(5)
    truth, each = rng.standard_normal(4), risk(rng)
    alphas, differences = [np.full(2, a) for a in (1e-3, 0.3, 10.0)], []
    for _ in range(4000):
        noisy = risk(
            rng,
            **{**vars(each), "weights": truth + np.sqrt(each.variances) * rng.standard_normal(4)},
        )
        row = []
        for alpha in alphas:
            away = noisy.model(alpha) - truth
            row.append(noisy(alpha)[0] - 0.5 * away @ (each.curvature * away))
        differences.append(row)
    mean, error = np.mean(differences, axis=0), np.std(differences, axis=0) / math.sqrt(4000)
    constant = 0.5 * each.curvature @ each.variances
    assert (np.abs(mean - constant) < 4.0 * error).all()
    assert (error < 0.05 * constant).all()


def test_candidates_are_chosen_for_free():
    """The grid's best one; a large penalty for features without an effect; none is released."""
    X, y = table(20000)
    runs = {
        "free": planned(X, y, "squares"),
        "grid": planned(X, y, "squares", candidates=penalties(4), grid=(1e-4, 1.0, 1e2)),
        "groups": planned(X, y, "squares", candidates=penalties(4, (0, 0, 1, 1))),
        "pinned": planned(X, y, "squares", candidates=penalties(4), grid=(1e4,)),
    }
    found = {
        kind: plan.run(data, Run(noise=NoiseSource(np.random.default_rng(6).bytes)))
        for kind, (data, plan) in runs.items()
    }
    assert found["free"].path.shape == (8, 1)
    assert (np.diff(found["free"].path[4:, 0]) < found["free"].path[4:-1, 0]).all()
    assert found["grid"].alpha == [1e-4] and found["grid"].path.shape == (3, 1)
    assert found["groups"].alpha[1] > 1e3 * found["groups"].alpha[0]
    assert np.abs(found["pinned"].point[:4]).max() < 1e-3
    assert found["pinned"].point[4] * 0.3 == pytest.approx(y.mean(), abs=0.01)
    counts = {len(each.plan.releases) for kind, each in found.items() if kind != "free"}
    assert counts == {len(runs["grid"][1].preparation.releases) + 1}
