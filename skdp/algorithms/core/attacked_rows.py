"""Sums of clipped gradients of records whose rows an attacker moves in the worst way.

The worst move of a row for a weight vector, or for the difference of two, is a function of the
weights alone, by Danskin's theorem the gradient of the worst loss is that at the moved row, and
clipping is for moved rows: what a record adds to a sum has the same bound as without an attack
(docs/theory/core.md, Lemma 2a).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skdp.algorithms.core.centered_rows import CenteredRecords, ClippedGradients
from skdp.problems import Attack, Loss, SoftmaxLoss
from skdp.problems.block import Block

#: Sum of the residuals at both ends, in units of the bound on targets, from which on one end alone
#: is the worst.
_TIE = 1e-4


@dataclass(frozen=True, kw_only=True)
class Moves:
    """Moves of rows ``(x, 1)``, one for each of some combinations of weights."""

    #: Shape (..., width). They raise the margins of the combinations most; 0 at the constant
    #: feature.
    rows: np.ndarray
    #: Shape (...). How far these margins rise.
    rises: np.ndarray
    #: Shape (...). Norms of the moves, in units of centered rows.
    lengths: np.ndarray

    @classmethod
    def worst(cls, attack: Attack, loss: Loss, weights: np.ndarray, rows: CenteredRecords) -> Moves:
        """Find the moves for weights of ``(x, 1)``, shape (n_outputs, width).

        They are for each sign of a margin, or for each pair of a right and another class.
        """
        if loss.n_outputs > 1:
            classes = np.asarray(loss.class_weights(weights))
            weights = classes[None, :, :] - classes[:, None, :]
        else:
            weights = np.concatenate([-weights, weights])
        d = len(rows.shift)
        features = weights[..., :d].reshape(-1, d)
        moves = np.zeros((len(features), weights.shape[-1]))
        moves[:, :d] = [attack.move(each) for each in features]
        rises = (moves[:, :d] * features).sum(axis=1)
        lengths = np.linalg.norm(moves, axis=1) / rows.unit
        shape = weights.shape[:-1]
        return cls(
            rows=moves.reshape(weights.shape),
            rises=rises.reshape(shape),
            lengths=lengths.reshape(shape),
        )


@dataclass(frozen=True, kw_only=True)
class AttackedGradients(ClippedGradients):
    """Sums of clipped gradients at the worst moves of rows.

    Of a loss of one margin they raise the margin most, or lower it most. For several classes a move
    is for each wrong class the one that raises its score against the right class most: the loss is
    then an upper bound on that of the worst single move, and convex.
    """

    moves: Moves

    @property
    def reach(self) -> float:
        """Length of the longest move, in units of centered rows."""
        return float(self.moves.lengths.max())

    @property
    def steepness(self) -> float:
        """How fast a gradient turns from one end to the other, per unit of a residual."""
        width = _TIE * self.loss.target_bound
        return 2.0 * self.clip_norm / width if width else 0.0

    def __call__(self, block: Block, norms: np.ndarray) -> np.ndarray:
        if self.loss.n_outputs > 1:
            margins = block.margins(self.weights) + self.offset
            return self._of_classes(margins, block, norms)
        parts = self.ends(block, norms)
        return block.pull_back(parts.sum(axis=1)) + block.sum(parts) @ self.moves.rows

    def ends(self, block: Block, norms: np.ndarray) -> np.ndarray:
        """Return the clipped residuals at the lowest and the highest margins, shape (m, 2).

        One of both is the worst: of two classes that against the label, of squares the one of the
        larger residual. Records whose residuals there are almost opposite have a share of each, so
        that nothing jumps by the last bits of a margin.
        """
        loss, targets = self.loss, block.targets
        margins = block.margins(self.weights) + self.offset
        low, high = margins - self.moves.rises[0], margins + self.moves.rises[1]
        residuals = np.stack([loss.derivative(low, targets), loss.derivative(high, targets)], 1)
        raised = 1.0 - targets
        if loss.target_bound:
            width = 2.0 * _TIE * loss.target_bound
            raised = np.clip(0.5 + residuals.sum(axis=1) / width, 0.0, 1.0)
        limits = self.clip_norm / (norms[:, None] + self.moves.lengths)
        return np.clip(residuals, -limits, limits) * np.stack([1.0 - raised, raised], 1)

    def _of_classes(self, margins: np.ndarray, block: Block, norms: np.ndarray) -> np.ndarray:
        moves, loss = self.moves, self.loss
        assert isinstance(loss, SoftmaxLoss)
        k, targets = loss.n_classes, block.targets
        scores = loss.logits(margins) + moves.rises[targets]
        chances = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        chances[np.arange(len(targets)), targets] -= 1.0
        lengths = norms + moves.lengths.max(axis=1)[targets]
        lengths *= np.sqrt((chances**2).sum(axis=1))
        chances *= np.minimum(1.0, self.clip_norm / np.maximum(lengths, 1e-300))[:, None]
        total = block.pull_back(chances @ loss.basis)
        # the records of a right class move by the same rows
        shares = np.zeros((k, k))
        for code in range(k):
            shares[code] = block.sum(chances * (targets == code)[:, None])
        np.fill_diagonal(shares, 0.0)
        pulls = shares[:, :, None] * moves.rows
        of_classes = pulls.sum(axis=0) - pulls.sum(axis=1)
        return np.asarray(total + loss.basis.T @ of_classes)
