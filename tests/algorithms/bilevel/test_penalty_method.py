"""Bilevel optimisation: accounting, the leak, errata."""

import dataclasses
import math

import numpy as np
import pytest
from bilevel_leak import BUDGET, Leak, Mixed, Replay, one_step, records
from plain_noise import seeded

from skdp.algorithms import OutputPerturbation, dp_bilevel, plan_bilevel
from skdp.algorithms.bilevel.penalty_method import plan_steps
from skdp.algorithms.plan import Run
from skdp.mechanisms import gaussian_noise_multiplier
from skdp.privacy.composition import tightest_epsilon
from skdp.privacy.events import GaussianEvent, RepeatedEvent
from skdp.privacy.gaussian_dp import gaussian_epsilon, gaussian_mu
from skdp.problems import (
    Ball,
    FiniteSumProblem,
    HalfSquaredLoss,
    HingeLoss,
    PenaltyGroups,
    PenaltyProblem,
    Records,
)
from skdp.solvers import LBFGS


def test_leak_is_covered_by_the_inner_noise():
    """(c): the mean moves by 2 / n, the noise is calibrated to that, and no more is added.

    Each of two deviations of 900 normal numbers within 5 standard errors: 1.2e-6 in all.
    """
    problem = Leak(np.zeros((100, 3)))
    plan = plan_bilevel(problem, BUDGET, penalty=5.0, n_steps=1)
    assert plan.outer_multiplier is None
    assert len(plan.releases) == 2
    np.testing.assert_allclose([r.sensitivity for r in plan.releases], [0.02002, 0.02002 / 1.2])
    rng, source = np.random.default_rng(0), seeded(0)
    outputs = [
        one_step(problem, np.zeros(3), 5.0, OutputPerturbation(), plan, rng, source)
        for _ in range(300)
    ]
    mu = gaussian_mu(1.0, 1e-6)
    for part, release in enumerate(plan.releases):
        known = release.sensitivity / (mu * math.sqrt(0.5))
        assert release.noise_scale == pytest.approx(known)
        assert np.std([o[part] for o in outputs]) == pytest.approx(known, rel=5 / math.sqrt(1800))


def lemma(epsilon, delta, T):
    """Advanced composition, Lemma 2.1."""
    return math.sqrt(2 * T * math.log(1 / delta)) * epsilon + 2 * T * epsilon**2


def test_printed_split_exceeds_the_budget():
    """Erratum K7: what the cited lemma gives for the printed split, and the exact totals."""
    d = 1e-6
    for epsilon, T, total in ((1, 100, 5.29), (1, 10, 5.03), (1, 1000, 5.55), (0.5, 100, 2.40)):
        printed = lemma(epsilon / math.sqrt(2 * T), d / (T + 1), T)
        assert printed == pytest.approx(total, abs=5e-3)
    for calibration, exact in (("classical", 0.25), ("analytic", 0.36)):
        z = gaussian_noise_multiplier(1 / math.sqrt(1800), d / 303, calibration)
        assert gaussian_epsilon(d, math.sqrt(300) / z) == pytest.approx(exact, abs=5e-3)
        gain = z / (gaussian_noise_multiplier(1.0, d) * math.sqrt(300))
        assert gain == pytest.approx({"classical": 3.6, "analytic": 2.6}[calibration], abs=0.05)


class Expensive(OutputPerturbation):
    """Says that it costs ten times what it was given."""

    def event(self, multiplier, count, *neighbouring):
        return super().event(multiplier, 10 * count, *neighbouring)


def test_solvers_that_cost_more_than_they_may_are_refused():
    problem = Mixed(*records(20))
    for share in (1.0, 0.5):
        with pytest.raises(ValueError, match="exceeded"):
            plan_bilevel(problem, BUDGET, penalty=3.0, inner=Expensive(), share=share)
    # the published composition is loose enough for them
    plan = plan_bilevel(problem, BUDGET, penalty=3.0, inner=Expensive(), calibration="paper")
    assert plan.multiplier > plan_bilevel(problem, BUDGET, penalty=3.0).multiplier


