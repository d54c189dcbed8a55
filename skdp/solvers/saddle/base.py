"""The contract of a saddle solver, and the one place where its word is checked.

As in :mod:`skdp.solvers.base`: a solver may be anything. What it returns is projected and
certified; if that does not reach the accuracy, trusted deterministic methods finish the job. The
last of them is the extragradient method, whose success is a theorem in exact arithmetic. A wrong
or lazy solver costs time, never privacy.
"""

from __future__ import annotations

import difflib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from skdp.solvers.certificates import Attempt
from skdp.solvers.gate import Described, own_copy, quietly, solver_name
from skdp.solvers.progress import Progress
from skdp.solvers.saddle.certificate import SaddlePoint, certify_saddle
from skdp.solvers.saddle.counting import counted

if TYPE_CHECKING:
    from skdp.problems import SaddleProblem

__all__ = [
    "CallableSaddleSolver",
    "Pair",
    "SaddleSolver",
    "resolve_saddle_solver",
    "solve_saddle_certified",
]

#: A point of both blocks.
Pair = tuple[np.ndarray, np.ndarray]


class SaddleSolver(Described, ABC):
    """Base class of non-private saddle solvers; :meth:`solve` need not be right."""

    @abstractmethod
    def solve(
        self, problem: SaddleProblem, accuracy: float, start: Pair, rng: np.random.Generator
    ) -> Pair:
        """Return a pair that should be within `accuracy` of the saddle point.

        Parameters
        ----------
        problem : SaddleProblem
        accuracy : float
            Wanted distance in the norm ``sqrt(mu_x ||x||^2 + mu_y ||y||^2)``.
        start : pair of ndarray
            Feasible point to start from.
        rng : numpy.random.Generator
            The solver's own randomness, apart from all privacy noise.

        Returns
        -------
        x, y : ndarray
            The gate certifies their forward-backward image, see
            :func:`skdp.solvers.saddle.certify_saddle`.
        """

    def check_supports(self, problem: SaddleProblem) -> None:
        """Raise a ValueError if the solver is not made for the problem, by what is public.

        Called before any work. Default: it is made for all of them.
        """

    def pass_limit(self, problem: SaddleProblem, accuracy: float) -> float:
        """Public limit of the passes over the records, roughly; ``inf`` where none is known.

        For progress messages only. A pass is as many operators as there are records.
        """
        return math.inf


@dataclass(frozen=True)
class CallableSaddleSolver(SaddleSolver):
    """Adapter for a function ``(problem, accuracy) -> (x, y)``."""

    function: Callable[[SaddleProblem, float], Pair]

    def solve(
        self, problem: SaddleProblem, accuracy: float, start: Pair, rng: np.random.Generator
    ) -> Pair:
        return self.function(problem, accuracy)


