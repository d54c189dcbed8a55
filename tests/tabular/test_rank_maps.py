"""Maps of numbers by released histograms."""

import functools
import warnings

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra.numpy import arrays
from sklearn.base import clone

from skdp import BudgetAccountant, BudgetExceededError, DPTabularClassifier, DPTabularRegressor
from skdp.privacy.events import Neighbouring
from skdp.tabular import FeaturePlan, Number, TableEncoder
from skdp.tabular.columns import Part
from skdp.tabular.rank_maps import (
    N_BINS,
    bins_of,
    mapped_positions,
    planned_histograms,
    rank_map,
    rarer_class,
    visible_density,
)
from skdp.tabular.row_features import capped_plan
from skdp.tabular.table_effects import TableEffects

COUNTS = arrays(float, N_BINS, elements=st.floats(-1e4, 1e6))
RELATIONS = ["replace_one", "add_remove"]


@given(counts=COUNTS, deviation=st.floats(0.01, 1e5))
def test_maps_are_monotone_and_within_the_range(counts, deviation):
    density = visible_density(counts, deviation)
    found = rank_map(counts, deviation)
    assert (density is None) == (found is None)
    if found is not None:
        assert density.sum() == pytest.approx(1.0) and (density >= 0.0).all()
        assert found.shape == (N_BINS + 1,)
        assert (np.diff(found) >= 0.0).all() and found[0] == -1.0 and found[-1] == 1.0


def test_what_noise_hides_stays_as_it_is():
    """Of uniform columns at 50 records per deviation at least 80 in 100 (seen: 84)."""
    rng, n = np.random.default_rng(0), 10_000
    none = 0
    for _ in range(300):
        counts = rng.multinomial(n, np.full(N_BINS, 1 / N_BINS)) + rng.normal(0, n / 50, N_BINS)
        none += rank_map(counts, n / 50) is None
    assert none >= 240
    assert rank_map(np.full(N_BINS, -5.0), 1.0) is None


def test_a_range_that_is_too_wide_becomes_narrow():
    counts = np.zeros(N_BINS)
    counts[30:34] = 1000.0
    found, places = rank_map(counts, 5.0), np.linspace(-1.0, 1.0, N_BINS + 1)
    ranks = [-1.0, -0.5, 0.0, 0.5, 1.0]
    np.testing.assert_allclose(found[30:35], 0.7 * np.array(ranks) + 0.3 * places[30:35])
    counts[:] = 1e6  # even: ranks are places
    assert rank_map(counts, 5.0) is None


@given(place=arrays(float, 20, elements=st.floats(-1.0, 1.0)), counts=COUNTS)
def test_a_number_is_mapped_by_itself(place, counts):
    values = rank_map(counts, 1.0)
    if values is None:
        return
    place[3] = np.nan
    found = mapped_positions(place, values)
    assert np.isnan(found[3]) and (np.abs(np.delete(found, 3)) <= 1.0).all()
    alone = np.concatenate([mapped_positions(each, values) for each in np.split(place, 20)])
    np.testing.assert_array_equal(found, alone)
    order = np.argsort(np.delete(place, 3))
    assert (np.diff(np.delete(found, 3)[order]) >= -1e-12).all()


def test_bins():
    np.testing.assert_array_equal(
        bins_of(np.array([-1.0, -1.0 + 1 / 32, 0.0, 1.0, np.nan])), [0, 1, 32, 63, 64]
    )


def test_the_plan_of_the_release():
    """The share pays for 50 records per deviation, between 2 and 10 %; below 16 there is none."""
    relation = Neighbouring("add_remove")
    replaced = planned_histograms(2000, 9, 0.25, Neighbouring("replace_one"))
    assert (replaced.mu / 0.25) ** 2 == pytest.approx(0.1)
    for n, share in ((100_000, 0.02), (2000, 0.09), (800, 0.1)):
        plan = planned_histograms(n, 9, 0.25, relation)
        assert (plan.mu / 0.25) ** 2 == pytest.approx(share)
        assert plan.mechanism.sensitivity == pytest.approx(3.0)
    assert planned_histograms(600, 9, 0.25, relation) is None
    assert planned_histograms(10**6, 0, 0.25, relation) is None


