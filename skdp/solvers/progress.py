"""Progress of solves and of planned steps, for whoever holds the records."""

from __future__ import annotations

from collections.abc import Iterator

from skdp._types import Verbose


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


def report_attempt(verbose: Verbose, name: str, is_reached: bool, error: str | None) -> None:
    """Report that a solver has ended; it depends on the records."""
    if callable(verbose):
        verbose(name, 1.0, 1.0)
    elif verbose:
        ended = "reached" if is_reached else "not reached, a trusted solver goes on"
        print(f"[skdp] {name}: accuracy {ended}" + f" ({error})" * bool(error), flush=True)
