"""Classes as groups: equal weights as far as noise allows, and log odds of equal classes."""

import numpy as np
import pytest
from noisy_group_runs import (
    ADD,
    REPLACE,
    check_draws,
    design_of,
    neighbours,
    records_of,
    rows_and_groups,
)
from plain_noise import Silent
from scipy.special import expit

from skdp.algorithms import GroupObjective
from skdp.algorithms.core.centered_rows import CenteredRows, Centering
from skdp.algorithms.plan import Run
from skdp.algorithms.worst_group.core_stages import StagesFit, plan_core_stages
from skdp.algorithms.worst_group.group_weights import class_weights
from skdp.algorithms.worst_group.margin_fits import ScaleFit
from skdp.algorithms.worst_group.plain_models import BalancedPlan, PlainModelPlan
from skdp.privacy import PrivacyBudget
from skdp.problems import (
    Design,
    EmpiricalRisk,
    GroupWeights,
    LogisticLoss,
    Records,
    SoftmaxLoss,
    SquaredHingeLoss,
)
from skdp.robust import DPMaxGroupLossClassifier


def planned(loss, design, relation=REPLACE, epsilon=50.0, are_classes=True, **options):
    goal = GroupObjective(
        EmpiricalRisk(loss), design, neighbouring=relation,
        weights=GroupWeights((10.0,) * (loss.n_outputs + 1)), are_classes=are_classes, **options,
    )  # fmt: skip
    return plan_core_stages(goal, PrivacyBudget(epsilon, 0.01))


@pytest.mark.parametrize(
    ("loss", "share", "relation"),
    [(LogisticLoss(), 0.1, REPLACE), (LogisticLoss(), 0.45, ADD), (SoftmaxLoss(3), 0.1, ADD)],
)
def test_no_record_moves_a_sum_by_more_than_its_sensitivity(loss, share, relation):
    rng = np.random.default_rng(2)
    X, _ = rows_and_groups(rng, 100)
    n_classes, single = (3, False) if loss.n_outputs > 1 else (2, True)
    y = rng.choice(
        n_classes, 100, p=[1 - share, share] if single else [1 - share, *[share / 2] * 2]
    )
    data = X, y.astype(float) if single else y, y
    records = records_of(*data)
    others = [
        records_of(other.matrix, other.targets, other.targets.astype(int))
        for other in neighbours(
            data, relation, lambda i: -30.0 * X[i], lambda t: (t + 1) % n_classes
        )
    ]
    plan = planned(loss, design_of(records, relation), relation)
    unrelated = records_of(3.0 * X[::-1], data[1][::-1].copy(), y[::-1].copy())
    # equal classes need no weights
    done = check_draws(plan, records, others, unrelated, 50.0, is_plain=share > 0.4 and single)
    assert done.losses is None and "losses of the groups" not in [r.name for r in done.releases]


def test_weights_of_classes_are_equal_where_noise_is_small():
    p = np.array([0.9, 0.1])
    np.testing.assert_allclose(class_weights(p, 0.0), 0.5, atol=1e-6)
    found = [class_weights(p, price)[1] for price in (1e-4, 1e-3, 1e-2, 1.0)]
    assert found == sorted(found, reverse=True)
    assert found[0] > 0.45 and found[-1] == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_residuals_of_two_classes_are_alike_but_for_their_signs(share):
    """A class of which nothing is known pulls the shift the other way."""
    records = Records(
        np.zeros((4, 2)), 1.0, 0.1, targets=np.zeros(4), groups=np.zeros(4, dtype=int)
    )
    plain = planned(LogisticLoss(), Design(1.01, 3, 4000, 1.0, 0.1)).plain
    p = np.array([share, 1.0 - share])
    rows = CenteredRows(records, Centering.unknown(2, 1))
    fits = [
        ScaleFit(plain, rows, np.ones((1, 3)), np.zeros(1), p, None, are_classes)
        for are_classes in (True, False)
    ]
    for fit in fits:
        fit.sizes = 1000.0 * p
    # of a model of equal classes without margins: the loss log 2, residuals 1/2 and -1/2
    sums = np.zeros((2, 6))
    sums[:, 2], sums[:, 5] = [500.0 * p[0], -500.0 * p[1]], 250.0 * p
    shifts = [fit.step(sums, 60.0)[1] for fit in fits]
    assert abs(shifts[0]) < 0.02
    assert share == 0.5 or shifts[1] < -0.1


