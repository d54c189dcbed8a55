"""Orders of records that a test knows: what happens at each place, whatever record is there."""

import importlib
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

#: Modules that draw a random order.
_USERS = "output.blocks", "queries.mirror_descent", "mirror.rounds", "tuning.bilevel"


def modules_with_orders() -> list[ModuleType]:
    """Return the modules that draw a random order."""
    return [importlib.import_module(f"skdp.algorithms.{name}") for name in _USERS]


@pytest.fixture
def kept_order(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep the order of the table."""
    for module in modules_with_orders():
        monkeypatch.setattr(module, "random_order", lambda n, noise: np.arange(n))
    yield
