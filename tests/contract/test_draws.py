"""Every draw of a whole fit: the noise that is really added, against the report, record by record.

Fits run in a :class:`laboratory.Laboratory`. What is compared:

- number, dimensions, scales and multipliers of the draws with ``privacy_.releases`` and the plan;
- the movement of each value before noise, when one record is replaced and all releases are given,
  with the sensitivity of the mechanism;
- the sum of what the draws cost that a record moves, with the budget of the fit.

No test here depends on chance.
"""

import json
import os
import warnings
from dataclasses import dataclass, replace

import numpy as np
import pytest
from fit_cases import CASES, Case
from kept_order import modules_with_orders
from laboratory import Laboratory
from recorded_fits import every_case, record, recorded

from skdp.algorithms import Plan, Result, dp_localized_gd
from skdp.algorithms.worst_group import margin_fits
from skdp.linear_model import DPLogisticRegression
from skdp.mechanisms import GaussianMechanism, NoiseSource, calibrated_mechanism, random_order
from skdp.methods import Method
from skdp.privacy import PrivacyBudget, tightest_epsilon
from skdp.privacy.events import (
    ExponentialMechanismEvent,
    GaussianEvent,
    PoissonSampledSumEvent,
    PureEvent,
    flatten_event,
)
from skdp.privacy.gaussian_dp import gaussian_mu, pure_mu
from skdp.privacy.report import PrivacyReport
from skdp.problems import (
    ROUNDING_SLACK,
    Ball,
    FiniteSumProblem,
    LogisticLoss,
    Objective,
    Records,
)
from skdp.problems.loss_sums import GradientSum
from skdp.synthetic import DPSyntheticData

SEED = 0
#: Records that are replaced, one at a time.
N_NEIGHBOURS = 4


