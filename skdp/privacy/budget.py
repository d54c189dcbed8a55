"""Privacy budgets."""

from __future__ import annotations

from dataclasses import dataclass

from skdp._checks import check_positive, check_real


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

    Examples
    --------
    >>> from skdp.privacy import PrivacyBudget
    >>> PrivacyBudget(1.0, 1e-6)
    PrivacyBudget(epsilon=1.0, delta=1e-06)
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        check_positive(epsilon=self.epsilon)
        check_real("delta", self.delta, 0.0, 1.0, closed="left")
        object.__setattr__(self, "epsilon", float(self.epsilon))
        object.__setattr__(self, "delta", float(self.delta))

    @property
    def is_pure(self) -> bool:
        return self.delta == 0.0
