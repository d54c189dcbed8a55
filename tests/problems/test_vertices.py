"""What a problem returns for one record counts no more than is charged for it."""

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp

from skdp.privacy import Neighbouring
from skdp.problems import HalfSquaredLoss, HingeLoss, LogisticLoss, OneVsRestLoss, Records
from skdp.problems.multiclass_losses import LogitLoss
from skdp.problems.vertices import (
    FunctionProblem,
    LinearDesign,
    LinearProblem,
    VertexDesign,
    clipped_entries,
)


def test_derivatives_stay_in_the_declared_interval():
    rows = np.array([[5.0, -5.0], [math.nan, 0.5], [math.inf, -math.inf]])
    for oscillation, low in ((2.0, -1.0), (1.0, 0.0)):
        design = VertexDesign(3, (2,), (1.0,), (oscillation,))
        problem = FunctionProblem(design, lambda points, batch: [rows[batch]])
        for i in range(3):
            (gradient,) = problem.gradients((np.array([0]),), slice(i, i + 1))
            assert (gradient >= low).all() and (gradient <= 1.0).all()
    with pytest.raises(ValueError, match="at most twice the magnitude"):
        VertexDesign(3, (2,), (1.0,), (2.5,))


def test_entries_are_clipped():
    X, clipped = np.array([[2.0, 0.0], [-3.0, 0.5]]), [[1.0, 0.0], [-1.0, 0.5]]
    assert clipped_entries(X, 1.0).tolist() == clipped and clipped_entries(X, 5.0) is X
    assert clipped_entries(sp.csr_matrix(X), 1.0).toarray().tolist() == clipped
    twice = sp.csr_matrix(([0.8, 0.8], [0, 0], [0, 2, 2]), shape=(2, 2))
    assert clipped_entries(twice, 1.0).toarray().tolist() == [[1.0, 0.0], [0.0, 0.0]]
    assert twice.nnz == 2
    for bound in (0.1, 0.3, 1.0, 1e-3):  # single precision does not exceed the bound
        X = clipped_entries(np.full((2, 2), 7.0, dtype=np.float32), bound)
        assert X.dtype == np.float32 and float(X.max()) <= bound


HINGES = OneVsRestLoss(HingeLoss().smoothed(1.0), 3)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize(
    "loss", [LogisticLoss(), HalfSquaredLoss(1.0), LogitLoss(3), HINGES], ids=repr
)
def test_a_record_moves_gradients_by_its_bound_and_no_further(loss, relation):
    """Records of signs and extreme targets, at all vertices, beside opposite records."""
    relation, n, radius = Neighbouring(relation), 4, 20.0
    design = LinearDesign.of(loss, n, 2, radius, 1.0, neighbouring=relation)
    targets = range(3) if loss.n_outputs > 1 else (0, 1)
    rows = [((1.0, x), y) for x in (-1.0, 1.0) for y in targets]
    moved = 0.0

    def gradient(records, vertex):
        X, y = np.array([x for x, _ in records]), np.array([y for _, y in records])
        y = y if loss.n_outputs > 1 else y.astype(float)
        problem = LinearProblem(Records(X, 2.0, targets=y), loss, design)
        return problem.gradients((np.array([vertex]),), slice(0, problem.n_records))[0]

    pairs = itertools.combinations(rows, 2)
    if not relation.is_replaced:
        pairs = ((row, None) for row in rows)
    for first, second in pairs:
        rest = [((-first[0][0], -first[0][1]), first[1])] * (n - 1)
        for vertex in range(design.sizes[0]):
            both = [gradient([*rest, *([r] if r else [])], vertex) for r in (first, second)]
            moved = max(moved, np.abs(both[0] - both[1]).max())
    assert 0.99 * design.oscillations[0] / n < moved <= design.oscillations[0] / n
    plain = LinearDesign.of(loss, n, 2, radius, 1.0)
    assert design.oscillations[0] == plain.oscillations[0] / (1 if relation.is_replaced else 2)


@pytest.mark.parametrize("loss", [LogisticLoss(), LogitLoss(3)], ids=repr)
def test_gradients_are_those_of_the_risk(loss):
    rng, n, d, k = np.random.default_rng(0), 40, 3, loss.n_outputs
    X, y = rng.uniform(-1.0, 1.0, size=(n, d)), rng.integers(k if k > 1 else 2, size=n)
    design = LinearDesign.of(loss, n, d, 2.0, 1.0, alpha=0.3)
    problem = LinearProblem(Records(X, 2.0, targets=y if k > 1 else y + 0.0), loss, design)
    drawn = np.array([0, d * k, 1, d * k - 1])  # e_0 - e_0, e_1 and the last one
    W = np.zeros((k, d))
    W[0, 1], W[-1, -1] = 0.5, 0.5
    assert problem.coefficients((drawn,)) == pytest.approx(W.ravel())
    odds = np.exp(X @ W.T)
    residuals = odds / (1.0 + odds) - y[:, None]
    if k > 1:
        residuals = odds / odds.sum(axis=1, keepdims=True) - np.eye(k)[y]
    half = 2.0 * (residuals[5:25].T @ X[5:25] / 20 + 0.3 * W).ravel()
    (gradient,) = problem.gradients((drawn,), slice(5, 25))
    assert gradient == pytest.approx(np.concatenate([half, -half]))
    changed = problem.changes((drawn,), (np.array([1]),), slice(5, 25), (math.inf,))
    (other,) = problem.gradients((np.array([1]),), slice(5, 25))
    assert changed[0] == pytest.approx(gradient - other)


def test_derivatives_of_logits_are_lipschitz():
    """By 1/2 in the largest change of a logit; two logits that cross attain it."""
    rng, loss, largest = np.random.default_rng(0), LogitLoss(3), 0.0
    for scale in (0.01, 0.1, 1.0, 5.0):
        a = rng.normal(scale=3.0, size=(2000, 3))
        a[:, 2] -= 20.0 * (rng.uniform(size=2000) < 0.5)
        b = a + scale * rng.choice([-1.0, 1.0], size=a.shape)
        y = np.zeros(2000, dtype=int)
        moved = np.abs(loss.derivative(a, y) - loss.derivative(b, y)).max(axis=1)
        largest = max(largest, (moved / scale).max())
    assert 0.49 < largest <= loss.curvature * (1.0 + 1e-12)
