"""Records that change, chunks that are lost, readers that fail: nothing is released of such a pass.

In every fault the source of the noise refuses to be used from that moment on.
"""

from __future__ import annotations

import functools
import itertools
import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import FunctionTransformer

from skdp.data import ArrayRecords, ChunkSource, DataError, RecordsChangedError, RecordSource
from skdp.data.sources import merge_tree
from skdp.linear_model import DPLogisticRegression, DPRidge
from skdp.mechanisms import NoiseSource
from skdp.methods import Bilevel, QueryMirrorDescent
from skdp.model_selection import DPLogisticRegressionCV
from skdp.privacy import BudgetAccountant
from skdp.robust import (
    DPAdversarialClassifier,
    DPMaxGroupLossClassifier,
    DPMaxGroupLossMLPClassifier,
)
from skdp.solvers import SklearnSolver
from skdp.synthetic import DPSyntheticData

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
N, ROWS, CHUNKS = 300, 50, 6
SECRET = 0.123456789
#: A budget with few passes: 16 or 41.
SHARED = {"epsilon": 0.03, "data_norm": 1.0, "classes": [0, 1], "random_state": 0}
MODELS = {
    "logistic": functools.partial(DPLogisticRegression, **SHARED),
    "solves": functools.partial(DPLogisticRegression, method="output", **SHARED),
    "tuned": functools.partial(DPLogisticRegressionCV, **SHARED),
    "groups": functools.partial(DPMaxGroupLossClassifier, group_names=[0, 1], **SHARED),
}


def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    return X, (X[:, 0] > 0).astype(int), rng.integers(0, 2, N)


class Failed(Exception):
    """The engine's own error."""


class Faulty(RecordSource):
    """Chunks that are wrong in one pass, or in the first of its two tries; passes are counted."""

    def __init__(self, fault=None, number=0, is_brief=False):
        self.source = ArrayRecords(*table(), chunk_rows=ROWS)
        self.n_chunks, self.chunk_sizes = CHUNKS, self.source.chunk_sizes
        self.fault, self.number, self.n_passes, self.happened = fault, number, 0, False
        self.is_brief, self.n_tries = is_brief, 0

    @property
    def _is_wrong(self):
        is_over = self.is_brief and self.n_tries > self.n_passes
        return self.fault is not None and self.n_passes == self.number and not is_over

    def read(self, k):
        if not (self._is_wrong and k == 2 and self.fault in READ):
            return self.source.read(k)
        self.happened = True
        return self.source.read(k)._replace(**READ[self.fault](self.source, k))

    def reduce(self, task, merge):
        self.n_passes = task.pass_number
        self.n_tries += 1
        chunks = list(range(self.n_chunks))
        if self._is_wrong and self.fault in REDUCE:
            self.happened = True
            chunks = REDUCE[self.fault](chunks)
        return merge_tree((task(k, self) for k in chunks), merge)


def raising(error):
    def read(source, k):
        raise error(f"value {SECRET}")

    return read


def changed(source, k, column, change):
    parts = source.read(k)._asdict()
    parts[column] = change(parts[column].copy())
    return {column: parts[column]}


def entry(value):
    def change(X):
        X[0, 1] = np.nextafter(X[0, 1], 9.0) if value is None else value
        return X

    return change


def first_two_exchanged(source, k):
    chunk = source.read(k)
    return chunk.take(np.r_[1, 0, 2 : len(chunk.y)])._asdict() if len(chunk.y) > 1 else {}


#: Faults of readers, and of engines: what chunk 2 is, and which chunks are merged.
READ = {
    "one bit": lambda *at: changed(*at, "X", entry(None)),
    "NaN": lambda *at: changed(*at, "X", entry(np.nan)),
    "label": lambda *at: changed(*at, "y", lambda y: np.r_[1 - y[:1], y[1:]]),
    "exchanged rows": first_two_exchanged,
    "shorter": lambda source, k: source.read(k).take(slice(-1))._asdict(),
    "other chunk": lambda source, k: source.read(k + 1)._asdict(),
    "error": raising(OSError),
    "own error": raising(Failed),
    "text": lambda *at: changed(*at, "X", lambda X: np.full(X.shape, f"value {SECRET}", object)),
}
REDUCE = {
    "left out": lambda chunks: chunks[:2] + chunks[3:],
    "twice": lambda chunks: chunks[:3] + chunks[2:],
    "twice for another": lambda chunks: [*chunks[:3], 2, *chunks[4:]],
}


@pytest.fixture
def watched(monkeypatch):
    """Fail where noise is drawn after the fault of a source."""

    def watch(source):
        for name in ("words", "_fill"):
            original = getattr(NoiseSource, name)

            def draw(self, *args, original=original):
                assert not source.happened, "noise after the fault"
                return original(self, *args)

            monkeypatch.setattr(NoiseSource, name, draw)
        return source

    return watch


