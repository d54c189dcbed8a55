"""Mixtures of product distributions on categorical records, fitted to two-way marginals.

All components have the same weight; in each, columns are independent. So the marginals of all
pairs of columns are one matrix product, for universes of any size, and all of them can be fitted
together where a junction tree would grow too large. Post-processing of released numbers: the fit
is not convex, and nothing but utility depends on how well it goes.

References
----------
.. [1] S. Aydore et al., "Differentially private query release through adaptive projection", ICML
   2021.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import reduce

import numpy as np
from scipy.optimize import minimize

from skdp.algorithms.queries.log_linear import Columns, systematic

#: Components, most iterations of the fit, and the spread of the logits to start from.
_COMPONENTS, _ITERATIONS, _SPREAD = 300, 500, 1.0
#: The fit stops at this share of the noise's expected square, before it fits the noise; part of the
#: noise (negative cells, disagreeing sums) no distribution can fit.
_ENOUGH = 0.4


class ProductMixture:
    """A distribution of records; see the module.

    `targets` are noisy two-way marginals of all columns, whose entries have one variance; they need
    not be distributions. The generator is for the start of the fit.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        targets: Mapping[Columns, np.ndarray],
        variance: float,
        rng: np.random.Generator,
    ) -> None:
        self.sizes = tuple(int(size) for size in sizes)
        ends = np.cumsum(self.sizes)
        self._slices = [slice(end - n, end) for end, n in zip(ends, self.sizes, strict=True)]
        self._starts = ends - np.array(self.sizes)
        width = int(ends[-1])
        target, mask = np.zeros((2, width, width))
        singles = np.zeros(width)
        for (a, b), table in targets.items():
            one, two = self._slices[a], self._slices[b]
            target[one, two], target[two, one] = table, table.T
            mask[one, two] = mask[two, one] = 1.0
            singles[one] += table.sum(axis=1)
            singles[two] += table.sum(axis=0)
        # the sums of all pairs of a column, and a floor that noise cannot cross
        start = np.log(np.clip(singles / (len(self.sizes) - 1), 1e-4, 1.0))
        logits = start + _SPREAD * rng.standard_normal((_COMPONENTS, width))
        scale = 0.25 / max(float(np.square(mask * target).sum()), 1e-300)

        def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
            p = self._softmax(flat.reshape(logits.shape))
            residual = mask * (p.T @ p / _COMPONENTS - target)
            slope = p @ residual * (4.0 * scale / _COMPONENTS)
            inner = self._repeat(np.add.reduceat(p * slope, self._starts, axis=1))
            return scale * float(np.square(residual).sum()), (p * (slope - inner)).ravel()

        limit = _ENOUGH * scale * variance * float(mask.sum())
        best = [logits.ravel()]

        def stop(flat: np.ndarray) -> None:
            best[0] = np.array(flat)
            if loss(flat)[0] <= limit:
                raise StopIteration

        options = {"maxiter": _ITERATIONS, "maxfun": 2 * _ITERATIONS, "ftol": 1e-13, "gtol": 1e-13}
        with suppress(StopIteration):
            minimize(loss, best[0], jac=True, method="L-BFGS-B", callback=stop, options=options)
        #: By component and category, of the categories of one column after the other.
        self.probabilities = self._softmax(best[0].reshape(logits.shape))

    def _repeat(self, per_column: np.ndarray) -> np.ndarray:
        return np.repeat(per_column, self.sizes, axis=1)

    def _softmax(self, logits: np.ndarray) -> np.ndarray:
        tops = np.maximum.reduceat(logits, self._starts, axis=1)
        weights = np.exp(logits - self._repeat(tops))
        return weights / self._repeat(np.add.reduceat(weights, self._starts, axis=1))

    def marginal(self, columns: Sequence[int]) -> np.ndarray:
        """Compute the distribution of some columns, in any order, a table on these."""
        *first, last = (self.probabilities[:, self._slices[c]] for c in columns)
        # the product of all columns but the last, component by component
        joint = reduce(
            lambda left, right: (left[:, :, None] * right[:, None]).reshape(len(left), -1),
            first,
            np.ones((len(self.probabilities), 1)),
        )
        return (joint.T @ last / len(self.probabilities)).reshape([self.sizes[c] for c in columns])

    def table(self) -> np.ndarray:
        """Write the distribution of the whole universe out, shape `sizes`."""
        table = np.zeros(self.sizes)
        for row in self.probabilities:
            parts = (row[part] for part in self._slices)
            table += reduce(np.multiply.outer, parts) / len(self.probabilities)
        return table

    def sample(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """Draw records as :meth:`skdp.algorithms.queries.log_linear.LogLinearModel.sample` does."""
        uniform = np.ones((1, len(self.probabilities)))
        components = systematic(uniform, np.zeros(n_samples, dtype=np.intp), rng)
        columns = [
            systematic(self.probabilities[:, part], components, rng) for part in self._slices
        ]
        return np.stack(columns, axis=1)
