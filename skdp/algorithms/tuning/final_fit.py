"""Choose alpha, then fit on all records at it: the frame of the tuners that split their budget.

A tuner *chooses* (:meth:`SplitPlan.choose`); :class:`FinalFitPlan` alone *fits*, by output
perturbation in whitened coordinates (:mod:`skdp.problems.penalties`). Noise is isotropic there, so
it has covariance ``s^2 Omega^{-1}`` in w (docs/theory/bilevel.md, Lemma 8). Alpha has been
released before, so the noise may depend on it. The cost of the fit does not: its event is fixed by
the budget alone.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from skdp._checks import check_positive, check_real
from skdp._runtime import without_warnings
from skdp.algorithms.output.one_shot import OutputPerturbationPlan, plan_output_perturbation
from skdp.algorithms.plan import Plan, Result, Run, require_replace_one
from skdp.algorithms.tuning.objective import (
    TunedResult,
    TuningObjective,
    TuningPlan,
    event_of_share,
)
from skdp.algorithms.weight_noise import WeightNoise
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import ComposedEvent, PrivacyEvent
from skdp.privacy.report import Release
from skdp.problems import Records

#: Step in log alpha for the gradient of the cost of noise.
_LOG_STEP = 1e-4


@dataclass(frozen=True, kw_only=True)
class FinalFitPlan(Plan):
    """Output perturbation at an alpha that is public or has been released.

    It spends a share of the budget: see :func:`skdp.mechanisms.calibrated_mechanism`.
    """

    objective: TuningObjective
    alpha: np.ndarray
    budget: PrivacyBudget
    share: float = 1.0

    def __post_init__(self) -> None:
        require_replace_one(self.objective.neighbouring, "a fit in whitened coordinates")
        if self.objective.loss.n_outputs != 1:
            raise ValueError("A fit in whitened coordinates is made for losses of one margin.")
        alpha, shape = np.asarray(self.alpha), (self.objective.penalties.n_groups,)
        if alpha.shape != shape or not ((alpha > 0) & (alpha < math.inf)).all():
            raise ValueError(f"alpha == {alpha}, must be {shape[0]} finite numbers > 0.")

    @cached_property
    def step(self) -> OutputPerturbationPlan:
        """Plan in whitened coordinates."""
        constants = self.objective.constants(self.alpha)
        relation = self.objective.neighbouring
        return plan_output_perturbation(
            constants, self.budget, neighbouring=relation, share=self.share
        )

    @property
    def releases(self) -> tuple[Release, ...]:
        """The statement about the whitened coefficients ``Omega^{1/2} w``.

        Sensitivity and noise scale depend on alpha, the event does not.
        """
        reference = "docs/theory/bilevel.md, Lemma 8: output perturbation, whitened"
        return (replace(self.step.release("whitened coefficients"), reference=reference),)

    @property
    def noise_cost(self) -> float:
        """Public bound on what the noise adds to the expected loss.

        At most ``c s^2 tr(H Omega^{-1}) / 2 <= c s^2 U^2 / 2``, s^2 the variance of a whitened
        coordinate and c the loss's curvature. Added to a loss that values of
        alpha are compared by, it makes the choice aware of the noise of the released model.
        """
        square = self.objective.whitened(self.alpha).feature_norm ** 2
        width = self.objective.width
        return self.objective.loss.noise_cost(
            square * (self.step.mechanism.mean_square(width) / width)
        )

    @property
    def noise_cost_gradient(self) -> np.ndarray:
        """Gradient of `noise_cost` in ``log alpha``, shape (n_groups,).

        By central differences of the public function: its formula has many cases, and a kink where
        another group becomes the weakest.
        """
        steps = np.exp(_LOG_STEP * np.eye(len(self.alpha)))
        ends = [
            replace(self, alpha=self.alpha * step).noise_cost
            - replace(self, alpha=self.alpha / step).noise_cost
            for step in steps
        ]
        return np.array(ends) / (2.0 * _LOG_STEP)

    def to_dict(self) -> dict[str, Any]:
        return self.step.to_dict()

    def run(self, data: Records, run: Run) -> Result:
        point = self.step.run(self.objective.problem(data, self.alpha), run).point
        whitening, objective = self.objective.whitening(self.alpha), self.objective
        variance = self.step.mechanism.mean_square(len(whitening)) / len(whitening)
        design = objective.design
        noise = WeightNoise.dense(
            np.diag(math.sqrt(variance) * whitening),
            design.second_moment * np.eye(len(whitening)),
            data.intercept,
            np.ones((1, 1)),
        )
        return Result(point=point * whitening, plan=self, noise=noise)


@dataclass(frozen=True, kw_only=True)
class SplitPlan(TuningPlan):
    """Choose alpha with a share of the budget, fit with the rest; replace-one neighbours.

    Parameters
    ----------
    coef_norm : float, optional
        Public guess of the norm of a good predictor: the choice begins at the public rule.
        Default: that on isotropic rows.
    tune_share : float, default=0.2
        Part of the budget for the choice; the final fit has the rest.
    releases : tuple of Release
        Empty until the run: noise scales depend on earlier releases.
    """

    coef_norm: float | None = None
    tune_share: float = 0.2
    releases: tuple[Release, ...] = ()

    #: Limits of the share.
    _shares = 1e-9, 1.0 - 1e-9

    def __post_init__(self) -> None:
        super().__post_init__()
        require_replace_one(self.objective.neighbouring, "tuning with a part of the budget")
        check_real("tune_share", self.tune_share, *self._shares)
        check_positive(coef_norm=self.norm_guess)

    @property
    def norm_guess(self) -> float:
        return self.objective.reference_norm if self.coef_norm is None else self.coef_norm

    @property
    def fit_share(self) -> float:
        return 1.0 - self.tune_share

    @property
    def rule_alpha(self) -> float:
        """The alpha of the public rule."""
        return self.objective.public_alpha(self.budget, self.norm_guess, self.fit_share)

    @property
    @abstractmethod
    def choice_events(self) -> tuple[PrivacyEvent, ...]:
        """Costs of the releases of :meth:`choose`."""

    @property
    def event(self) -> PrivacyEvent:
        """All releases as one event, known before the run."""
        fit = event_of_share(self.budget, self.fit_share, self.objective.neighbouring)
        return ComposedEvent((*self.choice_events, fit))

    def final_fit(self, alpha: np.ndarray) -> FinalFitPlan:
        return FinalFitPlan(
            objective=self.objective, alpha=alpha, budget=self.budget, share=self.fit_share
        )

    @abstractmethod
    def choose(self, data: Records, run: Run) -> tuple[np.ndarray, tuple[Release, ...]]:
        """Return the path of alpha, shape (n_iterates, n_groups), and what was released."""

    @without_warnings()
    def run(self, data: Records, run: Run) -> TunedResult:
        self.objective.check(data)
        path, releases = self.choose(data, run)
        plan = self.final_fit(path[-1])
        found = plan.run(data, run)
        done = replace(self, releases=(*releases, *plan.releases))
        return TunedResult(
            point=found.point, plan=done, alpha=path[-1], path=path, noise=found.noise
        )
