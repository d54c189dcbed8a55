"""DP-RGDA for the worst group's loss of a network, or of a linear model, by public numbers.

The dual is linear: in each step the mean losses of the groups are released first, they give the
weights y of the groups, and then the gradient in x with these weights. The constants of the default
were chosen on made data (docs/theory/dp_rgda.md, "The default of the network").
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from skdp.algorithms.dp_rgda import RGDAPlan, RGDAResult, plan_dp_rgda
from skdp.algorithms.max_group_loss import GroupObjective
from skdp.algorithms.plan import Plan, Run
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.report import Release
from skdp.problems import EmpiricalRisk, GroupNetworkProblem, Network, Records

#: Length of the first step over the square root of the dimension: of a coordinate, about. It falls
#: to 0. The weights of the hidden features start with size 1.
STEP = 0.24
#: Outer steps, and the momentum of their directions.
N_STEPS, _MOMENTUM = 100, 0.5
#: Deviation of the hidden features' arguments at the start, for a row of the largest norm.
_INPUT_SCALE = 1.5
#: Largest loss of a record in the weights of the groups, over log(number of classes); and the
#: share of the budget of a step that these losses get.
_LARGEST_LOSS, _SHARE_Y = 3.0, 0.1
#: Penalty on unequal weights of the groups: a loss that is larger by it takes all the weight.
BALANCE = 0.3
#: Ball of the network's weights, in units of the square root of their number.
_RADIUS = 100.0


@dataclass(frozen=True)
class GroupNetworkPlan(Plan):
    """A plan of DP-RGDA for the worst group of a network."""

    objective: GroupObjective
    network: Network
    rgda: RGDAPlan
    balance: float

    #: Weights of the groups follow from no earlier release.
    proportions = None
    n_phases = 0

    @property
    def risk(self) -> EmpiricalRisk:
        return self.objective.risk

    @property
    def alpha(self) -> float:
        return self.objective.alpha

    @property
    def releases(self) -> tuple[Release, ...]:
        return self.rgda.releases

    def alarms(self) -> tuple[str, ...]:
        """Warn of noise that hides the gradients even if all steps had the same."""
        largest = max(self.objective.weights.largest) / self.objective.weights.n_groups
        noise = self.rgda.noise_scale() * self.rgda.ledger.clip * max(1.0, largest)
        noise *= math.sqrt(self.network.dimension / self.rgda.n_steps)
        if noise <= self.rgda.ledger.clip:
            return ()
        return (
            f"The noise in the mean of the {self.rgda.n_steps} gradients has a length of about "
            f"{noise:.3g}, and a gradient has at most {self.rgda.ledger.clip:.3g}: the result is "
            "mostly noise",
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            **self.rgda.to_dict(),
            "alpha": self.alpha,
            "hidden_units": self.network.hidden_units,
            "input_scale": self.network.input_scale,
            "balance": self.balance,
            "largest_group_weights": list(self.objective.weights.largest),
        }

    def run(self, data: Records, run: Run) -> RGDAResult:
        """Release the weights x of the network, and those y of the groups of the last step."""
        objective, network = self.objective, self.network
        objective.design.check(data)
        problem = GroupNetworkProblem(
            data, self.risk.loss, objective.weights, network, self.balance, objective.alpha
        )
        start = network.start(run.rng)  # public: it holds no data
        equal = problem.best_dual(start[: problem.dimension_y] * 0.0)
        result = self.rgda.run(problem, run, (start, equal))
        point = result.point
        if not network.hidden_units:  # in units of the rows
            point = point * network.input_scale
        return replace(result, point=point, plan=self)


def plan_group_network(
    objective: GroupObjective,
    budget: PrivacyBudget,
    calibration: str = "analytic",
    *,
    hidden_units: int = 0,
    n_steps: int = N_STEPS,
    step_size: float = STEP,
    clip_norm: float = 1.0,
    balance: float = BALANCE,
) -> GroupNetworkPlan:
    """Plan DP-RGDA on all records in every step.

    Parameters
    ----------
    objective : GroupObjective
        The weights of its groups must not depend on their sizes, and it has no histogram.
    budget : PrivacyBudget
        With delta > 0.
    calibration : {"analytic"}
    hidden_units : int, default=0
        0: a linear model.
    n_steps : int
    step_size : float
        Length of the first step, over the square root of the number of weights.
    clip_norm : float, default=1.0
        Of the gradient of a record, for a group of weight 1.
    balance : float
        Penalty on unequal weights of the groups.

    Raises
    ------
    ValueError
        If a group's factor depends on the records, or is released first.
    """
    design, loss = objective.design, objective.risk.loss
    if objective.weights.clipped or objective.histogram_share:
        raise ValueError(
            "method='rgda' needs factors of the groups that are public: "
            "group_mode='proportions' or 'public'."
        )
    if not objective.risk.is_mean or not objective.risk.is_smooth:
        raise ValueError("method='rgda' needs the mean of a smooth loss.")
    network = Network(
        design.width, hidden_units, loss.n_outputs, _INPUT_SCALE / design.feature_norm
    )
    root = math.sqrt(network.dimension)
    rgda = plan_dp_rgda(
        budget,
        n_public=design.n_records,
        dimension_x=network.dimension,
        dimension_y=objective.weights.n_groups,
        linear_dual=True,
        neighbouring=objective.neighbouring,
        n_steps=n_steps,
        clip=clip_norm,
        share_y=_SHARE_Y,
        unit_y=_LARGEST_LOSS * math.log(max(2, loss.n_outputs + 1)) / clip_norm,
        step_size=step_size * root,
        radius=_RADIUS * root,
        momentum=_MOMENTUM,
        decay=True,
        average=True,
    )
    return GroupNetworkPlan(objective, network, rgda, float(balance))
