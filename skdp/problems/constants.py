"""Public numbers about data and problems, the only ones that a privacy analysis may use."""

from __future__ import annotations

import math
from dataclasses import dataclass

from skdp.privacy.events import Neighbouring
from skdp.problems.elementwise import minimum
from skdp.problems.losses import Loss
from skdp.problems.records import Records
from skdp.problems.rounding import EPS, MOST_ROWS, ROUNDING_SLACK, chain

#: Balls are to hold the solutions of that many times the nominal number of records.
REACH = 10
#: Most records of all persons together.
MOST_RECORDS = 2.0**48


def most_records(n_public: int) -> int:
    """Return the most records, under a nominal size, that bounds of rounding hold for."""
    return max(REACH * n_public, 2**20)


def check_nominal_size(n_public: int, n_records: int) -> None:
    """Refuse more records than the constants under a nominal size hold for."""
    if n_records > most_records(n_public):
        raise ValueError(
            f"X has more records (or persons, with user_ids) than {most_records(n_public)}, the "
            f"most for n_public == {n_public}."
        )


@dataclass(frozen=True)
class ProblemConstants:
    """Constants that hold for every data set of a size.

    The problem is ``min over ||w|| <= radius of (1/N) sum_i f_i(w) + (mu/2) ||w - c||^2``
    with N = `n_records`. Nothing here may be measured on the records. Planners compare many
    problems at once: numbers may be arrays that broadcast.
    """

    #: N, public: the number of records (replace-one), or the nominal one (add/remove).
    n_records: int
    #: Number of coefficients.
    dimension: int
    #: mu, from the data-independent regulariser.
    strong_convexity: float
    #: Bound on ``||grad f_i(w)||`` over records and feasible w.
    lipschitz: float
    #: Bound on ``||grad f_i(w) - grad f_j(w)||``, at most ``2 lipschitz``.
    gradient_diameter: float
    #: Lipschitz constant of the gradient of one ``f_i``; inf for a non-smooth loss.
    smoothness: float
    #: Radius R of a ball around 0 that holds the solution.
    radius: float
    #: As of a :class:`Design`, for the rounding bound; the ratio also enters the smoothness for the
    #: solver, not the sensitivity.
    row_width: int
    size_ratio: float = 1.0
    #: Whether the domain is bounded, so that every point is projected onto it.
    in_ball: bool = True
    #: Largest norm of a point of the domain, at least `radius`. Default: `radius`.
    domain_radius: float | None = None
    #: Largest weight of one record in the gradient. Default: ``1 / n_records``, that of a mean; 1
    #: if the objective is no combination of records.
    record_weight: float | None = None
    #: Rounding error of a computed gradient beyond that of a mean over the rows.
    additional_rounding: float = 0.0
    n_terms: float | None = None
    #: Records that are summed without a break at most.
    most_rows: int = MOST_ROWS

    @property
    def longest(self) -> float:
        """Largest norm of a point of the domain."""
        return self.radius if self.domain_radius is None else self.domain_radius

    @property
    def total_smoothness(self) -> float:
        """Smoothness of the objective."""
        return self.smoothness * self.size_ratio + self.strong_convexity

    @property
    def condition_number(self) -> float:
        """Condition number for the choice of a solver, of not too many more records than N."""
        ratio = min(self.size_ratio, REACH)
        return (self.smoothness * ratio + self.strong_convexity) / self.strong_convexity

    @property
    def most_terms(self) -> float:
        """Largest number of records in a sum."""
        return self.n_records * self.size_ratio if self.n_terms is None else self.n_terms

    @property
    def effective_records(self) -> float:
        """Number of records in whose mean one has the weight that it can have here."""
        return self.n_records if self.record_weight is None else 1.0 / self.record_weight

    @property
    def localisation(self) -> float:
        """Bound on the distance of the projected center to the solution (Zhang et al., 4.2)."""
        return min(2.0 * self.radius, self.size_ratio * self.lipschitz / self.strong_convexity)

    @property
    def gradient_rounding(self) -> float:
        """Bound on the Euclidean error of a computed gradient at any point of the ball."""
        return self.gradient_rounding_at(self.radius, self.lipschitz)

    def gradient_rounding_at(self, norm: float, lipschitz: float) -> float:
        """Bound the Euclidean error of a gradient computed at a point of at most this norm.

        `lipschitz` bounds the gradient of one record there. For a non-smooth loss it is the error
        of a combination of the rows. Proof: docs/theory/output_perturbation.md, "Rounding".
        """
        additions = chain(self.most_terms, most_rows=self.most_rows)
        losses = (0.51 * additions + 16.0) * lipschitz
        if math.isfinite(self.smoothness):
            losses += 0.51 * (self.row_width + 16.0) * self.smoothness * norm
        rounding = EPS * (self.size_ratio * losses + 4.0 * self.strong_convexity * norm)
        return rounding + self.additional_rounding

    def argmin_sensitivity(self, neighbouring: Neighbouring) -> float:
        """Bound the distance of the exact solutions of neighbours.

        Replace-one: ``gradient_diameter / (mu N)``, with the weight of a record in place of
        ``1 / N`` if there is one (Lowy and Razaviyayn 2021, Prop. 2.2 with errata L25 and L26;
        Zhang et al. 2022, Lemma 3.5). Add/remove: ``lipschitz / (mu N)``. Proof of both:
        docs/theory/output_perturbation.md, Lemma 1. Never above ``2 R``.
        """
        if self.record_weight is not None and not neighbouring.is_replaced:
            raise ValueError("Only neighbouring='replace_one' is proven for this problem.")
        replaced = neighbouring.is_replaced
        difference = self.gradient_diameter if replaced else self.lipschitz
        scale = self.strong_convexity * self.effective_records
        return minimum(difference / scale * ROUNDING_SLACK, 2.0 * self.radius)


