"""Streams of random numbers: those of the solver tell nothing about the noise."""

import numpy as np
import pytest

from skdp import DPRidge
from skdp._estimator import randomness


@pytest.mark.parametrize(
    "make",
    [lambda: 3, lambda: np.random.default_rng(3), lambda: np.random.RandomState(3), lambda: None],
    ids=["integer", "Generator", "RandomState", "None"],
)
def test_solver_and_noise_have_streams_of_their_own(make):
    """A solver's draws may be seen, in the order of its batches; the noise must not follow."""
    solver, noise = randomness(make())
    of_noise = {noise.words(1)[0] for _ in range(2000)}
    of_solver = set(np.frombuffer(solver.bytes(16_000), np.uint64))
    assert not of_noise & of_solver


def fitted(random_state):
    model = DPRidge(data_norm=1.0, target_range=(-1, 1), method="output_perturbation")
    return model.set_params(random_state=random_state).fit(np.eye(9, 2), np.ones(9)).coef_


def test_system_noise_ignores_seeds_of_numpy():
    """Seeding numpy's global generator does not repeat the noise of ``random_state=None``."""
    state = np.random.get_state()  # noqa: NPY002
    try:
        points = []
        for _ in range(2):
            np.random.seed(0)  # noqa: NPY002
            points.append(fitted(None))
    finally:
        np.random.set_state(state)  # noqa: NPY002
    assert (points[0] != points[1]).all()


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_generators_decide_the_noise_and_move_on(make):
    """A generator gives reproducible noise, but never the same noise twice."""
    first, second = ([fitted(state) for _ in range(2)] for state in (make(3), make(3)))
    np.testing.assert_array_equal(first, second)
    assert (first[0] != first[1]).all()
