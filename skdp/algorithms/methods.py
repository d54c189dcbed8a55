"""The methods of linear models: one row per private algorithm, and the choice among them.

A row holds the planner of the algorithm and the conditions of its proof. A new algorithm is a
module with a :class:`~skdp.algorithms.plan.Plan` and a row here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from skdp.algorithms.core.fit import plan_core
from skdp.algorithms.exponential.mechanism import draw_bound, plan_draw
from skdp.algorithms.mirror.linear import plan_linear_mirror_descent
from skdp.algorithms.objective.perturbation import (
    perturbation_candidate,
    plan_objective_perturbation,
)
from skdp.algorithms.objective.theorems import has_theorem
from skdp.algorithms.output.phased import phased_candidate, plan_phased_output_perturbation
from skdp.algorithms.output.prepared import covers_prepared, plan_prepared_output
from skdp.algorithms.output.regularized_risk import plan_regularized_risk
from skdp.algorithms.plan import Plan
from skdp.algorithms.queries.adaptive_measurements import plan_adaptive_measurements
from skdp.algorithms.queries.mirror_descent import plan_linear_queries
from skdp.algorithms.tuning.released_statistics import is_best, plan_released_statistics
from skdp.algorithms.worst_group.clipped_losses import is_preferred
from skdp.algorithms.worst_group.core_stages import plan_core_stages
from skdp.algorithms.worst_group.network import plan_group_network
from skdp.algorithms.worst_group.phased_saddle import plan_max_group_loss
from skdp.algorithms.worst_group.vertices import plan_group_mirror_descent
from skdp.algorithms.worst_group.weighted_stages import covers_stages, plan_weighted_stages
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import REPLACED_RELATIONS, Neighbouring
from skdp.problems import Objective

#: A bound on the excess loss, and a function that makes the plan.
Candidate = tuple[float, Callable[[], Plan]]


@dataclass(frozen=True, kw_only=True)
class Method:
    """A private algorithm in the table of an estimator.

    Parameters
    ----------
    plan : callable ``(objective, budget) -> Plan``
        Public numbers only. The plan's ``to_dict()`` has the penalty used as "alpha"; a plan for a
        loss with kinks has its smooth stand-in as ``risk``.
    leads : callable ``(objective, budget) -> bool``, optional
        Whether "auto" takes it without a comparison. Default: never.
    candidate : callable ``(objective, budget) -> (bound, make)``, optional
        For the comparison by "auto": a bound on the excess loss, and a function that makes the
        plan; None, as by default, or a bound of ``inf``: it takes no part.
    published : callable ``(objective, budget) -> Plan``, optional
        The plan of ``calibration="paper"``. Default: there is none.
    relations : tuple of Neighbouring
        Relations that the proof covers.
    is_pure : bool, default=False
        Whether it needs ``delta == 0``.
    is_bounded : bool, default=False
        Whether it has a public radius of the coefficients if `coef_norm` is None.
    needs_mean : bool, default=True
        Whether the risk must be a mean over records.
    needs_delta : bool, default=False
        Whether it needs ``delta > 0``.
    leads_solvers : callable ``(objective, budget) -> bool``, optional
        The same where a solver was given. Default: never.
    is_penalised : bool, default=True
        Whether it minimises an objective with a penalty.
    penalises_after : bool, default=False
        Whether a penalty and a ball enter after its releases, if the objective `prepares`.
    has_ball : bool, default=True
        Whether it minimises over a ball, by a solver.
    is_entrywise : bool, default=False
        Whether it bounds the entries of X and the sum of the absolute coefficients, not rows.
    clips_groups : bool, default=False
        Whether weights of groups may be clipped at their private sizes (``group_mode="floored"``).
    published_epsilon : float
        `published` is proven below it, for ``delta > 0``.
    chunked : bool, default=False
        Whether it looks at records through sums of statistics alone, so that they may be in chunks.
    is_weighted : bool, default=False
        Whether the weights of a record, or of a person's records, may add up to less than 1.
    """

    plan: Callable[[Any, PrivacyBudget], Plan]
    leads: Callable[[Objective, PrivacyBudget], bool] = lambda objective, budget: False
    leads_solvers: Callable[[Objective, PrivacyBudget], bool] = lambda objective, budget: False
    candidate: Callable[[Objective, PrivacyBudget], Candidate | None] = lambda *public: None
    published: Callable[[Any, PrivacyBudget], Plan] | None = None
    relations: tuple[Neighbouring, ...] = (Neighbouring.REPLACE_ONE,)
    is_pure: bool = False
    is_bounded: bool = False
    needs_mean: bool = True
    needs_delta: bool = False
    is_penalised: bool = True
    penalises_after: bool = False
    has_ball: bool = True
    is_entrywise: bool = False
    clips_groups: bool = False
    published_epsilon: float = math.inf
    chunked: bool = False
    is_weighted: bool = False

    def check(
        self, name: str, budget: PrivacyBudget, neighbouring: Neighbouring, calibration: str
    ) -> None:
        """Raise a ValueError where the proof of the method does not apply."""
        if neighbouring not in self.relations and neighbouring.unit == "user":
            raise ValueError(f"method={name!r} has no proof for user_ids.")
        if neighbouring not in self.relations:
            raise ValueError(f"method={name!r} is proven for neighbouring='replace_one' only.")
        if calibration != "analytic" and (calibration != "paper" or self.published is None):
            raise ValueError(f"method={name!r} has no calibration={calibration!r}.")
        limit = self.published_epsilon
        covered = not budget.is_pure and budget.epsilon < limit
        if calibration == "paper" and math.isfinite(limit) and not covered:
            raise ValueError(
                f"method={name!r} with calibration='paper' is proven for epsilon < {limit:g} "
                "and delta > 0 only."
            )
        if self.needs_delta and budget.is_pure:
            raise ValueError(f"delta == 0: method={name!r} needs delta > 0.")
        if self.is_pure and not budget.is_pure:
            others = named(METHODS, lambda method: not method.is_pure)
            raise ValueError(
                f"method={name!r} gives pure privacy: delta must be 0. For delta > 0 take {others}."
            )


def named(methods: Mapping[str, Method], has: Callable[[Method], bool]) -> str:
    """Name the methods of a table that have a property, for a message; empty for none."""
    names = [f"method={name!r}" for name, method in methods.items() if has(method)]
    return " or ".join([", ".join(names[:-1]), *names[-1:]] if names[1:] else names)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A method and its plan.

    Attributes
    ----------
    method : str
    plan : Plan
    bounds : dict of str to float
        The numbers that "auto" compared; empty if there was nothing to compare.
    replaced : str or None, default=None
        What "auto" would have taken without a solver, a penalty and a ball, if that is another
        method.
    given : str, default=""
        Those of them that were given.
    """

    method: str
    plan: Plan
    bounds: dict[str, float]
    replaced: str | None = None
    given: str = ""

    @property
    def reason(self) -> str:
        """Why "auto" took it."""
        reasons = []
        if self.replaced is not None:
            reasons.append(f"{self.given} was given; without, it is {self.replaced!r}")
        if self.bounds:
            bounds = ", ".join(f"{name} {bound:.3g}" for name, bound in self.bounds.items())
            reasons.append(f"chosen by the smallest bound on the excess loss: {bounds}")
        return "; ".join(reasons)

    @property
    def remarks(self) -> tuple[str, ...]:
        """For a report: what "auto" took, and why."""
        return (f"method='auto' is {self.method!r}: {self.reason}",) if self.reason else ()


