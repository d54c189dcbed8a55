"""Every whole fit against its report: noise, costs, payment, state, warnings, order and place.

Fits run in a :class:`laboratory.Laboratory`: two of very different records with the same releases,
and some of neighbours. No test here depends on chance.
"""

import itertools
import os
import pickle
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from every_fit import kinds_of_fits
from fit_case import Case, Ranges
from fit_cases import CASES
from kept_order import modules_with_orders
from laboratory import Laboratory, state
from recorded_fits import every_case, first_cases, record, recorded
from stated_draws import check_draws, cost_of_moves, parts_of, ranges_of, whole_cost
from toy_method import Toy

from skdp._model import PrivateModel
from skdp.inspection import plan_fit
from skdp.linear_model import DPLogisticRegression
from skdp.mechanisms import NoiseSource, random_order
from skdp.privacy import PrivacyBudget, tightest_epsilon
from skdp.privacy.events import flatten_event as leaves
from skdp.synthetic import DPSyntheticData
from skdp.tabular.table_model import TabularModel

SEED = 0


@every_case()
def test_a_fit_keeps_its_contract(name, monkeypatch):
    case, fit, other = CASES[name], recorded(name), recorded(name, is_wild=True)
    check_payment(fit, other)
    check_state(fit, other)
    check_progress(fit)
    check_name(fit.model)
    check_plan(case, fit)
    method, is_table = fit.model.privacy_.method, case.estimator is DPSyntheticData
    if not is_table:  # a release of all columns; tests/algorithms/queries compares its draws
        sizes = fit.model.privacy_.plan.get("block_sizes", [0])
        assert not case.n_phases or len(sizes) == case.n_phases
        check_draws(fit.model, fit.laboratory)
    # the cost of objective perturbation is no sum over draws: tests/algorithms/objective
    if not (is_table or case.draws_vertices or method == "objective"):
        check_costs(case, fit.model, fit.laboratory)
    if case.place != "sparse" and may_be_chunked(case):
        check_place(case, fit)
    # which records are of one person goes by place here, and Poisson samples have no order
    if not ("minibatch" in name or "rgda" in name or case.unit == "person"):
        check_order(case, fit.laboratory, monkeypatch)


# --------------------------------------------------------------------------------- what is public


def check_payment(fit, other):
    """One payment, the same for any records, of no less than the releases in the report cost."""
    assert fit.paid == other.paid and len(fit.paid) == 1
    report = fit.model.privacy_
    if leaves(fit.paid[0]) != leaves(report.event):
        delta = max(report.delta, 1e-6)
        spent, released = (tightest_epsilon(event, delta) for event in (*fit.paid, report.event))
        assert released <= spent * (1 + 1e-9)
    claim = report.epsilon * (1 + 1e-6)
    assert tightest_epsilon(fit.paid[0], report.delta, enough=claim) <= claim


def check_name(model):
    """The method by the name or class that was asked for, and whether phases came to one."""
    report, asked = model.privacy_, getattr(model, "method", "auto")
    called = asked if isinstance(asked, str) else type(asked).__name__
    assert called == "auto" or report.method == called
    has_phases = called in ("phased", "PhasedOutputPerturbation", "PhasedSaddle")
    is_one = len(report.plan.get("block_sizes", [0])) == 1 and "n_steps" not in report.plan
    said = any("came to one phase" in text for text in report.remarks)
    assert said == (has_phases and is_one)


def check_plan(case, fit):
    """All numbers of the plan that is made from sizes alone are those that the fit paid for."""
    if not isinstance(fit.model, PrivateModel | TabularModel) or case.unit == "weight":
        return
    n_users = case.n_units if case.unit == "person" else None
    planned = plan_fit(case.make(), case.n, case.d, n_groups=case.n_groups or None, n_users=n_users)
    if len(fit.plans) > 1:  # what comes after histograms of a table follows from them
        assert planned.releases[0].release == fit.model.privacy_.releases[0]
        return
    (plan,) = fit.plans
    assert planned.event == plan.event
    assert [each.release for each in planned.releases] == list(plan.releases)
    assert planned.plan == plan.to_dict()


def check_state(*fits):
    """Every attribute of both fits, its parts and its pickle are the same, bit by bit.

    So are warnings, which come before the payment or are in the report, and the planned steps.
    """
    for fit in fits:
        remarks = [f"{text[0].upper()}{text[1:]}." for text in fit.model.privacy_.remarks]
        assert {text for _, text in fit.warned[fit.n_early :]} <= set(remarks)
        assert fit.printed == ""
    assert fits[0].warned == fits[1].warned
    assert fits[0].steps == fits[1].steps
    first, second = (
        [*state(fit.model), *state(pickle.loads(pickle.dumps(fit.model)), "pickle: ")]
        for fit in fits
    )
    assert [path for path, _ in first] == [path for path, _ in second]
    differences = [mine[0] for mine, its in zip(first, second, strict=True) if mine != its]
    assert not differences


