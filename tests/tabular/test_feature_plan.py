"""Which features a budget pays for: public numbers alone, and never more than the bound."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from skdp.privacy.gaussian_dp import gaussian_mu
from skdp.tabular import Category, Date, FeaturePlan, Text
from skdp.tabular.feature_plan import effective_size, feature_bound, plan_features, pure_size

sizes = st.floats(0.0, 1e6)


@pytest.mark.parametrize(
    ("size", "n_features"),
    [(44, 3), (100, 18), (140, 26), (300, 49), (520, 73), (1000, 117), (3900, 295), (10_000, 556)],
)
def test_the_bound(size, n_features):
    assert feature_bound(size, 1000) == pytest.approx(n_features, abs=0.7)


def test_the_bound_has_an_end():
    assert feature_bound(30.0, 1000) == 0.0
    assert feature_bound(1e6, 1000) == 1000
    assert feature_bound(1e6, 2**20) == 256  # 2 GB


@given(size=sizes, d=st.integers(0, 40), k=st.integers(0, 20), width=st.integers(1, 400))
def test_a_plan_stays_below_the_bound(size, d, k, width):
    plan = plan_features(size, d, d + k + 1, width, 10_000)
    added = d * len(plan.frequencies) + d * (d - 1) // 2 * plan.products + plan.n_sketch
    assert added <= max(feature_bound(size, 10_000) - width, 0)
    assert plan.frequencies == tuple(range(2, 2 + len(plan.frequencies)))
    assert plan.n_sketch == 0 or 30 <= plan.n_sketch <= 500


@given(size=sizes, more=st.floats(1.0, 3.0), d=st.integers(1, 20))
def test_more_budget_has_more_features(size, more, d):
    few, many = (plan_features(e, d, d + 3, d + 9, 1000) for e in (size, more * size))
    assert few.products <= many.products
    assert d * len(few.frequencies) + few.n_sketch <= d * len(many.frequencies) + many.n_sketch + d
    assert feature_bound(size, 1000) <= feature_bound(more * size, 1000)


@pytest.mark.parametrize(
    ("size", "frequencies", "products", "n_sketch"),
    [(40.0, (), False, 0), (100.0, (2,), False, 0), (150.0, (2, 3, 4), False, 0),
     (300.0, (2, 3, 4, 5, 6), True, 0), (1000.0, (2, 3, 4, 5, 6, 7, 8, 9, 10), True, 48)],
)  # fmt: skip
def test_blocks_come_in_a_fixed_order(size, frequencies, products, n_sketch):
    plan = plan_features(size, 5, 7, 12, 1000)
    assert (plan.frequencies, plan.products, plan.n_sketch) == (frequencies, products, n_sketch)


def test_declared_pairs_are_counted():
    """Twelve products beside four features of the linear block, of 14 that the budget pays for."""
    given = {"n_records": 250, "columns": {"age": (0, 1), "job": ["a", "b"], "pay": (0, 1)}}
    plain = FeaturePlan.for_budget(3.0, 1e-6, **given)
    paired = FeaturePlan.for_budget(3.0, 1e-6, pairs=[("age", "job")], **given)
    assert plain.frequencies == (2, 3, 4, 5) and paired.frequencies == ()


def test_the_effective_size():
    mu = gaussian_mu(1.0, 1e-5)
    assert effective_size(1.0, 1e-5, 1000, "replace_one") == pytest.approx(500 * mu)
    assert effective_size(1.0, 1e-5, 1000, "add_remove") == pytest.approx(1000 * mu)
    assert effective_size(1.0, 0, 1000, "replace_one") == 500


def test_pure_noise_is_that_of_as_many_features_as_are_paid_for():
    """The plan of one coordinate's noise paid for curves, and trailed the linear features."""
    size = pure_size(500.0, 1000)
    p = (500.0 / size) ** 2 - 1.0  # the first number that is not paid for
    assert feature_bound(size, 1000) < p and feature_bound(500.0 / p**0.5, 1000) >= p - 1.0
    assert feature_bound(pure_size(10.0, 1000), 1000) == 0.0
    assert feature_bound(pure_size(1e9, 1000), 1000) == 1000.0


def test_plans_for_a_budget():
    columns = {"a": (0, 1), "b": list(range(200)), "c": Date("2020-01-01", "2021-01-01")}
    plan = FeaturePlan.for_budget(1.0, 1e-6, n_records=20_000, columns=columns)
    assert plan.effective_size == effective_size(1.0, 1e-6, 20_000, "replace_one")
    # 64 of the 200 levels count, and 12 + 7 of the date
    assert plan == plan_features(plan.effective_size, 2, 5, 2 + 64 + 19, 20_000)
    pure = FeaturePlan.for_budget(10.0, 0, n_records=10**5, columns=columns)
    assert (pure.frequencies, pure.products, pure.n_sketch) == ((2, 3, 4, 5, 6), False, 0)
    with pytest.raises(ValueError, match="declare each column"):
        FeaturePlan.for_budget(1.0, 1e-6, n_records=10, columns=(0, 1))
    with pytest.raises(ValueError, match="a frequency == 1"):
        FeaturePlan(frequencies=(1,))


def test_what_levels_and_words_count():
    (part,) = Category(list(range(100)), missing=True).expand("x")
    assert (part.n_features, part.n_counted) == (101, 65)
    assert Text().expand("x")[0].n_counted == 64
