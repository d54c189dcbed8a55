"""Problems over products of simplices, for algorithms that release vertices.

A point is given by vertices that were drawn: block u of it is the mean of the unit vectors of
``point[u]``. The first block minimises, the second, if there is one, maximises. Partial derivatives
of one record in block u stay in a known interval of width ``oscillations[u]``; that is all that
privacy needs.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from skdp._checks import check_count, check_positive
from skdp._runtime import without_warnings
from skdp.privacy.events import Neighbouring
from skdp.problems.block import Block
from skdp.problems.constants import MOST_RECORDS, most_records
from skdp.problems.losses import Loss
from skdp.problems.matrices import scaled_rows
from skdp.problems.max_group_loss import GroupWeights
from skdp.problems.records import Part, Records
from skdp.problems.rounding import EPS, ROUNDING_SLACK, chain

#: Vertices that were drawn, one array per block.
Point = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class VertexDesign:
    """Public numbers about a problem over simplices."""

    n_records: int
    #: Number of vertices of each block: one or two of them.
    sizes: tuple[int, ...]
    #: Bound on the absolute value of a partial derivative of one record, per block.
    magnitudes: tuple[float, ...]
    #: Bound on the difference of that derivative between two records, at one point.
    oscillations: tuple[float, ...]

    neighbouring = Neighbouring.REPLACE_ONE

    def __post_init__(self) -> None:
        check_count("n_records", self.n_records)
        if not 1 <= len(self.sizes) == len(self.magnitudes) == len(self.oscillations) <= 2:
            raise ValueError("a problem has one or two blocks, with a number of each kind.")
        for size, magnitude, oscillation in zip(
            self.sizes, self.magnitudes, self.oscillations, strict=True
        ):
            check_count("sizes", size, 2)
            check_positive(magnitudes=magnitude, oscillations=oscillation)
            if oscillation > 2.0 * magnitude:
                raise ValueError(
                    f"oscillations == {oscillation:g}, must be at most twice the magnitude "
                    f"{magnitude:g}."
                )

    @property
    def log_sizes(self) -> tuple[float, ...]:
        return tuple(math.log(size) for size in self.sizes)

    def largest(self, block: int) -> float:
        """Bound a mean of partial derivatives."""
        return self.magnitudes[block]

    def rounding(self, block: int, batch: int) -> float:
        """Bound the error of a computed mean of partial derivatives over `batch` records.

        Sums in any order, one chain at worst: docs/theory/mirror_descent.md, section 3.
        """
        return EPS * (batch + 32.0) * self.magnitudes[block]


class VertexProblem(ABC):
    """A mean of one function per record over a product of simplices."""

    design: VertexDesign

    @property
    def n_records(self) -> int:
        """Number of the records that there are; it may be private."""
        return self.design.n_records

    @abstractmethod
    def gradients(self, point: Point, batch: slice) -> tuple[np.ndarray, ...]:
        """Average the partial derivatives at a point over consecutive records.

        What one record adds must not depend on the others, and must be computed in the same way
        whichever the others are. Each record's derivatives are within the bounds of the design.
        """

    def changes(
        self, point: Point, earlier: Point, batch: slice, limits: tuple[float, ...]
    ) -> tuple[np.ndarray, ...]:
        """Average the changes of the partial derivatives from an earlier point over records.

        As :meth:`gradients`; each record's changes are clipped to ``[-limit, limit]`` per block.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method `changes`.")

    def values(self, point: Point, batch: slice) -> np.ndarray:
        """Return the function at a point for each of consecutive records, shape (m,)."""
        raise NotImplementedError

    def ordered(self, order: np.ndarray) -> VertexProblem:
        """Return the problem with its records in another order; needed for rounds on batches.

        Record k of it is record ``order[k]`` of this one.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method `ordered`.")


@dataclass(frozen=True)
class FunctionProblem(VertexProblem):
    """A problem made of functions of the mean vertices, such as a game.

    Examples
    --------
    The point of a square that is nearest to the records' mean:

    >>> import numpy as np
    >>> from skdp.algorithms import Run, plan_mirror_descent
    >>> from skdp.privacy import PrivacyBudget
    >>> from skdp.problems.vertices import FunctionProblem, VertexDesign
    >>> records = np.tile([0.5, -0.25], (5000, 1))
    >>> square = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    >>> problem = FunctionProblem(
    ...     VertexDesign(5000, (4,), (4.0,), (8.0,)),
    ...     lambda points, batch: [points[0] - records[batch]],
    ...     vertices=(square,),
    ... )
    >>> plan = plan_mirror_descent(problem.design, PrivacyBudget(1.0, 1e-6))
    >>> (point,) = problem.points(plan.run(problem, Run()).point)
    >>> bool(np.abs(point - [0.5, -0.25]).max() < 0.25)
    True
    """

    design: VertexDesign
    #: From weights on the vertices, one array per block, and a slice or an array of positions of
    #: records, to the partial derivatives of each of them, shape (m, sizes[u]). They are clipped to
    #: the interval that ends at the magnitude and is as wide as the oscillation: ``[-m, m]`` if
    #: that is 2 m, and ``[0, m]`` if it is m. What is not a number becomes its lower end.
    derivative: Callable[[Point, Part], Any]
    #: Shape (m,).
    function: Callable[[Point, Part], np.ndarray] | None = None
    #: Of a polytope for each block, shape (sizes[u], p_u). Functions are then of points ``w_u`` in
    #: these, and derivatives in ``w_u``, shape (m, p_u); the design bounds the products of a
    #: derivative and a vertex. Default: the simplices.
    vertices: Point | None = None

    def __post_init__(self) -> None:
        if self.vertices is not None and self.design.sizes != tuple(map(len, self.vertices)):
            raise ValueError("vertices must have one row for each vertex of the design.")

    def ordered(self, order: np.ndarray) -> FunctionProblem:
        def ordered(function: Callable[[Point, Part], Any]) -> Callable[[Point, Part], Any]:
            return lambda points, batch: function(points, order[batch])

        function = None if self.function is None else ordered(self.function)
        return replace(self, derivative=ordered(self.derivative), function=function)

    def points(self, point: Point) -> Point:
        """Return the means of the vertices."""
        weights = tuple(
            np.bincount(drawn, minlength=size) / len(drawn)
            for drawn, size in zip(point, self.design.sizes, strict=True)
        )
        if self.vertices is None:
            return weights
        return tuple(w @ each for w, each in zip(weights, self.vertices, strict=True))

    def _of_records(self, point: Point, batch: slice) -> list[np.ndarray]:
        """Return the clipped partial derivatives of each record."""
        records = self.derivative(self.points(point), batch)
        if self.vertices is not None:
            records = [g @ each.T for g, each in zip(records, self.vertices, strict=True)]
        return [
            np.clip(np.nan_to_num(each, nan=-math.inf), bound - width, bound)
            for each, bound, width in zip(
                records, self.design.magnitudes, self.design.oscillations, strict=True
            )
        ]

    def gradients(self, point: Point, batch: slice) -> tuple[np.ndarray, ...]:
        return tuple(each.mean(axis=0) for each in self._of_records(point, batch))

    def changes(
        self, point: Point, earlier: Point, batch: slice, limits: tuple[float, ...]
    ) -> tuple[np.ndarray, ...]:
        both = (self._of_records(each, batch) for each in (point, earlier))
        return tuple(
            np.clip(new - old, -limit, limit).mean(axis=0)
            for new, old, limit in zip(*both, limits, strict=True)
        )

    def values(self, point: Point, batch: slice) -> np.ndarray:
        if self.function is None:
            raise ValueError("the problem has no function.")
        return np.asarray(self.function(self.points(point), batch))


@dataclass(frozen=True)
class LinearDesign(VertexDesign):
    """Public numbers about a linear model in an l1 ball.

    The vertices are ``+radius`` and ``-radius`` times each unit vector of the coefficients, in this
    order; with several margins those of the first margin come first. There may be an L2 penalty of
    `alpha`. Under add/remove `n_records` is a public nominal number, which sums are divided by.
    """

    radius: float
    feature_bound: float
    derivative_bound: float
    alpha: float = 0.0
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE
    curvature: float = math.inf
    n_margins: int = 1

    @property
    def smoothness(self) -> float:
        """Lipschitz constant in the l1 norm of a record's partial derivatives."""
        return self.curvature * (self.radius * self.feature_bound) ** 2 * ROUNDING_SLACK

    @property
    def _most_records(self) -> int:
        return self.n_records if self.neighbouring.is_replaced else most_records(self.n_records)

    def largest(self, block: int) -> float:
        return super().largest(block) * (self._most_records / self.n_records)

    def rounding(self, block: int, batch: int) -> float:
        if self.neighbouring.unit == "user":  # who may have any number of records
            batch = chain(MOST_RECORDS)  # sums are in blocks and a tree
        elif not self.neighbouring.is_replaced:
            batch = chain(self._most_records)
        return EPS * (batch + 32.0) * self.largest(block)

    @classmethod
    def of(
        cls,
        loss: Loss,
        n_records: int,
        width: int,
        radius: float,
        feature_bound: float,
        alpha: float = 0.0,
        neighbouring: Neighbouring = Neighbouring.REPLACE_ONE,
    ) -> LinearDesign:
        """Bound the derivatives; a penalty, the same for all records, adds to magnitudes alone."""
        check_positive(coef_norm_l1=radius, feature_bound=feature_bound)
        bound = loss.slope_bound(radius * feature_bound)
        magnitude = radius * feature_bound * bound * ROUNDING_SLACK
        if alpha * radius > 1e9 * feature_bound * bound:
            raise ValueError(f"alpha == {alpha:g} is too large: the penalty would hide the loss.")
        total = magnitude + alpha * radius**2 * ROUNDING_SLACK
        sizes = (2 * width * loss.n_outputs,)
        moved = (magnitude * (2.0 if neighbouring.is_replaced else 1.0),)
        numbers = radius, feature_bound, bound, alpha, neighbouring, loss.curvature, loss.n_outputs
        return cls(n_records, sizes, (total,), moved, *numbers)

    def with_groups(self, loss: Loss, n_groups: int) -> LinearDesign:
        """Add a block of weights of groups, for a loss that is bounded and not negative."""
        # a record's derivative in the weights is its loss, or a part of it, for one group
        largest = loss.largest_value(1.0, self.radius * self.feature_bound) * ROUNDING_SLACK
        return replace(
            self,
            sizes=(*self.sizes, n_groups),
            magnitudes=(*self.magnitudes, largest),
            oscillations=(*self.oscillations, largest),
        )

    @property
    def remark(self) -> str:
        """Describe the bounds in a sentence of a report."""
        return (
            f"entries of X are clipped to {self.feature_bound:g} in absolute value, and the "
            f"coefficients are in an l1 ball of radius {self.radius:g}"
        )

    def to_dict(self) -> dict[str, float]:
        """Return the public numbers of a report."""
        return {"alpha": self.alpha, "radius": self.radius, "feature_bound": self.feature_bound}


