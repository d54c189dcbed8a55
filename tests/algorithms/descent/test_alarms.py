"""What a plan says of its noise: before a fit by public numbers, after it by the released share."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from descent_plans import plan_of

from skdp.algorithms.descent.temperature import _left
from skdp.linear_model import DPLogisticRegression
from skdp.problems import HalfSquaredLoss, LogisticLoss, SoftmaxLoss


@pytest.mark.parametrize(
    ("loss", "n", "d", "epsilon", "is_large"),
    [
        (LogisticLoss(), 500, 30, 0.1, True),
        (LogisticLoss(), 500, 30, 1.0, False),
        (SoftmaxLoss(3), 500, 30, 0.1, True),
        (HalfSquaredLoss(1.0), 1300, 8, 0.1, False),
        (HalfSquaredLoss(1.0), 1030, 8, 0.1, True),  # an error of .23; log odds may have .4
        (LogisticLoss(), 800, 8, 0.1, False),
        (LogisticLoss(), 4000, 65_536, 1.0, False),  # hashed words vary in few directions
        (LogisticLoss(), 400, 65_536, 1.0, True),
    ],
)
def test_a_warning_before_the_fit_by_public_numbers(loss, n, d, epsilon, is_large):
    assert bool(plan_of(loss, n, d, epsilon, 1e-6).alarms()) == is_large


@pytest.mark.parametrize(
    ("loss", "n", "epsilon", "is_large"),
    [
        (LogisticLoss(), 300, 1.0, True),  # an error of .18: classes may have .4 but for tables
        (LogisticLoss(), 750, 0.3, True),
        (SoftmaxLoss(3), 300, 1.0, True),
        (LogisticLoss(), 750, 1.0, False),
        (LogisticLoss(), 300, 3.0, False),
        (HalfSquaredLoss(1.0), 300, 1.0, False),  # numbers as always
    ],
)
def test_a_warning_for_tables_comes_earlier(loss, n, epsilon, is_large):
    plan = plan_of(loss, n, 29, epsilon, 1e-6)
    design = replace(plan.objective.design, directions=29.0)
    of_table = replace(plan, objective=replace(plan.objective, design=design))
    assert not plan.alarms()
    assert bool(of_table.alarms()) == is_large


def remarks_of(model):
    return [remark for remark in model.privacy_.remarks if "hardly better" in remark]


@pytest.mark.parametrize("share", [0.02, 0.5])
def test_the_report_says_that_noise_hides_a_rare_class(share):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.17, 0.17, (4000, 100)), (rng.random(4000) < share).astype(int)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        options = {"data_norm": 1.0, "classes": [0, 1], "method": "gradient"}
        model = DPLogisticRegression(0.3, random_state=0, **options)
        model.fit(X, y)
    assert len(remarks_of(model)) == len(caught) == (share < 0.1)
    assert all(each.filename == __file__ for each in caught)


@pytest.mark.parametrize("curvature", [0.0, 1e-300, 1e-200, 1.0])
def test_the_noise_of_the_temperature_is_finite_where_all_margins_are_huge(curvature):
    kept, variance = _left(curvature, 0.1, 1.0, 0.5)
    assert 0.0 <= kept <= 1.0
    assert math.isfinite(variance)
