"""Sums of the gradients of records, each clipped to a norm."""

from __future__ import annotations

import numpy as np

from skdp.algorithms.centering import CenteredRows
from skdp.problems import Loss
from skdp.problems.records import Block


def clipped_sum(
    rows: CenteredRows,
    loss: Loss,
    weights: np.ndarray,
    offsets: np.ndarray,
    clip_norm: float,
    k: int = 0,
    group_factors: np.ndarray | None = None,
) -> np.ndarray:
    """Sum the gradients of the records of block k, each clipped to a norm; no noise.

    The gradient of a record is ``r A`` with its residual r, the derivative of the loss at the
    margin ``A w + offset``: it is clipped by shortening r to ``clip_norm / |A|``, and then
    multiplied by the factor of the record's group.
    """
    raw, offset = rows.weights(weights), offsets.squeeze()

    def part(block: Block, norms: np.ndarray) -> np.ndarray:
        residuals = loss.derivative(block.margins(raw) + offset, block.targets)
        if residuals.ndim == 1:
            limits = clip_norm / norms
            residuals = np.minimum(np.maximum(residuals, -limits), limits)
        else:
            lengths = np.sqrt(np.einsum("ij,ij->i", residuals, residuals))
            factors = np.minimum(1.0, clip_norm / np.maximum(lengths * norms, 1e-300))
            residuals = residuals * factors[:, None]
        if group_factors is not None:
            own = group_factors[block.groups]
            residuals = residuals * (own if residuals.ndim == 1 else own[:, None])
        return block.pull_back(residuals)

    with np.errstate(divide="ignore"):  # rows of norm 0 are not clipped
        return rows.sums(rows.total(part, k))
