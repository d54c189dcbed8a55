"""Public numbers of a run of DP-RGDA that the user chooses, apart from the budget and the sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from skdp._checks import check_bool, check_count, check_positive, check_real

#: Probability of a perturbation in the stuck region. It has nothing to do with privacy.
_FAILURE = 0.1
_POSITIVE = ("clip", "smoothness", "noise_ratio", "unit_y", "step_size", "step_size_y", "radius")


@dataclass(frozen=True, kw_only=True)
class EscapePhase:
    """Public numbers of the escape phase.

    Attributes
    ----------
    alpha : float
        A gradient below this norm starts the phase.
    step_size : float
        Of the steps in the phase.
    radius : float
        Of the ball of the random perturbation that it begins with.
    n_steps : int
        Steps after which the point at which it began is taken for a second-order point.
    movement : float
        Mean square of a step that ends the phase.
    """

    alpha: float
    step_size: float
    radius: float
    n_steps: int
    movement: float

    def __post_init__(self) -> None:
        for name in ("alpha", "step_size", "radius", "movement"):
            check_positive(**{name: getattr(self, name)})
        check_count("n_steps", self.n_steps)

    @property
    def noise_limit(self) -> float:
        """Norm of the gradient above which every escape phase ends at its first step."""
        return math.sqrt(self.movement) / self.step_size


def plan_escape_phase(
    alpha: float,
    *,
    dimension: int,
    smoothness: float,
    hessian_lipschitz: float,
) -> EscapePhase:
    """Choose the numbers of an escape phase for a target accuracy.

    Parameters
    ----------
    alpha : float
        Of an alpha-second-order point: gradient norm at most alpha, least eigenvalue of the
        Hessian at least ``-sqrt(hessian_lipschitz * alpha)``.
    dimension : int
        Of x.
    smoothness, hessian_lipschitz : float
        Lipschitz constants of gradient and Hessian of the value function.

    Notes
    -----
    The fixed point of the recipe in docs/theory/dp_rgda.md, "Corrections": it ends without noise,
    and with a little; whether it does depends on :attr:`EscapePhase.noise_limit`.
    """
    check_positive(alpha=alpha, smoothness=smoothness, hessian_lipschitz=hessian_lipschitz)
    check_count("dimension", dimension)
    curvature = math.sqrt(hessian_lipschitz * alpha)
    step_size = 0.5 / smoothness
    reach = 0.5 * curvature / hessian_lipschitz
    radius = reach
    for _ in range(100):
        growth = math.log(4.0 * reach * math.sqrt(dimension) / (_FAILURE * radius))
        n_steps = math.ceil(2.0 * growth / (step_size * curvature))
        movement = (reach / n_steps) ** 2
        radius = math.sqrt(movement) / (4.0 * step_size * smoothness)
    return EscapePhase(
        alpha=float(alpha), step_size=step_size, radius=radius, n_steps=n_steps, movement=movement
    )


@dataclass(frozen=True, kw_only=True)
class RGDASettings:
    """Steps, batches and clipping of DP-RGDA. They must be chosen without looking at the records.

    Parameters
    ----------
    n_steps : int
        Outer steps.
    period : int, default=1
        Every `period`-th step releases gradients anew. 1: there are no differences.
    inner_steps : int, default=1
        Ascent steps per outer step, each with a query; 1 for a linear dual.
    sampling_rate, sampling_rate_difference : float
        Of the Poisson batches of gradients and of differences; default: 1, and the same.
    clip : float, default=1.0
        Largest norm of a record's gradient (in x and y together), and of a difference of two.
    smoothness : float, default=1.0
        Differences of two gradients of a record are also clipped to `smoothness` times the distance
        of the two points.
    noise_ratio : float, default=1.0
        Noise of a difference over that of a gradient, each in units of its clipping norm.
    share_y : float, default=0.2
        Of the budget of a query, for the gradient in y of a linear dual.
    unit_y : float, default=1.0
        Clipping norm of the gradient in y of a linear dual, in units of `clip`.
    step_size : float, default=0.1
        Length of a descent step or, without `normalise`, factor of the gradient.
    step_size_y : float, default=0.1
    normalise : bool, default=True
    momentum : float, default=0.0
        In [0, 1): descent steps follow ``m <- momentum m + (1 - momentum) v``.
    decay : bool, default=False
        The length of descent steps falls linearly to 0 over the run.
    average : bool, default=False
        Return the mean of the second half of the x, not the last one, if no candidate was found.
    radius : float, default=1e6
        Of the ball that x is kept in.
    escape : EscapePhase, optional
        Default: none. See :func:`plan_escape_phase`.

    Raises
    ------
    TypeError, ValueError
        For invalid parameters.
    """

    n_steps: int
    period: int = 1
    inner_steps: int = 1
    sampling_rate: float = 1.0
    sampling_rate_difference: float | None = None
    clip: float = 1.0
    smoothness: float = 1.0
    noise_ratio: float = 1.0
    share_y: float = 0.2
    unit_y: float = 1.0
    step_size: float = 0.1
    step_size_y: float = 0.1
    normalise: bool = True
    momentum: float = 0.0
    decay: bool = False
    average: bool = False
    radius: float = 1e6
    escape: EscapePhase | None = None

    def __post_init__(self) -> None:
        check_count("n_steps", self.n_steps)
        check_count("period", self.period, 1, self.n_steps)
        check_count("inner_steps", self.inner_steps)
        for name in ("n_steps", "period", "inner_steps"):
            object.__setattr__(self, name, int(getattr(self, name)))
        for name in ("sampling_rate", "sampling_rate_difference"):
            if (rate := getattr(self, name)) is not None:
                check_real(name, rate, 0.0, 1.0, closed="right")
        for name in _POSITIVE:
            # wide, but products of them are far from the ends of double precision
            check_real(name, getattr(self, name), 1e-50, 1e50)
        check_real("share_y", self.share_y, 0.0, 1.0, closed="neither")
        check_real("momentum", self.momentum, 0.0, 1.0, closed="left")
        for name in ("normalise", "decay", "average"):
            check_bool(name, getattr(self, name))
        if not (self.escape is None or isinstance(self.escape, EscapePhase)):
            raise TypeError(f"escape must be an EscapePhase, got {self.escape!r}.")

    @property
    def n_queries(self) -> tuple[int, int]:
        """Largest numbers of released gradients and of released differences."""
        n_refresh = -(-self.n_steps // self.period)
        return n_refresh, self.n_steps * self.inner_steps - n_refresh
