"""Marks of records: keyed sums by which a later pass shows that it had the same records.

The mark of some records is a sum over them of numbers of 64 bits, one for each record: a keyed
function of its position and of the bits of the record as it was read. Sums do not depend on order
or layout, so that one number is expected of any set of positions, whatever engine reads them. It
is protection against accidents (docs/theory/scale.md).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

#: Of records: consecutive ones as a range, which takes no memory.
Positions = range | np.ndarray
#: Numbers of a mark are modulo 2**64.
MODULUS = 1 << 64
#: Kinds of numpy types that have the bits of numbers.
_KINDS = "biufmM"
#: Bytes of rows of X that are folded at once, and rows whose sums are turned into marks at once:
#: what is made of them stays in the cache.
_PIECE, _ROWS = 1 << 19, 1 << 14
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)
_LAST_SHIFT = np.uint64(31)
_HALF, _ONE = np.uint64(32), np.uint64(1)


@dataclass(frozen=True)
class MarkKey:
    """Two secret numbers of 64 bits, fresh in every fit."""

    of_positions: int
    of_columns: int

    @classmethod
    def drawn(cls) -> MarkKey:
        """Draw a key from the operating system."""
        return cls(secrets.randbits(64), secrets.randbits(64))

    def of_ids(self, ids: np.ndarray) -> np.ndarray:
        """Return ids as integers, or texts as keyed hashes of 128 bits."""
        if ids.dtype.kind in "iu":
            return ids.astype(np.int64)
        key = self.of_positions.to_bytes(8, "little") + self.of_columns.to_bytes(8, "little")
        texts = (each if isinstance(each, bytes) else str(each).encode() for each in ids.tolist())
        hashes = [hashlib.blake2b(text, digest_size=16, key=key).digest() for text in texts]
        return np.array(hashes, dtype="S16")

    def marks(
        self, X: Any, targets: Any, groups: Any, positions: Positions, *others: Any
    ) -> np.ndarray:
        """Return the number of each record; columns of numbers or codes may be None."""
        m, d = X.shape
        columns = (targets, groups, *others)
        factors = _odd(self.of_columns, np.arange(d + len(columns), dtype=np.uint64))
        marks = np.empty(m, dtype=np.uint64)
        sums = _sparse_sums(X, factors) if sp.issparse(X) else None
        for part in (slice(start, start + _ROWS) for start in range(0, m, _ROWS)):
            values = _dense_sums(X[part], factors[:d]) if sums is None else sums[part]
            for column, factor in zip(columns, factors[d:], strict=True):
                if column is not None:
                    values += factor * (_folded(column[part]) + _ONE)
            values ^= values >> _HALF
            places = _odd(self.of_positions, _numbers(positions[part]), first=1)
            np.multiply(places, values, out=marks[part])
        return marks


def total_mark(marks: np.ndarray) -> int:
    """Add marks of records."""
    return int(marks.sum(dtype=np.uint64))


def as_numbers(table: Any) -> Any:
    """Return a table as numbers to mark: an array or CSR matrix; text and objects as hashes."""
    if sp.issparse(table):
        return table.tocsr()
    if not isinstance(table, np.ndarray):
        table = _columns(table)
    elif table.dtype.kind in _KINDS:
        return table.reshape(len(table), -1)
    else:
        table = table.reshape(len(table), -1).T
    return np.column_stack([_bits(np.asarray(column)) for column in table])


def _columns(frame: Any) -> Iterable[Any]:
    """Return the columns of a frame of pandas, polars or pyarrow, or of a list of rows."""
    if hasattr(frame, "items"):
        return (column for _, column in frame.items())
    if hasattr(frame, "get_columns"):
        return frame.get_columns()
    return frame.columns if hasattr(frame, "columns") else zip(*frame, strict=True)


def _bits(values: np.ndarray) -> np.ndarray:
    """Return numbers of 64 bits for the values of a column."""
    if values.dtype.kind in _KINDS:
        return _plain(values)
    texts = values.tolist()
    is_text = set(map(type, texts)) == {str}
    if not is_text:  # 1, True and "1" are equal or look the same, and lists cannot be in sets
        texts = list(map(repr, texts))
    places = {text: j for j, text in enumerate(dict.fromkeys(texts))}
    hashes = np.array([_hash(text, is_text) for text in places], dtype=np.uint64)
    return hashes[np.fromiter(map(places.__getitem__, texts), np.intp, len(texts))]


def _hash(text: str, is_text: bool) -> int:
    data = text.encode("utf-8", "surrogatepass")
    found = hashlib.blake2b(data, digest_size=8, person=bytes([is_text]))
    return int.from_bytes(found.digest(), "little")


def _numbers(positions: Positions) -> np.ndarray:
    if isinstance(positions, range):
        return np.arange(positions.start, positions.stop, dtype=np.uint64)
    return positions.astype(np.uint64)


def _odd(key: int, counters: np.ndarray, first: int = 0) -> np.ndarray:
    """Return odd numbers of 64 bits, those of the generator splitmix64 at ``first + counters``."""
    mixed = counters * _GOLDEN
    mixed += np.uint64((key + first * int(_GOLDEN)) % MODULUS)
    shifted = np.empty_like(mixed)
    for shift, factor in _MIX:
        mixed ^= np.right_shift(mixed, shift, out=shifted)
        mixed *= factor
    mixed ^= np.right_shift(mixed, _LAST_SHIFT, out=shifted)
    mixed |= _ONE
    return mixed


def _plain(numbers: np.ndarray) -> np.ndarray:
    """Return the bits of numbers as uint64."""
    if numbers.dtype.kind != "f":
        numbers = numbers.astype(np.int64)
    elif numbers.dtype.itemsize > 8:
        numbers = numbers.astype(np.float64)
    bits = np.ascontiguousarray(numbers).view(f"u{numbers.dtype.itemsize}")
    return bits.astype(np.uint64, copy=False)


def _folded(numbers: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Return the bits of numbers as uint64, the upper half also in the lower one.

    Small whole numbers have bits in the upper half alone, and odd factors would leave 0 below.
    """
    bits = _plain(numbers)
    upper = np.right_shift(bits, _HALF, out=out)
    return np.bitwise_xor(upper, bits, out=upper)


def _dense_sums(X: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Sums over the entries of each row."""
    m, d = X.shape
    sums, n_pieces = np.empty(m, dtype=np.uint64), -(-8 * m * d // _PIECE)
    size = max(-(-m // max(n_pieces, 1)), 64)
    folded = np.empty((min(size, m), d), dtype=np.uint64)
    for start in range(0, m, size):
        rows = X[start : start + size]
        np.einsum("ij,j->i", _folded(rows, folded[: len(rows)]), factors, out=sums[start:][:size])
    return sums


def _sparse_sums(X: Any, factors: np.ndarray) -> np.ndarray:
    """Sums over the stored entries of each row."""
    sums = np.zeros(len(X.data) + 1, dtype=np.uint64)
    np.cumsum(_folded(X.data) * factors[X.indices], out=sums[1:])
    return sums[X.indptr[1:]] - sums[X.indptr[:-1]]
