"""Private tables with persons who have several records."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laboratory import Laboratory

from skdp import BudgetAccountant
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
    return CategoricalRecords(codes, SIZES).of_persons(ids)


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
    other = CategoricalRecords(codes[order], SIZES).of_persons(ids[order])
    for columns in ((0,), (0, 1)):
        np.testing.assert_array_equal(records_of(persons).counts(columns), other.counts(columns))


def test_more_records_than_units_of_weight():
    """A person weighs 1 even where its records are more than the multiples of the unit."""
    n = 1 << 20
    ids = np.concatenate([np.arange(n), np.zeros(9000, int)])
    codes = np.zeros((len(ids), 2), int)
    records = CategoricalRecords(codes, SIZES).of_persons(ids)
    assert records.counts((0,)).tolist() == [n, 0]


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
    for _ in range(3):
        seen, releases = [], None
        for m in rng.choice([1, 7, 50], 2):
            a, b = int(rng.integers(2)), str(rng.choice(["x", "y", "z"]))
            person = pd.DataFrame({"a": [a] * m, "b": [b] * m, "id": [-1] * m})
            table = pd.concat([rest, person], ignore_index=True)
            model = DPSyntheticData(
                5.0, delta=delta, categories=CATEGORIES, queries=queries, random_state=0
            )
            with Laboratory(releases=releases) as laboratory:
                model.fit(table, user_ids="id")
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
            ({}, {"sample_weight": [1.0]}, "sample_weight is not supported"),
            (
                {"method": "mirror_descent", "calibration": "paper"},
                {"user_ids": "id"},
                "calibration='paper' has no proof for user_ids",
            ),
        ):
            with pytest.raises(ValueError, match=message):
                given = table if isinstance(options.get("user_ids"), str) else table[["a", "b"]]
                DPSyntheticData(categories=CATEGORIES, **parameters).fit(given, **options)
    assert not accountant.entries