@dataclass(frozen=True)
class Design:
    """Public numbers about the rows of a data set."""

    #: Norm that no row exceeds, intercept feature included.
    feature_norm: float
    #: Number of features including the intercept.
    width: int
    #: Public size N.
    n_records: int
    #: Largest ratio of the actual number of records to N.
    size_ratio: float = 1.0
    #: Value of the intercept feature; 0 for none.
    intercept: float = 0.0
    #: Whether N is a number of persons, who may have any number of records.
    of_persons: bool = False
    #: Whether the weights of a record or of a person's records may add up to less than 1.
    is_slack: bool = False

    @classmethod
    def of(cls, records: Records, n_public: int | None = None) -> Design:
        """Describe some records; `n_public` is needed if their number is private."""
        n, ratio = records.n_units, 1.0
        if n_public is not None:
            n, ratio = n_public, most_records(n_public) / n_public
        numbers = records.norm_bound, records.width, n, ratio, records.intercept
        return cls(*numbers, records.persons is not None, records.is_slack)

    def check(self, records: Records) -> None:
        """Raise a ValueError for records with other public numbers: the noise is not for them."""
        n_public = None if self.size_ratio == 1.0 else self.n_records
        found = Design.of(records, n_public)
        if found != self:
            raise ValueError(f"The plan is for {self}, not for {found}.")

    @property
    def reach(self) -> float:
        """Ratio of the number of records to N that balls are made for."""
        return min(self.size_ratio, REACH)

    @property
    def n_features(self) -> int:
        """Number of features without the intercept."""
        return self.width - bool(self.intercept)

    @property
    def features_norm(self) -> float:
        """Bound on rows without the intercept."""
        return math.sqrt(max(self.feature_norm**2 - self.intercept**2, 0.0))

    @property
    def is_weighted(self) -> bool:
        """Whether terms of sums are multiplied by weights of records."""
        return self.of_persons or self.is_slack

    @property
    def replaced(self) -> Neighbouring:
        """Replace-one neighbours, of records or of persons."""
        return Neighbouring.REPLACE_USER if self.of_persons else Neighbouring.REPLACE_ONE

    @property
    def n_terms(self) -> float:
        """Largest number of records, for the rounding of sums; private if persons have many."""
        return MOST_RECORDS if self.of_persons else self.n_records * self.size_ratio

    @property
    def second_moment(self) -> float:
        """Largest eigenvalue of the second moment of isotropic rows.

        An assumption for planning; other data cost utility, never privacy.
        """
        return self.feature_norm**2 / self.width


def generalised_linear_constants(
    loss: Loss, design: Design, alpha: float, radius: float, center_norm: float = 0.0
) -> ProblemConstants:
    """Compute the constants of a mean loss; `center_norm` is that of the projected center."""
    lipschitz = loss.lipschitz(design.feature_norm, radius)
    diameter = loss.gradient_diameter(design.feature_norm, radius)
    if design.is_slack:  # the difference to no gradient at all: docs/theory/persons.md, Lemma A
        diameter = max(diameter, lipschitz)
    return ProblemConstants(
        n_records=design.n_records,
        dimension=loss.n_outputs * design.width,
        strong_convexity=alpha,
        lipschitz=lipschitz,
        gradient_diameter=diameter,
        smoothness=loss.smoothness(design.feature_norm),
        # ||w* - center|| <= lipschitz / alpha, also in the whole space
        radius=min(radius, center_norm + design.size_ratio * lipschitz / alpha),
        row_width=design.width,
        size_ratio=design.size_ratio,
        in_ball=math.isfinite(radius),
        domain_radius=radius,
        n_terms=design.n_terms if design.of_persons else None,
    )


def bounded_problem_radius(
    loss: Loss, feature_norm: float, alpha: float, coef_norm: float | None
) -> float:
    """Choose the radius of the ball to solve in: `coef_norm`, or less if no solution is longer.

    The smaller domain holds the solution of every data set, and tightens the constants. For a
    regulariser with center 0.
    """
    longest = loss.solution_radius(feature_norm, alpha)
    return longest if coef_norm is None else min(coef_norm, longest)
