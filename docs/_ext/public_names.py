"""The public names of the package: what modules for users list in ``__all__``, each once."""

import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

#: Modules by their readers, in the order of the index of the reference.
GROUPS = {
    "Estimators": (
        "skdp",
        "skdp.linear_model",
        "skdp.methods",
        "skdp.tabular",
        "skdp.robust",
        "skdp.model_selection",
        "skdp.synthetic",
        "skdp.preprocessing",
    ),
    "Budgets, reports, plans, audits, data": (
        "skdp.privacy",
        "skdp.inspection",
        "skdp.audit",
        "skdp.data",
        "skdp.utils",
    ),
    "Solvers": ("skdp.solvers",),
}
MODULES = tuple(module for group in GROUPS.values() for module in group)
#: For extensions: docs/develop says what is needed of them.
EXTENSIONS = frozenset({
    *("Attempt", "Certificate", "SaddlePoint", "SaddleSolver", "Solution", "CallableSaddleSolver"),
    *("certifiable_saddle_accuracy", "certify", "certify_saddle", "resolve_solver"),
    *("Solver", "solve_certified"),
    *("LSVRE", "BestResponse", "Extragradient"),
})  # fmt: skip
#: Public, but in a module that needs an optional package.
OPTIONAL = {"skdp.data": ("skdp.data.dask.DaskRecords",)}


@dataclass(frozen=True)
class PublicName:
    """A class or a function, the module that lists it, and the path of its page, with others."""

    value: Any
    module: str
    path: str
    others: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name alone."""
        return self.path.rpartition(".")[2]


def listed(module: str) -> Iterator[tuple[str, Any]]:
    """What a module lists, the special names and those for extensions excepted."""
    imported = importlib.import_module(module)
    for name in imported.__all__:
        if not name.startswith("__") and name not in EXTENSIONS:
            yield name, getattr(imported, name)


def has_page(value: Any) -> bool:
    """Classes and functions have pages, constants and modules have not."""
    return inspect.isclass(value) or inspect.isroutine(value)


@cache
def public_names() -> tuple[PublicName, ...]:
    """Each public class and function once, by its longest path."""
    found: dict[int, tuple[str, Any, list[str]]] = {}
    for module in MODULES:
        for name, value in listed(module):
            if has_page(value):
                found.setdefault(id(value), (name, value, []))[2].append(module)
    names = []
    for name, value, modules in found.values():
        home = max(modules, key=lambda module: module.count("."))
        others = tuple(f"{module}.{name}" for module in modules if module != home)
        names.append(PublicName(value, home, f"{home}.{name}", others))
    for module, paths in OPTIONAL.items():
        for path in paths:
            source, _, name = path.rpartition(".")
            value = getattr(importlib.import_module(source), name)
            names.append(PublicName(value, module, path))
    return tuple(names)
