"""Plans of private tuning: made before the records, they name their cost and hold no record."""

import math

import numpy as np
import pytest
from tuning_runs import TUNERS, tune

from skdp.algorithms.plan import Run
from skdp.algorithms.tuning.objective import TuningObjective
from skdp.mechanisms import NoiseSource
from skdp.methods import Bilevel
from skdp.privacy import PrivacyBudget
from skdp.problems import HalfSquaredLoss, PenaltyGroups, Records

GROUPS = PenaltyGroups((0, 0, 1, 2), (1.0, 1.0, 1.0, 0.01), 1e-4, 10.0)


def records(loss, seed):
    rng = np.random.default_rng(seed)
    X, t = rng.normal(size=(60, 3)), rng.uniform(-1, 1, 60)
    return Records(X, 1.0, 0.1, targets=t if isinstance(loss, HalfSquaredLoss) else (t > 0) * 1.0)


@pytest.mark.parametrize("name", TUNERS)
def test_other_records_than_planned_are_refused(name):
    """Longer rows or fewer records would need more noise."""
    method, loss = TUNERS[name]
    data = records(loss, 0)
    plan = method.plan(TuningObjective.of(data, loss, GROUPS), PrivacyBudget(1.0, 1e-5))
    others = [Records(data.matrix, norm, 0.1, targets=data.targets) for norm in (0.5, 2.0)]
    for other in (*others, data.take(slice(0, 50))):
        with pytest.raises(
            ValueError, match=r"design that the plan is made for|plan is for Design"
        ):
            plan.run(other, Run())


def test_scaled_columns_are_refused():
    """The bound on whitened rows is that of rows of the data norm."""
    data, loss = records(HalfSquaredLoss(1.0), 0), HalfSquaredLoss(1.0)
    plan = Bilevel(as_published=True).plan(
        TuningObjective.of(data, loss, GROUPS), PrivacyBudget(1.0, 1e-5)
    )
    for factor in (1.0, 3.0):
        view = data.scaled(np.full(4, factor))
        with pytest.raises(ValueError, match="scales columns itself"):
            TuningObjective.of(view, loss, GROUPS)
        with pytest.raises(ValueError, match="scales columns itself"):
            plan.run(view, Run())


def last(number):
    return lambda targets: np.append(targets[:-1], number)


#: Targets that the constants do not hold for.
WRONG_TARGETS = {
    "long": lambda targets: np.append(targets, 0.0), "short": lambda targets: targets[:-1],
    "matrix": lambda targets: targets[:, None], "text": lambda targets: targets.astype(str),
    "large": last(1e6), "small": last(-1.001), "nan": last(math.nan), "half": last(0.5),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG_TARGETS)
@pytest.mark.parametrize("name", TUNERS)
def test_targets_are_refused_before_anything_is_drawn(name, wrong):
    """One target of 1e6 under a bound of 1 would move sums by 1e6 times their sensitivity."""
    method, loss = TUNERS[name]
    if wrong == "half" and isinstance(loss, HalfSquaredLoss):
        return
    data, noise = records(loss, 0), NoiseSource(lambda size: pytest.fail("noise is drawn"))
    with pytest.raises(ValueError, match="targets"):
        bad = data.with_targets(WRONG_TARGETS[wrong](data.targets))
        tune(method.plan, bad, loss, GROUPS, PrivacyBudget(1.0, 1e-5), run=Run(noise=noise))
