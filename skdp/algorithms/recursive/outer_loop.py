"""Outer loop of DP-RGDA: normalised descent, and an escape phase at small gradients.

It sees released gradients and public numbers only, so it costs no budget. Xu et al. (2026), Alg. 2,
corrected: only the last step of an escape phase is shrunk, and a point that was escaped from is not
returned (docs/theory/dp_rgda.md, "Corrections").
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from skdp.algorithms.recursive.settings import RGDASettings

Status = Literal["sosp_candidate", "max_iter"]


class OuterLoop:
    """The state of x; :meth:`move` takes one step along a released gradient.

    Descent steps follow the mean ``m <- momentum m + (1 - momentum) v``. The generator draws the
    perturbation, which is no privacy noise.
    """

    def __init__(self, start: np.ndarray, settings: RGDASettings, rng: np.random.Generator) -> None:
        self.settings, self.escape, self.rng = settings, settings.escape, rng
        self._mean, self._step = np.zeros_like(start), 0
        self.x, self._start = start, start
        self.status: Status = "max_iter"
        self.phase: Literal["descent", "escape"] = "descent"
        #: Where the escape phase began.
        self.anchor: tuple[np.ndarray, np.ndarray] | None = None
        #: Sum of the squared steps of the escape phase.
        self.moved = 0.0
        self._n_steps, self._since = 0, 0

    @property
    def is_done(self) -> bool:
        return self.status == "sosp_candidate"

    def move(self, y: np.ndarray, v: np.ndarray) -> None:
        """Take one step from x, where (y, v) were released: a dual point and the gradient in x."""
        norm = float(np.linalg.norm(v))
        if not math.isfinite(norm):  # before the next look at the records
            v, norm = np.zeros_like(v), 0.0
        momentum = self.settings.momentum
        self._mean = momentum * self._mean + (1.0 - momentum) * v
        if self.phase == "descent":
            self._descend(y, norm)
        else:
            self._escape(v, norm)
        self._step += 1
        if not self.is_done:
            self.x = kept_in_ball(self.x, self.settings.radius, self._start)

    def _descend(self, y: np.ndarray, norm: float) -> None:
        if self.escape is None or norm >= self.escape.alpha:
            settings = self.settings
            length = float(np.linalg.norm(self._mean)) if settings.normalise else 1.0
            left = max(0.0, 1.0 - self._step / settings.n_steps) if settings.decay else 1.0
            self.x = self.x - (settings.step_size * left / max(length, 1e-300)) * self._mean
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
