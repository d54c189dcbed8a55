"""No guarantee depends on a tuned number: each number of a family's `rules` is doubled and halved.

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

import numpy as np
import pytest
from every_fit import make, records
from fit_cases import CASES
from laboratory import Laboratory

import skdp.algorithms
from skdp import BudgetAccountant
from skdp.privacy import tightest_epsilon
from skdp.privacy.gaussian_dp import gaussian_mu, pure_mu

#: Small fits that read the numbers of a family.
FITS = {
    "descent": ("ridge, gradient, replace-one", "logistic, gradient, replace-one"),
    "objective": ("logistic, objective, delta 0", "huber, objective, delta 0.01"),
    "queries": ("table of queries", "triples"),
    "tuning": (
        "ridge, statistics, replace-one, delta 0",
        "logistic, statistics, little noise, delta 0.01",
        "tuned ridge, sufficient_statistics, delta 0.01",
        "tuned ridge, bilevel, delta 0.01",
        "tuned ridge, hypergradient, groups, delta 0.01",
        "tuned ridge, exponential, delta 0.01",
    ),
}
#: Fits that read some numbers which no other does; Poisson samples cost no sum over the draws.
SPECIAL = {
    **dict.fromkeys(
        ("BATCH_STEPS", "SAMPLING_RATE"), ("tuned ridge, bilevel_minibatch, delta 0.01",)
    ),
    **dict.fromkeys(
        ("FEWEST_ROUNDS", "MOST_ROUNDS", "SHARPEST_STEP", "MOST_DRAWS"), ("pure tables",)
    ),
    "ENOUGH_RECORDS": ("pure ridge",),
    "SEARCH_SPREAD": ("tuned ridge, hypergradient, delta 0.01",),
}
#: Fits here that are others with some parameters changed.
SAME = {
    "pure tables": "table of queries",
    "triples": "table of queries",
    "pure ridge": "ridge, statistics, replace-one, delta 0",
}
CHANGES = {
    "triples": {"queries": "3-way"},
    "pure tables": {"delta": 0.0, "epsilon": 1e4},
    "pure ridge": {"method": "auto"},
}
#: Numbers between 0 and 1, of which the odds are doubled and halved.
PARTS = re.compile("SHARE|RATE|DECAY|CLIP|TRUST")


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
    if isinstance(value, int):
        return max(1, round(value * factor))
    return value * factor / (1.0 + value * (factor - 1.0)) if PARTS.search(name) else value * factor


def fits_of(family, number):
    return SPECIAL.get(number, FITS[family])


TUNED = [(family, name) for family, rules in families() for name in numbers(rules)]


def test_every_family_has_fits_here():
    assert {family for family, _ in TUNED} == set(FITS)
    assert all(SAME.get(fit, fit) in CASES for fits in FITS.values() for fit in fits)


def fit(name, arguments, releases=None):
    """The fitted model, what it paid, and the laboratory that watched."""
    accountant = BudgetAccountant(math.inf, 0.1)
    estimator = make(SAME.get(name, name)).set_params(**CHANGES.get(name, {}))
    with warnings.catch_warnings(), Laboratory(releases=releases) as laboratory, accountant:
        warnings.simplefilter("ignore")
        estimator.fit(**arguments)
    return estimator, [entry.event for entry in accountant.entries], laboratory


def cost(draw, is_pure):
    epsilon = draw.rate if draw.kind == "choice" else draw.mechanism.sensitivity / draw.scale
    if is_pure:
        return epsilon
    return (pure_mu(0.5 * epsilon) if draw.kind == "choice" else epsilon) ** 2


def check_draws(name, report, laboratory):
    """Replace one record, and compare what it moves with what the draws are charged for."""
    case = CASES[SAME.get(name, name)]
    plain, wild = case.records(0), case.records(1, "wild")
    other = fit(name, _given(plain.replaced(3, wild, 3)), laboratory.releases)[2]
    is_pure, total = report.delta == 0, 0.0
    for mine, its in zip(laboratory.draws, other.draws, strict=True):
        moved = np.abs(mine.value - its.value)
        least = 1.0 if mine.kind == "choice" else mine.mechanism.sensitivity
        length = moved.max() if mine.kind == "choice" else np.linalg.norm(moved)
        assert length <= least * (1 + 1e-9)
        total += cost(mine, is_pure) if length else 0.0
    budget = report.epsilon if is_pure else gaussian_mu(report.epsilon, report.delta) ** 2
    assert 0.0 < total <= budget * (1 + 1e-9)


def _given(data):
    return {key: value for key, value in data._asdict().items() if value is not None}


@pytest.mark.mostly("slow", 12)
@pytest.mark.parametrize("factor", [2.0, 0.5])
@pytest.mark.parametrize(("family", "number"), TUNED)
def test_the_guarantee_is_the_same(family, number, factor, monkeypatch):
    rules = dict(families())[family]
    monkeypatch.setattr(rules, number, changed(number, getattr(rules, number), factor))
    for name in fits_of(family, number):
        one, other = records(SAME.get(name, name))
        model, paid, laboratory = fit(name, one)
        assert paid == fit(name, other)[1] and len(paid) == 1
        report = model.privacy_
        claim = report.epsilon * (1 + 1e-6)
        for event in (*paid, report.event):
            assert tightest_epsilon(event, report.delta, enough=claim) <= claim
        if (
            family in ("descent", "tuning") and number not in SPECIAL
        ):  # of the others, the cost is no sum over the draws
            check_draws(name, report, laboratory)


READ = set()


class Watched(ModuleType):
    """A table that remembers which of its numbers were read."""

    def __getattribute__(self, name):
        READ.add(name)
        return super().__getattribute__(name)


@pytest.mark.parametrize("family", [family for family in FITS if family != "descent"])
def test_every_number_is_read_by_a_fit_here(family, monkeypatch):
    """Else the check above would prove nothing. The table "descent" has functions that read it."""
    rules = dict(families())[family]
    monkeypatch.setattr(rules, "__class__", Watched)
    READ.clear()
    for name in {fit for each in numbers(rules) for fit in fits_of(family, each)}:
        fit(name, records(SAME.get(name, name))[0])
    assert set(numbers(rules)) <= READ
