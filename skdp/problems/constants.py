"""The public constants of a problem: all that a privacy analysis may know of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp.privacy.events import Neighbouring
from skdp.problems.elementwise import minimum
from skdp.problems.rounding import EPS, chain

__all__ = ["ProblemConstants"]

#: Inflation of sensitivities that covers rounding in constants, clipped rows and projections.
ROUNDING_SLACK = 1.0 + 1e-9


@dataclass(frozen=True)
class ProblemConstants:
    """Constants that hold for every data set of the given size.

    The problem is ``min over ||w|| <= radius of (1/N) sum_i f_i(w) + (mu/2) ||w - c||^2``
    with N = `n_records`. Nothing here may be measured on the records. Planners compare many
    problems at once: numbers may be arrays that broadcast.

    Parameters
    ----------
    n_records : int
        N, the public number of records (replace-one) or the public nominal number that
        the sum is divided by (add/remove).
    dimension : int
        Number of coefficients, that is of coordinates that are released.
    strong_convexity : float
        mu, from the data-independent regulariser.
    lipschitz : float
        Bound on ``||grad f_i(w)||`` over records and feasible w.
    gradient_diameter : float
        Bound on ``||grad f_i(w) - grad f_j(w)||``, at most ``2 lipschitz``.
    smoothness : float
        Lipschitz constant of the gradient of one ``f_i`` (without the regulariser); inf for a
        non-smooth loss.
    radius : float
        Radius R of a ball around 0 that holds the solution.
    row_width : int
        Number of features of a row, for the rounding bound.
    block_size : int
        Rows that are summed without a break, for the rounding bound.
    size_ratio : float, default=1.0
        The actual number of records may exceed N by this factor (add/remove); it enters
        what the solver must cope with, not the sensitivity.
    in_ball : bool, default=True
        Whether the domain is bounded, so that every point is projected onto it.
    domain_radius : float, optional
        Largest norm of a point of the domain, at least `radius`. Default: `radius`.
    record_weight : float, optional
        Largest weight that one record can have in the gradient. Default: ``1 / n_records``, that
        of a mean; 1 if the objective is no combination of records.
    additional_rounding : float, default=0.0
        Rounding error of a computed gradient beyond that of a mean over the rows.
    """

    n_records: int
    dimension: int
    strong_convexity: float
    lipschitz: float
    gradient_diameter: float
    smoothness: float
    radius: float
    row_width: int
    block_size: int
    size_ratio: float = 1.0
    in_ball: bool = True
    domain_radius: float | None = None
    record_weight: float | None = None
    additional_rounding: float = 0.0

    @classmethod
    def stacked(cls, constants: Sequence[ProblemConstants]) -> ProblemConstants:
        """Constants of many problems at once: numbers that differ become arrays."""
        columns = zip(*(vars(each).values() for each in constants), strict=True)
        stacked: Any = (c[0] if c.count(c[0]) == len(c) else np.array(c) for c in columns)
        return cls(*stacked)

    @property
    def total_smoothness(self) -> float:
        """Smoothness of the whole objective."""
        return self.smoothness * self.size_ratio + self.strong_convexity

    @property
    def condition_number(self) -> float:
        return self.total_smoothness / self.strong_convexity

    @property
    def effective_records(self) -> float:
        """Number of records in whose mean one has the weight that it can have here."""
        return self.n_records if self.record_weight is None else 1.0 / self.record_weight

    @property
    def localisation(self) -> float:
        """Bound on the distance of the regulariser's centre (projected) to the solution.

        The centre minimises the regulariser alone; the losses add gradients of at most
        ``lipschitz`` each (Zhang et al. specification, section 4.2).
        """
        return min(2.0 * self.radius, self.size_ratio * self.lipschitz / self.strong_convexity)

    @property
    def gradient_rounding(self) -> float:
        """Bound on the Euclidean error of a computed gradient at any point of the ball."""
        return self.gradient_rounding_at(self.radius, self.lipschitz)

    def gradient_rounding_at(self, norm: float, lipschitz: float) -> float:
        """Bound on the Euclidean error of a gradient computed in double precision.

        Sum over the rows: a :func:`~skdp.problems.rounding.chain` of additions, relative to
        the Lipschitz constant; dot products: `row_width` additions, relative to ``smoothness *
        norm``; a margin for the loss itself, the row scaling and the regulariser.
        Derivation: docs/theory/output_perturbation.md, "Rounding".

        Parameters
        ----------
        norm : float
            Bound on the norm of the point.
        lipschitz : float
            Bound on the gradient of one record at such a point.

        Notes
        -----
        For a non-smooth loss, whose slopes are not a continuous function of the margins, it is
        the error of a combination of the rows with given slopes.
        """
        additions = chain(self.n_records * self.size_ratio, self.block_size)
        losses = (0.51 * additions + 16.0) * lipschitz
        if math.isfinite(self.smoothness):
            losses += 0.51 * (self.row_width + 16.0) * self.smoothness * norm
        rounding = EPS * (self.size_ratio * losses + 4.0 * self.strong_convexity * norm)
        return rounding + self.additional_rounding

    def argmin_sensitivity(self, neighbouring: Neighbouring) -> float:
        """How far the exact solution can move between neighbours.

        Replace-one: ``gradient_diameter / (mu N)``, or times the weight of a record in place of
        ``1 / N`` (Lowy and Razaviyayn 2021, Prop. 2.2 with
        errata E25 and E26; Zhang et al. 2022, Lemma 3.5). Add/remove, N nominal and mu from
        the regulariser alone: ``lipschitz / (mu N)`` (review W1). Never above ``2 R``.
        """
        if self.record_weight is not None and neighbouring is not Neighbouring.REPLACE_ONE:
            raise ValueError("Only neighbouring='replace_one' is proven for this problem.")
        difference = (
            self.gradient_diameter if neighbouring is Neighbouring.REPLACE_ONE else self.lipschitz
        )
        scale = self.strong_convexity * self.effective_records
        moved = difference / scale * ROUNDING_SLACK
        return minimum(moved, 2.0 * self.radius)
