"""The examples in docstrings of the package that is imported, installed or not."""

import doctest
import importlib
from pathlib import Path

import pytest

import skdp

FOLDER = Path(skdp.__file__).parent
#: Modules with examples, by their files.
MODULES = sorted(
    ".".join(("skdp", *path.relative_to(FOLDER).with_suffix("").parts)).removesuffix(".__init__")
    for path in FOLDER.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)
#: An audit of many fits.
AUDITED = "skdp.audit.distinguishing"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.audit] * (name == AUDITED)) for name in MODULES]
)
def test_docstrings(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_examples_are_found():
    examples = (
        test.examples
        for name in MODULES
        for test in doctest.DocTestFinder().find(importlib.import_module(name))
    )
    assert sum(map(len, examples)) > 90
