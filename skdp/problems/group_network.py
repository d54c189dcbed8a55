"""The worst group's loss of a network with one hidden layer, as a minimax problem.

``min over x, max over y in the simplex of sum_g y_g c_g (1/n) sum_{i in g} loss_i(x)
- (nu/2) ||y - 1/G||^2``, x the weights of a network or, without hidden units, of a linear model.
The gradient of a record is an outer product per layer: its norm is a product of norms, and no
matrix of all records' gradients is formed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdp.problems.block import Block
from skdp.problems.domains import Simplex
from skdp.problems.losses import Loss
from skdp.problems.max_group_loss import GroupWeights
from skdp.problems.minimax import BlockName, MinimaxProblem, Point, clip_factors
from skdp.problems.records import Records
from skdp.problems.rounding import EPS, ROUNDING_SLACK

#: Bound on the derivative of the log losses with respect to the outputs: 1 and sqrt(2).
_DERIVATIVE = 2.0


@dataclass(frozen=True)
class Network:
    """Shape and scales of a network: ``z = B (tanh(s A row), 1) / sqrt(h + 1)``."""

    #: Features, the intercept feature included.
    width: int
    #: h; with 0 the network is ``z = A row``.
    hidden_units: int
    n_outputs: int
    #: s, in units of one over the norm of a row.
    input_scale: float

    @property
    def dimension(self) -> int:
        h = self.hidden_units
        return h * self.width + self.n_outputs * (h + 1) if h else self.n_outputs * self.width

    @property
    def output_scale(self) -> float:
        """Factor of the hidden features, whose norm is at most 1."""
        return 1.0 / math.sqrt(self.hidden_units + 1.0)

    def start(self, rng: np.random.Generator) -> np.ndarray:
        """Draw random hidden features; all outputs are 0."""
        x = np.zeros(self.dimension)
        if self.hidden_units:
            x[: self.hidden_units * self.width] = rng.standard_normal(
                self.hidden_units * self.width
            )
        return x

    def unpack(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return A and B; B is empty without hidden units."""
        h = self.hidden_units
        first = (h or self.n_outputs) * self.width
        A = x[:first].reshape(-1, self.width)
        return A, x[first:].reshape((self.n_outputs, h + 1) if h else (0, 1))

    def forward(self, block: Block, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the outputs (m, k) of a block and its hidden features (m, h + 1)."""
        A, B = self.unpack(x)
        margins = self.input_scale * block.margins(A).reshape(-1, len(A))
        if not self.hidden_units:
            return margins, np.zeros((len(margins), 0))
        features = np.empty((len(margins), self.hidden_units + 1))
        np.tanh(margins, out=features[:, :-1])
        features[:, -1] = 1.0
        features *= self.output_scale
        return features @ B.T, features

    def backward(self, x: np.ndarray, residuals: np.ndarray, features: np.ndarray) -> np.ndarray:
        """Return the factors (m, h) of the rows in the gradient of A."""
        if not self.hidden_units:
            return self.input_scale * residuals
        _, B = self.unpack(x)
        back = residuals @ B[:, :-1]
        # of tanh, from its values: features are those times the output scale
        slope = 1.0 - np.square(features[:, :-1] / self.output_scale)
        return np.asarray(self.input_scale * self.output_scale * back * slope)


class GroupNetworkProblem(MinimaxProblem):
    """The worst group's loss of a network; see the module.

    Records have targets in the encoding of the loss, and groups. alpha_y > 0 is nu: without it y is
    the worst group alone. alpha_x is that of an L2 penalty on x.
    """

    is_dual_linear = True

    def __init__(
        self,
        records: Records,
        loss: Loss,
        weights: GroupWeights,
        network: Network,
        alpha_y: float,
        alpha_x: float = 0.0,
    ) -> None:
        records.check_targets(loss)
        weights.check_groups(records.groups)
        self.records, self.loss, self.network = records, loss, network
        self.weights, self.has_public_groups = np.array(weights.largest), weights.public_groups
        self.alpha_x, self.alpha_y = alpha_x, alpha_y
        self.n_records, self.dimension_x = records.n_records, network.dimension
        self.dimension_y = weights.n_groups
        self.simplex, self.block_size = Simplex(weights.n_groups), records.block_size

    def best_dual(self, mean: np.ndarray) -> np.ndarray:
        """Return the weights of the groups with these sums of losses over n."""
        free = 1.0 / self.dimension_y + mean * self.weights / self.alpha_y
        free = np.nan_to_num(free, nan=0.0, posinf=1e100, neginf=-1e100)
        return np.asarray(self.simplex.project(free))

    def largest_weight(self, block: BlockName, point: Point) -> float:
        return 1.0 if block == "y" else float((point[1] * self.weights).max())

    def diameter(self, block: BlockName, anchor: Point | None) -> float:
        """Bound the distance of clipped vectors; docs/theory/dp_rgda.md, "Sensitivity"."""
        if block != "y" or anchor is not None:
            return 2.0
        # a loss from 0 to the limit, in the coordinate of the record's group
        return 1.0 if self.has_public_groups else math.sqrt(2.0) * ROUNDING_SLACK

    def public_gradient(self, point: Point) -> Point:
        # the dual is solved for: its regulariser has no part in it
        return self.alpha_x * point[0], np.zeros(self.dimension_y)

    def rounding_error(self, block: BlockName, point: Point, anchor: Point | None) -> float:
        """Bound the forward error of a record's vector; docs/theory/dp_rgda.md, "Rounding"."""
        if anchor is not None:
            return sum(self.rounding_error(block, each, None) for each in (point, anchor))
        network, loss = self.network, self.loss
        rows = network.input_scale * self.records.norm_bound
        products = 1.1 * EPS * (max(network.width, network.hidden_units) + 64.0)
        A, B = (float(np.linalg.norm(part)) for part in network.unpack(point[0]))
        unit = loss.target_bound or 1.0
        derivative = self._derivative_bound(B if network.hidden_units else rows * A)
        margins = products * rows * (A + (1.0 if network.hidden_units else unit))
        outputs, second = margins, rows
        if network.hidden_units:
            outputs = B * network.output_scale * margins + products * (B + unit)
            second = 1.0 + rows * B * network.output_scale
        if block == "y":
            return 8.0 * derivative * (outputs + products * max(unit, derivative))
        residuals = loss.curvature * outputs + products * derivative
        # the relative error of the hidden features and of their slopes
        relative = products + (2.0 * margins if network.hidden_units else 0.0)
        moved = residuals * second + derivative * relative * (1.0 + second)
        return 8.0 * self.largest_weight(block, point) * moved

    def _derivative_bound(self, outputs: float) -> float:
        """Bound the loss's derivative for outputs of a norm; that of log losses has one bound."""
        bound = 1.01 * self.loss.lipschitz(1.0, outputs)
        return bound if self.loss.target_bound else max(_DERIVATIVE, bound)

    def clipped_sum(
        self,
        block: BlockName,
        point: Point,
        anchor: Point | None,
        limit: float,
        batch: np.ndarray | None,
    ) -> np.ndarray:
        part = slice(None) if batch is None else batch
        if batch is not None and not len(batch):
            return np.zeros(self.dimension(block))
        if block == "y":
            total = self.records.total(
                lambda rows: self._losses(rows, point, anchor, limit), part=part
            )
            return np.asarray(total)
        if block == "joint":
            raise ValueError("The dual is linear: its blocks are released one after the other.")
        first, second = self.records.total(
            lambda rows: self._gradients(rows, point, anchor, limit), part=part
        )
        return np.concatenate([first.ravel(), second.ravel()])

    def _value(self, rows: Block, x: np.ndarray) -> np.ndarray:
        outputs, _ = self.network.forward(rows, x)
        return self.loss.value(_flat(outputs), rows.targets)

    def _losses(self, rows: Block, point: Point, anchor: Point | None, limit: float) -> np.ndarray:
        values = self._value(rows, point[0])
        if anchor is not None:
            values = values - self._value(rows, anchor[0])
        least = 0.0 if anchor is None else -limit
        values = np.clip(np.nan_to_num(values, nan=0.0), least, limit)
        return np.bincount(rows.groups, values, self.dimension_y)

    def _gradients(
        self, rows: Block, point: Point, anchor: Point | None, limit: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sum the clipped gradients of A and B over a block, or their changes."""
        factors, residuals, features = self._factors(rows, point)
        terms = [(residuals, features)]
        if anchor is not None:
            old_factors, old, before = self._factors(rows, anchor)
            factors = factors - old_factors
            # r f' - r0 f0' = (r - r0) f' + r0 (f - f0)', whose norm is at most the sum of two
            terms = [(residuals - old, features), (old, features - before)]
        sizes = [np.linalg.norm(r, axis=1) * np.linalg.norm(f, axis=1) for r, f in terms]
        length = np.hypot(np.linalg.norm(factors, axis=1) * rows.norms(), sum(sizes))
        scale = clip_factors(length, limit)[:, None]
        second = sum((scale * r).T @ f for r, f in terms)
        return rows.pull_back(_flat(scale * factors)), np.asarray(second)

    def _factors(self, rows: Block, point: Point) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the factors of the rows, the weighted residuals and the hidden features."""
        x, y = point
        outputs, features = self.network.forward(rows, x)
        residuals = self.loss.derivative(_flat(outputs), rows.targets)
        residuals = np.nan_to_num(residuals, nan=0.0, posinf=0.0, neginf=0.0)
        weighted = residuals.reshape(len(outputs), -1) * (y * self.weights)[rows.groups][:, None]
        return self.network.backward(x, weighted, features), weighted, features


def _flat(columns: np.ndarray) -> np.ndarray:
    return columns[:, 0] if columns.shape[1] == 1 else columns
