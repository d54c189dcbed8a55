"""Strengths drawn by their validation losses: sensitivity, scores, accounting."""

import math

import numpy as np
import pytest
import tuning_attacks as attacks
from plain_noise import seeded
from tuning_attacks import exactly, records

from skdp.algorithms.plan import Result, Run
from skdp.algorithms.tuning import FinalFitPlan, TuningObjective, tune
from skdp.algorithms.tuning import exponential as route
from skdp.algorithms.tuning.exponential import plan_score, relative_scores, validation_score
from skdp.algorithms.tuning.holdout import Holdout
from skdp.mechanisms import gaussian_noise_multiplier
from skdp.mechanisms.calibration import draw_epsilon
from skdp.privacy import PrivacyBudget
from skdp.privacy.accountants import GaussianDPAccountant
from skdp.privacy.events import ExponentialMechanismEvent
from skdp.privacy.gaussian_dp import pure_mu
from skdp.problems import HalfSquaredLoss, LogisticLoss, PenaltyGroups, Records, SquaredHingeLoss

pytestmark = pytest.mark.usefixtures("kept_order")

LOSSES = {"squared": HalfSquaredLoss(1.0), "logistic": LogisticLoss()}
BUDGET = PrivacyBudget(1.0, 1e-6)
ONE = PenaltyGroups((0,) * 5, (1.0, 1.0, 1.0, 1.0, 0.01), 1e-3, 10.0)


@pytest.mark.mostly("search", 1)
@pytest.mark.parametrize("role", ["train", "validate"])
@pytest.mark.parametrize("loss", list(LOSSES))
def test_no_neighbours_move_a_score_further(loss, role):
    """Best ratios: 0.986 and 0.999 (squared, train and validate), 0.995 and 0.996 (logistic)."""
    best = 0.0
    for norm in (0.1, 1.0, 5.0):
        for n in (1, 3, 1000):
            sizes = (n, 3) if role == "train" else (3, n)
            sets = attacks.DataSets(loss, norm, 2, *sizes)
            effort = {"population": 48, "generations": 12 if loss == "logistic" else 25}
            moved, _ = attacks.largest_movement("score", sets, role, seed=n, **effort)
            # rows of norm U at alpha 1; the role's own number of records decides
            penalties = PenaltyGroups((0, 0), (1.0, 1.0), 1e-9, 1e9)

            class Role(Holdout):
                def sensitivity(self, train, validate, size=n):
                    return (train if role == "train" else validate) / size

            rows = Records(np.zeros((2, 2)), norm)
            bound, _ = plan_score(
                TuningObjective.of(rows, LOSSES[loss], penalties), np.ones(1), Role(n_records=2)
            )
            best = max(best, moved / bound)
    assert 0.9 < best <= 1.0


def test_the_search_looks_at_what_is_scored():
    sets = attacks.DataSets("logistic", 2.0, 2, 3, 3)
    genome = np.random.default_rng(0).standard_normal((1, sets.size))
    (X, t, Xv, tv), _ = sets.neighbours(genome, "train")
    rows, targets = np.empty((6, 2)), np.empty(6)
    rows[::2], rows[1::2], targets[::2], targets[1::2] = X[0], Xv[0], t[0], tv[0]
    value = exactly(
        validation_score, Records(rows, 2.0, targets=targets), LOSSES["logistic"],
        PenaltyGroups((0, 0), (1.0, 1.0), 1e-3, 1e3), np.ones(1), Holdout(n_records=6),
        accuracy=1e-11,
    )  # fmt: skip
    expected = attacks.released("score", sets, (X, t, Xv, tv))[0, 0]
    assert value == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("loss", list(LOSSES))
def test_scores_of_wrong_minimisers_stay_within_the_tolerance(loss):
    """The tolerance is small, and the computed score is that near to the exact one."""
    rows, t = records(loss)
    roles, alpha = Holdout(n_records=101), np.array([0.05])
    sensitivity, accuracy = plan_score(TuningObjective.of(rows, LOSSES[loss], ONE), alpha, roles)
    scores = [
        exactly(validation_score, rows.with_targets(t), LOSSES[loss], ONE, alpha, roles, accuracy=a)
        for a in (accuracy, 1e-11)
    ]
    assert abs(scores[0] - scores[1]) <= 2e-3 * sensitivity


