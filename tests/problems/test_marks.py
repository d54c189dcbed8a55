"""Marks of records: one number for any layout, another one for any change."""

from datetime import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from skdp.problems.marks import MarkKey, as_numbers, total_mark

KEY = MarkKey(0x0123456789ABCDEF, 0xFEDCBA9876543210)
N, D = 40, 3
KINDS = {
    "dense": lambda X: X,
    "Fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "single": lambda X: X.astype(np.float32),
    "CSR": sp.csr_array,
}


@pytest.fixture
def records():
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, D)), rng.normal(size=N), rng.integers(0, 3, N)


def mark(X, targets, groups, positions=None, key=KEY):
    positions = np.arange(X.shape[0]) if positions is None else positions
    return total_mark(key.marks(X, targets, groups, positions))


@pytest.mark.parametrize("kind", KINDS)
def test_parts_add_up_in_any_layout(records, kind):
    """Of any division of the records, in any order; dense rows have one mark in any layout."""
    X, targets, groups = KINDS[kind](records[0]), *records[1:]
    whole = KEY.marks(X, targets, groups, np.arange(N))
    order = np.random.default_rng(1).permutation(N)
    for part in np.split(order, [1, 1, 17, 30]):
        np.testing.assert_array_equal(
            KEY.marks(X[part], targets[part], groups[part], part), whole[part]
        )
    if kind in ("Fortran", "strided"):
        np.testing.assert_array_equal(whole, KEY.marks(*records, np.arange(N)))


@pytest.mark.parametrize("kind", KINDS)
def test_every_change_shows(records, kind):
    X, targets, groups = KINDS[kind](records[0]), *records[1:]
    before, seen = mark(X, targets, groups), set()
    for j in range(D):
        other = X.copy()
        other[3, j] = np.nextafter(other[3, j], other[3, j].dtype.type(9))
        seen.add(mark(other, targets, groups))
    flipped, moved = targets.copy(), groups.copy()
    flipped[3], moved[3] = np.nextafter(targets[3], 9.0), (groups[3] + 1) % 3
    seen |= {mark(X, flipped, groups), mark(X, targets, moved), mark(X, targets, None)}
    exchanged = np.arange(N)
    exchanged[[3, 4]] = 4, 3
    seen.add(mark(X[exchanged], targets[exchanged], groups[exchanged]))
    twice = np.r_[0, 0, 2:N]
    seen |= {
        mark(X[twice], targets[twice], groups[twice], twice),
        mark(X[1:], targets[1:], groups[1:]),
    }
    seen.add(mark(X, targets, groups, np.arange(N) + 1))
    seen.add(mark(X, targets, groups, key=MarkKey.drawn()))
    assert before not in seen
    assert len(seen) == D + 8


def test_rows_of_zeros_and_ones_do_not_collide():
    """All 2^16 rows at one position, and one row at 2^16 positions; their bits are few."""
    bits = np.arange(2**16)
    X = ((bits[:, None] >> np.arange(16)) & 1).astype(np.float64)
    for rows, positions in ((X, np.zeros_like(bits)), (X[1:2].repeat(2**16, axis=0), bits)):
        assert len(np.unique(KEY.marks(rows, None, None, positions))) == 2**16


def test_rows_without_entries_are_marked_by_their_targets():
    X, targets = sp.csr_array((3, 4)), np.array([0, 1, 0])
    marks = KEY.marks(X, targets, None, np.arange(3))
    assert len(set(marks.tolist())) == 3


#: Tables before they are mapped, and one cell of each: its column, and another value.
COLUMNS = {
    "number": ([0.0, 1.0, np.nan], 1.0 + 2**-52),
    "flag": ([True, False, True], True),
    "date": ([datetime(2020, 1, 1), datetime(2020, 1, 2), None], datetime(2020, 1, 3)),
    "text": (["a", "b", None], "c"),
    "object": ([1, "1", b"1"], 1.0),
    "list": ([[1], [2], [3]], [4]),
}
TABLES = {
    "frame": lambda columns: pd.DataFrame(columns),
    "array": lambda columns: pd.DataFrame(columns).to_numpy(),
    "rows": lambda columns: pd.DataFrame(columns).to_numpy().tolist(),
    "polars": lambda columns: pl.DataFrame(
        {name: column for name, column in columns.items() if name != "object"}
    ),
    "numbers": lambda columns: np.asarray(columns["number"]),
    "texts": lambda columns: np.array(list(map(str, columns["text"]))),
    "category": lambda columns: pd.DataFrame({"c": pd.Categorical(columns["text"])}),
}


@pytest.mark.parametrize("kind", TABLES)
def test_tables_that_are_mapped(kind):
    """Equal tables have equal marks in any part, and every cell that changes shows."""

    def marks(columns, rows=slice(None)):
        found = as_numbers(TABLES[kind]({name: each[rows] for name, each in columns.items()}))
        return KEY.marks(found, None, None, np.arange(3)[rows])

    given = {name: column for name, (column, _) in COLUMNS.items()}
    whole = marks(given)
    np.testing.assert_array_equal(marks({name: list(each) for name, each in given.items()}), whole)
    np.testing.assert_array_equal(marks(given, slice(1, 3)), whole[1:])
    n_changed = 0
    for name, (column, value) in COLUMNS.items():
        changed = list(column)
        changed[1] = value
        n_changed += bool((marks(given | {name: changed}) != whole)[1])
    held = {"polars": 5, "numbers": 1, "texts": 1, "category": 1}
    assert n_changed == held.get(kind, len(COLUMNS))


def test_columns_of_zeros_and_ones_keep_their_bits():
    """Their bits are folded once, not twice: all 2^12 rows of a frame have marks of their own."""
    bits = np.arange(2**12)
    frame = pd.DataFrame(((bits[:, None] >> np.arange(12)) & 1).astype(np.float64))
    frame["flag"] = True
    marks = KEY.marks(as_numbers(frame), None, None, np.zeros_like(bits))
    assert len(np.unique(marks % np.uint64(2**32))) > 4090
