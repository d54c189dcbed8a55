"""Weighted stages of the worst group: draws, Lemma 7, the choice between them and the saddle."""

import itertools
import warnings

import numpy as np
import pytest
from noisy_group_runs import (
    ADD,
    RELATIONS,
    check_draws,
    check_replay,
    data_of,
    design_of,
    neighbours,
    planned,
    records_of,
)

from skdp import BudgetAccountant, DPLogisticRegression
from skdp.algorithms import GroupObjective
from skdp.algorithms.worst_group import rules
from skdp.algorithms.worst_group.weighted_stages import WeightedStagesPlan, plan_weighted_stages
from skdp.methods import SaddleOutputPerturbation, Stages
from skdp.privacy import PrivacyBudget
from skdp.privacy.events import Neighbouring
from skdp.problems import (
    EmpiricalRisk,
    GroupWeights,
    HalfSquaredLoss,
    HingeLoss,
    LogisticLoss,
    OneVsRestLoss,
    SoftmaxLoss,
    SquaredHingeLoss,
)
from skdp.problems.slope_clipped import clipped
from skdp.robust import DPMaxGroupLossClassifier, DPMaxGroupLossRegressor
from skdp.solvers import SOLVERS, ScipySolver

SHARES = (0.7, 0.2, 0.05, 0.05)
#: Loss, kind of matrix, intercept, epsilon, public proportions, whether the plain model is taken.
FITS = [
    (LogisticLoss(), "dense", 0.1, 1e4, None, False),
    (LogisticLoss(), "csr", 0.0, 200.0, SHARES, False),
    (LogisticLoss(), "dense", 0.1, 300.0, None, True),
    (SoftmaxLoss(3), "float32", 0.1, 200.0, SHARES, False),
    (HalfSquaredLoss(2.0), "dense", 0.1, 200.0, None, False),
    (HingeLoss(), "csr", 0.1, 300.0, None, False),
    (OneVsRestLoss(SquaredHingeLoss(), 3), "dense", 0.1, 300.0, None, False),
]
every_fit = pytest.mark.parametrize("case", FITS, ids=lambda case: "-".join(map(str, case)))


def stages(loss, records, relation, *arguments, **options):
    given = {"make": plan_weighted_stages, **options}
    return planned(loss, design_of(records, relation), relation, *arguments, **given)


@pytest.mark.mostly("slow", 3)
@RELATIONS
@every_fit
def test_a_record_moves_each_draw_by_its_sensitivity_and_all_by_the_budget(case, relation):
    """For the same releases of a neighbour the model is the same, to the last bit."""
    loss, kind, intercept, epsilon, proportions, is_plain = case
    data = data_of(loss, 0, is_plain)
    records = records_of(*data, kind, intercept)
    plan = stages(loss, records, relation, epsilon, 0.01, proportions)

    def other_target(t):
        if loss.target_bound:
            return -np.sign(t + 0.1) * loss.target_bound
        return (t + 1) % 2

    rows = -10.0 * data_of(loss, 1)[0]
    others = neighbours(data, relation, rows.__getitem__, other_target, kind, intercept)
    others = itertools.islice(others, 2)
    done = check_draws(plan, records, others, epsilon, is_plain)
    names = [release.name for release in done.releases]
    has_line = loss.has_odds and done.n_looks == 1 and not is_plain
    assert any("constant model" in name for name in names) == has_line


@RELATIONS
def test_a_transcript_replays_on_unrelated_data(relation):
    loss = LogisticLoss()
    records = records_of(*data_of(loss, 0))
    plan = stages(loss, records, relation, 200.0)
    X, y, groups = data_of(loss, 5)
    unrelated = records_of(X[::-1] ** 2, 1 - y, np.full_like(groups, 3))
    check_replay(plan, records, unrelated)


@pytest.mark.parametrize(("share", "is_plain"), [(0.5, True), (0.15, False)])
def test_classes_as_groups_have_no_looks(share, is_plain):
    """Classes of equal sizes need no weights."""
    loss = LogisticLoss()
    X, _, _ = data_of(loss, 0)
    y = (X[:, 1] > np.quantile(X[:, 1], 1.0 - share)).astype(float)
    records = records_of(X, y, y.astype(int))
    goal = GroupObjective(
        EmpiricalRisk(loss), design_of(records, ADD), neighbouring=ADD,
        weights=GroupWeights((10.0,) * 2), are_classes=True,
    )  # fmt: skip
    plan = plan_weighted_stages(goal, PrivacyBudget(200.0, 0.01))
    assert isinstance(plan, WeightedStagesPlan) and plan.losses is plan.line is None
    t = np.delete(y, 7)
    others = [records_of(np.delete(X, 7, 0), t, t.astype(int))]
    check_draws(plan, records, others, 200.0, is_plain)


