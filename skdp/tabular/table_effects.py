"""A linear model of encoded rows as a sum of effects of columns and of pairs of columns.

Functions of released coefficients and of declarations alone: docs/theory/tabular.md, Proposition 2.
"""

from __future__ import annotations

import copy
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from skdp.tabular.columns import Date, Declaration, Number
from skdp.tabular.feature_plan import NUMBER_WEIGHT
from skdp.tabular.row_features import RowFeatures


class States(NamedTuple):
    """Values of a part on its grid, as read and in its own units; missing does not count."""

    read: np.ndarray
    labels: np.ndarray
    is_counted: np.ndarray


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
        self._states = [self.states(k) for k in range(len(self.parts))]
        self._grids = [self._encoded(k, each.read) for k, each in enumerate(self._states)]
        self._means = [
            phi[states.is_counted].sum(axis=0) / max(states.is_counted.sum(), 1)
            for (_, phi), states in zip(self._grids, self._states, strict=True)
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

    def states(self, k: int) -> States:
        """Return the grid of a part: its range in equal steps, or its levels; then missing."""
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
        return States(read, labels, np.arange(len(read)) < len(read) - part.has_missing)

    def effect(self, k: int, read: np.ndarray | None = None) -> np.ndarray:
        """Return the effect of a part for some of its values; None: on its grid."""
        return self._uncentered(k, read) - self._level(k)

    def pair_effect(
        self, i: int, j: int, reads: tuple[np.ndarray, np.ndarray] | None = None
    ) -> np.ndarray:
        """Return the effect of two parts, on both grids or for each of some pairs of values."""
        one, other = (
            (self._grids[k] if reads is None else self._encoded(k, reads[at]))[1] - self._means[k]
            for at, k in enumerate((i, j))
        )
        weighted = one @ self._block(i, j)
        return weighted @ other.T if reads is None else (weighted * other).sum(axis=1)

    def root_mean_squares(self) -> dict[tuple[int, ...], float]:
        """Return the root mean square of each effect over the public grid; 0 of texts."""
        found: dict[tuple[int, ...], float] = {}
        for k, states in enumerate(self._states):
            values = self.effect(k)[states.is_counted]
            found[(k,)] = float(np.sqrt(np.mean(values**2))) if len(values) else 0.0
        for i, j in combinations(range(len(self.parts)), 2):
            if self._block(i, j).any():
                values = self.pair_effect(i, j)
                values = values[self._states[i].is_counted][:, self._states[j].is_counted]
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
        for (a, b), weight in zip(features.paired_entries(), coef, strict=True):
            form[a, b] += weight * features.pair_weight
        return form

    def _block(self, i: int, j: int) -> np.ndarray:
        return self._pairs[np.ix_(self.features.phi_of(i), self.features.phi_of(j))]

    def _rows_of(self, k: int, read: np.ndarray) -> list[Any]:
        """Return rows in which the other parts have no value."""
        n = read.shape[0]
        rows: list[Any] = []
        for i, part in enumerate(self.parts):
            if i == k:
                rows.append(read)
            elif part.kind == "levels":
                rows.append(np.full(n, -1))
            elif part.kind == "text":
                rows.append(sp.csr_matrix((n, part.n_features)))
            else:
                rows.append(np.full(n, np.nan))
        return rows

    def _encoded(self, k: int, read: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the features and the entries of phi that belong to a part, of some values."""
        rows, features = self._rows_of(k, read), self.features
        if not read.shape[0]:
            return np.zeros((0, len(self.features_of(k)))), np.zeros((0, len(features.phi_of(k))))
        phi = features.phi(rows)[:, features.phi_of(k)]
        return features.unbounded(rows)[:, self.features_of(k)], phi

    def features_of(self, k: int) -> list[int]:
        """Return the features of a part alone."""
        features, start = self.features, self.features.offsets[k]
        at = [*range(start, start + self.parts[k].n_features)]
        if k in features.numbers:
            first = features.n_linear + features.numbers.index(k)
            at += range(first, features.n_linear + features.n_curves, len(features.numbers))
        return at

    def _level(self, k: int) -> float:
        """Return the mean over the grid; of texts 0."""
        counted = self._uncentered(k)[self._states[k].is_counted]
        return float(counted.sum()) / max(len(counted), 1)

    def _uncentered(self, k: int, read: np.ndarray | None = None) -> np.ndarray:
        """Return the effect of a part and the mean effects of its pairs, up to a constant."""
        rows, phi = self._grids[k] if read is None else self._encoded(k, read)
        total = rows @ self._coef[self.features_of(k)]
        if self._pairs.any():
            total += 0.5 * ((phi @ self._block(k, k)) * phi).sum(axis=1)
            for j in range(len(self.parts)):
                if j != k:
                    total += phi @ (self._block(k, j) @ self._means[j])
        return np.asarray(total)
