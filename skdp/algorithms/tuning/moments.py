"""Noisy second moments of rows and targets: all that least squares needs of the records."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from skdp._checks import check_positive
from skdp._runtime import without_warnings
from skdp.mechanisms import AdditiveMechanism, NoiseSource, calibrated_mechanism
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import Neighbouring
from skdp.privacy.report import Release
from skdp.problems import ROUNDING_SLACK, Design, HalfSquaredLoss, LogisticLoss, Records
from skdp.problems.block import Block
from skdp.problems.rounding import two_products, two_sums


def mean_rounding(design: Design) -> float:
    """Bound the rounding of a mean of products, relative to the bound on a product.

    Under add/remove there are at most ``size_ratio`` times as many terms as the nominal size that
    the sum is divided by.
    """
    n = math.ceil(design.n_terms)
    return float(two_sums(n) * design.size_ratio)


def position_rounding(design: Design) -> float:
    """Bound how far a mean of products moves where records are elsewhere in the table.

    Relative to the bound on a product. The norms that rows are scaled by, and products of rows, may
    come out in other last bits.
    """
    return two_products(design.width, design.size_ratio)


@dataclass(frozen=True, kw_only=True)
class MomentsPlan:
    """Release of the moments of a design.

    A target counts as a feature ``gamma * t``, gamma its `weight`. The noise is for the symmetric
    matrix in its orthonormal coordinates (:func:`pack`).
    """

    design: Design
    target_bound: float
    weight: float
    mechanism: AdditiveMechanism
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE

    @property
    def dimension(self) -> int:
        """Number of different entries of the matrix."""
        return (self.design.width + 1) * (self.design.width + 2) // 2

    @cached_property
    def deviation(self) -> float:
        """Standard deviation of the noise of one orthonormal coordinate."""
        return math.sqrt(self.mechanism.mean_square(self.dimension) / self.dimension)

    @property
    def release(self) -> Release:
        """The statement about all records."""
        reference = "docs/theory/tuning.md, Lemma 1: moments of rows and scaled targets"
        n_records = self.design.n_records
        return self.mechanism.describe(
            "second moments", self.dimension, n_records, reference, self.neighbouring
        )

    def to_dict(self) -> dict[str, Any]:
        return {"target_weight": self.weight, "moment_noise": self.mechanism.noise_scale}


@dataclass(frozen=True, kw_only=True)
class PrivateMoments:
    """Released moments ``H = mean x x'``, ``c = mean t x``, ``q = mean t^2`` of some records.

    The matrix H need not be positive semi-definite. The noise of its diagonal entries has the given
    deviation, off the diagonal ``1 / sqrt(2)`` times that, and that of c the `vector_deviation`.
    """

    matrix: np.ndarray
    vector: np.ndarray
    square: float
    deviation: float
    vector_deviation: float
    n_records: int

    def rescaled(self, feature_unit: float, target_unit: float = 1.0) -> PrivateMoments:
        """Divide rows and targets by units."""
        return PrivateMoments(
            matrix=self.matrix / feature_unit / feature_unit,
            vector=self.vector / feature_unit / target_unit,
            square=self.square / target_unit / target_unit,
            deviation=self.deviation / feature_unit / feature_unit,
            vector_deviation=self.vector_deviation / feature_unit / target_unit,
            n_records=self.n_records,
        )


def plan_private_moments(
    budget: PrivacyBudget,
    design: Design,
    *,
    target_bound: float,
    coef_norm: float,
    share: float = 1.0,
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE,
) -> MomentsPlan:
    """Fix the weight of the targets and the noise.

    With ``u = (x, gamma t)`` a record has ``||u||^2 <= U = X^2 + gamma^2 Y^2``, and
    ``||u u' - v v'||_F^2 = ||u||^4 + ||v||^4 - 2 <u, v>^2 <= 2 U^2``: the mean of ``u u'`` moves by
    at most ``sqrt(2) U / n`` in the Frobenius norm, in which the entries of the diagonal and
    sqrt(2) times those above it are orthonormal coordinates (docs/theory/tuning.md, Lemma 1).
    One record added or removed moves the sum over the nominal size by ``||u u'||_F / n <= U / n``.
    Two releases, of c and of H, would need more noise.

    The weight minimises the noise that ``H w - c`` has at a predictor of norm `coef_norm`,
    ``U^2 (||w||^2 + 1 / gamma^2)``: with ``k = ||w|| X / Y``, ``gamma^2 Y^2 / X^2`` is
    ``2 / (1 + sqrt(1 + 8 k^2))``.

    Y is the bound on targets.
    """
    check_positive(target_bound=target_bound, coef_norm=coef_norm)
    norm = design.feature_norm
    k = coef_norm * norm / target_bound
    ratio = 2.0 / (1.0 + math.sqrt(1.0 + 8.0 * k**2))
    weight = math.sqrt(ratio) * norm / target_bound
    bound = norm**2 * (1.0 + ratio)
    sensitivity = math.sqrt(neighbouring.n_changes) * bound / design.n_records * ROUNDING_SLACK
    sensitivity += (mean_rounding(design) + position_rounding(design)) * bound  # of two sums
    mechanism = calibrated_mechanism(budget, sensitivity, share=share)
    return MomentsPlan(
        design=design,
        target_bound=target_bound,
        weight=weight,
        mechanism=mechanism,
        neighbouring=neighbouring,
    )


@dataclass(frozen=True, kw_only=True)
class MomentSums:
    """Sums ``u u'`` over records of ``u = (x, weight (t - shift))``."""

    weight: float
    shift: float

    def __call__(self, block: Block) -> np.ndarray:
        targets = block.targets - self.shift if self.shift else block.targets
        scaled = self.weight * targets
        gram = block.gram(np.ones(len(scaled)))
        p = len(gram)
        sums = np.empty((p + 1, p + 1))
        sums[:p, :p] = gram
        sums[:p, p] = sums[p, :p] = block.pull_back(scaled)[0]
        sums[p, p] = scaled @ block.weighted(scaled)
        return sums