def test_sensitivity_of_output_perturbation():
    """``Delta + 2 tau`` with tau a thousandth of Delta / 2, and the diameter of the ball."""
    constants = Leak(np.zeros((100, 3))).lower(np.zeros(3)).constants
    assert constants.in_ball
    assert OutputPerturbation().release("", constants, 1.0, 1).sensitivity == pytest.approx(0.02002)
    flat = dataclasses.replace(constants, strong_convexity=1e-6)
    release = OutputPerturbation().release("", flat, 3.0, 2)
    assert (release.sensitivity, release.noise_scale) == (4.0, 12.0)
    assert release.event == RepeatedEvent(GaussianEvent(3.0, "replace_one"), 2)


def test_share_in_three_equal_parts():
    problem = Mixed(*records(20))
    plan = plan_bilevel(problem, BUDGET, penalty=3.0, n_steps=5, share=0.25)
    squares = 5 / np.array([plan.multiplier, plan.outer_multiplier]) ** 2
    np.testing.assert_allclose(squares, 0.25 / 3 * gaussian_mu(1.0, 1e-6) ** 2)
    half = gaussian_epsilon(1e-6, 0.5 * gaussian_mu(1.0, 1e-6))  # all three are paid for
    assert tightest_epsilon(plan.event, 1e-6) == pytest.approx(half, rel=1e-6)


@pytest.mark.slow
def test_what_sampling_saves_goes_to_the_sampled_release():
    """The lower solutions keep their part; the noise in the hypergradient hardly grows."""
    pytest.importorskip("dp_accounting")
    problem, rate = Mixed(*records(50)), 0.2
    options = {"penalty": 3.0, "n_steps": 8}
    plan = plan_bilevel(problem, BUDGET, outer_sampling_rate=rate, **options)
    whole = plan_bilevel(problem, BUDGET, **options)
    assert plan.multiplier == whole.multiplier
    assert plan.outer_multiplier < 1.1 * rate * whole.outer_multiplier
    assert 0.99 < tightest_epsilon(plan.event, 1e-6) <= 1.0
    # one record adds half of the sensitivity
    release = plan.releases[2]
    assert release.sensitivity == pytest.approx(whole.releases[2].sensitivity / rate)
    assert release.event.event.record_multiplier == 2.0 * plan.outer_multiplier
    assert release.event.event.event == GaussianEvent(plan.outer_multiplier, "replace_one")
    assert release.noise_scale == pytest.approx(plan.outer_multiplier * release.sensitivity)


