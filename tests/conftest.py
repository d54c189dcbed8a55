"""Kinds of tests, examples of hypothesis (HYPOTHESIS_PROFILE=search), and plans made once."""

import copy
import functools
import os
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import settings
from kept_order import kept_order
from local_cluster import client, own_client

from skdp.methods.choice import GROUP_METHODS, METHODS

__all__ = ["client", "kept_order", "own_client"]  # fixtures of all tests

# for the processes in which the tests run: they use the cores by running side by side
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

# without deadlines: the machine may be busy
settings.register_profile("gate", derandomize=True, deadline=None, max_examples=40)
settings.register_profile("search", derandomize=False, deadline=None)
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


@pytest.fixture(autouse=True)
def _plans_of_audits(request, monkeypatch):
    """Make plans once for equal public numbers: audits fit the same model many times."""
    if request.node.get_closest_marker("audit"):
        for table in (METHODS, GROUP_METHODS):
            for name, row in table.items():
                cached: Any = copy.copy(row)
                cached.plan, cached.candidate = functools.cache(row.plan), _cached(row.candidate)
                monkeypatch.setitem(table, name, cached)


def _cached(candidate):
    """Remember bounds of methods, and the plans that they lead to."""

    @functools.cache
    def cached(*public):
        found = candidate(*public)
        return found and (found[0], functools.cache(found[1]))

    return cached
