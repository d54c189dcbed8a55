"""The features of rows whose columns were read: positions, curves, products and their sketch.

Let D be the number of parts (:class:`skdp.tabular.columns.Part`) and d that of numbers, u the
position of a number in [-1, 1] and t = pi (u + 1) / 2. A row has the blocks

- E: ``1.25 u`` of each number, 1 of the level of a category, hashed words of norm 1 of a text, and
  1 in a feature of its own where a value is missing; over sqrt(D);
- F: ``0.9 / q cos(q t)`` of each number and each frequency q, over sqrt(D);
- P: ``0.35 * 3 sqrt(d / D) / sqrt(d (d - 1) / 2) u_i u_j`` of each two numbers;
- D: ``sqrt(D)`` times all products of an entry of phi of one part and one of another, for each
  declared pair of parts, where numbers also have ``0.35 cos(4 t), 0.28 cos(5 t), 0.23 cos(6 t)``;
- C: 0.3 times the sketch of all products of two entries of
  ``phi = (E without texts, 0.7 cos(2 t), 0.47 cos(3 t))``, the curves over sqrt(D),

all divided by sqrt(1.15 T), where T is the typical squared norm, or by the spread of a plan in
place of 1.15. Rows that are then longer than 1 are shortened to 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp

from skdp.tabular.columns import Part
from skdp.tabular.feature_plan import (
    NUMBER_WEIGHT,
    PAIR_WEIGHT,
    PAIRED,
    PRODUCT_WEIGHT,
    SKETCH_WEIGHT,
    SKETCHED,
    FeaturePlan,
    curve_weight,
    n_entries,
    squared_norm,
)
from skdp.tabular.pair_sketch import PairSketch
from skdp.tabular.rank_maps import RANK, ColumnMaps, mapped_positions

#: Rows whose features are made at once: they stay in the cache. Their number is filled up to a
#: multiple of _LANES, so that no row is computed in another way than others.
_CHUNK, _LANES = 256, 16
#: Directions for each record of the rarer class.
MOST_DIRECTIONS = 0.2
#: Rows are sparse if fewer of their features are expected not to be zero.
_SPARSE_PART, _WORDS = 0.1, 30
_EPS = float(np.finfo(np.float64).eps)


class RowFeatures:
    """The map from parts to features, of numbers that maps replace, and without constant parts.

    `pairs` are positions of parts that are multiplied, `numbers` those of numbers, and `offsets`
    the first features of the parts in the linear block.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        plan: FeaturePlan,
        pairs: Sequence[tuple[int, int]] = (),
        maps: ColumnMaps | None = None,
    ) -> None:
        self.maps = ColumnMaps({}) if maps is None else maps
        parts = self.maps.kept(parts)
        self.parts, self.plan, self.pairs = parts, plan, list(pairs)
        self.numbers = [k for k, part in enumerate(parts) if part.kind == "number"]
        *self.offsets, self.n_linear = np.cumsum([0, *(p.n_features for p in parts)]).tolist()
        d, n_parts = len(self.numbers), sum(part.kind != "constant" for part in parts)
        self.n_curves = d * len(plan.frequencies)
        self.n_products = d * (d - 1) // 2 if plan.products else 0
        self.n_paired = sum(n_entries(parts[i]) * n_entries(parts[j]) for i, j in pairs)
        self.n_narrow = self.n_linear + self.n_curves + self.n_products + self.n_paired
        self.n_features = self.n_narrow + plan.n_sketch
        #: Public number that rows are divided by.
        self._norm = squared_norm(plan, d, n_parts, len(self.pairs))
        self.divisor = math.sqrt(plan.spread * self._norm)
        #: Weight of a feature of one part.
        self.unit = 1.0 / (math.sqrt(n_parts) * self.divisor)
        self._n_parts = n_parts
        if plan.products and d > 1:
            share = math.sqrt(d / n_parts) / math.sqrt(d * (d - 1) / 2)
            self.product_weight = 3.0 * PRODUCT_WEIGHT * share / self.divisor
        #: Weights of products of two entries of phi.
        self.pair_weight = PAIR_WEIGHT * math.sqrt(n_parts) / self.divisor
        self.sketch_weight = SKETCH_WEIGHT / self.divisor
        #: Entries of phi: the linear block without texts, then curves of numbers.
        sizes = (part.n_features if part.kind != "text" else 0 for part in parts)
        *self.phi_offsets, n = np.cumsum([0, *sizes]).tolist()
        self.n_phi_linear = n
        self.n_phi = n + d * len(SKETCHED)
        #: Curves among the entries of phi; those that are not sketched come last.
        self.phi_curves = {**SKETCHED, **PAIRED} if self.pairs else SKETCHED
        self.n_entries = n + d * len(self.phi_curves)
        self.sketch = PairSketch.of(self.n_phi, plan.n_sketch) if plan.n_sketch else None

    def phi_of(self, k: int) -> list[int]:
        """Return the entries of phi that belong to a part."""
        part, start = self.parts[k], self.phi_offsets[k]
        found = list(range(start, start + part.n_features)) if part.kind != "text" else []
        if part.kind == "number":
            i, d = self.numbers.index(k), len(self.numbers)
            found += [self.n_phi_linear + d * j + i for j in range(len(self.phi_curves))]
        return found

    def _names_of(self, part: Part) -> list[str]:
        if part.kind == "levels":
            return [f"{part.name}_{label}" for label in part.labels]
        if part.kind in ("text", "constant"):
            return [f"{part.name}_{j}" for j in range(part.n_features)]
        return [part.name, *[f"{part.name}_missing"] * part.has_missing]

    def names(self) -> list[str]:
        """Return a name for each feature, no two of them the same."""
        found = [name for part in self.parts for name in self._names_of(part)]
        numbers = [self.parts[k].name for k in self.numbers]
        found += [f"{name}_cos{q}" for q in self.plan.frequencies for name in numbers]
        if self.plan.products:
            found += [f"{one}*{other}" for one, other in combinations(numbers, 2)]
        for pair in self.pairs:
            one, other = (
                self._names_of(part)
                + [f"{part.name}_cos{q}" for q in self.phi_curves if part.kind == "number"]
                for part in (self.parts[k] for k in pair)
            )
            found += [f"{a}*{b}" for a in one for b in other]
        found += [f"pairs_{j}" for j in range(self.plan.n_sketch)]
        seen: set[str] = set()
        for j in range(len(found)):  # a category may be called "missing"
            while found[j] in seen:
                found[j] += "_"
            seen.add(found[j])
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the plan and the sizes of its blocks as plain Python types."""
        return {
            **asdict(self.plan),
            "frequencies": list(self.plan.frequencies),
            "n_linear": self.n_linear,
            "n_curves": self.n_curves,
            "n_products": self.n_products,
            "n_paired": self.n_paired,
            "n_features": self.n_features,
        }

    @property
    def directions(self) -> float:
        """Number of features of the variance of the linear block that count like all."""
        return min(self.n_linear * self._norm, float(self.n_features))

    @property
    def longest(self) -> float:
        """Largest squared norm of positions, levels and curves over the typical one."""
        d, curves = len(self.numbers), sum(curve_weight(q) ** 2 for q in self.plan.frequencies)
        return (1.0 + (NUMBER_WEIGHT**2 + curves - 1.0) * d / self._n_parts) / self._norm

    @property
    def faintest(self) -> float:
        """Variance of a last curve, of ranks in a part of the range, over the average feature's."""
        q = self.plan.frequencies[-1]
        own = 0.5 * curve_weight(q) ** 2 * RANK ** (2 * (q - 2))
        return own * self.n_features / (self._n_parts * self._norm)

    @property
    def levels(self) -> tuple[range, ...]:
        """Features of each category."""
        parts = zip(self.offsets, self.parts, strict=False)
        return tuple(range(at, at + each.n_features) for at, each in parts if each.kind == "levels")

    @property
    def is_sparse(self) -> bool:
        """Whether few features are expected not to be zero."""
        words = sum(part.kind == "text" for part in self.parts) * (_WORDS - 1)
        expected = len(self.parts) + words
        return self.n_features == self.n_linear and expected < _SPARSE_PART * self.n_features

    def of_rows(self, values: Sequence[Any]) -> Any:
        """Return the features of rows, shape (n_rows, n_features); the linear block may be CSR."""
        if self.is_sparse:
            return self._sparse(values)
        out = np.empty((values[0].shape[0], self.n_features))
        for start in range(0, len(out), _CHUNK):
            rows = slice(start, start + _CHUNK)
            self._fill([each[rows] for each in values], out[rows])
            squares = np.add.reduce(np.square(out[rows]), axis=1)
            factors = _factors(squares, self.n_features)
            long = np.flatnonzero(factors < 1.0)
            out[start + long] *= factors[long, None]
        return out

    def unbounded(self, values: Sequence[Any]) -> np.ndarray:
        """Return the features of few rows before they are shortened."""
        out = np.empty((values[0].shape[0], self.n_features))
        self._fill(values, out)
        return out

    def phi(self, values: Sequence[Any]) -> np.ndarray:
        """Return phi of few rows, shape (n_rows, n_entries)."""
        return self._phi(*self._narrow(values, values[0].shape[0])).T * self.divisor

    def _phi(self, block: np.ndarray, cosines: dict[int, np.ndarray]) -> np.ndarray:
        """Return phi over the divisor, a row for each entry."""
        kept = [part.kind != "text" for part in self.parts]
        linear = np.repeat(kept, [part.n_features for part in self.parts])
        curves = [weight * self.unit * cosines[q] for q, weight in self.phi_curves.items()]
        return np.vstack([block[: self.n_linear][linear], *curves])

    def _fill(self, values: Sequence[Any], out: np.ndarray) -> None:
        n = len(out)
        lanes = -(-n // _LANES) * _LANES
        block, cosines = self._narrow(values, lanes)
        out[:, : self.n_narrow] = block[:, :n].T
        if self.sketch is not None:
            # phi is divided by the divisor here, twice in the products
            phi = self._phi(block, cosines)[: self.n_phi]
            found = self.sketch.of_rows(phi)[:n]
            np.multiply(found, self.sketch_weight * self.divisor**2, out=out[:, self.n_narrow :])

    def _narrow(
        self, values: Sequence[Any], lanes: int
    ) -> tuple[np.ndarray, dict[int, np.ndarray]]:
        """Compute E, F and P, a row for each feature, and the cosines of each frequency."""
        block = np.zeros((self.n_narrow, lanes))
        d = len(self.numbers)
        positions, present = np.zeros((d, lanes)), np.ones((d, lanes))
        i = 0
        for part, read, start in zip(self.parts, self._mapped(values), self.offsets, strict=True):
            n = read.shape[0]
            if part.kind == "levels":
                at = np.flatnonzero(read >= 0)
                block[start + read[at], at] = self.unit
            elif part.kind == "constant":
                continue
            elif part.kind == "text":
                block[start : start + part.n_features, :n] = self.unit * read.toarray().T
            else:
                lost = np.isnan(read)
                known = np.where(lost, 0.0, read)
                block[start, :n] = NUMBER_WEIGHT * self.unit * known
                if part.has_missing:
                    block[start + 1, :n] = self.unit * lost
                positions[i, :n], present[i, :n] = known, ~lost
                i += 1
        cosines = self._cosines(positions, present)
        for j, q in enumerate(self.plan.frequencies):
            at = self.n_linear + j * d
            np.multiply(cosines[q], curve_weight(q) * self.unit, out=block[at : at + d])
        if self.plan.products and d > 1:
            at = self.n_linear + self.n_curves
            for i in range(d - 1):
                end = at + d - 1 - i
                np.multiply(positions[i] * self.product_weight, positions[i + 1 :], block[at:end])
                at = end
        if self.pairs:
            at = self.n_narrow - self.n_paired
            phi = self._phi(block, cosines)
            for i, j in self.pairs:
                one, other = (phi[self.phi_of(k)] for k in (i, j))
                one = one * (self.pair_weight * self.divisor**2)  # entries are over the divisor
                products = block[at : at + len(one) * len(other)]
                np.multiply(one[:, None], other, out=products.reshape(len(one), len(other), lanes))
                at += len(products)
        return block, cosines

    def _mapped(self, values: Sequence[Any]) -> list[Any]:
        """Map the numbers that have maps."""
        maps = (self.maps.values.get(k) for k in range(len(self.parts)))
        return [
            read if each is None else mapped_positions(read, each)
            for read, each in zip(values, maps, strict=True)
        ]

    def _cosines(self, positions: np.ndarray, present: np.ndarray) -> dict[int, np.ndarray]:
        """Compute cos(q t) by the recursion of Chebyshev polynomials; 0 where missing."""
        first = -np.sin(0.5 * np.pi * positions)  # cos t
        found = {0: np.ones_like(first), 1: first}
        for q in range(2, max([*self.phi_curves, *self.plan.frequencies]) + 1):
            found[q] = 2.0 * first * found[q - 1] - found[q - 2]
        return {q: cosine * present for q, cosine in found.items()}

    def _sparse(self, values: Sequence[Any]) -> sp.csr_matrix:
        """Return the linear block of rows as CSR, without zeros."""
        blocks: list[Any] = []
        for part, read in zip(self.parts, self._mapped(values), strict=True):
            if part.kind == "constant":
                continue
            if part.kind == "text":
                blocks.append(self.unit * read)
            elif part.kind == "levels":
                at = np.flatnonzero(read >= 0)
                entries = np.full(len(at), self.unit), (at, read[at])
                blocks.append(sp.csr_matrix(entries, shape=(len(read), part.n_features)))
            else:
                lost = np.isnan(read)
                found = [NUMBER_WEIGHT * self.unit * np.where(lost, 0.0, read)]
                found += [self.unit * lost] * part.has_missing
                blocks.append(sp.csr_matrix(np.column_stack(found)))
        out = sp.csr_matrix(sp.hstack(blocks, format="csr"))
        factors = _factors(np.asarray(out.power(2).sum(axis=1)).ravel(), out.shape[1])
        out.data *= np.repeat(factors, np.diff(out.indptr))
        return out


def capped_plan(
    parts: Sequence[Part], plan: FeaturePlan, pairs: Sequence[tuple[int, int]], n_records: float
) -> FeaturePlan:
    """Leave out blocks while there are too many directions for the records of the rarer class."""
    while RowFeatures(parts, plan, pairs).directions > MOST_DIRECTIONS * n_records:
        if plan.frequencies:
            plan = replace(plan, frequencies=plan.frequencies[:-1])
        elif plan.n_sketch:
            plan = replace(plan, n_sketch=0)
        elif plan.products:
            plan = replace(plan, products=False)
        else:
            break
    return plan


def _factors(squares: np.ndarray, width: int) -> np.ndarray:
    """Return what takes rows of these squared norms to norm at most 1, as computed.

    A computed norm of p doubles is off by less than (p / 2 + 2) eps, a product by an eps:
    docs/theory/tabular.md, Theorem 1.
    """
    slack = (width + 8) * _EPS
    norms = np.sqrt(squares)
    return np.where(norms > 1.0 - slack, (1.0 - slack) / np.maximum(norms, 0.5), 1.0)
