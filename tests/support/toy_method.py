"""A method of a user: one noisy gradient step from zero."""

from dataclasses import dataclass, replace

import numpy as np

from skdp.algorithms import Plan, Result
from skdp.mechanisms import AdditiveMechanism, calibrated_mechanism
from skdp.methods import Method
from skdp.problems import ROUNDING_SLACK, Objective
from skdp.problems.loss_sums import GradientSum


@dataclass(frozen=True)
class ToyPlan(Plan):
    objective: Objective
    stated: AdditiveMechanism
    drawn: AdditiveMechanism
    scale: float

    @property
    def releases(self):
        n, size = self.objective.design.n_records, self.objective.dimension
        relation = self.objective.neighbouring
        return (self.stated.describe("coefficients", size, n, "toy", relation),)

    def to_dict(self):
        return {"alpha": self.objective.alpha, "scale": self.scale}

    def run(self, data, run):
        loss = self.objective.risk.loss
        gradient = data.total(GradientSum(loss, np.zeros((loss.n_outputs, data.width))))
        step = self.drawn.release(-gradient.ravel() / data.n_records, run.noise)
        return Result(point=self.scale * step, plan=self)


class Toy(Method):
    """Of a step length; it draws a `part` of the noise that it states."""

    def __init__(self, scale=1.0, part=1.0):
        self.scale = scale
        self.part = part

    def plan(self, objective, budget):
        design, loss = objective.design, objective.risk.loss
        moved = loss.gradient_diameter(design.feature_norm, 0.0) / design.n_records
        stated = calibrated_mechanism(budget, moved * ROUNDING_SLACK)
        drawn = stated
        if self.part != 1.0:
            drawn = replace(stated, noise_multiplier=self.part * stated.noise_multiplier)
        return ToyPlan(objective, stated, drawn, self.scale)
