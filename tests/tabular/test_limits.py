"""Limits of numbers that are declared without them, found by a release."""

import pickle
import re
from contextlib import nullcontext

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis.extra.numpy import arrays
from sklearn.base import clone

from skdp import BudgetAccountant, DPTabularClassifier, DPTabularRegressor
from skdp.algorithms.plan import Run
from skdp.algorithms.statistics.histograms import HistogramsPlan
from skdp.data import ArrayRecords, ParquetRecords
from skdp.inspection import PartialEffectDisplay, plan_fit
from skdp.mechanisms import NoiseSource
from skdp.privacy.composition import tightest_epsilon
from skdp.privacy.events import Neighbouring
from skdp.privacy.gaussian_dp import gaussian_mu
from skdp.tabular import Category, Date, Number, TableEncoder, check_columns
from skdp.tabular.frames import Table
from skdp.tabular.given_tables import Bins
from skdp.tabular.rank_maps import LIMIT_BINS, SCALE, found_limits, planned_limits

EDGES = SCALE.value(np.linspace(-1.0, 1.0, LIMIT_BINS + 1))
REFUSED = r"Column '?\w+'? was declared Number\(\) without limits"


# ------------------------------------------------------------------------- limits of a release


def counts_of(values, n=10_000, seed=0):
    """Counts of values, as they are released at 1,000 records for each deviation."""
    places = np.clip(np.searchsorted(EDGES, values, "right") - 1, 0, LIMIT_BINS - 1)
    exact = np.bincount(places, minlength=LIMIT_BINS + 1).astype(float)
    exact *= n / len(values)
    return exact + np.random.default_rng(seed).normal(0, n / 1000, LIMIT_BINS + 1)


def test_limits_are_one_bin_wider_than_what_is_occupied():
    counts = np.zeros(LIMIT_BINS + 1)
    counts[[200, 205]] = 1000.0
    counts[100] = 40.0  # not visibly
    counts[-1] = 1e6  # missing
    found = found_limits(counts, 10.0, SCALE)
    assert (found.low, found.high) == pytest.approx((EDGES[199], EDGES[207]), rel=0.005)
    counts[[196, 207]] = 55.0, 30.0  # next to others, together with the bins between
    found = found_limits(counts, 10.0, SCALE)
    assert (found.low, found.high) == pytest.approx((EDGES[195], EDGES[207]), rel=0.005)
    counts[:] = 0.0
    counts[64:80] = 20.0  # no bin, but the node of sixteen
    found = found_limits(counts, 10.0, SCALE)
    assert (found.low, found.high) == pytest.approx((EDGES[63], EDGES[81]), rel=0.005)
    counts[[0, LIMIT_BINS - 1]] = 1e3  # what is outside counts there
    found = found_limits(counts, 10.0, SCALE)
    assert (found.low, found.high) == (-1e12, 1e12)


def test_noise_alone_has_no_limits():
    """One of 500 columns was seen to have some; 1 in 600 are expected."""
    rng, found = np.random.default_rng(0), 0
    for _ in range(500):
        limits = found_limits(rng.normal(0, 1, LIMIT_BINS + 1), 1.0, SCALE)
        found += limits.high - limits.low < 1.9e12
    assert found <= 6


@pytest.mark.parametrize(
    ("draw", "log"),
    [
        (lambda rng: rng.uniform(0, 100, 10_000), False),
        (lambda rng: rng.normal(0, 50, 10_000), False),
        (lambda rng: rng.lognormal(8, 2, 10_000), SCALE.log),
        (lambda rng: rng.standard_cauchy(10_000), SCALE.log),
    ],
)
def test_the_scale_is_that_by_which_records_are_even(draw, log):
    values = draw(np.random.default_rng(0))
    found = found_limits(counts_of(values), 10.0, SCALE)
    assert found.log == log
    inside = (values > found.low) & (values < found.high)
    assert inside.mean() > 0.98


@given(counts=arrays(float, LIMIT_BINS + 1, elements=st.floats(-1e9, 1e9)), sd=st.floats(1e-3, 1e9))
def test_any_release_has_limits(counts, sd):
    found = found_limits(counts, sd, Number(-1e12, 1e12, log=SCALE.log, missing=True))
    assert -1e12 <= found.low < found.high <= 1e12 and found.missing
    np.testing.assert_allclose(found.position(np.array([found.low, found.high])), [-1, 1])


