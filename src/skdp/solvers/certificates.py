"""Proofs of accuracy from computable quantities.

For a mu-strongly convex objective over a convex set X, every w in X and every v in the
normal cone of X at w satisfy ``||w - w*|| <= ||grad(w) + v|| / mu`` (Zhang et al. 2022
specification, C1 and C2). On the ball two choices of v are tried:

* ``v = 0``, valid everywhere;
* ``v = t w`` with ``t = max(0, -<grad, w> / ||w||^2)``, valid on the sphere. A computed
  point is only near the sphere: the proof is made for its exact radial image, at distance
  ``gap = R - ||w||``, where the residual is at most ``||grad + t w|| + (beta + t) gap``; the
  triangle inequality adds `gap` itself. The result is linear in all rounding errors,
  unlike a test of ``||w|| == R`` with a tolerance (review W5).

Every gradient norm is increased by the public rounding bound of the problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from skdp.problems import FiniteSumProblem

__all__ = ["Certificate", "certify"]


@dataclass(frozen=True)
class Certificate:
    """A proven bound on the distance to the exact solution.

    Attributes
    ----------
    distance : float
        Euclidean distance to the solution that the point does not exceed.
    rule : str
        "interior" (v = 0), "sphere" (v = t w) or "diameter" (both points lie in the ball).
    """

    distance: float
    rule: str


def certify(
    problem: FiniteSumProblem, point: np.ndarray, gradient: np.ndarray | None = None
) -> Certificate:
    """Bound the distance of a feasible `point` to the solution of `problem`.

    Parameters
    ----------
    problem : FiniteSumProblem
    point : ndarray of shape (dimension,)
        A point of the domain, as ``problem.domain.project`` returns it.
    gradient : ndarray of shape (dimension,), optional
        The gradient at the point, when it is at hand.

    Returns
    -------
    Certificate
    """
    if gradient is None:
        gradient = problem.gradient(point)
    mu, rounding = problem.strong_convexity, problem.gradient_rounding(point)
    interior = (float(np.linalg.norm(gradient)) + rounding) / mu
    radius = problem.domain.radius
    norm = float(np.linalg.norm(point))
    if not np.isfinite(radius) or norm == 0.0:
        return Certificate(interior, "interior")
    gap = radius - norm + (point.size + 8) * np.finfo(np.float64).eps * radius
    direction = point / norm
    pull = max(0.0, -float(gradient @ direction))
    residual = float(np.linalg.norm(gradient + pull * direction)) + rounding
    sphere = (residual + (problem.smoothness + pull / norm) * gap) / mu + gap
    candidates = {"interior": interior, "sphere": sphere, "diameter": norm + radius}
    rule = min(candidates, key=candidates.__getitem__)
    return Certificate(candidates[rule], rule)
