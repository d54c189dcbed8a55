"""Every estimator pays before it reads a record."""

import warnings

import pytest
from every_fit import kinds_of_fits, make, records
from fit_cases import CASES

from skdp import BudgetAccountant, BudgetExceededError
from skdp.algorithms.plan import Plan
from skdp.mechanisms import NoiseSource
from skdp.problems import Records


def subclasses(kind):
    for each in kind.__subclasses__():
        yield each
        yield from subclasses(each)


def _fail(*arguments, **options):
    raise AssertionError("a record was read, or noise drawn")


@pytest.mark.mostly("slow", 8)
@pytest.mark.parametrize("name", kinds_of_fits())
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


OF_EACH = {case.estimator: name for name, case in CASES.items() if "ranges" not in name}


@pytest.mark.parametrize("name", sorted(OF_EACH.values()))
def test_other_accountants_are_refused(name):
    with pytest.raises(TypeError, match="accountant must be None or a BudgetAccountant"):
        make(name, accountant="mine").fit(**records(name)[0])
