"""Private statistics of columns with persons who have several records."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laboratory import Laboratory
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline

from skdp import BudgetAccountant, DPRidge, DPTabularRegressor
from skdp.algorithms.statistics.quantiles import QuantilesPlan
from skdp.preprocessing import BoundedScaler, DPStandardScaler, private_ranges
from skdp.privacy import PrivacyBudget
from skdp.privacy.events import Neighbouring
from skdp.synthetic import DPSyntheticData

ends = st.sampled_from([-1.0, -0.3, 0.0, 0.5, 1.0])
persons = st.lists(st.lists(ends, min_size=1, max_size=50), min_size=3, max_size=6)


def table(values):
    """Column of the records of persons, and their ids."""
    ids = np.repeat(np.arange(len(values)), list(map(len, values)))
    return np.concatenate(values)[:, None], ids


@given(persons, st.lists(ends, min_size=1, max_size=50))
def test_no_person_moves_the_moments_further(values, other):
    drawn = []
    for first in (values[0], other):
        X, ids = table([first, *values[1:]])
        with Laboratory() as laboratory:
            DPStandardScaler(ranges=(-1, 1)).fit(X, user_ids=ids)
        drawn += laboratory.draws
    change = np.linalg.norm(drawn[0].value - drawn[1].value)
    assert change <= drawn[0].mechanism.sensitivity


@given(persons, st.lists(ends, min_size=1, max_size=50), st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_no_person_moves_a_rank_by_more_than_one(values, other, quantile):
    plan = QuantilesPlan(
        n_records=len(values), n_features=1, quantiles=(quantile,), budget=PrivacyBudget(1.0),
        n_candidates=9, neighbouring=Neighbouring.REPLACE_USER,
    )  # fmt: skip
    scores = []
    for first in (values[0], other):
        X, codes = table([first, *values[1:]])
        (ranks,), unit = plan.ranks((X, codes))
        scores.append(plan.scores(ranks, quantile, unit))
    assert np.abs(scores[0] - scores[1]).max() <= 1.0


def test_each_person_counts_once():
    """Equal records weigh as one, the order of the table and names of ids do not matter."""
    rng = np.random.default_rng(0)
    X, order = rng.uniform(-1, 1, (500, 2)), rng.permutation(1500)
    repeated, ids = np.repeat(X, 3, axis=0)[order], np.repeat(np.arange(500), 3)[order]
    seeds = {"epsilon": 1e4, "random_state": 0}
    plain = DPStandardScaler(**seeds).fit(X)
    for names in (ids, [f"p{i:04d}" for i in ids]):
        scaler = DPStandardScaler(**seeds).fit(repeated, user_ids=names)
        np.testing.assert_allclose(scaler.mean_, plain.mean_, rtol=1e-9)
        np.testing.assert_allclose(scaler.scale_, plain.scale_, rtol=1e-9)
        found = private_ranges(repeated, (-2, 2), user_ids=names, delta=0, **seeds)
        np.testing.assert_allclose(found, private_ranges(X, (-2, 2), delta=0, **seeds))
    assert scaler.privacy_.unit == "user" and scaler.privacy_.releases[0].n_records == 500
    # a person with most of the records moves the median of records, not that of persons
    X = np.concatenate([np.full((5000, 1), 1.0), np.linspace(-1, 0, 999)[:, None]])
    ids = np.concatenate([np.zeros(5000, int), np.arange(1, 1000)])
    ((_, high),) = private_ranges(X, (-2, 2), user_ids=ids, quantiles=(0.1, 0.5), random_state=0)
    assert high < -0.3


def test_columns_of_frames_and_one_ledger():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.uniform(-1, 1, (300, 2)), columns=["a", "b"])
    frame["person"] = np.arange(300) // 3
    plain, ids = frame[["a", "b"]], frame["person"]
    scaler = DPStandardScaler(random_state=0)
    one = scaler.fit_transform(plain, user_ids=ids)
    np.testing.assert_array_equal(scaler.fit_transform(frame, user_ids="person"), one)
    assert scaler.get_feature_names_out().tolist() == ["a", "b"]
    kwargs = {"epsilon": 500.0, "random_state": 0}
    np.testing.assert_array_equal(
        private_ranges(frame, (-2, 2), user_ids="person", **kwargs),
        private_ranges(plain, (-2, 2), user_ids=ids, **kwargs),
    )
    pipeline = make_pipeline(DPStandardScaler(), DPRidge(data_norm=3.0, target_range=(-1, 1)))
    with BudgetAccountant(1000.0, 1e-4) as accountant:
        pipeline.fit(plain, frame["a"], dpstandardscaler__user_ids=ids, dpridge__user_ids=ids)
        private_ranges(plain, (-2, 2), user_ids=ids, epsilon=500.0)
        with pytest.raises(ValueError, match="give user_ids to all of them"):
            pipeline.fit(plain, frame["a"], dpridge__user_ids=ids)
    assert accountant.neighbouring is Neighbouring.REPLACE_USER


@pytest.mark.parametrize("lacking", ["dpstandardscaler", "dpridge"])
def test_a_step_without_ids_is_refused_without_a_ledger_too(lacking):
    rng = np.random.default_rng(2)
    X, ids = rng.uniform(-1, 1, (300, 2)), np.arange(300) // 3
    pipeline = make_pipeline(DPStandardScaler(), DPRidge(data_norm=3.0, target_range=(-1, 1)))
    given = {f"{name}__user_ids": ids for name, _ in pipeline.steps}
    for _ in range(2):  # what an earlier fit left does not matter
        pipeline.fit(X, X[:, 0], **given)
        with pytest.raises(ValueError, match=r"DPStandardScaler and DPRidge .* to both"):
            pipeline.fit(X, X[:, 0], **{k: v for k, v in given.items() if lacking not in k})
        pipeline.fit(X, X[:, 0])
    model = make_pipeline(DPTabularRegressor(target_range=(-1, 1)))  # fits a linear model
    model.fit(X, X[:, 0], dptabularregressor__user_ids=ids).fit(X, X[:, 0])
    table = DPSyntheticData(categories=[[0, 1], [0, 1]])  # what follows reads no records
    codes = (X > 0).astype(int)
    make_pipeline(table, DPStandardScaler()).fit(codes, dpsyntheticdata__user_ids=ids)


@pytest.mark.parametrize(
    "first",
    [
        ColumnTransformer([("scale", DPStandardScaler(), [0, 1])], sparse_threshold=0),
        FeatureUnion([("rows", make_pipeline(BoundedScaler(), DPStandardScaler()))]),
    ],
    ids=["columns", "union"],
)
def test_a_part_without_ids_is_refused_wherever_it_is(first):
    rng = np.random.default_rng(3)
    X, ids = rng.uniform(-1, 1, (300, 2)), np.arange(300) // 3
    pipeline = make_pipeline(first, DPRidge(data_norm=3.0, target_range=(-1, 1)))
    with pytest.raises(ValueError, match=r"DPStandardScaler and DPRidge .* to both"):
        pipeline.fit(X, X[:, 0], dpridge__user_ids=ids)
    pipeline.fit(X, X[:, 0])


class InTurn(Pipeline):
    """Fits its steps itself, and does not tell which one runs."""

    def fit(self, X, y=None, **params):
        for name, step in self.steps:
            ids = params.get(f"{name}__user_ids")
            X = step.fit(X, y, user_ids=ids).transform(X) if hasattr(step, "transform") else X
        return self


@pytest.mark.parametrize("number", [1, 2])
def test_one_of_equal_steps_without_ids_is_refused(number):
    """A step tells itself from one of its class before it, but not what an earlier fit left."""
    X, ids = np.random.default_rng(4).uniform(-1, 1, (300, 2)), np.arange(300) // 3
    given = {"dpstandardscaler-1__user_ids": ids, "dpstandardscaler-2__user_ids": ids}
    pipeline = make_pipeline(DPStandardScaler(), DPStandardScaler(ranges=(-5, 5)))
    for _ in range(2):
        pipeline.fit(X, **given)
        with pytest.raises(ValueError, match=r"DPStandardScaler and DPStandardScaler .* to both"):
            pipeline.fit(X, **{f"dpstandardscaler-{number}__user_ids": ids})
        pipeline.fit(X)
    own = InTurn(pipeline.steps)  # knows no better than that two of one class may be one
    own.fit(X, **given).fit(X)


@pytest.mark.parametrize(
    "fit", [DPStandardScaler().fit, lambda X, **ids: private_ranges(X, (-1, 1), **ids)]
)
def test_ids_that_are_refused(fit):
    with pytest.raises(ValueError, match="one id for each row"):
        fit(np.zeros((3, 1)), user_ids=[1, 2])
    with pytest.raises(ValueError, match="no column of X"):
        fit(np.zeros((3, 1)), user_ids="person")
