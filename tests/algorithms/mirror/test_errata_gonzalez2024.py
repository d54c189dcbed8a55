"""The errata of González, Guzmán and Paquette (2024), and the numbers of their settings.

Printed forms are written out, and a test shows what they do: errata G3, G5 and G7.
G1, G2 and G14 are in ``test_plain.py``: the sign of the ascent, the constant C_M, and the
law of an average.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from skdp.algorithms import (
    Run,
    plan_anytime_mirror_descent,
    plan_bias_reduced_mirror_descent,
    plan_mirror_descent,
)
from skdp.algorithms.mirror import rounds as vertex_rounds
from skdp.algorithms.mirror.bias_reduced import correction, published_work
from skdp.algorithms.mirror.plain import published_rounds, zcdp_of
from skdp.algorithms.mirror.rounds import Round
from skdp.mechanisms import NoiseSource
from skdp.privacy import PrivacyBudget, ZCDPAccountant
from skdp.privacy.events import ExponentialMechanismEvent, Neighbouring, RepeatedEvent
from skdp.problems.vertices import FunctionProblem, VertexDesign

pytestmark = pytest.mark.usefixtures("kept_order")

BUDGET = PrivacyBudget(1.0, 1e-6)
LOG_DELTA = math.log(1e6)
RHO = (math.sqrt(LOG_DELTA + 1.0) - math.sqrt(LOG_DELTA)) ** 2
#: A problem for the numbers of the audits: n = 1e5, 1000 and 10 vertices, L0 = L1 = L2 = 1.
DESIGN = VertexDesign(100_000, (1000, 10), (1.0, 1.0), (2.0, 2.0))
LINE = VertexDesign(100_000, (1000,), (1.0,), (2.0,))


def rho_of(plan):
    return ZCDPAccountant().compose(plan.event).total


# ---------------------------------------------------------------------------------------- numbers


def test_rounds_vertices_and_steps_of_the_first_algorithm():
    """Equations (5) to (7), rounded down to whole rounds and up to whole draws."""
    wanted = {"first_order": 897, "second_order": 2243, "quadratic": 8864}
    for smoothness, rounds in wanted.items():
        assert math.floor(published_rounds(DESIGN, BUDGET, smoothness)) == rounds
    for smoothness, vertices in (("second_order", 5), ("quadratic", 1)):
        plan = plan_mirror_descent(DESIGN, BUDGET, n_rounds=200, smoothness=smoothness)
        assert dict(plan.numbers)["n_vertices"] == vertices
    plan = plan_mirror_descent(DESIGN, BUDGET, calibration="paper", smoothness="first_order")
    numbers = dict(plan.numbers)
    assert (len(plan.rounds), numbers["n_vertices"], numbers["batch"]) == (897, 98, 111)
    # all draws of rounds 2..T but the last oracle point, which nobody looks at
    assert plan.n_draws == 2 * (896 * 99 - 98)
    free = replace(plan, steps=(1.0, 1.0))
    assert rho_of(free) == pytest.approx(plan.n_draws * (4.0 / 111) ** 2 / 8.0, rel=1e-4)
    # the conversion is tighter than tau = (B / L0) sqrt(rho / (2 N)) = 0.0246
    given = plan_mirror_descent(DESIGN, BUDGET, n_rounds=897, n_vertices=98, calibration="paper")
    assert given.steps[0] > 0.0246


@pytest.mark.parametrize(
    ("smoothness", "rounds", "period", "vertices", "batch", "step"),
    [("first_order", 1614, 5, 234, 61, 0.0206410), ("second_order", 3894, 23, 165, 25, 0.0131613)],
)
def test_numbers_of_the_anytime_algorithm(smoothness, rounds, period, vertices, batch, step):
    plan = plan_anytime_mirror_descent(
        LINE, BUDGET, rng=np.random.default_rng(0), calibration="paper", smoothness=smoothness,
    )  # fmt: skip
    numbers = dict(plan.numbers)
    assert len(plan.rounds) == rounds
    assert (numbers["period"], numbers["n_vertices"]) == (period, vertices)
    assert {each.batch for each in plan.rounds} - {0} == {batch}
    # K (q + floor(T / q)) draws in all; K of them need no records
    counted = vertices * (period + rounds // period - 1)
    assert 0.95 * counted < plan.n_draws <= counted
    free = replace(plan, steps=(step,))
    assert rho_of(free) == pytest.approx(RHO * plan.n_draws / counted, rel=1e-3)


def test_cost_of_the_published_setting_with_the_right_sensitivity():
    """Erratum G3: by the paper's composition it would exceed epsilon 1; as zCDP it is half."""
    _, work, step, alpha = published_work(DESIGN, 1.0 / (48.0 * 81.0 * LOG_DELTA))
    draws, spread = 6.0 * work, 2.0 * 9.0 * step * alpha
    rho = draws * spread**2 / 8.0
    assert rho + 2.0 * math.sqrt(rho * LOG_DELTA) == pytest.approx(0.5045, abs=5e-5)
    advanced = math.sqrt(2.0 * LOG_DELTA * draws) * spread + draws * spread**2 / 2.0
    assert advanced == pytest.approx(1.0181, abs=5e-5)
    one = ExponentialMechanismEvent(spread, Neighbouring.REPLACE_ONE)
    composed = ZCDPAccountant().compose(RepeatedEvent(one, round(draws)))
    assert composed.total == pytest.approx(rho, rel=1e-3)
    # with the printed sensitivity, which is half of it, the paper's own sum stays below epsilon
    spread /= 2.0
    assert math.sqrt(2.0 * LOG_DELTA * draws) * spread + draws * spread**2 / 2.0 < 1.0