def check_chunked(methods: Mapping[str, Any], name: str) -> None:
    """Raise a ValueError for a method that needs all records in memory."""
    if not methods[name].chunked:
        others = ", ".join(repr(key) for key, method in methods.items() if method.chunked)
        hint = f" Methods for a source: {others}." if others else ""
        raise ValueError(f"method={name!r} needs all records in memory.{hint}")


def choose(
    methods: Mapping[str, Method],
    name: str,
    objective: Any,
    budget: PrivacyBudget,
    calibration: str = "analytic",
    *,
    may_split: bool = True,
    has_solver: bool = False,
    in_memory: bool = True,
    is_slack: bool = False,
) -> Choice:
    """Plan the method of a name; "auto" is one that leads, or that with the smallest bound.

    All bounds are on the expected excess risk over a comparator of the norm of a good predictor on
    a reference design. They are functions of public inputs; they rank methods and promise nothing
    for the data at hand.

    Parameters
    ----------
    methods : mapping of str to Method
        The first one is the choice where no other competes.
    name : str
        "auto" or a key of `methods`.
    objective, budget
        See :class:`Method`.
    calibration : {"analytic", "paper"}, default="analytic"
        "paper": the published form of the method.
    may_split : bool, default=True
        Whether "auto" may choose methods of several solves.
    has_solver : bool, default=False
        Whether a solver was given, so that "auto" may choose only a method that uses it.
    in_memory : bool, default=True
        Whether "auto" may choose methods that need all records in memory.
    is_slack : bool, default=False
        Whether the weights of a record, or of a person's records, may add up to less than 1.
    """
    if not in_memory:
        methods = {key: row for key, row in methods.items() if row.chunked}
    if name == "auto":
        proven = {
            key: row
            for key, row in methods.items()
            if objective.neighbouring in row.relations and (row.is_weighted or not is_slack)
        }
        # with a solver the first one is meant, or refused below
        if proven and (next(iter(methods)) in proven or not has_solver):
            methods = proven
    default, *others = methods
    usual, given = None, ""
    if name == "auto" and calibration == "analytic":
        free, given = _without_penalty(objective, has_solver)
        usual = next((key for key, row in methods.items() if row.leads(free, budget)), None)
        leading = [
            key
            for key, row in methods.items()
            if (row.leads_solvers if has_solver else row.leads)(objective, budget)
        ]
        name = leading[0] if leading else name
    first = default if name == "auto" else name
    methods[first].check(first, budget, objective.neighbouring, calibration)
    if is_slack and not methods[first].is_weighted:
        raise ValueError(
            f"method={first!r} has no proof for weights of records: sample_weight, class_weight "
            "in the loss, max_records_per_user."
        )
    published = methods[first].published if calibration == "paper" else None
    plan = (published or methods[first].plan)(objective, budget)
    candidates: dict[str, Candidate] = {}
    if name == "auto" and calibration == "analytic" and may_split:
        found = ((key, methods[key].candidate(objective, budget)) for key in others)
        candidates = {key: each for key, each in found if each and each[0] < math.inf}
    if not candidates:
        replaced = None if usual == first else usual
        return Choice(method=first, plan=plan, bounds={}, replaced=replaced, given=given)
    candidates = {default: (plan.bound(), lambda: plan), **candidates}
    bounds = {key: bound for key, (bound, _) in candidates.items()}
    best = min(bounds, key=lambda key: (bounds[key], key))
    replaced, plan = None if usual == best else usual, candidates[best][1]()
    return Choice(method=best, plan=plan, bounds=bounds, replaced=replaced, given=given)


