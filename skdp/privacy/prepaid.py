"""Releases that were paid for together before the first of them.

A private selection is charged once, for the best of its draws. Its draws then release within a
limit that holds for each of them, and ledgers hear no more of them: how many there were stays
secret.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import threading
from collections.abc import Iterator
from typing import ClassVar

from skdp.privacy.accountants import GaussianDPAccountant, PureAccountant, UnsupportedEventError
from skdp.privacy.events import PrivacyEvent


class Rehearsed(Exception):
    """A rehearsal has reached its last payment."""


class Prepaid:
    """A limit for the releases of one draw.

    Parameters
    ----------
    limit : float
        On mu of Gaussian differential privacy; on epsilon if `is_pure`.
    is_pure : bool
    n_payments : int or None, default=None
        A rehearsal: raise :class:`Rehearsed` instead of the last of so many payments.
    """

    _current: ClassVar[contextvars.ContextVar[tuple[Prepaid, int, int] | None]]

    def __init__(self, limit: float, is_pure: bool, n_payments: int | None = None) -> None:
        self._limit, self._is_pure, self._left = limit, is_pure, n_payments
        self._spent = PureAccountant() if is_pure else GaussianDPAccountant()

    @contextlib.contextmanager
    def paying(self) -> Iterator[None]:
        """Inside of this block, releases of this thread are within the limit, or refused."""
        token = Prepaid._current.set((self, threading.get_ident(), os.getpid()))
        try:
            yield
        finally:
            Prepaid._current.reset(token)

    def cover(self, event: PrivacyEvent, label: str) -> None:
        """Take an event off the limit.

        Raises
        ------
        ValueError
            If it is above the limit, or of a kind that the price of a selection does not cover.
        Rehearsed
            At the last payment of a rehearsal.
        """
        kind = "pure" if self._is_pure else "Gaussian-DP"
        try:
            self._spent.compose(event)
        except UnsupportedEventError as error:
            raise ValueError(
                f"{label or 'A release'} is not {kind}: a selection among its draws has no price. "
                "Choose another method for it, or another delta for the search."
            ) from error
        spent = self._spent
        total = spent.mu if isinstance(spent, GaussianDPAccountant) else spent.total
        if total > self._limit * (1.0 + 1e-9):
            raise ValueError(
                f"{label or 'A release'} costs more than one draw may: each private part must be "
                "fitted once in a draw, with the epsilon that it was given."
            )
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                raise Rehearsed


Prepaid._current = contextvars.ContextVar("skdp_prepaid", default=None)


def prepaid() -> Prepaid | None:
    """Return the limit that releases of this thread are within; None: each pays for itself."""
    current = Prepaid._current.get()
    # some threads and processes inherit it
    if current is None or current[1:] != (threading.get_ident(), os.getpid()):
        return None
    return current[0]
