"""Penalties of blocks of features before the fit: columns that do not matter get shorter.

The norm of a row, and with it the noise of *every* coefficient, counts columns that do not matter.
A first fit of the core and noisy measurements of its blocks say which do; columns are then scaled
by released factors, and the core fits again. A measurement is one number per block: by Proposition
B1 the derivative of the loss in the logarithm of a block's penalty is a function of that in its
size.
Every release is a sum over all records. Theory: docs/theory/bilevel.md, "Blocks".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import issparse

from skdp._runtime import without_warnings
from skdp.algorithms.core.centered_rows import CenteredRecords
from skdp.algorithms.core.fit import CorePlan, plan_core_of
from skdp.algorithms.core.noisy_sums import NoisySum
from skdp.algorithms.plan import Plan, Run
from skdp.algorithms.tuning.objective import TunedResult, TuningObjective
from skdp.algorithms.tuning.shrinkage import ShrinkagePlan, plan_shrinkage
from skdp.algorithms.weight_noise import PlannedNoise
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.gaussian_dp import gaussian_mu
from skdp.privacy.report import Release
from skdp.problems import Design, EmpiricalRisk, Loss, Objective, Records
from skdp.problems.block import Block
from skdp.problems.rounding import two_margins, two_norms

#: Parts of the squared mu of the first fit, of the moments of blocks, and of the derivatives.
FIRST, MOMENTS, DERIVATIVES = 0.15, 0.025, 0.075
#: Number of derivatives, the squared noise of a coefficient from which on blocks are tuned, and the
#: noise of a derivative up to which they are.
ROUNDS, GATE, NOISIEST = 3, 0.03, 0.3
#: Squared errors that a block has to exceed, and those that it counts with at least.
_KEEP, _HEDGE = 3.0, 0.3
#: Largest norm of derivatives over the root of the number of blocks, of squares and of log odds.
_TOPS = 1.2, 1.5
#: Least factor of a block.
_FLOOR = 0.03
#: Centered rows are shortened to this many of their root mean squares.
_LONGEST = 2.0


@dataclass(frozen=True, kw_only=True)
class BlockMargins:
    """What measurements see of a record: its margins by block, of about unit variance."""

    #: Shape (n_blocks, width). Unit vectors of the first fit, of ``(x, 1)``.
    weights: np.ndarray
    #: Of margins.
    unit: float

    def margins(self, block: Block, norms: np.ndarray) -> np.ndarray:
        """Return margins over their unit, shape (m, n_blocks), of shortened rows."""
        margins = block.margins(self.weights).reshape(len(norms), len(self.weights))
        return margins * _kept(norms, _LONGEST)[:, None] / self.unit


@dataclass(frozen=True, kw_only=True)
class BlockMoments(BlockMargins):
    """Sum ``(V^2 - 1, N - 1)``: squared margins, and norms of parts of rows, over expected ones."""

    #: Shape (n_blocks, n_features).
    members: np.ndarray
    #: Shape (n_features,). Of rows.
    mean: np.ndarray
    #: Shape (n_blocks,). What squared norms of parts are divided by.
    scale: np.ndarray
    #: Shape (n_blocks,). Factors of N - 1.
    stretch: np.ndarray
    #: Largest norm.
    top: float

    def __call__(self, block: Block, norms: np.ndarray) -> np.ndarray:
        V = self.margins(block, norms)
        N = self._squares(block) * _kept(norms, _LONGEST)[:, None] ** 2
        vectors = np.column_stack([V * V - 1.0, (N / self.scale - 1.0) * self.stretch])
        return block.weighted(_kept(np.linalg.norm(vectors, axis=1), self.top)) @ vectors

    def _squares(self, block: Block) -> np.ndarray:
        """Squared norms of the parts of centered rows, shape (m, n_blocks)."""
        matrix = block.matrix
        squares = (matrix.power(2) if issparse(matrix) else matrix**2) @ self.members.T
        cross = matrix @ (self.members * self.mean).T
        if block.scale is not None:
            squares = squares * block.scale[:, None] ** 2
            cross = cross * block.scale[:, None]
        total = squares - 2.0 * cross + self.members @ self.mean**2
        return np.maximum(np.asarray(total), 0.0)


@dataclass(frozen=True, kw_only=True)
class BlockDerivatives(BlockMargins):
    """Sum of the derivatives of the loss in the sizes of the blocks, shortened."""

    loss: Loss
    #: Shape (n_blocks,). Margins of the loss per margin of a block.
    lengths: np.ndarray
    offset: float
    #: Unit of derivatives of the loss.
    residual: float
    #: Largest norm.
    top: float

    def __call__(self, block: Block, norms: np.ndarray) -> np.ndarray:
        V = self.margins(block, norms)
        slopes = self.loss.derivative(V @ self.lengths + self.offset, block.targets)
        vectors = V * (slopes / self.residual)[:, None]
        return block.weighted(_kept(np.linalg.norm(vectors, axis=1), self.top)) @ vectors


def _kept(norms: np.ndarray, longest: float) -> np.ndarray:
    """Return factors by which vectors of these norms are no longer than that."""
    return longest / np.maximum(norms, longest)


@dataclass(frozen=True)
class Rescaled:
    """Copy bounded rows with columns times factors, bounded to another norm."""

    factors: np.ndarray
    data_norm: float

    def __call__(self, records: Records) -> Records:
        rows = records.with_intercept(0.0).scaled(self.factors).materialise()
        intercept = records.intercept / records.data_norm * self.data_norm
        columns = {"targets": records.targets, "groups": records.groups}
        other = Records(rows, self.data_norm, intercept, **columns)
        other.shares, other.persons = records.shares, records.persons
        other.is_slack = records.is_slack
        return other


@dataclass(frozen=True, kw_only=True)
class BlocksPlan(Plan):
    """A fit, measurements of its blocks, and a fit on scaled columns: all three parts of one mu."""

    objective: TuningObjective
    first: CorePlan
    #: On columns as they are; after a run, on scaled ones.
    final: ShrinkagePlan
    mu: float
    #: Shape (n_blocks,), or None. After a run.
    factors: np.ndarray | None = None

    @cached_property
    def members(self) -> np.ndarray:
        """Which feature is in which block, shape (n_blocks, n_features)."""
        return self.final.penalties.members

    @property
    def moments(self) -> NoisySum:
        """Of :class:`BlockMoments`."""
        q = len(self.members)
        return self._sum("moments of blocks", 2.0 * math.sqrt(q), MOMENTS, 2 * q)

    @property
    def derivatives(self) -> NoisySum:
        """Of :class:`BlockDerivatives`."""
        q = len(self.members)
        top = _TOPS[self.objective.loss.has_odds] * math.sqrt(q)
        return self._sum("sizes of blocks", top, DERIVATIVES / ROUNDS, q)

    def _sum(self, name: str, top: float, share: float, entries: int) -> NoisySum:
        return NoisySum(
            design=self.objective.design,
            neighbouring=self.objective.neighbouring,
            mu=self.mu * math.sqrt(share),
            sensitivity=self.objective.neighbouring.n_changes * top,
            size=top,
            n_entries=entries,
            name=name,
            reference="docs/theory/bilevel.md, Theorem B",
        )

    @property
    def releases(self) -> tuple[Release, ...]:
        measured = (self.moments.describe(), *ROUNDS * (self.derivatives.describe(),))
        return (*self.first.releases, *measured, *self.final.releases)

    def remarks(self) -> tuple[str, ...]:
        if self.factors is None:
            return self.final.remarks()
        listed = ", ".join(f"{factor:.2g}" for factor in self.factors[:20])
        return (f"columns of the blocks were multiplied by {listed}", *self.final.remarks())

    def alarms(self) -> tuple[str, ...]:
        return self.final.alarms()

    def planned_noise(self) -> PlannedNoise | None:
        return self.final.planned_noise()

    def found_alarms(self) -> tuple[str, ...]:
        return self.final.found_alarms()

    def to_dict(self) -> dict[str, Any]:
        factors = None if self.factors is None else self.factors.tolist()
        return {**self.final.to_dict(), "mu": self.mu, "block_factors": factors}

    @without_warnings()
    def run(self, data: Records, run: Run) -> TunedResult:
        rows, found = self.first.prepare(data, run.noise)
        weights = self.first.stepped(rows, found, run, "first steps")
        weights, size, theta = self.first.sized(rows, found, weights, run, is_sparse=False)
        theta, base, _ = self.first.corrected(rows, found, weights, theta, run)
        first = replace(self.first, found=replace(found, size=size, theta=theta))
        scaled, offsets = first.margins(rows, found, weights, theta, base)
        energies, rho = self._measured(rows, scaled, float(offsets[0]), first, run)
        tau = self._factors(energies, rho, first)
        of_columns = tau @ self.members
        moved, design = self._rescaled(data, rows, of_columns, tau, rho)
        objective = replace(
            self.objective, design=design, data_norm=moved.data_norm, intercept=moved.intercept
        )
        mu = self.mu * math.sqrt(1.0 - FIRST - MOMENTS - DERIVATIVES)
        result = plan_shrinkage(objective, mu).run(moved, run)
        point = result.point.copy()
        point[: len(of_columns)] *= of_columns
        if data.intercept:
            point[-1] *= moved.intercept / data.intercept
        alpha = self.final.penalties.clipped(result.alpha / tau**2)
        final = replace(result.plan, chosen=alpha)
        done = replace(self, first=first, final=final, factors=tau)
        path = np.vstack([result.alpha, alpha])
        return TunedResult(point=point, plan=done, alpha=alpha, path=path)

    def _measured(
        self, rows: CenteredRecords, scaled: np.ndarray, offset: float, first: CorePlan, run: Run
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return energies of the margins of the blocks, and mean squared norms of their parts."""
        d, q = self.members.shape[1], len(self.members)
        counts = self.members.sum(axis=1)
        of_blocks = self.members * scaled[:1, :d]
        lengths = np.maximum(np.linalg.norm(of_blocks, axis=1), 1e-300)
        units = np.zeros((q, rows.weights(scaled).shape[1]))
        units[:, :d] = of_blocks / lengths[:, None]
        raw, unit = rows.weights(units), 1.0 / math.sqrt(d)
        moments, derivatives, n = self.moments, self.derivatives, first.numbers.means.n_records
        statistic = BlockMoments(
            weights=raw,
            unit=unit,
            members=self.members.astype(np.float64),
            mean=rows.shift * rows.unit,
            scale=rows.unit**2 * counts / d,
            stretch=np.sqrt(counts * q / d),
            top=moments.size,
        )
        steep = 2.0 * math.sqrt(moments.size + 1.0) * math.sqrt(q * d)
        error = two_margins(d + 1, rows.norm_bound)
        error += two_norms(d, rows.norm_bound**2) * math.sqrt(d)
        noisy, deviation = moments.release(rows.full_total(statistic), run.noise, steep * error)
        noisy = noisy / n
        variances = np.maximum(1.0 + _shrunk(noisy[:q], deviation / n), 0.1)
        rho = np.maximum(1.0 + _shrunk(noisy[q:], deviation / n) / statistic.stretch, 0.1)
        rho *= counts / d
        roots = np.sqrt(variances)
        lengths = lengths * roots * unit
        loss, sizes = self.objective.loss, np.ones(q)
        is_squared = not loss.has_odds
        residual = first.numbers.spread if is_squared else 0.4
        bend = 1.0 if is_squared else 0.15
        for _ in range(ROUNDS):
            gradients = BlockDerivatives(
                weights=raw / roots[:, None],
                unit=unit,
                loss=loss,
                lengths=sizes * lengths,
                offset=offset,
                residual=residual,
                top=derivatives.size,
            )
            reached = abs(offset) + loss.target_bound + float(np.abs(sizes * lengths).sum()) / unit
            steep = (1.0 + loss.curvature) * (1.0 + reached) / residual * math.sqrt(q * d)
            error = two_margins(d + 1, rows.norm_bound) * float((1.0 / roots).max())
            exact = rows.full_total(gradients)
            noisy, deviation = derivatives.release(exact, run.noise, steep * error)
            sizes = np.clip(sizes - residual * noisy / (n * bend * lengths), -1.0, 4.0)
        error = residual**2 * ((deviation / n) ** 2 + 1.0 / n) / bend**2
        signal = np.maximum(sizes * lengths, 1e-300)
        energies = np.maximum(sizes, 0.0) * lengths**2
        energies *= np.maximum(1.0 - _KEEP * error / signal**2, 0.0)
        return energies + _HEDGE * error, rho

    def _factors(self, energies: np.ndarray, rho: np.ndarray, first: CorePlan) -> np.ndarray:
        """Return the factors with the least bias and noise of the final fit (Proposition B2)."""
        counts, numbers = self.members.sum(axis=1), first.numbers
        bend = 0.15 if self.objective.loss.has_odds else 1.0
        clip = numbers.clip
        noise = first.objective.neighbouring.n_changes * clip
        noise /= numbers.means.n_records * self.final.mu_steps * bend
        signal = energies / counts

        def cost(logs: np.ndarray) -> tuple[float, np.ndarray]:
            """The sum of squared bias and noise of all coordinates, and its gradient."""
            squares = np.exp(2.0 * logs)
            noises = noise**2 * counts / rho * (rho @ squares) / squares
            change = counts * noises * (signal / (signal + noises)) ** 2
            gradient = 2.0 * (change.sum() * rho * squares / (rho @ squares) - change)
            return float(counts @ (signal * noises / (signal + noises))), gradient

        start = np.clip(0.5 * np.log(signal / signal.max()), math.log(_FLOOR), 0.0)
        unit = max(cost(start)[0], 1e-300)  # its tolerances are absolute
        found = minimize(
            lambda logs: tuple(part / unit for part in cost(logs)),
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=[(math.log(_FLOOR), 0.0)] * len(counts),
        )
        tau = np.exp(found.x if found.fun <= 1.0 else start)
        return np.asarray(tau / tau.max())

    def _rescaled(
        self,
        data: Records,
        rows: CenteredRecords,
        of_columns: np.ndarray,
        tau: np.ndarray,
        rho: np.ndarray,
    ) -> tuple[Records, Design]:
        """Return records with scaled columns and a bound on their rows that few exceed."""
        mean = rows.centering.mean * of_columns
        spread = rows.centering.scale**2 * float(rho @ tau**2)
        norm = data.data_norm * min(1.0, 2.0 * math.sqrt(float(mean @ mean) + spread))
        moved = data.viewed(Rescaled(of_columns, norm))
        design = self.objective.design
        return moved, replace(design, feature_norm=moved.norm_bound, intercept=moved.intercept)


