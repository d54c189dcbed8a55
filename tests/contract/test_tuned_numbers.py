"""No guarantee depends on a tuned number: all numbers of a family's `rules` are doubled and halved.

A fit still costs its budget at most, by its event and draw by draw; its payment is the same for any
records of its public shape; and no record moves a value further than the mechanism's sensitivity.
"""

import ast
import importlib
import inspect
import math
import pkgutil
import re
import warnings
from types import ModuleType

import pytest
from fit_cases import CASES
from laboratory import Laboratory
from stated_draws import cost_of_moves, whole_cost

import skdp.algorithms
from skdp import BudgetAccountant
from skdp.algorithms.tuning import bilevel
from skdp.privacy import tightest_epsilon

#: Small fits that read the numbers of a family.
FITS = {
    "exponential": ("logistic, exponential", "logistic, localised exponential"),
    "mirror": ("vertices, logistic", "vertices, logistic, delta 0"),
    "objective": ("logistic, objective, delta 0", "huber, objective, delta 0.01"),
    "output": (
        "logistic, output, delta 0", "ridge, three phases", "ridge, solved, replace-one",
    ),
    "queries": ("table of queries", "triples"),
    "tuning": (
        "tuned ridge, published, delta 0.01",
    ),
    "worst_group": ("groups of classes", "groups of numbers"),
}  # fmt: skip
#: Fits that read some numbers which no other of the family does.
SPECIAL = {
    "exponential": {"pure hinge": "BOUND_FACTOR FAST_LIMIT"},
    "output": {
        "max-group classifier, proportions, delta 0": "SADDLE_SCHEDULES SADDLE_PATIENCE "
        "SADDLE_STEP SADDLE_ACCURACY SADDLE_EVALUATIONS WEAKEST"
    },
    "queries": {"pure tables": "FEWEST_ROUNDS MOST_ROUNDS SHARPEST_STEP MOST_DRAWS"},
    "worst_group": {
        "several looks": "TOO_FAR NOT_FAR",
        "several stages": "EARLY_SOLVES",
        "groups of hinges": "LARGEST_HINGE",
        "max-group classifier, proportions, look": "LOOK_SHARE BOUNDS",
        "phases of hinges": "LEAST_MARGIN_SPREAD",
        "vertices, max-group classifier, delta 0": "FEWEST_ROUNDS MOST_ROUNDS HALVINGS",
        "rgda, regressor": "MOMENTUM INPUT_SCALE LARGEST_LOSS LOSSES_SHARE BALANCE_OF_NUMBERS "
        "RADIUS",
        "rgda, network": "SIGNAL",
        "max-group classifier, gradient, proportions": "LARGE LEAST_GAP MIX_PRIOR LARGEST_MIX",
    },
}
#: Fits here that are others with some parameters changed.
CHANGES = {
    "triples": ("table of queries", {"queries": "3-way"}),
    "pure tables": ("table of queries", {"delta": 0.0, "epsilon": 1e4}),
    "pure hinge": ("hinge, output, delta 0", {"method": "auto", "epsilon": 0.01}),
    "groups of classes": ("max-group classifier, gradient, histogram", {"epsilon": 1e4}),
    "groups of numbers": ("max-group regressor, gradient, histogram", {"epsilon": 1e4}),
    "groups of hinges": (
        "max-group classifier, gradient, histogram", {"epsilon": 1e4, "loss": "hinge"}),
    "several looks": ("max-group regressor, gradient, histogram", {"epsilon": 1e6}),
    "several stages": ("max-group regressor, output, histogram", {"epsilon": 1e6}),
    "phases of hinges": ("max-group classifier, proportions, delta 0.01", {"loss": "hinge"}),
}  # fmt: skip
#: Numbers between 0 and 1, of which the odds are doubled and halved.
PARTS = re.compile("SHARE|RATE|DECAY|CLIP|MOMENTUM")


def families():
    """Families with a table of tuned numbers, and the table."""
    for found in pkgutil.walk_packages(skdp.algorithms.__path__, "skdp.algorithms."):
        if found.name.endswith(".rules"):
            yield found.name.split(".")[-2], importlib.import_module(found.name)


def numbers(rules):
    """Names of the numbers that a table defines."""
    for node in ast.parse(inspect.getsource(rules)).body:
        if isinstance(node, ast.Assign):
            targets = ast.walk(node.targets[0])
            yield from (each.id for each in targets if isinstance(each, ast.Name))