def check_progress(fit):
    """Planned steps are counted to their end."""
    planned = set()
    for what, steps in itertools.groupby(fit.steps, key=lambda step: step[::2]):
        counts = [step[1:] for step in steps]
        size = counts[0][1]
        assert counts == [(k + 1, size) for k in range(size)] * (len(counts) // size), what
        planned.add(size)
    if planned and fit.model.privacy_.method == "gradient":
        assert fit.model.privacy_.plan["n_steps"] in planned


def test_state_finds_what_is_hidden():
    """The walk sees private names, nested objects and single bits."""

    class Part:
        __slots__ = ("inner",)

    def thing(number):
        part = Part()
        part.inner = {"a": [np.array([number])]}
        return [part]

    assert list(state(thing(0.0))) == list(state(thing(0.0)))
    assert list(state(thing(0.0))) != list(state(thing(-0.0)))
    assert list(state(thing(1.0))) != list(state(thing(np.nextafter(1.0, 2.0))))
    nan = float("nan")
    assert list(state(thing(nan))) == list(state(thing(nan)))


# ----------------------------------------------------------------------------- record by record


def neighbours(case, records):
    """Data sets with one record replaced (or removed): other features, label and group."""
    wild = case.records(SEED + 1, "wild")
    is_public = case.parameters.get("group_proportions") == "public"
    count = 4 if "published" in case.name or case.draws_vertices else 2  # few move all draws
    for i in np.random.default_rng(SEED).permutation(case.n_units)[:count]:
        if not case.relation.is_replaced:
            yield records.without(i)
            continue
        other = records.replaced(i, wild)
        own, first = other.at(i), records.at(i).argmax()
        if case.n_classes:
            other.y[own] = (records.y[first] + 1) % case.n_classes
        if case.n_groups:
            other.groups[own] = (records.groups[first] + (not is_public)) % case.n_groups
        elif is_public:
            other.y[own] = records.y[first]  # classes are the groups
        yield other


def check_costs(case, fitted, laboratory):
    """The draws of a fit that a record moves, against the budget."""
    report = fitted.privacy_
    plain, costs = case.records(SEED), []
    for records in neighbours(case, plain):
        other = record(case, records, laboratory.releases).laboratory
        costs.append(cost_of_moves(report, laboratory.draws, other.draws))
    if report.plan.get("inner") == "localized_sgd":
        assert max(costs) > 0.0
        return
    budget = whole_cost(report)
    assert max(costs) <= budget * (1 + 1e-9)
    if case.whole_budget:
        assert max(costs) == pytest.approx(budget, rel=1e-7)


def check_order(case, first, monkeypatch):
    """Every record and its secret place one further: no exact value moves but by rounding."""
    if case.place == "chunks":
        return
    turn_orders(monkeypatch, case.n)
    second = record(case, case.records(SEED).turned(), first.releases).laboratory
    assert len(first.draws) == len(second.draws) > 0
    for mine, its in zip(first.draws, second.draws, strict=True):
        if mine.kind == "exponential":
            continue  # a point and no value; the mechanism divides nothing
        unit = 1.0 if mine.mechanism is None else mine.mechanism.sensitivity
        assert np.abs(mine.value - its.value).max() <= 0.01 * unit


def turn_orders(patch, n):
    """Let records that moved to the place before take their places in secret orders along."""
    for module in modules_with_orders():
        patch.setattr(
            module, "random_order", lambda size, noise: (random_order(size, noise) - 1) % n
        )


@pytest.mark.mostly("slow", 3)
@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("vertices")])
def test_no_record_moves_scores_further_than_charged(name):
    """Than half the range that is charged; mirror/test_plain.py enumerates the draws' laws."""
    case = CASES[name]
    fitted, laboratory = recorded(name).model, recorded(name).laboratory
    plain, ratios = case.records(SEED), [0.0]
    for records in neighbours(case, plain):
        other = record(case, records, laboratory.releases).laboratory
        pairs = zip(parts_of(fitted, laboratory), parts_of(fitted, other), strict=True)
        for (release, mine), (_, its) in pairs:
            if release.mechanism != "exponential":
                (mine,), (its,) = mine, its
                moved = np.linalg.norm(mine.value - its.value)
                assert moved <= mine.mechanism.sensitivity * (1 + 1e-9)
                continue
            for draw, same, spread in zip(mine, its, ranges_of(release), strict=True):
                ratios.append(abs(draw.value - same.value).max() / (0.5 * spread))
    assert 0.15 < max(ratios) <= 1.0


# -------------------------------------------------------------------------- in chunks as in memory


def needs_all_records(case):
    """Whether the row of the method says so, or what is asked of it."""
    method = case.parameters.get("method")
    is_attacked = "Adversarial" in case.estimator.__name__ and method == "output"
    is_public = case.parameters.get("group_proportions") == "public"
    needs = is_attacked or is_public or getattr(method, "tilt", 0.0)
    return bool(needs or (case.row is not None and not case.row.chunked))