# ----------------------------------------------------------------------------------- sensitivity


def counts(encoder, rows, persons, plan, of=("a", "b")):
    """Counts of a frame, nearly without noise."""
    bins = Bins(encoder, of, LIMIT_BINS).of(Table(rows))
    noise = NoiseSource(np.random.default_rng(0).bytes)
    return plan.run((bins, persons), Run(noise=noise)).point


@pytest.mark.parametrize("relation", list(Neighbouring))
def test_no_neighbour_moves_counts_by_more_than_the_sensitivity(relation):
    """Values of any size, missing ones and persons; the bound is met. A declared one is left."""
    rng, largest = np.random.default_rng(0), 0.0
    columns = {
        "a": SCALE,
        "job": ["x"],
        "c": (0, 1),
        "b": Number(-1e12, 1e12, log=1e-4, missing=True),
    }
    plan = HistogramsPlan(
        n_records=9, scales=(1.0, 1.0), n_bins=LIMIT_BINS + 1, mu=1e9, neighbouring=relation
    )
    stated = planned_limits(10**6, ["a", "b"], 1.0, 1e-6, relation).mechanism.sensitivity
    for trial in range(60):

        def rows(n, most=300 if trial % 3 else 2):
            size = 10.0 ** rng.uniform(-6, most, (n, 2))
            values = size * rng.choice([-1, 1], (n, 2))
            b = np.where(rng.random(n) < 0.2, np.nan, values[:, 1])
            return pd.DataFrame({"a": values[:, 0], "job": "x", "c": 0.5, "b": b})

        base = rows(9)
        encoder = TableEncoder(columns).fit(base)
        ids = np.sort(rng.integers(0, 4, 9))
        ids = np.unique(ids, return_inverse=True)[1] if relation.unit == "user" else None
        mine = ids == 0 if ids is not None else np.arange(9) == 0
        if trial % 2:
            base.loc[mine, ["a", "b"]] = 1e5
        rest = base[~mine], None if ids is None else ids[~mine] - 1
        other = base.copy()
        other[mine] = rows(mine.sum())
        if not len(rest[0]):
            continue
        neighbour = (other, ids) if relation.is_replaced else rest
        first, second = (counts(encoder, *each, plan) for each in ((base, ids), neighbour))
        largest = max(largest, float(np.linalg.norm(first - second)))
    assert 0.999 * stated <= largest <= stated + 1e-5


def test_weights_do_not_move_counts():
    """A record counts once, whatever its weight: limits are those without weights."""
    X, y, _ = table(3000)
    plain = regressor(weight_bound=1.0).fit(X, y)
    weighted = regressor(weight_bound=1.0).fit(X, y, sample_weight=np.linspace(0, 9, len(y)))
    assert plain.encoder_.schema_ == weighted.encoder_.schema_


# ---------------------------------------------------------------------------------------- fits


