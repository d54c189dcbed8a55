"""Private Frank-Wolfe: a record moves the scores of its draws by their sensitivity."""

import numpy as np
import pytest

from skdp.algorithms.baselines.frank_wolfe import plan_frank_wolfe
from skdp.algorithms.plan import Run
from skdp.mechanisms import SoftmaxMechanism
from skdp.privacy import PrivacyBudget, tightest_epsilon
from skdp.problems import LogisticLoss, Records
from skdp.problems.vertices import LinearDesign, LinearProblem

N, RADIUS = 40, 50.0


@pytest.mark.parametrize("n_rounds", [2, 5])
def test_neighbours_attain_the_sensitivity_and_do_not_exceed_it(monkeypatch, n_rounds):
    """Records (1, 1) and (1, -1), label 0, at coefficients (50, 0): derivatives of +-1."""
    drawn = []

    def first(mechanism, scores, n_draws, noise):
        drawn.append(scores)
        return np.zeros(1, dtype=np.intp)

    monkeypatch.setattr(SoftmaxMechanism, "draw", first)
    design = LinearDesign.of(LogisticLoss(), N, 2, RADIUS, 1.0)
    plan = plan_frank_wolfe(design, PrivacyBudget(1.0, 1e-6), n_rounds=n_rounds)
    for sign in (1.0, -1.0):
        X = np.ones((N, 2))
        X[0, 1] = sign
        plan.run(LinearProblem(Records(X, 2.0, targets=np.zeros(N)), LogisticLoss(), design), Run())
    moved = np.abs(np.array(drawn[:n_rounds]) - drawn[n_rounds:]).max(axis=1)
    assert (moved <= plan.mechanism.sensitivity).all()
    assert moved[-1] > 0.999 * plan.mechanism.sensitivity
    assert tightest_epsilon(plan.event, 1e-6) <= 1.0
