"""The interface of minimisation problems to solvers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TypeVar

import numpy as np

from skdp.problems.constants import ProblemConstants
from skdp.problems.domains import Domain, euclidean_norm
from skdp.problems.matrices import solver_copy

_Problem = TypeVar("_Problem", bound="Problem")


class Problem(ABC):
    """``min over w in domain of f(w) + (alpha/2) ||w - center||^2``, strongly convex.

    A subclass evaluates f on the records, and states constants that hold for every data set.

    Attributes
    ----------
    constants : ProblemConstants
    domain : Domain
    dimension : int
        Length of w.
    alpha : float
        Of the regulariser.
    center : ndarray of shape (dimension,) or None
        Center of the regulariser; None is 0.
    offers : frozenset of str
        "hessian", and "records" if f is a mean over records that can be taken in batches.
    has_nominal_size : bool
        Whether f is a sum divided by a public nominal number, as add/remove needs it.
    """

    constants: ProblemConstants
    domain: Domain
    dimension: int
    alpha: float
    center: np.ndarray | None = None
    offers: frozenset[str] = frozenset()
    has_nominal_size: bool = False
    of_persons: bool = False

    @abstractmethod
    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the objective and gradient at `w` in one pass over the records."""

    def value(self, w: np.ndarray) -> float:
        """Return the objective at `w`."""
        return self.value_and_gradient(w)[0]

    def gradient(self, w: np.ndarray) -> np.ndarray:
        """Return the gradient at `w`, shape (dimension,)."""
        return self.value_and_gradient(w)[1]

    def hessian(self, w: np.ndarray) -> np.ndarray:
        """Return the Hessian at `w`, shape (dimension, dimension), if offered."""
        raise NotImplementedError(f"{type(self).__name__} has no Hessian.")

    def with_moments(self: _Problem) -> _Problem:
        """Return the problem, with the sums from which all its Hessians follow if there are any."""
        return self

    def hessian_vector(self, w: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the product of the Hessian at `w` with `v`."""
        return self.hessian(w) @ v

    @property
    def n_records(self) -> int:
        """The actual number of records."""
        return self.constants.n_records

    @property
    def n_outputs(self) -> int:
        """Number of coefficients per column of the rows."""
        return 1

    @property
    def is_quadratic(self) -> bool:
        """Whether the Hessian is the same everywhere."""
        return False

    @property
    def is_smooth(self) -> bool:
        """Whether the objective has a Lipschitz gradient."""
        return math.isfinite(self.constants.smoothness)

    @property
    def strong_convexity(self) -> float:
        """Modulus mu of the objective."""
        return self.constants.strong_convexity

    @property
    def smoothness(self) -> float:
        """Lipschitz constant of :meth:`gradient`."""
        return self.constants.total_smoothness

    @property
    def lipschitz(self) -> float:
        """Bound on the gradient of f over the domain."""
        return self.constants.lipschitz

    def gradient_rounding(self, w: np.ndarray) -> float:
        """Bound the Euclidean error of ``gradient(w)`` in double precision."""
        norm = euclidean_norm(w)
        if self.center is not None:
            norm += euclidean_norm(self.center)
        return self.constants.gradient_rounding_at(norm, self._lipschitz_at(norm))

    def _lipschitz_at(self, norm: float) -> float:
        """Bound the gradient of f at points of a norm."""
        return self.constants.lipschitz

    def penalty(self, w: np.ndarray) -> float:
        """Return the value of the regulariser."""
        offset = self._offset(w)
        return 0.5 * self.alpha * float(offset @ offset)

    def penalty_gradient(self, w: np.ndarray) -> np.ndarray:
        """Return the gradient of the regulariser."""
        return self.alpha * self._offset(w)

    def prox(self, point: np.ndarray, step: float) -> np.ndarray:
        """``argmin over w in domain of (alpha/2) ||w - center||^2 + ||w - point||^2 / (2 step)``.

        Exact, because the sum of both quadratics is isotropic.
        """
        shrunk = point if self.center is None else point + (step * self.alpha) * self.center
        return self.domain.project(shrunk / (1.0 + step * self.alpha))

    def start(self) -> np.ndarray:
        """Return the projected center of the regulariser."""
        return self.domain.project(
            np.zeros(self.dimension) if self.center is None else self.center.copy()
        )

    def for_solver(self: _Problem) -> _Problem:
        """Copy the problem with constants, domain and loss, so that a solver cannot change them.

        The records are shared, and arrays are views that cannot be made writable.
        """
        return solver_copy(self)

    def _offset(self, w: np.ndarray) -> np.ndarray:
        return w if self.center is None else w - self.center
