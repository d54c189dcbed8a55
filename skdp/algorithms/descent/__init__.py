"""Planned noisy gradient descent, with nothing to tune: the default of DPRidge and linear models.

The method "gradient" (`noisy_descent`), for ``delta > 0``. For ``delta = 0`` the default of DPRidge
is "statistics" (:mod:`skdp.algorithms.tuning.released_statistics`) where records are many enough.
"""

__all__: list[str] = []
