"""Private quantiles: accuracy, the law of the draws on neighbours, the price."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_noise import seeded

from skdp import BudgetAccountant, BudgetExceededError
from skdp.algorithms import Run
from skdp.algorithms.statistics.quantiles import QuantilesPlan, RanksOfGrid
from skdp.preprocessing import BoundedScaler, private_ranges
from skdp.privacy import PrivacyBudget, tightest_epsilon
from skdp.privacy.events import flatten_event


def table(n=5000):
    return np.random.default_rng(0).normal([20, 60], [2, 10], size=(n, 2))


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_accuracy_in_ranks(delta):
    """Within 2 (log 1001 + log 1e6) / e ranks of the quantile, but for chances of 1e-6."""
    X = table()
    found = private_ranges(
        X, [(0, 100), (0, 1000)], quantiles=(0.1, 0.9), delta=delta, n_candidates=10001
    )
    plan = QuantilesPlan(
        n_records=5000,
        n_features=2,
        quantiles=(0.1, 0.9),
        budget=PrivacyBudget(1.0, delta),
        n_candidates=10001,
    )
    slack = 2 * np.log(10001 * 1e6) / plan.draw_epsilon
    for column, ends in zip(X.T, found, strict=True):
        ranks = np.searchsorted(np.sort(column), ends)
        assert (np.abs(ranks - [500, 4500]) <= slack + 100).all()  # 100: records between candidates
    assert BoundedScaler(found).fit_transform(X).shape == X.shape


@pytest.mark.parametrize("n_features", [3, 100])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_price(delta, n_features):
    plan = QuantilesPlan(
        n_records=100, n_features=n_features, quantiles=(0.1, 0.9), budget=PrivacyBudget(0.7, delta)
    )
    plain = 0.7 / (2 * n_features)
    assert (plan.draw_epsilon > plain) == (delta > 0 and n_features == 100)
    claim = 0.7 * (1 + 1e-9)
    assert tightest_epsilon(plan.event, delta, enough=claim) <= claim
    if delta == 0:  # else some of it is lost between the two kinds of privacy
        assert tightest_epsilon(plan.event, delta) > 0.69
    assert flatten_event(plan.releases[0].event) == flatten_event(plan.event)
    assert plan.to_dict()["draw_epsilon"] == plan.draw_epsilon


values = st.sampled_from([-1.0, -0.5, -0.001, 0.0, 0.25, 0.5, 1.0])


@given(st.lists(values, min_size=1, max_size=8), values, st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_bounded_range_on_neighbours(column, other, quantile):
    """Log-ratios of the chances of all candidates lie in an interval of length e."""
    plan = QuantilesPlan(
        n_records=len(column),
        n_features=1,
        quantiles=(quantile,),
        budget=PrivacyBudget(3.0),
        n_candidates=17,
    )
    first, second = np.array(column), np.array([other, *column[1:]])

    def logs(data):
        (ranks,) = RanksOfGrid(plan.grid)(data[:, None], None)
        logs = -0.5 * plan.draw_epsilon * plan.scores(ranks, quantile)
        return logs - np.logaddexp.reduce(logs)

    ratios = logs(first) - logs(second)
    assert ratios.max() - ratios.min() <= plan.draw_epsilon * (1 + 1e-12)


@given(st.lists(st.tuples(values, st.integers(1, 9)), max_size=20))
def test_ranks_are_weights_of_entries_below_and_up_to_points(column):
    grid, (entries, weights) = np.linspace(-1.0, 1.0, 9), np.array(column).reshape(-1, 2).T
    for given_, each in ((weights.astype(int), weights), (None, np.ones(len(entries)))):
        ((below, up_to),) = RanksOfGrid(grid)(entries[:, None], given_)
        np.testing.assert_array_equal(below, [each[entries < point].sum() for point in grid])
        np.testing.assert_array_equal(up_to, [each[entries <= point].sum() for point in grid])


def test_ends_differ_even_if_all_records_are_equal():
    for seed in range(20):
        (ends,) = private_ranges(
            np.full((50, 1), 1.0), (0, 1), epsilon=50, n_candidates=11, random_state=seed
        )
        assert 0.0 <= ends[0] < ends[1] <= 1.0


def test_is_charged_first(monkeypatch):
    accountant = BudgetAccountant(1.5)
    options = {"delta": 0.0, "quantiles": (0.1, 0.9)}
    with accountant:
        private_ranges(table(), (0, 100), **options)
    (entry,) = accountant.entries
    assert entry.label == "private_ranges" and accountant.total().epsilon == pytest.approx(1.0)
    monkeypatch.setattr(QuantilesPlan, "run", lambda *_: pytest.fail("a record was read"))
    with pytest.raises(BudgetExceededError):
        private_ranges(table(), (0, 100), **options, accountant=accountant)


OUTER = (-1e6, 1e6)


def people(n, n_columns=20):
    """Ages and others; in a range that is 10,000 times as wide."""
    return np.random.default_rng(0).normal(40.0, 100.0, (n, n_columns))


@pytest.mark.parametrize(("n", "epsilon"), [(1000, 0.5), (20_000, 0.01)])
def test_ranks_that_are_noise_give_the_outer_ranges(n, epsilon, monkeypatch):
    """They were drawn before, such as (-925000, 701000), or a range without a record."""
    monkeypatch.setattr(QuantilesPlan, "run", lambda *_: pytest.fail("a record was read"))
    with BudgetAccountant(1.0, 1e-5) as accountant, pytest.warns(UserWarning) as said:
        found = private_ranges(people(n), OUTER, epsilon=epsilon)
    np.testing.assert_array_equal(found, np.tile(OUTER, (20, 1)))
    (message,) = [str(each.message) for each in said]
    assert "nothing is charged" in message and f"{n} records, for 20 columns" in message
    assert accountant.entries == ()


def test_quantiles_that_cannot_be_found_are_extrapolated():
    """From the outermost ones that can: no column loses many records, or keeps its outer range."""
    X = people(20_000)
    with BudgetAccountant(1.0, 1e-5) as accountant, pytest.warns(UserWarning, match="widened"):
        found = private_ranges(X, OUTER, epsilon=0.5, n_candidates=100_001, random_state=0)
    assert len(accountant.entries) == 1
    is_kept = (found[:, 0] <= X) & (found[:, 1] >= X)
    assert (is_kept.mean(axis=0) > 0.9).all() and (np.diff(found) < 2000.0).all()


@pytest.mark.parametrize("quantiles", [(0.0, 0.9), (0.1, 1.0)])
def test_extremes_are_the_outer_range(quantiles):
    """No draw finds the end of the records; the other end is drawn."""
    with pytest.warns(UserWarning, match="drawn instead"):
        (low, high), _ = private_ranges(table(), (0, 100), quantiles=quantiles, delta=0.0)
    ends = (low, 0.0, high) if quantiles[0] == 0.0 else (100.0 - high, 0.0, 40.0 - low)
    assert ends[0] == ends[1] and 20.0 < ends[2] < 26.0


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_rank_error_holds_for_nearly_all_draws(delta):
    """In at least 95 % of 200 runs on evenly spaced records; it is not far from tight."""
    plan = QuantilesPlan(
        n_records=2000, n_features=2, quantiles=(0.3, 0.7), budget=PrivacyBudget(0.5, delta)
    )
    X = np.tile(np.linspace(-1.0, 1.0, 2000)[:, None], 2)
    points = [plan.run((X, None), Run(noise=seeded(k))).point for k in range(200)]
    errors = np.abs(np.searchsorted(X[:, 0], np.array(points)) - [600, 1400]).max(axis=(1, 2))
    assert (errors <= plan.rank_error).mean() >= 0.95 and errors.max() > 0.3 * plan.rank_error


@pytest.mark.parametrize(
    "parameters",
    [{"quantiles": (0.9, 0.1)}, {"quantiles": (-0.1, 0.5)}, {"epsilon": 0}, {"n_candidates": 1}],
)
def test_invalid_parameters(parameters):
    with pytest.raises(ValueError):
        private_ranges(table(50), (0, 100), **parameters)
    with pytest.raises(ValueError, match="NaN"):
        private_ranges([[np.nan]], (0, 100))
