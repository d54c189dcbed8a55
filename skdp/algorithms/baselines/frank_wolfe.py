"""Private Frank-Wolfe in the l1 ball, the baseline of the l1 geometry.

Talwar, Thakurta and Zhang (2015): each step moves towards a vertex that an exponential mechanism
draws by the gradient at the present point. Theory: docs/theory/mirror_descent.md, section 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp._checks import check_count
from skdp.algorithms.mirror.plain import zcdp_of
from skdp.algorithms.plan import Plan, Result, Run, require_replace_one
from skdp.mechanisms import SoftmaxMechanism, calibrated_draws
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.report import Release
from skdp.problems.rounding import EPS
from skdp.problems.vertices import LinearDesign, LinearProblem, column_margins


@dataclass(frozen=True, kw_only=True)
class FrankWolfePlan(Plan):
    """Number of steps and sharpness of the draws.

    Attributes
    ----------
    design : LinearDesign
    n_rounds : int
    factor : float
        Scores are minus this times the mean gradient.
    """

    design: LinearDesign
    n_rounds: int
    factor: float

    @property
    def mechanism(self) -> SoftmaxMechanism:
        return SoftmaxMechanism(self.factor * _unit(self.design))

    @property
    def releases(self) -> tuple[Release, ...]:
        return (
            self.mechanism.describe(
                "vertices",
                self.design.sizes[0],
                self.design.n_records,
                "docs/theory/mirror_descent.md, Proposition 6",
                n_draws=self.n_rounds,
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        return {"n_rounds": self.n_rounds, "factor": self.factor, "radius": self.design.radius}

    def run(self, data: LinearProblem, run: Run) -> Result:
        """Carry out the plan; the point is the coefficients, the intercept's last."""
        if data.design != self.design:
            raise ValueError("the problem has other public numbers than the plan.")
        width, batch = data.records.width, slice(0, self.design.n_records)
        weights, margins = np.zeros(width), np.zeros(self.design.n_records)
        for t in range(self.n_rounds):
            half = data.gradient_of(margins, batch)
            scores = -self.factor * np.concatenate([half, -half])
            (vertex,) = self.mechanism.draw(scores, 1, run.noise)
            step = 2.0 / (t + 2.0)
            move = np.zeros(width)
            move[vertex % width] = self.design.radius if vertex < width else -self.design.radius
            weights = (1.0 - step) * weights + step * move
            margins = (1.0 - step) * margins + step * column_margins(data.records, move, batch)
        norm = math.fsum(np.abs(weights))
        if norm > self.design.radius:  # by rounding
            weights *= self.design.radius / norm * (1.0 - 4.0 * EPS)
        return Result(point=weights, plan=self)


def _unit(design: LinearDesign) -> float:
    """Bound how far mean gradients of neighbours are apart, with their rounding."""
    rounding = design.rounding(0, design.n_records) + 4.0 * EPS * design.magnitudes[0]
    return (design.oscillations[0] / design.n_records + 2.0 * rounding) * (1.0 + 1e-12)


def plan_frank_wolfe(
    design: LinearDesign, budget: PrivacyBudget, *, n_rounds: int | None = None
) -> FrankWolfePlan:
    """Plan steps of equal cost.

    Parameters
    ----------
    design : LinearDesign
    budget : PrivacyBudget
    n_rounds : int, optional
        Default: ``(n sqrt(rho) / log d)^(2/3)``, between 2 and 500, as of mirror descent.
    """
    require_replace_one(design.neighbouring, "the Frank-Wolfe method")
    if design.n_margins > 1:
        raise ValueError("the Frank-Wolfe method is for losses of one margin.")
    if design.alpha:
        raise ValueError("the Frank-Wolfe method has no penalty: alpha must be 0.")
    if n_rounds is None:
        wanted = (design.n_records * math.sqrt(zcdp_of(budget)) / design.log_sizes[0]) ** (2 / 3)
        n_rounds = max(2, min(round(wanted), 500))
    check_count("n_rounds", n_rounds)
    factor = calibrated_draws(budget, [(_unit(design), n_rounds)])
    return FrankWolfePlan(design=design, n_rounds=n_rounds, factor=factor)


def frank_wolfe(
    problem: LinearProblem, budget: PrivacyBudget, *, run: Run | None = None, **options: Any
) -> Result:
    """Minimise a mean loss over an l1 ball by private Frank-Wolfe steps ``2 / (t + 2)``.

    Parameters
    ----------
    problem : LinearProblem
    budget : PrivacyBudget
        Under replace-one neighbours.
    run : Run, optional
        Its `noise` draws the vertices.
    **options
        Those of :func:`plan_frank_wolfe`.

    Returns
    -------
    Result
        ``point`` is the coefficients, the intercept's last.

    References
    ----------
    K. Talwar, A. Thakurta, L. Zhang, "Nearly optimal private LASSO", NeurIPS 2015: Algorithm 2.
    """
    return plan_frank_wolfe(problem.design, budget, **options).run(problem, run or Run())
