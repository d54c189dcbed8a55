"""The network for the worst group: gradients, sensitivity, and what scikit-learn expects."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from skdp.algorithms.worst_group.network import plan_group_network
from skdp.mechanisms import NoiseSource
from skdp.mechanisms.calibration import gaussian_noise_multiplier
from skdp.privacy import PrivacyBudget, tightest_epsilon
from skdp.problems import (
    Design,
    EmpiricalRisk,
    GroupWeights,
    HalfSquaredLoss,
    LogisticLoss,
    Records,
    SoftmaxLoss,
    SquaredHingeLoss,
)
from skdp.problems.group_network import GroupNetworkProblem, Network
from skdp.problems.group_objective import GroupObjective
from skdp.robust import (
    DPMaxGroupLossClassifier,
    DPMaxGroupLossMLPClassifier,
)

FAST = {"hidden_units": 4, "n_steps": 6, "data_norm": 1.0, "random_state": 0}


def problem_of(n=9, d=3, hidden=4, classes=2, seed=0, norm=1.0, change=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y, groups = rng.integers(0, classes, n), rng.integers(0, 3, n)
    if change is not None:
        X[0], y[0], groups[0] = change
    loss = LogisticLoss() if classes == 2 else SoftmaxLoss(classes)
    targets = y.astype(float) if classes == 2 else y
    records = Records(X, norm, 0.3, targets=targets, groups=groups)
    weights = GroupWeights((2.0, 4.0, 4.0))
    network = Network(records.width, hidden, loss.n_outputs, 1.5)
    return GroupNetworkProblem(records, loss, weights, network, 0.3)


def point_of(problem, seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=problem.dimension_x), rng.dirichlet(np.ones(3))


@pytest.mark.parametrize("hidden, classes", [(4, 2), (4, 3), (0, 2), (0, 4)])
def test_gradient_is_the_derivative_of_the_weighted_losses(hidden, classes):
    problem = problem_of(hidden=hidden, classes=classes)
    x, y = point_of(problem, 1)

    def value(x):
        losses = problem.clipped_sum("y", (x, y), None, 1e9, None)
        return float(losses @ (y * problem.weights))

    found = problem.clipped_sum("x", (x, y), None, 1e9, None)
    steps = 1e-6 * np.eye(len(x))
    numeric = [(value(x + step) - value(x - step)) / 2e-6 for step in steps]
    assert_allclose(found, numeric, atol=1e-7)
    anchor = point_of(problem, 2)
    for block in ("x", "y"):
        change = problem.clipped_sum(block, (x, y), anchor, 1e9, None)
        parts = [problem.clipped_sum(block, each, None, 1e9, None) for each in ((x, y), anchor)]
        assert_allclose(change, parts[0] - parts[1], atol=1e-10)


@pytest.mark.parametrize("hidden, classes", [(4, 3), (0, 2)])
@pytest.mark.parametrize("block", ["x", "y"])
@pytest.mark.parametrize("is_change", [False, True])
def test_one_record_moves_a_sum_by_at_most_the_clip(hidden, classes, block, is_change):
    rng = np.random.default_rng(0)
    largest = furthest = 0.0
    for trial in range(20):
        change = 1e3 * rng.normal(size=3), rng.integers(classes), rng.integers(3)
        pair = [problem_of(hidden=hidden, classes=classes, change=c) for c in (None, change)]
        point, anchor = point_of(pair[0], trial), point_of(pair[0], trial + 100)
        anchor = anchor if is_change else None
        clip = 0.05
        sums = [
            p.clipped_sum(block, point, anchor, p.limit(clip, block, point, anchor), batch)
            for p in pair
            for batch in (None, np.arange(1, 9))
        ]
        apart = np.linalg.norm(sums[0] - sums[2]) / clip
        diameter = pair[0].diameter(block, anchor)
        assert apart <= diameter
        furthest = max(furthest, apart / diameter)
        for whole, rest in ((0, 1), (2, 3)):
            moved = np.linalg.norm(sums[whole] - sums[rest])
            assert moved <= clip
            largest = max(largest, moved)
    assert largest > 0.8 * clip  # the clip is reached
    assert block == "x" or furthest > 0.99  # and so is the distance of two records


def reordered(loss, hidden, n=150, d=30, bound=1.0):
    """One set of records in two orders."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, d)), rng.integers(0, 2, n).astype(float)
    y = bound * rng.uniform(-1.0, 1.0, n) if loss.target_bound else y
    groups = rng.integers(0, 3, n)
    made = []
    for order in (slice(None), slice(None, None, -1)):
        records = Records(
            np.ascontiguousarray(X[order]), 1.0, 0.3, targets=y[order], groups=groups[order]
        )
        network = Network(records.width, hidden, 1, 1.5)
        made.append(GroupNetworkProblem(records, loss, GroupWeights((3.0,) * 3), network, 0.3))
    return made


