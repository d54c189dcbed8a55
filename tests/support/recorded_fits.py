"""One recorded fit of each case, on which tests of the contract assert; made once in a process."""

from __future__ import annotations

import contextlib
import functools
import io
import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from fit_cases import CASES, Case, Records
from laboratory import Laboratory

from skdp.algorithms.bilevel.private_solvers import LocalizedGradientDescent, OutputPerturbation
from skdp.privacy import BudgetAccountant, budget_accountant

__all__ = ["Recorded", "every_case", "record", "recorded"]


def _every_case(names: Iterable[str], by_unit: bool) -> Iterator[Any]:
    """Cases; the first of an estimator, and of a method and unit, are for each run of tests."""
    seen: set[Any] = set()
    for name in names:
        case = CASES[name]
        kinds = {case.estimator, (id(case.row), by_unit and case.unit)}
        is_next = case.is_slow or kinds <= seen
        seen |= set() if case.is_slow else kinds
        yield pytest.param(name, marks=pytest.mark.slow) if is_next else name


def every_case(has: Callable[[Case], bool] = lambda case: True, by_unit: bool = True) -> Any:
    """For a test of recorded fits: the cases that have a property."""
    names = [name for name, case in CASES.items() if has(case)]
    return pytest.mark.parametrize("name", [*_every_case(names, by_unit)])


@dataclass
class Recorded:
    """A fit that was watched.

    Attributes
    ----------
    model : estimator
    laboratory : Laboratory
        The draws, and what they released.
    warned : list of tuple
        Categories and texts of all warnings.
    n_early : int
        How many of them came before the payment.
    printed : str
    paid : list of PrivacyEvent
    """

    model: Any
    laboratory: Laboratory
    warned: list[tuple[type, str]]
    n_early: int
    printed: str
    paid: list[Any]


def record(case: Case, records: Records, releases: Any = None) -> Recorded:
    """Fit a case in a laboratory, which may be given what all draws release."""
    accountant, printed, early = BudgetAccountant(math.inf, 0.5), io.StringIO(), []
    original = budget_accountant.charge
    with (
        Laboratory(releases=releases) as laboratory,
        warnings.catch_warnings(record=True) as caught,
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        pytest.MonkeyPatch.context() as patch,
        accountant,
        np.errstate(),
    ):
        warnings.simplefilter("always")

        def charge(*arguments: Any, **options: Any) -> None:
            original(*arguments, **options)
            early.append(len(caught))
            np.seterr(all="warn")  # what is computed from here on

        patch.setattr(budget_accountant, "charge", charge)
        _mark_solves(laboratory, patch)
        model = case.fit(records)
    warned = [(each.category, str(each.message)) for each in caught]
    paid = [entry.event for entry in accountant.entries]
    return Recorded(model, laboratory, warned, early[0], printed.getvalue(), paid)


def _mark_solves(laboratory: Laboratory, patch: pytest.MonkeyPatch) -> None:
    """Mark the draws of private solvers with what their solve was asked for."""
    for solver in (OutputPerturbation, LocalizedGradientDescent):

        def solve(this: Any, problem: Any, multiplier: Any, *args: Any, original=solver.solve):
            with laboratory.inside((this, problem.constants, multiplier)):
                return original(this, problem, multiplier, *args)

        patch.setattr(solver, "solve", solve)


@functools.cache
def recorded(name: str, is_wild: bool = False) -> Recorded:
    """The fit of a case; on records as different as can be with the releases of the first."""
    releases = recorded(name).laboratory.releases if is_wild else None
    return record(CASES[name], CASES[name].pair()[is_wild], releases)