def _without_penalty(objective: Any, has_solver: bool) -> tuple[Any, str]:
    """Return an objective without penalty and ball, and what was given of them and a solver."""
    if not isinstance(objective, Objective):
        return objective, ""
    asked = {
        "alpha": objective.alpha > 0.0,
        "coef_norm": objective.coef_norm is not None,
        "a solver": has_solver,
    }
    given = " and ".join(name for name, is_given in asked.items() if is_given)
    return replace(objective, alpha=0.0, coef_norm=None), given


def _if_covered(candidate: Callable[[Objective, PrivacyBudget], Candidate]) -> Any:
    """Leave out a method of a ball where it has no proof, or minimises something else.

    With a penalty and without a ball, output perturbation minimises over the whole space.
    """

    def restricted(objective: Objective, budget: PrivacyBudget) -> Candidate | None:
        has_ball = objective.coef_norm is not None or not objective.alpha
        covered = objective.neighbouring.is_replaced and objective.risk.is_mean
        return candidate(objective, budget) if covered and has_ball else None

    return restricted


def _is_plain(objective: Objective) -> bool:
    """Whether neither a penalty nor a ball was asked for, nor the population risk."""
    is_free = not objective.is_penalised and not objective.population
    return objective.risk.is_mean and is_free


def _gradient_leads(objective: Objective, budget: PrivacyBudget) -> bool:
    """Whether nothing was asked for that "gradient" does not have."""
    if objective.prepares:  # penalties enter after the releases
        objective = replace(objective, alpha=0.0, coef_norm=None)
    return _is_plain(objective) and not budget.is_pure


