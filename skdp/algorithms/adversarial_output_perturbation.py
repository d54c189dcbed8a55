"""Output perturbation under attacks whose inner problem has no closed form.

Algorithms 7 (an exact saddle point) and 8 of Lowy and Razaviyayn (2021), with errata E2 and E3
corrected: find an approximate saddle point of f(x, y), y the attack, certify its x, add noise. An
attack found by projected gradient ascent proves nothing: it is a *lower* bound of the inner
maximum. Therefore f must be concave in y, and its regularised maximiser is certified as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from skdp._checks import check_positive, check_real
from skdp.algorithms.output_perturbation import ACCURACY_FRACTION, OutputPerturbationPlan
from skdp.algorithms.plan import Result, Run
from skdp.mechanisms import calibrated_mechanism
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import Neighbouring
from skdp.problems import SaddleConstants, SaddleProblem
from skdp.problems.silence import without_warnings
from skdp.solvers import (
    certifiable_saddle_accuracy,
    resolve_solver,
    solve_certified,
)

__all__ = ["adversarial_output_perturbation", "plan_adversarial_output_perturbation"]


@dataclass(frozen=True)
class AdversarialPlan(OutputPerturbationPlan):
    """One certified saddle point, of which x is released; constants of the primal function."""

    def run(self, data: Any, run: Run) -> Result:
        """Solve a saddle problem whose constants are those of the plan, or smaller; add noise."""
        solver = resolve_solver(run.solver, saddle=True)
        # half of the accuracy: another solver changes the point by no more than the accuracy
        accuracy = 0.5 * self.accuracy * math.sqrt(self.constants.strong_convexity)
        with without_warnings():
            point = solve_certified(data, accuracy, solver, rng=run.rng, verbose=run.verbose)
            noisy = self.mechanism.release(point.x, run.noise)
            return Result(data.domain_x.project(noisy), self)


def adversarial_output_perturbation(
    problem: SaddleProblem,
    budget: PrivacyBudget,
    *,
    mean_of_records: bool,
    run: Run | None = None,
    **options: Any,
) -> Result:
    """Minimise ``max over y of F(x, y)`` privately; x is released.

    Neighbours' minimisers differ by at most ``Delta = D / (mu_x N)``, N = n for a mean of one
    function per record, else 1 (docs/theory/saddle.md, Lemma 12). The solver's x is certified to a
    distance of tau for every data set, so that two neighbours' points differ by at most
    ``Delta + 2 tau``. The published ``Delta + 2 g / mu`` for a gap g is too small (erratum E2).

    Parameters
    ----------
    problem : SaddleProblem
        Such as :class:`skdp.problems.DeclaredSaddleProblem`. Strong concavity in y is part of it:
        a regulariser ``(a/2) ||y - c||^2`` of a function that is merely concave lowers the primal
        function by at most ``(a/2) max ||y - c||^2``. For a mean of records the natural size of a
        is that for one record, over n.
    budget : PrivacyBudget
    mean_of_records : bool
        See :func:`plan_adversarial_output_perturbation`.
    run : Run, optional
        See :func:`skdp.algorithms.saddle_output_perturbation`.
    **options
        The optional parameters of :func:`plan_adversarial_output_perturbation`.
    """
    plan = plan_adversarial_output_perturbation(
        problem.constants, budget, mean_of_records=mean_of_records, **options
    )
    return plan.run(problem, run or Run())


def plan_adversarial_output_perturbation(
    constants: SaddleConstants,
    budget: PrivacyBudget,
    *,
    mean_of_records: bool,
    gradient_diameter: float | None = None,
    accuracy_fraction: float = ACCURACY_FRACTION,
) -> AdversarialPlan:
    """Choose the accuracy and the noise from public constants; replace-one neighbours.

    The accuracy is ``accuracy_fraction Delta / 2``, or the accuracy in x that double precision can
    certify if that is larger.

    Parameters
    ----------
    constants : SaddleConstants
        L_x bounds the gradient in x of f, with ``mean_of_records=True`` of f_i.
    budget : PrivacyBudget
    mean_of_records : bool
        Whether ``f = (1/n) sum f_i(x, y_i)``, f_i a function of record i, and the domain of y the
        product of those of the y_i. Only then does the sensitivity shrink with n.
    gradient_diameter : float, optional
        D, bound on the difference of the gradients, at one x, of the primal functions of
        two neighbouring data sets (with ``mean_of_records=True``: of two records).
        Default: ``2 L_x``.
    accuracy_fraction : float, default=1e-3
    """
    check_positive(accuracy_fraction=accuracy_fraction)
    if gradient_diameter is not None:
        largest = 2.0 * constants.x.lipschitz
        check_real("gradient_diameter", gradient_diameter, 0.0, largest, closed="right")
    primal = constants.primal(
        gradient_diameter, 1.0 / constants.n_records if mean_of_records else 1.0
    )
    exact = primal.argmin_sensitivity(Neighbouring.REPLACE_ONE)
    floor = certifiable_saddle_accuracy(constants) / math.sqrt(constants.x.modulus)
    accuracy = max(0.5 * accuracy_fraction * exact, floor)
    mechanism = calibrated_mechanism(budget, min(exact + 2.0 * accuracy, constants.x.diameter))
    reference = "Lowy & Razaviyayn 2021, Alg. 8, corrected (E2, E3)"
    reference += "" if budget.is_pure else " with the analytic Gaussian mechanism"
    return AdversarialPlan(primal, Neighbouring.REPLACE_ONE, exact, accuracy, mechanism, reference)
