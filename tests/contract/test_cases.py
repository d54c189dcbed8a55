"""The table of cases has every private estimator, and all that the tables of methods promise."""

import inspect
import itertools

import pytest
from every_fit import private_estimators, subclasses
from fit_case import METHOD_TABLES, supported
from fit_cases import CASES

import skdp.methods
from skdp.methods import Method
from skdp.methods.choice import GROUP_METHODS, METHODS, SYNTHETIC_METHODS, TUNING_METHODS
from skdp.privacy import AccountedMixin
from skdp.privacy.events import RECORD_RELATIONS

TABLES = {
    "linear": METHODS,
    "groups": GROUP_METHODS,
    "synthetic": SYNTHETIC_METHODS,
    "tuning": TUNING_METHODS,
}
ROWS = {f"{table}, {name}": row for table, rows in TABLES.items() for name, row in rows.items()}


def test_every_estimator_has_cases_and_an_accountant():
    kinds = private_estimators()
    assert len(kinds) >= 11 and kinds <= {case.estimator for case in CASES.values()}
    for kind in kinds:
        assert issubclass(kind, AccountedMixin), kind
        assert inspect.signature(kind).parameters["accountant"].default is None, kind
        if "method" in inspect.signature(kind).parameters:
            assert {name for table in TABLES.values() for name in table} >= set(METHOD_TABLES[kind])


def test_every_method_of_the_package_is_in_a_table():
    """So that it has cases, and is public; but for bases, which plan nothing."""
    methods = {kind for kind in subclasses(Method) if kind.__module__.startswith("skdp.")}
    planning = {kind for kind in methods if not hasattr(kind.plan, "__isabstractmethod__")}
    assert planning == {type(row) for row in ROWS.values()}
    assert {kind.__name__ for kind in planning} | {"Method"} == set(skdp.methods.__all__)


@pytest.mark.parametrize("name", ROWS)
def test_every_row_has_a_case_for_all_that_it_covers(name):
    """Each relation with each unit, and each unit in each place."""
    row = ROWS[name]
    cases = [case for case in CASES.values() if case.row is row]
    relations = {(case.unit, case.relation.is_replaced) for case in cases}
    places = {(case.unit, case.place) for case in cases}
    for unit, relation in itertools.product(("record", "person", "weight"), RECORD_RELATIONS):
        if supported(row, unit, relation):
            assert (unit, relation.is_replaced) in relations
            if row.chunked:
                assert (unit, "chunks") in places
    assert ("record", "dense") in places
    assert ("record", "sparse") in places or row in SYNTHETIC_METHODS.values()
