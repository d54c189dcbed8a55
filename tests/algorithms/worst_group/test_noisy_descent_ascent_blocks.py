"""Weighted descents on blocks of records: their number, and what a record of a block pays."""

import numpy as np
import pytest
from kept_order import in_turn
from laboratory import Laboratory
from noisy_group_runs import ADD, REPLACE, planned
from plain_noise import seeded

from skdp.algorithms.plan import Run
from skdp.mechanisms import SecretLabels
from skdp.privacy.gaussian_dp import gaussian_mu
from skdp.problems import Design, LogisticLoss, Records

pytestmark = pytest.mark.usefixtures("kept_order")

EPSILON, DELTA, NOMINAL = 1.0, 1e-6, 100_000
#: Number of records, whether the small group's labels contradict those of the large one, relation.
CASES = [(300_007, True, REPLACE), (100_003, False, REPLACE), (100_003, True, ADD)]


@pytest.fixture(scope="module", params=CASES, ids=str)
def run(request):
    """The data of a case, its plan, the result of a run, and its draws with the blocks of each.

    The block of a draw is its number and the number of all, or None where the draw is of all
    records.
    """
    n, is_conflict, relation = request.param
    rng = np.random.default_rng(0)
    X, groups = rng.uniform(-0.5, 0.5, size=(n, 4)), (rng.random(n) < 0.1).astype(int)
    data = X, ((X[:, 1] > 0) ^ ((groups == 1) & is_conflict)).astype(float), groups
    design = Design.of(records_of(*data), None if relation is REPLACE else NOMINAL)
    plan = planned(LogisticLoss(), design, relation, EPSILON, DELTA)
    with pytest.MonkeyPatch.context() as patch, Laboratory() as laboratory:
        patch.setattr(SecretLabels, "members", in_turn)
        result = plan.run(records_of(*data), Run(noise=seeded(0)))
    passes, blocks = iter(result.plan.passes), []
    for release in result.plan.releases:
        word = release.name.split()[0]
        steps = (
            result.plan.plain if word == "sums" else next(passes) if word == "weighted" else None
        )
        if steps is None:
            blocks.append(None)
        else:
            count = steps.n_blocks
            blocks += [(k % count, count) for k in range(steps.schedule.n_steps)]
    assert len(blocks) == len(laboratory.draws)
    return data, relation, plan, result, laboratory, blocks


def records_of(X, y, groups):
    return Records(X, 1.0, 0.1, targets=y, groups=groups)


def counts(plan):
    return [each.n_blocks for each in plan.passes]


def test_the_number_of_blocks_is_that_of_the_effective_sample_size(run):
    data, relation, _, result, *_ = run
    done, n = result.plan, len(data[0])
    q, p = np.array(done.weights), np.array(done.proportions)
    effective = n / (q**2 / p).sum()
    if relation is ADD:  # removing a record would move the others to other blocks
        assert set(counts(done)) == {1}
    else:
        assert done.plain.n_blocks == 12
        assert counts(done)[-1] == max(1, int(effective / 32_000)) > 1
        assert min(counts(done)) < max(counts(done)) or effective > 0.99 * n


def test_a_record_pays_the_budget_whatever_blocks_it_is_in(run):
    """Claims add up for every record; a replaced one moves the draws of its own blocks alone."""
    (X, y, groups), relation, plan, result, laboratory, blocks = run
    draws, whole = laboratory.draws, gaussian_mu(EPSILON, DELTA) ** 2
    claims = np.array([(draw.mechanism.sensitivity / draw.scale) ** 2 for draw in draws])
    for i in range(200):
        assert claims[[in_block(i, block) for block in blocks]].sum() == pytest.approx(whole)
    for i in (7, 50):
        if relation is ADD:
            other = records_of(*(np.delete(part, i, 0) for part in (X, y, groups)))
        else:
            A, t, g = X.copy(), y.copy(), groups.copy()
            A[i], t[i], g[i] = -10.0 * A[i], 1.0 - t[i], 1 - g[i]
            other = records_of(A, t, g)
        with Laboratory(releases=laboratory.releases) as watched:
            again = plan.run(other, Run(noise=seeded(0)))
        np.testing.assert_array_equal(again.point, result.point)
        moves = [
            float(np.linalg.norm(mine.value - its.value))
            for mine, its in zip(draws, watched.draws, strict=True)
        ]
        limits = [draw.mechanism.sensitivity for draw in draws]
        assert all(move <= limit for move, limit in zip(moves, limits, strict=True))
        assert (
            sum((move / draw.scale) ** 2 for move, draw in zip(moves, draws, strict=True)) < whole
        )
        if relation is REPLACE:
            others = [m for m, block in zip(moves, blocks, strict=True) if not in_block(i, block)]
            assert others and max(others) == 0.0


def test_blocks_and_noise_follow_from_the_releases_alone(run):
    (X, y, _), _, plan, result, laboratory, _ = run
    groups = np.random.default_rng(1).integers(4, size=len(X))
    with Laboratory(releases=laboratory.releases) as watched:
        again = plan.run(records_of(3.0 * X[:, ::-1], 1.0 - y, groups), Run(noise=seeded(0)))
    assert again.plan == result.plan
    assert [draw.scale for draw in watched.draws] == [draw.scale for draw in laboratory.draws]
    np.testing.assert_array_equal(again.point, result.point)


def in_block(i, block):
    return block is None or i % block[1] == block[0]