def table(n=4000, seed=0):
    """Numbers of three scales, two of them with heavy tails, and what would be declared."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 2))
    X = np.column_stack([np.exp(8 + 2 * z[:, 0]), np.sinh(2 * z[:, 1]), rng.uniform(1990, 2020, n)])
    y = np.tanh(z[:, 0]) + np.abs(z[:, 1]) + np.sin(X[:, 2] / 6) + rng.normal(0, 0.1, n)
    return X, y, [Number(0, 1e7, log=1.0), Number(-500, 500, log=1.0), (1990, 2020)]


def regressor(epsilon=3.0, **parameters):
    given_ = {"columns": Number(), "target_range": (-3, 5), "random_state": 0, **parameters}
    return DPTabularRegressor(epsilon, **given_)


@pytest.mark.parametrize("is_declared", [False, True])
@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_the_budget_is_spent_once_and_whole(relation, is_declared):
    X, y, declared = table()
    model = regressor(neighbouring=relation, columns=declared if is_declared else Number())
    if relation == "add_remove":
        model.set_params(n_public=4000)
    with BudgetAccountant(3.0, 1e-6) as accountant:
        model.fit(X, y)
    report = model.privacy_
    names = ["histograms of columns without limits", "histograms of columns"][is_declared:]
    assert [release.name for release in report.releases[: len(names)]] == names
    assert 2.999 <= tightest_epsilon(report.event, 1e-6) <= 3.0
    assert accountant.total().epsilon == pytest.approx(tightest_epsilon(report.event, 1e-6))
    planned = plan_fit(model, 4000, 3)
    assert planned.releases[0].release == report.releases[0]
    assert planned.total_epsilon == pytest.approx(3.0, rel=1e-3)


def test_heavy_tails_need_no_declaration():
    """R2 within .05 of what declared limits have, as they are best (seen: .01)."""
    X, y, declared = table(5000)
    test, target, _ = table(3000, seed=1)
    scores = [
        regressor(columns=columns).fit(X, y).score(test, target) for columns in (declared, Number())
    ]
    assert scores[0] > 0.9 and scores[1] > scores[0] - 0.05


def test_a_model_without_limits_is_as_any_other(tmp_path):
    """Declared and undeclared columns of a frame, displays, predictions, pickles."""
    X, y, _ = table()
    frame = pd.DataFrame(X, columns=["pay", "change", "year"])
    frame["joined"] = np.datetime64("2019-01-01") + (np.arange(4000) % 900).astype("m8[D]")
    frame["job"] = np.where(np.arange(4000) % 2, "clerk", "cook")
    frame.loc[::7, "pay"] = np.nan
    columns = {
        "job": Category(["clerk", "cook"]),
        "pay": Number(missing=True),
        "joined": Date("2019-01-01", "2024-01-01"),
        "change": Number(-500, 500, log=1.0),
        "year": Number(),
    }
    assert not check_columns(frame, columns).rows
    model = DPTabularClassifier(10.0, columns=columns, classes=[False, True], random_state=0)
    model.fit(frame, y > 1.5)
    found = model.encoder_.schema_
    assert found == model.encoder_.columns and list(found) == list(columns)
    assert {name for name in columns if found[name] != columns[name]} == {"pay", "year"}
    assert found["pay"].missing and 0.0 < found["year"].low < 1990 and found["year"].high > 2020
    assert model.columns == columns and model.columns_dropped_ == ()
    (effect,) = PartialEffectDisplay.from_estimator(model, ["year"]).effects_
    ends = found["year"].low, found["year"].high
    assert (effect.grid.min(), effect.grid.max()) == pytest.approx(ends)
    far = frame.assign(year=1e300), frame.assign(year=ends[1])
    np.testing.assert_array_equal(*(model.predict_proba(rows) for rows in far))
    assert model.score(frame, y > 1.5) > 0.8
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    other = TableEncoder(found, features=model.feature_plan_, maps=model.encoder_.maps).fit(frame)
    np.testing.assert_array_equal(other.transform(frame), model.encoder_.transform(frame))


def test_sources_and_persons(tmp_path):
    X, y, _ = table(3000)
    expected = regressor(features="curves").fit(X, y)
    chunked = regressor(features="curves").fit(ArrayRecords(X, y, chunk_rows=700))
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y, person=np.arange(3000))
    frame.to_parquet(tmp_path / "table.parquet", row_group_size=1000)
    columns = dict.fromkeys("abc", Number())
    options = {"features": ["a", "b", "c"], "user_ids": "person"}
    persons = regressor(columns=columns, features="linear")
    persons.fit(ParquetRecords(tmp_path / "table.parquet", "y", **options))
    limits = [[*model.encoder_.schema_.values()] for model in (expected, chunked, persons)]
    assert limits[0] == limits[1] == limits[2]
    np.testing.assert_array_equal(chunked.model_.coef_, expected.model_.coef_)
    assert persons.privacy_.releases[0].event.neighbouring is Neighbouring.REPLACE_USER
    people = regressor(features="linear").fit(X, y, user_ids=np.arange(3000) // 2)
    assert people.privacy_.releases[0].n_records == 1500
    with pytest.raises(ValueError, match="or n >= "):
        regressor().fit(X, y, user_ids=np.arange(3000) // 10)


@pytest.mark.slow
def test_dask_collections(client):
    dd = pytest.importorskip("dask.dataframe")
    X, y, _ = table(400)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    columns = dict.fromkeys("abc", Number())
    rows, targets = (dd.from_pandas(each, npartitions=2) for each in (frame, pd.Series(y)))
    model = regressor(30.0, columns=columns, features="linear")
    found, expected = clone(model).fit(rows, targets), model.fit(frame, y)
    assert found.encoder_.schema_ == expected.encoder_.schema_
    np.testing.assert_allclose(found.model_.coef_, expected.model_.coef_)


def test_a_number_in_one_bin_of_its_limits_is_kept():
    """Years are in few of the bins of what was found, and still have an effect."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(2010, 2020, 20_000), np.full(20_000, 7.0)])
    model = regressor(300.0, columns=[Number(), (0, 10)]).fit(X, np.sin(X[:, 0]))
    assert model.columns_dropped_ == ("x1",)
    assert model.score(X, np.sin(X[:, 0])) > 0.5
    assert "x0" in model.column_maps_