def test_the_plain_fallback_has_no_log_odds_of_a_rare_class():
    rng = np.random.default_rng(0)
    X, y = 0.5 * rng.uniform(-1.0, 1.0, (2000, 30)), (rng.random(2000) < 0.05).astype(float)
    records = Records(X, 1.0, 0.1, targets=y, groups=y.astype(int))
    design = Design.of(records)
    plan = planned(LogisticLoss(), design, epsilon=0.1)
    assert isinstance(plan, PlainModelPlan) and isinstance(plan.plain, BalancedPlan)
    given = planned(LogisticLoss(), design, epsilon=0.1, are_classes=False)
    assert not isinstance(given.plain, BalancedPlan)
    points = [each.run(records, Run(noise=Silent())).point for each in (plan, given)]
    margins = [X @ point[:-1] + 0.1 * point[-1] for point in points]
    assert abs(margins[0].mean()) < 0.3 and margins[1].mean() < -1.5
    # nothing but the result differs
    assert plan.releases == given.releases


@pytest.mark.parametrize("loss", [LogisticLoss(), SoftmaxLoss(3)], ids=["two", "three"])
def test_weighted_steps_start_from_a_constant_for_their_weights(loss, monkeypatch):
    """Margins of a model for weights q are those for equal classes, and the logs of q."""
    rng, seen, weights = np.random.default_rng(0), [], StagesFit.weighted_model

    def watched(self, *args, **options):
        seen.extend([self.rows.centering.offsets, self.offsets])
        return weights(self, *args, **options)

    monkeypatch.setattr(StagesFit, "weighted_model", watched)
    X, y = 0.5 * rng.uniform(-1.0, 1.0, (5000, 3)), rng.choice(loss.n_outputs + 1, 5000)
    y[rng.random(5000) < 0.8] = 0
    targets = y if loss.n_outputs > 1 else y.astype(float)
    records = Records(X, 1.0, 0.1, targets=targets, groups=y)
    done = planned(loss, Design.of(records), epsilon=10.0).run(records, Run(noise=Silent())).plan
    assert min(done.factors) < 0.9 and len(seen) == 2
    logs = np.log(np.array(done.weights))
    if loss.n_outputs == 1:
        assert seen[1] == pytest.approx([logs[1] - logs[0]])
    else:
        np.testing.assert_allclose(loss.basis @ seen[1], logs - logs.mean(), atol=1e-9)
    assert abs(seen[0]).max() > 1.0 > 2.0 * abs(seen[1]).max()


def test_hinges_weigh_classes_by_their_losses():
    plan = planned(SquaredHingeLoss(), Design(1.01, 6, 5000, 1.0, 0.1), ADD)
    assert plan.losses is not None and not isinstance(plan.plain, BalancedPlan)


def table(n, d, share, seed):
    rng = np.random.default_rng([seed, n, d])
    Z = rng.uniform(-1.0, 1.0, (n, d))
    odds = 3.0 / np.sqrt(5.0) * Z[:, :5].sum(axis=1)
    low, high = -20.0, 20.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if expit(odds + middle).mean() < share else (low, middle)
    return Z / np.sqrt(d), (odds + low + rng.logistic(size=n) > 0.0).astype(int)


@pytest.mark.parametrize(
    ("n", "d", "share", "limit", "solver"),
    [
        (4_000, 60, 0.08, 0.8, "auto"),  # 2.2 with the log odds of the rare class
        (4_000, 5, 0.08, 0.75, "newton"),
    ],
)
def test_no_class_is_worse_off_than_by_a_constant(n, d, share, limit, solver):
    """Of 1/2, which has a log loss of 0.693; two seeds at epsilon 1."""
    found = []
    for seed in range(2):
        X, y = table(n, d, share, seed)
        model = DPMaxGroupLossClassifier(
            data_norm=1.0, classes=[0, 1], solver=solver, random_state=seed
        )
        X_new, y_new = table(20_000, d, share, 50 + seed)
        found.append(max(model.fit(X, y).group_losses(X_new, y_new, y_new).values()))
    assert np.mean(found) < limit
