"""Fits on records of a source: the report and the coefficients of the fit in memory."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sent_objects import leaves

from skdp.data import ChunkSource, ParquetRecords, RecordSource
from skdp.data.sources import merge_tree
from skdp.linear_model import DPLinearClassifier, DPLogisticRegression, DPRidge
from skdp.model_selection import DPLogisticRegressionCV, DPRidgeCV
from skdp.robust import DPMaxGroupLossClassifier

pytestmark = pytest.mark.filterwarnings("ignore")
N, D = 1000, 4
SHARED = {"data_norm": 1.0, "random_state": 0, "epsilon": 0.3}
TWO, NUMBERS = {"classes": [0, 1]}, {"target_range": (-2, 3)}
GROUPS = {"group_names": ["east", "south", "west"]}
#: Of all cases on chunks: tests/contract/test_fits.py.
MODELS = {
    "logistic": (DPLogisticRegression, TWO),
    "squares": (DPRidge, NUMBERS),
    "log loss, output": (DPLogisticRegression, TWO | {"method": "output"}),
    "tuned squares": (DPRidgeCV, NUMBERS),
    "tuned log loss": (DPLogisticRegressionCV, TWO),
    "groups": (DPMaxGroupLossClassifier, TWO | GROUPS),
}
MANY = [*range(0, N, 137), N]


def table(name, kind="dense"):
    """Records for a model, whose X is of a kind."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)) * 0.6
    names = np.array(GROUPS["group_names"])[rng.integers(0, 3, N)]
    noise = 0.3 * rng.normal(size=N)
    y = X[:, 1] + noise if "squares" in name else (X[:, 0] + noise > 0.0).astype(int)
    kinds = {
        "dense": lambda: X,
        "single": lambda: X.astype(np.float32),
        "whole numbers": lambda: np.rint(3 * X).astype(np.int32),
        "Fortran": lambda: np.asfortranarray(X),
        "CSR": lambda: sp.csr_array(np.where(np.abs(X) > 0.5, X, 0.0)),
        "frame": lambda: pd.DataFrame(X, columns=list("abcd")).assign(a=lambda t: t.a > 0),
    }
    return kinds[kind](), y, names if name.startswith("groups") else None


def make(name, **parameters):
    estimator, own = MODELS[name]
    return estimator(**{**SHARED, **own, **parameters})


def rows_of(part, rows):
    return part.iloc[rows] if hasattr(part, "iloc") else part[rows]


def chunked(records, edges, sizes_are_known=True):
    """A source of the records in chunks between edges."""

    def read(k):
        rows = slice(edges[k], edges[k + 1])
        return tuple(None if part is None else rows_of(part, rows) for part in records)

    sizes = np.diff(edges).tolist() if sizes_are_known else None
    return ChunkSource(read, len(edges) - 1, chunk_sizes=sizes)


def in_memory(model, records):
    X, y, groups = records
    return model.fit(X, y) if groups is None else model.fit(X, y, groups=groups)


def assert_same(found, expected):
    assert found.privacy_.to_dict() == expected.privacy_.to_dict()
    for name in ("coef_", "intercept_"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=0, atol=1e-9)
    assert found.n_features_in_ == expected.n_features_in_
    names = [list(getattr(m, "feature_names_in_", ())) for m in (found, expected)]
    assert names[0] == names[1]


@pytest.mark.parametrize(
    "kind", ["dense", "single", "whole numbers", "Fortran", "CSR", "frame", "unknown sizes"]
)
def test_tables_of_all_kinds(kind):
    """In chunks of all records, of one, and of none."""
    records = table("logistic", "dense" if kind == "unknown sizes" else kind)
    edges = [0, N] if kind == "dense" else [0, 0, 1, 1, 400, N - 1, N, N]
    found = make("logistic").fit(chunked(records, edges, kind != "unknown sizes"))
    assert_same(found, in_memory(make("logistic"), records))


class Shuffled(RecordSource):
    """Another engine: tasks are sent, run twice, in any order, and merged in any tree."""

    def __init__(self, source):
        self.source, self.rng = source, np.random.default_rng(0)
        self.n_chunks, self.chunk_sizes = source.n_chunks, source.chunk_sizes
        self.tasks = []

    def read(self, k):
        return self.source.read(k)

    def reduce(self, task, merge):
        self.tasks.append(task)
        task = pickle.loads(pickle.dumps(task))
        found = {k: task(k, self.source) for k in self.rng.permutation(self.n_chunks) for _ in "12"}
        parts = [found[k] for k in range(self.n_chunks)]
        while len(parts) > 1:
            start = int(self.rng.integers(len(parts) - 1))
            some = slice(start, start + int(self.rng.integers(2, 17)))
            merge(parts[some])  # its result is lost, and made again
            parts[some] = [merge(parts[some])]
        return parts[0]


