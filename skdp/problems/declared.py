"""Losses of a whole data set that the user evaluates, with constants that the user declares."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from skdp._checks import check_count, check_non_negative, check_positive
from skdp.problems.constants import ProblemConstants
from skdp.problems.domains import Ball, Domain, WholeSpace, euclidean_norm
from skdp.problems.problem import Problem
from skdp.problems.records import read_only_view
from skdp.problems.rounding import EPS
from skdp.problems.silence import without_warnings

__all__ = ["DeclaredProblem"]


class DeclaredProblem(Problem):
    """``min over w in domain of f(w) + (alpha/2) ||w - center||^2`` for any convex loss f.

    f may depend on the records as it likes: a largest loss, a loss of pairs, a mean. The guarantee
    rests on the declared constants; each of them must hold for *every* data set of `n_records`
    records, not only for the one at hand, and none may be measured on records.

    Parameters
    ----------
    value_and_gradient : callable
        ``w -> (float, ndarray of shape (dimension,))``: f and its gradient, without the
        regulariser. A deterministic function in double precision, finite everywhere and for
        every data set.
    dimension : int
        Length of w.
    lipschitz : float
        L, bound on ``||grad f(w)||`` over the points of the domain of norm at most `radius`, if
        one is given. With ``mean_of_records=True`` on the gradient of one record's loss.
    smoothness : float
        beta, Lipschitz constant of the gradient of f on the whole space (accelerated methods
        leave the domain).
    strong_convexity : float, default=0.0
        Modulus of f itself, on the domain. A penalty that is the same for all data sets counts
        here if f contains it.
    alpha : float, default=0.0
        Of the regulariser; ``strong_convexity + alpha`` must be > 0.
    domain : Domain, optional
        Default: ``Ball(radius)``, or the whole space if no radius is given.
    radius : float, optional
        R, a bound on the norm of the solution for every data set. Needed in an unbounded domain
        if f is strongly convex, because L cannot hold on all of it then.
    n_records : int, default=1
        The public number of records.
    mean_of_records : bool, default=False
        Whether f is ``(1/n) sum_i f_i(w)`` with f_i a function of w and of record i alone. Only
        then does the sensitivity shrink with n.
    gradient_diameter : float, optional
        D, bound on the difference of the gradients at one w of the losses of two neighbouring
        data sets (with ``mean_of_records=True``: of two records). Default: ``2 lipschitz``.
    hessian : callable, optional
        ``w -> ndarray of shape (dimension, dimension)``, that of f.
    center : ndarray of shape (dimension,), optional
        Center of the regulariser; default 0. Must not depend on the records.
    gradient_error : float, default=0.0
        Bound on the error of a computed gradient beyond that of a plain sum over the records.

    Notes
    -----
    *Sensitivity.* With ``mu = strong_convexity + alpha`` and minimisers w and w' of neighbours F
    and F' over the domain, ``mu ||w - w'||^2 <= <grad F'(w) - grad F(w), w - w'>``: strong
    convexity of F' between w' and w and the optimality of both (Lowy and Razaviyayn 2021, Prop.
    2.2 with errata E25 and E26; docs/theory/output_perturbation.md, Lemma 1). The regulariser
    cancels in the difference, so ``||w - w'|| <= D / mu``, or ``D / (mu n)`` for a mean. The bounds
    are used at minimisers only, hence the restriction to norms of at most R.

    *Localisation.* With c the center, projected onto the domain, ``||w - c|| <= L / mu``: strong
    convexity between w and c, optimality of w, and ``<c - center, c - w> <= 0``. It bounds the
    norm of the solution wherever L holds at c.

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
        for name, count in (("dimension", dimension), ("n_records", n_records)):
            check_count(name, count)
        check_positive(lipschitz=lipschitz, smoothness=smoothness)
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
        if gradient_diameter is None:
            gradient_diameter = 2.0 * lipschitz
        check_positive(gradient_diameter=gradient_diameter)
        if gradient_diameter > 2.0 * lipschitz:
            raise ValueError(
                f"gradient_diameter == {gradient_diameter} exceeds twice lipschitz == {lipschitz}."
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
            gradient_diameter=float(gradient_diameter),
            smoothness=float(smoothness),
            radius=_solution_radius(domain, radius, start, lipschitz, strong_convexity, mu),
            row_width=self.dimension,
            block_size=int(n_records),
            in_ball=math.isfinite(domain.radius),
            domain_radius=domain.radius,
            record_weight=1.0 / int(n_records) if mean_of_records else 1.0,
            # the formula is for a regulariser around 0
            additional_rounding=gradient_error + 4.0 * EPS * alpha * euclidean_norm(start),
        )
        self._check_function(domain.project(start), exact=gradient_error == 0.0)

    @property
    def smoothness(self) -> float:
        return self.constants.smoothness + self.alpha

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = self._function(w.copy())  # it may write into w
        gradient = self._vector(gradient)
        offset = self._offset(w)
        return (
            float(value) + 0.5 * self.alpha * float(offset @ offset),
            gradient + self.alpha * offset,
        )

    def hessian(self, w: np.ndarray) -> np.ndarray:
        if self._hessian is None:
            return super().hessian(w)
        hessian = np.array(self._hessian(w.copy()), dtype=np.float64)
        if hessian.shape != 2 * (self.dimension,):
            raise ValueError(
                f"the Hessian has shape {hessian.shape}, must be {2 * (self.dimension,)}."
            )
        hessian.flat[:: self.dimension + 1] += self.alpha
        return hessian

    def gradient_rounding(self, w: np.ndarray) -> float:
        # outside of the ball where L holds, gradients grow with the distance to it
        constants, norm = self.constants, euclidean_norm(w)
        beyond = max(0.0, norm - constants.radius)
        largest = constants.lipschitz + constants.smoothness * beyond
        return constants.gradient_rounding_at(norm, largest)

    def _vector(self, gradient: np.ndarray) -> np.ndarray:
        gradient = np.asarray(gradient, dtype=np.float64)
        if gradient.shape != (self.dimension,):
            raise ValueError(
                f"the gradient has shape {gradient.shape}, must be ({self.dimension},)."
            )
        return gradient

    @without_warnings()
    def _check_function(self, w: np.ndarray, exact: bool) -> None:
        """Errors of shape and type, by one evaluation; they do not depend on the records."""
        answer = self._function(w.copy())
        if not (isinstance(answer, tuple) and len(answer) == 2):
            raise ValueError("value_and_gradient must return a pair of a float and an array.")
        gradient = np.asarray(answer[1])
        self._vector(gradient)
        if exact and gradient.dtype in (np.float16, np.float32):
            raise ValueError(
                f"the gradient is computed in {gradient.dtype}: use double precision, or declare "
                "its gradient_error."
            )


def _solution_radius(
    domain: Domain,
    radius: float | None,
    center: np.ndarray,
    lipschitz: float,
    strong_convexity: float,
    mu: float,
) -> float:
    """Radius of a ball around 0 that holds the solution; errors if L cannot hold on it."""
    bound = domain.radius if radius is None else min(domain.radius, radius)
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
