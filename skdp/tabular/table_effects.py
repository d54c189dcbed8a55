"""A linear model of encoded rows as a sum of effects of columns and of pairs of columns.

Functions of released coefficients and of declarations alone: docs/theory/tabular.md, Proposition 2.
"""

from __future__ import annotations

import copy
from itertools import chain, combinations, product
from typing import Any

import numpy as np
import scipy.sparse as sp

from skdp.tabular.columns import Date, Declaration, Number
from skdp.tabular.feature_plan import NUMBER_WEIGHT
from skdp.tabular.row_features import RowFeatures


class TableEffects:
    """Effects of the parts of a table on the margin of a linear model.

    Each has mean 0 over the public grid of its part, which has `n_points` of a number, and effects
    of pairs have mean 0 over either grid. They sum to the margin of a row that is not shortened, up
    to a constant.
    """

    def __init__(
        self,
        schema: dict[Any, Declaration],
        features: RowFeatures,
        coef: np.ndarray,
        n_points: int = 100,
    ) -> None:
        self.features, self.parts, self._n_points = features, features.parts, n_points
        #: The declaration of each part; of the year of a date that of a number.
        self._declared = [
            each.years if isinstance(each, Date) and part.name == "_year" else each
            for each in schema.values()
            for part in each.expand("")
        ]
        grids = [self._grid(k) for k in range(len(self.parts))]
        #: Values of each part on its grid, as read, and in its own units but for a missing one.
        self.reads, self.labels = ([each[i] for each in grids] for i in (0, 1))
        self._grids = [self._encoded(k) for k in range(len(self.parts))]
        self._means = [
            phi[: len(labels)].sum(axis=0) / max(len(labels), 1)
            for (_, phi), labels in zip(self._grids, self.labels, strict=True)
        ]
        self._set(coef)

    def _set(self, coef: np.ndarray) -> None:
        self._coef = np.asarray(coef, dtype=np.float64)
        form = self._quadratic_form()
        #: What a pair of entries of phi is multiplied by, and twice an entry with itself.
        self._pairs = form + form.T

    def along(self, coef: np.ndarray) -> TableEffects:
        """Return the effects of other coefficients."""
        other = copy.copy(self)
        other._set(coef)
        return other

    def _grid(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the grid of a part, its range in equal steps or its levels, and its labels."""
        part, declared = self.parts[k], self._declared[k]
        read: Any = np.zeros(0)
        labels: Any = np.zeros(0)
        if part.kind in ("number", "constant"):
            grid = np.linspace(-1.0, 1.0, self._n_points)
            if isinstance(declared, Date):
                labels = declared.trend.value(grid).astype("datetime64[s]")
            elif isinstance(declared, Number):
                labels = declared.value(grid)
            read = np.append(grid, [np.nan] * part.has_missing)
        elif part.kind == "levels":
            labels = np.array(part.labels[: len(part.labels) - part.has_missing])
            read = np.arange(len(part.labels))
        return read, labels

    def effect(self, k: int) -> np.ndarray:
        """Return the effect of a part on its grid: its own, and the mean effects of its pairs."""
        rows, phi = self._grids[k]
        total = rows @ self._coef[self._features_of(k)]
        if self._pairs.any():
            total += 0.5 * ((phi @ self._block(k, k)) * phi).sum(axis=1)
            for j in range(len(self.parts)):
                if j != k:
                    total += phi @ (self._block(k, j) @ self._means[j])
        n = len(self.labels[k])
        return np.asarray(total - float(total[:n].sum()) / max(n, 1))

    def pair_effect(self, i: int, j: int) -> np.ndarray:
        """Return the effect of two parts on both grids."""
        one, other = (self._grids[k][1] - self._means[k] for k in (i, j))
        return np.asarray(one @ self._block(i, j) @ other.T)

    def root_mean_squares(self) -> dict[tuple[int, ...], float]:
        """Return the root mean square of each effect over the public grid; 0 of texts."""
        found: dict[tuple[int, ...], float] = {}
        for k, labels in enumerate(self.labels):
            values = self.effect(k)[: len(labels)]
            found[(k,)] = float(np.sqrt(np.mean(values**2))) if len(values) else 0.0
        for i, j in combinations(range(len(self.parts)), 2):
            if self._block(i, j).any():
                values = self.pair_effect(i, j)[: len(self.labels[i]), : len(self.labels[j])]
                found[(i, j)] = float(np.sqrt(np.mean(values**2)))
        return found

    def _quadratic_form(self) -> np.ndarray:
        """Return Q with ``phi' Q phi`` as the margin of products and of the sketch."""
        features = self.features
        form = np.zeros((features.n_entries, features.n_entries))
        if features.sketch is not None:
            coef = features.sketch_weight * self._coef[features.n_narrow :]
            n = features.n_phi
            form[:n, :n] = features.sketch.quadratic_form(coef)
        if features.n_products:
            at = [features.phi_offsets[k] for k in features.numbers]
            entry = (NUMBER_WEIGHT * features.unit * features.divisor) ** 2  # of u_i u_j in phi
            first = features.n_linear + features.n_curves
            coef = self._coef[first : first + features.n_products]
            for (i, j), weight in zip(combinations(at, 2), coef, strict=True):
                form[i, j] += weight * features.product_weight / entry
        coef = self._coef[features.n_narrow - features.n_paired : features.n_narrow]
        entries = [product(*map(features.phi_of, pair)) for pair in features.pairs]
        for (a, b), weight in zip(chain(*entries), coef, strict=True):
            form[a, b] += weight * features.pair_weight
        return form

    def _block(self, i: int, j: int) -> np.ndarray:
        return self._pairs[np.ix_(self.features.phi_of(i), self.features.phi_of(j))]

    def _encoded(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the features and the entries of phi that belong to a part, on its grid."""
        features, n = self.features, len(self.reads[k])
        if not n:
            return np.zeros((0, len(self._features_of(k)))), np.zeros((0, len(features.phi_of(k))))
        rows: list[Any] = []  # in which the other parts have no value
        for i, part in enumerate(self.parts):
            if i == k:
                rows.append(self.reads[k])
            elif part.kind == "levels":
                rows.append(np.full(n, -1))
            elif part.kind == "text":
                rows.append(sp.csr_matrix((n, part.n_features)))
            else:
                rows.append(np.full(n, np.nan))
        phi = features.phi(rows)[:, features.phi_of(k)]
        return features.unbounded(rows)[:, self._features_of(k)], phi

    def _features_of(self, k: int) -> list[int]:
        """Return the features of a part alone."""
        features, start = self.features, self.features.offsets[k]
        at = [*range(start, start + self.parts[k].n_features)]
        if k in features.numbers:
            first = features.n_linear + features.numbers.index(k)
            at += range(first, features.n_linear + features.n_curves, len(features.numbers))
        return at