def table(n=1500, seed=0, wide=1.0):
    """Three numbers, the last of which is constant, and a target."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(0, 10, n), rng.lognormal(0, 1, n), np.full(n, 7.0)])
    y = np.sin(X[:, 0] / 3) + 0.3 * np.log(X[:, 1]) + rng.normal(0, 0.1, n)
    return X, y, [(5 - 5 * wide, 5 + 5 * wide), (0.0, 50.0 * wide), (0.0, 10.0)]


def regressor(columns, epsilon=3.0, **parameters):
    return DPTabularRegressor(
        epsilon, columns=columns, target_range=(-3, 3), random_state=0, **parameters
    )


def test_the_model_has_noise_of_its_own():
    X, y, columns = table()
    model = regressor(columns).fit(X, y)
    assert model.model_.random_state != model.random_state
    assert model.model_.coef_ == pytest.approx(regressor(columns).fit(X, y).model_.coef_, abs=0)


def test_noise_is_secure_without_a_seed():
    X, y, columns = table(600)
    model = regressor(columns, 30.0).set_params(random_state=None).fit(X, y)
    assert model.column_maps_ and model.model_.random_state is None
    assert not any("random_state" in caveat for caveat in model.privacy_.caveats)
    seeded = regressor(columns, 30.0).set_params(random_state=np.random.default_rng(0)).fit(X, y)
    assert seeded.model_.random_state > 2**64


def test_nothing_is_drawn_or_paid_where_a_fit_fails(monkeypatch):
    X, y, columns = table(600)
    monkeypatch.setattr(
        "skdp.mechanisms.additive.GaussianMechanism.release", lambda *_: pytest.fail("drawn")
    )
    accountant = BudgetAccountant(2.0, 1e-5)
    model = DPTabularClassifier(10.0, columns=columns, classes=[0, 1], accountant=accountant)
    with pytest.raises(BudgetExceededError):
        model.fit(X, y > 0)
    model.set_params(epsilon=30.0, accountant=BudgetAccountant(100.0, 1e-5))
    with pytest.raises(ValueError, match="not in `classes`"):
        model.fit(X, np.arange(600))
    with pytest.raises(ValueError, match="sample_weight"):
        model.set_params(weight_bound=1.0).fit(X, y > 0, sample_weight=-np.ones(600))
    with pytest.raises(ValueError, match="Column 'x1' has missing values"):
        model.fit(np.where(X[9] == X, np.nan, X), y > 0)
    with pytest.raises(ValueError, match="class_weight == 'equal'"):
        model.set_params(weight_bound=None, class_weight="equal").fit(X, y > 0)
    model.set_params(class_weight=None)
    with warnings.catch_warnings(), pytest.raises(UserWarning, match="weight_bound"):
        warnings.simplefilter("error")
        model.fit(X, y > 0, sample_weight=np.ones(600))
    assert accountant.total().epsilon == model.accountant.total().epsilon == 0.0


def test_closed_gates_change_nothing():
    """Few records, no delta, no numbers; and None."""
    X, y, columns = table(60)
    levels = [[0, 1, 2]]
    for declared, rows, epsilon, delta in (
        (columns, X, 0.5, 1e-6),
        (columns, X, 1e3, 0.0),
        (levels, np.arange(60)[:, None] % 3, 1e3, 1e-6),
    ):
        found = [
            regressor(declared, epsilon, delta=delta, maps=maps).fit(rows, y)
            for maps in ("auto", None)
        ]
        assert found[0].column_maps_ == {} and len({m.privacy_.to_dict()["method"] for m in found})
        np.testing.assert_array_equal(*(model.model_.coef_ for model in found))
        assert found[0].privacy_.to_dict() == found[1].privacy_.to_dict()


def test_a_range_ten_times_too_wide_costs_little():
    (X, y, right), (*_, wide) = table(4000), table(4000, wide=10.0)
    test, target, _ = table(2000, seed=1)
    models = [
        regressor(columns, maps=maps).fit(X, y)
        for columns, maps in ((right, "auto"), (wide, "auto"), (wide, None))
    ]
    scores = [model.score(test, target) for model in models]
    assert scores[1] > scores[0] - 0.05 and scores[1] > scores[2] + 0.1


@functools.cache
def mapped():
    """A fit with maps and without the constant column, and its table."""
    X, y, columns = table(6000)
    return regressor(columns, 30.0).fit(X, y), X, y, columns


def test_constant_columns_are_left_out():
    model, X, y, columns = mapped()
    assert model.columns_dropped_ == ("x2",)
    assert not any("x2" in name for name in model.encoder_.get_feature_names_out())
    other = X.copy()
    other[:, 2] = 1.0
    np.testing.assert_array_equal(model.predict(other), model.predict(X))
    assert regressor(columns, 3.0).fit(X[:500], y[:500]).columns_dropped_ == ()
    alone = regressor(columns[2:], 30.0).fit(X[:, 2:], y)  # a model needs a feature
    assert alone.columns_dropped_ == ("x0",) and alone.model_.coef_.size


def test_columns_that_are_mostly_missing_are_not_constant():
    X, y, columns = table(6000)
    X[:, 2] = np.where(np.arange(6000) % 2, np.nan, 7.0)
    columns = [*columns[:2], Number(0, 10, missing=True)]
    assert regressor(columns, 30.0).fit(X, y).columns_dropped_ == ()


def test_a_mapped_model_is_a_sum_of_effects():
    model, X, _, columns = mapped()
    encoder = model.encoder_
    assert model.column_maps_ and model.columns_dropped_
    effects = TableEffects(encoder.schema_, encoder.row_features, model.model_.coef_)
    at = np.random.default_rng(0).integers(100, size=(3, 200))
    values = [effects.reads[k][at[k]] for k in range(3)]
    total = (
        sum(effects.effect(k)[at[k]] for k in range(3)) + effects.pair_effect(0, 1)[at[0], at[1]]
    )
    margin = encoder.row_features.unbounded(values) @ model.model_.coef_
    assert np.ptp(total - margin) < 1e-10 < np.ptp(margin)
    again = TableEncoder(columns, features=model.feature_plan_, maps=encoder.maps).fit(X)
    np.testing.assert_array_equal(again.transform(X[:50]), encoder.transform(X[:50]))


def test_counts_of_labels():
    """They have less noise than others, for an eighth of it at most."""
    relation = Neighbouring.REPLACE_ONE
    for d, scale in ((1, 0.5), (4, 1.0), (15, 1.0), (16, 2.0), (80, 4.0)):
        plan = planned_histograms(10**6, d, 1.0, relation, has_labels=True)
        assert plan.scales == (*[1.0] * d, scale)
    assert rarer_class(np.array([70.0, 30.0, 5.0]), 2) == 30.0
    assert rarer_class(np.array([70.0, 30.0, 5.0]), 3) == 35.0
    assert rarer_class(np.array([70.0, -3.0]), 2) == 1.0


def test_features_are_left_out_for_a_rare_class():
    """Frequencies go first, then the sketch and the products; the linear block stays."""
    parts = [Part(str(j), "number") for j in range(20)]
    plan = FeaturePlan(frequencies=(2, 3), products=True, n_sketch=40)
    assert capped_plan(parts, plan, (), 200.0) == plan
    assert capped_plan(parts, plan, (), 133.0).frequencies == (2,)
    left = capped_plan(parts, plan, (), 115.0)
    assert (left.frequencies, left.products, left.n_sketch) == ((), True, 0)
    assert capped_plan(parts, plan, (), 10.0) == FeaturePlan()


def test_rare_labels_have_fewer_curves():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (1500, 30))
    y = np.where(np.arange(1500) % 15, "no", "yes")
    model = DPTabularClassifier(
        30.0, classes=["no", "yes"], neighbouring="add_remove", n_public=2000, random_state=0
    ).fit(X, y)
    assert model.privacy_.releases[0].n_records == 2000
    even = clone(model).fit(X, np.where(np.arange(1500) % 2, "no", "yes"))
    assert len(even.feature_plan_.frequencies) > len(model.feature_plan_.frequencies)


def test_a_nominal_number_that_is_too_large_drops_no_column():
    X, y, columns = table(600)
    model = regressor(columns, 30.0, neighbouring="add_remove", n_public=6000).fit(X, y)
    assert set(model.columns_dropped_) <= {"x2"}


def test_maps_of_another_table_are_refused():
    X, y, columns = table(600)
    maps = regressor(columns, 30.0).fit(X, y).encoder_.maps
    for given_, wrong in ((columns[:1], maps), ([["a"], *columns[1:]], maps), (columns, "auto")):
        with pytest.raises(ValueError, match="maps must be"):
            TableEncoder(given_, maps=wrong).fit(X[:, : len(given_)])