def _group_gradient_leads(objective: Any, budget: PrivacyBudget) -> bool:
    """Whether the same holds for the worst-group method, which its weights have to suit."""
    has_weights = not objective.weights.clipped and not budget.is_pure
    return _is_plain(objective) and has_weights and is_preferred(objective.risk.loss)


def _has_stages(objective: Any, budget: PrivacyBudget) -> bool:
    """Whether weighted stages take the place of the saddle problem."""
    return objective.prepares and covers_stages(objective, budget)


def _stages_lead(objective: Any, budget: PrivacyBudget) -> bool:
    return _has_stages(objective, budget) and not _group_gradient_leads(objective, budget)


def _pure_output_leads(objective: Objective, budget: PrivacyBudget) -> bool:
    """Whether rows are prepared for pure privacy: nothing else was better then."""
    return budget.is_pure and objective.prepares and covers_prepared(objective, budget)


def _output_leads(objective: Objective, budget: PrivacyBudget) -> bool:
    """Whether prepared output perturbation was better than the others that use a solver.

    With much noise objective perturbation was, but for the log loss.
    """
    if not (objective.prepares and covers_prepared(objective, budget)):
        return False
    has_other = has_theorem(objective.risk) and not objective.risk.loss.has_odds
    return not has_other or plan_prepared_output(objective, budget).is_best


def _plan_group_output(objective: Any, budget: PrivacyBudget, n_phases: int | None = None) -> Plan:
    """Prepare and weigh the groups, where the proof of that covers the objective."""
    if _has_stages(objective, budget):
        return plan_weighted_stages(objective, budget)
    return plan_max_group_loss(objective, budget, n_phases=n_phases)


def _plan_output(objective: Objective, budget: PrivacyBudget) -> Plan:
    """Prepare, where the proof of that covers the objective."""
    prepares = objective.prepares and covers_prepared(objective, budget)
    return (plan_prepared_output if prepares else plan_regularized_risk)(objective, budget)


def _statistics_leads(objective: Objective, budget: PrivacyBudget) -> bool:
    """Whether released statistics were better than the others in measurements."""
    return _is_plain(objective) and is_best(objective, budget)


def _objective_leads(objective: Objective, budget: PrivacyBudget) -> bool:
    """Whether objective perturbation was better than the others in measurements.

    docs/theory/objective_perturbation.md, "Measurements".
    """
    is_smooth = objective.risk.is_smooth and has_theorem(objective.risk)
    return budget.is_pure and is_smooth and _is_plain(objective)


