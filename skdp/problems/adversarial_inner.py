"""Losses under attack: the largest loss over perturbations, by a concave inner problem."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from skdp._checks import check_count, check_non_negative, check_positive
from skdp.problems.constants import ProblemConstants
from skdp.problems.domains import Ball
from skdp.problems.records import read_only_view
from skdp.problems.rounding import EPS

__all__ = ["ConcaveInnerProblem"]


@dataclass(frozen=True, eq=False)
class ConcaveInnerProblem:
    """``min over ||w|| <= radius of G(w)`` with ``G(w) = max over v in S of H(w, v)``.

    H depends on the records; it is convex in w and *concave in v*, and S is convex and compact
    (Lowy and Razaviyayn 2021, section 5.2). v is one array for all records, such as one
    perturbation per row. Every declared number must hold for every data set of `n_records`
    records and all feasible w and v.

    Parameters
    ----------
    value : callable ``(w, v) -> float``
        H, for solvers that want it; nothing is proven by it.
    gradient_w : callable ``(w, v) -> ndarray of shape (dimension,)``
    gradient_v : callable ``(w, v) -> ndarray of the shape of v``
    project_v : callable ``v -> v``
        Euclidean projection onto S.
    linear_max_v : callable ``g -> float``
        ``max over v in S of sum(g * v)``: for a ball ``radius ||g||``, for a box
        ``sum(max(g * lower, g * upper))``, for a product the sum over its factors.
    start_v : ndarray
        A point of S.
    dimension : int
        Length of w.
    radius : float
        R, of the ball of w around 0.
    n_records : int
        The public number of records.
    mean_of_records : bool
        Whether ``H = (1/n) sum_i h_i(w, v_i) + penalty(w)`` with h_i a function of record i, S the
        product of the sets of the v_i, and the penalty the same for all data sets. Only then does
        the sensitivity shrink with n.
    lipschitz : float
        L, bound on the gradient in w of the part of H that depends on the records
        (with ``mean_of_records=True``: of h_i).
    strong_convexity : float
        mu of ``H(., v)``, penalty included. The penalty is taken to be minimal in the ball.
    smoothness_w, smoothness_v, coupling : float
        Lipschitz constants of ``gradient_w`` in w, of ``gradient_v`` in v, and of either in the
        other variable, for the default solver.
    lipschitz_v : float
        Bound on the norm of ``gradient_v``.
    radius_v : float
        Largest norm of a point of S; for a product the root of the sum of squares.
    strong_concavity : float, default=0.0
        Modulus of ``-H(w, .)``. If it is > 0 the default solver is proven to succeed.
    gradient_diameter : float, optional
        Bound on the difference of subgradients, at one w, of ``max over v`` of two neighbouring
        data sets (with ``mean_of_records=True``: of ``max h_i`` of two records). Default:
        ``2 lipschitz``.
    gradient_error : float, default=0.0
        Bound on the error of a computed gradient beyond that of plain double precision.

    Notes
    -----
    A maximum keeps Lipschitz constants and strong convexity, but not smoothness (Lemma 5.4,
    erratum E19): with S = [-1, 1], ``H = v w + w^2 / 2`` gives ``|w| + w^2 / 2``.
    """

    value: Callable[[np.ndarray, np.ndarray], float]
    gradient_w: Callable[[np.ndarray, np.ndarray], np.ndarray]
    gradient_v: Callable[[np.ndarray, np.ndarray], np.ndarray]
    project_v: Callable[[np.ndarray], np.ndarray]
    linear_max_v: Callable[[np.ndarray], float]
    start_v: np.ndarray
    dimension: int
    radius: float
    n_records: int
    mean_of_records: bool
    lipschitz: float
    strong_convexity: float
    smoothness_w: float
    smoothness_v: float
    coupling: float
    lipschitz_v: float
    radius_v: float
    strong_concavity: float = 0.0
    gradient_diameter: float | None = None
    gradient_error: float = 0.0

    def __post_init__(self) -> None:
        for name in ("dimension", "n_records"):
            check_count(name, getattr(self, name))
        positive = ("radius", "lipschitz", "strong_convexity", "smoothness_w")
        check_positive(**{name: getattr(self, name) for name in positive})
        not_negative = ("smoothness_v", "coupling", "lipschitz_v", "radius_v", "strong_concavity")
        names = (*not_negative, "gradient_error")
        check_non_negative(**{name: getattr(self, name) for name in names})
        if self.strong_convexity > self.smoothness_w:
            raise ValueError(
                f"strong_convexity == {self.strong_convexity} exceeds smoothness_w == "
                f"{self.smoothness_w}."
            )
        if self.strong_concavity > self.smoothness_v:
            raise ValueError(
                f"strong_concavity == {self.strong_concavity} exceeds smoothness_v == "
                f"{self.smoothness_v}."
            )
        diameter = self.gradient_diameter
        if diameter is not None and not 0 < diameter <= 2.0 * self.lipschitz:
            raise ValueError(
                f"gradient_diameter == {diameter}, must be > 0 and at most twice lipschitz == "
                f"{self.lipschitz}."
            )
        start = np.array(self.start_v, dtype=np.float64)
        if start.size == 0 or not np.isfinite(start).all():
            raise ValueError("start_v must be a finite array with at least one entry.")
        object.__setattr__(self, "start_v", read_only_view(start))

    @property
    def domain(self) -> Ball:
        """Where w is."""
        return Ball(self.radius)

    @property
    def constants(self) -> ProblemConstants:
        """Public constants of G.

        G is smooth if H is strongly concave in v: the maximiser is then a ``coupling /
        strong_concavity``-Lipschitz function of w.
        """
        smoothness = math.inf
        if self.strong_concavity > 0:
            smoothness = self.smoothness_w + self.coupling**2 / self.strong_concavity
        diameter = self.gradient_diameter
        return ProblemConstants(
            n_records=int(self.n_records),
            dimension=int(self.dimension),
            strong_convexity=float(self.strong_convexity),
            lipschitz=float(self.lipschitz),
            gradient_diameter=2.0 * self.lipschitz if diameter is None else float(diameter),
            smoothness=smoothness,
            radius=float(self.radius),
            row_width=int(self.dimension),
            block_size=int(self.n_records),
            record_weight=1.0 / int(self.n_records) if self.mean_of_records else 1.0,
            additional_rounding=float(self.gradient_error),
        )

    def gradients(self, w: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Both gradients, in double precision and of the right shapes."""
        slope_w = np.array(self.gradient_w(w.copy(), v.copy()), dtype=np.float64)
        slope_v = np.array(self.gradient_v(w.copy(), v.copy()), dtype=np.float64)
        for name, slope, shape in (
            ("gradient_w", slope_w, (self.dimension,)),
            ("gradient_v", slope_v, self.start_v.shape),
        ):
            if slope.shape != shape:
                raise ValueError(f"{name} has shape {slope.shape}, must be {shape}.")
        return slope_w, slope_v

    def project(self, w: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The nearest feasible pair."""
        near = np.array(self.project_v(v.copy()), dtype=np.float64)
        if near.shape != self.start_v.shape:
            raise ValueError(f"project_v gave shape {near.shape}, must be {self.start_v.shape}.")
        return self.domain.project(w), near

    @property
    def rounding_w(self) -> float:
        """Bound on the Euclidean error of a computed ``gradient_w``: a chain over the records."""
        chain = (self.n_records + self.dimension + 32.0) * EPS
        return chain * (self.lipschitz + 2.0 * self.smoothness_w * self.radius) + (
            self.gradient_error
        )

    @property
    def rounding_gain(self) -> float:
        """Bound on what rounding does to ``max over v' in S of <grad_v H, v' - v>``.

        The gradient is taken to be computed record by record, sums over v to be pairwise, as
        those of numpy are. A `v` that is in S up to rounding is allowed for.
        """
        unit = (self.dimension + 64.0 + math.log2(self.start_v.size)) * EPS
        slope = self.lipschitz_v + self.coupling * self.radius + self.smoothness_v * self.radius_v
        return self.radius_v * (6.0 * unit * slope + 2.0 * self.gradient_error)

    def with_concavity(
        self, strength: float, gradient_diameter: float | None = None
    ) -> ConcaveInnerProblem:
        """The problem of ``H(w, v) - (strength / 2) ||v - start_v||^2``, strongly concave in v.

        It is a private objective of its own right with the same sensitivity, below G by at most
        ``2 strength radius_v^2``, for which the default solver is proven to succeed.

        Parameters
        ----------
        strength : float
            > 0; a public number. For a mean of records its natural size is that of one record,
            over n.
        gradient_diameter : float, optional
            Must be declared anew, since other v are maximal; default ``2 lipschitz``.
        """
        check_positive(strength=strength)
        center = self.start_v

        def value(w: np.ndarray, v: np.ndarray) -> float:
            return self.value(w, v) - 0.5 * strength * float(np.square(v - center).sum())

        def gradient_v(w: np.ndarray, v: np.ndarray) -> np.ndarray:
            return self.gradient_v(w, v) - strength * (v - center)

        return replace(
            self,
            value=value,
            gradient_v=gradient_v,
            strong_concavity=self.strong_concavity + strength,
            smoothness_v=self.smoothness_v + strength,
            lipschitz_v=self.lipschitz_v + 2.0 * strength * self.radius_v,
            gradient_diameter=gradient_diameter,
        )
