"""The core with a shrinkage for each group of features: that of the penalty that it stands for.

The noise of the steps is known, so what of a group is noise is, too, and the part of it that is
none is kept. The last release corrects the size of all. Theory: docs/theory/core.md, section 9.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdp._runtime import spare_processors, without_warnings
from skdp.algorithms.core.fit import CorePlan, Told, plan_core_of
from skdp.algorithms.core.penalty import kept_shift
from skdp.algorithms.core.plan import inputs_of
from skdp.algorithms.core.post import base_at, equivalent_penalty, root_of, weight_noise
from skdp.algorithms.core.spectrum import Spectrum
from skdp.algorithms.plan import Run
from skdp.algorithms.tuning.objective import TunedResult, TuningObjective
from skdp.problems import EmpiricalRisk, Objective, PenaltyGroups, Records


@dataclass(frozen=True, kw_only=True)
class ShrinkagePlan(CorePlan):
    """The releases of the core, whose weights are shrunk by group."""

    #: Of the features.
    penalties: PenaltyGroups
    #: Shape (n_groups,), or None. After a run, what the shrinkage by the noise is equivalent to,
    #: within the bounds. Where it is larger, weights are shrunk further.
    chosen: np.ndarray | None = None
    note: str = ""

    def remarks(self) -> tuple[str, ...]:
        notes = (self.note,) if self.note else ()
        said = "alpha is the penalty that the shrinkage is equivalent to"
        return (*notes, said, *super().remarks())

    def to_dict(self) -> dict[str, Any]:
        found = {} if self.chosen is None else {"alpha": float(self.chosen[0])}
        return super().to_dict() | found

    def run(self, data: Records, run: Run) -> TunedResult:
        with without_warnings(), spare_processors(data.is_sparse and data.in_memory):
            rows, found = self.prepare(data, run.noise)
            told: list[Told] = []
            weights = self.stepped(rows, found, run, kept=told)
            d, k = len(rows.shift), self.loss.n_outputs
            groups = np.array(self.penalties.groups)
            signal, parts = self._parts(weights[:, :d], k * found.steps.variance)
            weights, size, theta = self.sized(rows, found, weights, run, is_sparse=len(parts) == 1)
            of_steps = self.step_noise(rows, found, weights, size, told)
            weights[:, :d] *= parts[groups]
            theta, base, _ = self.corrected(rows, found, weights, theta, run)
            done = replace(self, found=replace(found, size=size, theta=theta))
            curvature = done.forecast.curvature
            if len(parts) == 1:  # that of all weights is smoothed
                signal = np.array([done.forecast.signal])
            alphas = equivalent_penalty(curvature, signal)
            chosen = self.penalties.clipped(alphas)
            kept = np.minimum((curvature + alphas) / (curvature + chosen), 1.0)
            before, of_shift = weights[:, :d].copy(), np.array([1.0, 0.0])
            weights[:, :d] *= kept[groups]
            balance, root = found.balance if rows.has_intercept else None, root_of(weights[:, :d])
            if balance is not None:  # a shift from the base is that of margins of their size
                length = max(float(np.linalg.norm(before)), 1e-300)
                left = np.full(k, (float(np.linalg.norm(weights[:, :d])) / length) ** 2)
            else:  # it makes up for errors of the means
                of_rows, of_targets = rows.centering.errors
                length = float(theta.theta[0]) * found.scale
                errors = of_rows**2, (of_targets * self.loss.target_bound) ** 2
                of_shift = np.array(kept_shift(length * before, length * weights[:, :d], *errors))
                left = of_shift[0]
            theta = replace(theta, theta=theta.theta * np.append(1.0, left))
            base, slope = base_at(balance, float(theta.theta[0]), root, base)
            scaled, offsets = self.margins(rows, found, weights, theta, base)
            mix, scale = np.asarray(self.loss.class_weights(np.eye(k))), found.scale
            moments = Spectrum.public(d)
            of_steps = replace(of_steps, slopes=of_steps.slopes * (parts * kept)[groups])
            given = rows, weights, slope, theta, of_steps, scale, mix, moments
            noise = weight_noise(*given, None, 0.0, *of_shift)
            return TunedResult(
                point=rows.coefficients(scaled, offsets, data.intercept),
                plan=replace(done, chosen=chosen),
                noise=noise,
                alpha=chosen,
                path=chosen[None],
            )

    def _parts(self, weights: np.ndarray, variance: float) -> tuple[np.ndarray, np.ndarray]:
        """Return what of each group is no noise, and factors by that for the same norm of all."""
        squares = self.penalties.members @ (weights**2).sum(axis=0)
        noise = variance * self.penalties.members.sum(axis=1)
        signal = np.maximum(1.0 - noise / np.maximum(squares, 1e-300), 0.0)
        total = float(signal**2 @ squares)
        if len(squares) == 1 or not total > 0.0:
            return signal, np.ones(len(squares))
        return signal, signal * math.sqrt(float(squares.sum()) / total)


def plan_shrinkage(objective: TuningObjective, mu: float) -> ShrinkagePlan:
    """Plan the core of a tuning problem, whose intercept has no penalty here."""
    if not (objective.loss.has_odds or objective.loss.is_quadratic):
        raise ValueError("method='gradient' tunes penalties of the squared error and the log loss.")
    problem = Objective(
        EmpiricalRisk(objective.loss), objective.design, neighbouring=objective.neighbouring
    )
    given, d = objective.penalties, objective.design.n_features
    penalties = PenaltyGroups(given.groups[:d], given.factors[:d], given.low, given.high)
    return ShrinkagePlan(**inputs_of(plan_core_of(problem, mu)), penalties=penalties)
