"""Objectives and plans of noisy gradient descent for public numbers."""

from __future__ import annotations

import pytest

from skdp.algorithms.descent.noisy_descent import plan_noisy_gradient_descent
from skdp.privacy import PrivacyBudget
from skdp.privacy.events import Neighbouring
from skdp.problems import Design, EmpiricalRisk, Objective

REPLACE, ADD = Neighbouring.REPLACE_ONE, Neighbouring.ADD_REMOVE
RELATIONS = pytest.mark.parametrize("relation", list(Neighbouring))


def objective(loss, n, d, relation=REPLACE, intercept=0.1):
    ratio = 1.0 if relation is REPLACE else 10.0
    design = Design(1.01, d + bool(intercept), n, 4096, ratio, intercept)
    return Objective(EmpiricalRisk(loss), design, neighbouring=relation)


def plan_of(loss, n, d, epsilon, delta, relation=REPLACE, **options):
    budget = PrivacyBudget(epsilon, delta)
    return plan_noisy_gradient_descent(objective(loss, n, d, relation), budget, **options)
