"""One recorded fit of each case, on which tests of the contract assert; made once in a process."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from fit_case import Case, Records
from fit_cases import CASES
from laboratory import Laboratory

from skdp._estimator import PrivateEstimator
from skdp.algorithms.bilevel.private_solvers import LocalizedGradientDescent, OutputPerturbation
from skdp.privacy import BudgetAccountant, budget_accountant

__all__ = ["Recorded", "every_case", "first_cases", "noted_payments", "record", "recorded"]

#: What fits told of their steps, since the last one began.
_TOLD: list[tuple[Any, ...]] = []


def _note(*step: Any) -> None:
    """Note a step: a function with a name, as a model is pickled with it."""
    _TOLD.append(step)


def _every_case() -> Iterator[Any]:
    """Cases; for each run of tests the first of each method with each unit and kind of target."""
    seen: set[Any] = set()
    for name, case in CASES.items():
        row = id(case.row)
        kinds = {case.estimator, (row, case.unit), (row, case.n_classes > 0)}
        is_next = case.is_slow or kinds <= seen
        seen |= set() if case.is_slow else kinds
        yield pytest.param(name, marks=pytest.mark.slow) if is_next else name


def every_case() -> Any:
    """For a test of recorded fits of all cases."""
    return pytest.mark.parametrize("name", [*_every_case()])


def first_cases(has: Callable[[Case], bool] = lambda case: True) -> list[str]:
    """The first quick case of each estimator and method that has a property."""
    names: dict[Any, str] = {}
    for name, case in CASES.items():
        if has(case) and not case.is_slow:
            names.setdefault((case.estimator, id(case.row)), name)
    return list(names.values())


@dataclass
class Recorded:
    """A fit that was watched."""

    model: Any
    laboratory: Laboratory
    warned: list[tuple[type, str]]  # categories and texts
    n_early: int  # warnings before the payment
    printed: str
    paid: list[Any]
    steps: list[Any]  # planned ones that were told of
    plans: list[Any]  # what was paid for and run


@contextlib.contextmanager
def noted_payments() -> Iterator[tuple[list[Any], list[int]]]:
    """Note warnings, of floating point from a payment on, and how many came before each payment."""
    original, early = budget_accountant.charge, []
    with (
        pytest.MonkeyPatch.context() as patch,
        warnings.catch_warnings(record=True) as caught,
        np.errstate(),
    ):
        warnings.simplefilter("always")

        def charge(*arguments: Any, **options: Any) -> None:
            original(*arguments, **options)
            early.append(len(caught))
            np.seterr(all="warn")  # what is computed from here on

        patch.setattr(budget_accountant, "charge", charge)
        yield caught, early


def record(case: Case, records: Records, releases: Any = None, is_told: bool = True) -> Recorded:
    """Fit a case in a laboratory, which may be given what all draws release."""
    is_told = is_told and "verbose" in inspect.signature(case.estimator).parameters
    _TOLD.clear()
    accountant, printed = BudgetAccountant(math.inf, 0.5), io.StringIO()
    run, plans = PrivateEstimator._pay_and_run, []
    with (
        Laboratory(releases=releases) as laboratory,
        noted_payments() as (caught, early),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        pytest.MonkeyPatch.context() as patch,
        accountant,
    ):

        def pay_and_run(estimator: Any, plan: Any, data: Any) -> Any:
            plans.append(plan)
            return run(estimator, plan, data)

        patch.setattr(PrivateEstimator, "_pay_and_run", pay_and_run)
        _mark_solves(laboratory, patch)
        model = case.fit(records, **({"verbose": _note} if is_told else {}))
    warned = [(each.category, str(each.message)) for each in caught]
    paid = [entry.event for entry in accountant.entries]
    steps = [step for step in _TOLD if isinstance(step[1], int)]  # others are of solves
    return Recorded(model, laboratory, warned, early[0], printed.getvalue(), paid, steps, plans)


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
