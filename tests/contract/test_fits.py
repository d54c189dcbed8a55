"""Every whole fit against its report: noise, costs, payment, state, warnings, order and place.

Fits run in a :class:`laboratory.Laboratory`: two of very different records with the same releases,
and some of neighbours. No test here depends on chance.
"""

import itertools
import json
import os
import pickle
import re
import warnings
from dataclasses import replace
from enum import Enum

import numpy as np
import pytest
from every_fit import kinds_of_fits
from fit_cases import CASES, Case, Ranges
from kept_order import modules_with_orders
from laboratory import Laboratory
from recorded_fits import every_case, first_cases, record, recorded
from toy_method import Toy

from skdp._model import PrivateModel
from skdp.algorithms import dp_localized_gd
from skdp.algorithms.worst_group import margin_fits
from skdp.inspection import plan_fit
from skdp.linear_model import DPLogisticRegression
from skdp.mechanisms import NoiseSource, random_order
from skdp.privacy import PrivacyBudget, tightest_epsilon
from skdp.privacy.events import (
    ExponentialMechanismEvent,
    GaussianEvent,
    PoissonSampledSumEvent,
    PureEvent,
)
from skdp.privacy.events import flatten_event as leaves
from skdp.privacy.gaussian_dp import gaussian_mu, pure_mu
from skdp.privacy.report import PrivacyReport
from skdp.problems import Ball, FiniteSumProblem, LogisticLoss, Records
from skdp.synthetic import DPSyntheticData

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
    if not isinstance(fit.model, PrivateModel) or case.unit == "weight":
        return
    n_users = case.n_units if case.unit == "person" else None
    planned = plan_fit(case.make(), case.n, case.d, n_groups=case.n_groups or None, n_users=n_users)
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


def state(value, path="", seen=()):
    """All parts of an object, private names included, as pairs (path, bits)."""
    assert id(value) not in seen, f"{path} holds itself"
    seen = (*seen, id(value))
    yield path, f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, np.ndarray):
        yield path, (value.dtype.str, value.shape)
        if value.dtype.hasobject:
            for i, part in enumerate(value.ravel().tolist()):
                yield from state(part, f"{path}[{i}]", seen)
        else:
            yield path, value.tobytes()
    elif isinstance(value, np.generic | float | complex):
        yield path, np.asarray(value).tobytes()
    elif value is None or isinstance(value, str | bytes | int | Enum | type):
        yield path, repr(value)
    elif isinstance(value, dict):
        yield path, len(value)
        for i, (key, part) in enumerate(value.items()):
            yield from state(key, f"{path} key {i}", seen)
            yield from state(part, f"{path}[{key!r}]", seen)
    elif isinstance(value, list | tuple | set | frozenset):
        parts = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
        yield path, len(value)
        for i, part in enumerate(parts):
            yield from state(part, f"{path}[{i}]", seen)
    else:
        slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
        parts = {name: getattr(value, name) for name in slots if hasattr(value, name)}
        parts |= getattr(value, "__dict__", {})
        assert parts or pickle.dumps(value), path
        for name, part in parts.items():
            yield from state(part, f"{path}.{name}", seen)


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


# --------------------------------------------------------------------- draws, against the report


def multiplier_of(leaf):
    """Noise scale per unit of sensitivity that an event stands for."""
    if isinstance(leaf, PoissonSampledSumEvent):
        leaf = leaf.event
    if isinstance(leaf, GaussianEvent):
        return leaf.noise_multiplier
    assert isinstance(leaf, PureEvent)
    return 1.0 / leaf.epsilon


def additive(laboratory):
    return [draw for draw in laboratory.draws if draw.kind in ("gaussian", "spherical_laplace")]


def is_descent(release):
    """Whether a release stands for many steps, or solves, as one."""
    names = (
        "solves as one",
        "sums of clipped gradients",
        "sums of weighted gradients",
        "size and shift",
    )
    return any(name in release.name for name in names)


def is_linear_term(release):
    """Whether a release is the gradient at the minimiser, of which noise was a part beforehand."""
    return release.name == "gradient at the minimiser"


def has_two_draws(report, release):
    """Whether an event stands for two draws, as in DP-RGDA: of losses, then of a gradient."""
    return report.method == "rgda" and is_descent(release)


