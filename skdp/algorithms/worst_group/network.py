"""DP-RGDA for the worst group's loss of a network, or of a linear model, by public numbers.

The dual is linear: in each step the mean losses of the groups are released first, they give the
weights y of the groups, and then the gradient in x with these weights. Where the proportions of the
groups are not public, noisy ones are released before the first step. The constants of the default
were chosen on simulated data (docs/theory/dp_rgda.md, "The default of the network").
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from skdp._runtime import without_warnings
from skdp.algorithms.core.noisy_sums import Level, NoisySum
from skdp.algorithms.plan import Run
from skdp.algorithms.recursive.rgda import RGDAPlan, plan_dp_rgda
from skdp.algorithms.recursive.settings import RGDASettings
from skdp.algorithms.worst_group import rules
from skdp.algorithms.worst_group.group_plan import (
    GroupPlan,
    GroupResult,
    noisy_sizes,
    positive_shares,
)
from skdp.mechanisms import NoiseSource
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.report import Release
from skdp.problems import Records, SoftmaxLoss
from skdp.problems.group_network import GroupNetworkProblem, Network
from skdp.problems.group_objective import GroupObjective

#: Defaults of parameters: length of the first step over the square root of the dimension, which
#: falls to 0; outer steps; the difference of losses that takes all the weight of the groups.
STEP, N_STEPS, BALANCE = 0.24, 100, 0.3
_PROPORTIONS = "docs/theory/dp_rgda.md, 'Proportions': one record, two counts"


@dataclass(frozen=True, kw_only=True)
class GroupNetworkPlan(GroupPlan):
    """A plan of DP-RGDA for the worst group of a network."""

    network: Network
    #: Plan of the steps, with the rest of the budget after the proportions.
    rgda: RGDAPlan
    #: Penalty on unequal weights of the groups, in units of the loss.
    balance: float
    #: Of the sizes of the classes, whose log odds take the part of the margins that is noise. None
    #: where there is little noise, or the classes are the groups.
    constant: NoisySum | None = None

    @property
    def releases(self) -> tuple[Release, ...]:
        first = () if self.constant is None else (self.constant.describe(),)
        return (*first, *self.first_releases(), *self.rgda.releases)

    def alarms(self) -> tuple[str, ...]:
        """Warn of noise that hides the gradients even if all steps had the same."""
        largest, clip, n_steps = 1.0, self.rgda.settings.clip, self.rgda.settings.n_steps
        if self.sizes is None:  # else of groups that are equally large
            largest = max(self.objective.weights.largest) / self.objective.weights.n_groups
        noise = self.rgda.noise_scale() * clip * max(1.0, largest)
        noise *= math.sqrt(self.network.dimension / n_steps)
        if noise <= clip:
            return ()
        return (
            f"The noise in the mean of the {n_steps} gradients has a length of about {noise:.3g}, "
            f"and a gradient has at most {clip:.3g}: the result is mostly noise",
        )

    @property
    def signal_share(self) -> float:
        """Factor of the margins: the part of the mean gradient, by its square, that is no noise."""
        weights = self.objective.weights
        noise = self.rgda.noise_scale() * max(1.0, max(weights.largest) / weights.n_groups)
        noise *= math.sqrt(self.network.dimension / self.rgda.settings.n_steps)
        return 1.0 / (1.0 + (noise / rules.SIGNAL) ** 2)

    def to_dict(self) -> dict[str, Any]:
        return {
            **self.rgda.to_dict(),
            "alpha": self.alpha,
            "hidden_units": self.network.hidden_units,
            "input_scale": self.network.input_scale,
            "balance": self.balance,
            **self.public_numbers(),
        }

    def run(self, data: Records, run: Run) -> GroupResult:
        """Release the weights x of the network, and those y of the groups of the last step."""
        self.objective.design.check(data)
        data.check_targets(self.risk.loss)
        self.objective.weights.check_groups(data.groups)
        odds = np.zeros(self.risk.loss.n_outputs)
        if self.constant is not None:
            odds = self._class_odds(data.targets, self.constant, run.noise)
        plan, network = self.weighted(data, run.noise), self.network
        weights, share = plan.objective.weights, plan.signal_share
        problem = GroupNetworkProblem(
            data, self.risk.loss, weights, network, self.balance, self.alpha
        )
        start = network.start(run.rng)  # public: it holds no data
        equal = problem.best_dual(np.zeros(problem.dimension_y))
        result = self.rgda.run(problem, run, (start, equal))
        point = result.point
        if network.hidden_units:
            _, output = network.unpack(point)
            output = share * output
            output[:, -1] += (1.0 - share) * odds / network.output_scale
            point = np.append(point[: -output.size], output.ravel())
        else:  # in units of the rows
            point = point * network.input_scale
        return plan.result(point, result.y)

    @without_warnings()
    def _class_odds(
        self, targets: np.ndarray, constant: NoisySum, noise: NoiseSource
    ) -> np.ndarray:
        """Release the margins of a constant model."""
        loss = self.risk.loss
        basis = loss.basis if isinstance(loss, SoftmaxLoss) else np.array([[-1.0], [1.0]])
        n, counts = len(targets), np.bincount(targets.astype(np.intp), minlength=len(basis))
        noisy, scale = constant.release(counts.astype(np.float64), noise)
        least = min(max(rules.LEAST_PROPORTION, scale / n), 1.0)
        return np.asarray(np.log(positive_shares(np.clip(noisy / n, 0.0, 1.0), least)) @ basis)

    def shares(self, data: Records, noise: NoiseSource) -> np.ndarray:
        """Release proportions of the groups, positive and of sum 1."""
        assert self.sizes is not None
        scale = self.sizes.deviation / self.objective.design.n_records
        noisy = super().shares(data, noise)
        return positive_shares(noisy, min(max(rules.LEAST_PROPORTION, 2.0 * scale), 1.0))


def plan_group_network(
    objective: GroupObjective,
    budget: PrivacyBudget,
    *,
    hidden_units: int = 0,
    n_steps: int = N_STEPS,
    step_size: float = STEP,
    clip_norm: float = 1.0,
    balance: float = BALANCE,
) -> GroupNetworkPlan:
    """Plan DP-RGDA on all records in every step, with delta > 0; 0 hidden units are a linear model.

    The weights of the groups must not depend on their sizes. `step_size` is the length of the first
    step over the root of the number of weights, `clip_norm` bounds the gradient of a record, and
    `balance` is the penalty on unequal weights. For numeric targets these are in their units.
    """
    design, loss, weights = objective.design, objective.risk.loss, objective.weights
    if not objective.risk.is_mean or not objective.risk.is_smooth:
        raise ValueError("method='rgda' needs the mean of a smooth loss.")
    network = Network(
        design.width, hidden_units, loss.n_outputs, rules.INPUT_SCALE / design.feature_norm
    )
    unit, largest = 1.0, rules.LARGEST_LOSS * math.log(max(2, loss.n_outputs + 1))
    if loss.target_bound:
        unit, largest = loss.target_bound, loss.largest_value(1.0, 0.0)
        clip_norm = clip_norm * loss.lipschitz(1.0, 0.0)
        balance = rules.BALANCE_OF_NUMBERS * largest
    root = math.sqrt(network.dimension) * unit
    settings = RGDASettings(
        n_steps=n_steps,
        clip=clip_norm,
        share_y=rules.LOSSES_SHARE,
        unit_y=largest / clip_norm,
        step_size=step_size * root,
        radius=rules.RADIUS * root,
        momentum=rules.MOMENTUM,
        decay=True,
        average=True,
    )
    steps = partial(
        plan_dp_rgda,
        budget,
        settings=settings,
        n_public=design.n_records,
        dimension_x=network.dimension,
        dimension_y=weights.n_groups,
        linear_dual=True,
        neighbouring=objective.neighbouring,
    )
    sizes, for_sizes, level = None, 0.0, Level.of(budget)
    noise = 2.0 / (level.mu * design.n_records)
    if objective.histogram_share:
        least, most, factor = rules.SIZES
        # all are Gaussian releases on all records: mu^2 adds
        for_sizes = min(max((factor * noise) ** 2, least), most)
        sizes = noisy_sizes(objective, level.part(for_sizes), weights.n_groups, _PROPORTIONS)
    plan = GroupNetworkPlan(
        objective=objective,
        network=network,
        rgda=steps(share=1.0 - for_sizes),
        balance=float(balance),
        sizes=sizes,
    )
    if not hidden_units or not loss.has_odds or objective.are_classes:
        return plan
    if plan.signal_share > rules.CLEAR_SIGNAL:
        return plan
    least, most, factor = rules.CONSTANT
    share = min(max((factor * noise) ** 2, least), most)
    return replace(
        plan,
        rgda=steps(share=1.0 - for_sizes - share),
        constant=noisy_sizes(objective, level.part(share), loss.n_classes, _PROPORTIONS, "classes"),
    )
