"""Checks docstrings of what users name: ``python docs/tools/check_numpydoc.py``.

Estimators, transformers, budgets, reports, plans, audits and sources of records: every parameter is
described, in the order of the signature, and every return value.
"""

import dataclasses
import enum
import inspect
import re
import sys
from dataclasses import is_dataclass
from pathlib import Path

from numpydoc.validate import validate

sys.path.insert(0, str(Path(__file__).parents[1] / "_ext"))
from public_names import GROUPS, public_names

KINDS = ("PR01", "PR02", "PR03", "PR04", "PR07", "PR08", "RT01", "RT03", "SS02")


def has_attributes(value: object) -> bool:
    """Results describe their fields as attributes, and enumerations have no parameters."""
    if isinstance(value, enum.EnumMeta):
        return True
    fields = {field.name for field in dataclasses.fields(value)} if is_dataclass(value) else ()
    fields = set(getattr(value, "_fields", fields))
    described = (inspect.getdoc(value) or "").partition("Attributes\n")[2]
    heads = re.findall(r"^(\w+(?:, \w+)*)(?: :|$)", described, re.M)
    return bool(fields) and fields <= set(", ".join(heads).split(", "))


def findings() -> list[str]:
    """One line for each finding of these kinds."""
    modules = {module for group in GROUPS if group != "Solvers" for module in GROUPS[group]}
    lines = []
    for name in public_names():
        if name.module not in modules:
            continue
        for kind, text in validate(f"{name.value.__module__}.{name.value.__qualname__}")["errors"]:
            if kind in KINDS and not (kind == "PR01" and has_attributes(name.value)):
                lines.append(f"{name.path}: {kind} {text}")
    return lines


if __name__ == "__main__":
    found = findings()
    print(*found, f"{len(found)} findings", sep="\n")
    sys.exit(bool(found))
