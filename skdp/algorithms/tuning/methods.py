"""The methods of private tuning: one row per plan.

A new method is a module with a :class:`TuningPlan` and a row here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from skdp.algorithms.plan import Run
from skdp.algorithms.tuning.bilevel import BilevelTuningPlan
from skdp.algorithms.tuning.exponential import DrawPlan
from skdp.algorithms.tuning.final_fit import PublicRulePlan
from skdp.algorithms.tuning.hypergradient import HypergradientPlan
from skdp.algorithms.tuning.newton import NewtonPlan
from skdp.algorithms.tuning.objective import TunedResult, TuningObjective, TuningPlan
from skdp.algorithms.tuning.sufficient_statistics import SufficientStatisticsPlan
from skdp.privacy.budget import PrivacyBudget
from skdp.problems import Loss, PenaltyGroups, Records


@dataclass(frozen=True, kw_only=True)
class TuningMethod:
    """A private tuner as estimators see it.

    Parameters
    ----------
    plan : callable ``(*, objective, budget, **options) -> TuningPlan``
    options : tuple of str
        Those of "n_folds" and "tune_share" that the plan has.
    needs_delta : bool, default=False
        Whether it is proven for ``delta > 0`` only.
    largest : float, default=10.0
        Default upper bound of alpha in units of the squared norm bound of a row. A method whose
        releases show that they hold nothing but noise may go up to a constant model.
    chunked : bool, default=False
        Whether records may be in chunks, without folds.
    """

    plan: Callable[..., TuningPlan]
    options: tuple[str, ...] = ("n_folds", "tune_share")
    needs_delta: bool = False
    largest: float = 10.0
    chunked: bool = False

    def check(self, name: str, budget: PrivacyBudget, n_folds: int | None) -> None:
        """Raise a ValueError where the method does not apply."""
        if n_folds is not None and "n_folds" not in self.options:
            raise ValueError(f"method={name!r} has no folds: cv must be None.")
        if self.needs_delta and budget.is_pure:
            raise ValueError(
                f"method={name!r} needs delta > 0. The other methods give pure privacy."
            )


#: Methods of private tuning by name.
TUNING_METHODS: dict[str, TuningMethod] = {
    "sufficient_statistics": TuningMethod(
        plan=SufficientStatisticsPlan, options=("n_folds",), largest=1e6, chunked=True
    ),
    "newton": TuningMethod(plan=NewtonPlan, options=("n_folds",), largest=1e6, chunked=True),
    "bilevel": TuningMethod(plan=BilevelTuningPlan, options=("tune_share",), needs_delta=True),
    "bilevel_minibatch": TuningMethod(
        plan=partial(BilevelTuningPlan, minibatch=True), options=("tune_share",), needs_delta=True
    ),
    "hypergradient": TuningMethod(plan=HypergradientPlan),
    "exponential": TuningMethod(plan=DrawPlan),
    "public": TuningMethod(plan=PublicRulePlan, options=()),
}


def tune(
    method: str,
    records: Records,
    loss: Loss,
    penalties: PenaltyGroups,
    budget: PrivacyBudget,
    *,
    run: Run | None = None,
    **options: Any,
) -> TunedResult:
    """Choose alpha privately, together with the model for it; replace-one neighbours.

    Parameters
    ----------
    method : str
        A key of `TUNING_METHODS`.
    records : Records
        With targets in the encoding of `loss`.
    loss : Loss
        Smooth, of one margin.
    penalties : PenaltyGroups
    budget : PrivacyBudget
        For the choice and the fit together.
    run : Run, optional
        Solver, randomness and noise.
    **options
        Further parameters of the plan of the method.

    Returns
    -------
    TunedResult
    """
    objective = TuningObjective.of(records, loss, penalties)
    plan = TUNING_METHODS[method].plan(objective=objective, budget=budget, **options)
    return plan.run(records, run or Run())
