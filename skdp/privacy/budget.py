"""What a user is willing to spend."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass

__all__ = ["PrivacyBudget"]


@dataclass(frozen=True)
class PrivacyBudget:
    """An (epsilon, delta) pair.

    Parameters
    ----------
    epsilon : float
        > 0 and finite.
    delta : float, default=0.0
        In [0, 1). 0 is pure epsilon-differential privacy.

    Raises
    ------
    TypeError, ValueError
        For values of the wrong kind or out of range.
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, numbers.Real):
                raise TypeError(f"{name} must be a real number, got {value!r}.")
            object.__setattr__(self, name, float(value))
        if not (self.epsilon > 0 and math.isfinite(self.epsilon)):
            raise ValueError(f"epsilon == {self.epsilon}, must be > 0 and finite.")
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta == {self.delta}, must be in [0, 1).")

    @property
    def is_pure(self) -> bool:
        return self.delta == 0.0
