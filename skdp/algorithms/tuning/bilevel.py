"""Alpha by first-order private bilevel optimisation, with a final model on all records.

Section 7 of Kornowski (2024) with the sign, the noise and the norms corrected (errata K1, K2 and
K5), in the logarithms of alpha, one per group. Works for any smooth loss,
needs only gradients, and its noise does not grow with the number of groups. Proofs:
docs/theory/bilevel.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from skdp._checks import check_real
from skdp._runtime import without_warnings
from skdp.algorithms.bilevel.penalty_method import BilevelPlan, plan_steps
from skdp.algorithms.output.one_shot import OutputPerturbationPlan, plan_output_perturbation
from skdp.algorithms.plan import Plan, Result, Run, require_replace_one
from skdp.algorithms.tuning import rules
from skdp.algorithms.tuning.objective import TunedResult, TuningObjective
from skdp.algorithms.weight_noise import WeightNoise
from skdp.mechanisms import calibrated_mechanism, random_order
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import ComposedEvent, Neighbouring, PrivacyEvent
from skdp.privacy.report import Release
from skdp.problems import EmpiricalRisk, PenaltyProblem, Records

#: Step in log alpha for the gradient of the cost of noise.
_LOG_STEP = 1e-4


@dataclass(frozen=True, kw_only=True)
class FinalFitPlan(Plan):
    """A fit to all records at an alpha that is public or has been released.

    It is output perturbation in whitened coordinates, where noise is isotropic: it has covariance
    ``s^2 Omega^{-1}`` in w (docs/theory/bilevel.md, Lemma 8). The budget alone fixes its event.
    """

    objective: TuningObjective
    alpha: np.ndarray
    budget: PrivacyBudget
    share: float = 1.0

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
        name = "whitened coefficients"
        return (replace(self.step.releases[0], name=name, reference=reference),)

    @property
    def noise_cost(self) -> float:
        """Public bound on what the noise adds to the expected loss: ``c s^2 U^2 / 2``."""
        square = self.objective.whitened(self.alpha).feature_norm ** 2
        width = self.objective.design.width
        return self.objective.loss.noise_cost(
            square * (self.step.mechanism.mean_square(width) / width)
        )

    @property
    def noise_cost_gradient(self) -> np.ndarray:
        """Gradient of `noise_cost` in ``log alpha``, by central differences: it has kinks."""
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
        squares = whitening**2 * (self.step.mechanism.mean_square(len(whitening)) / len(whitening))
        squares = np.append(squares[: objective.design.n_features], squares[-1])[None]
        norm = objective.design.feature_norm
        noise = WeightNoise.independent(squares, data.intercept, norm, np.ones((1, 1)))
        return Result(point=point * whitening, plan=self, noise=noise)


@dataclass(frozen=True, kw_only=True)
class BilevelTuningPlan(Plan):
    """Choose alpha by private hypergradients, then fit; delta > 0.

    In a secret random order, records (or persons) at even places train and those at odd places
    validate, with the cost of the final model's noise (docs/theory/bilevel.md, "Tuning").
    """

    objective: TuningObjective
    budget: PrivacyBudget
    #: Part of the budget for the choice; the final fit has the rest.
    tune_share: float = 0.2
    #: Private solver of the lower problems: "output_perturbation" of certified solutions;
    #: "localized_gd", noisy gradient steps on all records (DP-Loc-GD, Algorithm 2);
    #: "localized_sgd", the same on random batches (DP-Loc-SGD, Algorithms 3 and 4), which needs
    #: dp-accounting.
    inner: str = "output_perturbation"
    #: Empty until the run: noise scales depend on earlier releases.
    releases: tuple[Release, ...] = ()

    def __post_init__(self) -> None:
        require_replace_one(self.objective.neighbouring, "tuning with a part of the budget")
        if self.objective.loss.n_outputs != 1:
            raise ValueError("This tuning method is made for losses of one margin.")
        if (n := self.objective.design.n_records) < 2:
            raise ValueError(f"n_samples={n}, must be at least 2.")
        # lam falls in every alpha, and none moves by more than the sum of all steps
        factor = math.exp(rules.BILEVEL_STEP / (1.0 - rules.BILEVEL_DECAY))
        for end in (self.start_alpha / factor, self.start_alpha * factor):
            logs = np.full(self.objective.penalties.n_groups, np.log(self._clipped(end)))
            check_real("penalty", self.lam(logs), 1e-50, 1e50)

    def _clipped(self, alpha: float) -> float:
        return float(self.objective.penalties.clipped(np.array(alpha)))

    @property
    def fit_share(self) -> float:
        return 1.0 - self.tune_share

    @cached_property
    def start_alpha(self) -> float:
        """First alpha of all groups, twice that of the public rule: noise of a step is smaller."""
        norm = EmpiricalRisk(self.objective.loss).reference_norm(self.objective.design)
        return self._clipped(2.0 * self.objective.public_alpha(self.budget, norm, self.fit_share))

    def lam(self, logs: np.ndarray) -> float:
        """Return ``lam = c curvature U^2`` at log alpha, U the norm bound of whitened rows."""
        norm = self.objective.whitened(np.exp(logs)).feature_norm
        return rules.BILEVEL_PENALTY * self.objective.loss.curvature * norm**2

    @cached_property
    def steps(self) -> BilevelPlan:
        """Plan of the choice."""
        logs = np.full(self.objective.penalties.n_groups, math.log(self.start_alpha))
        given = rules.N_STEPS, self.tune_share, self.inner, self.objective.neighbouring
        noise = _noise_of_steps(self.budget, *given)
        return replace(noise, penalty=self.lam, start=tuple(logs.tolist()))

    @property
    def event(self) -> PrivacyEvent:
        """All releases as one event, known before the run: that of the fit depends on no alpha."""
        fit = calibrated_mechanism(self.budget, 1.0, share=self.fit_share)
        return ComposedEvent((self.steps.event, fit.event(self.objective.neighbouring)))

    def final_fit(self, alpha: np.ndarray) -> FinalFitPlan:
        return FinalFitPlan(
            objective=self.objective, alpha=alpha, budget=self.budget, share=self.fit_share
        )

    def to_dict(self) -> dict[str, Any]:
        n = self.objective.design.n_records
        return {
            **self.steps.to_dict(),
            "tune_share": self.tune_share,
            "inner": self.inner,
            "start": self.start_alpha,
            "n_train": n - n // 2,
            "n_validation": n // 2,
        }

    @without_warnings()
    def run(self, data: Records, run: Run) -> TunedResult:
        self.objective.check(data)
        ordered = data.take(data.records_of(random_order(data.n_units, run.noise)))
        tuned = self.steps.run(NoiseAwareProblem(ordered, self), run)
        alpha, path = np.exp(tuned.point), np.exp(tuned.path)
        if not np.array_equal(path[-1], alpha):  # the average of the later iterates
            path = np.vstack([path, alpha])
        plan = self.final_fit(alpha)
        found = plan.run(data, run)
        done = replace(self, releases=(*tuned.plan.releases, *plan.releases))
        return TunedResult(point=found.point, plan=done, alpha=alpha, path=path, noise=found.noise)


class NoiseAwareProblem(PenaltyProblem):
    """Judge alpha by the loss of the model that will be released, its noise included."""

    def __init__(self, records: Records, plan: BilevelTuningPlan) -> None:
        super().__init__(records, plan.objective.loss, plan.objective.penalties)
        self._plan = plan

    def upper_gradient_x(
        self, x: np.ndarray, y: np.ndarray, batch: np.ndarray | None = None
    ) -> np.ndarray:
        """Of the public cost of noise; the loss itself depends on x through y alone."""
        return self._plan.final_fit(np.exp(x)).noise_cost_gradient


@lru_cache(maxsize=64, typed=True)  # the noise of sampled batches takes seconds to find
def _noise_of_steps(
    budget: PrivacyBudget,
    n_steps: int,
    share: float,
    inner: str,
    neighbouring: Neighbouring,
) -> BilevelPlan:
    """Steps with their noise, but without the penalty and the start, which do not change it."""
    return plan_steps(
        budget,
        True,
        penalty=1.0,
        n_steps=n_steps,
        step_size=_cautious_step,
        inner=inner,
        share=share,
        neighbouring=neighbouring,
    )


def _cautious_step(t: int, gradient: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """A step of bounded length, none where the gradient is not larger than its noise."""
    size = np.maximum(np.abs(gradient), 1e-300)
    length = rules.BILEVEL_STEP * rules.BILEVEL_DECAY**t * np.maximum(0.0, 1.0 - deviation / size)
    return -length * np.sign(gradient)
