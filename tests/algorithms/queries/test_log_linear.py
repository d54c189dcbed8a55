import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdp.algorithms.queries.log_linear import (
    LogLinearModel,
    MatrixModel,
    dense_model,
    junction_tree,
)

SIZES = (2, 3, 2, 4, 3)


def random_model(rng, sizes=SIZES):
    pairs = list(itertools.combinations(range(len(sizes)), 2))
    keys = [pairs[k] for k in rng.choice(len(pairs), rng.integers(0, 6), replace=False)]
    model = LogLinearModel(sizes, [*keys, (0,), (3,)])
    for key in model.marginals:
        model.parameters[key] = rng.normal(0, 2, model.shape(key))
    model._calibrate()
    return model


def brute_force(model):
    logs = np.zeros(model.sizes)
    for key, table in model.parameters.items():
        logs = logs + table.reshape([n if c in key else 1 for c, n in enumerate(model.sizes)])
    table = np.exp(logs - logs.max())
    return table / table.sum()


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1))
def test_marginals_are_those_of_the_written_out_distribution(seed):
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    table = brute_force(model)
    for k in range(1, 6):
        columns = tuple(rng.permutation(5)[:k])
        rest = tuple(c for c in range(5) if c not in columns)
        kept = [c for c in range(5) if c in columns]
        expected = np.transpose(table.sum(axis=rest), [kept.index(c) for c in columns])
        np.testing.assert_allclose(model.marginal(columns), expected, atol=1e-12)
    np.testing.assert_allclose(model.table(), table, atol=1e-12)


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1))
def test_junction_trees(seed):
    rng = np.random.default_rng(seed)
    sizes = tuple(rng.integers(1, 6, 8))
    pairs = [tuple(sorted(rng.choice(8, 2, replace=False))) for _ in range(rng.integers(0, 12))]
    tree = junction_tree(sizes, pairs)
    assert set().union(*tree.cliques) == set(range(8))
    assert all(any(set(pair) <= set(clique) for clique in tree.cliques) for pair in pairs)
    assert tree.parents[0] == -1
    for k, (clique, parent) in enumerate(zip(tree.cliques, tree.parents, strict=True)):
        if k:
            assert parent < k
            # running intersection: what was seen before is in the parent
            before = set(clique) & set().union(*tree.cliques[:k])
            assert before <= set(tree.cliques[parent])
            assert set(tree.separators[k]) == before
    assert tree.n_cells(sizes) == sum(math.prod(sizes[c] for c in q) for q in tree.cliques)


def test_fits_meet_the_conditions_of_the_optimum():
    rng = np.random.default_rng(0)
    truth = random_model(rng)
    keys = [(0, 1), (1, 2), (3, 4), (2,)]
    targets = {key: truth.marginal(key) + 0.01 * rng.standard_normal() for key in keys}
    variances = dict(zip(keys, [1e-3, 2e-3, 3e-3, 4e-3], strict=True))
    model = LogLinearModel(SIZES, keys)
    model.fit(targets, variances, 500)
    for key in keys:
        residual = model.marginal(key) - targets[key] + variances[key] * model.parameters[key]
        assert np.abs(residual).max() < 1e-6


def test_queries_of_a_matrix_are_met():
    rng = np.random.default_rng(0)
    matrix = rng.uniform(-1, 1, (6, 12))
    target = rng.dirichlet(np.ones(12))
    rows = [(j,) for j in range(4)]
    model = MatrixModel((3, 4), matrix, rows)
    model.fit({row: matrix[row[0]] @ target for row in rows}, dict.fromkeys(rows, 1e-9), 300)
    np.testing.assert_allclose(matrix[:4] @ model.table().ravel(), matrix[:4] @ target, atol=1e-5)
    assert model.sample(7, rng).shape == (7, 2)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_any_noise_gives_a_distribution(scale):
    rng = np.random.default_rng(1)
    keys = [(c,) for c in range(5)] + [(0, 1), (1, 4)]
    model = LogLinearModel(SIZES, keys)
    targets = {key: scale * rng.standard_normal(model.shape(key)) for key in keys}
    model.fit(targets, dict.fromkeys(keys, 0.2 * scale), 50)
    table = model.table()
    assert np.isfinite(table).all()
    assert table.min() >= 0
    assert abs(table.sum() - 1) < 1e-9


def test_samples_have_the_marginals_of_the_model():
    """Systematic within cliques: closer than independent draws; false alarms below 1e-6."""
    rng = np.random.default_rng(2)
    model, n = random_model(rng), 20_000
    codes = model.sample(n, rng)
    for pair in itertools.combinations(range(5), 2):
        counts = np.zeros([SIZES[c] for c in pair])
        np.add.at(counts, tuple(codes[:, c] for c in pair), 1)
        p = model.marginal(pair)
        assert np.all(np.abs(counts - n * p) <= 7 * np.sqrt(n * p * (1 - p)) + 25)


def test_each_sampled_record_has_the_law_of_the_model():
    """The first of two records, 2000 times; false alarms below 1e-6."""
    rng = np.random.default_rng(3)
    model = dense_model(np.array([[0.1, 0.2], [0.3, 0.4]]))
    draws = np.array([model.sample(2, rng)[0] for _ in range(2000)])
    found = np.bincount(2 * draws[:, 0] + draws[:, 1], minlength=4) / 2000
    assert np.all(np.abs(found - [0.1, 0.2, 0.3, 0.4]) < 5.5 * np.sqrt(0.25 / 2000))


def test_cells_without_probability_are_not_sampled():
    rng = np.random.default_rng(4)
    table = np.zeros((3, 4))
    table[1, 2] = table[2, 0] = 0.5
    codes = dense_model(table).sample(1001, rng)
    assert {tuple(row) for row in codes.tolist()} == {(1, 2), (2, 0)}
