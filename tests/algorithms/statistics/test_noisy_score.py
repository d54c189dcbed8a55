"""Scores of held-out records: replaced records, the law of the scores, what they cost."""

from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from plain_noise import seeded

from skdp.algorithms import Run
from skdp.algorithms.statistics.noisy_score import (
    AUCPlan,
    F1ScorePlan,
    LabelledScoresPlan,
    MeanScorePlan,
)
from skdp.privacy import PrivacyBudget, tightest_epsilon

#: Plans, and the values and labels that a record may have.
PLANS = {
    "mean": (MeanScorePlan, {}, [0.0, 0.3, 1.0, 7.0, np.nan, -np.inf], [0]),
    "labels": (LabelledScoresPlan, {"n_labels": 3}, [0.0, 0.3, 1.0, -2.0, np.nan], range(3)),
    "one label": (LabelledScoresPlan, {"n_labels": 1}, [0.0, 0.3, 1.0, np.nan], range(2)),
    "f1": (F1ScorePlan, {"n_labels": 1}, [0, 1, 2], range(2)),
    "f1 of three": (F1ScorePlan, {"n_labels": 3}, range(4), range(3)),
    "area": (AUCPlan, {}, [0.0, 1.0, np.inf, np.nan], range(2)),
}


def plan_of(name, n, budget=PrivacyBudget(1.0)):  # noqa: B008  frozen
    kind, options, _, _ = PLANS[name]
    return kind(n_records=n, budget=budget, **options)


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("name", PLANS)
def test_every_replaced_record(name, n):
    """No pair of neighbours is further apart than stated, and one is as far."""
    plan, kinds = plan_of(name, n), list(product(*PLANS[name][2:]))
    largest = 0.0
    for others in (
        combinations_with_replacement(range(len(kinds)), n - 1)
        if n < 4
        else (
            # all other records of one or two kinds
            [i] * k + [j] * (n - 1 - k)
            for i, j in combinations_with_replacement(range(len(kinds)), 2)
            for k in range(n)
        )
    ):
        tables = [np.array([kinds[i] for i in (*others, own)]) for own in range(len(kinds))]
        sums = np.array([plan.sums(t[:, 0], t[:, 1].astype(int)) for t in tables])
        largest = max(largest, np.linalg.norm(sums[:, None] - sums[None], axis=2).max())
    assert largest <= plan.mechanism.sensitivity
    assert largest == pytest.approx(plan.sensitivity, rel=1e-12)
    assert plan.mechanism.sensitivity == pytest.approx(plan.sensitivity, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "delta"), [(name, (0.0, 1e-6)[i % 2]) for i, name in enumerate(PLANS)]
)
def test_stated_noise(name, delta):
    """The deviation of 200 scores, a fifth of it 4 standard errors; their mean; the price."""
    rng, n = np.random.default_rng(0), 1000
    plan = plan_of(name, n, PrivacyBudget(0.5, delta))
    labels = rng.integers(max(PLANS[name][3]) + 1, size=n)
    values = labels + (rng.random(n) < 0.3) if "f1" in name else rng.random(n) * (1 + labels) / 3
    exact = plan.scores(plan.sums(values, labels))[0]
    points = [plan.run((values, labels, None), Run(noise=seeded(k))).point for k in range(200)]
    scores = np.array([plan.scores(point)[0] for point in points])
    stated = plan.deviations(points[0])
    np.testing.assert_allclose(scores.std(axis=0), stated, rtol=0.2)
    assert (np.abs(scores.mean(axis=0) - exact) < 4.0 * stated / np.sqrt(200)).all()
    assert tightest_epsilon(plan.event, delta) == pytest.approx(0.5, rel=1e-6)


@pytest.mark.parametrize("name", PLANS)
def test_scores_are_finite_for_any_noise(name):
    """Sums of a few records with noise far larger than they are; without records of a label."""
    plan = plan_of(name, 2, PrivacyBudget(1e-3))
    for k in range(20):
        data = np.zeros(2, int), np.zeros(2, int), None
        point = plan.run(data, Run(noise=seeded(k))).point
        scores = plan.scores(point)[0]
        assert np.isfinite(plan.deviations(point)).all()
        assert name == "mean" or ((scores >= 0.0) & (scores <= 1.0)).all()


def test_other_numbers_of_records_are_refused():
    with pytest.raises(ValueError, match="another number of records"):
        plan_of("labels", 3).run((np.zeros(2), np.zeros(2, int), None), Run())
    with pytest.raises(ValueError, match="another number of records"):
        plan_of("labels", 3).run((np.zeros(3), np.zeros(3, int), np.array([0, 1, 1])), Run())
