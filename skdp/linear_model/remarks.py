"""Alarms of a report about the noise of a fit, from public numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from skdp.privacy.report import Release


def noise_alarms(
    releases: Iterable[Release], feature_norm: float, radius: float = math.inf
) -> Iterator[str]:
    """Yield a sentence for each release whose noise is larger than any value before noise.

    `feature_norm` bounds rows, the intercept feature included, and `radius` solutions.
    """
    for release in releases:
        # the norm of spherical Laplace noise is Gamma distributed
        pure = release.mechanism == "spherical_laplace"
        norm = release.noise_scale * (release.dimension if pure else math.sqrt(release.dimension))
        if release.name == "second moments":
            # of p (p + 1) / 2 entries: the norm of a symmetric matrix of them is about
            # 2 sqrt(p) times the deviation of one
            norm *= 2.0 / (2.0 * release.dimension) ** 0.25
            largest = feature_norm**2
            values = (
                f"in the moments has a norm of about {norm:.3g}, and those of the features have"
            )
        elif release.name == "coefficients" and release.mechanism != "exponential":
            largest = radius
            values = f"has a length of about {norm:.3g} and any solution"
        else:
            continue
        if norm > largest:
            yield f"The noise {values} at most {largest:.3g}: the result is mostly noise"
