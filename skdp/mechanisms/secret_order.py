"""Secret orders of records: positions must not decide what happens to a record.

A data set is a multiset. Where an algorithm divides records into blocks, folds, phases or batches,
a table that is kept sorted would move all records when one is replaced. So the order is drawn from
the source of the privacy noise, fresh in every fit, and as secret as the noise
(docs/theory/order.md).
"""

from __future__ import annotations

import hashlib
import weakref
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skdp.mechanisms.noise_source import NoiseSource

#: Positions whose labels are made together.
_SEGMENT = 1 << 16
#: Segments of one key that a process keeps, 16 MB: steps need the same members again and again.
_MOST_KEPT = 1 << 7


def random_order(n_records: int, noise: NoiseSource) -> np.ndarray:
    """Draw a uniformly random order (Lemma 1 of docs/theory/order.md).

    It holds every position once: the ranks of random 64-bit words, which are drawn again if they
    are not all different.
    """
    while True:
        words = noise.words(n_records)
        order = np.argsort(words, kind="stable")
        ranked = words[order]
        if not (ranked[1:] == ranked[:-1]).any():
            return order


@dataclass(frozen=True, eq=False)
class KeyedLabels:
    """Labels of positions by a key; for the processes that read the records of a fit.

    Labels of any stretch of positions are made when they are needed, by a cryptographic hash
    function. The members of the first positions are kept as long as the object is.
    """

    n_labels: int
    key: bytes = field(repr=False)

    def of(self, start: int, stop: int) -> np.ndarray:
        """Return the labels of the positions from `start` to `stop`, as uint8."""
        segments = _segments(start, stop)
        labels = np.concatenate([_NO_LABELS, *map(self._segment, segments)])
        first = start - segments.start * _SEGMENT
        return labels[first : first + stop - start]

    def members(self, label: int, start: int, stop: int) -> np.ndarray:
        """Return the positions with a label from `start` to `stop`, in increasing order."""
        parts = [np.empty(0, dtype=np.int64)]
        for number in _segments(start, stop):
            order, edges = self._kept(number)
            part = order[edges[label] : edges[label + 1]].astype(np.int64)
            part += number * _SEGMENT
            parts.append(part)
        members = np.concatenate(parts)
        first, last = np.searchsorted(members, [start, stop])
        return members[first:last]

    def _kept(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        kept = _KEPT.setdefault(self, {})
        if number in kept:
            return kept[number]
        labels = self._segment(number)
        order = np.argsort(labels, kind="stable").astype(np.uint16)
        edges = np.cumsum(np.bincount(labels + 1, minlength=self.n_labels + 1))
        if len(kept) < _MOST_KEPT:
            kept[number] = order, edges
        return order, edges

    def _segment(self, number: int) -> np.ndarray:
        stream = hashlib.shake_256(self.key + number.to_bytes(8, "little"))
        words = np.frombuffer(stream.digest(2 * _SEGMENT), dtype="<u2").astype(np.uint32)
        return (words * np.uint32(self.n_labels) >> np.uint32(16)).astype(np.uint8)


def _segments(start: int, stop: int) -> range:
    return range(start // _SEGMENT, -(-stop // _SEGMENT))


_NO_LABELS = np.empty(0, dtype=np.uint8)
#: By segment, the positions in it sorted by labels, and where each label starts among them. They
#: are no part of the object, which is sent to workers.
_KEPT: weakref.WeakKeyDictionary[KeyedLabels, dict[int, tuple[np.ndarray, np.ndarray]]] = (
    weakref.WeakKeyDictionary()
)


class SecretLabels:
    """Independent labels of records, each a keyed function of the position (Lemma 2).

    Parameters
    ----------
    n_labels : int
        Labels are 0, ..., n_labels - 1; at most 255. Each has probability ``1 / n_labels``, up to
        2^-16.
    noise : NoiseSource
        Draws the key.
    """

    def __init__(self, n_labels: int, noise: NoiseSource) -> None:
        if not 1 <= n_labels <= 255:
            raise ValueError(f"n_labels == {n_labels}, must be between 1 and 255.")
        self.n_labels = n_labels
        self._keyed = KeyedLabels(n_labels, noise.words(4).tobytes())

    def __reduce__(self) -> Any:
        raise TypeError("SecretLabels cannot be copied: the key must not leave the process.")

    def for_readers(self) -> KeyedLabels:
        """Return the labels with their key, for processes that are trusted with the records."""
        return self._keyed

    def of(self, start: int, stop: int) -> np.ndarray:
        """Return the labels of the positions from `start` to `stop`, as uint8."""
        return self._keyed.of(start, stop)

    def members(self, n_records: int) -> list[np.ndarray]:
        """Return the positions of each label among the first `n_records`, in increasing order."""
        labels = self.of(0, n_records)
        order = np.argsort(labels, kind="stable")
        counts = np.bincount(labels, minlength=self.n_labels)
        return np.split(order, np.cumsum(counts)[:-1])
