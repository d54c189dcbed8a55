"""What makes an estimator pay, wherever its fit runs."""

from __future__ import annotations

from typing import Any

from skdp.privacy.blocks import Block, active_blocks
from skdp.privacy.budget_accountant import BudgetAccountant, spend
from skdp.privacy.events import PrivacyEvent
from skdp.privacy.pipeline_steps import refuse_mixed_units, warn_of_steps_before


class AccountedMixin:
    """Mixin of private estimators: pay for a fit before it reads a record.

    An estimator has the parameter `accountant`, stands before ``BaseEstimator`` in the bases, and
    calls ``self._spend(plan.event)`` once, after its input was checked and before anything else is
    done with the records. A pickle carries the with-blocks that are open, for workers that were
    started earlier; so does a clone that is made there.
    """

    accountant: BudgetAccountant | None
    #: Name in the ledger of a part that another estimator fits; None: that of the class.
    _charged_as: str | None = None
    #: The with-blocks that the estimator was sent from.
    _sent_from: tuple[Block, ...] = ()

    def _spend(self, event: PrivacyEvent) -> None:
        """Pay for everything that a fit releases, or raise.

        Estimators around it that learn without privacy are warned of first.
        """
        warn_of_steps_before()
        if event.neighbouring is not None:
            refuse_mixed_units(type(self), event.neighbouring.unit)
        label = self._charged_as or type(self).__name__
        spend(event, self.accountant, label=label, carried=self._sent_from)

    def __getstate__(self) -> Any:
        state: dict[str, Any] = {**super().__getstate__()}  # type: ignore[dict-item]
        state.pop("_sent_from", None)
        blocks = active_blocks(self._sent_from)
        return {**state, "_sent_from": blocks} if blocks else state

    def __copy__(self) -> Any:
        copied = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def __sklearn_clone__(self) -> Any:
        cloned: Any = super().__sklearn_clone__()  # type: ignore[misc]
        if self._sent_from:
            cloned._sent_from = self._sent_from
        return cloned
