"""Saddle problems: what a solver may know of them, and the public constants of their privacy.

``min over x in X, max over y in Y of f_S(x, y) + (a_x/2) ||x - c_x||^2 - (a_y/2) ||y - c_y||^2``
with f_S a mean over records, convex in x and concave in y. Lemmas and proofs:
docs/theory/saddle.md.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np

from skdp.problems.constants import ROUNDING_SLACK
from skdp.problems.domains import Domain, euclidean_norm
from skdp.problems.problem import copy_parts
from skdp.problems.records import read_only_view
from skdp.problems.rounding import EPS

__all__ = ["Response", "SaddleConstants", "SaddleProblem", "block_movement", "joint_movement"]

_Own = TypeVar("_Own", bound="SaddleProblem")


@dataclass(frozen=True)
class SaddleConstants:
    """Constants of a saddle problem that hold for every data set of `n_records` records.

    Nothing here may be measured on the records. Write z = (x, y),
    ``A_S(z) = (grad_x, -grad_y)`` of the whole objective, ``a(z; i)`` of the function of record i
    (without regularisers), and ``||z||_M^2 = mu_x ||x||^2 + mu_y ||y||^2``.

    Parameters
    ----------
    n_records : int
        n, public. Neighbours differ in the record at one position (replace-one).
    dimension_x, dimension_y : int
    strong_convexity, strong_concavity : float
        mu_x and mu_y of the whole objective, the same for all data sets: A_S is strongly monotone
        with modulus 1 in the norm M.
    lipschitz_x, lipschitz_y : float
        L_x and L_y, bounds on ``||grad_x||`` and ``||grad_y||`` of the function of one record, over
        all records and feasible z. Of a loss in a dual block it is the largest *absolute* value
        that counts, not its range (review W2).
    smoothness_xx, smoothness_xy, smoothness_yy : float
        Of the function of one record: Lipschitz constants of grad_x in x, of either gradient in
        the other variable, and of grad_y in y.
    gradient_ranges : tuple of pairs of float, optional
        Pairs (G_x, G_y): for any two records there is a pair such that, at every feasible z, the
        two gradients differ by at most G_x in x and G_y in y. Only what is parallel to differences
        of feasible points counts: on a simplex the means of the entries do not.
        Default: ``((2 L_x, 2 L_y),)``.
    radius_x, radius_y : float, default=inf
        Largest norms of feasible x and y.
    reach_x, reach_y : float, optional
        Largest distances of feasible x and y to the centres of their domains
        (:attr:`skdp.problems.Domain.reach`). Default: the radii.
    center_norm_x, center_norm_y : float, default=0.0
        Norms of the centres of the regularisers.
    projection_rounding_x, projection_rounding_y : float, default=0.0
        Bounds on the error of a computed projection onto X and Y.
    summation_chain : int, optional
        Most additions in a chain when the records are summed. Default: n.
    additional_rounding_x, additional_rounding_y : float, default=0.0
        Errors of a computed operator beyond those of :meth:`operator_rounding`.

    Notes
    -----
    **Lemma 1.** Let z and z' be the saddle points of neighbours S and S' that differ in record
    i, with ranges (G_x, G_y). With ``a = sqrt(mu_x) ||x - x'||``, ``b = sqrt(mu_y) ||y - y'||``,
    ``g_x = G_x / sqrt(mu_x)``, ``g_y = G_y / sqrt(mu_y)``:
    ``a^2 + b^2 <= (g_x a + g_y b) / n``.

    *Proof.* ``<A_S(z), z' - z> >= 0`` and ``<A_S'(z'), z - z'> >= 0``; strong monotonicity:
    ``||z - z'||_M^2 <= <A_S(z') - A_S(z), z' - z>``. Added:
    ``||z - z'||_M^2 <= <A_S(z') - A_S'(z'), z' - z>``, where common records and regularisers cancel
    at the one point z'. What is left is ``<a(z'; i) - a(z'; i'), z' - z> / n``.

    So (a, b) lies in a disc through 0 with centre ``(g_x, g_y) / (2 n)``. Its largest first
    coordinate is :attr:`argmin_sensitivity_x`, its diameter :attr:`argmin_sensitivity`.
    """

    n_records: int
    dimension_x: int
    dimension_y: int
    strong_convexity: float
    strong_concavity: float
    lipschitz_x: float
    lipschitz_y: float
    smoothness_xx: float = 0.0
    smoothness_xy: float = 0.0
    smoothness_yy: float = 0.0
    gradient_ranges: tuple[tuple[float, float], ...] | None = None
    radius_x: float = math.inf
    radius_y: float = math.inf
    reach_x: float | None = None
    reach_y: float | None = None
    center_norm_x: float = 0.0
    center_norm_y: float = 0.0
    projection_rounding_x: float = 0.0
    projection_rounding_y: float = 0.0
    summation_chain: int | None = None
    additional_rounding_x: float = 0.0
    additional_rounding_y: float = 0.0

    def __post_init__(self) -> None:
        for name in ("n_records", "dimension_x", "dimension_y"):
            count = getattr(self, name)
            if not (count >= 1 and count == int(count)):
                raise ValueError(f"{name} == {count}, must be an integer >= 1.")
        for name in ("strong_convexity", "strong_concavity"):
            number = getattr(self, name)
            if not (number > 0 and math.isfinite(number)):
                raise ValueError(f"{name} == {number}, must be > 0 and finite.")
        not_negative = ("radius_x", "radius_y")
        finite = (
            *("lipschitz_x", "lipschitz_y"),
            *("smoothness_xx", "smoothness_xy", "smoothness_yy", "center_norm_x", "center_norm_y"),
            *("projection_rounding_x", "projection_rounding_y"),
            *("additional_rounding_x", "additional_rounding_y"),
        )
        for name in (*not_negative, *finite):
            number = getattr(self, name)
            if not number >= 0 or (name in finite and math.isinf(number)):
                kind = "must be >= 0 and finite" if name in finite else "must be >= 0"
                raise ValueError(f"{name} == {number}, {kind}.")
        if self.gradient_ranges is not None:
            if not self.gradient_ranges:
                raise ValueError("gradient_ranges is empty: None stands for the default.")
            ranges = tuple((float(first), float(second)) for first, second in self.gradient_ranges)
            object.__setattr__(self, "gradient_ranges", ranges)
        for first, second in self.ranges:
            if not (0 <= first <= 2 * self.lipschitz_x and 0 <= second <= 2 * self.lipschitz_y):
                raise ValueError(
                    f"gradient_ranges has ({first}, {second}): a range is >= 0 and at most twice "
                    f"the Lipschitz constant, 2 * {self.lipschitz_x} and 2 * {self.lipschitz_y}."
                )
        for name, reach in (("reach_x", self.half_diameter_x), ("reach_y", self.half_diameter_y)):
            if not reach >= 0:
                raise ValueError(f"{name} == {reach}, must be >= 0.")

    @property
    def ranges(self) -> tuple[tuple[float, float], ...]:
        """The gradient ranges, or their default."""
        default = ((2.0 * self.lipschitz_x, 2.0 * self.lipschitz_y),)
        return default if self.gradient_ranges is None else self.gradient_ranges

    @property
    def half_diameter_x(self) -> float:
        """`reach_x`, or its default."""
        return self.radius_x if self.reach_x is None else self.reach_x

    @property
    def half_diameter_y(self) -> float:
        """`reach_y`, or its default."""
        return self.radius_y if self.reach_y is None else self.reach_y

    def norm(self, x: float, y: float) -> float:
        """``||(x, y)||_M`` of blocks of the given Euclidean norms."""
        root_x, root_y = math.sqrt(self.strong_convexity), math.sqrt(self.strong_concavity)
        return math.hypot(root_x * x, root_y * y)

    def dual_norm(self, x: float, y: float) -> float:
        """``sqrt(x^2 / mu_x + y^2 / mu_y)``, the norm of operators."""
        root_x, root_y = math.sqrt(self.strong_convexity), math.sqrt(self.strong_concavity)
        return math.hypot(x / root_x, y / root_y)

    @property
    def localisation(self) -> float:
        """``Lambda = sqrt(L_x^2 / mu_x + L_y^2 / mu_y)``, or less if the domains are small.

        The saddle point is within it of the projected centres, in the norm M: these solve the
        problem without records, and Lemma 1 holds for any two operators of which one is strongly
        monotone. Dividing by n gives half of the sensitivity for the default ranges.
        """
        return min(self.dual_norm(self.lipschitz_x, self.lipschitz_y), self.diameter)

    @property
    def diameter(self) -> float:
        """Bound on the distance in the norm M of two feasible points."""
        return 2.0 * self.norm(self.half_diameter_x, self.half_diameter_y)

    @property
    def argmin_sensitivity(self) -> float:
        """How far the saddle point can move in the norm M: ``sqrt(g_x^2 + g_y^2) / n``.

        The diameter of the disc of Lemma 1, for the worst pair of ranges (Zhang et al. 2022
        specification, section 3.3 (5)-(7)). Never above the diameter of the domain.
        """
        moduli = self.strong_convexity, self.strong_concavity
        return min(joint_movement(self.ranges, *moduli, self.n_records), self.diameter)

    @property
    def argmin_sensitivity_x(self) -> float:
        """How far x can move: ``[G_x/mu_x + sqrt(G_x^2/mu_x^2 + G_y^2/(mu_x mu_y))] / (2 n)``.

        The largest first coordinate of the disc of Lemma 1, divided by ``sqrt(mu_x)``, for the
        worst pair of ranges. For the release of x alone; a joint release needs
        :attr:`argmin_sensitivity` (review F-10).
        """
        moduli = self.strong_convexity, self.strong_concavity
        moved = block_movement(self.ranges, *moduli, self.n_records)
        return min(moved, 2.0 * self.half_diameter_x)

    @property
    def argmin_sensitivity_y(self) -> float:
        """How far y can move: :attr:`argmin_sensitivity_x` with x and y exchanged."""
        return self.exchanged().argmin_sensitivity_x

    def exchanged(self) -> SaddleConstants:
        """The constants of the problem with x and y exchanged, and -f in place of f."""
        return replace(
            self,
            **{
                there: getattr(self, here)
                for name in (
                    *("dimension_{}", "lipschitz_{}", "radius_{}", "reach_{}", "center_norm_{}"),
                    *("projection_rounding_{}", "additional_rounding_{}"),
                )
                for here, there in zip(
                    (name.format("x"), name.format("y")),
                    (name.format("y"), name.format("x")),
                    strict=True,
                )
            },
            strong_convexity=self.strong_concavity,
            strong_concavity=self.strong_convexity,
            smoothness_xx=self.smoothness_yy,
            smoothness_yy=self.smoothness_xx,
            gradient_ranges=tuple((second, first) for first, second in self.ranges),
        )

    @property
    def data_lipschitz(self) -> float:
        """Lipschitz constant of the operator of one record in coordinates scaled by ``sqrt(M)``.

        Spectral norm of ``[[ell_xx/mu_x, c], [c, ell_yy/mu_y]]``, ``c = ell_xy / sqrt(mu_x mu_y)``.
        """
        first = self.smoothness_xx / self.strong_convexity
        last = self.smoothness_yy / self.strong_concavity
        root = math.sqrt(self.strong_convexity) * math.sqrt(self.strong_concavity)
        cross = self.smoothness_xy / root
        return 0.5 * (first + last) + math.hypot(0.5 * (first - last), cross)

    @property
    def scaled_lipschitz(self) -> float:
        """Lipschitz constant lt of the whole operator in these coordinates, at least 1.

        The modulus of monotonicity is 1 there, so lt is the condition number of the problem.
        """
        return 1.0 + self.data_lipschitz * (1.0 + 8.0 * EPS)

    def operator_rounding(self, norm_x: float, norm_y: float) -> tuple[float, float]:
        """Bounds on the Euclidean errors of both blocks of a computed operator.

        Sum over the records: a chain of additions relative to the Lipschitz constant; products: as
        many additions as coordinates, relative to the smoothness; the regulariser.

        Parameters
        ----------
        norm_x, norm_y : float
            Bounds on the norms of x and y.
        """
        chain = (self.summation_chain or self.n_records) + 16.0
        width = self.dimension_x + self.dimension_y + 16.0
        errors = []
        for lipschitz, own, other, modulus, center, extra in (
            (
                *(self.lipschitz_x, self.smoothness_xx * norm_x, self.smoothness_xy * norm_y),
                *(self.strong_convexity, norm_x + self.center_norm_x, self.additional_rounding_x),
            ),
            (
                *(self.lipschitz_y, self.smoothness_yy * norm_y, self.smoothness_xy * norm_x),
                *(self.strong_concavity, norm_y + self.center_norm_y, self.additional_rounding_y),
            ),
        ):
            sums = chain * lipschitz + width * (own + other) + 4.0 * modulus * center
            errors.append(EPS * sums + extra)
        return errors[0], errors[1]


def joint_movement(
    ranges: Iterable[tuple[float, float]], mu_x: float, mu_y: float, n_records: float
) -> float:
    """``sqrt(g_x^2 + g_y^2) / n`` of Lemma 1, the movement in the norm M, rounded up."""
    root_x, root_y = math.sqrt(mu_x), math.sqrt(mu_y)
    worst = max(math.hypot(first / root_x, second / root_y) for first, second in ranges)
    return worst / n_records * ROUNDING_SLACK


def block_movement(
    ranges: Iterable[tuple[float, float]], mu_x: float, mu_y: float, n_records: float
) -> float:
    """``(g_x + sqrt(g_x^2 + g_y^2)) / (2 n sqrt(mu_x))`` of Lemma 1, that of x, rounded up."""
    root_x, root_y = math.sqrt(mu_x), math.sqrt(mu_y)
    worst = max(
        first / root_x + math.hypot(first / root_x, second / root_y) for first, second in ranges
    )
    return 0.5 * worst / (root_x * n_records) * ROUNDING_SLACK


class Response(NamedTuple):
    """The maximiser of ``F(x, .)``, and what is known with it.

    Attributes
    ----------
    y : ndarray of shape (dimension_y,)
    free : ndarray of shape (dimension_y,)
        The point that was projected to y.
    slope : ndarray of shape (dimension_x,)
        ``grad_x f(x, y)``, without the regulariser.
    value : float
        ``F(x, y)``.
    """

    y: np.ndarray
    free: np.ndarray
    slope: np.ndarray
    value: float


class SaddleProblem(ABC):
    """A regularised mean over records, convex in x and concave in y.

    A subclass evaluates the operator of the data part f, for all records and for batches, and
    states constants that hold for every data set.

    Parameters
    ----------
    domain_x, domain_y : Domain
    constants : SaddleConstants
        Radii, reaches, centre norms and projection errors of the domains have to be in them.
    center_x : ndarray of shape (dimension_x,), optional
        Centre of the regulariser; it may depend on public numbers and released values only.
        Default: 0.
    center_y : ndarray of shape (dimension_y,), optional
    alpha_x, alpha_y : float, optional
        Strengths of the regularisers, at most mu_x and mu_y: the rest of the moduli is that of
        *every* record's function. Default: mu_x and mu_y.
    """

    def __init__(
        self,
        domain_x: Domain,
        domain_y: Domain,
        constants: SaddleConstants,
        center_x: np.ndarray | None = None,
        center_y: np.ndarray | None = None,
        alpha_x: float | None = None,
        alpha_y: float | None = None,
    ) -> None:
        self.domain_x, self.domain_y = domain_x, domain_y
        self.constants = constants
        self.center_x = _center("center_x", center_x, constants.dimension_x)
        self.center_y = _center("center_y", center_y, constants.dimension_y)
        self.alpha_x = constants.strong_convexity if alpha_x is None else float(alpha_x)
        self.alpha_y = constants.strong_concavity if alpha_y is None else float(alpha_y)
        for name, alpha, modulus in (
            ("alpha_x", self.alpha_x, constants.strong_convexity),
            ("alpha_y", self.alpha_y, constants.strong_concavity),
        ):
            if not 0 <= alpha <= modulus:
                raise ValueError(f"{name} == {alpha}, must be >= 0 and at most {modulus}.")
        slack = 1.0 + 1e-12
        for name, known, stated in (
            ("radius_x", domain_x.radius, constants.radius_x),
            ("radius_y", domain_y.radius, constants.radius_y),
            ("reach_x", domain_x.reach, constants.half_diameter_x),
            ("reach_y", domain_y.reach, constants.half_diameter_y),
            (
                "projection_rounding_x",
                domain_x.projection_rounding(constants.dimension_x),
                constants.projection_rounding_x,
            ),
            (
                "projection_rounding_y",
                domain_y.projection_rounding(constants.dimension_y),
                constants.projection_rounding_y,
            ),
            ("center_norm_x", euclidean_norm(self.center_x), constants.center_norm_x),
            ("center_norm_y", euclidean_norm(self.center_y), constants.center_norm_y),
        ):
            if known > stated * slack:
                raise ValueError(f"constants.{name} == {stated}, must be at least {known}.")

    @abstractmethod
    def value(self, x: np.ndarray, y: np.ndarray) -> float:
        """Objective, regularisers included."""

    @abstractmethod
    def data_operator(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``(grad_x f, -grad_y f)`` of the data part."""

    @abstractmethod
    def batch_operator(
        self, positions: slice | np.ndarray, x: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean of the data part's operator over the records at `positions` only."""

    #: What a solver can have besides operators: "hessian" stands for :meth:`best_response`,
    #: :meth:`hessian_x` and :meth:`cross_derivative`, where f is linear in y, "records" for
    #: :meth:`take`.
    offers: frozenset[str] = frozenset()

    @property
    def is_mean(self) -> bool:
        """Whether the data part is a mean of one function per record, the same in every set."""
        return True

    def best_response(self, x: np.ndarray) -> Response:
        """The maximiser over y, where f is linear in y: ``Proj(c_y + grad_y f(x) / a_y)``."""
        if self.constants.smoothness_yy > 0 or not self.alpha_y > 0:
            raise NotImplementedError(f"{type(self).__name__} is not linear in y.")
        y = self.domain_y.center(self.constants.dimension_y)
        free = self.center_y - self.data_operator(x, y)[1] / self.alpha_y
        y = self.domain_y.project(free)
        return Response(y, free, self.data_operator(x, y)[0], self.value(x, y))

    def hessian_x(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Second derivative of the data part in x, if offered."""
        raise NotImplementedError(f"{type(self).__name__} has no Hessian.")

    def cross_derivative(self, x: np.ndarray) -> np.ndarray:
        """Derivative of ``grad_y f`` in x, shape (dimension_y, dimension_x), if offered."""
        raise NotImplementedError(f"{type(self).__name__} has no Hessian.")

    @property
    def n_records(self) -> int:
        return self.constants.n_records

    def take(self: _Own, positions: np.ndarray) -> _Own:
        """The problem of some of the records, by index, with the same regularisers."""
        other = copy.copy(self)
        other.constants = replace(self.constants, n_records=len(positions))
        other._keep(positions)
        return other

    def _keep(self, positions: np.ndarray) -> None:
        """Drop all other records; the constants are already those of the rest."""
        raise NotImplementedError(f"Records of a {type(self).__name__} cannot be taken.")

    def with_regularisers(
        self: _Own,
        alpha_x: float,
        alpha_y: float,
        center_x: np.ndarray | None = None,
        center_y: np.ndarray | None = None,
    ) -> _Own:
        """The problem of the same records with other regularisers.

        What the records' functions themselves have of strong convexity and concavity stays.
        """
        other = copy.copy(self)
        constants = replace(
            self.constants,
            strong_convexity=self.own_convexity + alpha_x,
            strong_concavity=self.own_concavity + alpha_y,
            center_norm_x=0.0 if center_x is None else euclidean_norm(center_x),
            center_norm_y=0.0 if center_y is None else euclidean_norm(center_y),
        )
        SaddleProblem.__init__(
            *(other, self.domain_x, self.domain_y, constants),
            *(center_x, center_y, alpha_x, alpha_y),
        )
        return other

    @property
    def own_convexity(self) -> float:
        """Strong convexity of every record's own function, without the regulariser."""
        return _own_modulus(self.constants.strong_convexity, self.alpha_x)

    @property
    def own_concavity(self) -> float:
        """Strong concavity of every record's own function, without the regulariser."""
        return _own_modulus(self.constants.strong_concavity, self.alpha_y)

    def operator(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``(grad_x F, -grad_y F)`` of the whole objective."""
        slope_x, slope_y = self.data_operator(x, y)
        slope_x = slope_x + self.alpha_x * (x - self.center_x)
        return slope_x, slope_y + self.alpha_y * (y - self.center_y)

    def regulariser(self, x: np.ndarray, y: np.ndarray) -> float:
        """``(a_x/2) ||x - c_x||^2 - (a_y/2) ||y - c_y||^2``."""
        away_x, away_y = x - self.center_x, y - self.center_y
        return 0.5 * float(self.alpha_x * (away_x @ away_x) - self.alpha_y * (away_y @ away_y))

    def operator_rounding(self, x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
        """Bounds on the Euclidean errors of both blocks of ``operator(x, y)``."""
        return self.constants.operator_rounding(euclidean_norm(x), euclidean_norm(y))

    def project(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The nearest feasible pair."""
        return self.domain_x.project(x), self.domain_y.project(y)

    def prox(
        self, x: np.ndarray, y: np.ndarray, step_x: float, step_y: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """``argmin of (a/2) ||. - c||^2 + ||. - p||^2 / (2 step)`` over the domain, in both blocks.

        Exact, because the sums are isotropic.
        """
        pull_x, pull_y = step_x * self.alpha_x, step_y * self.alpha_y
        x = (x + pull_x * self.center_x) / (1.0 + pull_x)
        return self.project(x, (y + pull_y * self.center_y) / (1.0 + pull_y))

    def start(self) -> tuple[np.ndarray, np.ndarray]:
        """The projected centres, within ``constants.localisation`` of the solution."""
        return self.project(self.center_x, self.center_y)

    def for_solver(self: _Own) -> _Own:
        """The same problem as another object: what a solver does to its attributes stays there.

        Arrays are read-only views; constants, domains and losses are copies.
        """
        other = copy.copy(self)
        copy_parts(self, other)
        for name, attribute in vars(self).items():
            if isinstance(attribute, np.ndarray):
                setattr(other, name, read_only_view(attribute))
        return other


def _own_modulus(modulus: float, alpha: float) -> float:
    """``modulus - alpha``, or a little less: the modulus is a rounded sum."""
    return max(0.0, modulus - alpha - 2.0 * EPS * modulus) if alpha > 0 else modulus


def _center(name: str, center: np.ndarray | None, dimension: int) -> np.ndarray:
    center = np.zeros(dimension) if center is None else np.array(center, dtype=np.float64)
    if center.shape != (dimension,) or not np.isfinite(center).all():
        raise ValueError(f"{name} must be a finite vector of shape ({dimension},).")
    return read_only_view(center)
