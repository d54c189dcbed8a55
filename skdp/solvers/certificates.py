"""Proofs of accuracy from computable quantities.

**Smooth losses.** One rule serves every domain. Let F be mu-strongly convex and
beta-smooth on the closed convex set X, and ``T(w) = Proj_X(w - grad F(w) / beta)``. Then

    ``||w - w*|| <= (beta / mu) ||w - T(w)||``    for every w of X.

*Proof.* ``w - grad F(w) / beta`` contracts distances by ``1 - mu / beta``, the projection
expands none, and ``T(w*) = w*``: ``||w - w*|| <= ||w - T(w)|| + ||T(w) - T(w*)|| <=
||w - T(w)|| + (1 - mu / beta) ||w - w*||``.

In exact arithmetic it is never above the certificates C1 and C2 of the specification of
Zhang et al. (2022), ``||grad F(w) + v|| / mu`` for a v in the normal cone at w, because
``w = Proj_X(w + v / beta)``. Unlike C2 it needs no decision whether w lies on the boundary
(review W5): all rounding errors enter linearly. Inside of X it equals C1, which is computed
too, being the less sensitive to rounding there.

**A step of any forward-backward method** (C3, and C4 for saddle points):
:func:`forward_backward_distance`.

**Non-smooth losses**: :func:`certify_dual`, a duality gap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skdp.problems.domains import euclidean_norm

if TYPE_CHECKING:
    from skdp.problems import FiniteSumProblem, Problem

__all__ = [
    "Attempt",
    "Certificate",
    "ForwardBackwardStep",
    "Solution",
    "certify",
    "certify_dual",
    "forward_backward_distance",
]

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Certificate:
    """A proven bound on the distance to the exact solution.

    Attributes
    ----------
    distance : float
        Euclidean distance to the solution that the point does not exceed.
    rule : str
        "gradient" (C1), "step" (the rule of the module), "diameter" (both points lie in the
        domain) or "gap" (:func:`certify_dual`).
    """

    distance: float
    rule: str


@dataclass(frozen=True)
class Attempt:
    """What one solver made of a problem.

    Attributes
    ----------
    solver : str
    distance : float
        Certified distance of its answer; ``inf`` without a usable one.
    error : str or None
        What it raised, or what was wrong with its answer.
    """

    solver: str
    distance: float
    error: str | None = None


@dataclass(frozen=True)
class Solution:
    """A feasible point and the proof of its accuracy.

    Attributes
    ----------
    point : ndarray of shape (dimension,)
    certificate : Certificate
    attempts : tuple of Attempt
        The solver that was asked for and, as far as needed, the trusted ones after it. They
        depend on the records, like the point.
    """

    point: np.ndarray
    certificate: Certificate
    attempts: tuple[Attempt, ...] = ()


def certify(problem: Problem, point: np.ndarray, gradient: np.ndarray | None = None) -> Certificate:
    """Bound the distance of a feasible `point` to the solution of a smooth `problem`.

    Parameters
    ----------
    problem : Problem
    point : ndarray of shape (dimension,)
        A point of the domain, as ``problem.domain.project`` returns it.
    gradient : ndarray of shape (dimension,), optional
        The gradient at the point, when it is at hand.

    Returns
    -------
    Certificate
        Every gradient norm is increased by the rounding bound of the problem, every step
        by that of the step and of the projection.
    """
    if gradient is None:
        gradient = problem.gradient(point)
    mu, beta, domain = problem.strong_convexity, problem.smoothness, problem.domain
    slope, norm = euclidean_norm(gradient), euclidean_norm(point)
    rounding = problem.gradient_rounding(point)
    candidates = {"gradient": (slope + rounding) / mu}
    if np.isfinite(domain.circumradius):
        away = euclidean_norm(point - domain.center(point.size))
        candidates["diameter"] = domain.circumradius + away
    step = point - domain.project(point - gradient / beta)
    step_rounding = _EPS * (2.0 * norm + 3.0 * slope / beta)
    step_rounding += domain.projection_rounding(point.size)
    length = euclidean_norm(step) * (1.0 + point.size * _EPS) + step_rounding
    candidates["step"] = (beta * length + rounding) / mu
    candidates = {rule: bound for rule, bound in candidates.items() if not math.isnan(bound)}
    if not candidates:  # not a finite point
        return Certificate(math.inf, "gradient")
    rule = min(candidates, key=candidates.__getitem__)
    return Certificate(candidates[rule], rule)


@dataclass(frozen=True)
class ForwardBackwardStep:
    """One block of ``z+ = Proj_Z(z - step * A(z))``.

    Attributes
    ----------
    before, after : ndarray
        The block of z and of z+.
    operator_before, operator_after : ndarray
        The block of A(z) and of A(z+).
    step : float
        One number for the whole block: with a step per coordinate and a Euclidean
        projection the statement is false (review W10).
    strong_monotonicity : float
        Modulus mu of the block.
    """

    before: np.ndarray
    after: np.ndarray
    operator_before: np.ndarray
    operator_after: np.ndarray
    step: float
    strong_monotonicity: float


def forward_backward_distance(
    blocks: Sequence[ForwardBackwardStep], rounding: Sequence[float] | None = None
) -> float:
    """Certificates C3 (one block: minimisation) and C4 (two blocks: a saddle point).

    With ``s = (z - z+) / step - A(z) + A(z+)`` block by block,
    ``sqrt(sum mu_b ||z+_b - z*_b||^2) <= sqrt(sum ||s_b||^2 / mu_b)``. For one block that is
    ``sqrt(mu)`` times the distance.

    *Proof.* ``(z - z+) / step - A(z)`` lies in the normal cone at z+, hence s in
    ``A(z+) + N(z+)``; 0 lies in that set at z*. Strong monotonicity between the two and
    Cauchy's inequality in the metric of the moduli.

    Parameters
    ----------
    blocks : sequence of ForwardBackwardStep
    rounding : sequence of float, optional
        Bounds on the rounding error of each ``||s_b||``.

    Returns
    -------
    float
        Bound on the distance of z+ to the solution in the norm ``sqrt(sum mu_b ||.||^2)``.
    """
    slack = [0.0] * len(blocks) if rounding is None else rounding
    total = 0.0
    for block, error in zip(blocks, slack, strict=True):
        residual = (block.before - block.after) / block.step
        residual += block.operator_after - block.operator_before
        total += (euclidean_norm(residual) + error) ** 2 / block.strong_monotonicity
    return math.sqrt(total)


def certify_dual(
    problem: FiniteSumProblem, dual: np.ndarray, point: np.ndarray | None = None
) -> Solution:
    """Bound the distance to the solution of a non-smooth problem by a duality gap.

    For a :class:`skdp.problems.PiecewiseLinearLoss`
    ``phi_i(z) = max over a in [lo_i, hi_i] of a (z - k_i)``. Any `dual` vector a of that box
    makes ``D_a(w) = (1/N) sum_i a_i (x_i'w - k_i) + (mu/2) ||w - c||^2`` a lower bound of the
    objective F, minimised over the domain X by ``w_a = Proj_X(u)`` with
    ``u = c - (1/(mu N)) sum_i a_i x_i``. For every v of X, ``z_i = x_i'v``, ``e = ||v - w_a||``,

        ``G = (1/mu) (1/N) sum_i [phi_i(z_i) - a_i (z_i - k_i)] + <w_a - u, v - w_a> + e^2 / 2``

    bounds the distance by ``||v - w*|| <= e/2 + sqrt(G)``; for ``v = w_a`` that is
    ``||w_a - w*||^2 <= (1/mu) (1/N) sum_i [phi_i(z_i) - a_i (z_i - k_i)]``.

    *Proof.* ``mu G = F(v) - D_a(w_a)``: the sum is ``F(v) - D_a(v)``, the rest
    ``D_a(v) - D_a(w_a)``. D_a is mu-strongly convex with minimiser w_a and below F, so
    ``F(w*) >= D_a(w*) >= D_a(w_a) + (mu/2) ||w_a - w*||^2``; F is mu-strongly convex with
    minimiser w*, so ``F(v) >= F(w*) + (mu/2) ||v - w*||^2``. Added up, with ``x = ||v - w*||`` and
    ``||w_a - w*|| >= x - e``: ``x^2 + (x - e)^2 <= 2 G``.

    The bound needs neither a gradient nor smoothness. Tried are w_a and, if given, `point`.

    *Rounding.* Each term of the sum is non-negative, convex in z_i, and exactly 0 where a_i is
    the slope on the side of the kink that z_i is on, so rounding does not accumulate over the
    records: a term is evaluated at both ends of an interval that holds the exact margin. That
    the computed w_a is only near the exact one is allowed for in e and in the inner product
    or, alternatively, in the intervals (they then hold the margins of the exact w_a).

    Parameters
    ----------
    problem : FiniteSumProblem
        With a piecewise linear loss.
    dual : ndarray of shape (n_records,)
        Clipped to the box.
    point : ndarray of shape (dimension,), optional
        Projected onto the domain.

    Returns
    -------
    Solution
        The better certified of w_a and `point`.
    """
    mu, domain = problem.strong_convexity, problem.domain
    kinks, low, high = problem.loss.pieces(problem.records.targets)  # type: ignore[attr-defined]
    dual = np.clip(dual, low, high)
    center = np.zeros(problem.dimension) if problem.center is None else problem.center
    free = center - problem.pull_back(dual) / mu
    natural = domain.project(free)
    norms = [euclidean_norm(vector) for vector in (natural, center, free)]
    error = problem.gradient_rounding(natural) / mu + domain.projection_rounding(natural.size)
    error += 4.0 * _EPS * sum(norms)  # of `free` and of `natural`
    outward = natural - free
    away = euclidean_norm(outward)
    feature_norm = problem.records.norm_bound

    def sum_of_terms(v: np.ndarray, blur: float) -> float:
        """The sum in G, at every point within `blur` of v."""
        offset = problem.margins(v) - kinks
        margin = (problem.records.width + 8) * _EPS * euclidean_norm(v) + blur
        reach = feature_norm * margin + 4.0 * _EPS * np.abs(kinks)
        ends = (_slack(end, dual, low, high) for end in (offset - reach, offset + reach))
        total = float(np.maximum(*ends).sum()) / problem.n_public
        return total * (1.0 + (problem.n_records + 8) * _EPS) / mu

    def distance(v: np.ndarray) -> float:
        step = v - natural
        e = euclidean_norm(step) + error
        inner = max(0.0, float(outward @ step)) + (away + 2.0 * e + 2.0 * error) * error
        inner += v.size * _EPS * away * e
        return 0.5 * e + math.sqrt(sum_of_terms(v, 0.0) + inner + 0.5 * e * e)

    shortest = min(math.sqrt(sum_of_terms(natural, error)) + error, distance(natural))
    best = Solution(natural, Certificate(shortest, "gap"))
    if point is not None:
        point = domain.project(point)
        other = Solution(point, Certificate(distance(point), "gap"))
        best = min(best, other, key=lambda solution: solution.certificate.distance)
    return best


def _slack(offset: np.ndarray, dual: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """``phi - a (z - kink)`` at the given ``z - kink``: how far a is from being its slope."""
    return np.where(offset > 0, high - dual, low - dual) * offset
