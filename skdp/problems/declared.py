"""Functions of a full data set that the user evaluates, with constants that the user declares."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from skdp._checks import check_count, check_non_negative, check_positive
from skdp._runtime import without_warnings
from skdp.problems.constants import ProblemConstants
from skdp.problems.domains import Ball, Domain, WholeSpace, euclidean_norm
from skdp.problems.matrices import read_only_view
from skdp.problems.problem import Problem
from skdp.problems.rounding import EPS
from skdp.problems.saddle import Pair, SaddleConstants, SaddleProblem


class DeclaredProblem(Problem):
    """``min over w in domain of f(w) + (alpha/2) ||w - center||^2`` for any convex loss f.

    f may depend on the records as it likes: a largest loss, a loss of pairs, a mean. The guarantee
    rests on the declared constants: each must hold for *every* data set of `n_records` records, and
    none may be measured on records.

    Parameters
    ----------
    value_and_gradient : callable
        ``w -> (float, ndarray of shape (dimension,))``: f and its gradient, without the
        regulariser. Deterministic, in double precision, finite everywhere for every data set.
    dimension : int
        Length of w.
    lipschitz : float
        L, bound on ``||grad f(w)||`` over the points of the domain, of norm at most `radius` if
        given. With ``mean_of_records=True`` on the gradient of one record's loss.
    smoothness : float
        beta, Lipschitz constant of the gradient of f on the whole space (accelerated methods
        leave the domain).
    strong_convexity : float, default=0.0
        Modulus of f itself, on the domain; a penalty in f counts if all data sets share it.
    alpha : float, default=0.0
        Of the regulariser; ``strong_convexity + alpha`` must be > 0.
    domain : Domain, optional
        Default: ``Ball(radius)``, or the whole space if no radius is given.
    radius : float, optional
        R, a bound on the norm of the solution for every data set; needed in an unbounded domain
        if f is strongly convex, because L cannot hold on all of it then.
    n_records : int, default=1
        The public number of records.
    mean_of_records : bool, default=False
        Whether f is ``(1/n) sum_i f_i(w)`` with f_i a function of w and of record i alone. Only
        then does the sensitivity shrink with n.
    gradient_diameter : float, optional
        D, bound on the difference of the gradients of f of neighbouring data sets at one w (with
        ``mean_of_records=True``: of two records' losses). Default: ``2 lipschitz``.
    hessian : callable, optional
        ``w -> ndarray of shape (dimension, dimension)``, that of f.
    center : ndarray of shape (dimension,), optional
        Center of the regulariser; default 0. Must not depend on the records.
    gradient_error : float, default=0.0
        Bound on the error of a computed gradient beyond that of a plain sum over the records.

    Notes
    -----
    With ``mu = strong_convexity + alpha`` the solutions of neighbours are at most ``D / mu`` apart,
    or ``D / (mu n)`` for a mean (docs/theory/output_perturbation.md, Lemma 1), and at most
    ``L / mu`` from the center, projected onto the domain.

    Only replace-one neighbours are covered, in which `n_records` is public.
    """

    def __init__(
        self,
        value_and_gradient: Callable[[np.ndarray], tuple[float, np.ndarray]],
        *,
        dimension: int,
        lipschitz: float,
        smoothness: float,
        strong_convexity: float = 0.0,
        alpha: float = 0.0,
        domain: Domain | None = None,
        radius: float | None = None,
        n_records: int = 1,
        mean_of_records: bool = False,
        gradient_diameter: float | None = None,
        hessian: Callable[[np.ndarray], np.ndarray] | None = None,
        center: np.ndarray | None = None,
        gradient_error: float = 0.0,
    ) -> None:
        check_count("dimension", dimension)
        check_count("n_records", n_records)
        check_positive(lipschitz=lipschitz, smoothness=smoothness)
        diameter = 2.0 * lipschitz if gradient_diameter is None else gradient_diameter
        check_positive(gradient_diameter=diameter)
        check_non_negative(
            strong_convexity=strong_convexity, alpha=alpha, gradient_error=gradient_error
        )
        if radius is not None:
            check_positive(radius=radius)
        mu = float(strong_convexity) + float(alpha)
        if not mu > 0:
            raise ValueError(
                "strong_convexity + alpha == 0: without strong convexity the solution may move "
                "without bound."
            )
        if strong_convexity > smoothness:
            raise ValueError(
                f"strong_convexity == {strong_convexity} exceeds smoothness == {smoothness}."
            )
        if diameter > 2.0 * lipschitz:
            raise ValueError(
                f"gradient_diameter == {diameter} exceeds twice lipschitz == {lipschitz}."
            )
        if domain is None:
            domain = WholeSpace() if radius is None else Ball(radius)
        if domain.dimension not in (None, dimension):
            raise ValueError(
                f"the domain has {domain.dimension} dimensions, the problem has {dimension}."
            )
        start = np.zeros(dimension) if center is None else np.array(center, dtype=np.float64)
        if start.shape != (dimension,) or not np.isfinite(start).all():
            raise ValueError(f"center must be a finite vector of shape ({dimension},).")
        self.dimension = int(dimension)
        self.alpha = float(alpha)
        self.domain = domain
        self.center = None if center is None else read_only_view(start)
        self._function = value_and_gradient
        self._hessian = hessian
        self.offers = frozenset() if hessian is None else frozenset({"hessian"})
        self.constants = ProblemConstants(
            n_records=int(n_records),
            dimension=self.dimension,
            strong_convexity=mu,
            lipschitz=float(lipschitz),
            gradient_diameter=float(diameter),
            smoothness=float(smoothness),
            radius=_solution_radius(domain, radius, start, lipschitz, strong_convexity, mu),
            row_width=self.dimension,
            most_rows=int(n_records),
            in_ball=math.isfinite(domain.radius),
            domain_radius=domain.radius,
            record_weight=1.0 / int(n_records) if mean_of_records else 1.0,
            # the formula is for a regulariser around 0
            additional_rounding=gradient_error + 4.0 * EPS * alpha * euclidean_norm(start),
        )
        self._check_function(domain.project(start), exact=gradient_error == 0.0)

    @classmethod
    def envelope(
        cls,
        value: Callable[[np.ndarray], float],
        prox: Callable[[np.ndarray], np.ndarray],
        *,
        width: float,
        dimension: int,
        lipschitz: float,
        strong_convexity: float = 0.0,
        prox_error: float = 0.0,
        **options: Any,
    ) -> DeclaredProblem:
        """Make the problem of the Moreau envelope of a convex loss that need not be smooth.

        ``h(w) = min over u of f(u) + ||u - w||^2 / (2 width)`` has the gradient
        ``(w - u*) / width`` and lies below f by at most ``lipschitz^2 width / 2``. It has the
        Lipschitz constant and the gradient diameter of f, the smoothness ``1 / width`` and the
        strong convexity ``mu / (1 + mu width)``, also where f is a mean over records and h is none
        (docs/theory/output_perturbation.md, Lemma E).

        Parameters
        ----------
        value : callable ``w -> float``
            f, without the regulariser.
        prox : callable ``w -> ndarray of shape (dimension,)``
            u*, the proximal point of f for `width`.
        width : float
        dimension : int
        lipschitz : float
            L, bound on the subgradients of f (with ``mean_of_records=True`` of one record's) at
            points of the domain and at most ``lipschitz * width`` away from it.
        strong_convexity : float, default=0.0
            mu, that of f.
        prox_error : float, default=0.0
            Bound on the distance of computed proximal points from exact ones, for every data set,
            beyond 8 units in the last place of the longest w and u*.
        **options
            Other parameters of the class; `gradient_diameter` for the subgradients at all points
            where L holds.
        """
        check_positive(width=width)
        check_non_negative(strong_convexity=strong_convexity, prox_error=prox_error)

        def value_and_gradient(w: np.ndarray) -> tuple[float, np.ndarray]:
            near = _checked("proximal point", prox(w.copy()), (int(dimension),))
            away = w - near
            return float(value(near)) + 0.5 * float(away @ away) / width, away / width

        given: dict[str, Any] = {
            "dimension": dimension,
            "lipschitz": lipschitz,
            "smoothness": 1.0 / width,
            "strong_convexity": strong_convexity / (1.0 + strong_convexity * width),
            **options,
        }
        longest = cls(value_and_gradient, **given).constants.radius + lipschitz * width
        error = (prox_error + 8.0 * EPS * longest) / width + given.pop("gradient_error", 0.0)
        return cls(value_and_gradient, gradient_error=error, **given)

    @classmethod
    def largest(
        cls,
        losses: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
        *,
        n_losses: int,
        bias: float,
        lipschitz: float,
        largest_value: float,
        loss_smoothness: float = 0.0,
        **options: Any,
    ) -> DeclaredProblem:
        """Make the problem of the largest of m smooth convex losses, of records, groups or pairs.

        It is smoothed by ``log(mean exp(t loss)) / t`` with ``t = log(m) / bias``, which lies
        below the largest loss by at most `bias` and has the smoothness ``beta + t L^2``. As for
        every loss that is no mean, the noise does not shrink with the number of records.

        Parameters
        ----------
        losses : callable ``w -> (ndarray of shape (m,), ndarray of shape (m, dimension))``
            The losses and their gradients, without the regulariser.
        n_losses : int
            m >= 2, public.
        bias : float
        lipschitz : float
            L, bound on the gradient of each loss.
        largest_value : float
            Bound on the absolute value of each loss, for the rounding of exponents.
        loss_smoothness : float, default=0.0
            beta, of each loss.
        **options
            Other parameters of the class.
        """
        check_count("n_losses", n_losses, 2)
        check_positive(bias=bias, lipschitz=lipschitz, largest_value=largest_value)
        check_non_negative(loss_smoothness=loss_smoothness)
        m, tilt = int(n_losses), math.log(n_losses) / bias

        def value_and_gradient(w: np.ndarray) -> tuple[float, np.ndarray]:
            values, gradients = losses(w)
            values = _checked("losses", values, (m,))
            most = float(values.max())
            shares = np.exp(tilt * (values - most))
            total = float(shares.sum())
            return most + (math.log(total) - math.log(m)) / tilt, shares @ gradients / total

        rounding = 64.0 * tilt * largest_value + 4.0 * m + 128.0
        return cls(
            value_and_gradient,
            lipschitz=lipschitz,
            smoothness=loss_smoothness + tilt * lipschitz**2,
            gradient_error=EPS * rounding * lipschitz + options.pop("gradient_error", 0.0),
            **options,
        )

    @property
    def smoothness(self) -> float:
        return self.constants.smoothness + self.alpha

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = self._function(w.copy())  # it may write into w
        gradient = _checked("gradient", gradient, (self.dimension,))
        return float(value) + self.penalty(w), gradient + self.penalty_gradient(w)

    def hessian(self, w: np.ndarray) -> np.ndarray:
        if self._hessian is None:
            return super().hessian(w)
        hessian = _checked("Hessian", self._hessian(w.copy()), 2 * (self.dimension,))
        return hessian + self.alpha * np.eye(self.dimension)

    def gradient_rounding(self, w: np.ndarray) -> float:
        # outside of the ball where L holds, gradients grow with the distance to it
        constants, norm = self.constants, euclidean_norm(w)
        beyond = max(0.0, norm - constants.radius)
        largest = constants.lipschitz + constants.smoothness * beyond
        return constants.gradient_rounding_at(norm, largest)

    @without_warnings()
    def _check_function(self, w: np.ndarray, exact: bool) -> None:
        """Raise errors of shape and type, by one evaluation, which do not depend on the records."""
        answer = self._function(w.copy())
        if not (isinstance(answer, tuple) and len(answer) == 2):
            raise ValueError("value_and_gradient must return a pair of a float and an array.")
        gradient = np.asarray(answer[1])
        _checked("gradient", gradient, (self.dimension,))
        if exact and gradient.dtype in (np.float16, np.float32):
            raise ValueError(
                f"the gradient is computed in {gradient.dtype}: use double precision, or declare "
                "its gradient_error."
            )


def _checked(name: str, answer: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Copy the answer of a function, of which it may keep a reference."""
    array = np.array(answer, dtype=np.float64)
    if array.shape != shape:
        raise ValueError(f"the {name} has shape {array.shape}, must be {shape}.")
    return array


def _solution_radius(
    domain: Domain,
    radius: float | None,
    center: np.ndarray,
    lipschitz: float,
    strong_convexity: float,
    mu: float,
) -> float:
    """Return the radius of a ball around 0 that holds the solution; refuse an L that cannot."""
    bound = min(domain.radius, math.inf if radius is None else radius)
    if strong_convexity > 0 and not math.isfinite(bound):
        raise ValueError(
            "A strongly convex loss has no Lipschitz constant on an unbounded domain: bound the "
            "domain, or declare a radius that holds the solution for every data set."
        )
    near = euclidean_norm(domain.project(center))
    if radius is not None and near > radius:
        raise ValueError(f"the center has norm {near:g}, beyond radius == {radius}.")
    whole_ball = isinstance(domain, Ball | WholeSpace)
    if whole_ball and strong_convexity > 0 and lipschitz < strong_convexity * bound * (1.0 - 1e-9):
        raise ValueError(  # the gradients at two opposite points differ by at least 2 mu R
            f"lipschitz == {lipschitz} contradicts strong_convexity == {strong_convexity} on a "
            f"ball of radius {bound:g}: it must be at least {strong_convexity * bound:g}."
        )
    return min(bound, near + lipschitz / mu)


class DeclaredSaddleProblem(SaddleProblem):
    """Any f(x, y) that is convex in x and concave in y, with quadratic regularisers.

    f may depend on the records as it likes, and y may have a part for each of them, such as an
    attack on its row. The guarantee rests on the constants, as of a :class:`DeclaredProblem`.

    Parameters
    ----------
    value : callable ``(x, y) -> float``
        f, without the regularisers; nothing is proven by it.
    gradients : callable ``(x, y) -> (ndarray, ndarray)``
        ``(grad_x f, grad_y f)``, of the shapes of x and y, as of a :class:`DeclaredProblem`.
    domain_x, domain_y : Domain
        :class:`Ball`, :class:`Box` or another subclass of :class:`Domain`.
    constants : SaddleConstants
        Smoothness and coupling may be those of f, since records are not taken in batches. Where f
        is no mean of one function of (x, y) per record, the Lipschitz constants are those of f.
        Errors of the gradients beyond those of plain sums go to ``additional_rounding``.
    **regularisers
        `center_x`, `center_y`, `alpha_x` and `alpha_y` as in :class:`SaddleProblem`.
    """

    has_batches = False

    def __init__(
        self,
        value: Callable[[np.ndarray, np.ndarray], float],
        gradients: Callable[[np.ndarray, np.ndarray], Pair],
        domain_x: Domain,
        domain_y: Domain,
        constants: SaddleConstants,
        **regularisers: Any,
    ) -> None:
        super().__init__(domain_x, domain_y, constants, **regularisers)
        self._value, self._gradients = value, gradients

    def value(self, x: np.ndarray, y: np.ndarray) -> float:
        return float(self._value(x.copy(), y.copy())) + self.regulariser(x, y)

    def data_operator(self, x: np.ndarray, y: np.ndarray) -> Pair:
        gradients = self._gradients(x.copy(), y.copy())  # it may write into them
        gradient_x, gradient_y = map(_checked, ("gradient",) * 2, gradients, (x.shape, y.shape))
        return gradient_x, -gradient_y

    def batch_operator(self, rows: slice | np.ndarray, x: np.ndarray, y: np.ndarray) -> Pair:
        raise NotImplementedError("Records of a declared function cannot be taken in batches.")