def resolve_saddle_solver(
    solver: str | SaddleSolver | Callable[[SaddleProblem, float], Pair],
) -> SaddleSolver:
    """Turn a name, a solver or a callable into a :class:`SaddleSolver`.

    Raises
    ------
    ValueError
        For an unknown name or anything else.
    """
    # imported here: these modules build on the contract above
    from skdp.solvers.saddle.auto import Auto
    from skdp.solvers.saddle.best_response import BestResponse
    from skdp.solvers.saddle.catalyst import Catalyst
    from skdp.solvers.saddle.extragradient import Extragradient
    from skdp.solvers.saddle.gda import GDA
    from skdp.solvers.saddle.lsvre import LSVRE
    from skdp.solvers.saddle.saga import SaddleSAGA
    from skdp.solvers.saddle.svrg import AcceleratedSaddleSVRG, SaddleSVRG

    names: dict[str, type[SaddleSolver]] = {
        "auto": Auto,
        "best_response": BestResponse,
        "extragradient": Extragradient,
        "gda": GDA,
        "svrg": SaddleSVRG,
        "saga": SaddleSAGA,
        "lsvre": LSVRE,
        "accelerated_svrg": AcceleratedSaddleSVRG,
        "catalyst": Catalyst,
    }
    if isinstance(solver, SaddleSolver):
        return solver
    if isinstance(solver, str) and solver in names:
        return names[solver]()
    if callable(solver) and not isinstance(solver, type):
        return CallableSaddleSolver(solver)
    hint = ""
    if isinstance(solver, type):
        hint = f" Pass an object, {solver.__name__}(), not the class."
    elif isinstance(solver, str):
        close = difflib.get_close_matches(solver.lower(), names, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
    raise ValueError(
        f"solver == {solver!r}, must be one of {sorted(names)}, a SaddleSolver or a callable "
        f"(problem, accuracy) -> (x, y).{hint}"
    )


def solve_saddle_certified(
    problem: SaddleProblem,
    accuracy: float,
    solver: str | SaddleSolver | Callable[[SaddleProblem, float], Pair] = "auto",
    start: Pair | None = None,
    rng: np.random.Generator | None = None,
    verbose: int = 0,
) -> SaddlePoint:
    """Run `solver`, check its answer, and finish the job with a trusted method if needed.

    Parameters
    ----------
    problem : SaddleProblem
    accuracy : float
        Distance to the saddle point, in the norm ``sqrt(mu_x ||x||^2 + mu_y ||y||^2)``, that the
        returned pair is proven to have.
    solver : str, SaddleSolver or callable, default="auto"
        A copy of it is run, on an object of its own with read-only arrays.
    start : pair of ndarray, optional
        Default: the projected centres of the regularisers.
    rng : numpy.random.Generator, optional
    verbose : int, default=0
        1 prints the progress of long solves. How much is printed depends on the records: it
        is for whoever holds them, and must not be published.

    Returns
    -------
    SaddlePoint
        Its `attempts` tell who found the pair.

    Raises
    ------
    ValueError
        If the solver is not made for the problem.
    RuntimeError
        If `accuracy` is below what double precision can certify. Plans rule this out beforehand,
        see :func:`certifiable_saddle_accuracy`.
    """
    from skdp.solvers.saddle.auto import Auto  # it builds on this module

    if not accuracy > 0:
        raise ValueError(f"accuracy == {accuracy}, must be > 0.")
    chosen = resolve_saddle_solver(solver)
    if isinstance(chosen, Auto):
        chosen = chosen.choice(problem)
    own_copy(chosen).check_supports(problem)
    constants = problem.constants
    if 0.5 * constants.diameter <= accuracy:  # a public decision: the centres will do
        x = problem.domain_x.center(constants.x.dimension)
        y = problem.domain_y.center(constants.y.dimension)
        return SaddlePoint(x, y, 0.5 * constants.diameter)
    begin = problem.start() if start is None else _as_pair(problem, start)
    rng = np.random.default_rng() if rng is None else rng
    best: SaddlePoint | None = None
    attempts: tuple[Attempt, ...] = ()
    for method in (chosen, *_trusted_solvers(problem, chosen)):
        name = solver_name(method, getattr(method, "function", None))  # it has seen nothing yet
        given = problem.for_solver()
        progress = Progress(name, method, problem, accuracy) if verbose else None
        if progress is not None:
            given = counted(given, progress.report)
        if best is not None and best.distance < certify_saddle(problem, *begin).distance:
            begin = best.x, best.y
        found, error = quietly(partial(_certified, problem, given, accuracy, method, begin, rng))
        reached = math.inf if found is None else found.distance
        attempts += (Attempt(name, reached, error),)
        if progress is not None:
            progress.close(reached, error)
        if found is not None and (best is None or reached <= best.distance):
            best = found
        if best is not None and best.distance <= accuracy:
            return replace(best, attempts=attempts)
    raise RuntimeError(
        f"The accuracy {accuracy:g} cannot be certified in double precision for this problem."
    )


def _trusted_solvers(problem: SaddleProblem, chosen: SaddleSolver) -> list[SaddleSolver]:
    # imported here: these modules build on the contract above
    from skdp.solvers.saddle.auto import newton_pays
    from skdp.solvers.saddle.best_response import BestResponse
    from skdp.solvers.saddle.extragradient import Extragradient

    trusted: list[SaddleSolver] = [Extragradient()]  # its success is a theorem
    if newton_pays(problem) and not isinstance(chosen, BestResponse):
        trusted.insert(0, BestResponse("newton"))
    return trusted


def _certified(
    problem: SaddleProblem,
    given: SaddleProblem,
    accuracy: float,
    solver: SaddleSolver,
    start: Pair,
    rng: np.random.Generator,
) -> SaddlePoint:
    """The solver's answer to `given`, certified for `problem`."""
    begin = start[0].copy(), start[1].copy()
    x, y = _as_pair(problem, own_copy(solver).solve(given, accuracy, begin, rng))
    return certify_saddle(problem, x, y)


def _as_pair(problem: SaddleProblem, answer: Any) -> Pair:
    """Own, finite, feasible arrays of the right lengths; ValueError or TypeError if impossible."""
    x, y = answer
    constants = problem.constants
    pair = []
    for block, length in ((x, constants.x.dimension), (y, constants.y.dimension)):
        if block is None:
            raise TypeError("a block is None.")
        vector = np.array(block, dtype=np.float64).ravel().copy()
        if vector.shape != (length,) or not np.isfinite(vector).all():
            raise ValueError(f"a block has {vector.size} numbers; {length} finite ones are needed.")
        pair.append(vector)
    return problem.project(pair[0], pair[1])
