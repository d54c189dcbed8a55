"""The last step of routes that choose strengths first: one fit on all records at them.

Output perturbation (:mod:`skdp.algorithms.output_perturbation`) in *whitened* coordinates. With
``Omega = diag(alpha_g(j) r_j)`` the substitution ``v = Omega^{1/2} w``,
``u = Omega^{-1/2} x`` turns ``mean loss(<w, x>) + w' Omega w / 2`` into
``mean loss(<v, u>) + ||v||^2 / 2``: a penalty of
strength 1 whatever the groups are, on rows of norm at most ``U(alpha)``. Noise is isotropic
there, so it has covariance ``s^2 Omega^{-1}`` in w (Kornowski 2024 specification, 5.5 and 5.6;
docs/theory/hypergradient.md, section 1).

The strengths have been released before, so the noise may depend on them. What the fit costs does
not: its event is fixed by the budget alone.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from skdp.algorithms.output_perturbation import OutputPerturbationPlan, plan_output_perturbation
from skdp.algorithms.plan import Run
from skdp.algorithms.tuning.model import PenaltyGroups, check_penalties
from skdp.mechanisms import NoiseSource
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.report import Release
from skdp.problems import Design, EmpiricalRisk, Loss, ProblemConstants, Records, ball_problem
from skdp.problems.silence import without_warnings

__all__ = [
    "final_fit",
    "final_noise_cost",
    "final_noise_slopes",
    "plan_final_fit",
    "whitened",
    "whitened_constants",
]

#: Step in the logarithm of a strength for the slopes of a public cost.
_LOG_STEP = 1e-4


def whitened(records: Records, penalties: PenaltyGroups, alpha: np.ndarray) -> Records:
    """View the records in whitened coordinates, as ``Omega^{-1/2} x``.

    The bound U on their norm is public: ``U^2 = X^2 / min_j Omega_j + s^2 / Omega_0``, the minimum
    over the features and the last term that of an intercept feature of value s.
    """
    check_penalties(records, penalties)
    return records.scaled(1.0 / np.sqrt(penalties.diagonal(alpha)))


def whitened_constants(records: Records, loss: Loss) -> ProblemConstants:
    """Constants of ``ball_problem(records, loss, 1.0)`` for whitened records; all public."""
    risk, design = EmpiricalRisk(loss), Design.of(records)
    return risk.constants(design, 1.0, risk.radius(design, 1.0, None))


def plan_final_fit(
    records: Records,
    loss: Loss,
    penalties: PenaltyGroups,
    alpha: np.ndarray,
    budget: PrivacyBudget,
    share: float = 1.0,
) -> OutputPerturbationPlan:
    """The plan of the fit, in whitened coordinates; of `records` only public numbers are read."""
    if loss.n_outputs != 1:
        raise ValueError("Private tuning is made for losses of one margin.")
    constants = whitened_constants(whitened(records, penalties, alpha), loss)
    return plan_output_perturbation(constants, budget, share=share)


def final_noise_cost(
    records: Records,
    loss: Loss,
    penalties: PenaltyGroups,
    alpha: np.ndarray,
    budget: PrivacyBudget,
    share: float = 1.0,
) -> float:
    """Public bound on what the noise of the final fit adds to the expected loss.

    At most ``c s^2 tr(H Omega^{-1}) / 2 <= c s^2 U^2 / 2``, s^2 the variance of a whitened
    coordinate and c the loss's curvature (specification, 5.6). Added to a loss that strengths are
    compared by, it makes the choice aware of the noise of the model that will be released.
    """
    plan = plan_final_fit(records, loss, penalties, alpha, budget, share)
    variance = plan.mechanism.mean_square(records.width) / records.width
    return loss.noise_cost(whitened(records, penalties, alpha).norm_bound ** 2 * variance)


def final_noise_slopes(
    records: Records,
    loss: Loss,
    penalties: PenaltyGroups,
    alpha: np.ndarray,
    budget: PrivacyBudget,
    share: float = 1.0,
) -> np.ndarray:
    """Derivatives of :func:`final_noise_cost` in ``log alpha``, shape (n_groups,).

    By central differences of the public function: its formula has many cases, and a kink where
    another group becomes the weakest.
    """
    slopes = np.empty(len(alpha))
    for j in range(len(alpha)):
        ends = []
        for sign in (1.0, -1.0):
            moved = np.array(alpha, dtype=np.float64)
            moved[j] *= math.exp(sign * _LOG_STEP)
            ends.append(final_noise_cost(records, loss, penalties, moved, budget, share))
        slopes[j] = (ends[0] - ends[1]) / (2.0 * _LOG_STEP)
    return slopes


@without_warnings()
def final_fit(
    records: Records,
    loss: Loss,
    penalties: PenaltyGroups,
    alpha: np.ndarray,
    budget: PrivacyBudget,
    share: float = 1.0,
    *,
    solver: Any = "auto",
    solver_rng: np.random.Generator | None = None,
    noise: NoiseSource | None = None,
) -> tuple[np.ndarray, Release]:
    """Fit the model on all records at strengths that are public or have been released.

    Parameters
    ----------
    records : Records
        In the encoding of `loss`.
    loss : Loss
        Smooth, of one margin.
    penalties : PenaltyGroups
    alpha : ndarray of shape (n_groups,)
        Strengths; a function of earlier releases and public numbers.
    budget : PrivacyBudget
    share : float, default=1.0
        Part of the budget that this release spends: of epsilon for ``delta == 0``, else of the
        square of the Gaussian-DP parameter. See :func:`skdp.mechanisms.calibrated_mechanism`.
    solver : str, Solver or callable, default="auto"
        See :func:`skdp.solvers.resolve_solver`.
    solver_rng : numpy.random.Generator, optional
        The solver's own randomness.
    noise : NoiseSource, optional
        Default: the operating system's secure generator.

    Returns
    -------
    point : ndarray of shape (dimension,)
        Coefficients, in the units of `records`.
    release : Release
        About the whitened coefficients ``Omega^{1/2} w``. Sensitivity and noise scale depend on
        `alpha`, the event does not.
    """
    alpha = np.asarray(alpha, dtype=np.float64)
    if alpha.shape != (penalties.n_groups,) or not ((alpha > 0) & (alpha < math.inf)).all():
        raise ValueError(f"alpha == {alpha}, must be {penalties.n_groups} finite numbers > 0.")
    plan = plan_final_fit(records, loss, penalties, alpha, budget, share)
    problem = ball_problem(whitened(records, penalties, alpha), loss, 1.0)
    point = plan.run(problem, Run(solver, solver_rng, noise)).point
    release = replace(
        plan.release("whitened coefficients"),
        reference="docs/theory/hypergradient.md, Lemma 1: output perturbation, whitened",
    )
    return point / np.sqrt(penalties.diagonal(alpha)), release