# ---------------------------------------------------------------------------------- erratum G3


@pytest.mark.parametrize("most", [0, 1, 4])
def test_a_record_attains_the_sensitivity_of_the_bias_reduced_gradient(most):
    """Erratum G3: records exceed the printed ``4.5 alpha L0`` with ``alpha = 2^N / |B|``."""
    c, design = correction(most), VertexDesign(1, (2,), (1.0,), (2.0,))
    for level in range(most + 1):
        # the first vertex is drawn first, then only the other: three points, or two if N = 0
        drawn = np.r_[0, np.ones(2 ** (level + 1) - 1, dtype=int)]
        half = 1.0 if level == 0 else 0.5**level

        def derivative(sign, half=half):
            def of(points, batch):
                share = points[0][0]
                return [np.full((1, 2), -sign if share == half else sign)]

            return of

        each = Round(requests=((0, 2 ** (level + 1)),), point=0, batch=1, level=level, correction=c)
        plus, minus = (
            each.gradient(FunctionProblem(design, derivative(s)), (drawn,), slice(0, 1))[0][0]
            for s in (1.0, -1.0)
        )
        assert abs(plus - minus) == pytest.approx(2.0 * each.weight * 2.0**each.level / each.batch)
        if level:
            assert abs(plus - minus) > 4.5 * 2.0**level


# ---------------------------------------------------------------------------------- erratum G5


@pytest.mark.parametrize("most", [0, 1, 2])
def test_our_loop_makes_the_draws_that_are_counted(most, monkeypatch):
    """Erratum G5: as many outputs as steps; all draws are charged but those of the first round."""
    design = VertexDesign(20_000, (5, 3), (1.0, 1.0), (2.0, 2.0))
    plan = plan_bias_reduced_mirror_descent(
        design, BUDGET, rng=np.random.default_rng(most), work=16.0, most=most, calibration="paper"
    )
    made, draw = [], vertex_rounds._draw

    def counted(scores, count, noise):
        made.append((count, np.ptp(scores)))
        return draw(scores, count, noise)

    monkeypatch.setattr(vertex_rounds, "_draw", counted)
    problem = FunctionProblem(
        design,
        lambda points, batch: [np.ones((len(np.arange(20_000)[batch]), size)) for size in (5, 3)],
    )
    rng = np.random.default_rng(0)
    point = plan.run(problem, Run(rng=rng, noise=NoiseSource(rng.bytes))).point
    assert [len(block) for block in point] == [len(plan.rounds)] * 2
    levels = [each.level for each in plan.rounds]
    everything = sum(4 * 2**k + 2 for k in levels)
    first = 4 * 2 ** levels[0] + 2
    assert sum(count for count, _ in made) == everything <= 6 * 16
    assert all(spread == 0.0 for _, spread in made[:4])  # two blocks, for the gradient and output
    assert sum(count for count, _ in made[4:]) == everything - first == plan.n_draws
    events = [release.event for release in plan.releases]
    assert sum(n for event in events for _, n in count_leaves(event)) == plan.n_draws


def count_leaves(event):
    """Pairs (event, number) of a composed event."""
    return [(part.event, part.count) for part in event.events]


# ---------------------------------------------------------------------------------- erratum G7


def test_batches_rounded_down_cost_more_than_planned():
    """Erratum G7: ``2^N / alpha`` is no integer, and its floor lets ``2^N / |B|`` exceed alpha."""
    design = VertexDesign(100_000, (100,), (1.0,), (2.0,))
    plan = plan_bias_reduced_mirror_descent(
        design, BUDGET, rng=np.random.default_rng(0), calibration="paper"
    )
    *_, alpha = published_work(design, zcdp_of(BUDGET) / 243.0)
    assert max(2.0**each.level / each.batch for each in plan.rounds) <= alpha
    assert sum(each.batch for each in plan.rounds) <= design.n_records
    assert sum(2.0**each.level for each in plan.rounds) <= dict(plan.numbers)["work"]
    printed = tuple(
        replace(each, batch=math.floor(2.0**each.level / alpha)) for each in plan.rounds
    )
    assert max(2.0**each.level / each.batch for each in printed) > alpha
    assert rho_of(replace(plan, rounds=printed)) > rho_of(plan)