def parts_of(fitted, laboratory):
    """The draws of each release, in order: pairs (release, draws)."""
    report = fitted.privacy_
    draws = [draw for draw in laboratory.draws if draw.kind != "batch"]
    releases, plan = list(report.releases), report.plan
    pairs = []
    if "inner" in plan:  # bilevel as published
        counts = [sum(count for _, count in leaves(release.event)) for release in releases[:2]]
        size = counts[0] // plan["n_steps"]
        assert counts == [size * plan["n_steps"]] * 2
        steps = draws[: sum(counts)]
        number = np.arange(len(steps)) // size % 2  # lower and penalised solutions by turns
        for k in range(2):
            pairs.append((releases[k], [steps[i] for i in np.flatnonzero(number == k)]))
        draws, releases = draws[sum(counts) :], releases[2:]
    drawn = [draw for draw in draws if draw.kind == "vertices"]
    if drawn:
        of_vertices = [release for release in releases if release.mechanism == "exponential"]
        for k, release in enumerate(of_vertices):
            uniform, *charged = drawn[k :: len(of_vertices)]  # blocks by turns
            assert not uniform.value.any()
            pairs.append((release, charged))
        draws = [draw for draw in draws if draw.kind != "vertices"]
        releases = [release for release in releases if release.mechanism != "exponential"]
    for release in releases:
        count = sum(count for _, count in leaves(release.event))
        if is_descent(release):
            count = int(release.name.split(", ")[1].split()[0])
            count *= 1 + has_two_draws(report, release)
        elif release is releases[-1] and "block_sizes" in plan:
            count = len(plan["block_sizes"])
        pairs.append((release, draws[:count]))
        draws = draws[count:]
    assert not draws, "draws that no release speaks of"
    return pairs


def check_draws(fitted, laboratory):
    """All draws of a fit, of any method, against its report."""
    report = fitted.privacy_
    if isinstance(report, PrivacyReport):
        plain = json.loads(json.dumps(report.to_dict(), allow_nan=False))
        assert json.loads(json.dumps(PrivacyReport.from_dict(plain).to_dict())) == plain
    for release, draws in parts_of(fitted, laboratory):
        assert draws
        if has_two_draws(report, release):
            check_queries(report, release, draws)
            continue
        if draws[0].kind == "vertices":
            check_vertices(release, draws)
            continue
        if is_descent(release):
            check_steps(report, release, draws)
            continue
        for draw in draws:
            if draw.kind == "choice":
                ((leaf, _),) = leaves(release.event)
                assert isinstance(leaf, ExponentialMechanismEvent)
                assert draw.rate == pytest.approx(leaf.epsilon, rel=1e-12)
                assert release.noise_scale == pytest.approx(2.0 / draw.rate, rel=1e-12)
            elif draw.kind == "exponential":
                check_point(fitted, release, draw)
            elif release.mechanism == "exponential":
                check_localisation(fitted, release, draw)
            else:
                check_noise(release, draw)
        if release.mechanism != "exponential":
            check_scales(report, release, draws)
    check_batches(fitted, laboratory)


def check_noise(release, draw):
    """One draw of additive noise and the event of its release."""
    assert draw.kind == release.mechanism
    if is_linear_term(release):  # its event has the cost of the Hessian as well
        assert not draw.value.any()
        assert draw.mechanism.sensitivity == pytest.approx(release.sensitivity, rel=1e-12)
        return
    wanted = {multiplier_of(leaf) for leaf, _ in leaves(release.event)}
    assert len(wanted) == 1
    assert draw.scale / draw.mechanism.sensitivity == pytest.approx(wanted.pop(), rel=1e-9)
    if draw.within is not None:  # a private solver: its own statement for this very problem
        solver, constants, multiplier = draw.within
        stated = solver.release("", constants, multiplier, 1)
        assert draw.scale == pytest.approx(stated.noise_scale, rel=1e-9)
        assert draw.mechanism.sensitivity == pytest.approx(stated.sensitivity, rel=1e-9)
        assert draw.dimension == stated.dimension


def check_steps(report, release, draws):
    """Noisy steps: together they cost what one release costs."""
    ((leaf, _),) = leaves(release.event)
    is_pure = isinstance(leaf, PureEvent)
    kind, power = ("spherical_laplace", -1.0) if is_pure else ("gaussian", -2.0)
    for draw in draws:
        assert (draw.kind, draw.dimension) == (kind, release.dimension)
        assert draw.mechanism.sensitivity >= release.sensitivity * (1.0 - 1e-12)
    if "solves as one" in release.name:  # the least one is stated, but for certificates
        least = min(draw.mechanism.sensitivity for draw in draws)
        assert least == pytest.approx(release.sensitivity, rel=0.01)
    multipliers = np.array([draw.scale / draw.mechanism.sensitivity for draw in draws])
    stated = release.noise_scale / release.sensitivity
    total = 1.0 / leaf.epsilon if is_pure else leaf.noise_multiplier
    assert stated == pytest.approx(total, rel=1e-12)
    assert (multipliers**power).sum() == pytest.approx(total**power, rel=1e-9)