def test_no_records_have_the_whole_scale():
    """Whether there are any is private: no error."""
    model = regressor(neighbouring="add_remove", n_public=10_000)
    model.fit(ArrayRecords(np.zeros((0, 2)), np.zeros(0), chunk_rows=5))
    for each in model.encoder_.schema_.values():
        assert (each.low, each.high) == (-1e12, 1e12)


def test_maps_may_be_too_dear_where_limits_are_not():
    X, y, _ = table(1200)
    X = np.column_stack([X[:, 2], np.random.default_rng(0).uniform(0, 1, (1200, 19))])
    model = regressor(1.0, columns=[Number(), *[(0, 1)] * 19]).fit(X, y)
    names = [release.name for release in model.privacy_.releases]
    assert (
        names[0] == "histograms of columns without limits" and names[1] != "histograms of columns"
    )
    assert model.column_maps_ == {} and model.encoder_.schema_["x0"].low > 500
    assert 0.999 <= tightest_epsilon(model.privacy_.event, 1e-6) <= 1.0


# ------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"maps": None}, REFUSED),
        ({"delta": 0.0}, REFUSED),
        ({"epsilon": 0.05}, "The budget is too small to find limits of 'x0', 'x1', 'x2': declare"),
    ],
)
def test_what_finds_no_limits_is_refused_before_anything_is_read(parameters, message, monkeypatch):
    X, y, _ = table(500)
    model = regressor(**{"epsilon": 30.0, **parameters})
    read = "skdp.tabular.columns.Number.read"
    monkeypatch.setattr(read, lambda *_: pytest.fail("values were read"))
    with BudgetAccountant(100.0, 1e-4) as accountant:
        for given_ in ((X, y), (ArrayRecords(X, y, chunk_rows=100),)):
            with pytest.raises(ValueError, match=message):
                model.fit(*given_)
    assert not accountant.entries and not hasattr(model, "encoder_")
    with pytest.raises(ValueError, match=message.replace("x", "x?")):
        plan_fit(model, 500, 3)


def test_the_gate_says_what_is_enough():
    """At the epsilon or the number of records that it names, and not below."""
    for relation in Neighbouring:
        with pytest.raises(ValueError, match="epsilon >= ") as caught:
            planned_limits(800, ["a", "b"], 0.1, 1e-6, relation)
        epsilon, n = re.findall(r">= (\S+?)(?: |\.$)", str(caught.value))
        plan = planned_limits(int(n), ["a", "b"], 0.1, 1e-6, relation)
        assert 60.0 <= int(n) / plan.deviations[0] * (1 + 1e-6) <= 60.1
        with pytest.raises(ValueError):
            planned_limits(int(n) - 1, ["a", "b"], 0.1, 1e-6, relation)
        assert (plan.mu / 0.1) ** 2 == pytest.approx(0.1)
        for factor in (1.0, 0.97):
            mu = gaussian_mu(factor * float(epsilon), 1e-6)
            with nullcontext() if factor == 1.0 else pytest.raises(ValueError):
                planned_limits(800, ["a", "b"], mu, 1e-6, relation)