class LinearProblem(VertexProblem):
    """A linear model with coefficients in an l1 ball, on features that are bounded entrywise."""

    design: LinearDesign

    def __init__(self, records: Records, loss: Loss, design: LinearDesign) -> None:
        if records.scale is not None or records.factors is not None:
            raise ValueError("rows must not be scaled by their norm.")
        if not _is_within(records.matrix, records.intercept, design.feature_bound):
            raise ValueError("entries of X, or the intercept feature, exceed feature_bound.")
        if records.selected is not None:  # columns are read from the matrix itself
            records = records.take(np.arange(records.n_records))
        self.records, self.loss, self.design = records, loss, design

    def ordered(self, order: np.ndarray) -> LinearProblem:
        other = copy.copy(self)
        other.records = self.records.take(self.records.records_of(order))
        return other

    @property
    def n_records(self) -> int:
        replaced = self.design.neighbouring.is_replaced
        return self.design.n_records if replaced else self.records.n_units

    def _records_of(self, batch: slice) -> slice:
        """Return the records of consecutive units."""
        if self.records.persons is None:
            return batch
        first, last = self.records.starts[[batch.start, batch.stop]].tolist()
        return slice(first, last)

    def margins(self, point: Point, batch: slice) -> np.ndarray:
        """Compute the margins of a sparse point, from the columns that it names."""
        (drawn,), half = point, self.design.sizes[0] // 2
        vertices, counts = np.unique(drawn, return_counts=True)
        weights = np.zeros(half)
        np.add.at(weights, vertices % half, np.where(vertices < half, counts, -counts))
        weights *= self.design.radius / len(drawn)
        part = self._records_of(batch)
        rows = weights.reshape(self.design.n_margins, -1)
        margins = [column_margins(self.records, row, part) for row in rows]
        return margins[0] if len(rows) == 1 else np.stack(margins, axis=1)

    @without_warnings()
    def gradients(self, point: Point, batch: slice) -> tuple[np.ndarray, ...]:
        half = self.gradient_of(self.margins(point, batch), batch)
        if self.design.alpha:
            half += self.design.alpha * self.design.radius * self.coefficients(point)
        return (np.concatenate([half, -half]),)

    @without_warnings()
    def changes(
        self, point: Point, earlier: Point, batch: slice, limits: tuple[float, ...]
    ) -> tuple[np.ndarray, ...]:
        old, design = self.margins(earlier, batch), self.design
        most = limits[0] / (design.radius * design.feature_bound)
        half = self.gradient_of(self.margins(point, batch), batch, old, most)
        if design.alpha:
            moved = self.coefficients(point) - self.coefficients(earlier)
            half += design.alpha * design.radius * moved
        return (np.concatenate([half, -half]),)

    def gradient_of(
        self,
        margins: np.ndarray,
        batch: slice,
        earlier: np.ndarray | None = None,
        most: float = math.inf,
        factors: np.ndarray | None = None,
    ) -> np.ndarray:
        """Average ``radius * derivative(margin) * row`` over a batch; the last is the intercept.

        With margins of an `earlier` point: changes of the derivative, each at most `most`.
        `factors` multiply the derivatives of groups.
        """
        limit = self.design.derivative_bound

        def slopes(block: Block, of_point: np.ndarray) -> np.ndarray:
            part = self.part(of_point, batch, block)
            found = np.nan_to_num(self.loss.derivative(part, block.targets), nan=0.0)
            return np.clip(found, -limit, limit)

        def statistic(block: Block) -> np.ndarray:
            found = slopes(block, margins)
            if earlier is not None:
                found = np.clip(found - slopes(block, earlier), -most, most)
            if factors is not None:
                found = scaled_rows(found, factors[block.groups])
            return block.pull_back(found).ravel()

        total = self.records.total(statistic, part=self._records_of(batch))
        return np.asarray(total) * (self.design.radius / self.size(batch))

    def part(self, values: np.ndarray, batch: slice, block: Block) -> np.ndarray:
        """Return those of a block among values of the records of a batch."""
        assert isinstance(block.positions, slice)
        offset = self._records_of(batch).start
        return values[block.positions.start - offset : block.positions.stop - offset]

    def size(self, batch: slice) -> int:
        """Return what sums over a batch are divided by."""
        replaced = self.design.neighbouring.is_replaced
        return batch.stop - batch.start if replaced else self.design.n_records

    def values(self, point: Point, batch: slice) -> np.ndarray:
        targets = self.records.targets[self._records_of(batch)]
        return self.loss.value(self.margins(point, batch), targets)

    def coefficients(self, point: Point) -> np.ndarray:
        """Return the coefficients of a point, margin by margin, each with the intercept's last."""
        return vertex_coefficients(point[0], self.design.sizes[0] // 2, self.design.radius)


class GroupLinearProblem(LinearProblem):
    """A linear model in an l1 ball against groups: ``sum_g y_g c_g (1/n) sum_{i in g} loss_i(w)``.

    In units of the largest c_g, so that the public numbers hold for all c_g.
    """

    def __init__(
        self, records: Records, loss: Loss, design: LinearDesign, weights: GroupWeights
    ) -> None:
        weights.check_groups(records.groups)
        super().__init__(records, loss, design)
        self.weights = weights
        #: c_g in units of the largest one.
        self.factors = np.array(weights.largest) / weights.bound

    def _shares(self, groups: np.ndarray) -> np.ndarray:
        """Return weights of the groups, times their factors."""
        return np.bincount(groups, minlength=self.weights.n_groups) / len(groups) * self.factors

    @without_warnings()
    def values(self, point: Point, batch: slice) -> np.ndarray:
        drawn, groups = point
        return super().values((drawn,), batch) * self._shares(groups)[self.records.groups[batch]]

    @without_warnings()
    def gradients(self, point: Point, batch: slice) -> tuple[np.ndarray, ...]:
        drawn, groups = point
        margins, largest = self.margins((drawn,), batch), self.design.magnitudes[1]
        half = self.gradient_of(margins, batch, factors=self._shares(groups))
        if self.design.alpha:
            pull = self.design.alpha * self.design.radius / self.weights.bound
            half += pull * self.coefficients(point)

        def statistic(block: Block) -> np.ndarray:
            values = self.loss.value(self.part(margins, batch, block), block.targets)
            values = np.clip(np.nan_to_num(values, nan=0.0), 0.0, largest)
            return np.bincount(block.groups, values, self.weights.n_groups)

        losses = self.records.total(statistic, part=batch)
        return np.concatenate([half, -half]), losses * (self.factors / self.size(batch))


def vertex_coefficients(drawn: np.ndarray, width: int, radius: float) -> np.ndarray:
    """Average vertices of an l1 ball; the l1 norm of the result is at most `radius`."""
    counts = np.bincount(drawn, minlength=2 * width)
    weights = (counts[:width] - counts[width:]) * (radius / len(drawn))
    norm = math.fsum(np.abs(weights))
    return np.asarray(weights if norm <= radius else weights * (radius / norm * (1.0 - 4.0 * EPS)))


def column_margins(records: Records, weights: np.ndarray, batch: slice) -> np.ndarray:
    """Add up the columns of nonzero weights; a margin depends on its record alone."""
    margins = np.zeros(batch.stop - batch.start)
    X, d = records.matrix, records.matrix.shape[1]
    if records.intercept:
        margins += records.intercept * weights[d]
    if records.is_sparse:
        return margins + records.block(batch).matrix @ weights[:d]
    for j in np.flatnonzero(weights[:d]):
        margins += weights[j] * X[batch, j].astype(np.float64)
    return margins


def clipped_entries(X: Any, bound: float) -> Any:
    """Clip the entries of a dense or CSR matrix to ``[-bound, bound]``; a copy only if needed."""
    if X.dtype == np.float32 and float(np.float32(bound)) > bound:
        bound = float(np.nextafter(np.float32(bound), np.float32(0.0)))
    if sp.issparse(X):
        X = type(X)((X.data, X.indices, X.indptr), shape=X.shape)  # without stale flags
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
    if _is_within(X, 0.0, bound):
        return X
    if not sp.issparse(X):
        return np.clip(X, -bound, bound)
    return type(X)((np.clip(X.data, -bound, bound), X.indices, X.indptr), shape=X.shape)


def _is_within(X: Any, intercept: float, bound: float) -> bool:
    values = X.data if sp.issparse(X) else X
    inside = values.size == 0 or (values.max() <= bound and values.min() >= -bound)
    return bool(intercept <= bound and inside)
