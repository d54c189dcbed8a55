"""The noisy steps of one fit: clipped sums of gradients, averaged, without what is mostly noise.

Theory: docs/theory/noisy_gradient_descent.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skdp.algorithms.descent import rules
from skdp.algorithms.descent.schedule import descend
from skdp.algorithms.descent.shares import kept_of_columns
from skdp.algorithms.preparation import rules as preparation_rules
from skdp.algorithms.preparation.attacked_rows import AttackedGradients, Moves, attacked_sum
from skdp.algorithms.preparation.centered_rows import CenteredRecords, clipped_sum, person_rounding
from skdp.algorithms.preparation.penalty import Spectrum
from skdp.algorithms.preparation.second_moments import Preconditioner
from skdp.mechanisms import NoiseSource
from skdp.problems.rounding import two_margins, two_norms

if TYPE_CHECKING:
    from skdp.algorithms.descent.noisy_descent import NoisyGradientDescentPlan


@dataclass(frozen=True, kw_only=True)
class Descent:
    """Noisy steps that are ready to start.

    Attributes
    ----------
    plan : NoisyGradientDescentPlan
        With the numbers that follow from earlier releases.
    rows : CenteredRecords
    offsets : ndarray of shape (n_outputs,)
        Margins of a constant model.
    preconditioner : Preconditioner or None
    """

    plan: NoisyGradientDescentPlan
    rows: CenteredRecords
    offsets: np.ndarray
    preconditioner: Preconditioner | None

    @property
    def spectrum(self) -> Spectrum:
        """Second moments without the ridge, or the same in all directions."""
        known, d = self.preconditioner, self.plan.objective.design.n_features
        if known is None:
            return Spectrum.public(d)
        ridge = self.plan.ridge
        matrix = (known.vectors * (known.values - ridge)) @ known.vectors.T
        return Spectrum.released(
            *np.linalg.eigh(matrix[:d, :d]), preparation_rules.PENALISED_MOMENT * ridge
        )

    @property
    def start(self) -> np.ndarray:
        """Weights to start from: 0, but for two classes of which one is rare.

        A function of released means and of public numbers.
        """
        plan = self.plan
        start = np.zeros((plan.loss.n_outputs, plan.objective.design.width))
        if plan.loss.link == "logit" and self.rows.has_intercept:
            odds, error = float(self.offsets[0]), plan.relative_noise
            start[0, :-1] = rules.atypical_weights(odds, self.rows.shift, error)
        return start

    def reliability(self, learnt: np.ndarray) -> np.ndarray:
        """Return the part of what the steps learnt that is kept, shape of the weights.

        All is kept for the constant, and where second moments were not released.
        """
        plan, known = self.plan, self.preconditioner
        kept = np.ones_like(learnt)
        if known is None:
            return kept
        d, n = plan.objective.design.n_features, plan.n_records
        unit = plan.sensitivity * plan.n_blocks / n
        noise = plan.schedule.average_variance(0.0, unit) * (known.matrix(plan.floor) ** 2).sum(0)
        kept[:, :d] = kept_of_columns(
            learnt[:, :d],
            noise[:d],
            known.of_columns[:d],
            known.deviation(plan.ridge),
            centering=self.rows.centering,
            loss=plan.loss,
            noise=plan.objective.neighbouring.n_changes / (n * plan.mu),
            n_records=n,
            is_squared=plan.is_squared,
        )
        return kept

    def release(
        self,
        noise: NoiseSource,
        start: np.ndarray | None = None,
        factors: np.ndarray | None = None,
        counted: Callable[[int], Iterable[int]] = range,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Release the average of the iterates, without what is mostly noise.

        Parameters
        ----------
        noise : NoiseSource
        start : ndarray of shape (n_outputs, width), optional
            Released weights, to start from. Default: `start`.
        factors : ndarray of shape (n_groups,), optional
            Of the clipped gradients of the records of each group; none is above the plan's
            `largest_factor`. Default: 1.
        counted : callable, default=range
            Counts the steps.

        Returns
        -------
        weights : ndarray of shape (n_outputs, width)
            Of centered rows.
        kept : ndarray of shape (n_outputs, width)
            Part of what the steps learnt that is kept.
        """
        plan, rows = self.plan, self.rows
        loss, design, clip = plan.loss, plan.objective.design, plan.clip_norm
        d, largest = design.n_features, plan.largest_factor
        shape, unit = (loss.n_outputs, design.width), loss.target_bound or 1.0
        origin = self.start if start is None else start
        # sums of rows that are not centered, with residuals of at most clip / 0.2, and of moves
        size = clip * (rows.amplification + bool(plan.attack)) * largest
        sums = replace(plan.sums, size=size)
        offset = float(np.linalg.norm(self.offsets))

        def attacked(weights: np.ndarray) -> AttackedGradients:
            assert plan.attack is not None
            weights = rows.weights(origin + weights)
            return AttackedGradients(
                loss=loss,
                weights=weights,
                offset=self.offsets.squeeze(),
                clip_norm=clip * (preparation_rules.RECORD_LIMIT if rows.of_persons else 1.0),
                moves=Moves.worst(plan.attack, loss, weights, rows),
            )

        def sensitivity(weights: np.ndarray) -> float:
            # the others may be elsewhere, and have margins and norms with other last bits
            length, bound = float(np.linalg.norm(origin + weights)), rows.norm_bound
            turn = 0.0
            if plan.attack is not None:
                gradients = attacked(weights)
                bound, turn = bound + gradients.reach, gradients.steepness
            margins = two_margins(d, bound * length + offset) * max(1.0, loss.curvature)
            norms = two_norms(d, rows.cancellation + bool(plan.attack)) * clip
            if rows.of_persons:
                norms = person_rounding(rows, clip, bool(plan.attack))
            moved = ((bound + turn) * margins + norms) * largest
            # a person's moves enter its length, not as a part of a Euclidean norm
            return sums.bound(2.0 * moved if rows.of_persons and plan.attack else moved)

        def total(weights: np.ndarray, k: int) -> np.ndarray:
            if plan.attack is not None:
                return attacked_sum(rows, attacked(weights), clip, k)
            given = origin + weights, self.offsets, clip, k, factors, largest
            return clipped_sum(rows, loss, *given)

        learnt = descend(
            plan.schedule,
            total,
            sensitivity,
            shape,
            plan.n_records,
            noise,
            unit,
            None if self.preconditioner is None else self.preconditioner.matrix(plan.floor),
            counted,
        )
        kept = self.reliability(learnt)
        return origin + kept * learnt, kept

    def weights(self, *args: Any, **options: Any) -> np.ndarray:
        """Return the first result of :meth:`release`."""
        return self.release(*args, **options)[0]
