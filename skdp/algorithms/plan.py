"""The frame of the private algorithms: a plan decides, a run carries it out.

A :class:`Plan` is made before a record is read. It is frozen and holds public numbers only, so
that an accountant can pay for its event first. :meth:`Plan.run` reads the records and returns a
:class:`Result`, all of whose parts have been released. Tables of methods
(:mod:`skdp.methods.choice`) make plans by name.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np

from skdp._types import Verbose
from skdp.algorithms.weight_noise import PlannedNoise, WeightNoise
from skdp.mechanisms import NoiseSource, secure_noise
from skdp.privacy.events import ComposedEvent, Neighbouring, PrivacyEvent, plain
from skdp.privacy.report import Release

#: Margins over noise below which a model is hardly better than a constant, and what is said then.
LEAST_MARGINS = 0.8
HARDLY_BETTER = "hardly better than a constant model is to be expected"
LARGE_NOISE = f"noise is large: {HARDLY_BETTER}"


class Run:
    """Solver, randomness and noise of a run; the guarantee does not depend on the solver.

    Parameters
    ----------
    solver : str, Solver or callable, default="auto"
        See :func:`skdp.solvers.resolve_solver`.
    rng : numpy.random.Generator, optional
        Randomness of solvers. Default: a fresh generator.
    noise : NoiseSource, optional
        Of the noise and of the secret orders of records. Default: the operating system's secure
        generator.
    verbose : int or callable, default=0
        1 prints the progress of planned steps and the ends of solves; a callable is called as
        ``(name, done, planned)`` in place of it.
    """

    def __init__(
        self,
        solver: Any = "auto",
        rng: np.random.Generator | None = None,
        noise: NoiseSource | None = None,
        verbose: Verbose = 0,
    ) -> None:
        self.solver = solver
        self.rng = np.random.default_rng() if rng is None else rng
        self.noise = secure_noise() if noise is None else noise
        self.verbose = verbose

    def counted(self, name: str, n_steps: int) -> Iterator[int]:
        """Yield the numbers of planned steps, like `range`, and report how many are done.

        Each step is reported to a function, and each tenth of them is printed. What is reported,
        and when, depends on nothing but the name and the number of steps.
        """
        for step in range(n_steps):
            yield step
            if callable(self.verbose):
                self.verbose(name, step + 1, n_steps)
            elif self.verbose and 10 * (step + 1) // n_steps > 10 * step // n_steps:
                print(f"[skdp] {name}: {step + 1} of {n_steps} done", flush=True)


#: Most numbers of one release: a fit holds up to about 32 vectors of that length, or 16 GB.
MOST_NUMBERS = 1 << 26


def check_memory(n_features: int, plan: Plan | None = None) -> None:
    """Refuse records, or a plan for them, whose vectors are too much to hold."""
    most = n_features
    for release in () if plan is None else plan.releases:
        most = max(most, release.dimension)
    if most > MOST_NUMBERS:
        raise ValueError(
            f"X has {n_features} columns, which are too many: a fit would release up to {most} "
            f"numbers, {MOST_NUMBERS} are allowed. Use fewer features, such as those of "
            "HashingVectorizer(n_features=2**18)."
        )


def require_replace_one(neighbouring: Neighbouring, name: str) -> None:
    """Refuse a relation that the sensitivities of an algorithm are not measured under."""
    if not neighbouring.is_replaced:
        raise ValueError(f"{name}: proven for neighbouring='replace_one' only.")


@dataclass(frozen=True, kw_only=True)
class Result:
    """The releases of a run.

    Attributes
    ----------
    point : ndarray of shape (dimension,)
    plan : Plan
        With the numbers that follow from earlier releases.
    path : sequence of ndarray, default=()
        Released points on the way to `point`, where there are several.
    noise : WeightNoise or None, default=None
        How far the noise moves the weights of a linear model, where releases tell it.
    transcript : object, default=None
        Released numbers that intervals of coefficients follow from, if they were asked for.
    """

    point: np.ndarray
    plan: Any
    path: Any = ()
    noise: WeightNoise | None = None
    transcript: Any = None


class Plan(ABC):
    """Everything that is decided before the records are read."""

    #: What a report shows: attributes, with dots those of parts, and with "name=" before them by
    #: another name than the last one. Attributes of a tuple are those of its items.
    shown: ClassVar[tuple[str, ...]] = ()

    @property
    @abstractmethod
    def releases(self) -> tuple[Release, ...]:
        """The statements about everything that leaves the algorithm."""

    @property
    def event(self) -> PrivacyEvent:
        """All releases as one event; it names the neighbouring relation."""
        return ComposedEvent(tuple(map(attrgetter("event"), self.releases)))

    def bound(self) -> float:
        """Public bound on the expected excess loss; ``inf`` where none is known."""
        return math.inf

    def planned_noise(self) -> PlannedNoise | None:
        """Noise of the coefficients on a reference design; None where none is known."""
        return None

    def alarms(self) -> tuple[str, ...]:
        """Warnings about the quality of the result, from public numbers."""
        return ()

    def found_alarms(self) -> tuple[str, ...]:
        """Warnings about the quality of the result, from what was released."""
        return ()

    def remarks(self) -> tuple[str, ...]:
        """Sentences for a report about how the result comes about."""
        return ()

    def to_dict(self) -> dict[str, Any]:
        """Return the public numbers of the plan as plain Python types."""
        numbers: dict[str, Any] = {}
        for each in self.shown:
            name, _, path = each.rpartition("=")
            value: Any = self
            for part in path.split("."):
                is_tuple = isinstance(value, tuple)
                value = tuple(getattr(v, part) for v in value) if is_tuple else getattr(value, part)
            numbers[name or part] = plain(value)
        return numbers

    @abstractmethod
    def run(self, data: Any, run: Run) -> Result:
        """Carry out the plan on records, or on a problem that they make."""
