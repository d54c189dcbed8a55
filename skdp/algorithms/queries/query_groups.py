"""Groups of linear queries that are measured together, and what was measured of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

import numpy as np

from skdp.algorithms.queries import rules
from skdp.algorithms.queries.log_linear import Columns, LogLinearModel, MatrixModel, junction_tree
from skdp.problems import Marginals, QueryMatrix, Workload
from skdp.problems.categorical import CategoricalTable

#: Most cells of the cliques of a model.
MAX_CELLS = 1 << 16


class MarginalGroups:
    """Marginals of up to some number of columns: groups of queries by keys, their columns."""

    #: What one record that is replaced moves the sums of a group by, also in the l1 norm; and a
    #: bound on the absolute value of a query.
    sensitivity, distance, largest = math.sqrt(2.0), 2.0, 1.0

    def __init__(self, workload: Marginals) -> None:
        self.sizes = workload.sizes
        columns = range(len(self.sizes))
        #: Groups that are measured before all others.
        self.first: tuple[Columns, ...] = tuple((c,) for c in columns)
        orders = range(2, workload.order + 1)
        every = (key for k in orders for key in itertools.combinations(columns, k))
        #: Groups that may be drawn.
        self.candidates: tuple[Columns, ...] = tuple(key for key in every if self._fits([key]))

    def _fits(self, keys: Iterable[Columns]) -> bool:
        # marginals of single columns are there anyway
        extra = sum(self.sizes)
        return junction_tree(self.sizes, keys).n_cells(self.sizes) <= MAX_CELLS + extra

    def n_queries(self, key: Columns) -> int:
        """Return the number of queries of a group."""
        return math.prod(self.sizes[c] for c in key)

    def marginals(self, keys: Iterable[Columns]) -> tuple[Columns, ...]:
        """Return the columns of the marginals whose counts the sums of some groups need."""
        return tuple(keys)

    def sums(self, records: CategoricalTable, key: Columns) -> np.ndarray:
        """Sum the queries of a group over the records, without rounding."""
        return records.counts(key)

    def model(self, keys: Iterable[Columns]) -> LogLinearModel:
        """Make the model with parameters for some groups."""
        return LogLinearModel(self.sizes, keys)

    def answers(self, model: LogLinearModel, key: Columns) -> np.ndarray:
        """Answer the queries of a group on a model."""
        return model.marginal(key)

    def possible(self, measured: Iterable[Columns]) -> list[Columns]:
        """Return the candidates that a model can take in, besides those measured."""
        keys = list(measured)
        cliques = [set(clique) for clique in junction_tree(self.sizes, keys).cliques]
        return [
            key
            for key in self.candidates
            if any(set(key) <= clique for clique in cliques) or self._fits([*keys, key])
        ]


class MatrixGroups:
    """The rows of a matrix of queries, one by one."""

    first: tuple[Columns, ...] = ()

    def __init__(self, workload: QueryMatrix) -> None:
        self.sizes, self._workload = workload.sizes, workload
        self.candidates: tuple[Columns, ...] = tuple((j,) for j in range(workload.n_queries))
        self.sensitivity = self.distance = workload.range
        self.largest = workload.largest

    def n_queries(self, key: Columns) -> int:
        return 1

    def marginals(self, keys: Iterable[Columns]) -> tuple[Columns, ...]:
        return self._workload.marginals

    def sums(self, records: CategoricalTable, key: Columns) -> np.ndarray:
        return self._workload.sums(records)[key[0]]

    def model(self, keys: Iterable[Columns]) -> LogLinearModel:
        return MatrixModel(self.sizes, self._workload.matrix, keys)

    def answers(self, model: LogLinearModel, key: Columns) -> np.ndarray:
        return np.asarray(self._workload.matrix[key[0]] @ model.beliefs[0].ravel())

    def possible(self, measured: Iterable[Columns]) -> list[Columns]:
        return list(self.candidates)


Groups = MarginalGroups | MatrixGroups


def groups_of(workload: Workload) -> Groups:
    """Make the groups of a workload."""
    if isinstance(workload, Marginals):
        return MarginalGroups(workload)
    if isinstance(workload, QueryMatrix):
        return MatrixGroups(workload)
    raise TypeError(f"no groups for {type(workload).__name__}.")


class Measurements:
    """Noisy answers of groups, repeated ones combined, and the model that is fitted to them."""

    def __init__(self, groups: Groups) -> None:
        self.groups, self.model = groups, groups.model(())
        self.values: dict[Columns, np.ndarray] = {}
        self.variances: dict[Columns, float] = {}

    def add(self, key: Columns, value: np.ndarray, variance: float) -> None:
        """Add a measurement; the mean by inverse variances with earlier ones of the group."""
        if key in self.values:
            old = self.variances[key]
            weight = old / (old + variance)
            value = self.values[key] + weight * (value - self.values[key])
            variance = variance * weight
        self.values[key], self.variances[key] = value, variance

    def fit(self, max_iter: int) -> None:
        """Fit the model anew, from the parameters that it has."""
        old, self.model = self.model, self.groups.model(self.values)
        for key in old.parameters.keys() & self.model.parameters.keys():
            self.model.parameters[key] = old.parameters[key]
        # the weight of the entropy is that of the most accurate measurement
        weight = rules.ENTROPY / math.sqrt(min(self.variances.values()))
        variances = {key: weight * variance for key, variance in self.variances.items()}
        self.model.fit(self.values, variances, max_iter)