@pytest.mark.parametrize("block", ["x", "y"])
@pytest.mark.parametrize(
    "loss, hidden",
    [(LogisticLoss(), 16), (LogisticLoss(), 0), (HalfSquaredLoss(1e-9), 0),
     (SquaredHingeLoss(), 0)],
    ids=repr,
)  # fmt: skip
def test_rounding_of_others_is_within_its_bound(loss, hidden, block):
    unit = loss.target_bound or 1.0
    made, n = reordered(loss, hidden, bound=unit), 150
    point = 100.0 * unit * point_of(made[0], 3)[0], np.full(3, 1 / 3)
    bound = made[0].rounding_error(block, point, None)
    one = [made[0].clipped_sum(block, point, None, 1e50, np.array([i])) for i in range(n)]
    turned = [
        made[1].clipped_sum(block, point, None, 1e50, np.array([n - 1 - i])) for i in range(n)
    ]
    assert max(np.linalg.norm(a - b) for a, b in zip(one, turned, strict=True)) <= bound
    many = made[1].clipped_sum(block, point, None, 1e50, None)
    error = np.linalg.norm(np.sum(one, axis=0) - many)
    assert 0.0 < error <= n * bound
    if not hidden:  # it is so small that clipping hardly changes: the vectors are far larger
        assert bound < 1e-9 * max(np.linalg.norm(each) for each in one)


@pytest.mark.parametrize("case", ["anchor", "weight"])
def test_bound_on_rounding_grows_with_anchor_and_weight(case):
    """Where a far anchor, or the large weight of one group, makes nearly all of the rounding."""
    made, n = reordered(HalfSquaredLoss(1.0), 0), 150
    x = point_of(made[0], 3)[0]
    if case == "anchor":
        point, anchor = (x, np.full(3, 1 / 3)), (1e9 * x, np.full(3, 1 / 3))
    else:
        point, anchor = (x, np.array([1.0, 0.0, 0.0])), None
        for each in made:
            each.weights = np.array([1e9, 1.0, 1.0])
    singles = [made[0].clipped_sum("x", point, anchor, 1e50, np.array([i])) for i in range(n)]
    many = made[1].clipped_sum("x", point, anchor, 1e50, None)
    error = np.linalg.norm(np.sum(singles, axis=0) - many)
    assert 0.0 < error <= n * made[0].rounding_error("x", point, anchor)


@pytest.mark.parametrize("public", [False, True])
def test_losses_of_records_are_as_far_apart_as_stated(public):
    """Not 2: they are not negative, and a record has one. The noise of the losses is for this."""
    row, sums = np.array([3.0, 0.0, 0.0]), []
    for label, group in ((1, 0), (0, 0) if public else (1, 1)):
        made = problem_of(hidden=0, change=(row, label, group))
        made.has_public_groups = public
        x = np.array([-900.0, 0.0, 0.0, 0.0])  # the loss is 0, or above the limit
        sums.append(made.clipped_sum("y", (x, np.full(3, 1 / 3)), None, 1.0, None))
    apart = np.linalg.norm(sums[0] - sums[1])
    assert apart == pytest.approx(1.0 if public else np.sqrt(2.0), rel=1e-8)
    assert apart <= made.diameter("y", None) < apart * (1.0 + 1e-8)
    # losses change in both directions, and so do gradients
    assert made.diameter("x", None) == made.diameter("y", (x, x)) == 2.0


