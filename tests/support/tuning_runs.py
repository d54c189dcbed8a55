"""Runs of plans that choose penalties."""

from skdp.algorithms import Run
from skdp.algorithms.tuning.objective import TunedResult, TuningObjective
from skdp.methods import Bilevel
from skdp.methods.choice import TUNING_METHODS
from skdp.problems import HalfSquaredLoss, LogisticLoss

#: Methods and losses: all plans that there are.
TUNERS = {
    **{name: (row, HalfSquaredLoss(1.0)) for name, row in TUNING_METHODS.items()},
    "bilevel, log loss": (TUNING_METHODS["bilevel"], LogisticLoss()),
    "bilevel, as published": (Bilevel(as_published=True), HalfSquaredLoss(1.0)),
}


def tune(plan, records, loss, penalties, budget, *, run=None, **options):
    """Run a plan of ``plan(objective=, budget=, **options)``."""
    objective = TuningObjective.of(records, loss, penalties)
    result = plan(objective=objective, budget=budget, **options).run(records, run or Run())
    assert isinstance(result, TunedResult)
    return result
