"""Saddle problems: their interface to solvers, and the public constants of their privacy.

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

from skdp._checks import check_count, check_non_negative, check_positive, check_real
from skdp.problems.constants import ProblemConstants
from skdp.problems.domains import Domain, euclidean_norm
from skdp.problems.matrices import read_only_view, solver_copy
from skdp.problems.rounding import EPS, ROUNDING_SLACK

_Problem = TypeVar("_Problem", bound="SaddleProblem")

#: A vector for each block.
Pair = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class BlockConstants:
    """Constants of one block, x or y, of a saddle problem."""

    dimension: int
    #: mu of the objective, the same for all data sets.
    modulus: float
    #: L, bound on the gradient in the block of one record's function, over all records and feasible
    #: z. For a loss in y it is the largest *absolute* value, not the range (docs/theory/saddle.md,
    #: "Groups").
    lipschitz: float
    #: Lipschitz constant of that gradient in the block itself.
    smoothness: float = 0.0
    #: Of the domain, see :class:`skdp.problems.Domain`.
    radius: float = math.inf
    circumradius: float = math.inf
    #: Norm of the center of the regulariser.
    center_norm: float = 0.0
    projection_rounding: float = 0.0
    #: Error of a computed operator beyond that of :meth:`SaddleConstants.operator_rounding`.
    additional_rounding: float = 0.0

    def __post_init__(self) -> None:
        check_count("dimension", self.dimension)
        check_positive(modulus=self.modulus)
        check_real("radius", self.radius, 0.0)
        check_real("circumradius", self.diameter, 0.0)
        checked = ("dimension", "modulus", "radius", "circumradius")
        check_non_negative(**{k: v for k, v in vars(self).items() if k not in checked})

    @classmethod
    def on(
        cls, domain: Domain, dimension: int, center: np.ndarray | None = None, **constants: float
    ) -> BlockConstants:
        """Return the constants of a block of this domain; `constants` are the other fields."""
        return cls(
            dimension,
            radius=domain.radius,
            circumradius=domain.circumradius,
            projection_rounding=domain.projection_rounding(dimension),
            **({} if center is None else {"center_norm": _norm(center)}),
            **constants,
        )

    @property
    def diameter(self) -> float:
        """Bound on the distance of two feasible points."""
        return 2.0 * min(self.radius, self.circumradius)


@dataclass(frozen=True)
class SaddleConstants:
    """Constants of a saddle problem that hold for every data set of `n_records` records.

    Nothing here may be measured on the records. Write z = (x, y), ``A_S(z) = (grad_x, -grad_y)`` of
    the objective, and ``||z||_M^2 = mu_x ||x||^2 + mu_y ||y||^2``, in which A_S is strongly
    monotone with modulus 1.

    Notes
    -----
    Lemma 1 (docs/theory/saddle.md): of saddle points z, z' of neighbours with the ranges (G_x, G_y)
    let ``a = sqrt(mu_x) ||x - x'||``, ``g_x = G_x / sqrt(mu_x)``, likewise b and g_y for y. Then
    ``a^2 + b^2 <= (g_x a + g_y b) / n``, a disc through 0 with center ``(g_x, g_y) / (2 n)``. Its
    largest first coordinate is :attr:`sensitivity_x`, its diameter :attr:`sensitivity`.
    """

    #: n, public. Neighbours differ in the record at one position (replace-one).
    n_records: int
    x: BlockConstants
    y: BlockConstants
    #: Lipschitz constant of either gradient of the function of one record in the other variable.
    coupling: float = 0.0
    #: Pairs (G_x, G_y): for any two records there is a pair such that, at every feasible z, the two
    #: gradients differ by at most G_x in x and G_y in y. Only what is parallel to differences of
    #: feasible points counts: on a simplex the means of the entries do not. Default:
    #: ``((2 L_x, 2 L_y),)``.
    gradient_ranges: tuple[tuple[float, float], ...] | None = None
    #: Most additions in a chain when the records are summed. Default: n.
    summation_chain: int | None = None

    def __post_init__(self) -> None:
        check_count("n_records", self.n_records)
        check_non_negative(coupling=self.coupling)
        if self.gradient_ranges is not None:
            ranges = tuple((float(first), float(second)) for first, second in self.gradient_ranges)
            object.__setattr__(self, "gradient_ranges", ranges)
        if not self.ranges:
            raise ValueError("gradient_ranges is empty: None stands for the default.")
        for first, second in self.ranges:
            if not (0 <= first <= 2 * self.x.lipschitz and 0 <= second <= 2 * self.y.lipschitz):
                raise ValueError(
                    f"gradient_ranges has ({first}, {second}): a range is >= 0 and at most twice "
                    f"the Lipschitz constant, 2 * {self.x.lipschitz} and 2 * {self.y.lipschitz}."
                )

    @property
    def ranges(self) -> tuple[tuple[float, float], ...]:
        """The gradient ranges, or their default."""
        default = ((2.0 * self.x.lipschitz, 2.0 * self.y.lipschitz),)
        return default if self.gradient_ranges is None else self.gradient_ranges

    @property
    def moduli(self) -> tuple[float, float]:
        """mu_x and mu_y."""
        return self.x.modulus, self.y.modulus

    def norm(self, x: float, y: float) -> float:
        """Return ``||(x, y)||_M`` of blocks of these Euclidean norms."""
        return math.hypot(math.sqrt(self.x.modulus) * x, math.sqrt(self.y.modulus) * y)

    def dual_norm(self, x: float, y: float) -> float:
        """Return ``sqrt(x^2 / mu_x + y^2 / mu_y)``, the norm of operators."""
        return math.hypot(x / math.sqrt(self.x.modulus), y / math.sqrt(self.y.modulus))

    @property
    def localisation(self) -> float:
        """Bound on the distance in the norm M of the projected centers to the saddle point.

        ``sqrt(L_x^2 / mu_x + L_y^2 / mu_y)``, or less if the domains are small.
        """
        return min(self.dual_norm(self.x.lipschitz, self.y.lipschitz), self.diameter)

    @property
    def diameter(self) -> float:
        """Bound on the distance in the norm M of two feasible points."""
        return self.norm(self.x.diameter, self.y.diameter)

    @property
    def sensitivity(self) -> float:
        """How far the saddle point can move in the norm M: ``sqrt(g_x^2 + g_y^2) / n``.

        For the worst pair of ranges (docs/theory/saddle.md, Lemma 1), and
        at most the diameter of the domain.
        """
        return min(joint_sensitivity(self.ranges, self.moduli, self.n_records), self.diameter)

    @property
    def sensitivity_x(self) -> float:
        """How far x can move: ``[G_x/mu_x + sqrt(G_x^2/mu_x^2 + G_y^2/(mu_x mu_y))] / (2 n)``.

        For the release of x alone; a joint release needs :attr:`sensitivity`.
        """
        return min(block_sensitivity(self.ranges, self.moduli, self.n_records), self.x.diameter)

    @property
    def sensitivity_y(self) -> float:
        """How far y can move: :attr:`sensitivity_x` with x and y exchanged."""
        return self.exchanged().sensitivity_x

    def exchanged(self) -> SaddleConstants:
        """Return the constants of the problem with x and y exchanged, and -f in place of f."""
        ranges = tuple((second, first) for first, second in self.ranges)
        return replace(self, x=self.y, y=self.x, gradient_ranges=ranges)

    def primal(self) -> ProblemConstants:
        """The constants of ``max over y of F(x, y)``, whose y is ``coupling / mu_y``-Lipschitz."""
        x = self.x
        return ProblemConstants(
            n_records=self.n_records,
            dimension=x.dimension,
            strong_convexity=x.modulus,
            lipschitz=x.lipschitz,
            gradient_diameter=2.0 * x.lipschitz,
            smoothness=x.smoothness + self.coupling**2 / self.y.modulus,
            radius=x.radius,
            row_width=x.dimension,
            most_rows=self.n_records,
            record_weight=1.0,
        )

    @property
    def data_lipschitz(self) -> float:
        """Lipschitz constant of the operator of one record in coordinates scaled by ``sqrt(M)``.

        Spectral norm of ``[[s_x/mu_x, c], [c, s_y/mu_y]]``, s the smoothness of a block and
        ``c = coupling / sqrt(mu_x mu_y)``.
        """
        first, last = (block.smoothness / block.modulus for block in (self.x, self.y))
        cross = self.coupling / (math.sqrt(self.x.modulus) * math.sqrt(self.y.modulus))
        return 0.5 * (first + last) + math.hypot(0.5 * (first - last), cross)

    @property
    def condition_number(self) -> float:
        """Lipschitz constant of the operator in these coordinates, where its modulus is 1."""
        return 1.0 + self.data_lipschitz * (1.0 + 8.0 * EPS)

    def operator_rounding(self, norm_x: float, norm_y: float) -> tuple[float, float]:
        """Bounds on the Euclidean errors of both blocks of a computed operator.

        `norm_x` and `norm_y` bound the norms of x and y. Sum over the records: a chain of additions
        relative to the Lipschitz constant; products: as many additions as coordinates, relative to
        the smoothness; the regulariser.
        """
        chain = (self.summation_chain or self.n_records) + 16.0
        width = self.x.dimension + self.y.dimension + 16.0

        def error(block: BlockConstants, norm: float, other_norm: float) -> float:
            product = block.smoothness * norm + self.coupling * other_norm
            penalty = block.modulus * (norm + block.center_norm)
            sums = chain * block.lipschitz + width * product + 4.0 * penalty
            return EPS * sums + block.additional_rounding

        return error(self.x, norm_x, norm_y), error(self.y, norm_y, norm_x)


def joint_sensitivity(
    ranges: Iterable[tuple[float, float]], moduli: tuple[float, float], n_records: float
) -> float:
    """Return ``sqrt(g_x^2 + g_y^2) / n`` of Lemma 1, in the norm M, rounded up."""
    root_x, root_y = map(math.sqrt, moduli)
    worst = max(math.hypot(first / root_x, second / root_y) for first, second in ranges)
    return worst / n_records * ROUNDING_SLACK


def block_sensitivity(
    ranges: Iterable[tuple[float, float]], moduli: tuple[float, float], n_records: float
) -> float:
    """``(g_x + sqrt(g_x^2 + g_y^2)) / (2 n sqrt(mu_x))`` of Lemma 1, that of x, rounded up."""
    root_x, root_y = map(math.sqrt, moduli)
    worst = max(
        first / root_x + math.hypot(first / root_x, second / root_y) for first, second in ranges
    )
    return 0.5 * worst / (root_x * n_records) * ROUNDING_SLACK


class Response(NamedTuple):
    """The maximiser y of ``F(x, .)``, the point projected to it, ``grad_x f`` and F there."""

    y: np.ndarray
    unprojected: np.ndarray
    gradient: np.ndarray
    value: float


class SaddleProblem(ABC):
    """A regularised mean over records, convex in x and concave in y.

    A subclass evaluates the operator of the data part f, for all records and for batches.

    Parameters
    ----------
    domain_x, domain_y : Domain
    constants : SaddleConstants
        Radii, center norms and projection errors of the domains have to be in them.
    center_x, center_y : ndarray of shape (dimension_x,) or (dimension_y,), optional
        Centers of the regularisers, functions of public numbers and released values. Default: 0.
    alpha_x, alpha_y : float, optional
        Of the regularisers, at most mu_x and mu_y: the rest of the moduli is that of *every*
        record's function. Default: mu_x and mu_y.
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
        self.center_x, self.alpha_x = _checked_block("x", domain_x, constants.x, center_x, alpha_x)
        self.center_y, self.alpha_y = _checked_block("y", domain_y, constants.y, center_y, alpha_y)

    @abstractmethod
    def value(self, x: np.ndarray, y: np.ndarray) -> float:
        """Objective, regularisers included."""

    @abstractmethod
    def data_operator(self, x: np.ndarray, y: np.ndarray) -> Pair:
        """Return ``(grad_x f, -grad_y f)`` of the data part."""

    @abstractmethod
    def batch_operator(self, positions: slice | np.ndarray, x: np.ndarray, y: np.ndarray) -> Pair:
        """Return the mean of the data part's operator over the records at `positions` only."""

    #: Evaluations besides operators: "hessian" for :meth:`best_response`, :meth:`hessian_x` and
    #: :meth:`cross_derivative`, where f is linear in y, "records" for :meth:`take`.
    offers: frozenset[str] = frozenset()

    #: Whether :meth:`batch_operator` can be had.
    has_batches: bool = True

    def best_response(self, x: np.ndarray) -> Response:
        """Return the maximiser over y, where f is linear in y: ``Proj(c_y + grad_y f / a_y)``."""
        if self.constants.y.smoothness > 0 or not self.alpha_y > 0:
            raise NotImplementedError(f"{type(self).__name__} is not linear in y.")
        y = self.domain_y.center(self.constants.y.dimension)
        unprojected = self.center_y - self.data_operator(x, y)[1] / self.alpha_y
        y = self.domain_y.project(unprojected)
        return Response(y, unprojected, self.data_operator(x, y)[0], self.value(x, y))

    def hessian_x(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the second derivative of the data part in x, if offered."""
        raise NotImplementedError(f"{type(self).__name__} has no Hessian.")

    def cross_derivative(self, x: np.ndarray) -> np.ndarray:
        """Derivative of ``grad_y f`` in x, shape (dimension_y, dimension_x), if offered."""
        raise NotImplementedError(f"{type(self).__name__} has no Hessian.")

    @property
    def n_records(self) -> int:
        return self.constants.n_records

    def take(self: _Problem, positions: np.ndarray) -> _Problem:
        """Return the problem of some of the records, by index, with the same regularisers."""
        other = copy.copy(self)
        other.constants = replace(self.constants, n_records=len(positions))
        other._keep(positions)
        return other

    def _keep(self, positions: np.ndarray) -> None:
        """Drop all other records; the constants are already those of the rest."""
        raise NotImplementedError(f"Records of a {type(self).__name__} cannot be taken.")

    def with_regularisers(
        self: _Problem,
        alpha_x: float,
        alpha_y: float,
        center_x: np.ndarray | None = None,
        center_y: np.ndarray | None = None,
    ) -> _Problem:
        """Return the problem with other regularisers; `record_moduli` stay, centers by default."""
        other, c = copy.copy(self), self.constants
        center_x = self.center_x if center_x is None else center_x
        center_y = self.center_y if center_y is None else center_y
        convexity, concavity = self.record_moduli
        x = replace(c.x, modulus=convexity + alpha_x, center_norm=_norm(center_x))
        y = replace(c.y, modulus=concavity + alpha_y, center_norm=_norm(center_y))
        domains, centers = (self.domain_x, self.domain_y), (center_x, center_y)
        SaddleProblem.__init__(other, *domains, replace(c, x=x, y=y), *centers, alpha_x, alpha_y)
        return other

    @property
    def record_moduli(self) -> tuple[float, float]:
        """Strong convexity and concavity of every record's function, without the regularisers."""
        mu_x, mu_y = self.constants.moduli
        return _record_modulus(mu_x, self.alpha_x), _record_modulus(mu_y, self.alpha_y)

    def operator(self, x: np.ndarray, y: np.ndarray) -> Pair:
        """Return ``(grad_x F, -grad_y F)`` of the objective."""
        data_x, data_y = self.data_operator(x, y)
        data_x = data_x + self.alpha_x * (x - self.center_x)
        return data_x, data_y + self.alpha_y * (y - self.center_y)

    def regulariser(self, x: np.ndarray, y: np.ndarray) -> float:
        """Return ``(a_x/2) ||x - c_x||^2 - (a_y/2) ||y - c_y||^2``."""
        away_x, away_y = x - self.center_x, y - self.center_y
        return 0.5 * float(self.alpha_x * (away_x @ away_x) - self.alpha_y * (away_y @ away_y))

    def operator_rounding(self, x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
        """Bounds on the Euclidean errors of both blocks of ``operator(x, y)``."""
        return self.constants.operator_rounding(euclidean_norm(x), euclidean_norm(y))

    def project(self, x: np.ndarray, y: np.ndarray) -> Pair:
        """Return the nearest feasible pair."""
        return self.domain_x.project(x), self.domain_y.project(y)

    def prox(self, x: np.ndarray, y: np.ndarray, step_x: float, step_y: float) -> Pair:
        """Return :meth:`skdp.problems.Problem.prox` of both blocks."""
        pull_x, pull_y = step_x * self.alpha_x, step_y * self.alpha_y
        x = (x + pull_x * self.center_x) / (1.0 + pull_x)
        return self.project(x, (y + pull_y * self.center_y) / (1.0 + pull_y))

    def start(self) -> Pair:
        """Return the projected centers, within ``constants.localisation`` of the solution."""
        return self.project(self.center_x, self.center_y)

    def for_solver(self: _Problem) -> _Problem:
        """Copy for a solver: read-only views of arrays; copies of constants, domains, losses."""
        return solver_copy(self)


def _record_modulus(modulus: float, alpha: float) -> float:
    """Return ``modulus - alpha``, or a little less: the modulus is a rounded sum."""
    return max(0.0, modulus - alpha - 2.0 * EPS * modulus) if alpha > 0 else modulus


def _norm(center: np.ndarray | None) -> float:
    return 0.0 if center is None else euclidean_norm(np.asarray(center, dtype=np.float64))


def _checked_block(
    name: str,
    domain: Domain,
    constants: BlockConstants,
    center: np.ndarray | None,
    alpha: float | None,
) -> tuple[np.ndarray, float]:
    """Center and alpha of a block's regulariser, if the constants cover them and the domain."""
    dimension = constants.dimension
    center = np.zeros(dimension) if center is None else np.array(center, dtype=np.float64)
    if center.shape != (dimension,) or not np.isfinite(center).all():
        raise ValueError(f"center_{name} must be a finite vector of shape ({dimension},).")
    alpha = constants.modulus if alpha is None else float(alpha)
    if not 0 <= alpha <= constants.modulus:
        raise ValueError(f"alpha_{name} == {alpha}, must be >= 0 and at most {constants.modulus}.")
    known = BlockConstants.on(domain, dimension, center, modulus=1.0, lipschitz=0.0)
    for field in ("radius", "diameter", "projection_rounding", "center_norm"):
        least, stated = getattr(known, field), getattr(constants, field)
        if least > stated * (1.0 + 1e-12):
            raise ValueError(f"constants.{name}.{field} == {stated}, must be at least {least}.")
    return read_only_view(center), alpha
