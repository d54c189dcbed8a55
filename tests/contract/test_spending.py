"""Every estimator pays before it reads a record."""

import warnings

import pytest
from every_fit import kinds_of_fits, make, records, subclasses
from recorded_fits import first_cases

from skdp import BudgetAccountant, BudgetExceededError
from skdp.algorithms.plan import Plan
from skdp.mechanisms import NoiseSource
from skdp.problems import Records


def _fail(*arguments, **options):
    raise AssertionError("a record was read, or noise drawn")


@pytest.mark.mostly("slow", 8)
@pytest.mark.parametrize("name", first_cases(lambda case: case.name in kinds_of_fits()))
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
