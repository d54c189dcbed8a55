"""Classes as groups: the plain model with log odds of equal classes."""

import numpy as np
from noisy_group_runs import ADD, REPLACE
from plain_noise import Silent

from skdp.algorithms import GroupObjective
from skdp.algorithms.plan import Run
from skdp.algorithms.worst_group.core_stages import plan_core_stages
from skdp.algorithms.worst_group.plain_models import BalancedPlan
from skdp.privacy import PrivacyBudget
from skdp.problems import (
    Design,
    EmpiricalRisk,
    GroupWeights,
    LogisticLoss,
    Records,
    SquaredHingeLoss,
)


def planned(loss, design, relation=REPLACE, epsilon=50.0, are_classes=True, **options):
    goal = GroupObjective(
        EmpiricalRisk(loss), design, neighbouring=relation,
        weights=GroupWeights((10.0,) * (loss.n_outputs + 1)), are_classes=are_classes, **options,
    )  # fmt: skip
    return plan_core_stages(goal, PrivacyBudget(epsilon, 0.01))


def test_there_are_no_log_odds_of_a_rare_class():
    rng = np.random.default_rng(0)
    X, y = 0.5 * rng.uniform(-1.0, 1.0, (2000, 30)), (rng.random(2000) < 0.05).astype(float)
    records = Records(X, 1.0, 0.1, targets=y, groups=y.astype(int))
    design = Design.of(records)
    plan = planned(LogisticLoss(), design, epsilon=0.1)
    assert isinstance(plan, BalancedPlan)
    given = planned(LogisticLoss(), design, epsilon=0.1, are_classes=False)
    assert not isinstance(given, BalancedPlan)
    points = [each.run(records, Run(noise=Silent())).point for each in (plan, given)]
    margins = [X @ point[:-1] + 0.1 * point[-1] for point in points]
    assert abs(margins[0].mean()) < 0.3 and margins[1].mean() < -1.5
    # nothing but the result differs
    assert plan.releases == given.releases


def test_hinges_weigh_classes_by_their_losses():
    plan = planned(SquaredHingeLoss(), Design(1.01, 6, 5000, 1.0, 0.1), ADD)
    assert plan.losses.mu > 0.0
