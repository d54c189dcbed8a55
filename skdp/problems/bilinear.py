"""Bilinear saddle problems, and norms of linear functions in their minimax form.

Zhang et al. (2022), section 4.2: a function that is not smooth, such as ``||A w - b||_1`` with A
and b means over the records, is the largest of ``<y, A w - b>`` over y in a box, which is smooth in
w and in y. The largest value of *each* record has a y of its own and is not of this form.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np

from skdp._checks import check_non_negative, check_option
from skdp._runtime import without_warnings
from skdp.problems.domains import Ball, Box, Domain
from skdp.problems.matrices import read_only_view
from skdp.problems.saddle import BlockConstants, Pair, SaddleConstants, SaddleProblem


class BilinearProblem(SaddleProblem):
    """``f(x, y; i) = <x, A_i y> + <b_i, x> - <c_i, y>``, with quadratic regularisers.

    Each record is scaled to the bounds of its parts, one by one; a record with an entry that is
    not finite becomes 0. Without constraints the saddle point is that of a linear system.

    Parameters
    ----------
    matrices : ndarray of shape (n_records, dimension_x, dimension_y)
        A_i.
    offsets_x : ndarray of shape (n_records, dimension_x)
        b_i.
    offsets_y : ndarray of shape (n_records, dimension_y)
        c_i.
    bounds : tuple of three floats
        On the Frobenius norm of A_i and the norms of b_i and c_i.
    domain_x, domain_y : Domain
        Bounded, unless the first of the bounds is 0.
    mu_x, mu_y : float
        Moduli of the regularisers.
    center_x, center_y : ndarray, optional
    """

    offers = frozenset({"hessian", "records"})

    def __init__(
        self,
        matrices: np.ndarray,
        offsets_x: np.ndarray,
        offsets_y: np.ndarray,
        bounds: tuple[float, float, float],
        domain_x: Domain,
        domain_y: Domain,
        mu_x: float,
        mu_y: float,
        center_x: np.ndarray | None = None,
        center_y: np.ndarray | None = None,
    ) -> None:
        arrays = matrices, offsets_x, offsets_y
        parts = [np.array(part, dtype=np.float64, order="C") for part in arrays]
        if parts[0].ndim != 3:
            raise ValueError(f"matrices has shape {parts[0].shape}, must have three axes.")
        n, dx, dy = parts[0].shape
        if parts[1].shape != (n, dx) or parts[2].shape != (n, dy):
            raise ValueError(
                f"offsets have shapes {parts[1].shape} and {parts[2].shape}, must be {(n, dx)} and "
                f"{(n, dy)}."
            )
        finite = np.all([np.isfinite(part.reshape(n, -1)).all(axis=1) for part in parts], axis=0)
        for part, bound in zip(parts, bounds, strict=True):
            part[~finite] = 0.0
            part[...] = _scaled_to(part.reshape(n, -1), float(bound)).reshape(part.shape)
        self._hold(parts)
        largest, bound_x, bound_y = (float(bound) for bound in bounds)
        radii = domain_x.radius, domain_y.radius
        lipschitz_x = bound_x + (largest * radii[1] if largest > 0 else 0.0)
        lipschitz_y = bound_y + (largest * radii[0] if largest > 0 else 0.0)
        if not (math.isfinite(lipschitz_x) and math.isfinite(lipschitz_y)):
            raise ValueError("Bilinear functions have Lipschitz constants on bounded domains only.")
        constants = SaddleConstants(
            n_records=n,
            x=BlockConstants.on(domain_x, dx, center_x, modulus=mu_x, lipschitz=lipschitz_x),
            y=BlockConstants.on(domain_y, dy, center_y, modulus=mu_y, lipschitz=lipschitz_y),
            coupling=largest,
        )
        super().__init__(domain_x, domain_y, constants, center_x, center_y)

    @classmethod
    def of_norm(
        cls,
        matrices: np.ndarray,
        offsets: np.ndarray,
        bounds: tuple[float, float],
        radius: float,
        norm: Literal["l1", "l2"] = "l1",
    ) -> BilinearProblem:
        """``min over ||w|| <= radius of ||mean A_i w - mean b_i||``, with y of the dual unit ball.

        Parameters
        ----------
        matrices : ndarray of shape (n_records, n_equations, dimension)
            A_i.
        offsets : ndarray of shape (n_records, n_equations)
            b_i.
        bounds : tuple of two floats
            On the Frobenius norm of A_i and the norm of b_i.
        radius : float
        norm : {"l1", "l2"}, default="l1"

        Examples
        --------
        Two moments of 20,000 records: the mean of ``z (z' w - t)`` is 0 at w = (0.5, -0.25).

        >>> import numpy as np
        >>> from skdp.algorithms import Run, phased_saddle_output_perturbation
        >>> from skdp.mechanisms import NoiseSource
        >>> from skdp.privacy import PrivacyBudget
        >>> from skdp.problems import BilinearProblem
        >>> rng = np.random.default_rng(0)
        >>> z = rng.choice([-1.0, 1.0], size=(20_000, 2)) / np.sqrt(2.0)
        >>> t = z @ [0.5, -0.25]
        >>> problem = BilinearProblem.of_norm(
        ...     z[:, :, None] * z[:, None, :], z * t[:, None], (1.0, 0.6), radius=1.0
        ... )
        >>> run = Run(noise=NoiseSource(rng.bytes))
        >>> result = phased_saddle_output_perturbation(problem, PrivacyBudget(1.0, 1e-6), run=run)
        >>> bool(np.abs(result.point - [0.5, -0.25]).max() < 0.1)
        True
        """
        check_option("norm", norm, ("l1", "l2"))
        A, b = np.asarray(matrices, dtype=np.float64), np.asarray(offsets, dtype=np.float64)
        if A.ndim != 3:
            raise ValueError(f"matrices has shape {A.shape}, must have three axes.")
        ones = np.ones(A.shape[1])
        dual: Any = Box(-ones, ones) if norm == "l1" else Ball(1.0)
        parts = A.transpose(0, 2, 1), np.zeros((len(A), A.shape[2])), b
        # phases have regularisers of their own
        return cls(*parts, (bounds[0], 0.0, bounds[1]), Ball(radius), dual, 1.0, 1.0)

    def _hold(self, parts: Iterable[np.ndarray]) -> None:
        """Keep the parts of the records, and their means: as a whole they enter by these."""
        parts = list(map(read_only_view, parts))
        self.matrices, self.offsets_x, self.offsets_y = parts
        means = (read_only_view(part.mean(axis=0)) for part in parts)
        self.mean_matrix, self.mean_x, self.mean_y = means

    def _keep(self, positions: np.ndarray) -> None:
        self._hold(part[positions] for part in (self.matrices, self.offsets_x, self.offsets_y))

    def hessian_x(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.zeros((x.size, x.size))

    def cross_derivative(self, x: np.ndarray) -> np.ndarray:
        return self.mean_matrix.T

    def value(self, x: np.ndarray, y: np.ndarray) -> float:
        data = x @ self.mean_matrix @ y + self.mean_x @ x - self.mean_y @ y
        return float(data) + self.regulariser(x, y)

    def data_operator(self, x: np.ndarray, y: np.ndarray) -> Pair:
        return self.mean_matrix @ y + self.mean_x, self.mean_y - x @ self.mean_matrix

    def batch_operator(self, positions: slice | np.ndarray, x: np.ndarray, y: np.ndarray) -> Pair:
        matrices = self.matrices[positions]
        data_x = (matrices @ y + self.offsets_x[positions]).mean(axis=0)
        return data_x, (self.offsets_y[positions] - x @ matrices).mean(axis=0)


@without_warnings()
def _scaled_to(vectors: np.ndarray, bound: float) -> np.ndarray:
    """Scale each row down to at most `bound`; rows of moderate length stay as they are."""
    check_non_negative(bound=bound)
    largest = np.abs(vectors).max(axis=1, initial=0.0)
    safe = np.where(largest > 0, largest, 1.0)
    long = safe * np.linalg.norm(vectors / safe[:, None], axis=1) > bound
    rows = vectors[long] / safe[long, None]
    rows *= (bound / np.linalg.norm(rows, axis=1))[:, None]
    out = vectors.copy()
    out[long] = rows
    return out
