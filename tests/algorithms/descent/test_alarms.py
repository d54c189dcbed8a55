"""What a plan says of its noise: before a fit by public numbers, after it by the released share."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from descent_plans import plan_of

from skdp.linear_model import DPLogisticRegression
from skdp.problems import HalfSquaredLoss, LogisticLoss, SoftmaxLoss
from skdp.robust import DPMaxGroupLossClassifier


@pytest.mark.parametrize(
    ("loss", "n", "d", "epsilon", "is_large"),
    [
        (LogisticLoss(), 500, 30, 0.1, True),
        (LogisticLoss(), 500, 30, 1.0, False),
        (SoftmaxLoss(3), 500, 30, 0.1, True),
        (HalfSquaredLoss(1.0), 1000, 8, 0.1, False),
        (HalfSquaredLoss(1.0), 800, 8, 0.1, True),  # an error of .29; log odds may have .4
        (LogisticLoss(), 800, 8, 0.1, False),
        (LogisticLoss(), 4000, 65_536, 1.0, False),  # hashed words vary in few directions
        (LogisticLoss(), 400, 65_536, 1.0, True),
    ],
)
def test_a_warning_before_the_fit_by_public_numbers(loss, n, d, epsilon, is_large):
    assert bool(plan_of(loss, n, d, epsilon, 1e-6).alarms()) == is_large


@pytest.mark.parametrize("share", [0.02, 0.5])
@pytest.mark.parametrize("estimator", [DPLogisticRegression, DPMaxGroupLossClassifier])
def test_the_report_says_that_noise_hides_a_rare_class(share, estimator):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.17, 0.17, (4000, 100)), (rng.random(4000) < share).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing is left to be said before the payment
        model = estimator(0.3, data_norm=1.0, classes=[0, 1], random_state=0).fit(X, y)
    remarks = [remark for remark in model.privacy_.remarks if "rarer class" in remark]
    assert len(remarks) == (share < 0.1)
