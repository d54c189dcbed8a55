"""Progress of long solves, for whoever holds the records."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from skdp.problems.counting import CountedLoss
from skdp.problems.losses import Loss

if TYPE_CHECKING:
    from skdp.problems import Problem, SaddleProblem
    from skdp.solvers.base import Solver
    from skdp.solvers.saddle.base import SaddleSolver

__all__ = ["Progress"]


class Progress:
    """Prints, now and then, how many passes over the records a solver has made.

    Parameters
    ----------
    name : str
    solver : Solver or SaddleSolver
    problem : Problem or SaddleProblem
        The solver's kind.
    accuracy : float
    interval : float, default=2.0
        Seconds between two lines, and before the first.
    """

    def __init__(
        self,
        name: str,
        solver: Solver | SaddleSolver,
        problem: Problem | SaddleProblem,
        accuracy: float,
        interval: float = 2.0,
    ) -> None:
        self.name = name
        self.n_records = max(1, problem.n_records)
        self.accuracy = accuracy
        try:
            self.limit = solver.pass_limit(problem, accuracy)  # type: ignore[arg-type]
        except ArithmeticError:  # constants without a bound
            self.limit = math.inf
        self.interval = interval
        self._passes = 0.0
        self._next = time.monotonic() + interval

    def watch(self, problem: Problem) -> None:
        """Have the evaluations of `problem`, an object of the solver's own, reported here."""
        loss = getattr(problem, "loss", None)
        if isinstance(loss, Loss):
            problem.loss = CountedLoss(loss, self.report)  # type: ignore[attr-defined]

    def report(self, gradients: int) -> None:
        """Receive the current gradient count."""
        self._passes = gradients / self.n_records
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self.interval
        rest = "no bound known"
        if math.isfinite(self.limit):
            rest = f"about {max(0.0, self.limit - self._passes):.0f} more before it gives up"
        self._print(f"{self._passes:.0f} passes over the records, {rest}")

    def close(self, distance: float, error: str | None = None) -> None:
        """Say how it ended."""
        ended = "reached" if distance <= self.accuracy else "not reached, a trusted solver goes on"
        if error is not None:
            ended += f" ({error})"
        self._print(f"{self._passes:.0f} passes over the records, accuracy {ended}")

    def _print(self, message: str) -> None:
        print(f"[skdp] {self.name}: {message}", flush=True)