@pytest.mark.parametrize("hidden", [0, 4])
@pytest.mark.parametrize(
    "loss", [LogisticLoss(), SoftmaxLoss(7), HalfSquaredLoss(0.5), SquaredHingeLoss()], ids=repr
)
def test_derivatives_of_losses_are_within_the_bound_of_rounding(loss, hidden):
    """For outputs as large as the weights allow; the worst is reached within a factor of 3."""
    rng, largest = np.random.default_rng(0), 0.0
    n = 60
    targets = rng.choice([0.0, 1.0], n)
    if loss.target_bound:
        targets = (2.0 * targets - 1.0) * loss.target_bound
    elif loss.n_outputs > 1:
        targets = rng.integers(0, 7, n)
    groups = np.zeros(n, dtype=int)
    records = Records(rng.normal(size=(n, 3)), 1.0, 0.3, targets=targets, groups=groups)
    network = Network(records.width, hidden, loss.n_outputs, 1.5)
    problem = GroupNetworkProblem(records, loss, GroupWeights((1.0,)), network, 0.3)
    for size in (0.1, 10.0, 1000.0):
        x = size * rng.normal(size=problem.dimension_x)
        block = records.block(slice(0, n))
        outputs, _ = network.forward(block, x)
        margins = outputs if outputs.shape[1] > 1 else outputs[:, 0]
        found = np.linalg.norm(loss.derivative(margins, targets).reshape(n, -1), axis=1)
        A, B = (np.linalg.norm(part) for part in network.unpack(x))
        reach = B if hidden else 1.5 * records.norm_bound * A
        assert np.linalg.norm(outputs, axis=1).max() <= reach * (1.0 + 1e-12)
        bound = problem._derivative_bound(reach)
        assert found.max() <= bound
        largest = max(largest, found.max() / bound)
    assert largest > 1.0 / 3.0


def test_best_dual_maximises_the_penalised_mean():
    problem = problem_of()
    mean = np.array([0.2, 0.4, 0.1])
    y = problem.best_dual(mean)

    def value(y):
        return y @ (mean * problem.weights) - 0.15 * np.sum((y - 1 / 3) ** 2)

    assert y.min() >= 0 and y.sum() == pytest.approx(1.0)
    rng = np.random.default_rng(0)
    assert value(y) >= max(value(other) for other in rng.dirichlet(np.ones(3), 500)) - 1e-12