def may_be_chunked(case):
    return not (needs_all_records(case) or case.is_slow or case.estimator is Ranges)


def check_place(case, fit):
    """With the same releases and no progress shown: but for last bits and a solution's accuracy."""
    place = "chunks" if case.place == "dense" else "dense"
    records, releases = case.records(SEED), fit.laboratory.releases
    other = record(replace(case, place=place), records, releases, is_told=False)
    assert fit.model.privacy_.to_dict() == other.model.privacy_.to_dict()
    assert (fit.warned, fit.paid, other.printed) == (other.warned, other.paid, "")
    assert len(fit.laboratory.draws) == len(other.laboratory.draws) > 0
    for mine, its in zip(fit.laboratory.draws, other.laboratory.draws, strict=True):
        assert (mine.kind, mine.mechanism) == (its.kind, its.mechanism)
        error = 0.01 * mine.mechanism.sensitivity if "n_solves" in fit.model.privacy_.plan else 1e-9
        np.testing.assert_allclose(mine.value, its.value, rtol=1e-9, atol=error)


@pytest.mark.parametrize(
    "name", first_cases(lambda case: case.place == "dense" and needs_all_records(case))
)
def test_what_needs_all_records_says_so(name):
    case = replace(CASES[name], place="chunks")
    with pytest.raises(ValueError, match="in memory"):
        case.fit(case.records(0))


# -------------------------------------------------------------- methods from outside of the package


def fit_of(method):
    case = Case("own", DPLogisticRegression, {"method": method, "delta": 0.01}, n_classes=2)
    return case, record(case, case.records(SEED))


def test_a_method_of_a_user_is_charged_and_reported():
    case, fit = fit_of(Toy())
    report = fit.model.privacy_
    assert case.row is case.parameters["method"]
    assert report.method == "Toy" and report.plan["alpha"] == fit.model.alpha_ == 0.0
    assert [release.name for release in report.releases] == ["coefficients"]
    assert [leaves(event) for event in fit.paid] == [leaves(report.event)]
    assert tightest_epsilon(report.event, 0.01) == pytest.approx(report.epsilon, rel=1e-6)
    check_draws(fit.model, fit.laboratory)
    check_costs(case, fit.model, fit.laboratory)


def test_a_method_of_a_user_that_costs_more_than_its_budget_is_refused():
    class Generous(Toy):
        def plan(self, objective, budget):
            return super().plan(objective, PrivacyBudget(8.0 * budget.epsilon, budget.delta))

    with pytest.raises(ValueError, match="more than the budget"):
        fit_of(Generous())


def test_a_method_of_a_user_that_states_twice_its_noise_is_found():
    """By what is drawn, whatever the method and its releases are called."""
    case, fit = fit_of(Toy(part=0.5))
    with pytest.raises(AssertionError):
        check_draws(fit.model, fit.laboratory)
    with pytest.raises(AssertionError):
        check_costs(case, fit.model, fit.laboratory)


# -------------------------------------------------------------------------------- rarer ways, bits


@pytest.mark.mostly("slow", 15)
@pytest.mark.parametrize("name", kinds_of_fits())
def test_no_bits_are_used_twice(name, monkeypatch):
    """No word of 64 bits reaches two draws; of 1e5 independent ones two agree with chance 1e-9."""
    case, words = CASES[name], []
    create = NoiseSource.__init__

    def watched(self, random_bytes=os.urandom):
        def recorded(size):
            drawn = random_bytes(size)
            words.append(np.frombuffer(drawn[: size - size % 8], dtype=np.uint64))
            return drawn

        create(self, recorded)

    monkeypatch.setattr(NoiseSource, "__init__", watched)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case.fit(case.records(SEED))
    drawn = np.concatenate(words)
    assert len(drawn) and len(np.unique(drawn)) == len(drawn)


def test_a_laboratory_that_cannot_open_changes_nothing(monkeypatch):
    """A name that a patch does not find breaks one test and none of those after it."""
    original = NoiseSource.standard_normal
    monkeypatch.setattr(Laboratory, "_batch", property())
    with pytest.raises(AttributeError), Laboratory():
        pass
    assert NoiseSource.standard_normal is original


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_at_most_ten_lines_are_printed(capsys):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.5, 0.5, (400, 3)), np.arange(400) % 2
    model = DPLogisticRegression(3.0, classes=[0, 1], random_state=0, verbose=1).fit(X, y)
    lines, planned = capsys.readouterr().out.splitlines(), model.privacy_.plan["n_steps"]
    own = [line for line in lines if line.startswith("[skdp] noisy steps: ")]
    assert own[-1] == f"[skdp] noisy steps: {planned} of {planned} done"
    assert len(own) == min(planned, 10)
    done = [int(re.search(r": (\d+) of", line)[1]) for line in own]
    assert done == [k for k in range(1, planned + 1) if 10 * k // planned > 10 * (k - 1) // planned]