def _shrunk(noisy: np.ndarray, deviation: float) -> np.ndarray:
    """Shrink released differences to 1 by their noise, so that large ones stay."""
    return noisy * noisy**2 / (noisy**2 + deviation**2)


def gate(objective: TuningObjective, mu: float) -> str:
    """Say why blocks cannot pay, by public numbers; empty where they may."""
    design, penalties = objective.design, objective.penalties
    n_blocks = len(set(penalties.groups[: design.n_features]))
    if n_blocks == 1:
        return "not tuned: one block"
    if objective.loss.n_outputs > 1:
        return "not tuned: several classes"
    changes = objective.neighbouring.n_changes
    if (changes * design.n_features / (design.n_records * mu)) ** 2 < GATE:
        return "not tuned: the noise is too small to gain"
    top = _TOPS[objective.loss.has_odds] * math.sqrt(n_blocks)
    if changes * top / (design.n_records * mu * math.sqrt(DERIVATIVES / ROUNDS)) > NOISIEST:
        return "not tuned: measurements of the blocks would be noise"
    return ""


def plan_blocks(objective: TuningObjective, budget: PrivacyBudget) -> BlocksPlan | ShrinkagePlan:
    """Plan the blocks of a tuning problem, or the plain fit where they cannot pay."""
    mu = gaussian_mu(budget.epsilon, budget.delta)
    if reason := gate(objective, mu):
        return replace(plan_shrinkage(objective, mu), note=reason)
    first = Objective(
        EmpiricalRisk(objective.loss), objective.design, neighbouring=objective.neighbouring
    )
    return BlocksPlan(
        objective=objective,
        mu=mu,
        first=plan_core_of(first, mu * math.sqrt(FIRST)),
        final=plan_shrinkage(objective, mu * math.sqrt(1.0 - FIRST - MOMENTS - DERIVATIVES)),
    )
