"""Tell the values 0 and 1 apart by the lowest bits of noisy releases (Mironov 2012).

``python tests/support/lowest_bits.py`` prints how often the attack is right for sums in double
precision and for releases on the grid.
"""

import os

import numpy as np

from skdp.mechanisms import GaussianMechanism, NoiseSource

#: Deviation of the noise: the laws of the releases from 0 and from 1 differ by 0.004.
SCALE = 100.0


def naive_releases(value, size, seed):
    """Add normal noise in double precision."""
    return value + SCALE * np.random.default_rng(seed).normal(size=size)


def grid_releases(value, size, random_bytes):
    """Add normal noise by the mechanism of this package."""
    mechanism = GaussianMechanism(1.0, SCALE)
    return mechanism.release(np.full(size, float(value)), NoiseSource(random_bytes))


def says_zero(released):
    """Guess 0, not 1, if a small release is no multiple of 2^-53, as sums of 1 and noise are."""
    small = released[np.abs(released) < 2.0**-6]
    return small * 2.0**53 != np.rint(small * 2.0**53)


def main(size=4_000_000):
    for name, release in (
        ("sums in double precision", lambda value: naive_releases(value, size, seed=value)),
        ("releases on the grid", lambda value: grid_releases(value, size, os.urandom)),
    ):
        zero, one = (says_zero(release(value)) for value in (0, 1))
        print(
            f"{name}: says 0 for {zero.mean():.1%} of {len(zero)} small releases from 0, and for "
            f"{one.mean():.1%} of {len(one)} from 1"
        )


if __name__ == "__main__":
    main()