def quiet_fit(case, records, **parameters):
    """A fit whose warnings do not matter; they have tests of their own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return case.fit(records, **parameters)


def first_run(name):
    """The fitted model of a case and the laboratory that watched."""
    fit = recorded(name)
    return fit.model, fit.laboratory


def run(case, records, releases):
    """The same for other records, with given releases."""
    fit = record(case, records, releases)
    return fit.model, fit.laboratory


def leaves(event):
    return flatten_event(event)


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
    """Whether each event of a release stands for two draws, of which the second follows the first.

    The queries of DP-RGDA: the losses of the groups, and then the gradient.
    """
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


def is_table_of_queries(name):
    """Whether all columns are measured by one release; tests/algorithms/queries compares draws."""
    return CASES[name].estimator is DPSyntheticData


@every_case(lambda case: case.estimator is not DPSyntheticData)
def test_draws_are_those_of_the_report(name):
    """Kinds, numbers, dimensions, scales and multipliers of all draws."""
    case = CASES[name]
    fitted, laboratory = first_run(name)
    sizes = fitted.privacy_.plan.get("block_sizes", [0])
    assert not case.n_phases or len(sizes) == case.n_phases
    check_draws(fitted, laboratory)


def check_draws(fitted, laboratory):
    """All draws of a fit, of any method, against its report."""
    report = fitted.privacy_
    if isinstance(report, PrivacyReport):
        plain = json.loads(json.dumps(report.to_dict()))
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
        quiet_fit(CASES[name], CASES[name].records(SEED))
    assert seen == {"MixFit", "ScaleFit"}


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
    # persons may have many records: rounding goes by the released center, no less than planned
    error = 1e-9 if release.event.neighbouring.unit == "record" else 1e-7
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
    for i in np.random.default_rng(SEED).permutation(case.n_units)[:N_NEIGHBOURS]:
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


def samples_batches(name):
    """Whether a fit draws Poisson samples of records."""
    return "minibatch" in name or "rgda" in name


def is_other_proof(name):
    """Whether the cost of a fit is no sum of what its draws cost, or is tested apart."""
    case = CASES[name]
    is_objective = case.parameters.get("method") == "objective"
    return is_objective or case.draws_vertices or is_table_of_queries(name)


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


@pytest.mark.mostly("slow", 15)
@pytest.mark.parametrize("name", [name for name in CASES if not is_other_proof(name)])
def test_no_record_costs_more_than_the_budget(name):
    """The draws that a record moves cost the budget at most, and for some record all of it.

    The price of sampled batches is no sum over draws: no draw moves further than planned there.
    What a record moves under objective perturbation is the linear term that goes with a minimiser
    (tests/algorithms/objective/test_perturbation.py).
    """
    check_costs(CASES[name], *first_run(name))


def check_costs(case, fitted, laboratory):
    """The draws of a fit that a record moves, against the budget."""
    report = fitted.privacy_
    plain, costs = case.records(SEED), []
    for records in neighbours(case, plain):
        other = run(case, records, laboratory.releases)[1]
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


@pytest.mark.mostly("slow", 15)
@pytest.mark.parametrize(
    "name",  # which records are of one person goes by place here, unlike in test_persons.py
    [
        name
        for name, case in CASES.items()
        if not samples_batches(name) and case.unit != "person" and case.place != "chunks"
    ],
)
def test_no_draw_depends_on_the_order_of_the_table(name, monkeypatch):
    """Every record one place further, and with it its secret place or label: no exact value moves.

    Values may move by the accuracy of a solve, and by rounding. Batches that are Poisson samples
    have no order.
    """
    case = CASES[name]
    first = first_run(name)[1]
    turn_orders(monkeypatch, case.n)
    second = run(case, case.records(SEED).turned(), first.releases)[1]
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
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.draws_vertices])
def test_no_record_moves_scores_further_than_charged(name):
    """Scores of all draws of vertices, against half the range that each draw is charged with.

    That the draws follow these scores: tests/algorithms/mirror/test_plain.py enumerates them.
    """
    case = CASES[name]
    fitted, laboratory = first_run(name)
    plain, ratios = case.records(SEED), [0.0]
    for records in neighbours(case, plain):
        other = run(case, records, laboratory.releases)[1]
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


# -------------------------------------------------------------- methods from outside of the package


@dataclass(frozen=True, kw_only=True)
class StepPlan(Plan):
    """One noisy gradient step from zero, by other noise than the stated one."""

    objective: Objective
    stated: GaussianMechanism
    drawn: GaussianMechanism

    @property
    def releases(self):
        size, n = self.objective.dimension, self.objective.design.n_records
        return (self.stated.describe("coefficients", size, n, "a test"),)

    def to_dict(self):
        return {"alpha": 0.0}

    def run(self, data, run):
        loss = self.objective.risk.loss
        gradient = data.total(GradientSum(loss, np.zeros((loss.n_outputs, data.width))))
        step = -gradient.ravel() / data.n_records
        return Result(point=self.drawn.release(step, run.noise), plan=self)


class NoisyStep(Method):
    """Draws a `part` of the noise that it states."""

    def __init__(self, part=1.0):
        self.part = part

    def plan(self, objective, budget):
        design, loss = objective.design, objective.risk.loss
        moved = loss.gradient_diameter(design.feature_norm, 0.0) / design.n_records
        stated = calibrated_mechanism(budget, moved * ROUNDING_SLACK)
        drawn = replace(stated, noise_multiplier=self.part * stated.noise_multiplier)
        return StepPlan(objective=objective, stated=stated, drawn=drawn)


def fit_of(method):
    case = Case("own", DPLogisticRegression, {"method": method, "delta": 0.01}, n_classes=2)
    return case, record(case, case.records(SEED))


def test_a_method_of_a_user_is_charged_and_reported():
    case, fit = fit_of(NoisyStep())
    report = fit.model.privacy_
    assert case.row is case.parameters["method"]
    assert report.method == "NoisyStep" and report.plan["alpha"] == fit.model.alpha_ == 0.0
    assert [release.name for release in report.releases] == ["coefficients"]
    assert [flatten_event(event) for event in fit.paid] == [flatten_event(report.event)]
    assert tightest_epsilon(report.event, 0.01) == pytest.approx(report.epsilon, rel=1e-6)
    check_draws(fit.model, fit.laboratory)
    check_costs(case, fit.model, fit.laboratory)


def test_a_method_of_a_user_that_costs_more_than_its_budget_is_refused():
    class Generous(NoisyStep):
        def plan(self, objective, budget):
            return super().plan(objective, PrivacyBudget(8.0 * budget.epsilon, budget.delta))

    with pytest.raises(ValueError, match="more than the budget"):
        fit_of(Generous())


def test_a_method_of_a_user_that_states_twice_its_noise_is_found():
    """By what is drawn, whatever the method and its releases are called."""
    case, fit = fit_of(NoisyStep(part=0.5))
    with pytest.raises(AssertionError):
        check_draws(fit.model, fit.laboratory)
    with pytest.raises(AssertionError):
        check_costs(case, fit.model, fit.laboratory)


# ---------------------------------------------------------------------------------- algorithms


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


# ------------------------------------------------------------------------------------ the bits


@pytest.mark.mostly("slow", 15)
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * case.is_slow) for name, case in CASES.items()],
)
def test_no_bits_are_used_twice(name, monkeypatch):
    """No word of 64 random bits reaches two draws of a seeded fit.

    Words that are drawn independently agree with probability below 1e-9 for 1e5 of them.
    """
    case, words = CASES[name], []
    create = NoiseSource.__init__

    def watched(self, random_bytes=os.urandom):
        def recorded(size):
            drawn = random_bytes(size)
            words.append(np.frombuffer(drawn[: size - size % 8], dtype=np.uint64))
            return drawn

        create(self, recorded)

    monkeypatch.setattr(NoiseSource, "__init__", watched)
    quiet_fit(case, case.records(SEED))
    drawn = np.concatenate(words)
    assert len(drawn) and len(np.unique(drawn)) == len(drawn)


def test_a_laboratory_that_cannot_open_changes_nothing(monkeypatch):
    """A name that a patch does not find breaks one test and none of those after it."""
    original = NoiseSource.standard_normal
    monkeypatch.setattr(Laboratory, "_batch", property())
    with pytest.raises(AttributeError), Laboratory():
        pass
    assert NoiseSource.standard_normal is original
