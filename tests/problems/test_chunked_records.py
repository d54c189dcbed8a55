"""Sums over chunks: what is accepted, how far they can be off, and what is no part of them."""

import copy
from dataclasses import dataclass

import numpy as np
import pytest

from skdp._sources import ChunkCheck, ClippedTargets
from skdp.data import ArrayRecords, ChunkSource
from skdp.problems import HalfSquaredLoss, Records
from skdp.problems import records as records_module
from skdp.problems.bounding import Bounding
from skdp.problems.chunked_records import ChunkedRecords, Partial, merged
from skdp.problems.loss_sums import Curvature, ValueAndGradientSum
from skdp.problems.rounding import chain
from skdp.problems.surveys import Surveyor

N, D = 500, 3
BOUNDING = Bounding(data_norm=1.0, intercept=0.1, targets=ClippedTargets(-1.0, 1.0, 0.0))


def table(n=N, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, D)), rng.uniform(-1, 1, n)


def chunked(source):
    return ChunkedRecords(source, Surveyor(source, check=ChunkCheck()).survey(BOUNDING), BOUNDING)


def in_memory(X, y):
    return Records(X, 1.0, 0.1, targets=BOUNDING.targets(y))


@dataclass(frozen=True)
class Targets:
    """Sums of the targets of blocks."""

    def __call__(self, block):
        return np.array([block.targets.sum()])


def test_sums_are_those_in_memory():
    X, y = table()
    one, other = in_memory(X, y), chunked(ArrayRecords(X, y, chunk_rows=77))
    for name in ("n_records", "n_features", "width", "data_norm", "intercept", "norm_bound",
                 "block_size", "is_sparse", "factors", "groups"):  # fmt: skip
        assert getattr(one, name) == getattr(other, name)
    loss, weights = HalfSquaredLoss(1.0), np.ones((1, D + 1))
    for found, expected in zip(
        other.total(ValueAndGradientSum(loss, weights)),
        one.total(ValueAndGradientSum(loss, weights)),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-13)
    for records in (one, other):
        assert records.with_intercept(0.5).width == D + 1
    gram = Curvature(loss, weights)
    np.testing.assert_allclose(other.gram(gram), one.gram(gram), rtol=1e-12)
    with pytest.raises(NotImplementedError):
        other.total(Targets(), part=slice(None, None, 2))


class Depth:
    """A sum that knows the most additions that one of its terms went through."""

    def __init__(self, additions=0):
        self.additions = additions

    def __add__(self, other):
        return Depth(max(self.additions, other.additions) + 1)

    def ravel(self):
        return self


@dataclass(frozen=True)
class Depths:
    def __call__(self, block):
        return Depth(len(block.targets) - 1)


def test_no_term_goes_through_more_additions_than_the_chain(monkeypatch):
    """With blocks of one record, a long chunk and 240 short ones, which have their own tree."""
    for name in ("_BLOCK_BYTES", "LEAST_ROWS"):
        monkeypatch.setattr(records_module, name, 1)
    X, y = table(496)
    edges = [0, *range(256, 497)]
    source = ChunkSource(lambda k: (X[edges[k] : edges[k + 1]], y[edges[k] : edges[k + 1]]), 241)
    records = chunked(source)
    found = records.total(Depths()).additions
    assert chain(496, 1, 1) - 128 < found <= chain(496, 1, 1)


def test_too_many_chunks_are_refused():
    source = ArrayRecords(*table())
    survey = Surveyor(source, check=ChunkCheck()).survey(BOUNDING)
    source.n_chunks = 2**28 + 1
    with pytest.raises(ValueError, match="at most 268435456"):
        ChunkedRecords(source, survey, BOUNDING)


def test_merges_add_and_leave_their_parts():
    parts = [Partial(k, 2**63 + k, (np.full(2, float(k)), k)) for k in range(3)]
    parts.insert(1, Partial(0, 0, None))
    before = copy.deepcopy(parts)
    for _ in range(2):
        found = merged(parts)
        assert (found.count, found.mark, found.sums[1]) == (3, (2**63 + 3) % 2**64, 3)
        np.testing.assert_array_equal(found.sums[0], [3.0, 3.0])
    for one, other in zip(parts, before, strict=True):
        np.testing.assert_equal(vars(one), vars(other))
    assert merged([Partial(0, 0, None)] * 2) == Partial(0, 0, None)
