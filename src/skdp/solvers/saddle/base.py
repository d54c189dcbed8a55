"""The contract of a saddle solver, and the one place where its word is checked.

As in :mod:`skdp.solvers.base`: a solver may be anything. What it returns is projected and
certified; if that does not reach the accuracy, the extragradient method, whose success is a
theorem, finishes the job. A wrong or lazy solver costs time, never privacy.
"""

from __future__ import annotations

import difflib
import inspect
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skdp.solvers.base import own_copy
from skdp.solvers.certificates import Attempt
from skdp.solvers.saddle.certificate import SaddlePoint, certify_saddle

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


class SaddleSolver(ABC):
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

    def __repr__(self) -> str:
        known = inspect.signature(type(self)).parameters
        shown = [
            f"{name}={value!r}"
            for name, value in vars(self).items()
            if name in known and repr(value) != repr(known[name].default)
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


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
    from skdp.solvers.saddle.extragradient import Extragradient
    from skdp.solvers.saddle.gda import GDA
    from skdp.solvers.saddle.lsvre import LSVRE
    from skdp.solvers.saddle.saga import SaddleSAGA
    from skdp.solvers.saddle.svrg import AcceleratedSaddleSVRG, SaddleSVRG

    names: dict[str, type[SaddleSolver]] = {
        "auto": Extragradient,
        "extragradient": Extragradient,
        "gda": GDA,
        "svrg": SaddleSVRG,
        "saga": SaddleSAGA,
        "lsvre": LSVRE,
        "accelerated_svrg": AcceleratedSaddleSVRG,
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

    Returns
    -------
    SaddlePoint
        Its `attempts` tell who found the pair.

    Raises
    ------
    RuntimeError
        If `accuracy` is below what double precision can certify. Plans rule this out beforehand,
        see :func:`certifiable_saddle_accuracy`.
    """
    from skdp.solvers.saddle.extragradient import Extragradient

    if not accuracy > 0:
        raise ValueError(f"accuracy == {accuracy}, must be > 0.")
    chosen = resolve_saddle_solver(solver)
    constants = problem.constants
    if 0.5 * constants.diameter <= accuracy:  # a public decision: the centres will do
        x = problem.domain_x.center(constants.dimension_x)
        y = problem.domain_y.center(constants.dimension_y)
        return SaddlePoint(x, y, 0.5 * constants.diameter)
    given = problem.start() if start is None else _as_pair(problem, start)
    rng = np.random.default_rng() if rng is None else rng
    best: SaddlePoint | None = None
    attempts: tuple[Attempt, ...] = ()
    for method in (chosen, Extragradient()):
        name = _name(method)  # before it has seen anything
        begin = given
        if best is not None and best.distance < certify_saddle(problem, *given).distance:
            begin = best.x, best.y
        found, error = _attempt(problem, accuracy, method, begin, rng)
        reached = math.inf if found is None else found.distance
        attempts += (Attempt(name, reached, error),)
        if found is not None and (best is None or reached <= best.distance):
            best = found
        if best is not None and best.distance <= accuracy:
            return replace(best, attempts=attempts)
    raise RuntimeError(
        f"The accuracy {accuracy:g} cannot be certified in double precision for this problem."
    )


def _attempt(
    problem: SaddleProblem,
    accuracy: float,
    solver: SaddleSolver,
    start: Pair,
    rng: np.random.Generator,
) -> tuple[SaddlePoint | None, str | None]:
    """What the solver makes of an object of its own, certified, or why there is nothing."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # a convergence warning depends on the records
        try:
            begin = start[0].copy(), start[1].copy()
            answer = own_copy(solver).solve(problem.for_solver(), accuracy, begin, rng)
            x, y = _as_pair(problem, answer)
            return certify_saddle(problem, x, y), None
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever a foreign solver raises depends on the records
            return None, f"{type(error).__name__}: {error}"


def _as_pair(problem: SaddleProblem, answer: Any) -> Pair:
    """Own, finite, feasible arrays of the right lengths; ValueError or TypeError if impossible."""
    x, y = answer
    constants = problem.constants
    pair = []
    for block, length in ((x, constants.dimension_x), (y, constants.dimension_y)):
        if block is None:
            raise TypeError("a block is None.")
        vector = np.array(block, dtype=np.float64).ravel().copy()
        if vector.shape != (length,) or not np.isfinite(vector).all():
            raise ValueError(f"a block has {vector.size} numbers; {length} finite ones are needed.")
        pair.append(vector)
    return problem.project(pair[0], pair[1])


def _name(solver: SaddleSolver) -> str:
    if isinstance(solver, CallableSaddleSolver):
        function = solver.function
        return str(getattr(function, "__qualname__", type(function).__name__))
    try:
        return repr(solver)[:200]
    except Exception:
        return type(solver).__name__
