import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdp import DPSyntheticData
from skdp.problems import CategoricalRecords, Marginals, QueryMatrix, universe_size

SIZES = (2, 3, 4)


def universe(sizes):
    return np.array(list(itertools.product(*map(range, sizes))))


def as_matrix(workload):
    """Values of each query on each conceivable record, (n_queries, n_cells)."""
    rows = universe(workload.sizes)
    return np.stack(
        [workload.sums(CategoricalRecords(row[None], workload.sizes)) for row in rows], axis=1
    )


@pytest.mark.parametrize("order", [1, 2, 3, 7])
def test_marginals_are_their_cells(order):
    workload = Marginals(SIZES, order)
    expected = [
        np.all(universe(SIZES)[:, columns] == cell, axis=1)
        for columns in itertools.combinations(range(3), min(order, 3))
        for cell in universe([SIZES[c] for c in columns])
    ]
    np.testing.assert_array_equal(as_matrix(workload), np.array(expected))
    assert workload.n_queries == len(expected)


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_implicit_answers_and_combinations_are_those_of_the_matrix(seed, order):
    rng = np.random.default_rng(seed)
    workload = Marginals(SIZES, order)
    matrix = as_matrix(workload)
    x, w = rng.dirichlet(np.ones(24)).reshape(SIZES), rng.standard_normal(workload.n_queries)
    np.testing.assert_allclose(workload.answers(x), matrix @ x.ravel(), atol=1e-15)
    np.testing.assert_allclose(workload.combine(w).ravel(), w @ matrix, atol=1e-13)


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-30, 1.0, 3.7e8]))
def test_queries_of_a_matrix(seed, size):
    rng = np.random.default_rng(seed)
    given_matrix = size * rng.uniform(-1, 1, (5, 24))
    workload = QueryMatrix(SIZES, given_matrix)
    np.testing.assert_allclose(workload.matrix, given_matrix, atol=2e-6 * size)
    np.testing.assert_array_equal(as_matrix(workload), workload.matrix)
    assert np.ptp(workload.matrix, axis=1).max() == workload.range
    assert np.abs(workload.matrix).max() == workload.largest
    records = CategoricalRecords(rng.integers(0, SIZES, (1000, 3)), SIZES)
    cells = np.ravel_multi_index(tuple(records.codes.T), SIZES)
    numerators = np.rint(workload.matrix[:, cells] / workload._unit).astype(int)
    exact = [sum(map(int, row)) for row in numerators]
    np.testing.assert_array_equal(workload.sums(records) / workload._unit, exact)


def test_constant_queries_move_by_a_unit_of_rounding():
    """Their answers are known; but no sensitivity may be 0."""
    workload = QueryMatrix(SIZES, np.full((2, 24), 3.0))
    assert 0.0 < workload.range == workload._unit == 4.0 * 2.0**-20
    model = DPSyntheticData(
        epsilon=1.0, queries=np.ones((1, 4)), categories=[[0, 1]] * 2, random_state=0
    )
    (release, *_) = model.fit(np.zeros((20, 2))).privacy_.releases
    assert release.sensitivity > 0.0
    np.testing.assert_allclose(model.distribution_.sum(), 1.0)


@pytest.mark.parametrize(
    ("matrix", "match"),
    [
        (np.ones((2, 23)), "one column for each combination"),
        (np.ones(24), "one column"),
        (np.full((1, 24), np.nan), "finite"),
        (np.zeros((1, 24)), "largest entry"),
        (np.ones((0, 24)), "one column"),
    ],
)
def test_bad_matrices(matrix, match):
    with pytest.raises(ValueError, match=match):
        QueryMatrix(SIZES, matrix)


def test_a_million_cells_need_no_matrix():
    sizes = (100, 100, 100)
    workload = Marginals(sizes, 2)
    x = np.full(sizes, 1e-6)
    np.testing.assert_allclose(workload.answers(x), 1e-4)
    assert universe_size(sizes) == 10**6
