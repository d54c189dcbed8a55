"""Runs of the methods that measure losses of groups, and what every run must keep."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from laboratory import Laboratory
from plain_noise import seeded

from skdp.algorithms import GroupObjective
from skdp.algorithms.core.fit import CorePlan
from skdp.algorithms.core.plan import ROUNDS
from skdp.algorithms.plan import Run
from skdp.algorithms.worst_group.core_stages import CoreStagesPlan, plan_core_stages
from skdp.privacy import PrivacyBudget
from skdp.privacy.composition import tightest_epsilon
from skdp.privacy.events import RECORD_RELATIONS, Neighbouring
from skdp.privacy.gaussian_dp import gaussian_mu
from skdp.problems import Design, EmpiricalRisk, GroupWeights, LogisticLoss, Records, SoftmaxLoss

REPLACE, ADD = Neighbouring.REPLACE_ONE, Neighbouring.ADD_REMOVE
RELATIONS = pytest.mark.parametrize("relation", RECORD_RELATIONS)


def rows_and_groups(rng, n):
    """Rows from a tenth to ten times the bound; the third group has one record, the last none."""
    X = rng.normal(size=(n, 5)) * 10.0 ** rng.uniform(-1, 1, size=(n, 1)) + np.eye(5)[0]
    groups = np.where(rng.random(n) < 0.2, 1, 0)
    groups[7] = 2
    return X, groups


def is_smooth(loss):
    """Whether scales are fitted; else models are mixed."""
    return isinstance(loss, LogisticLoss | SoftmaxLoss)


def data_of(loss, seed, is_plain=False, n=100):
    """Rows from a tenth to ten times the bound; the third group has one record, the last none.

    The targets of the second group contradict those of the first one, unless the plain model shall
    be taken: then the first group is the worst one.
    """
    rng = np.random.default_rng(seed)
    X, groups = rows_and_groups(rng, n)
    if is_smooth(loss):
        y = ((X[:, 1] > 0) ^ (groups == 1)).astype(int)
        if is_plain:
            y = np.where(groups == 0, rng.integers(1 + loss.n_outputs, size=n), 0)
        return X, y.astype(float if loss.n_outputs == 1 else int), groups
    y = np.where(groups == 1, -1.0, 1.0) * np.sign(X[:, 1]) * rng.uniform(0.5, 1.0, n)
    if is_plain:
        y = np.where(groups == 0, 1.0, 0.9) * rng.choice([-1.0, 1.0], n)
    if not loss.target_bound:
        y = (y > 0).astype(int if loss.n_outputs > 1 else float)
    return X, loss.target_bound * y if loss.target_bound else y, groups


def records_of(X, y, groups, kind="dense", intercept=0.1):
    make = {"dense": np.asarray, "csr": sp.csr_array, "float32": lambda X: X.astype(np.float32)}
    records = Records(make[kind](X), 1.0, intercept, targets=y, groups=groups)
    records.block_size = 25  # several parts of blocks
    return records


def design_of(records, relation):
    return Design.of(records, None if relation is REPLACE else 90)  # a nominal number


def planned(
    loss, design, relation, epsilon=50.0, delta=0.01, proportions=None, *,
    make=plan_core_stages, **options,
):  # fmt: skip
    goal = GroupObjective(
        EmpiricalRisk(loss), design, neighbouring=relation, weights=GroupWeights((10.0,) * 4),
        proportions=proportions, **options,
    )  # fmt: skip
    return make(goal, PrivacyBudget(epsilon, delta))


def neighbours(data, relation, row, target, *options):
    """One record removed, or replaced by one of another row, target and group.

    `row` maps a position to the new row, `target` an old target to the new one; `options` are the
    last arguments of `records_of`.
    """
    X, y, groups = data
    for i, group in ((7, 2), (7, 3)) if relation is REPLACE else ((7, None), (50, None)):
        if relation is ADD:
            yield records_of(*(np.delete(part, i, 0) for part in data), *options)
        else:
            A, t, g = X.copy(), y.copy(), groups.copy()
            A[i], t[i], g[i] = row(i), target(y[i]), group
            yield records_of(A, t, g, *options)


def check_draws(plan, records, others, unrelated, epsilon, is_plain):
    """Replay every draw of a run on neighbours: moves within sensitivities, and their cost.

    The releases alone decide about noise, coefficients and plan: not unrelated records. Returns the
    plan with what the run decided.
    """
    assert isinstance(plan, CoreStagesPlan)
    with Laboratory() as laboratory:
        result = plan.run(records, Run(noise=seeded(0)))
    draws, done = laboratory.draws, result.plan
    expected, sizes, passes = [], [], iter(done.passes)
    for release in done.releases:
        word, steps = release.name.split()[0], None
        if word == "weighted" or "over the largest weight" in release.name:
            steps = next(passes)
        elif word in ("sums", "solutions"):
            steps = done.plain
        scale = release.noise_scale / release.sensitivity
        if steps is None:
            n_draws = ROUNDS if word == "size" else 1
            multipliers = [scale * math.sqrt(n_draws)] * n_draws
        elif isinstance(steps, CorePlan):
            multipliers = list(1.0 / (steps.mu_steps * np.sqrt(steps.numbers.steps.parts)))
        else:
            multipliers = [scale * math.sqrt(steps.n_solves)] * steps.n_solves
        expected += multipliers
        sizes += [release.dimension if steps is None else None] * len(multipliers)
    assert len(draws) == len(expected)
    for draw, scale, size in zip(draws, expected, sizes, strict=True):
        assert size in (None, draw.value.size)
        assert np.allclose(draw.factors, scale * draw.mechanism.sensitivity, rtol=1e-12)
    whole = gaussian_mu(epsilon, 0.01) ** 2
    claims = [(draw.mechanism.sensitivity / draw.scale) ** 2 for draw in draws]
    assert sum(claims) == pytest.approx(whole, rel=1e-9)
    assert tightest_epsilon(done.event, 0.01) == pytest.approx(epsilon, rel=1e-6)
    assert (max(done.factors) == 1.0) == is_plain
    costs = []
    for other in others:
        with Laboratory(releases=laboratory.releases) as watched:
            again = plan.run(other, Run(noise=seeded(0)))
        assert np.array_equal(again.point, result.point)
        cost = 0.0
        for mine, its in zip(draws, watched.draws, strict=True):
            moved, limit = float(np.linalg.norm(mine.value - its.value)), mine.mechanism.sensitivity
            assert its.mechanism.sensitivity == limit
            assert moved <= limit
            cost += (moved / mine.scale) ** 2
        costs.append(cost)
    assert 0.02 * whole < max(costs) <= whole * (1.0 + 1e-9)
    with Laboratory(releases=laboratory.releases) as watched:
        again = plan.run(unrelated, Run(noise=seeded(0)))
    assert [draw.scale for draw in watched.draws] == [draw.scale for draw in draws]
    assert np.array_equal(again.point, result.point)
    assert again.plan.to_dict() == done.to_dict() and again.plan.releases == done.releases
    return done
