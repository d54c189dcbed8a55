"""The worst group's loss as a saddle problem: weights on the groups against one predictor.

``min over w in a ball, max over a of (1/n) sum_i a_{g_i} loss_i(w)`` plus quadratic regularisers,
over weights ``0 <= a_g <= W`` with ``sum_g p_g a_g = 1``. With the sizes of the groups as p and W
large the maximum would be the largest mean loss of a group, but one record that changes its group
would change the weights of all others, and the sensitivity would not shrink with n: p is public, or
released. Proofs: docs/theory/saddle.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from skdp._checks import check_positive
from skdp.problems.block import Block
from skdp.problems.constants import Design
from skdp.problems.domains import SHARE_UNIT, Ball, CappedSimplex
from skdp.problems.losses import Loss
from skdp.problems.matrices import scaled_rows
from skdp.problems.records import Records
from skdp.problems.rounding import chain
from skdp.problems.saddle import BlockConstants, Pair, Response, SaddleConstants, SaddleProblem

#: Least share of a group: rounding grows with its inverse.
_LEAST_SHARE = 2.0**-14


@dataclass(frozen=True)
class GroupWeights:
    """Bounds on the weights of the groups' records."""

    #: One number per group, > 0.
    largest: tuple[float, ...]
    #: The groups' proportions, see :class:`CappedSimplex`. None: equal ones.
    shares: tuple[float, ...] | None = None
    #: Neighbours have the same groups: membership is not protected.
    public_groups: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "largest", tuple(float(weight) for weight in self.largest))
        if not self.largest:
            raise ValueError("There must be at least one group.")
        for weight in self.largest:
            check_positive(weight=weight)

    @classmethod
    def of_proportions(
        cls, proportions: Iterable[float], bound: float, *, public_groups: bool = False
    ) -> GroupWeights:
        """Clip ``1 / p_g`` at `bound`, for groups of these public proportions, scaled to sum 1.

        Where p_g is 0 it is the bound, or the least of the others if groups are public.
        """
        p = np.array([float(share) for share in proportions])
        absent = p.max() if public_groups and p.size and p.max() > 0 else _LEAST_SHARE
        p = np.maximum(np.where(p > 0, p, absent), _LEAST_SHARE)
        p /= p.sum()
        return cls(tuple(np.minimum(1.0 / p, bound).tolist()), _whole(p), public_groups)

    def capped(self, bound: float) -> GroupWeights:
        """Return weights with another bound."""
        shares = self.domain.shares
        return self.of_proportions(shares, bound, public_groups=self.public_groups)

    @property
    def domain(self) -> CappedSimplex:
        """The weights of the groups' records in saddle problems."""
        shares = _whole(np.ones(self.n_groups)) if self.shares is None else self.shares
        return CappedSimplex(shares, max(1.0, self.bound))

    @property
    def n_groups(self) -> int:
        return len(self.largest)

    @property
    def bound(self) -> float:
        """The largest of all."""
        return max(self.largest)

    def check_groups(self, groups: np.ndarray | None) -> None:
        """Raise a ValueError unless there is an integer from 0 to n_groups - 1 per record."""
        if groups is None or groups.ndim != 1:
            raise ValueError("The records need one group each.")
        if groups.dtype.kind not in "iu" or not ((groups >= 0) & (groups < self.n_groups)).all():
            raise ValueError(f"groups must be integers in 0, ..., {self.n_groups - 1}.")

    def ranges(
        self, lipschitz: float, gradient_diameter: float, largest_loss: float
    ) -> tuple[tuple[float, float], ...]:
        """Pairs (G_x, G_y) of :class:`skdp.problems.SaddleConstants`.

        L, D and B bound the norm of a record's gradient, the distance of two of them and the loss,
        which is not negative; W is the largest weight, s the largest sum of two groups' weights.

        - Same group: ``(W D, B sqrt(1 - min p^2 / |p|^2))``, the only case if groups are public.
        - Two groups: ``(s L, B sqrt(2 - min (p_g - p_h)^2 / |p|^2))``.

        G_y is 0 for W = 1. Proof: docs/theory/saddle.md, Lemma S1.
        """
        p, c = np.sort(self.domain.shares), self.domain.largest
        square, moves = float(p @ p), largest_loss * (c > 1.0)
        same = c * gradient_diameter, moves * math.sqrt(max(0.0, 1.0 - p[0] ** 2 / square))
        if self.public_groups or self.n_groups == 1:
            return (same,)
        pair = c + min(c, max(0.0, 1.0 - p[0] * c) / p[1])
        apart = math.sqrt(2.0 - float(np.diff(p).min()) ** 2 / square)
        return same, (pair * lipschitz, apart * moves)


def _whole(shares: np.ndarray) -> tuple[float, ...]:
    """Scale positive shares to sum 1, as multiples of the unit."""
    units = np.rint(shares / shares.sum() / SHARE_UNIT)
    units[np.argmax(units)] += 1.0 / SHARE_UNIT - units.sum()
    return tuple((SHARE_UNIT * units).tolist())


