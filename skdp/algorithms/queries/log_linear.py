"""Log-linear distributions on categorical records: fit, marginals and samples, by junction trees.

A distribution ``x(z)`` proportional to ``exp(sum_m theta_m(z_m))``, one table of parameters theta_m
for each of some sets of columns (marginals). These are the iterates of entropic mirror descent
from the uniform start whose gradients are tables on marginals. A junction tree holds such a
distribution by the marginals of its cliques, so the universe of all conceivable records, which may
have billions of members, is never made. Everything here works on released numbers: it is
post-processing and costs no privacy.

References
----------
.. [1] D. Koller, N. Friedman, "Probabilistic graphical models", MIT Press 2009, chapters 9, 10.
.. [2] R. McKenna, D. Sheldon, G. Miklau, "Graphical-model based estimation and inference for
   differential privacy", ICML 2019.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

from skdp.algorithms.plan import Result

Columns = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class ModelResult(Result):
    """A fitted model, and as its point the parameters or the table that it consists of."""

    model: Any


@dataclass(frozen=True, kw_only=True)
class JunctionTree:
    """Cliques of columns, each column in a connected part of the tree."""

    #: Columns in increasing order; parents come before their children.
    cliques: tuple[Columns, ...]
    #: Position of the parent; -1 for the root.
    parents: tuple[int, ...]
    #: Columns shared with the parent.
    separators: tuple[Columns, ...]

    def n_cells(self, sizes: Sequence[int]) -> int:
        """Return the number of cells of all cliques."""
        return sum(math.prod(sizes[c] for c in clique) for clique in self.cliques)


def junction_tree(sizes: Sequence[int], marginals: Iterable[Columns]) -> JunctionTree:
    """Make a junction tree that has a clique around each of some sets of columns.

    Columns are eliminated in greedy order, the one with the smallest clique first.
    """
    neighbours: dict[int, set[int]] = {c: set() for c in range(len(sizes))}
    for marginal in marginals:
        for c in marginal:
            neighbours[c].update(set(marginal) - {c})
    found: list[set[int]] = []
    while neighbours:
        column = min(
            neighbours,
            key=lambda c: (sizes[c] * math.prod(sizes[b] for b in neighbours[c]), c),
        )
        others = neighbours.pop(column)
        for c in others:
            neighbours[c].update(others - {c})
            neighbours[c].discard(column)
        clique = others | {column}
        if not any(clique <= other for other in found):
            found.append(clique)
    return _spanning_tree([tuple(sorted(clique)) for clique in found])


def _spanning_tree(cliques: list[Columns]) -> JunctionTree:
    """Connect cliques by the largest separators (Prim), which makes a junction tree of them."""
    order, parents = [0], [-1]
    separators: list[Columns] = [()]
    best = {k: (len(set(cliques[k]) & set(cliques[0])), 0) for k in range(1, len(cliques))}
    while best:
        k = max(best, key=lambda j: (best[j][0], -j))
        _, parent = best.pop(k)
        position = len(order)
        order.append(k)
        parents.append(parent)
        separators.append(tuple(sorted(set(cliques[k]) & set(cliques[order[parent]]))))
        for j in best:
            shared = len(set(cliques[j]) & set(cliques[k]))
            if shared > best[j][0]:
                best[j] = (shared, position)
    return JunctionTree(
        cliques=tuple(cliques[k] for k in order),
        parents=tuple(parents),
        separators=tuple(separators),
    )


class LogLinearModel:
    """A distribution of the records of a table with some numbers of categories per column.

    `marginals` are the sets of columns, in increasing order, that have parameters; with none of
    them the distribution is uniform.
    """

    def __init__(self, sizes: Sequence[int], marginals: Iterable[Columns] = ()) -> None:
        self.sizes = tuple(int(size) for size in sizes)
        self.marginals = tuple(sorted(set(marginals)))
        self.tree = junction_tree(self.sizes, self.marginals)
        self._homes = {marginal: self._home(marginal) for marginal in self.marginals}
        self.parameters = {m: np.zeros(self.shape(m)) for m in self.marginals}
        #: Marginal distribution of each clique.
        self.beliefs: list[np.ndarray] = []
        self._calibrate()

    def shape(self, columns: Columns) -> tuple[int, ...]:
        """Shape of a table on some columns."""
        return tuple(self.sizes[c] for c in columns)

    def _home(self, columns: Columns) -> int:
        """Position of the smallest clique around some columns; -1 if there is none."""
        around = [k for k, clique in enumerate(self.tree.cliques) if set(columns) <= set(clique)]
        return min(around, key=lambda k: math.prod(self.shape(self.tree.cliques[k])), default=-1)

    def _calibrate(self) -> float:
        """Compute the beliefs of the parameters; return the logarithm of the normaliser."""
        cliques, parents, separators = self.tree.cliques, self.tree.parents, self.tree.separators
        logs = [np.zeros(self.shape(clique)) for clique in cliques]
        for marginal, home in self._homes.items():
            logs[home] += _spread(self.parameters[marginal], marginal, cliques[home])
        messages: list[np.ndarray] = [np.zeros(())] * len(cliques)
        for k in range(len(cliques) - 1, 0, -1):
            messages[k] = _log_sum(logs[k], cliques[k], separators[k])
            logs[parents[k]] += _spread(messages[k], separators[k], cliques[parents[k]])
        log_normaliser = float(_log_sum(logs[0], cliques[0], ()))
        for k in range(1, len(cliques)):
            down = _log_sum(logs[parents[k]], cliques[parents[k]], separators[k]) - messages[k]
            logs[k] += _spread(down, separators[k], cliques[k])
        self.beliefs = [np.exp(log - log_normaliser) for log in logs]
        return log_normaliser

    def marginal(self, columns: Sequence[int]) -> np.ndarray:
        """Compute the distribution of some columns, in any order, a table on these."""
        ordered = tuple(sorted(columns))
        home = self._home(ordered)
        if home >= 0:
            table = _sum(self.beliefs[home], self.tree.cliques[home], ordered)
        else:
            table = self._eliminate(ordered)
        return np.transpose(table, [ordered.index(c) for c in columns])

    def _conditionals(self, columns: Iterable[int]) -> list[tuple[Columns, np.ndarray]]:
        """Return factors, clique given separator, whose product has the law of some columns."""
        needed, factors = set(columns), []
        for k in range(len(self.tree.cliques) - 1, -1, -1):
            clique, separator = self.tree.cliques[k], self.tree.separators[k]
            if needed & (set(clique) - set(separator)):
                needed |= set(clique)
                table = self.beliefs[k]
                given = _spread(_sum(table, clique, separator), separator, clique)
                quotient = np.divide(table, given, out=np.zeros_like(table), where=given > 0)
                factors.append((clique, quotient))
        return factors

    def _eliminate(self, columns: Columns) -> np.ndarray:
        """Multiply the factors of some columns and sum the others out, cheapest first."""
        factors = self._conditionals(columns)
        todo = {c for scope, _ in factors for c in scope} - set(columns)
        while todo:
            unions = {c: set().union(*(scope for scope, _ in factors if c in scope)) for c in todo}
            column = min(todo, key=lambda c: (math.prod(self.sizes[b] for b in unions[c]), c))
            todo.remove(column)
            joined = [factor for factor in factors if column in factor[0]]
            factors = [factor for factor in factors if column not in factor[0]]
            factors.append(_product(joined, tuple(sorted(unions[column] - {column}))))
        return _product(factors, columns)[1]

    def expected(self, key: Columns) -> np.ndarray:
        """Compute what a parameter multiplies, on average: here the marginal distribution."""
        home = self._homes[key]
        return _sum(self.beliefs[home], self.tree.cliques[home], key)

    def table(self) -> np.ndarray:
        """Write the distribution of the whole universe out, shape `sizes`."""
        return self.marginal(range(len(self.sizes)))

    def fit(
        self,
        targets: dict[Columns, np.ndarray],
        variances: dict[Columns, float],
        max_iter: int,
    ) -> None:
        """Fit the parameters to noisy marginals, from where they are.

        Minimises ``KL(x, uniform) + sum_m ||x_m - target_m||^2 / (2 variance_m)`` over all
        distributions x. The dual problem is smooth and unconstrained in the parameters, with the
        gradient ``x_m - target_m + variance_m theta_m``. Targets need not be distributions;
        variances are those of their entries, times the weight of the entropy.
        """
        keys = [key for key in self.parameters if key in targets]
        target = np.concatenate([np.ravel(targets[key]) for key in keys])
        sizes = [np.size(targets[key]) for key in keys]
        ends = np.cumsum(sizes)[:-1]
        variance = np.repeat([variances[key] for key in keys], sizes)
        # the curvature of the dual is about the probability of the cell plus the variance
        scale = 1.0 / np.sqrt(np.clip(target, 0.0, 1.0) + variance)

        def dual(scaled: np.ndarray) -> tuple[float, np.ndarray]:
            theta = scale * scaled
            for key, part in zip(keys, np.split(theta, ends), strict=True):
                self.parameters[key] = part.reshape(np.shape(targets[key]))
            value = self._calibrate() - theta @ target + 0.5 * (variance * theta) @ theta
            expected = np.concatenate([np.ravel(self.expected(key)) for key in keys])
            return value, scale * (expected - target + variance * theta)

        start = np.concatenate([self.parameters[key].ravel() for key in keys]) / scale
        options = {"maxiter": max_iter, "maxfun": 2 * max_iter, "gtol": 1e-9, "ftol": 1e-14}
        dual(minimize(dual, start, jac=True, method="L-BFGS-B", options=options).x)

    def sample(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """Draw records, shape (n_samples, n_columns), in a random order.

        Each has the law of the model. They are not independent: categories of a column, given
        those drawn before it, are drawn systematically (at equal steps of the distribution
        function), so that marginals vary less than those of independent draws.
        """
        codes = np.zeros((n_samples, len(self.sizes)), dtype=np.intp)
        for k, (clique, separator) in enumerate(
            zip(self.tree.cliques, self.tree.separators, strict=True)
        ):
            rest = tuple(c for c in clique if c not in separator)
            if not rest:
                continue
            axes = [clique.index(c) for c in (*separator, *rest)]
            width = math.prod(self.shape(rest))
            table = np.transpose(self.beliefs[k], axes).reshape(-1, width)
            groups = np.zeros(n_samples, dtype=np.intp)
            if separator:
                groups = np.ravel_multi_index(
                    tuple(codes[:, c] for c in separator), self.shape(separator)
                )
            cells = systematic(table, groups, rng)
            for c, values in zip(rest, np.unravel_index(cells, self.shape(rest)), strict=True):
                codes[:, c] = values
        return codes


class MatrixModel(LogLinearModel):
    """A log-linear distribution of queries that are rows of a matrix, on a universe written out.

    `rows` has ``(j,)`` for each query j that has a parameter.
    """

    def __init__(
        self, sizes: Sequence[int], matrix: np.ndarray, rows: Iterable[Columns] = ()
    ) -> None:
        self._rows = {row: matrix[row[0]] for row in rows}
        super().__init__(sizes, [tuple(range(len(sizes)))])
        self.parameters = {row: np.zeros(()) for row in self._rows}

    def _calibrate(self) -> float:
        parts = (self.parameters.get(row, 0.0) * query for row, query in self._rows.items())
        logs = np.zeros(math.prod(self.sizes)) + sum(parts)
        top = float(logs.max())
        table = np.exp(logs - top)
        total = float(table.sum())
        self.beliefs = [(table / total).reshape(self.sizes)]
        return top + math.log(total)

    def expected(self, key: Columns) -> np.ndarray:
        return np.asarray(self._rows[key] @ self.beliefs[0].ravel())


def dense_model(table: np.ndarray) -> LogLinearModel:
    """Make a model of a distribution that is written out."""
    model = LogLinearModel(table.shape, [tuple(range(table.ndim))])
    model.beliefs = [table]
    return model


def systematic(table: np.ndarray, groups: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a column of `table` for each entry of `groups`, with the probabilities of that row."""
    totals = table.sum(axis=1, keepdims=True)
    uniform = np.full_like(table, 1.0 / table.shape[1])
    distribution = np.cumsum(np.divide(table, totals, out=uniform, where=totals > 0), axis=1)
    distribution /= distribution[:, -1:]
    order = rng.permutation(len(groups))
    order = order[np.argsort(groups[order], kind="stable")]
    sizes = np.bincount(groups, minlength=len(table))
    own = groups[order]
    ranks = np.arange(len(groups)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    positions = (ranks + rng.random(len(table))[own]) / sizes[own]
    flat = (distribution + np.arange(len(table))[:, None]).ravel()
    found = np.searchsorted(flat, own + positions, side="right") - own * table.shape[1]
    cells = np.empty(len(groups), dtype=np.intp)
    cells[order] = np.clip(found, 0, table.shape[1] - 1)
    return cells


def _spread(table: np.ndarray, columns: Columns, into: Columns) -> np.ndarray:
    """Return a view of a table that broadcasts to a larger set of columns."""
    shape = iter(table.shape)
    return table.reshape([next(shape) if c in columns else 1 for c in into])


def _sum(table: np.ndarray, columns: Columns, kept: Columns) -> np.ndarray:
    return table.sum(axis=tuple(k for k, c in enumerate(columns) if c not in kept))


def _log_sum(table: np.ndarray, columns: Columns, kept: Columns) -> np.ndarray:
    axes = tuple(k for k, c in enumerate(columns) if c not in kept)
    if not axes:
        return table
    top = table.max(axis=axes, keepdims=True)
    return np.log(np.exp(table - top).sum(axis=axes)) + top.squeeze(axes)


def _product(
    factors: Sequence[tuple[Columns, np.ndarray]], kept: Columns
) -> tuple[Columns, np.ndarray]:
    """Multiply factors and sum out all columns but those kept."""
    scope = tuple(sorted(set().union(*(columns for columns, _ in factors))))
    result = np.ones(())
    for columns, table in factors:
        result = result * _spread(table, columns, scope)
    return kept, _sum(np.asarray(result), scope, kept)
