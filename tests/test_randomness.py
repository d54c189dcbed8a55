"""Streams of random numbers: those of the solver tell nothing about the noise."""

import numpy as np
import pytest

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
