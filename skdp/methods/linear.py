"""The methods of linear models: ours, and published algorithms."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from skdp._checks import check_option, check_real, check_unit
from skdp.algorithms.core.fit import covers_solves, plan_core
from skdp.algorithms.exponential.localisation import draw_bound, plan_draw
from skdp.algorithms.mirror.linear import VARIANTS, plan_linear_mirror_descent
from skdp.algorithms.objective.perturbation import (
    perturbation_candidate,
    plan_objective_perturbation,
)
from skdp.algorithms.objective.theorems import has_theorem
from skdp.algorithms.output.phased import phased_candidate, plan_phased_output_perturbation
from skdp.algorithms.output.regularized_risk import plan_regularized_risk
from skdp.algorithms.plan import Plan
from skdp.algorithms.tuning.objective import TuningObjective
from skdp.algorithms.tuning.shrinkage import plan_shrinkage
from skdp.algorithms.worst_group.core_stages import plan_core_stages
from skdp.methods.base import Candidate, Method, Published
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import REPLACED_RELATIONS, Neighbouring
from skdp.privacy.gaussian_dp import gaussian_mu
from skdp.problems import EmpiricalRisk, Loss, Objective, TiltedRisk
from skdp.problems.group_objective import GroupObjective
from skdp.solvers.adapters import SklearnSolver
from skdp.solvers.resolve import is_saddle_solver


class Gradient(Method):
    """Planned noisy gradient steps: what "auto" takes with ``delta > 0``. Ours.

    Means of rows and targets are released, then noisy sums of clipped gradients, and, of squares
    and log odds, the size and the shift of the margins. The `alpha` of the estimator enters after
    the releases. All units, relations and places.

    References
    ----------
    docs/theory/core.md, Theorem 1.
    """

    relations = tuple(Neighbouring)
    needs_delta = True
    is_weighted = True
    chunked = True
    takes_alpha = True

    def plan(self, objective: Any, budget: PrivacyBudget) -> Plan:
        if isinstance(objective, TuningObjective):
            return plan_shrinkage(objective, gaussian_mu(budget.epsilon, budget.delta))
        if not isinstance(objective, GroupObjective):
            return plan_core(objective, budget)
        return plan_core_stages(objective, budget)

    def leads(self, objective: Any, budget: PrivacyBudget) -> bool:
        """Whether it covers the objective, and was not behind other methods in measurements."""
        if isinstance(objective, GroupObjective):
            loss = objective.risk.loss  # for others the saddle methods were better
            return not budget.is_pure and (loss.has_odds or loss.is_quadratic)
        # attacks have no penalty after the releases
        is_free = objective.risk.is_mean or not objective.is_penalised
        return is_free and not budget.is_pure


class Output(Method):
    """Any solver in place of the noisy steps: what "auto" takes with a `solver`. Ours.

    Means of rows and targets are released first. Then at most ten problems on the centered rows,
    each penalised around the released solution before it, are solved to a proven accuracy, and
    their solutions are released with noise. All else is as in :class:`Gradient`; worst-group
    models weigh the groups by their released losses. The `alpha` of the estimator enters after the
    releases. With ``delta == 0`` for squared errors, and not for worst-group models.

    Parameters
    ----------
    solver : str, Solver or callable, default="auto"
        "auto", a name of `skdp.solvers.SOLVERS` such as "newton", "lbfgs" or "svrg", a
        `skdp.solvers.Solver`, or a callable ``(problem, accuracy) -> array``.

    References
    ----------
    docs/theory/core.md, section 10.
    """

    relations = tuple(Neighbouring)
    is_weighted = True
    chunked = True
    takes_alpha = True

    def __init__(self, solver: Any = "auto") -> None:
        self.solver = solver

    def plan(self, objective: Any, budget: PrivacyBudget) -> Plan:
        if not self.leads(objective, budget):
            raise ValueError(
                "method='output' is not for this objective: with delta == 0 it is for squared "
                "errors. Take method='auto', or skdp.methods.OutputPerturbation() "
                "(SaddleOutputPerturbation() for groups)."
            )
        if isinstance(objective, GroupObjective):
            return plan_core_stages(objective, budget, True)
        return plan_core(objective, budget, True)

    def leads(self, objective: Any, budget: PrivacyBudget) -> bool:
        """Whether it is proven for the objective, and was not behind in measurements.

        Groups whose numbers conflict have mostly the largest slopes where losses are linear.
        """
        if isinstance(objective, GroupObjective):
            loss = objective.risk.loss
            if budget.is_pure or (loss.target_bound and not loss.is_quadratic):
                return False
        return covers_solves(objective, budget)

    def uses(self, solver: Any) -> bool:
        """Whether a solver is for minimisation."""
        return not is_saddle_solver(solver)

    def check_solver(self, solver: Any) -> None:
        super().check_solver(solver)
        if isinstance(solver, SklearnSolver) and not solver.holds_records:
            raise ValueError(
                "Estimators of scikit-learn cannot clip slopes, as method='output' needs it: take "
                "solver=ScipySolver('L-BFGS-B'), or method=OutputPerturbation(solver=...), which "
                "has the plain loss."
            )


class OutputPerturbation(Published):
    """Output perturbation as published: one penalised solve, noise once.

    The noise is proportional to ``1 / (alpha n)``: far more than that of the default, and with
    ``calibration="paper"`` and few records a constant may be as good. The intercept is the weight
    of a constant feature and is penalised, as all are.

    Parameters
    ----------
    alpha : "auto" or float, default="auto"
        L2 penalty of the solve, on the mean loss. "auto" minimises a public bound on the expected
        loss. 0 needs `coef_norm`; a public penalty is then chosen.
    coef_norm : float or None, default=None
        Radius of the ball of the coefficients, intercept weight included. None: a radius that no
        penalised solution exceeds.
    tilt : float, default=0.0
        Above 0, the mean loss is replaced by ``log(mean(exp(tilt * loss))) / tilt``, in which
        records with a large loss weigh more. The noise grows with the largest weight of a record,
        which a small `coef_norm` bounds: of use up to about ``log(n_samples) / coef_norm``.
    population : bool, default=False
        Whether "auto" is for the loss on other records of the distribution, not on these.
    calibration : {"analytic", "paper"}, default="analytic"
        "paper": the published constants, errata corrected, for comparison.
    intercept_scaling : float, default=0.1
        Value of the intercept's feature in units of `data_norm`.
    solver : str, Solver or callable, default="auto"
        As in :class:`Output`.

    References
    ----------
    Lowy and Razaviyayn (2021), Output Perturbation for Differentially Private Convex Optimization:
    Proposition 3.1, Algorithms 1 and 6. docs/theory/output_perturbation.md.
    """

    relations = tuple(Neighbouring)
    is_weighted = True
    chunked = True

    def __init__(
        self,
        alpha: float | str = "auto",
        coef_norm: float | None = None,
        tilt: float = 0.0,
        population: bool = False,
        calibration: str = "analytic",
        intercept_scaling: float = 0.1,
        solver: Any = "auto",
    ) -> None:
        super().__init__(alpha, coef_norm, population, calibration, intercept_scaling, solver)
        self.tilt = tilt

    def risk(self, loss: Loss) -> EmpiricalRisk:
        return TiltedRisk(loss, float(self.tilt)) if self.tilt else super().risk(loss)

    def plan(self, objective: Any, budget: PrivacyBudget) -> Plan:
        return plan_regularized_risk(self.applied(objective), budget, self.calibration)

    def candidate(self, objective: Any, budget: PrivacyBudget) -> Candidate | None:
        plan = self.plan(objective, budget)
        return plan.bound(), lambda: plan

    def check(self, name: Any, budget: PrivacyBudget, neighbouring: Neighbouring) -> None:
        super().check(name, budget, neighbouring)
        check_real("tilt", self.tilt, 0.0, 1e6)
        if self.tilt and not neighbouring.is_replaced:
            raise ValueError("tilt > 0 is proven for neighbouring='replace_one' only.")


class PhasedOutputPerturbation(Published):
    """Phased output perturbation as published: solves on disjoint blocks of records.

    Each solve is regularised around the noisy solution of the block before. Only the first block
    adds bias: with at least 100,000 records it is better than :class:`OutputPerturbation`.

    Parameters
    ----------
    alpha : "auto" or float, default="auto"
        L2 penalty that is part of the objective; "auto": none.
    coef_norm : float or None, default=None
        Radius of the ball of the coefficients, intercept weight included. None: a public radius
        that few predictors exceed on isotropic rows.
    population : bool, default=False
        As in :class:`OutputPerturbation`.
    calibration : {"analytic", "paper"}, default="analytic"
        "paper": the published constants, errata corrected; for ``epsilon < 1``.
    intercept_scaling : float, default=0.1
        As in :class:`OutputPerturbation`.
    solver : str, Solver or callable, default="auto"
        As in :class:`OutputPerturbation`.

    References
    ----------
    Zhang et al. (2022), Bring Your Own Algorithm for Optimal Differentially Private Stochastic
    Minimax Optimization, Algorithm 2. docs/theory/output_perturbation.md, "Phases".
    """

    relations = REPLACED_RELATIONS
    is_weighted = True
    splits = True
    is_bounded = True
    published_epsilon = 1.0

    def plan(self, objective: Any, budget: PrivacyBudget) -> Plan:
        return plan_phased_output_perturbation(self.applied(objective), budget, self.calibration)

    def candidate(self, objective: Any, budget: PrivacyBudget) -> Candidate | None:
        """Return the bound of the best phases."""
        return phased_candidate(objective, budget) if _has_ball(objective) else None


class ObjectivePerturbation(Published):
    """Objective perturbation: a random linear term in the problem, one solve.

    For losses with a bounded derivative: log loss, softmax, hinges of two classes, Huber, absolute
    and quantile loss. The noise is divided by the curvature of the data, so that a weak penalty
    does not increase it: what "auto" takes with ``delta == 0`` but for squared errors.

    Parameters
    ----------
    alpha : "auto" or float, default="auto"
        L2 penalty on the mean loss, raised to what privacy needs.
    coef_norm : float or None, default=None
        The solution is projected onto the ball of that radius.
    population : bool, default=False
        As in :class:`OutputPerturbation`.
    solver : str, Solver or callable, default="auto"
        As in :class:`OutputPerturbation`.

    References
    ----------
    Kifer, Smith and Thakurta (2012); Redberg, Koskela and Wang (2023).
    docs/theory/objective_perturbation.md, Theorems 1 to 6.
    """

    relations = tuple(Neighbouring)
    is_weighted = True
    chunked = True

    def __init__(
        self,
        alpha: float | str = "auto",
        coef_norm: float | None = None,
        population: bool = False,
        solver: Any = "auto",
    ) -> None:
        super().__init__(alpha, coef_norm, population, solver=solver)

    def plan(self, objective: Any, budget: PrivacyBudget) -> Plan:
        return plan_objective_perturbation(self.applied(objective), budget)

    def leads(self, objective: Any, budget: PrivacyBudget) -> bool:
        """Whether it was better than the others in measurements: pure privacy, no penalty."""
        is_covered = objective.risk.is_smooth and has_theorem(objective.risk)
        return budget.is_pure and is_covered and not objective.is_penalised

    def candidate(self, objective: Any, budget: PrivacyBudget) -> Candidate | None:
        """Return the bound of its plan, where a theorem covers the objective."""
        return perturbation_candidate(objective, budget)


class ExponentialMechanism(Published):
    """An exact draw from the density ``exp(-s F)`` on a ball; with many columns below a constant.

    For ``delta == 0`` and few coefficients: it adds about ``d / (2 s)`` to the mean loss, which
    grows with the square of their number d, and it warns where a constant may be as good. The log
    loss of more than ten columns or so is refused. The run time depends on the records and is not
    bounded, and the sampler works in double precision.

    Parameters
    ----------
    alpha : "auto" or float, default="auto"
        L2 penalty that is part of the objective; "auto": none.
    coef_norm : float or None, default=None
        Radius of the ball, intercept weight included. None: a public radius that few predictors
        exceed on isotropic rows.
    population : bool, default=False
        As in :class:`OutputPerturbation`.
    intercept_scaling : float, default=0.1
        As in :class:`OutputPerturbation`.
    solver : str, Solver or callable, default="auto"
        Of a solve that narrows the ball first, where it does.

    References
    ----------
    Lowy and Razaviyayn (2021), Algorithms 9 to 11. docs/theory/exponential_mechanism.md.
    """

    relations = REPLACED_RELATIONS
    is_pure = True
    is_weighted = True
    is_binary = True
    is_bounded = True

    def __init__(
        self,
        alpha: float | str = "auto",
        coef_norm: float | None = None,
        population: bool = False,
        intercept_scaling: float = 0.1,
        solver: Any = "auto",
    ) -> None:
        options = {"intercept_scaling": intercept_scaling, "solver": solver}
        super().__init__(alpha, coef_norm, population, **options)

    def plan(self, objective: Any, budget: PrivacyBudget) -> Plan:
        return plan_draw(self.applied(objective), budget)

    def candidate(self, objective: Any, budget: PrivacyBudget) -> Candidate | None:
        """Return a bound on the loss of a draw."""
        if not (budget.is_pure and _has_ball(objective)):
            return None
        return draw_bound(objective, budget), partial(plan_draw, objective, budget)


class Entrywise(Method):
    """Base of mirror descent, which bounds the entries of X and draws vertices of an l1 ball."""

    is_entrywise = True
    intercept_scaling = 1.0
    variants: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        variant: str = "plain",
        feature_bound: float | None = None,
        coef_norm_l1: float | None = None,
        alpha: float | str = "auto",
    ) -> None:
        self.variant = variant
        self.feature_bound = feature_bound
        self.coef_norm_l1 = coef_norm_l1
        self.alpha = alpha

    def applied(self, objective: Any) -> Any:
        return replace(
            objective,
            alpha=0.0 if self.alpha == "auto" else float(self.alpha),
            coef_norm_l1=None if self.coef_norm_l1 is None else float(self.coef_norm_l1),
            feature_bound=1.0 if self.feature_bound is None else float(self.feature_bound),
            mirror_variant=self.variant,
        )

    def check(self, name: Any, budget: PrivacyBudget, neighbouring: Neighbouring) -> None:
        super().check(name, budget, neighbouring)
        check_option("variant", self.variant, self.variants)
        for unit in ("feature_bound", "coef_norm_l1"):
            if getattr(self, unit) is not None:
                check_unit(unit, getattr(self, unit))
        if not (isinstance(self.alpha, str) and self.alpha == "auto"):
            check_real("alpha", self.alpha, 0.0, 1e60, closed="right")


class MirrorDescent(Entrywise):
    """Mirror descent in the l1 ball: for many features of which few matter.

    On dense rows of which many matter it is far below the default, and with the variant
    "bias_reduced" below a constant; it warns where draws are mostly random. Vertices of the ball
    are drawn privately, and their mean is the model. For smooth losses of rows whose entries are
    bounded (docs/guide/special_models.md); X has no `data_norm`.

    Parameters
    ----------
    variant : {"plain", "anytime", "bias_reduced", "variance_reduced"}, default="plain"
        The published algorithm. "plain" had the smallest error in measurements; the others have
        better rates, or fewer assumptions, and need millions of records.
    feature_bound : float or None, default=None
        Public bound on the absolute value of an entry of X, > 0. Entries are clipped to it, also
        in predictions. It is the value of the intercept's feature. None: 1, with a warning.
    coef_norm_l1 : float or None, default=None
        Bound on the sum of the absolute coefficients, the intercept's weight included. None: the
        largest absolute target after centering, 3 for two classes or 1.5 for each of several ones,
        divided by `feature_bound`.
    alpha : "auto" or float, default="auto"
        L2 penalty that is part of the objective, > 0; "auto": none.

    References
    ----------
    González et al. (2024), Mirror Descent Algorithms with Nearly Dimension-Independent Rates for
    Differentially-Private Stochastic Saddle-Point Problems. docs/theory/mirror_descent.md.
    """

    relations = tuple(Neighbouring)
    is_weighted = True
    variants = tuple(VARIANTS)

    def plan(self, objective: Any, budget: PrivacyBudget) -> Plan:
        return plan_linear_mirror_descent(self.applied(objective), budget)


def _has_ball(objective: Objective) -> bool:
    """Whether a method of a ball minimises the objective: it has a ball, or no penalty.

    With a penalty and without a ball, output perturbation minimises over the whole space.
    """
    covered = objective.neighbouring.is_replaced and objective.risk.is_mean
    return covered and (objective.coef_norm is not None or not objective.alpha)