@functools.cache
def number_of_passes(name):
    source = Faulty()
    MODELS[name]().fit(source)
    return source.n_passes


PLACES = "second", "middle", "last"
#: Each fault once, with models and places by turns, and the solver's in the middle.
FAULTS = [
    *zip(itertools.cycle(MODELS), [*READ, *REDUCE], itertools.cycle(PLACES)),
    ("solves", "error", "middle"),
    ("logistic", "one bit", "last"),
]


@pytest.mark.parametrize(("name", "fault", "place"), FAULTS)
def test_a_fault_in_a_pass(name, fault, place, watched):
    last = number_of_passes(name)
    number = {"second": 2, "middle": last // 2, "last": last}[place]
    source, accountant = watched(Faulty(fault, number)), BudgetAccountant(1.0, 1e-5)
    model = MODELS[name](accountant=accountant)
    with pytest.raises(DataError) as caught:
        model.fit(source)
    reads_fail = fault in ("error", "own error", "text")
    assert isinstance(caught.value, RecordsChangedError) != reads_fail
    assert source.happened
    assert f"pass {number}" in str(caught.value).lower()
    assert caught.value.__cause__ is not None or not reads_fail
    assert str(SECRET) not in str(caught.value)
    assert source.n_passes == number and not hasattr(model, "coef_")
    assert source.n_tries == number + (0 if reads_fail else 1)
    assert accountant.total().epsilon > 0.02  # it may have looked at records before


@pytest.mark.parametrize(
    ("name", "fault"),
    [("logistic", "one bit"), ("solves", "label"), ("tuned", "exchanged rows"),
     ("groups", "twice for another")],
)  # fmt: skip
def test_a_first_pass_that_is_wrong_shows_in_the_second(name, fault, watched):
    with pytest.raises(RecordsChangedError, match="pass 2"):
        MODELS[name]().fit(watched(Faulty(fault, 1)))


@pytest.mark.parametrize(
    ("name", "fault"),
    [("logistic", "one bit"), ("solves", "shorter"), ("tuned", "left out"), ("groups", "twice")],
)
def test_a_brief_fault_is_repaired(name, fault):
    """A refused pass is made once more, and the fit is the one without the fault."""
    expected, source = MODELS[name]().fit(Faulty()), Faulty(fault, 3, is_brief=True)
    model = MODELS[name]().fit(source)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert source.happened and source.n_tries == source.n_passes + 1


class Unsteady(FunctionTransformer):
    """Features whose last bits are others in every read, as those of compiled loops may be."""

    def transform(self, X):
        found = np.tanh(np.asarray(X)[:, :3].astype(float))
        self.rng = getattr(self, "rng", np.random.default_rng(0))
        return np.where(self.rng.random(found.shape) < 0.5, found, np.nextafter(found, 9.0))


@pytest.mark.parametrize(
    ("name", "kind"), [("logistic", "array"), ("groups", "frame"), ("solves", "twice")]
)
def test_marks_are_of_what_was_read(name, kind):
    """Computed features may have other last bits; what is computed from may not."""
    X, y, groups = table()
    frame = pd.DataFrame(X, columns=list("abc")).assign(text=np.where(y, "one", "none"))
    rows = frame if kind == "frame" else X
    steps = (Unsteady(), Unsteady()) if kind == "twice" else (Unsteady(),)
    reads = []

    def read(k, is_changed=False):
        chunk = slice(k * ROWS, (k + 1) * ROWS)
        some = rows[chunk].copy()
        if is_changed and len(reads) > 2 * CHUNKS:
            if kind == "frame":
                some.iloc[3, 3] = "other"  # a column that no feature uses
            else:
                some[3, 1] = np.nextafter(some[3, 1], 9.0)
        reads.append(k)
        return some, y[chunk], groups[chunk]

    MODELS[name]().fit(ChunkSource(read, CHUNKS).map(*steps))
    reads.clear()
    with pytest.raises(RecordsChangedError):
        changed = functools.partial(read, is_changed=True)
        MODELS[name]().fit(ChunkSource(changed, CHUNKS).map(*steps))


def test_an_interrupt_is_passed_on():
    source, model = Faulty("interrupt", 3), MODELS["logistic"]()
    READ["interrupt"] = raising(KeyboardInterrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            model.fit(source)
    finally:
        del READ["interrupt"]
    assert not hasattr(model, "coef_")


def source_of(*chunks, **options):
    return ChunkSource(lambda k: chunks[k], len(chunks), **options)


X, Y, G = table()
FIRST, SECOND = slice(0, N // 2), slice(N // 2, N)


def with_secret(X):
    X = X.copy()
    X[7, 1] = SECRET
    return X


def second(**parts):
    """A source whose second chunk is wrong."""
    right = {"X": with_secret(X)[SECOND], "y": Y[SECOND], "groups": G[SECOND]}
    return source_of((X[FIRST], Y[FIRST], G[FIRST]), tuple((right | parts).values()))


def frame(X, names="abc"):
    return pd.DataFrame(X, columns=list(names))


wrong = X[SECOND].copy()
wrong[5, 2], wrong[6, 0] = np.nan, SECRET
INVALID = {
    "NaN": (second(X=wrong), r"chunk 1: .*Column 2 contains NaN"),
    "infinite": (second(X=np.where(np.isnan(wrong), np.inf, wrong)), "chunk 1: .*infinity"),
    "text": (second(X=np.full((N // 2, 3), f"v{SECRET}", dtype=object)), "chunk 1: .*numeric"),
    "unknown label": (second(y=np.r_[Y[N // 2 + 1 :], 7]), "chunk 1: y contains labels"),
    "fractional label": (second(y=np.r_[Y[N // 2 + 1 :], SECRET]), "chunk 1: y contains labels"),
    "missing label": (second(y=np.r_[Y[N // 2 + 1 :], np.nan]), "chunk 1: Input y contains NaN"),
    "ragged": (second(y=Y[N // 2 + 1 :]), f"chunk 1: {N // 2} rows, but {N // 2 - 1} targets"),
    "width": (second(X=X[SECOND, :2]), "chunk 1 has 2 features, the ones before have 3"),
    "kind": (second(X=sp.csr_array(X[SECOND])), "chunk 1 is CSR, the ones before are dense"),
    "precision": (second(X=X[SECOND].astype(np.float32)), "chunk 1 has numbers of another"),
    "no targets": (source_of((X[FIRST],)), "chunk 0: the source has no targets"),
    "no records": (source_of((X[:0], Y[:0])), "0 records"),
    "names": (
        source_of((frame(X[FIRST]), Y[FIRST]), (frame(X[SECOND], "acb"), Y[SECOND])),
        "chunk 1 has other names",
    ),
    "sizes": (source_of((X, Y), chunk_sizes=[N + 1]), f"chunk 0 has {N} rows"),
    "no groups": (second(groups=None), "chunk 1: the source has no groups"),
    "unknown group": (second(groups=np.r_[G[N // 2 + 1 :], 7]), "chunk 1: groups contains labels"),
    "missing group": (second(groups=np.r_[G[N // 2 + 1 :], np.nan]), "chunk 1: groups .* missing"),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_records_are_refused_before_the_payment(name):
    """By the chunk that holds them; no value of a record is said."""
    source, message = INVALID[name]
    accountant = BudgetAccountant(50.0, 1e-5)
    with pytest.raises(ValueError, match=message) as caught:
        MODELS["groups" if "group" in name else "logistic"](accountant=accountant).fit(source)
    assert not {str(SECRET), "7"} & set(re.findall(r"[\d.]*\d", str(caught.value)))
    assert accountant.total().epsilon == 0.0


class Unread(RecordSource):
    n_chunks = 1

    def read(self, k):
        raise AssertionError("read")


LOGISTIC = {"classes": [0, 1], "data_norm": 1.0}


@pytest.mark.parametrize(  # all cases of the tables: tests/contract/test_fits.py
    ("model", "message"),
    [
        (DPLogisticRegression(delta=0.0, method="exponential", **LOGISTIC),
         "for a source: 'gradient', 'output'"),
        (DPLogisticRegression(solver="svrg", **LOGISTIC), "SVRG works on batches of records"),
        (DPLogisticRegression(method="output_perturbation",
                              solver=SklearnSolver(LogisticRegression()), **LOGISTIC),
         "SklearnSolver .*all records in memory"),
        (DPLogisticRegressionCV(method=Bilevel(as_published=True), **LOGISTIC),
         r"Bilevel\(as_published=True\) needs all"),
        (DPAdversarialClassifier(alpha=0.1, **LOGISTIC), "attacked rows needs all records"),
        (DPSyntheticData(method=QueryMirrorDescent(calibration="paper")), "'paper' needs all"),
        (DPMaxGroupLossMLPClassifier(**LOGISTIC), "needs all records"),
    ],
)  # fmt: skip
def test_what_needs_all_records_is_refused_before_reading(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(Unread())


def test_targets_beside_a_source_and_cross_validation_are_refused():
    with pytest.raises(ValueError, match="A source holds y, groups, user_ids"):
        DPRidge(target_range=(0, 1)).fit(Unread(), Y)
    with pytest.raises(ValueError, match="A source holds y, groups, user_ids"):
        MODELS["groups"]().fit(Unread(), groups=G)
    with pytest.raises(TypeError, match="ArrayRecords"):
        cross_val_score(MODELS["logistic"](), ArrayRecords(X, Y), Y)
