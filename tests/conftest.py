"""Kinds of tests, and the examples of property-based tests.

Those try the same examples in every run; see HYPOTHESIS_PROFILE=search.
"""

import os
from collections import defaultdict

import pytest
from hypothesis import settings

settings.register_profile("gate", derandomize=True)
settings.register_profile("search", derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))


@pytest.hookimpl(tryfirst=True)  # before the cases are selected by their marks
def pytest_collection_modifyitems(items):
    """Mark the cases of a matrix with its kind, except a few from its first to its last."""
    matrices = defaultdict(list)
    for item in items:
        if item.get_closest_marker("mostly"):
            matrices[item.nodeid.partition("[")[0]].append(item)
    for cases in matrices.values():
        kind, few = cases[0].get_closest_marker("mostly").args
        step = (len(cases) - 1) / max(few - 1, 1)
        kept = {round(i * step) for i in range(few)}
        for i, case in enumerate(cases):
            if i not in kept:
                case.add_marker(kind)
