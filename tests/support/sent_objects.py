"""What may leave the process: frozen dataclasses of modules, with numbers and names alone."""

import dataclasses
import sys
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import numpy as np
import scipy.sparse as sp


def leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield what an object holds, by path: numbers, names and arrays; anything else fails."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        assert named(kind) is kind, path
        assert kind.__dataclass_params__.frozen, path
        for name, part in vars(value).items():
            yield from leaves(part, f"{path}.{name}")
    elif isinstance(value, tuple):
        for i, part in enumerate(value):
            yield from leaves(part, f"{path}[{i}]")
    elif isinstance(value, FunctionType):
        assert named(value) is value, path
    else:
        kinds = float, int, str, bytes, np.ndarray, np.generic, sp.csr_array
        assert value is None or isinstance(value, kinds), path
        yield path, value


def named(thing: Any) -> Any:
    """Return what a module has under the name of a class or function."""
    return getattr(sys.modules[thing.__module__], thing.__qualname__, None)
