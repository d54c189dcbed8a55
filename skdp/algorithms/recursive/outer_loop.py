"""Outer loop of DP-RGDA: normalised descent, and an escape phase at small gradients.

It sees released gradients and public numbers only, so it costs no budget. Xu et al. (2026), Alg. 2,
corrected: only the last step of an escape phase is shrunk, and a point that was escaped from is not
returned (docs/theory/dp_rgda.md, "Corrections").
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from skdp._checks import check_count, check_positive, check_real

Status = Literal["sosp_candidate", "max_iter"]


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
    failure: float = 0.1,
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
    failure : float, default=0.1
        Probability of a perturbation in the stuck region. It has nothing to do with privacy.

    Notes
    -----
    The fixed point of the recipe in docs/theory/dp_rgda.md, "Corrections": it ends without noise,
    and with a little; whether it does depends on :attr:`EscapePhase.noise_limit`.
    """
    check_positive(alpha=alpha, smoothness=smoothness, hessian_lipschitz=hessian_lipschitz)
    check_count("dimension", dimension)
    check_real("failure", failure, 0.0, 1.0, closed="neither")
    curvature = math.sqrt(hessian_lipschitz * alpha)
    step_size = 0.5 / smoothness
    reach = 0.5 * curvature / hessian_lipschitz
    radius = reach
    for _ in range(100):
        growth = math.log(4.0 * reach * math.sqrt(dimension) / (failure * radius))
        n_steps = math.ceil(2.0 * growth / (step_size * curvature))
        movement = (reach / n_steps) ** 2
        radius = math.sqrt(movement) / (4.0 * step_size * smoothness)
    return EscapePhase(
        alpha=float(alpha), step_size=step_size, radius=radius, n_steps=n_steps, movement=movement
    )


class OuterLoop:
    """The state of x; :meth:`move` takes one step along a released gradient.

    Parameters
    ----------
    start : ndarray
    step_size : float
        Length of a descent step or, without `normalise`, factor of the gradient.
    normalise : bool
    escape : EscapePhase or None
        None: never leaves the descent phase.
    radius : float
        Of the ball that x is kept in; it is public.
    rng : numpy.random.Generator
        Of the perturbation, which is no privacy noise.
    momentum : float, default=0.0
        In [0, 1): descent steps follow the mean ``m <- momentum m + (1 - momentum) v``.
    horizon : int, optional
        The length of descent steps falls linearly to 0 over so many steps. Default: it is constant.

    Attributes
    ----------
    x : ndarray
    status : {"sosp_candidate", "max_iter"}
    phase : {"descent", "escape"}
    anchor : (ndarray, ndarray) or None
        Where the escape phase began.
    moved : float
        Sum of the squared steps of the escape phase.
    """

    def __init__(
        self,
        start: np.ndarray,
        step_size: float,
        normalise: bool,
        escape: EscapePhase | None,
        radius: float,
        rng: np.random.Generator,
        momentum: float = 0.0,
        horizon: int | None = None,
    ) -> None:
        self.momentum, self.horizon = momentum, horizon
        self._mean, self._step = np.zeros_like(start), 0
        self.x, self._start = start, start
        self.step_size, self.normalise = step_size, normalise
        self.escape, self.radius, self.rng = escape, radius, rng
        self.status: Status = "max_iter"
        self.phase: Literal["descent", "escape"] = "descent"
        self.anchor: tuple[np.ndarray, np.ndarray] | None = None
        self.moved, self._n_steps, self._since = 0.0, 0, 0

    @property
    def is_done(self) -> bool:
        return self.status == "sosp_candidate"

    def move(self, y: np.ndarray, v: np.ndarray) -> None:
        """Take one step from x, where (y, v) were released: a dual point and the gradient in x."""
        norm = float(np.linalg.norm(v))
        if not math.isfinite(norm):  # before the next look at the records
            v, norm = np.zeros_like(v), 0.0
        self._mean = self.momentum * self._mean + (1.0 - self.momentum) * v
        if self.phase == "descent":
            self._descend(y, norm)
        else:
            self._escape(v, norm)
        self._step += 1
        if not self.is_done:
            self.x = kept_in_ball(self.x, self.radius, self._start)

    def _descend(self, y: np.ndarray, norm: float) -> None:
        if self.escape is None or norm >= self.escape.alpha:
            length = float(np.linalg.norm(self._mean)) if self.normalise else 1.0
            left = 1.0 if self.horizon is None else max(0.0, 1.0 - self._step / self.horizon)
            self.x = self.x - (self.step_size * left / max(length, 1e-300)) * self._mean
            return
        self.anchor = self.x, y
        self.phase, self.moved, self._n_steps, self._since = "escape", 0.0, 0, 0
        self.x = self.x + uniform_in_ball(self.x.size, self.escape.radius, self.rng)

    def _escape(self, v: np.ndarray, norm: float) -> None:
        assert self.escape is not None and self.anchor is not None
        self._since += 1
        step, allowed = self.escape.step_size, self._since * self.escape.movement
        square = (step * norm) ** 2
        if self.moved + square > allowed:  # moved enough: only this step is shrunk
            self.x = self.x - (math.sqrt(allowed - self.moved) / norm) * v
            self.moved, self.phase = allowed, "descent"
            return
        self.moved += square
        self.x = self.x - step * v
        self._n_steps += 1
        if self._n_steps == self.escape.n_steps:
            self.x, self.status = self.anchor[0], "sosp_candidate"


def uniform_in_ball(dimension: int, radius: float, rng: np.random.Generator) -> np.ndarray:
    """Draw a uniformly distributed point of a ball."""
    direction = rng.standard_normal(dimension)
    length = radius * rng.random() ** (1.0 / dimension)
    return np.asarray(length * direction / max(float(np.linalg.norm(direction)), 1e-300))


def kept_in_ball(x: np.ndarray, radius: float, fallback: np.ndarray) -> np.ndarray:
    """Project onto a ball around 0; a point that is not finite becomes `fallback`."""
    norm = float(np.linalg.norm(x))
    return x * (radius / max(norm, radius)) if math.isfinite(norm) else fallback
