"""Algorithm 4: parts that share no record, and a choice with the sensitivity of its scores."""

import itertools

import numpy as np
import pytest
from plain_noise import seeded

from skdp.algorithms import Run, plan_boosted_mirror_descent
from skdp.algorithms.mirror.boosted import _Part
from skdp.mechanisms import SoftmaxMechanism
from skdp.privacy import PrivacyBudget, tightest_epsilon
from skdp.problems.vertices import FunctionProblem, VertexDesign

pytestmark = pytest.mark.usefixtures("kept_order")

N, N_RUNS, N_RESPONSES, BOUND = 1600, 2, 2, 3.0
DESIGN = VertexDesign(N, (2, 2), (1.0, 1.0), (1.0, 1.0))


class Logged:
    """What reads which records; the last record has the value of `extreme`."""

    def __init__(self, extreme=0.0):
        self.parts, self.extreme, self.n_values = [], extreme, 0
        self.problem = FunctionProblem(DESIGN, self.derivative, self.function)

    def derivative(self, points, batch):
        records = np.arange(N)[batch]
        self.parts.append(set(records.tolist()))
        return [np.full((len(records), 2), 0.5)] * 2

    def function(self, points, batch):
        """Lower the values at responses of the first block, and raise those of the second."""
        records = np.arange(N)[batch]
        self.validation = set(records.tolist())
        sign = -1.0 if self.n_values // N_RESPONSES % 2 == 0 else 1.0
        self.n_values += 1
        return np.where(records == N - 1, sign * self.extreme, 0.0)


def plan(response="mirror_descent"):
    return plan_boosted_mirror_descent(
        DESIGN, PrivacyBudget(10.0, 1e-6), value_bound=BOUND, n_runs=N_RUNS, response=response,
        n_responses=N_RESPONSES, rng=np.random.default_rng(0), work=16.0, most=1,
    )  # fmt: skip


@pytest.mark.parametrize("response", ["mirror_descent", "frank_wolfe"])
def test_no_record_is_read_by_two_parts(response):
    """The cost of one part is that of the whole only if each record is in one of them."""
    logged, boosted = Logged(), plan(response)
    boosted.run(logged.problem, Run(noise=seeded()))
    quarter = N // 4
    edges = [i * (quarter // N_RUNS) for i in range(N_RUNS)]
    each = quarter // (N_RUNS * N_RESPONSES)
    edges += [quarter + i * each for i in range(2 * N_RUNS * N_RESPONSES)]
    edges += [3 * quarter, N]
    parts = [set(range(a, b)) for a, b in itertools.pairwise(edges)]
    used = {next(k for k, part in enumerate(parts) if read <= part) for read in logged.parts}
    assert used == set(range(len(parts) - 1))  # every part but the last, whose values decide
    assert logged.validation == parts[-1]


@pytest.mark.parametrize("response", ["mirror_descent", "frank_wolfe"])
def test_best_responses_are_those_of_their_block(response):
    """Rows cost x' A y for the column that was drawn: the responses to it are the best ones."""
    A, n = np.array([[0.0, 1.0], [2.0, 3.0]]), 2000

    def derivative(points, batch):
        m, (x, y) = len(np.arange(n)[batch]), points
        return np.tile(A @ y, (m, 1)), np.tile(x @ A, (m, 1))

    problem = FunctionProblem(VertexDesign(n, (2, 2), (3.0, 3.0), (3.0, 3.0)), derivative)
    boosted = plan_boosted_mirror_descent(
        problem.design, PrivacyBudget(30.0, 1e-6), value_bound=3.0, n_runs=1, n_responses=1,
        response=response, rng=np.random.default_rng(0), work=16.0, most=1,
    )  # fmt: skip
    for free, fixed, best in ((0, 1, 0), (1, 0, 1)):
        part = _Part(
            base=problem, design=boosted.responses[free].design, offset=500, free=free,
            fixed=np.array([fixed]),
        )  # fmt: skip
        answer = boosted.responses[free].run_on_sequence(part, Run(noise=seeded()))
        assert (answer.point[0] == best).mean() > 0.6


def test_a_record_moves_the_scores_of_the_choice_by_the_sensitivity(monkeypatch):
    """Whatever its values are; values of both signs attain the bound."""
    drawn, draw = [], SoftmaxMechanism.draw

    def recorded(mechanism, scores, n_draws, noise):
        drawn.append(scores)
        return draw(mechanism, scores, n_draws, noise)

    monkeypatch.setattr(SoftmaxMechanism, "draw", recorded)
    scores, boosted = [], plan()
    for extreme in (1e9, -1e9):
        boosted.run(Logged(extreme).problem, Run(noise=seeded()))
        scores.append(drawn[-1])
    moved = np.abs(scores[0] - scores[1]).max()
    assert 0.999 * boosted.mechanism.sensitivity < moved <= boosted.mechanism.sensitivity
    assert 2.0 * boosted.mechanism.sensitivity <= tightest_epsilon(boosted.event, 1e-6)
