"""What every estimator does with its parameter `random_state`."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from skdp._checks import shown
from skdp.mechanisms import NoiseSource, secure_noise


def check_random_state(random_state: Any) -> None:
    """Refuse anything but None, an integer >= 0 and numpy's generators."""
    if isinstance(random_state, numbers.Integral) and not isinstance(random_state, bool):
        if random_state < 0:
            raise ValueError(f"random_state == {shown(random_state)}, must be >= 0.")
    elif not isinstance(random_state, (type(None), np.random.RandomState, np.random.Generator)):
        raise ValueError(
            f"random_state == {shown(random_state)}, must be None, an integer or a numpy generator."
        )


def randomness(random_state: Any) -> tuple[np.random.Generator, NoiseSource]:
    """Return separate generators for the solver and for the noise."""
    check_random_state(random_state)
    if random_state is None:
        return np.random.default_rng(), secure_noise()
    if isinstance(random_state, (np.random.RandomState, np.random.Generator)):
        entropy: Any = np.frombuffer(random_state.bytes(32), dtype=np.uint32).tolist()
    else:
        entropy = int(random_state)
    for_noise, for_solver = np.random.SeedSequence(entropy).spawn(2)
    return np.random.default_rng(for_solver), NoiseSource(np.random.default_rng(for_noise).bytes)