def test_relative_scores_have_sensitivity_one():
    """Every pair of losses that move by no more than their sensitivities; attained."""
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(2000):
        k = rng.integers(2, 6)
        S = 10.0 ** rng.uniform(-3, 1, k)
        losses = rng.standard_normal(k) * 10.0 ** rng.uniform(-3, 1)
        moved = losses + S * rng.choice([-1.0, 1.0], k)
        change = relative_scores(losses, S) - relative_scores(moved, S)
        worst = max(worst, np.abs(change).max())
    assert 0.99 < worst <= 1.0 + 1e-12
    assert (relative_scores(np.array([3.0, 3.0]), np.array([1.0, 9.0])) == 0).all()
    np.testing.assert_allclose(
        relative_scores(np.array([0.0, 2.0]), np.array([1.0, 3.0])), [0.0, 0.5]
    )


@pytest.mark.slow
def test_relative_scores_have_sensitivity_one_beside_huge_costs():
    """A sum with a cost of 1e17 S is rounded to steps longer than S, and so is what follows.

    The rounding of the sums alone would not do: scores then move by up to 1.5.
    """
    rng = np.random.default_rng(0)
    plain = worst = 0.0
    for _ in range(20_000):
        S = 10.0 ** rng.uniform(-3, 1, 2)
        costs = S.max() * 10.0 ** rng.uniform(14, 20) * np.array([1.0, rng.choice([1e-6, 0.5])])
        losses = S * rng.uniform(0.0, 3.0, 2)
        moved = losses + S * rng.choice([-1.0, 1.0], 2)
        change = relative_scores(losses + costs, S) - relative_scores(moved + costs, S)
        plain = max(plain, np.abs(change).max())
        change = relative_scores(losses, S, costs) - relative_scores(moved, S, costs)
        worst = max(worst, np.abs(change).max())
    assert plain > 4.0
    assert 0.8 < worst <= 1.0


@pytest.mark.mostly("search", 1)
@pytest.mark.parametrize("epsilon", [1e-8, 1e-9, 1e-10])
def test_scores_of_neighbours_beside_the_cost_of_much_noise(epsilon, monkeypatch):
    """End to end: costs grow like 1 / epsilon^2. At 1e-9 sums jumped by eight sensitivities."""
    seen, original = [], relative_scores

    def watched(*args):
        seen.append(original(*args))
        return seen[-1]

    monkeypatch.setattr(route, "relative_scores", watched)
    monkeypatch.setattr(
        FinalFitPlan, "run", lambda plan, *args: Result(point=np.zeros(2), plan=plan)
    )
    n, penalties = 2000, PenaltyGroups((0, 0), (1.0, 1.0), 1e-3, 10.0)
    X, y = np.zeros((n, 2)), np.ones(n)
    X[::2, 0], y[1::2] = 0.1, -1.0
    loss, budget = LOSSES["squared"], PrivacyBudget(epsilon)

    def scores(entry, record):
        X[1::2, 0] = entry
        X[1, 0] = record
        rows = Records(X.copy(), 1.0)
        shared = {"coef_norm": 1.0, "n_candidates": 4, "run": Run(noise=seeded(0))}
        tune("exponential", rows.with_targets(y), loss, penalties, budget, **shared)
        return seen.pop()

    # a loss where a sum is rounded the other way once one record is another one
    low, high = 0.0, 1.0
    start = scores(low, low)
    for _ in range(20):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if (scores(middle, middle) == start).all() else (low, middle)
        worst = np.abs(scores(low, low) - scores(low, 1.0)).max()
        assert worst <= 1.0


def test_log_ratios_of_draws_lie_in_an_interval_of_length_epsilon():
    rng = np.random.default_rng(1)
    worst, epsilon = 0.0, 0.7
    for _ in range(2000):
        k = rng.integers(2, 6)
        S, prior = 10.0 ** rng.uniform(-3, 1, k), rng.standard_normal(k)
        losses = rng.standard_normal(k)
        logs = []
        for values in (losses, losses + S * rng.choice([-1.0, 1.0], k)):
            raw = prior - 0.5 * epsilon * relative_scores(values, S)
            logs.append(raw - np.log(np.exp(raw).sum()))
        ratio = logs[0] - logs[1]
        worst = max(worst, np.ptp(ratio), np.abs(ratio).max())
    assert 0.5 * epsilon < worst <= epsilon * (1 + 1e-12)


