"""The network for the worst group: gradients, sensitivity, and what scikit-learn expects."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.utils.estimator_checks import check_estimator

from skdp.algorithms.group_network import plan_group_network
from skdp.algorithms.max_group_loss import GroupObjective
from skdp.privacy import PrivacyBudget, tightest_epsilon
from skdp.problems import (
    Design,
    EmpiricalRisk,
    GroupNetworkProblem,
    GroupWeights,
    LogisticLoss,
    Network,
    Records,
    SoftmaxLoss,
)
from skdp.robust import DPMaxGroupLossMLPClassifier

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


@pytest.mark.parametrize("hidden, classes", [(4, 2), (4, 3), (0, 2)])
@pytest.mark.parametrize("block", ["x", "y"])
@pytest.mark.parametrize("is_change", [False, True])
def test_one_record_moves_a_sum_by_at_most_the_clip(hidden, classes, block, is_change):
    rng = np.random.default_rng(0)
    largest = 0.0
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
        assert np.linalg.norm(sums[0] - sums[2]) <= 2.0 * clip
        for whole, rest in ((0, 1), (2, 3)):
            moved = np.linalg.norm(sums[whole] - sums[rest])
            assert moved <= clip
            largest = max(largest, moved)
    assert largest > 0.8 * clip  # the clip is reached


def test_rounding_of_others_is_within_its_bound():
    n, d = 400, 30
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, d)), rng.integers(0, 2, n).astype(float)
    groups = rng.integers(0, 3, n)
    made = []
    for order in (slice(None), slice(None, None, -1)):
        records = Records(
            np.ascontiguousarray(X[order]), 1.0, 0.3, targets=y[order], groups=groups[order]
        )
        network = Network(records.width, 16, 1, 1.5)
        made.append(
            GroupNetworkProblem(records, LogisticLoss(), GroupWeights((3.0,) * 3), network, 0.3)
        )
    point = 100.0 * point_of(made[0], 3)[0], np.full(3, 1 / 3)
    one = [made[0].clipped_sum("x", point, None, 1e9, np.array([i])) for i in range(n)]
    many = made[1].clipped_sum("x", point, None, 1e9, None)
    error = np.linalg.norm(np.sum(one, axis=0) - many)
    assert 0.0 < error <= n * made[0].rounding_error("x", point, None)


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
        8.0,
        hidden_units=8,
        data_norm=1.0,
        classes=[0, 1],
        group_names=[0, 1],
        group_proportions=[0.5, 0.5],
        random_state=0,
    ).fit(X, y, groups=groups)
    # a linear model has at most 1/2 for one of the groups
    assert model.group_scores(*conflict(2000, seed=1)).min() > 0.8
    assert model.group_losses(X, y, groups).max() < 0.6


def test_predictions_are_those_of_the_attributes_and_rows_are_bounded():
    X, y, groups = conflict(60)
    shared = {"group_names": [0, 1], "group_proportions": [0.5, 0.5], "classes": [0, 1]}
    model = DPMaxGroupLossMLPClassifier(1.0, **FAST, **shared).fit(X, y, groups=groups)
    hidden = np.tanh(X @ model.coefs_[0] + model.intercepts_[0])
    expected = (hidden @ model.coefs_[1] + model.intercepts_[1])[:, 0]
    assert_allclose(model.decision_function(X), expected)
    long = X / np.linalg.norm(X, axis=1, keepdims=True)
    assert_allclose(model.decision_function(50.0 * long), model.decision_function(long))
    assert_allclose(
        model.fit(sparse.csr_matrix(X), y, groups=groups).decision_function(X), expected
    )
    assert not hasattr(model, "coef_")


def test_several_classes_and_probabilities():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.5, 0.5, size=(90, 2)), np.arange(90) % 3
    model = DPMaxGroupLossMLPClassifier(5.0, classes=[0, 1, 2], **FAST).fit(X, y)
    assert model.coefs_[1].shape == (4, 3)
    assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert (model.group_names_ == [0, 1, 2]).all()


def test_report_pays_for_all_steps_and_names_public_numbers():
    X, y, groups = conflict(60)
    found = []
    for rows in (X, 100.0 * X[::-1]):
        model = DPMaxGroupLossMLPClassifier(
            1.5, 1e-5, **FAST, classes=[0, 1], group_names=[0, 1], group_proportions=[0.3, 0.7]
        ).fit(rows, y, groups=groups)
        found.append(model.privacy_)
    assert found[0] == found[1]  # a function of public numbers
    report = found[0]
    assert report.method == "rgda" and report.plan["n_refresh"] == 6
    assert tightest_epsilon(report.event, 1e-5) == pytest.approx(1.5, rel=1e-6)
    assert report.plan["largest_group_weights"] == pytest.approx([1 / 0.3, 1 / 0.7])
    assert "sosp" not in str(report)


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"delta": 0.0}, "delta"),
        ({"hidden_units": 0}, "hidden_units"),
        ({"balance": 0.0}, "balance"),
        ({"group_mode": "floored"}, "group_mode"),
        ({"group_mode": "public", "group_proportions": [1.0]}, "group_proportions"),
        ({"neighbouring": "add_remove"}, "neighbouring"),
    ],
)
def test_invalid_parameters_are_refused(parameters, message):
    X, y, _ = conflict(20)
    with pytest.raises(ValueError, match=message):
        DPMaxGroupLossMLPClassifier(**parameters).fit(X, y)


def test_factors_that_depend_on_the_records_are_refused():
    design = Design.of(Records(np.zeros((4, 2)), 1.0))
    weights = GroupWeights((2.0, 2.0), clipped=True)
    objective = GroupObjective(EmpiricalRisk(LogisticLoss()), design, weights=weights)
    with pytest.raises(ValueError, match="do not depend on the records"):
        plan_group_network(objective, PrivacyBudget(1.0, 1e-6))


@pytest.mark.filterwarnings("ignore")
def test_check_estimator():
    for result in check_estimator(
        DPMaxGroupLossMLPClassifier(hidden_units=4, n_steps=5), on_fail=None, on_skip=None
    ):
        assert result["status"] in ("passed", "skipped"), result["check_name"]
