"""Progress of long solves, for whoever holds the records."""

from __future__ import annotations

import math
import time

from skdp.problems.counting import CountedLoss
from skdp.problems.losses import Loss

__all__ = ["Progress"]


class Progress:
    """Prints, now and then, how many passes over the records a solver has made.

    Parameters
    ----------
    name : str
        Of the solver.
    n_records : int
    limit : float
        Public bound on the number of passes; ``inf`` if none is known.
    interval : float, default=2.0
        Seconds between two lines. The first comes after that time, so a short solve is
        silent.
    """

    def __init__(self, name: str, n_records: int, limit: float, interval: float = 2.0) -> None:
        self.name = name
        self.n_records = max(1, n_records)
        self.limit = limit
        self.interval = interval
        self._next = time.monotonic() + interval

    def watch(self, loss: Loss) -> CountedLoss:
        """The loss, reporting its evaluations here."""
        return CountedLoss(loss, self._report)

    def _report(self, gradients: int) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self.interval
        passes = gradients / self.n_records
        rest = "no bound known"
        if math.isfinite(self.limit):
            rest = f"at most {max(0.0, self.limit - passes):.0f} more"
        print(f"[skdp] {self.name}: {passes:.0f} passes over the records, {rest}", flush=True)
