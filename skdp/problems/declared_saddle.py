"""Saddle functions of a whole data set that the user evaluates, with declared constants."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skdp.problems.domains import Domain
from skdp.problems.saddle import SaddleConstants, SaddleProblem

__all__ = ["DeclaredSaddleProblem"]


class DeclaredSaddleProblem(SaddleProblem):
    """Any f(x, y) that is convex in x and concave in y, with quadratic regularisers.

    f may depend on the records as it likes, and y may have a part for each of them, such as an
    attack on its row. The guarantee rests on the constants; each of them must hold for *every* data
    set of `n_records` records, and none may be measured on records.

    Parameters
    ----------
    value : callable ``(x, y) -> float``
        f, without the regularisers, for solvers that want it; nothing is proven by it.
    gradients : callable ``(x, y) -> (ndarray, ndarray)``
        ``(grad_x f, grad_y f)``, of the shapes of x and y. A deterministic function in double
        precision, finite everywhere and for every data set.
    domain_x, domain_y : Domain
        :class:`Ball`, :class:`Box` or another subclass of :class:`Domain`.
    constants : SaddleConstants
        Smoothness and coupling may be those of f, since records are not taken in batches. Where f
        is no mean of one function of (x, y) per record, the Lipschitz constants are those of f.
        Errors of the gradients beyond those of plain sums go to ``additional_rounding``.
    center_x, center_y, alpha_x, alpha_y
        As in :class:`SaddleProblem`.
    """

    has_batches = False
    is_mean = False  # not known to be

    def __init__(
        self,
        value: Callable[[np.ndarray, np.ndarray], float],
        gradients: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]],
        domain_x: Domain,
        domain_y: Domain,
        constants: SaddleConstants,
        center_x: np.ndarray | None = None,
        center_y: np.ndarray | None = None,
        alpha_x: float | None = None,
        alpha_y: float | None = None,
    ) -> None:
        super().__init__(domain_x, domain_y, constants, center_x, center_y, alpha_x, alpha_y)
        self._value, self._gradients = value, gradients

    def value(self, x: np.ndarray, y: np.ndarray) -> float:
        return float(self._value(x.copy(), y.copy())) + self.regulariser(x, y)

    def data_operator(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        # the functions may write into their arguments
        gradients = self._gradients(x.copy(), y.copy())
        gradient_x, gradient_y = (np.array(part, dtype=np.float64) for part in gradients)
        if gradient_x.shape != x.shape or gradient_y.shape != y.shape:
            raise ValueError(
                f"the gradients have shapes {gradient_x.shape} and {gradient_y.shape}, must be "
                f"{x.shape} and {y.shape}."
            )
        return gradient_x, -gradient_y

    def batch_operator(
        self, rows: slice | np.ndarray, x: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError("Records of a declared function cannot be taken in batches.")
