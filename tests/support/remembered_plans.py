"""Fixtures that make what takes seconds to plan once."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import pytest

from skdp.algorithms.bilevel import penalty_method as bilevel
from skdp.mechanisms import sampled_gaussian


@pytest.fixture(scope="session")
def remembered_calibrations() -> Any:
    """Noise of sampled releases is calibrated once: a calibration takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        remember_calibrations(patch)
        yield


def remember_calibrations(patch: pytest.MonkeyPatch) -> None:
    """Remember what calibrations of sampled releases found, by the event that they are for."""
    scales: dict[Any, float] = {}
    smallest = sampled_gaussian.smallest_scale

    def smallest_scale(event: Any, budget: Any, *args: Any) -> float:
        key = event(1.0), event(0.5), budget, args
        if key not in scales:
            scales[key] = smallest(event, budget, *args)
        return scales[key]

    patch.setattr(bilevel, "smallest_scale", smallest_scale)
    patch.setattr(bilevel, "tightest_epsilon", functools.cache(bilevel.tightest_epsilon))


def remember_schedules(patch: pytest.MonkeyPatch) -> None:
    """Remember schedules of phases by all that they follow from: public numbers alone."""
    module = importlib.import_module("skdp.algorithms.output.phased_saddle")
    search = module._ScheduleSearch
    patch.setattr(search, "best", functools.cache(search.best))


@pytest.fixture(scope="module", autouse=True)
def remembered_schedules() -> Any:
    """Schedules of phases are searched once in a module, for a folder whose conftest imports it."""
    with pytest.MonkeyPatch.context() as patch:
        remember_schedules(patch)
        yield
