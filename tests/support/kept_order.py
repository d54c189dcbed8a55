"""Orders of records that a test knows: what happens at each place, whatever record is there."""

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import ModuleType

import numpy as np
import pytest
from plain_noise import seeded

from skdp.mechanisms import SecretLabels

#: Modules that draw a random order.
_USERS = (
    "output.blocks", "mirror.boosted", "queries.mirror_descent", "mirror.rounds",
    "mirror.variance_reduced", "tuning.bilevel", "tuning.exponential", "tuning.hypergradient",
)  # fmt: skip


def modules_with_orders() -> list[ModuleType]:
    """Return the modules that draw a random order."""
    return [importlib.import_module(f"skdp.algorithms.{name}") for name in _USERS]


@pytest.fixture
def kept_order(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep the order of the table; record i has the label ``i % n_labels``."""
    for module in modules_with_orders():
        monkeypatch.setattr(module, "random_order", lambda n, noise: np.arange(n))
    monkeypatch.setattr(SecretLabels, "members", in_turn)
    yield


def in_turn(labels: SecretLabels, n_records: int) -> list[np.ndarray]:
    """Give the record i the label ``i % n_labels``."""
    return [np.arange(k, n_records, labels.n_labels) for k in range(labels.n_labels)]


@dataclass(frozen=True)
class KnownLabels:
    """Labels of the first `n_units` places, moved by some places; they can be sent to readers."""

    n_labels: int
    n_units: int
    shift: int

    def members(self, label: int, start: int, stop: int) -> np.ndarray:
        """Return the places with a label from `start` to `stop`."""
        labels = np.roll(_given(self.n_labels, self.n_units), -self.shift)[start:stop]
        return start + np.flatnonzero(labels == label)


@cache
def _given(n_labels: int, n_units: int) -> np.ndarray:
    return SecretLabels(n_labels, seeded(7)).of(0, n_units)