def solutions(rows, labels, factors, loss, limits, alphas):
    """Minimise weighted losses of one weight, one problem per row, by bisection."""
    shape = rows.shape
    columns = np.stack([labels, limits[:, None] / np.abs(rows), factors]).reshape(3, -1).T
    high = limits / alphas + 1.0
    low = -high
    for _ in range(60):
        w = 0.5 * (low + high)
        slopes = loss.derivative((w[:, None] * rows).ravel(), columns).reshape(shape)
        is_low = (slopes * rows).mean(axis=1) + alphas * w < 0.0
        low, high = np.where(is_low, w, low), np.where(is_low, high, w)
    return w


@pytest.mark.parametrize("kind", [HalfSquaredLoss(1.0), LogisticLoss()], ids=repr)
def test_neighbours_move_a_weighted_solution_by_no_more_than_lemma_7(kind):
    """Rows of any length; the record that is replaced may change its group, and so its factor."""
    rng, n, trials = np.random.default_rng(0), 4, 2000
    alphas, limits = 10.0 ** rng.uniform(0, 2, trials), 10.0 ** rng.uniform(-2, 0, trials)
    loss = clipped(kind, np.array([0.3]), 1.0).with_factors()
    rows = rng.standard_normal((trials, n)) * 10.0 ** rng.uniform(-3, 3, (trials, n))
    labels, factors = rng.integers(0, 2, (trials, n)), rng.choice([0.1, 1.0], (trials, n))
    others, changed = rows.copy(), factors.copy()
    others[:, 0] *= -(10.0 ** rng.uniform(-1, 1, trials))
    changed[:, 0] = rng.choice([0.1, 1.0], trials)
    first = solutions(rows, labels, factors, loss, limits, alphas)
    moved = np.abs(first - solutions(others, labels, changed, loss, limits, alphas))
    assert 0.99 < (moved * n * alphas / (2.0 * limits)).max() <= 1.0 + 1e-6


@pytest.mark.parametrize("kind", [HalfSquaredLoss(1.0), SoftmaxLoss(3), HingeLoss().smoothed(0.1)])
def test_a_factor_multiplies_a_clipped_loss_and_its_derivatives(kind):
    rng, k = np.random.default_rng(1), kind.n_outputs
    own = clipped(kind, np.zeros(k), 0.3)
    loss = own.with_factors()
    margins = rng.standard_normal((50, k)) if k > 1 else rng.standard_normal(50)
    targets = np.column_stack([rng.integers(0, 2, 50), rng.random(50), rng.random(50)])
    loss.check_targets(targets)
    factors = targets[:, 2]
    pairs = [
        (loss.value(margins, targets), own.value(margins, targets[:, :2])),
        (loss.derivative(margins, targets), own.derivative(margins, targets[:, :2])),
        (loss.second_derivative(margins, targets), own.second_derivative(margins, targets[:, :2])),
        *zip(
            loss.value_and_derivative(margins, targets),
            own.value_and_derivative(margins, targets[:, :2]),
            strict=True,
        ),
    ]
    for weighted, plain in pairs:
        np.testing.assert_array_equal(weighted.T, (plain.T * factors))
    assert (loss.clip, loss.curvature) == (own.clip, own.curvature)
    targets[0, 2] = 1.5
    with pytest.raises(ValueError, match="factors"):
        loss.check_targets(targets)


@pytest.mark.parametrize("largest", [1.0, 1.8, 1.9, 3.0, 20.0, 1e3])
def test_no_direction_overshoots_for_ever(largest):
    """A solve is undone r (1 + a) / (r + a) times where weighted rows have r times the moment."""
    records = records_of(*data_of(LogisticLoss(), 0))
    plan = stages(LogisticLoss(), records, Neighbouring.REPLACE_ONE, 200.0).plain
    stage = type(plan)(**{**vars(plan), "largest_factor": largest})
    a = stage.penalty / plan.penalty * plan._relative_penalty
    r = np.geomspace(1e-3, largest, 50)
    assert (r * (1.0 + a) / (r + a)).max() <= 1.0 + rules.OVERSHOOT + 1e-9
    assert a <= plan._relative_penalty


