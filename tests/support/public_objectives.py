"""Objectives of public numbers, and centerings."""

import numpy as np
import pytest

from skdp.algorithms.core.centered_rows import Centering
from skdp.privacy.events import RECORD_RELATIONS, Neighbouring
from skdp.problems import Design, EmpiricalRisk, Objective

REPLACE, ADD = Neighbouring.REPLACE_ONE, Neighbouring.ADD_REMOVE
RELATIONS = pytest.mark.parametrize("relation", RECORD_RELATIONS)


def centering_of(mean, scale):
    """A centering without offsets, for targets of the usual variance."""
    return Centering(mean=mean, scale=scale, offsets=np.zeros(1))


def objective(loss, n, d, relation=REPLACE, intercept=0.1):
    ratio = 1.0 if relation is REPLACE else 10.0
    design = Design(1.01, d + bool(intercept), n, ratio, intercept)
    return Objective(EmpiricalRisk(loss), design, neighbouring=relation)
