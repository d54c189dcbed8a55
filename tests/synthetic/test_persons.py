"""Private tables with persons who have several records."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laboratory import Laboratory

from skdp import BudgetAccountant
from skdp.methods import QueryMirrorDescent
from skdp.problems import CategoricalRecords, Marginals, QueryMatrix
from skdp.synthetic import DPSyntheticData

SIZES = (2, 3)
rows = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), min_size=1, max_size=50)
tables = st.lists(rows, min_size=2, max_size=6)
WORKLOADS = [Marginals(SIZES, 1), Marginals(SIZES, 2), QueryMatrix(SIZES, [[5, 6, 5, 6, 5.5, 6]])]


def stacked(persons):
    """Codes of the records of persons, and their ids."""
    return np.concatenate(persons), np.repeat(np.arange(len(persons)), list(map(len, persons)))


def records_of(persons):
    codes, ids = stacked(persons)
    return CategoricalRecords(codes, SIZES).of_units(None, ids)


@given(tables, rows)
def test_no_person_moves_a_sum_further_than_a_record(persons, other):
    one, two = records_of(persons), records_of([other, *persons[1:]])
    for workload in WORKLOADS:
        moved = np.abs(workload.sums(one) - workload.sums(two))
        assert moved.max() <= workload.range
    for columns in ((0,), (1,), (0, 1)):
        moved = one.counts(columns) - two.counts(columns)
        assert np.linalg.norm(moved) <= np.sqrt(2.0) and np.abs(moved).sum() <= 2.0
        assert one.counts(columns).sum() == len(persons) == one.n_records  # full, exactly


@given(tables, st.randoms(use_true_random=False))
def test_the_order_of_the_table_does_not_matter(persons, random):
    codes, ids = stacked(persons)
    order = random.sample(range(len(ids)), len(ids))
    other = CategoricalRecords(codes[order], SIZES).of_units(None, ids[order])
    for columns in ((0,), (0, 1)):
        np.testing.assert_array_equal(records_of(persons).counts(columns), other.counts(columns))


def test_more_records_than_units_of_weight():
    """A person weighs 1 even where its records are more than the multiples of the unit."""
    n = 1 << 20
    ids = np.concatenate([np.arange(n), np.zeros(9000, int)])
    codes = np.zeros((len(ids), 2), int)
    records = CategoricalRecords(codes, SIZES).of_units(None, ids)
    assert records.counts((0,)).tolist() == [n, 0]


@settings(max_examples=15)
@given(tables, rows, st.data())
def test_no_weights_move_a_count_further(persons, other, data):
    """Lemma A: differences of parts of distributions; records of weight 0 are absent."""
    found = []
    for each in (persons, [other, *persons[1:]]):
        codes, ids = stacked(each)
        given = st.lists(st.sampled_from([0.0, 1e-3, 1 / 3, 1.0]), min_size=len(other))
        own = data.draw(given)[: len(each[0])]
        weights = np.where(ids > 0, 0.3 + 0.1 * (np.arange(len(ids))[::-1] % 3), 1.0)
        weights[: len(own)] = own
        found.append(CategoricalRecords(codes, SIZES).of_units(weights, ids))
        kept = CategoricalRecords(codes[weights > 0], SIZES)
        if set(ids[weights > 0]) == set(ids):
            kept = kept.of_units(weights[weights > 0], ids[weights > 0])
            np.testing.assert_array_equal(kept.counts((0, 1)), found[-1].counts((0, 1)))
    for columns in ((0,), (1,), (0, 1)):
        one, two = (each.counts(columns) for each in found)
        moved = one - two
        assert np.linalg.norm(moved) <= np.sqrt(2.0) and np.abs(moved).sum() <= 2.0
        assert max(one.sum(), two.sum()) <= len(persons) == found[0].n_records


def test_weights_of_equal_records_add_up_to_no_more_than_one():
    records = CategoricalRecords(np.zeros((3, 2), int), SIZES)
    total = records.of_units(np.ones(3), np.zeros(3, int)).counts((0,)).sum()
    assert 1.0 - 1e-12 < total <= 1.0
    weights = np.random.default_rng(0).uniform(size=3000)
    cell = CategoricalRecords(np.zeros((3000, 2), int), SIZES)
    totals = [cell.of_units(each).counts((0,)).sum() for each in (weights, weights[::-1])]
    assert totals[0] == totals[1]  # exact sums, in any order


@pytest.mark.parametrize("columns", [2, 5])  # all pairs, and rounds
@pytest.mark.parametrize("ids", [False, True])
def test_weighted_tables(columns, ids):
    """Shares are those of the weights, whatever their sum is; the number of rows stays public."""
    rng, n = np.random.default_rng(0), 3000
    table = rng.integers(3, size=(n, columns))
    table[:, 1] = np.where(rng.random(n) < 0.8, table[:, 0], table[:, 1])
    weights = np.where(table[:, 0] == 0, 0.6, 0.1)
    model = DPSyntheticData(8.0, categories=[[0, 1, 2]] * columns, weight_bound=2.0, random_state=0)
    given = {"user_ids": np.arange(n) // 2} if ids else {}
    model.fit(table, sample_weight=2.0 * weights, **given)
    expected = np.bincount(table[:, 0] * 3 + table[:, 1], weights, 9) / weights.sum()
    np.testing.assert_allclose(model.answer([(0, 1)])[0, 1].ravel(), expected, atol=0.02)
    assert {each.n_records for each in model.privacy_.releases} == {n // 2 if ids else n}
    if not ids and columns == 2:
        with pytest.warns(UserWarning, match="weight_bound was not declared"):
            model.set_params(weight_bound=None).fit(table, sample_weight=weights)


CATEGORIES = {"a": [0, 1], "b": ["x", "y", "z"]}


def frame(rng, persons):
    numbers = rng.integers(1, 30, persons)
    ids = rng.permutation(np.repeat(np.arange(persons), numbers))
    a = rng.integers(0, 2, len(ids))
    return pd.DataFrame({"a": a, "b": np.where(a, "x", rng.choice(["y", "z"], len(a))), "id": ids})


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("queries", ["2-way", np.eye(6)[:4]])
def test_no_release_moves_by_more_than_its_sensitivity(delta, queries):
    """In whole fits at equal history, with persons of 1 to 50 equal records."""
    rng = np.random.default_rng(0)
    rest = frame(rng, 200)
    of_rest = rng.choice([0.0, 0.01, 1.0], len(rest))
    for is_slack in [False] * 3 + [True] * (3 if delta and isinstance(queries, str) else 0):
        seen, releases, weights = [], None, rng.permutation([0.0, 1.0])
        for m, weight in zip(rng.choice([1, 7, 50], 2), weights, strict=True):
            a, b = int(rng.integers(2)), str(rng.choice(["x", "y", "z"]))
            person = pd.DataFrame({"a": [a] * m, "b": [b] * m, "id": [-1] * m})
            table = pd.concat([rest, person], ignore_index=True)
            model = DPSyntheticData(
                5.0, delta=delta, categories=CATEGORIES, queries=queries, random_state=0
            )
            if is_slack:
                model.set_params(weight_bound=1.0)
            given = np.concatenate([of_rest, np.full(m, weight)]) if is_slack else None
            with Laboratory(releases=releases) as laboratory:
                model.fit(table, user_ids="id", sample_weight=given)
            releases = laboratory.releases
            seen.append(laboratory.draws)
        draws = {each.name: each.sensitivity for each in model.privacy_.releases}
        for one, other in zip(*seen, strict=True):
            if one.kind == "gaussian":
                moved = np.linalg.norm(one.value - other.value)
                assert moved <= one.mechanism.sensitivity
            else:  # exponents of a draw
                name = "queries" if delta == 0 else "groups of queries"
                assert np.abs(one.value - other.value).max() <= draws[name]


def test_columns_of_ids_reports_and_refusals():
    table = frame(np.random.default_rng(1), 300)
    model = DPSyntheticData(categories=CATEGORIES, random_state=0)
    expected = model.fit(table[["a", "b"]], user_ids=table["id"]).distribution_
    model.fit(table, user_ids="id")
    np.testing.assert_array_equal(model.distribution_, expected)
    assert "for persons" in str(model.privacy_) and "300 persons" in str(model.privacy_)
    assert model.fit_transform(table, user_ids="id").shape == (300, 2)  # not the number of records
    assert model.transform(table).columns.tolist() == ["a", "b"]
    with BudgetAccountant(10.0, 1e-4) as accountant:
        for parameters, options, message in (
            ({}, {"user_ids": "person"}, "no column of X"),
            ({}, {"user_ids": [1, 2]}, "one id for each row"),
            ({}, {"sample_weight": [1.0]}, "another length"),
            ({"weight_bound": 0.0}, {}, "weight_bound"),
            ({"queries": np.eye(6)}, {"sample_weight": np.ones(len(table))}, "matrix of queries"),
            (
                {"method": "mirror_descent", "delta": 0.0},
                {"sample_weight": np.ones(len(table))},
                "'mirror_descent' has no proof for weights",
            ),
            (
                {"method": QueryMirrorDescent(calibration="paper")},
                {"user_ids": "id"},
                "calibration='paper' has no proof for user_ids",
            ),
        ):
            with pytest.raises(ValueError, match=message):
                given = table if isinstance(options.get("user_ids"), str) else table[["a", "b"]]
                DPSyntheticData(categories=CATEGORIES, **parameters).fit(given, **options)
    assert not accountant.entries