def check_queries(report, release, draws):
    """Pairs of draws of equal costs, which together are that of the release."""
    ((leaf, count),) = leaves(release.event)
    assert count == 1 and report.plan["n_steps"] == len(draws) // 2
    scales = np.array([draw.scale / draw.mechanism.sensitivity for draw in draws]).reshape(-1, 2)
    costs = (scales**-2.0).sum(axis=1)
    np.testing.assert_allclose(costs, costs[0], rtol=1e-9)
    assert costs.sum() == pytest.approx(leaf.noise_multiplier**-2.0, rel=1e-9)
    sizes = {draw.dimension for draw in draws[::2]}, {draw.dimension for draw in draws[1::2]}
    assert sizes[0] == {len(report.plan["group_names"])}
    assert sum(map(sum, sizes)) == release.dimension


def check_vertices(release, draws):
    """Draws from a softmax: their number, that of the vertices, and the largest sensitivity."""
    assert sum(draw.dimension for draw in draws) == len(ranges_of(release))
    assert {draw.value.shape for draw in draws} == {(release.dimension,)}
    assert release.sensitivity == pytest.approx(0.5 * max(ranges_of(release)), rel=1e-12)
    assert release.noise_scale == 1.0


def ranges_of(release):
    """Range of the privacy loss of each draw of a vertex, in order."""
    return [leaf.epsilon for leaf, count in leaves(release.event) for _ in range(count)]


def check_scales(report, release, draws):
    """Scales and dimensions as the report states them."""
    plan, sizes = report.plan, report.plan.get("block_sizes", [0])
    stated = draws[-1] if len(sizes) > 1 else draws[0]  # of phases the last is stated
    # there may be many records: rounding goes by the released center, no less than planned
    error = 1e-9 if release.event.neighbouring == "replace_one" else 1e-6
    assert stated.scale == pytest.approx(release.noise_scale, rel=error)
    assert stated.mechanism.sensitivity == pytest.approx(release.sensitivity, rel=error)
    assert stated.mechanism.sensitivity >= release.sensitivity * (1.0 - 1e-9)
    assert stated.dimension == release.dimension
    if release is not report.releases[-1] or "noise_scales" not in plan:
        return
    sensitivities = [draw.mechanism.sensitivity for draw in draws]
    np.testing.assert_allclose(sensitivities, plan["sensitivities"], rtol=1e-9)
    joint = plan.get("released") == "joint"  # the last scale is then one of two blocks
    scales = [draw.scale for draw in draws]
    count = len(draws) - joint
    np.testing.assert_allclose(scales[:count], plan["noise_scales"][:count], rtol=1e-9)
    assert sum(sizes) == release.n_records


def check_point(fitted, release, draw):
    """A draw from a density: its concentration and its epsilon."""
    plan = fitted.privacy_.plan
    assert draw.dimension == release.dimension
    if "local_radius" not in plan:
        stated = release.n_records / release.noise_scale
        assert draw.rate == pytest.approx(stated, rel=1e-12)
        ((leaf, _),) = leaves(release.event)
        assert draw.rate * release.sensitivity / release.n_records == pytest.approx(
            leaf.epsilon, rel=1e-12
        )
    else:  # around a released centre, where losses differ by less than at worst
        assert draw.rate >= plan["concentration"] * (1 - 1e-12)


def check_localisation(fitted, release, draw):
    """The noisy centre of a localised draw."""
    plan = fitted.privacy_.plan
    ((pure, _),) = (pair for pair in leaves(release.event) if isinstance(pair[0], PureEvent))
    assert draw.scale == pytest.approx(plan["noise_scale"], rel=1e-9)
    assert draw.scale / draw.mechanism.sensitivity == pytest.approx(1 / pure.epsilon, rel=1e-9)


def check_batches(fitted, laboratory):
    """Batches: one before each draw whose event is sampled, of all its records at its rate."""
    sampled = [
        (leaf.sampling_probability, count)
        for release in fitted.privacy_.releases
        for leaf, count in leaves(release.event)
        if isinstance(leaf, PoissonSampledSumEvent)
    ]
    batches = [draw for draw in laboratory.draws if draw.kind == "batch"]
    assert len(batches) == sum(count for _, count in sampled)
    for draw in batches:
        assert draw.rate == pytest.approx(sampled[0][0], rel=1e-12)
        assert draw.dimension == draw.within[1].n_records


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


