"""The examples in docstrings of the package that is imported, installed or not."""

import doctest
import importlib
import pkgutil

import pytest

import skdp

MODULES = ["skdp", *(m.name for m in pkgutil.walk_packages(skdp.__path__, "skdp."))]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_examples_are_found():
    examples = (
        test.examples
        for name in MODULES
        for test in doctest.DocTestFinder().find(importlib.import_module(name))
    )
    assert sum(map(len, examples)) > 90