def max_group_loss_constants(
    loss: Loss,
    weights: GroupWeights,
    design: Design,
    radius: float,
    alpha_x: float,
    alpha_y: float,
) -> SaddleConstants:
    """Return the public constants of :class:`MaxGroupLossProblem`; no record enters.

    The loss must be smooth, never negative, and bounded on the ball of w, which has the `radius`.
    `alpha_x` and `alpha_y` are those of the regularisers of w, around 0, and of the weights.
    """
    feature_norm = design.feature_norm
    lipschitz = loss.lipschitz(feature_norm, radius)
    diameter = min(loss.gradient_diameter(feature_norm, radius), 2.0 * lipschitz)
    if design.is_slack:  # a record of weight 0: docs/theory/persons.md, Lemma E
        diameter = max(diameter, lipschitz)
    largest_loss = loss.largest_value(feature_norm, radius)
    smoothness = loss.smoothness(feature_norm)
    if not (math.isfinite(largest_loss) and math.isfinite(smoothness)):
        raise ValueError(f"{loss!r} is not smooth or not bounded on a ball.")
    domain, n_groups = weights.domain, weights.n_groups
    c = domain.largest
    return SaddleConstants(
        n_records=design.n_records,
        x=BlockConstants.on(
            Ball(radius),
            loss.n_outputs * design.width,
            modulus=alpha_x,
            lipschitz=c * lipschitz,
            smoothness=c * smoothness,
        ),
        y=BlockConstants.on(
            domain, n_groups, domain.center(n_groups), modulus=alpha_y, lipschitz=largest_loss
        ),
        coupling=lipschitz,
        gradient_ranges=weights.ranges(lipschitz, diameter, largest_loss),
        # a person has any number of records
        summation_chain=chain(design.n_terms if design.of_persons else design.n_records),
    )


class MaxGroupLossProblem(SaddleProblem):
    """The worst group's loss; y are the weights of the groups' records.

    It is convex in w, because the weights are not negative, and linear in y. Empty groups have loss
    0. Records have targets in the encoding of the loss (see :func:`max_group_loss_constants`), and
    groups 0, ..., n_groups - 1. `radius` is that of the ball of w; the centers are 0 and the weight
    1 for all.
    """

    offers = frozenset({"hessian", "records"})

    def __init__(
        self,
        records: Records,
        loss: Loss,
        weights: GroupWeights,
        radius: float,
        alpha_x: float,
        alpha_y: float,
    ) -> None:
        records.check_targets(loss)
        weights.check_groups(records.groups)
        domain, center = weights.domain, weights.domain.center(weights.n_groups)
        constants = max_group_loss_constants(
            loss, weights, Design.of(records), float(radius), float(alpha_x), float(alpha_y)
        )
        super().__init__(Ball(float(radius)), domain, constants, center_y=center)
        self.records, self.loss, self.weights = records, loss, weights
        if records.shares is not None and weights.public_groups:
            raise ValueError("The sizes of groups of weighted records are not public.")

    def _keep(self, positions: np.ndarray) -> None:
        self.records = self.records.take(self.records.records_of(positions))

    def for_solver(self) -> MaxGroupLossProblem:
        other = super().for_solver()
        other.records = self.records.read_only_copy()
        return other

    def group_losses(self, x: np.ndarray) -> np.ndarray:
        """Return ``(1/n) sum_{i in g} loss_i``, the gradient in y, shape (n_groups,)."""
        losses = self.records.total(lambda block: self._losses(block, x)[0])
        return np.asarray(losses / self.n_records)

    def value(self, x: np.ndarray, y: np.ndarray) -> float:
        return float(y @ self.group_losses(x)) + self.regulariser(x, y)

    def data_operator(self, x: np.ndarray, y: np.ndarray) -> Pair:
        gradient, sums = self.records.total(lambda block: self._sums(block, x, y))
        return gradient.ravel() / self.n_records, -sums / self.n_records

    def batch_operator(self, positions: slice | np.ndarray, x: np.ndarray, y: np.ndarray) -> Pair:
        units = np.arange(self.n_records)[positions]
        if self.records.persons is not None:  # batches of persons
            positions = self.records.records_of(units)
        gradient, sums = self._sums(self.records.block(positions), x, y)
        size = max(1, len(units))
        return gradient.ravel() / size, -sums / size

    def _sums(self, block: Block, x: np.ndarray, y: np.ndarray) -> Pair:
        """Return the sums of weighted gradients in x and of losses by group."""
        losses, residuals = self._losses(block, x)
        push = y[block.groups]
        return block.pull_back(scaled_rows(residuals, push)), losses

    def _losses(self, block: Block, x: np.ndarray) -> Pair:
        """Return the sums of losses by group, and the records' residuals."""
        margins = block.margins(self._unpack(x))
        values, residuals = self.loss.value_and_derivative(margins, block.targets)
        return np.bincount(block.groups, block.weighted(values), self.weights.n_groups), residuals

    def best_response(self, x: np.ndarray) -> Response:
        losses = self.group_losses(x)
        free = self.center_y + losses / self.alpha_y
        y = self.domain_y.project(free)
        value = float(y @ losses) + self.regulariser(x, y)
        return Response(y, free, self.data_operator(x, y)[0], value)

    def hessian_x(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        weights, push = self._unpack(x), y / self.n_records

        def curvature(block: Block) -> np.ndarray:
            second = self.loss.second_derivative(block.margins(weights), block.targets)
            return scaled_rows(second, push[block.groups])

        return self.records.gram(curvature, self.loss.n_outputs)

    def cross_derivative(self, x: np.ndarray) -> np.ndarray:
        weights, k, n_groups = self._unpack(x), self.loss.n_outputs, self.weights.n_groups

        def statistic(block: Block) -> np.ndarray:
            residuals = self.loss.derivative(block.margins(weights), block.targets)
            member = block.groups[:, None] == np.arange(n_groups)
            apart = residuals.reshape(-1, 1, k) * member[:, :, None]
            return block.pull_back(apart.reshape(len(apart), -1))

        gradients = self.records.total(statistic).reshape(n_groups, -1)
        return np.asarray(gradients / self.n_records)

    def _unpack(self, x: np.ndarray) -> np.ndarray:
        return x.reshape(self.loss.n_outputs, self.records.width)