@pytest.mark.parametrize("name", ["squares", "log loss, output", "tuned log loss", "groups"])
def test_other_engines_and_what_they_are_sent(name, capsys):
    """Released and public numbers, keys of marks, and names: no records, no loss that counts."""
    records = table(name)
    source = Shuffled(chunked(records, MANY))
    model = make(name, verbose="output" in name).fit(source)
    printed = capsys.readouterr().out.splitlines()
    assert all(line.endswith("accuracy reached") for line in printed)
    assert bool(printed) == ("output" in name)
    assert_same(model, in_memory(make(name), records))
    assert [task.pass_number for task in source.tasks] == list(range(1, len(source.tasks) + 1))
    assert {task.name for task in source.tasks} == {type(model).__name__}
    for task in source.tasks:
        for path, leaf in leaves(task, type(task).__name__):
            assert np.size(leaf) <= 100, path


class Counting(RecordSource):
    """Count passes, and the rows that each reads."""

    def __init__(self, source):
        self.source, self.n_chunks = source, source.n_chunks
        self.chunk_sizes, self.starts = source.chunk_sizes, np.cumsum([0, *source.chunk_sizes])
        self.rows = []

    def read(self, k):
        self.rows[-1].append(np.arange(self.starts[k], self.starts[k + 1]))
        return self.source.read(k)

    def reduce(self, task, merge):
        self.rows.append([])
        return merge_tree((task(k, self) for k in range(self.n_chunks)), merge)


def test_auto_chooses_among_the_methods_for_sources():
    """By the bounds that a fit in memory compares, too."""
    hinge = DPLinearClassifier(loss="hinge", delta=0.0, **TWO, **SHARED)
    X, y, _ = table("hinge")
    bounds = hinge.fit(X, y).privacy_.plan["method_bounds"]
    assert {"exponential", "phased"} & set(bounds)
    found = hinge.fit(chunked((X, y), [0, 400, N])).privacy_
    left = found.plan["method_bounds"]
    assert left == {name: bounds[name] for name in ("output_perturbation", "objective")}
    assert found.method == min(left, key=left.get)


@pytest.mark.parametrize(
    ("name", "others"),
    [("logistic", 1 + 1 + 3), ("squares", 1 + 3), ("tuned squares", 1 + 3),
     ("tuned log loss", 1 + 1 + 3)],
)  # fmt: skip
def test_passes(name, others):
    """One for each release, of all records, and one for the survey."""
    source = Counting(chunked(table(name), MANY))
    plan = make(name).fit(source).privacy_.plan
    passes = [np.concatenate(rows) for rows in source.rows]
    assert len(passes) == 1 + others + plan.get("n_steps", 0)
    for rows in passes:
        np.testing.assert_array_equal(rows, np.arange(N))


@pytest.mark.parametrize("scratch", [False, True])
def test_names_of_files_are_kept(scratch, tmp_path):
    X, y, _ = table("logistic")
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame.assign(y=y).to_parquet(tmp_path / "one.parquet", row_group_size=300)
    folder = tmp_path if scratch else None
    source = ParquetRecords(tmp_path / "one.parquet", "y", scratch=folder)
    model = make("logistic").fit(source)
    assert_same(model, in_memory(make("logistic"), (frame, y, None)))
    assert not hasattr(model.fit(chunked((X, y), MANY)), "feature_names_in_")  # of other records


def test_memory_is_that_of_a_few_chunks():
    """Chunks of 0.8 MB, and two bytes for the label of each record; epsilon is for few passes."""
    first = np.random.default_rng(0).normal(size=(1000, 100))

    def read(k):
        X = first * (1.0 + k / 12)
        return X, (X[:, 0] > 0).astype(int)

    tracemalloc.start()
    try:
        model = make("logistic", epsilon=0.01)
        model.fit(ChunkSource(read, 12, chunk_sizes=[1000] * 12))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert model.privacy_.method == "gradient"
    assert peak < 5e6 + 3e4