@without_warnings()
def private_moments(
    records: Records, plan: MomentsPlan, noise: NoiseSource, *, are_labels: bool = False
) -> PrivateMoments:
    """Release the moments of all units, under add/remove divided by the nominal size.

    Of labels, 0 and 1, with 1/2 subtracted from them.

    Raises
    ------
    ValueError
        For rows and targets that the plan has not enough noise for, or that are not numbers. Then
        nothing has been released.
    """
    design = plan.design
    p, count = design.width, design.n_records
    if not plan.neighbouring.is_replaced:
        design.check(records)
    elif records.n_units != count:
        raise ValueError(f"{records.n_units} records, the plan is for {count}.")
    if records.width != p:
        raise ValueError(f"rows of {records.width} features, the plan is for {p}.")
    if records.norm_bound > design.feature_norm:
        raise ValueError(
            f"rows of norm {records.norm_bound}, the plan is for {design.feature_norm}."
        )
    if are_labels and plan.target_bound < 0.5:
        raise ValueError(f"targets of at most {plan.target_bound}, but those of labels are 1/2.")
    records.check_targets(LogisticLoss() if are_labels else HalfSquaredLoss(plan.target_bound))
    moments = MomentSums(weight=plan.weight, shift=0.5 * are_labels)
    mean = records.total(moments) / count
    if not np.isfinite(mean).all():
        raise ValueError("rows must be finite numbers.")
    released = unpack(plan.mechanism.release(pack(mean), noise), p + 1)
    return PrivateMoments(
        matrix=released[:p, :p],
        vector=released[:p, p] / plan.weight,
        square=float(released[p, p]) / plan.weight**2,
        deviation=plan.deviation,
        vector_deviation=plan.deviation / (math.sqrt(2.0) * plan.weight),
        n_records=count,
    )


def pack(matrix: np.ndarray) -> np.ndarray:
    """Return coordinates of a symmetric matrix: their Euclidean norm is its Frobenius norm."""
    upper = np.triu_indices(len(matrix))
    return matrix[upper] * np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))


def unpack(coordinates: np.ndarray, size: int) -> np.ndarray:
    """Return the symmetric matrix with these coordinates."""
    upper = np.triu_indices(size)
    matrix = np.empty((size, size))
    matrix[upper] = coordinates / np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))
    matrix.T[upper] = matrix[upper]
    return matrix