def conflict(n, seed=0):
    """Two groups whose labels follow one feature with opposite signs."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 2, n)
    X = np.column_stack([rng.uniform(-0.7, 0.7, n), groups - 0.5])
    y = ((X[:, 0] > 0) == (groups == 0)).astype(int)
    return X, y, groups


@pytest.mark.slow
def test_network_serves_groups_that_no_linear_model_serves():
    X, y, groups = conflict(6000)
    model = DPMaxGroupLossMLPClassifier(
        8.0, hidden_units=8, data_norm=1.0, classes=[0, 1], group_names=[0, 1],
        group_proportions=[0.5, 0.5], random_state=0,
    ).fit(X, y, groups=groups)  # fmt: skip
    # a linear model has at most 1/2 for one of the groups
    assert min(model.group_scores(*conflict(2000, seed=1)).values()) > 0.8
    assert max(model.group_losses(X, y, groups).values()) < 0.6


def test_predictions_are_those_of_the_attributes():
    X, y, groups = conflict(60)
    shared = {"group_names": [0, 1], "group_proportions": [0.5, 0.5], "classes": [0, 1]}
    model = DPMaxGroupLossMLPClassifier(1.0, **FAST, **shared).fit(X, y, groups=groups)
    hidden = np.tanh(X @ model.coefs_[0] + model.intercepts_[0])
    expected = (hidden @ model.coefs_[1] + model.intercepts_[1])[:, 0]
    assert_allclose(model.decision_function(X), expected)
    assert_allclose(
        model.fit(sparse.csr_matrix(X), y, groups=groups).decision_function(X), expected
    )
    assert not hasattr(model, "coef_")


def test_proportions_of_empty_groups_are_noise():
    """They are raised to a least one only where the noise does not exceed it.

    1,150 shares of empty groups, of which 2.3 % exceed two deviations of their noise; all but
    6 deviations of that number are allowed: false alarm below 1e-8.
    """
    records, n_groups = Records(np.zeros((400, 2)), 1.0), 24
    records = records.with_targets(np.zeros(400), np.zeros(400, dtype=int))
    objective = GroupObjective(
        EmpiricalRisk(LogisticLoss()),
        Design.of(records),
        weights=GroupWeights((10.0,) * n_groups),
        histogram_share=0.5,
    )
    made = plan_group_network(objective, PrivacyBudget(1.0, 1e-6))
    empty = []
    for seed in range(50):
        noise = NoiseSource(np.random.default_rng(seed).bytes)
        found = made.shares(records, noise)
        assert found.sum() == pytest.approx(1.0)
        empty.append(found[1:] / found[1:].min())
    above = np.sum(np.array(empty) > 1.0 + 1e-9)
    assert 0 < above < 0.0228 * 1150 + 6 * np.sqrt(0.0228 * 1150)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_constant_model_takes_the_place_of_noise(n_classes):
    """n = 1000 at epsilon 0.1: all records lose 0.3 without it, 85 % of them being of one class."""
    rng, names = np.random.default_rng(0), list(range(n_classes))
    shares = np.array([0.1, 0.85, 0.05][:n_classes]) / sum([0.1, 0.85, 0.05][:n_classes])
    X, y = 0.5 * rng.uniform(-1.0, 1.0, (1000, 3)), rng.choice(n_classes, 1000, p=shares)
    own = {"data_norm": 1.0, "classes": names, "random_state": 0}
    model = DPMaxGroupLossMLPClassifier(0.1, group_names=[0, 1], **own)
    report = model.fit(X, y, groups=rng.integers(0, 2, 1000)).privacy_
    assert [each.name for each in report.releases][:2] == [
        "sizes of the classes",
        "sizes of the groups",
    ]
    first = report.releases[0]
    assert first.dimension == n_classes
    assert first.sensitivity == pytest.approx(math.sqrt(2.0), rel=1e-6)
    assert tightest_epsilon(report.event, 1e-6) == pytest.approx(0.1, rel=1e-6)
    loss = -model.predict_log_proba(X)[np.arange(1000), y].mean()
    assert loss < -shares @ np.log(shares) + 0.15
    # not where the classes are the groups, which count alike then
    balanced = DPMaxGroupLossMLPClassifier(0.1, **own).fit(X, y)
    assert "sizes of the classes" not in [each.name for each in balanced.privacy_.releases]


def planned(n, **options):
    goal = GroupObjective(
        EmpiricalRisk(LogisticLoss()),
        Design(1.0, 5, n),
        weights=GroupWeights((1.0,) * 2),
        **options,
    )
    return plan_group_network(goal, PrivacyBudget(1.0, 1e-6), hidden_units=8)


def test_margins_are_shrunk_where_the_mean_gradient_is_noise():
    plans = [planned(n) for n in (300, 3000, 10**6)]
    found = [plan.signal_share for plan in plans]
    assert found == sorted(found) and found[0] < 0.4 and found[-1] > 0.999
    noise = plans[1].rgda.noise_scale() * math.sqrt(plans[1].network.dimension / 100)
    assert found[1] == pytest.approx(0.125**2 / (0.125**2 + noise**2))


def test_no_constant_model_is_released_where_there_is_little_noise():
    large, small, free = planned(10**6), planned(500), planned(500, are_classes=True)
    assert large.constant is free.constant is None and large.signal_share > 0.9
    assert small.constant is not None and small.signal_share < 0.9
    part = (gaussian_noise_multiplier(1.0, 1e-6) * small.constant.mu) ** 2  # of the budget
    ratio = small.rgda.noise_scale() / free.rgda.noise_scale()
    assert ratio == pytest.approx(1.0 / math.sqrt(1.0 - part), rel=1e-9)


def test_parameters_of_linear_models_are_no_attributes():
    """What a network has no choice of is not there to be read, set or cloned."""
    network = DPMaxGroupLossMLPClassifier()
    assert set(vars(network)) == set(network.get_params())
    others = DPMaxGroupLossClassifier().get_params().keys() - network.get_params().keys()
    assert {"alpha", "method", "solver"} < others
    # of all models, None where there is no proof for weights
    assert [name for name in others if hasattr(network, name)] == ["weight_bound"]
