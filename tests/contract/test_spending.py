"""Every estimator pays before it reads a record, what it pays is public, and it covers the fit.

A new estimator is found here by its parameter `epsilon`. It has to have a case in
:mod:`fit_cases`.
"""

import importlib
import inspect
import pkgutil
import warnings

import pytest
from every_fit import kinds_of_fits, make, records
from fit_cases import CASES
from sklearn.base import BaseEstimator, MetaEstimatorMixin

import skdp
from skdp import BudgetAccountant, BudgetExceededError
from skdp.algorithms.plan import Plan
from skdp.mechanisms import NoiseSource
from skdp.privacy import AccountedMixin, tightest_epsilon
from skdp.privacy.events import flatten_event
from skdp.problems import Records


def private_estimators():
    """All public classes with a `fit` and a parameter `epsilon`, but for what fits other ones."""
    found = set()
    for module in pkgutil.walk_packages(skdp.__path__, "skdp."):
        for kind in vars(importlib.import_module(module.name)).values():
            is_estimator = inspect.isclass(kind) and issubclass(kind, BaseEstimator)
            is_estimator = is_estimator and not issubclass(kind, MetaEstimatorMixin)
            if is_estimator and "epsilon" in inspect.signature(kind).parameters:
                found.add(kind)
    return sorted(found, key=lambda kind: kind.__name__)


def test_every_estimator_has_a_case_here():
    kinds = private_estimators()
    assert len(kinds) >= 11
    tested = {case.estimator.__name__ for case in CASES.values()}
    assert {kind.__name__ for kind in kinds} <= tested
    for kind in kinds:
        assert issubclass(kind, AccountedMixin), kind
        assert inspect.signature(kind).parameters["accountant"].default is None, kind


def paid(estimator, arguments):
    """The events that a fit paid for."""
    accountant = BudgetAccountant(float("inf"), 0.1)
    with warnings.catch_warnings(), accountant:
        warnings.simplefilter("ignore")
        estimator.fit(**arguments)
    return [entry.event for entry in accountant.entries]


every_fit = pytest.mark.parametrize("name", kinds_of_fits())


@pytest.mark.mostly("slow", 8)
@every_fit
def test_the_payment_is_public_and_covers_the_releases(name):
    """One payment, the same for any records, of no less than the releases in the report cost."""
    estimator = make(name)
    second, first = (paid(estimator, arguments) for arguments in records(name)[::-1])
    assert first == second and len(first) == 1
    report = estimator.privacy_
    if flatten_event(first[0]) != flatten_event(report.event):
        delta = max(report.delta, 1e-6)
        spent, released = (tightest_epsilon(event, delta) for event in (first[0], report.event))
        assert released <= spent * (1 + 1e-9), (first[0], report.event)
    claim = report.epsilon * (1 + 1e-6)
    assert tightest_epsilon(first[0], report.delta, enough=claim) <= claim


def subclasses(kind):
    for each in kind.__subclasses__():
        yield each
        yield from subclasses(each)


def _fail(*arguments, **options):
    raise AssertionError("a record was read, or noise drawn")


@pytest.mark.mostly("slow", 8)
@every_fit
def test_a_refused_fit_reads_nothing_and_changes_nothing(name, monkeypatch):
    """No plan runs: rows were checked and bounded one by one, and nothing was made of them."""
    for method in ("total", "margins", "gram"):
        monkeypatch.setattr(Records, method, _fail)
    for plan in subclasses(Plan):
        if "run" in vars(plan):
            monkeypatch.setattr(plan, "run", _fail)
    for method in ("words", "_draws", "bernoulli"):
        monkeypatch.setattr(NoiseSource, method, _fail)
    accountant = BudgetAccountant(1e-15)
    estimator = make(name, accountant=accountant)
    before = dict(vars(estimator))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(BudgetExceededError, match=type(estimator).__name__):
            estimator.fit(**records(name)[0])
    assert accountant.entries == ()
    assert vars(estimator) == before


@pytest.mark.parametrize("kind", private_estimators(), ids=lambda kind: kind.__name__)
def test_other_accountants_are_refused(kind):
    name = next(name for name, case in CASES.items() if case.estimator is kind)
    with pytest.raises(TypeError, match="accountant must be None or a BudgetAccountant"):
        make(name, accountant="mine").fit(**records(name)[0])
