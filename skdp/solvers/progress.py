"""Progress of solves and of planned steps, for whoever holds the records."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from skdp._types import Verbose
from skdp.problems import Problem, SaddleProblem

if TYPE_CHECKING:
    from skdp.solvers.base import BaseSolver


def planned_steps(verbose: Verbose, name: str, n_steps: int) -> Iterator[int]:
    """Yield the numbers of planned steps, like `range`, and report how many are done.

    Each step is reported to a function, and each tenth of them is printed. What is reported, and
    when, depends on nothing but the name and the number of steps.
    """
    for step in range(n_steps):
        yield step
        if callable(verbose):
            verbose(name, step + 1, n_steps)
        elif verbose and 10 * (step + 1) // n_steps > 10 * step // n_steps:
            print(f"[skdp] {name}: {step + 1} of {n_steps} done", flush=True)


class Progress:
    """Reports the number of passes over the records every `interval` seconds."""

    def __init__(
        self,
        name: str,
        solver: BaseSolver,
        problem: Problem | SaddleProblem,
        accuracy: float,
        interval: float = 2.0,
        verbose: Verbose = 1,
    ) -> None:
        self.name, self.verbose = name, verbose
        self.n_records = max(1, problem.n_records)
        self.accuracy = accuracy
        try:
            self.limit = solver.pass_limit(problem, accuracy)
        except ArithmeticError:  # constants without a bound
            self.limit = math.inf
        self.interval = interval
        self._passes = 0.0
        self._next = time.monotonic() + interval

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
        """Print whether the accuracy was reached."""
        ended = "reached" if distance <= self.accuracy else "not reached, a trusted solver goes on"
        if error is not None:
            ended += f" ({error})"
        self._print(f"{self._passes:.0f} passes over the records, accuracy {ended}")

    def _print(self, message: str) -> None:
        if callable(self.verbose):
            self.verbose(self.name, self._passes, self.limit)
        else:
            print(f"[skdp] {self.name}: {message}", flush=True)
