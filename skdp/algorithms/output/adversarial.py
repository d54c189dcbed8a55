"""Output perturbation under attacks whose inner problem has no closed form.

Algorithms 7 (an exact saddle point) and 8 of Lowy and Razaviyayn (2021), with errata L2 and L3
corrected: find an approximate saddle point of f(x, y), y the attack, certify its x, add noise. An
attack found by projected gradient ascent proves nothing: it is a *lower* bound of the inner
maximum. Therefore f must be concave in y, and its regularised maximiser is certified as well.
"""

from __future__ import annotations

import math
from typing import Any

from skdp._checks import check_positive, check_real
from skdp.algorithms.kernel import ACCURACY_FRACTION
from skdp.algorithms.output.saddle import SaddleOutputPerturbationPlan, SaddleResult
from skdp.algorithms.plan import Run
from skdp.mechanisms import calibrated_mechanism
from skdp.privacy.budget import PrivacyBudget
from skdp.problems import ROUNDING_SLACK, SaddleConstants, SaddleProblem
from skdp.solvers import certifiable_saddle_accuracy


def adversarial_output_perturbation(
    problem: SaddleProblem,
    budget: PrivacyBudget,
    *,
    mean_of_records: bool,
    run: Run | None = None,
    **options: Any,
) -> SaddleResult:
    """Minimise ``max over y of F(x, y)`` privately; x is released.

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
) -> SaddleOutputPerturbationPlan:
    """Choose the accuracy and the noise from public constants; replace-one neighbours.

    Neighbours' minimisers differ by at most ``Delta = D / (mu_x N)``, N = n for a mean of one
    function per record, else 1 (docs/theory/saddle.md, Lemma 12). The solver's x is certified to a
    distance of tau for every data set, so that two neighbours' points differ by at most
    ``Delta + 2 tau``; tau is ``accuracy_fraction Delta / 2``, or the accuracy in x that double
    precision can certify if that is larger. The published ``Delta + 2 g / mu`` for a gap g is too
    small (erratum L2).

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
    x, n = constants.x, constants.n_records if mean_of_records else 1
    largest = 2.0 * x.lipschitz
    check_positive(accuracy_fraction=accuracy_fraction)
    if gradient_diameter is not None:
        check_real("gradient_diameter", gradient_diameter, 0.0, largest, closed="right")
    moved = (gradient_diameter or largest) / (x.modulus * n) * ROUNDING_SLACK
    exact, root = min(moved, x.diameter), math.sqrt(x.modulus)
    # in the norm of the moduli
    accuracy = max(0.5 * accuracy_fraction * exact * root, certifiable_saddle_accuracy(constants))
    sensitivity = min(exact + 2.0 * accuracy / root, x.diameter)
    reference = "Lowy & Razaviyayn 2021, Alg. 8, corrected (errata L2, L3)"
    return SaddleOutputPerturbationPlan(
        constants=constants,
        released="x",
        exact_sensitivity=exact,
        accuracy=accuracy,
        mechanism=calibrated_mechanism(budget, sensitivity),
        reference=reference + " with the analytic Gaussian mechanism" * (not budget.is_pure),
    )
