"""How far to go from the plain model to the weighted one: losses of the groups along the way.

Along a line of models each group's mean loss is a convex curve, of squares a parabola. A record adds its losses at
both ends and half-way, clipped; the step minimises the largest of the curves, each raised by what
is not known of it. Lemma 6 of docs/theory/worst_group.md.
"""

from __future__ import annotations

import numpy as np

from skdp.algorithms.centering import CenteredRows
from skdp.algorithms.clipped_losses import ClippedLosses
from skdp.problems import Loss
from skdp.problems.records import Block
from skdp.problems.rounding import EPS

#: Numbers that a record adds.
N_ENTRIES = 3
#: Prior spreads of losses, of their change and of their curvature, between groups.
_SPREADS = np.array([0.2, 0.15, 0.15])
#: Standard deviations by which a curve is raised.
_PESSIMISM = 0.7
#: Variance of a record's entries, for the sampling error of a group's.
_SAMPLING = np.array([0.3, 0.1, 0.1])
#: Steps that are compared.
_STEPS = np.linspace(0.0, 1.25, 51)


class MixFit:
    """Losses of the groups on the line between two released models.

    Parameters
    ----------
    loss : Loss
    clipped : ClippedLosses
    rows : CenteredRows
    ends : tuple of two ndarrays of shape (n_outputs, width)
    offsets : ndarray of shape (n_outputs,)
    """

    def __init__(
        self,
        loss: Loss,
        clipped: ClippedLosses,
        rows: CenteredRows,
        ends: tuple[np.ndarray, np.ndarray],
        offsets: np.ndarray,
    ) -> None:
        first, last = ends
        self.loss, self.clipped, self.shift = loss, clipped, offsets.squeeze()
        self.raw = [rows.weights(w) for w in (first, 0.5 * (first + last), last)]

    def terms(self, block: Block) -> list[np.ndarray]:
        """Return terms of norm 1 at most: the first loss, its change, and the curvature."""
        first, middle, last = (
            self.clipped.terms(
                self.loss.value(block.margins(raw) + self.shift, block.targets)
            )
            for raw in self.raw
        )
        vectors = np.stack([first, last - first, first + last - 2.0 * middle])
        lengths = np.sqrt(np.einsum("ij,ij->j", vectors, vectors))
        return list(vectors / np.maximum(lengths, 1.0))

    def rounding(self, of_margin: float) -> float:
        """Bound what a term moves by in its last bits, by Lemma 6."""
        return 5.0 * self.clipped.moved(of_margin) + 16.0 * EPS

    def step(self, sums: np.ndarray, scale: float, sizes: np.ndarray) -> float:
        """Return the step from the first to the last model by noisy sums of the terms.

        Parameters
        ----------
        sums : ndarray of shape (n_groups, 3)
        scale : float
            Standard deviation of their noise.
        sizes : ndarray of shape (n_groups,)
        """
        factor, p = self.clipped.factor, sizes / sizes.sum()
        means = factor * sums / sizes[:, None]
        variances = (factor * scale / sizes[:, None]) ** 2 + _SAMPLING / sizes[:, None]
        centre = p @ means
        gains = _SPREADS**2 / (_SPREADS**2 + variances)
        means = centre + gains * (means - centre)
        errors = _SPREADS * np.sqrt(1.0 - gains)
        # of a parabola through the three points: change and second difference
        s = _STEPS[:, None]
        curve = -2.0 * s * (1.0 - s)
        losses = means[:, 0] + s * means[:, 1] + curve * np.maximum(means[:, 2], 0.0)
        doubt = errors[:, 0] + s * errors[:, 1]
        return float(_STEPS[int(np.argmin((losses + _PESSIMISM * doubt).max(axis=1)))])