def tuning_problem(n=400, seed=0, low=1e-3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    t = np.clip(X @ [0.8, 0.0, 0.0] + 0.1 * rng.normal(size=n), -1, 1)
    return PenaltyProblem(
        Records(X, 1.0, targets=t),
        HalfSquaredLoss(1.0),
        PenaltyGroups((0,) * 3, (1.0,) * 3, low, 10.0),
    )


class Exact(OutputPerturbation):
    """No noise; for tests of directions."""

    def solve(self, problem, multiplier, run):
        return super().solve(problem, 1e-9, run)


def validation_loss(problem, x):
    y = LBFGS().solve(problem.lower(x), 1e-9).point / problem.metric(x)
    records = problem._records.take(slice(1, None, 2))
    rows, t = records.materialise(), records.targets
    return 0.5 * float(((rows @ y - t) ** 2).mean())


@pytest.mark.parametrize("sign", [1, -1])
def test_printed_sign_ascends(sign):
    """Erratum K1: the rule as printed, with +, increases the validation loss; ours decreases it."""
    problem = tuning_problem()
    start = np.log([0.3])
    result = dp_bilevel(
        problem, BUDGET, penalty=20.0, n_steps=8, start=start, inner=Exact(), output="last",
        step_size=lambda t, gradient, deviation: -sign * 10.0 * gradient,
    )  # fmt: skip
    values = [validation_loss(problem, x) for x in result.path]
    steps = np.diff(values)
    assert (steps < 0).all() if sign == 1 else (steps > 0).all()


def test_outputs():
    points = np.random.default_rng(1).normal(size=(8, 3)) * 0.1
    points[4:6] *= 0.3  # the third step is the shortest
    found = {
        output: dp_bilevel(
            tuning_problem(), BUDGET, penalty=2.0, n_steps=4, inner=Replay(points), output=output
        )
        for output in ("last", "min_step", "tail_average")
    }
    path = found["last"].path
    steps = np.abs(np.diff(path[:, 0]))
    assert 0 < steps[2] < min(steps[[0, 1, 3]])
    np.testing.assert_array_equal(found["last"].point, path[4])
    np.testing.assert_array_equal(found["min_step"].point, path[2])
    np.testing.assert_allclose(found["tail_average"].point, path[3:].mean(axis=0))
    assert found["last"].y.shape == (3,)


def test_points_are_taken_out_of_the_coordinates_of_the_lower_problems():
    """One step with alphas of two groups: the gradient at the points divided by the metric."""
    rows = Records(np.random.default_rng(0).normal(size=(40, 3)), 1.0)
    problem = PenaltyProblem(
        rows.with_targets(np.zeros(40)),
        HalfSquaredLoss(1.0),
        PenaltyGroups((0, 1, 0), (1.0, 1.0, 2.0), 1e-3, 10.0),
    )
    x, lam, points = np.log([0.3, 0.01]), 3.0, np.random.default_rng(1).normal(size=(2, 3))
    metric = np.sqrt(np.array([0.3, 0.01, 0.6]) / 0.01)
    plan = plan_bilevel(problem, BUDGET, penalty=lam, n_steps=1)
    y, gradient, _ = one_step(
        problem, x, lam, Replay(points), plan, np.random.default_rng(0), seeded(0)
    )
    np.testing.assert_allclose(y, points[0] / metric)
    known = problem.hypergradient(x, points[0] / metric, points[1] / metric, lam)
    np.testing.assert_allclose(gradient, known)


class Diverges(OutputPerturbation):
    def solve(self, *arguments):
        point, variance = super().solve(*arguments)
        return point * np.inf, variance


def test_points_that_are_not_finite_never_reach_the_records():
    """Their distance is no number, and noise cannot be scaled by it."""
    problem = Mixed(*records(20))
    with pytest.raises(ValueError, match="point of Diverges must be finite"):
        dp_bilevel(problem, BUDGET, penalty=1.0, inner=Diverges())
    with pytest.raises(ValueError, match="distance == nan"):
        problem.record_bound(math.nan, 1.0)
    for move in (np.full(3, np.nan), np.zeros((3, 1)), 0.0):
        with pytest.raises(ValueError, match="movement of x"):
            dp_bilevel(problem, BUDGET, penalty=1.0, step_size=lambda *_, move=move: move)


def test_a_plan_without_outer_noise_is_for_record_free_problems():
    plan = plan_steps(BUDGET, True, penalty=1.0)
    with pytest.raises(ValueError, match="fixed by the plan"):
        plan.run(Mixed(*records(4)), Run())


@pytest.mark.parametrize("inner", ["sgd", None, 3, np.zeros(2), OutputPerturbation])
def test_unknown_private_solvers(inner):
    with pytest.raises(ValueError, match="inner"):
        dp_bilevel(tuning_problem(), BUDGET, penalty=1.0, inner=inner)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_val", 0),
        ("n_train", 2.0),
        ("n_val", 3),
        ("domain_y", None),
        ("disjoint", "no"),
        ("is_record_free", 1),
    ],
)
def test_attributes_of_problems_are_checked(name, value):
    problem = Mixed(*records(4))
    setattr(problem, name, value)
    with pytest.raises((TypeError, ValueError), match=name):
        plan_bilevel(problem, BUDGET, penalty=1.0)


def test_only_problems_that_can_be_solved_to_a_proven_accuracy():
    with pytest.raises(TypeError, match="BilevelProblem"):
        plan_bilevel(None, BUDGET, penalty=1.0)

    class Rough(PenaltyProblem):
        def lower(self, x):
            problem = super().lower(x)
            targets = np.zeros(problem.n_records)
            return FiniteSumProblem(
                problem.records.with_targets(targets), HingeLoss(), problem.alpha, Ball(2.0)
            )

    rows = Records(np.eye(4), 1.0)
    problem = Rough(
        rows.with_targets(np.zeros(4)),
        HalfSquaredLoss(1.0),
        PenaltyGroups((0,) * 4, (1.0,) * 4, 1e-3, 10.0),
    )
    with pytest.raises(ValueError, match="not smooth"):
        plan_bilevel(problem, BUDGET, penalty=1.0)