def test_share_of_a_draw():
    assert draw_epsilon(PrivacyBudget(2.0, 0.0), 0.25) == 0.5
    event = ExponentialMechanismEvent(draw_epsilon(BUDGET, 1.0), "replace_one")
    spent = GaussianDPAccountant().compose(event).get_epsilon(1e-6)
    assert spent == pytest.approx(1.0, rel=1e-6)
    assert spent <= 1.0


@pytest.mark.parametrize("share", [1.0, 0.2, 0.01])
@pytest.mark.parametrize(
    "budget",
    [(1e-20, 1e-20), (1e-15, 1e-16), (1e-8, 1e-12), (1e-3, 1e-6), (1.0, 1e-6), (50.0, 1e-9)],
)
def test_a_draw_costs_its_share_of_any_budget(budget, share):
    """Its Gaussian parameter, rounded up, against that of the share; nearly all is spent."""
    mu = math.sqrt(share) / gaussian_noise_multiplier(*budget)
    spent = pure_mu(0.5 * draw_epsilon(PrivacyBudget(*budget), share))
    assert (1 - 2e-8) * mu <= spent <= mu


def test_a_budget_that_is_too_small_for_a_draw_is_refused():
    for budget in (PrivacyBudget(1e-60), PrivacyBudget(1e-60, 1e-60)):
        with pytest.raises(ValueError, match="too small for a draw"):
            draw_epsilon(budget, 0.2)


@pytest.mark.parametrize("loss", list(LOSSES))
def test_with_much_privacy_budget_it_finds_the_best_candidate(loss):
    rows, t = records(loss, n=400)
    tuned = tune(
        "exponential", rows.with_targets(t), LOSSES[loss], ONE, PrivacyBudget(1e7, 0.0),
        coef_norm=1.0, n_candidates=9, run=Run(noise=seeded(0)),
    )  # fmt: skip
    grid = np.union1d(np.geomspace(ONE.low, ONE.high, 9), [tuned.plan.rule_alpha])
    scores = [
        exactly(
            validation_score, rows.with_targets(t), LOSSES[loss], ONE, np.array([alpha]),
            Holdout(n_records=400), accuracy=1e-9,
        )
        for alpha in grid
    ]  # fmt: skip
    chosen = scores[int(np.argmin(np.abs(grid - tuned.alpha[0])))]
    assert chosen <= min(scores) + 1e-5


def test_what_is_refused():
    rows, t = records("squared")
    with pytest.raises(ValueError, match="SquaredHingeLoss"):
        plan_score(
            TuningObjective.of(rows, SquaredHingeLoss(), ONE), np.ones(1), Holdout(n_records=101)
        )
    for wrong in ({"tune_share": 1.5}, {"n_candidates": 1}, {"coef_norm": math.nan}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            tune(
                "exponential", rows.with_targets(t), LOSSES["squared"], ONE, BUDGET,
                **{"coef_norm": 1.0, **wrong},
            )  # fmt: skip
    tiny = PenaltyGroups((0,) * 5, (1.0,) * 5, 1e-300, 1.0)
    for loss in LOSSES:
        with pytest.raises(ValueError, match="too small for a score"):
            data = Records.with_targets(*records(loss))
            tune("exponential", data, LOSSES[loss], tiny, BUDGET, coef_norm=1.0)


def test_a_record_whose_weight_may_be_0_holds_a_whole_loss():
    """docs/theory/persons.md: with a strong penalty the range of the loss is far smaller."""
    n, alpha, rng = 20, np.full(1, 10.0), np.random.default_rng(0)
    penalties, splits = PenaltyGroups((0, 0), (1.0, 1.0), 1e-3, 10.0), Holdout(n_records=n)
    given = Records(rng.normal(size=(n, 2)), 0.3, targets=rng.integers(0, 2, n) + 0.0)
    scores, bounds = [], []
    for weight in (0.0, 1.0):
        weights = np.where(np.arange(n) == 1, weight, 1.0)  # of a record that validates
        rows = given.with_weights(weights)
        objective = TuningObjective.of(rows, LogisticLoss(), penalties)
        parts = splits.of(rows, np.arange(n))
        bound, accuracy = plan_score(objective, alpha, splits)
        scores.append(validation_score(parts, objective, alpha, accuracy, Run()))
        bounds.append(bound)
    of_full, _ = plan_score(TuningObjective.of(given, LogisticLoss(), penalties), alpha, splits)
    assert 3.0 * of_full < abs(scores[0] - scores[1]) <= min(bounds)