def made(n=1000):
    rng = np.random.default_rng(0)
    X, few = rng.uniform(-0.5, 0.5, (n, 3)), rng.random(n) < 0.2
    y = (np.where(few, X[:, 1], X[:, 0]) + rng.normal(0.0, 0.1, n) > 0).astype(int)
    return X, y, np.where(few, "few", "most")


DATA = made()


def fitted(data=DATA, **given):
    shared = {"data_norm": 1.0, "classes": [0, 1], "group_names": ["few", "most"]}
    model = DPMaxGroupLossClassifier(3.0, **shared, random_state=0, **given)
    return model.fit(data[0], data[1], groups=data[2])


def has_stages(report):
    return any("solutions after look" in release.name for release in report.releases)


SLOW = {"gradient_descent", "subgradient", "stochastic_subgradient"}


@pytest.mark.mostly("slow", 3)
@pytest.mark.parametrize("solver", [*sorted(set(SOLVERS) - {"auto"} - SLOW), ScipySolver()])
def test_any_solver_finds_the_same_model(solver):
    usual = fitted(method="output")
    model = fitted(solver=solver)
    assert model.privacy_.method == "output" and has_stages(model.privacy_)
    np.testing.assert_allclose(model.coef_, usual.coef_, rtol=0.02)


@pytest.mark.parametrize(
    ("given", "method", "are_stages"),
    [
        ({"alpha": 0.01}, "output", True),
        ({"loss": "hinge"}, "output", True),
        ({"method": Stages(solver="lbfgs")}, "Stages", True),
        ({"method": "output", "group_proportions": "public"}, "output", True),
        ({"method": "output", "neighbouring": "add_remove", "n_public": 1000}, "output", True),
        ({"solver": "best_response"}, "phased", False),
        ({"delta": 0.0}, "phased", False),
        ({"method": "phased"}, "phased", False),
        ({"method": "saddle"}, "saddle", False),
        ({"method": SaddleOutputPerturbation(clip_groups=True)}, "SaddleOutputPerturbation", False),
        ({}, "gradient", False),
    ],
)
def test_where_stages_take_the_place_of_the_saddle_problem(given, method, are_stages):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "method='auto' is 'phased'")
        report = fitted(**given).privacy_
    assert has_stages(report) == are_stages
    assert report.method == method
    if method in ("saddle", "phased"):  # one block or several
        assert "noise_scales" in report.plan or "regularisation" in report.plan


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"delta": 0.0}, r"must be one of .*extragradient"),
        ({"method": "saddle"}, r"must be one of .*extragradient"),
        ({"method": "output", "delta": 0.0}, r"Weighted stages are for delta > 0"),
    ],
)
def test_solvers_of_saddle_points_are_asked_for_where_there_are_no_stages(given, message):
    accountant = BudgetAccountant(10.0, 1e-3)
    with pytest.raises(ValueError, match=message):
        fitted(solver="lbfgs", accountant=accountant, **given)
    assert not accountant.entries


def test_numbers_that_are_linear_far_away_keep_the_saddle_problem():
    X, _, groups = DATA
    model = DPMaxGroupLossRegressor(
        loss="huber", data_norm=1.0, target_range=(-1, 1), group_names=["few", "most"]
    )
    assert not has_stages(model.fit(X, X[:, 0], groups=groups).privacy_)


def test_weights_of_groups_are_released_anyway():
    model = fitted(method="output")
    assert model.group_weights_.tolist() == model.privacy_.plan["group_weights"]


def test_a_penalty_enters_after_the_releases():
    fits = [fitted(method="output", alpha=alpha) for alpha in ("auto", 0.1, 100.0)]
    assert len({fit.privacy_.releases for fit in fits}) == 1
    free, some, constant = (np.linalg.norm(fit.coef_) for fit in fits)
    assert constant < 0.02 * free < some < free


def test_the_worst_group_is_served_with_a_solver():
    """Better than by a plain model, which is worse than a constant for it."""
    data = X, y, groups = made(20_000)
    model = fitted(data, solver="lbfgs")
    plain = DPLogisticRegression(3.0, data_norm=1.0, classes=[0, 1], random_state=0).fit(X, y)
    few = groups == "few"
    assert plain.score(X[few], y[few]) < 0.6
    assert min(model.group_scores(X, y, groups).values()) > 0.68
    assert max(model.group_losses(X, y, groups).values()) < 0.58