#: Methods of linear models by name.
METHODS: dict[str, Method] = {
    "output": Method(
        plan=_plan_output,
        chunked=True,
        leads=_pure_output_leads,
        leads_solvers=_output_leads,
        published=partial(plan_regularized_risk, calibration="paper"),
        relations=tuple(Neighbouring),
        is_weighted=True,
        needs_mean=False,
    ),
    "phased": Method(
        plan=plan_phased_output_perturbation,
        published=partial(plan_phased_output_perturbation, calibration="paper"),
        candidate=_if_covered(phased_candidate),
        relations=REPLACED_RELATIONS,
        is_weighted=True,
        is_bounded=True,
        published_epsilon=1.0,
    ),
    "gradient": Method(
        plan=plan_core,
        leads=_gradient_leads,
        relations=tuple(Neighbouring),
        needs_delta=True,
        is_penalised=False,
        penalises_after=True,
        has_ball=False,
        chunked=True,
        is_weighted=True,
    ),
    "statistics": Method(
        plan=plan_released_statistics,
        chunked=True,
        leads=_statistics_leads,
        relations=tuple(Neighbouring),
        is_weighted=True,
        has_ball=False,
    ),
    "objective": Method(
        plan=plan_objective_perturbation,
        chunked=True,
        leads=_objective_leads,
        candidate=perturbation_candidate,
        relations=tuple(Neighbouring),
        is_weighted=True,
    ),
    "exponential": Method(
        plan=plan_draw,
        candidate=_if_covered(lambda *public: (draw_bound(*public), partial(plan_draw, *public))),
        relations=REPLACED_RELATIONS,
        is_weighted=True,
        is_pure=True,
        is_bounded=True,
    ),
    "mirror_descent": Method(
        plan=plan_linear_mirror_descent,
        relations=tuple(Neighbouring),
        is_weighted=True,
        is_bounded=True,
        has_ball=False,
        is_entrywise=True,
    ),
}

#: Methods for the largest loss of a group: of a :class:`~skdp.algorithms.GroupObjective`, with a
#: :class:`~skdp.algorithms.worst_group.group_plan.GroupPlan`.
GROUP_METHODS: dict[str, Method] = {
    "phased": Method(
        plan=_plan_group_output,
        published=partial(plan_max_group_loss, calibration="paper"),
        relations=tuple(Neighbouring),
        is_weighted=True,
        is_bounded=True,
        clips_groups=True,
        published_epsilon=2.0,
    ),
    "output": Method(
        plan=partial(_plan_group_output, n_phases=1),
        chunked=True,
        leads=_stages_lead,
        leads_solvers=_has_stages,
        relations=tuple(Neighbouring),
        is_weighted=True,
        is_bounded=True,
        clips_groups=True,
    ),
    "gradient": Method(
        plan=plan_core_stages,
        chunked=True,
        leads=_group_gradient_leads,
        relations=tuple(Neighbouring),
        is_weighted=True,
        needs_delta=True,
        is_penalised=False,
        has_ball=False,
    ),
    "rgda": Method(plan=plan_group_network, needs_delta=True, is_penalised=False, has_ball=False),
    "mirror_descent": Method(
        plan=plan_group_mirror_descent,
        relations=(Neighbouring.REPLACE_ONE, Neighbouring.ADD_REMOVE),
        is_bounded=True,
        has_ball=False,
        is_entrywise=True,
    ),
}

#: Methods for linear queries on categorical tables; of a :class:`~skdp.problems.QueryObjective`.
SYNTHETIC_METHODS: dict[str, Method] = {
    "adaptive": Method(
        plan=plan_adaptive_measurements,
        chunked=True,
        needs_delta=True,
        is_weighted=True,
        relations=(Neighbouring.REPLACE_ONE, Neighbouring.REPLACE_USER),
    ),
    "mirror_descent": Method(
        plan=plan_linear_queries,
        chunked=True,
        relations=(Neighbouring.REPLACE_ONE, Neighbouring.REPLACE_USER),
        published=partial(plan_linear_queries, calibration="paper"),
        leads=lambda objective, budget: budget.is_pure,
    ),
}
