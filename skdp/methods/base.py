"""What a private algorithm is for an estimator: parameters of its own, conditions, a plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from sklearn.base import BaseEstimator

from skdp._checks import LARGEST_UNIT, check_bool, check_option, check_real, check_unit
from skdp.algorithms.plan import Plan
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import Neighbouring
from skdp.problems import EmpiricalRisk, Loss
from skdp.solvers import resolve_solver

#: A bound on the excess loss, and a function that makes the plan.
Candidate = tuple[float, Callable[[], Plan]]


class Method(BaseEstimator, ABC):
    """Base of private algorithms; derive a class from it to add one.

    An object is the `method` of an estimator. It has the parameters of its algorithm, so that
    ``get_params``, ``clone``, ``set_params(method__alpha=...)`` and searches work on them. It
    makes a plan from public numbers; it has no ``fit`` and never sees a record.
    docs/develop/add_method.md adds one from outside of the package.

    Attributes
    ----------
    relations : tuple of Neighbouring
        Relations, of records and of persons, that the proof covers.
    needs_delta, is_pure : bool
        Whether the proof needs ``delta > 0``, or ``delta == 0``.
    is_weighted : bool
        Whether weights of a record, or of a person's records, may add up to less than 1.
    chunked : bool
        Whether it meets records through sums alone, so that they may be in chunks.
    is_binary : bool
        Whether it is for two classes, or numbers.
    takes_alpha : bool
        Whether the `alpha` of the estimator enters, after all releases.
    is_entrywise : bool
        Whether it bounds the entries of X by `feature_bound`, not rows by `data_norm`.
    splits : bool
        Whether it calls a solver several times.
    """

    relations: ClassVar[tuple[Neighbouring, ...]] = (Neighbouring.REPLACE_ONE,)
    needs_delta: ClassVar[bool] = False
    is_pure: ClassVar[bool] = False
    is_weighted: ClassVar[bool] = False
    chunked: ClassVar[bool] = False
    is_binary: ClassVar[bool] = False
    takes_alpha: ClassVar[bool] = False
    is_entrywise: ClassVar[bool] = False
    splits: ClassVar[bool] = False
    #: Of models that tune their penalty, if they declare none, over the squared norm of a row.
    alpha_bounds: ClassVar[tuple[float, float]] = (1e-30, 1e30)

    #: Value of the constant feature of the intercept, in units of the norm of a row.
    intercept_scaling: float = 0.1
    #: Of entrywise methods: the public bound on an entry of X.
    feature_bound: float | None = None

    @abstractmethod
    def plan(self, objective: Any, budget: PrivacyBudget) -> Plan:
        """Plan the algorithm from public numbers.

        Parameters
        ----------
        objective : Objective
            The risk, the public shape and bounds of the records, and the relation; for worst-group
            models a GroupObjective.
        budget : PrivacyBudget

        Returns
        -------
        Plan
            Its ``to_dict()`` has the penalty used as "alpha"; a plan for a loss with kinks has its
            smooth stand-in as ``risk``.

        Raises
        ------
        ValueError
            If the proof does not cover the objective.
        """

    def leads(self, objective: Any, budget: PrivacyBudget) -> bool:
        """Whether "auto" takes it without a comparison, if no one before it leads."""
        return False

    def candidate(self, objective: Any, budget: PrivacyBudget) -> Candidate | None:
        """Return a bound on the excess loss and what makes the plan, if "auto" compares it."""
        return None

    def risk(self, loss: Loss) -> EmpiricalRisk:
        """Return what is minimised of the losses of the records."""
        return EmpiricalRisk(loss)

    @property
    def has_solver(self) -> bool:
        """Whether it has a `solver`."""
        return "solver" in self.get_params(deep=False)

    def uses(self, solver: Any) -> bool:
        """Whether it solves with a solver, or one of that name."""
        return self.has_solver

    def check_solver(self, solver: Any) -> None:
        """Raise a ValueError for what is no solver of its problems."""
        resolve_solver(solver)

    def check(self, name: Any, budget: PrivacyBudget, neighbouring: Neighbouring) -> None:
        """Raise a ValueError for parameters, or where the proof does not apply.

        `name` is how messages call it: that of a `method`, or the object.
        """
        if neighbouring not in self.relations and neighbouring.unit == "user":
            raise ValueError(f"method={name!r} has no proof for user_ids.")
        if neighbouring not in self.relations:
            raise ValueError(f"method={name!r} is proven for neighbouring='replace_one' only.")
        if self.needs_delta and budget.is_pure:
            raise ValueError(f"delta == 0: method={name!r} needs delta > 0.")
        if self.is_pure and not budget.is_pure:
            raise ValueError(f"method={name!r} gives pure privacy: delta must be 0.")


class Published(Method):
    """Base of algorithms as published: their penalty and their ball are those of the problem."""

    calibration: str = "analytic"
    #: Whether there is a public radius if `coef_norm` is None, so that `alpha` may be 0.
    is_bounded: ClassVar[bool] = False
    #: The published constants are proven below it.
    published_epsilon: ClassVar[float | None] = None

    def __init__(
        self,
        alpha: float | str = "auto",
        coef_norm: float | None = None,
        population: bool = False,
        calibration: str = "analytic",
        intercept_scaling: float = 0.1,
        solver: Any = "auto",
    ) -> None:
        self.alpha = alpha
        self.coef_norm = coef_norm
        self.population = population
        self.calibration = calibration
        self.intercept_scaling = intercept_scaling
        self.solver = solver

    def applied(self, objective: Any) -> Any:
        """Return the objective with the parameters of the method."""
        given: dict[str, Any] = {"population": bool(self.population)}
        if self.alpha != "auto":
            given["alpha"] = float(self.alpha)
        if self.coef_norm is not None:
            given["coef_norm"] = float(self.coef_norm)
        return replace(objective, **given)

    def check(self, name: Any, budget: PrivacyBudget, neighbouring: Neighbouring) -> None:
        super().check(name, budget, neighbouring)
        check_real("intercept_scaling", self.intercept_scaling, 1e-6, 1e6)
        check_bool("population", self.population)
        if self.coef_norm is not None:
            check_unit("coef_norm", self.coef_norm)
        if not (isinstance(self.alpha, str) and self.alpha == "auto"):
            check_real("alpha", self.alpha, 0.0, LARGEST_UNIT**2)
            if self.alpha == 0 and self.coef_norm is None and not self.is_bounded:
                raise ValueError(
                    f"method={name!r}: alpha == 0 needs coef_norm: without a penalty the "
                    "coefficients must be bounded by a public radius."
                )
        check_option("calibration", self.calibration, ["analytic", "paper"])
        if self.calibration != "paper":
            return
        if neighbouring is not Neighbouring.REPLACE_ONE:
            raise ValueError(
                f"method={name!r}: calibration='paper' is proven for neighbouring='replace_one' "
                "and single records only."
            )
        limit = self.published_epsilon
        if limit is not None and (budget.is_pure or budget.epsilon >= limit):
            raise ValueError(
                f"method={name!r}: calibration='paper' is proven for epsilon < {limit:g} and "
                "delta > 0 only."
            )
