"""Objectives and plans of noisy gradient descent for public numbers."""

import math

import numpy as np
import pytest

from skdp.algorithms.descent import noisy_descent
from skdp.algorithms.preparation.centered_rows import Centering
from skdp.privacy import PrivacyBudget
from skdp.privacy.events import RECORD_RELATIONS, Neighbouring
from skdp.problems import Design, EmpiricalRisk, Objective

REPLACE, ADD = Neighbouring.REPLACE_ONE, Neighbouring.ADD_REMOVE
RELATIONS = pytest.mark.parametrize("relation", RECORD_RELATIONS)


def centering_of(mean, scale):
    """A centering without offsets, for targets of the usual variance."""
    return Centering(mean=mean, scale=scale, offsets=np.zeros(1), target_variance=0.15)


def objective(loss, n, d, relation=REPLACE, intercept=0.1):
    ratio = 1.0 if relation is REPLACE else 10.0
    design = Design(1.01, d + bool(intercept), n, ratio, intercept)
    return Objective(EmpiricalRisk(loss), design, neighbouring=relation)


def plan_of(loss, n, d, epsilon, delta, relation=REPLACE):
    budget = PrivacyBudget(epsilon, delta)
    return noisy_descent.plan_noisy_gradient_descent(objective(loss, n, d, relation), budget)


def plain_plan(goal, budget, temperature_share=None):
    """Plan steps without second moments; a temperature as planned, or with another part."""
    is_squared = goal.risk.loss.target_bound > 0
    return noisy_descent._planned(goal, budget, is_squared, temperature_share, moments_share=0.0)


def weights_of(square, size):
    """Weights of one output with a squared norm."""
    return np.full((1, size), math.sqrt(square / size))
