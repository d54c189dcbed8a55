"""The methods by name, and the choice of "auto" among them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skdp._checks import InvalidTypeError, check_option
from skdp.algorithms.plan import Plan
from skdp.methods.base import Candidate, Method
from skdp.methods.groups import RGDA, GroupMirrorDescent, PhasedSaddle, SaddleOutputPerturbation
from skdp.methods.linear import (
    ExponentialMechanism,
    Gradient,
    MirrorDescent,
    ObjectivePerturbation,
    Output,
    OutputPerturbation,
    PhasedOutputPerturbation,
)
from skdp.methods.queries import AdaptiveMeasurements, QueryMirrorDescent
from skdp.methods.tuning import Bilevel
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.composition import tightest_epsilon

#: Methods of linear models by name, each with its defaults; "auto" takes the first that leads.
METHODS: dict[str, Method] = {
    "gradient": Gradient(),
    "output": Output(),
    "objective": ObjectivePerturbation(),
    "output_perturbation": OutputPerturbation(),
    "phased": PhasedOutputPerturbation(),
    "exponential": ExponentialMechanism(),
    "mirror_descent": MirrorDescent(),
}
#: Methods of worst-group models, whose plans are of a GroupObjective.
GROUP_METHODS: dict[str, Method] = {
    "gradient": Gradient(),
    "output": Output(),
    "phased": PhasedSaddle(),
    "saddle": SaddleOutputPerturbation(),
    "rgda": RGDA(),
    "mirror_descent": GroupMirrorDescent(),
}
#: Methods of models that tune their penalty, whose plans are of a TuningObjective.
TUNING_METHODS: dict[str, Method] = {
    "gradient": Gradient(),
    "bilevel": Bilevel(),
}
#: Methods of synthetic tables, whose plans are of a QueryObjective.
SYNTHETIC_METHODS: dict[str, Method] = {
    "adaptive": AdaptiveMeasurements(),
    "mirror_descent": QueryMirrorDescent(),
}


#: Classes of the package: each is for the models of some of the tables.
_OURS = tuple(
    type(row)
    for table in (METHODS, GROUP_METHODS, TUNING_METHODS, SYNTHETIC_METHODS)
    for row in table.values()
)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A method and its plan."""

    #: Name of the method, or of the class of the object that was given.
    method: str
    plan: Plan
    #: The numbers that "auto" compared; empty if there was nothing to compare.
    bounds: dict[str, float]
    #: For a report, and before a fit.
    notes: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """Why "auto" took it."""
        if not self.bounds:
            return ""
        bounds = ", ".join(f"{name} {bound:.3g}" for name, bound in self.bounds.items())
        return f"chosen by the smallest bound on the excess loss: {bounds}"

    @property
    def remarks(self) -> tuple[str, ...]:
        """For a report: what "auto" took, and why."""
        taken = (f"method='auto' is {self.method!r}: {self.reason}",) if self.bounds else ()
        return (*taken, *self.notes)


def resolved(methods: Mapping[str, Method], method: Any) -> Method | None:
    """Return the object of a `method`; None for "auto"."""
    if isinstance(method, Method):
        known = tuple({type(row) for row in methods.values()})
        if isinstance(method, _OURS) and not isinstance(method, known):
            others = ", ".join(sorted({type(row).__name__ for row in methods.values()}))
            raise ValueError(f"method={method!r} is not for this model, which takes {others}.")
        return method
    if isinstance(method, type) and issubclass(method, Method):
        raise InvalidTypeError(f"method: pass an object, {method.__name__}(), not the class.")
    check_option("method", method, ["auto", *methods])
    return None if method == "auto" else methods[method]


def choose(
    methods: Mapping[str, Method],
    method: Any,
    objective: Any,
    budget: PrivacyBudget,
    *,
    solver: Any = "auto",
    may_split: bool = True,
    in_memory: bool = True,
    is_slack: bool = False,
) -> Choice:
    """Plan a method; "auto" is one that leads, or that with the smallest bound.

    All bounds are on the expected excess risk over a comparator of the norm of a good predictor on
    a reference design. They are functions of public inputs; they rank methods and promise nothing
    for the data at hand. "auto" chooses among methods that use a given `solver`, solve once unless
    it `may_split`, and meet chunks of records unless they are `in_memory`. With `is_slack` the
    weights of a record, or of a person's records, may add up to less than 1.
    """
    given = resolved(methods, method)
    relation = objective.neighbouring
    if given is not None:
        given.check(method, budget, relation)
        if is_slack and not given.is_weighted:
            raise ValueError(
                f"method={method!r} has no proof for weights of records: sample_weight, "
                "class_weight in the loss, max_records_per_user."
            )
        name = method if isinstance(method, str) else type(method).__name__
        plan = given.plan(objective, budget)
        if not isinstance(given, _OURS):
            _check_cost(name, plan, budget)
        return Choice(method=name, plan=plan, bounds={})
    has_solver = not (isinstance(solver, str) and solver == "auto")
    usable = {
        name: row
        for name, row in methods.items()
        if relation in row.relations
        and (row.is_weighted or not is_slack)
        and (row.chunked or in_memory)
        and (not has_solver or row.uses(solver))
    }
    for name, row in usable.items():
        if row.leads(objective, budget):
            return Choice(method=name, plan=row.plan(objective, budget), bounds={})
    candidates = _candidates(usable, objective, budget, may_split)
    bounds = {name: bound for name, (bound, _) in candidates.items()}
    best = min(candidates, key=lambda name: (bounds[name], name))
    plan = candidates[best][1]()
    return Choice(method=best, plan=plan, bounds=bounds if len(bounds) > 1 else {})


def _check_cost(name: str, plan: Plan, budget: PrivacyBudget) -> None:
    """Raise a ValueError for a user's plan whose releases cost more than the budget."""
    spent = tightest_epsilon(plan.event, budget.delta)
    if spent > budget.epsilon * (1.0 + 1e-6):
        raise ValueError(
            f"{name}: the releases of its plan cost epsilon {spent:.6g} at delta "
            f"{budget.delta:g}, more than the budget of {budget.epsilon:g}."
        )


def _candidates(
    methods: Mapping[str, Method], objective: Any, budget: PrivacyBudget, may_split: bool
) -> dict[str, Candidate]:
    """Return what "auto" compares: the methods with a finite bound, or the first that has any."""
    rows = ((name, row) for name, row in methods.items() if may_split or not row.splits)
    compared = ((name, row.candidate(objective, budget)) for name, row in rows)
    found = {name: candidate for name, candidate in compared if candidate is not None}
    if not found:
        raise ValueError(
            "method='auto' finds no proven method for delta, neighbouring, user_ids, weights and "
            "the solver together. Without a solver, and with delta > 0, there is one."
        )
    finite = {name: candidate for name, candidate in found.items() if candidate[0] < math.inf}
    return finite or dict([next(iter(found.items()))])