def squared_mu(draw):
    """Square of the Gaussian-DP parameter of what a draw costs."""
    if draw.kind == "gaussian":
        return (draw.mechanism.sensitivity / draw.scale) ** 2
    assert draw.kind == "choice"
    return pure_mu(0.5 * draw.rate) ** 2


def pure_loss(draw):
    """Epsilon of what a draw costs."""
    if draw.kind == "choice":
        return draw.rate
    return draw.mechanism.sensitivity / draw.scale


def check_costs(case, fitted, laboratory):
    """The draws of a fit that a record moves, against the budget."""
    report = fitted.privacy_
    plain, costs = case.records(SEED), []
    for records in neighbours(case, plain):
        other = record(case, records, laboratory.releases).laboratory
        assert len(other.draws) == len(laboratory.draws)
        cost = 0.0
        for mine, its in zip(laboratory.draws, other.draws, strict=True):
            if mine.kind == "exponential":
                cost += local_epsilon(report, mine)
            if mine.kind in ("exponential", "batch"):
                continue
            moved = float(np.linalg.norm(mine.value - its.value))
            if mine.kind == "choice":
                assert abs(mine.value - its.value).max() <= 1.0 + 1e-9
            else:
                assert moved <= mine.mechanism.sensitivity * (1 + 1e-9)
            if moved > 0:
                cost += pure_loss(mine) if report.delta == 0 else squared_mu(mine)
        costs.append(cost)
    if report.plan.get("inner") == "localized_sgd":
        assert max(costs) > 0.0
        return
    budget = report.epsilon if report.delta == 0 else gaussian_mu(report.epsilon, report.delta) ** 2
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


def local_epsilon(report, draw):
    """Epsilon of a draw from a density: the events are checked with the draws."""
    ((leaf, _),) = (
        pair for pair in leaves(report.event) if isinstance(pair[0], ExponentialMechanismEvent)
    )
    return leaf.epsilon


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


def test_some_descents_take_the_rarer_ways(monkeypatch):
    """Fits of margins after weighted descents."""
    seen = set()
    for kind in (margin_fits.MixFit, margin_fits.ScaleFit):

        def terms(fit, *args, kind=kind, original=kind.terms, **options):
            seen.add(kind.__name__)
            return original(fit, *args, **options)

        monkeypatch.setattr(kind, "terms", terms)
    for name in ("max-group regressor, gradient, histogram",
                 "max-group classifier, gradient, rescaled"):  # fmt: skip
        record(CASES[name], CASES[name].records(SEED))
    assert seen == {"MixFit", "ScaleFit"}


def descent(sampling_rate):
    """Localised gradient descent: plan, factors of the stated scale, sampling rate."""
    problem = FiniteSumProblem(
        Records(np.eye(6, 2), 1.0, targets=np.ones(6)), LogisticLoss(), 1.0, Ball(1.0)
    )
    options = {"n_rounds": 2, "n_steps": 4, "sampling_rate": sampling_rate, "noise_multiplier": 3.0}
    plan = dp_localized_gd(problem, **options).plan
    return plan.releases[0], np.full(2, plan.mechanism.noise_scale), plan.mechanism.sensitivity


@pytest.mark.parametrize("sampling_rate", [1.0, 0.3])
def test_draws_of_noisy_descent_are_those_of_its_events(sampling_rate):
    """A gradient method that no estimator uses by default: number, scales and batches."""
    with Laboratory() as laboratory:
        release, scales, sensitivity = descent(sampling_rate)
    draws = additive(laboratory)
    ((leaf, count),) = leaves(release.event)
    assert len(draws) == count > 1
    for draw in draws:
        np.testing.assert_allclose(draw.factors, scales, rtol=1e-12)
        assert draw.mechanism.sensitivity == sensitivity
    batches = [draw for draw in laboratory.draws if draw.kind == "batch"]
    assert len(batches) == (count if sampling_rate < 1 else 0)
    assert {(draw.dimension, draw.rate) for draw in batches} <= {(6, sampling_rate)}
    if sampling_rate < 1:
        assert leaf.sampling_probability == sampling_rate
        leaf = leaf.event
    assert leaf.noise_multiplier == draws[0].mechanism.noise_multiplier


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
