"""Problems of weighted records and of persons: the same as with repeated records."""

import numpy as np
import pytest
import scipy.sparse as sp

from skdp.algorithms import output_perturbation, plan_output_perturbation
from skdp.privacy import PrivacyBudget
from skdp.privacy.events import Neighbouring
from skdp.problems import (
    AdversarialProblem,
    Attack,
    Ball,
    Design,
    EmpiricalRisk,
    FiniteSumProblem,
    HalfSquaredLoss,
    LogisticLoss,
    Objective,
    Records,
    SoftmaxLoss,
    TiltedProblem,
    TiltedRisk,
)

BUDGET = PrivacyBudget(1.0, 1e-6)
PROBLEMS = {
    "mean": lambda records, loss: FiniteSumProblem(records, loss, 0.1, Ball(3.0)),
    "tilted": lambda records, loss: TiltedProblem(records, loss, 0.1, Ball(3.0), 0.7),
    "attacked": lambda records, loss: AdversarialProblem(
        records, loss, 0.1, Ball(3.0), Attack(2, 0.2, records.intercept), 0.05
    ),
}
#: All but attacks on softmax, which have no closed form.
CASES = [
    (name, loss)
    for name in PROBLEMS
    for loss in (LogisticLoss(), HalfSquaredLoss(1.0), SoftmaxLoss(3))
    if name != "attacked" or loss.n_outputs == 1
]


def parts(loss, seed=0):
    """Rows, targets and persons with 1, 2 or 4 records."""
    rng = np.random.default_rng(seed)
    persons = np.repeat(np.arange(30), rng.choice([1, 2, 4], 30))
    X, n = rng.normal(size=(len(persons), 4)), len(persons)
    if isinstance(loss, SoftmaxLoss):
        return X, rng.integers(0, 3, n), persons
    return X, rng.uniform(-1, 1, n) if loss.target_bound else rng.integers(0, 2, n) + 0.0, persons


@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize(("name", "loss"), CASES, ids=str)
def test_a_person_counts_once(name, loss, container):
    """Each record four times over the records of its person: four records of each person."""
    X, t, persons = parts(loss)
    order = np.random.default_rng(1).permutation(len(t))
    of_persons = Records(container(X[order]), 1.0, 0.3, targets=t[order]).of_persons(persons[order])
    repeats = 4 // np.bincount(persons)[persons]
    repeated = Records(np.repeat(X, repeats, axis=0), 1.0, 0.3, targets=np.repeat(t, repeats))
    ours, reference = (PROBLEMS[name](each, loss) for each in (of_persons, repeated))
    assert ours.n_public == 30 and ours.of_persons and "records" not in ours.offers
    rng = np.random.default_rng(2)
    for w in rng.normal(size=(3, ours.dimension)):
        np.testing.assert_allclose(ours.value(w), reference.value(w), rtol=1e-12)
        for evaluate in ("gradient", "hessian"):
            each = [getattr(problem, evaluate)(w) for problem in (ours, reference)]
            np.testing.assert_allclose(*each, rtol=1e-10, atol=1e-12)
    assert ours.smoothness == pytest.approx(ours.constants.smoothness + 0.1)


def test_losses_of_others_are_moved_by_a_weight_at_most_by_their_gradient():
    """A declared diameter below the largest gradient does not hold for weights below 1."""

    class Steep(LogisticLoss):
        def gradient_diameter(self, feature_norm, radius):
            return 0.1 * self.lipschitz(feature_norm, radius)

    full = Design(1.0, 3, 100, of_persons=True)
    slack = Design(1.0, 3, 100, of_persons=True, is_slack=True)
    diameters = [EmpiricalRisk(Steep()).constants(each, 0.1, 2.0) for each in (full, slack)]
    low, high = (each.gradient_diameter for each in diameters)
    assert high == pytest.approx(10.0 * low) == diameters[0].lipschitz


def test_tilt_is_refused_for_weights_below_1():
    """All others may weigh next to nothing: one person then has most of the tilted weight."""
    records = Records(np.eye(3), 1.0, targets=np.ones(3)).with_weights(np.full(3, 1e-3))
    with pytest.raises(ValueError, match="tilt > 0 has no proof"):
        TiltedProblem(records, LogisticLoss(), 0.1, Ball(1.0), 1.0)
    with pytest.raises(ValueError, match="tilt > 0 has no proof"):
        TiltedRisk(LogisticLoss(), 1.0).constants(Design.of(records), 0.1, 1.0)


def test_records_of_persons_need_a_relation_of_persons():
    X, t, persons = parts(LogisticLoss())
    problem = PROBLEMS["mean"](Records(X, 1.0, targets=t).of_persons(persons), LogisticLoss())
    result = output_perturbation(problem, BUDGET)
    assert result.plan.neighbouring is Neighbouring.REPLACE_USER
    plan = plan_output_perturbation(problem.constants, BUDGET)
    with pytest.raises(ValueError, match="go with a relation of persons"):
        plan.run(problem, None)
    with pytest.raises(ValueError, match="go with a relation of persons"):
        Objective(EmpiricalRisk(LogisticLoss()), Design(1.0, 3, 30, of_persons=True))
