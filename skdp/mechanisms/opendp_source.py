"""Normal noise by the sampler of OpenDP, an optional package.

OpenDP adds discrete Gaussian noise on a grid. That is another law than that of rounded normal
noise, by less than any number that matters, and the value is rounded to the grid first. Theorem 2
of docs/theory/noise.md says what holds then.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager

import numpy as np

from skdp.mechanisms.noise_source import SECURE, NoiseSource

#: Base-2 logarithm of the noise in steps of the grid, and the least one of a step.
LOG_STEPS, _LEAST_LOG = 160, -1074
#: Growth of the noise, for the rounding of values to the grid.
GROWTH = 1.0 + 2.0**-29


class OpenDPNoise(NoiseSource):
    """Noise source whose normal noise is that of ``opendp.measurements.make_gaussian``.

    All other draws are those of :class:`~skdp.mechanisms.NoiseSource`: OpenDP has no spherical
    Laplace noise, and none of the draws of which only as many bits are known as are needed. So it
    makes a difference for ``delta > 0``. It always draws from OpenDP's own secure generator.

    Raises
    ------
    ImportError
        Without the package: ``pip install skdp[opendp]``.
    """

    name = "opendp"

    def __init__(self) -> None:
        super().__init__()
        try:
            from opendp import domains, measurements, metrics
            from opendp.mod import enable_features
        except ImportError as error:
            raise ImportError(
                "OpenDPNoise requires opendp. You can install it with `pip install skdp[opendp]`."
            ) from error
        enable_features("contrib")
        self._opendp = domains, metrics, measurements

    def reserve(self, size: int) -> None:
        """Draw nothing ahead: the draws are OpenDP's."""

    def add_normal(self, value: np.ndarray, scale: float) -> np.ndarray:
        """Add discrete Gaussian noise of scale ``(1 + 2^-29) scale`` on a grid.

        The step is 2^-160 of the scale. Scales below 2^-914 are refused.
        """
        if not value.size:
            return value.copy()
        log_step = math.frexp(scale)[1] - 1 - LOG_STEPS
        if not (log_step >= _LEAST_LOG and scale <= 1e290):
            raise ValueError(f"the noise has a scale of {scale:g}: OpenDP needs [2^-914, 1e290].")
        domains, metrics, measurements = self._opendp
        numbers = domains.atom_domain(T=float, nan=False)
        add = measurements.make_gaussian(
            domains.vector_domain(numbers, size=value.size),
            metrics.l2_distance(T=float),
            scale=scale * GROWTH,
            k=log_step,
        )
        # what is no number must not end in an error, which would depend on the records
        return np.array(add(np.nan_to_num(value).tolist())) + 0.0


def opendp_noise() -> AbstractContextManager[None]:
    """Draw the normal noise of all fits in a ``with`` block by OpenDP.

    It holds in the thread of the block: fits in other threads and processes keep the noise of this
    package, and so do estimators with a `random_state`, and the linear term of
    ``method="objective"``. The report of a fit says which it was: ``privacy_.noise_source``.

    Raises
    ------
    ImportError
        Without the package: ``pip install skdp[opendp]``.

    See Also
    --------
    OpenDPNoise : For the algorithms below the estimators: ``Run(noise=OpenDPNoise())``.
    """
    OpenDPNoise()
    return SECURE.holding(OpenDPNoise)
