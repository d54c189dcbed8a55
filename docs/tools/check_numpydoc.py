"""Checks docstrings of what users name: ``python docs/tools/check_numpydoc.py``.

Estimators, transformers, budgets, reports, plans, audits and sources of records: every parameter is
described, in the order of the signature, and every return value.
"""

import sys
from pathlib import Path

from numpydoc.validate import validate

sys.path.insert(0, str(Path(__file__).parents[1] / "_ext"))
from public_names import GROUPS, public_names

KINDS = ("PR01", "PR02", "PR03", "PR04", "PR07", "PR08", "RT01", "RT03", "SS02")


def findings() -> list[str]:
    """One line for each finding of these kinds."""
    modules = {module for group in GROUPS if group != "For researchers" for module in GROUPS[group]}
    lines = []
    for name in public_names():
        if name.module in modules:
            source = f"{name.value.__module__}.{name.value.__qualname__}"
            for kind, text in validate(source)["errors"]:
                if kind in KINDS:
                    lines.append(f"{name.path}: {kind} {text}")
    return lines


if __name__ == "__main__":
    found = findings()
    print(*found, f"{len(found)} findings", sep="\n")
    sys.exit(bool(found))
