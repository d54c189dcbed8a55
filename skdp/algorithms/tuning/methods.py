"""The methods of private tuning: one row per plan.

A new method is a module with a plan, whose run returns a :class:`TunedResult`, and a row here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from skdp.algorithms.plan import Plan, Run
from skdp.algorithms.tuning.bilevel import BilevelTuningPlan
from skdp.algorithms.tuning.exponential import DrawPlan
from skdp.algorithms.tuning.final_fit import PublicRulePlan
from skdp.algorithms.tuning.hypergradient import HypergradientPlan
from skdp.algorithms.tuning.newton import NewtonPlan
from skdp.algorithms.tuning.objective import TunedResult, TuningObjective
from skdp.algorithms.tuning.shrinkage import plan_shrinkage
from skdp.algorithms.tuning.sufficient_statistics import SufficientStatisticsPlan
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import REPLACED_RELATIONS, Neighbouring
from skdp.problems import Design, Loss, PenaltyGroups, Records


@dataclass(frozen=True, kw_only=True)
class TuningMethod:
    """A private tuner as estimators see it.

    Parameters
    ----------
    plan : callable ``(*, objective, budget, **options) -> Plan``
        Its run returns a :class:`TunedResult`.
    options : tuple of str
        Those of "tune_share", "inner" and "grid" that the planner has.
    needs_delta : bool, default=False
        Whether it is proven for ``delta > 0`` only.
    has_solver : bool, default=True
        Whether it solves penalised problems.
    relations : tuple of Neighbouring
        Relations that the proof covers.
    bounds : tuple of two floats, default=(1e-6, 10.0)
        Default bounds of alpha in units of the squared norm bound of a row. A method whose
        releases show that they hold nothing but noise may go up to a constant model.
    chunked : bool, default=False
        Whether records may be in chunks.
    is_weighted : bool, default=False
        Whether the weights of a record, or of a person's records, may add up to less than 1.
    """

    plan: Callable[..., Plan]
    options: tuple[str, ...] = ("tune_share",)
    needs_delta: bool = False
    has_solver: bool = True
    relations: tuple[Neighbouring, ...] = (Neighbouring.REPLACE_ONE,)
    bounds: tuple[float, float] = (1e-6, 10.0)
    chunked: bool = False
    is_weighted: bool = False
    is_entrywise: ClassVar[bool] = False
    is_binary: ClassVar[bool] = False

    def check_design(self, name: str, design: Design, neighbouring: Neighbouring) -> None:
        """Raise a ValueError where the proof does not cover persons or weights."""
        if neighbouring not in self.relations:
            raise ValueError(f"method={name!r} has no proof for user_ids.")
        if design.is_slack and not self.is_weighted:
            raise ValueError(
                f"method={name!r} has no proof for sample_weight, nor for class_weight in the loss."
            )

    def check(
        self,
        name: str,
        budget: PrivacyBudget,
        neighbouring: Neighbouring,
        asked: Mapping[str, Any],
    ) -> None:
        """Raise a ValueError where the method does not apply.

        `asked` has the parameters of an estimator that only some methods have, None if not given.
        """
        if neighbouring not in self.relations:
            raise ValueError(f"method={name!r} is proven for neighbouring='replace_one' only.")
        if self.needs_delta and budget.is_pure:
            raise ValueError(
                f"method={name!r} needs delta > 0. The other methods give pure privacy."
            )
        if asked["alphas"] is not None and "grid" not in self.options:
            raise ValueError(
                f"method={name!r} searches within alpha_bounds: alphas must be None. "
                "method='gradient' (delta > 0) compares given ones."
            )
        if asked["inner"] is not None and "inner" not in self.options:
            raise ValueError(f"method={name!r} has no inner solver: inner is for method='bilevel'.")
        if asked["solver"] is not None and not self.has_solver:
            raise ValueError(
                f"method={name!r} solves no penalised problem: solver must be 'auto'. "
                "method='auto' with a solver is output perturbation on prepared rows."
            )


#: Methods of private tuning by name.
TUNING_METHODS: dict[str, TuningMethod] = {
    "gradient": TuningMethod(
        plan=plan_shrinkage,
        options=("grid",),
        needs_delta=True,
        has_solver=False,
        relations=tuple(Neighbouring),
        bounds=(1e-30, 1e30),
        chunked=True,
        is_weighted=True,
    ),
    "sufficient_statistics": TuningMethod(
        plan=SufficientStatisticsPlan,
        options=(),
        has_solver=False,
        relations=tuple(Neighbouring),
        bounds=(1e-6, 1e6),
        chunked=True,
        is_weighted=True,
    ),
    "newton": TuningMethod(
        plan=NewtonPlan,
        options=(),
        has_solver=False,
        relations=tuple(Neighbouring),
        bounds=(1e-6, 1e6),
        chunked=True,
        is_weighted=True,
    ),
    "bilevel": TuningMethod(
        plan=BilevelTuningPlan,
        options=("tune_share", "inner"),
        needs_delta=True,
        relations=REPLACED_RELATIONS,
        is_weighted=True,
    ),
    "bilevel_minibatch": TuningMethod(
        plan=partial(BilevelTuningPlan, inner="localized_sgd"),
        options=("tune_share",),
        needs_delta=True,
        relations=REPLACED_RELATIONS,
        is_weighted=True,
    ),
    "hypergradient": TuningMethod(
        plan=HypergradientPlan, relations=REPLACED_RELATIONS, is_weighted=True
    ),
    "exponential": TuningMethod(plan=DrawPlan, relations=REPLACED_RELATIONS, is_weighted=True),
    "public": TuningMethod(
        plan=PublicRulePlan, options=(), relations=REPLACED_RELATIONS, is_weighted=True
    ),
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
    """
    objective = TuningObjective.of(records, loss, penalties)
    plan = TUNING_METHODS[method].plan(objective=objective, budget=budget, **options)
    result = plan.run(records, run or Run())
    assert isinstance(result, TunedResult)
    return result