def changed(name, value, factor):
    if isinstance(value, tuple):
        return tuple(changed(name, each, factor) for each in value)
    if isinstance(value, dict):
        return {key: changed(name, each, factor) for key, each in value.items()}
    if isinstance(value, int):
        return max(1, round(value * factor))
    if PARTS.search(name) and value < 1.0:
        return value * factor / (1.0 + value * (factor - 1.0))
    return value * factor


def case_of(name):
    """The case of a fit, and the estimator."""
    name, parameters = CHANGES.get(name, (name, {}))
    return CASES[name], CASES[name].make(**parameters)


def records(name):
    """Arguments of two fits on very different records of one public shape."""
    case, _ = case_of(name)
    return [_given(case.records(0)), _given(case.records(1, "wild"))]


def is_sum(family, name):
    """Whether what a fit costs is the sum over its draws."""
    if family == "worst_group":
        return getattr(case_of(name)[1], "method", None) == "gradient"
    return family == "tuning" and name in FITS[family]


ALL = [(family, fit) for family in FITS for fit in (*FITS[family], *SPECIAL.get(family, ()))]


def test_every_family_has_fits_here():
    assert {family for family, _ in families()} == set(FITS)
    assert all(case_of(fit)[0].name in CASES for _, fit in ALL)


@pytest.fixture(autouse=True)
def _remembered(remembered_calibrations):
    """Calibrations of sampled releases are made once, but plans are not remembered."""
    bilevel._noise_of_steps.cache_clear()


@pytest.fixture(scope="module", autouse=True)
def remembered_schedules():
    """Schedules of phases are searched each time, unlike in other modules."""


def fit(name, arguments, releases=None):
    """The fitted model, what it paid, and the laboratory that watched."""
    accountant = BudgetAccountant(math.inf, 0.1)
    estimator = case_of(name)[1]
    with warnings.catch_warnings(), Laboratory(releases=releases) as laboratory, accountant:
        warnings.simplefilter("ignore")
        estimator.fit(**arguments)
    return estimator, [entry.event for entry in accountant.entries], laboratory


def check_draws(name, report, laboratory):
    """Replace one record, and compare what it moves with what the draws are charged for."""
    case, _ = case_of(name)
    neighbour = case.records(0).replaced(3, case.records(1, "wild"))
    other = fit(name, _given(neighbour), laboratory.releases)[2]
    cost = cost_of_moves(report, laboratory.draws, other.draws)
    assert 0.0 < cost <= whole_cost(report) * (1 + 1e-9)


def _given(data):
    return {key: value for key, value in data._asdict().items() if value is not None}


@pytest.mark.mostly("slow", 8)
@pytest.mark.parametrize("factor", [2.0, 0.5])
@pytest.mark.parametrize(("family", "name"), ALL)
def test_the_guarantee_is_the_same(family, name, factor, monkeypatch):
    rules = dict(families())[family]
    for number in numbers(rules):
        monkeypatch.setattr(rules, number, changed(number, getattr(rules, number), factor))
    one, other = records(name)
    model, paid, laboratory = fit(name, one)
    assert paid == fit(name, other)[1] and len(paid) == 1
    report = model.privacy_
    claim = report.epsilon * (1 + 1e-6)
    for event in (*paid, report.event):
        assert tightest_epsilon(event, report.delta, enough=claim) <= claim
    if is_sum(family, name):
        check_draws(name, report, laboratory)


READ = set()


class Watched(ModuleType):
    """A table that remembers which of its numbers were read."""

    def __getattribute__(self, name):
        READ.add(name)
        return super().__getattribute__(name)


@pytest.mark.mostly("slow", 1)
@pytest.mark.parametrize("family", sorted(FITS))
def test_every_number_is_read_by_a_fit_here(family, monkeypatch):
    """Else the check above would prove nothing. Functions of a table read its private numbers."""
    rules = dict(families())[family]
    monkeypatch.setattr(rules, "__class__", Watched)
    READ.clear()
    unread = {name for name in numbers(rules) if not name.startswith("_")}
    for name in (fit for each, fit in ALL if each == family):
        for given in records(name):
            unread -= READ
            if unread:
                fit(name, given)
    assert unread <= READ
