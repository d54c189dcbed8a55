"""Noisy gradient steps on all records: their number, size, momentum and noise.

Every step releases a sum of clipped gradients of the records with Gaussian noise. The number of
steps and all their noise are fixed before the first one, so the steps together cost one Gaussian
release: with multipliers c_t, ``sum_t 1 / c_t^2 = mu^2`` (docs/theory/noisy_gradient_descent.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from skdp.algorithms.descent import rules
from skdp.mechanisms import GaussianMechanism, NoiseSource

#: Number of curvatures up to which it is faster to follow one by one.
_FEW = 16
#: Norm that no iterate exceeds, in units of the targets: margins of finite rows stay finite.
WEIGHT_LIMIT = 1e6


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Noisy steps with momentum, of which the iterates are averaged.

    Attributes
    ----------
    n_steps : int
        A multiple of `n_blocks`.
    n_blocks : int
        Step t uses block ``t mod n_blocks``; secret labels divide the records into them.
    step_size, momentum : float
    mu : float
        Of the Gaussian differential privacy of all steps together, for each record.
    is_preconditioned : bool, default=False
    curvatures : tuple of float, default=(0.0,)
        Of the directions that the noise is fitted to.
    is_accelerated : bool, default=False
        Whether step sizes and momentum grow as in the nu-method with nu = 1/2. `step_size` is then
        a bound on the inverse of curvatures, `momentum` 0.
    n_skipped : int, default=0
        Number of the first iterates, which are not averaged.
    """

    n_steps: int
    n_blocks: int
    step_size: float
    momentum: float
    mu: float
    is_preconditioned: bool = False
    curvatures: tuple[float, ...] = (0.0,)
    is_accelerated: bool = False
    n_skipped: int = 0

    @property
    def n_averaged(self) -> float:
        """Number by which the sum of the iterates is divided.

        With a preconditioner the first step reaches the optimum in most directions, and momentum
        goes beyond it: errors add up to `momentum` times the optimum.
        """
        averaged = self.n_steps - self.n_skipped
        return averaged + (self.momentum if self.is_preconditioned else 0.0)

    @cached_property
    def recursion(self) -> tuple[list[float], list[float]]:
        """Factors of the previous change of the weights and of the gradient, for each step."""
        if not self.is_accelerated:
            return [self.momentum] * self.n_steps, [self.step_size] * self.n_steps
        k = np.arange(1.0, self.n_steps + 1.0)
        momenta = (2.0 * k - 3.0) / (2.0 * k + 1.0)  # the first change has no previous one
        return momenta.tolist(), (4.0 * self.step_size * (2.0 * k - 1.0) / (2.0 * k + 1.0)).tolist()

    @property
    def path(self) -> float:
        """Length that the steps would go along a constant gradient of norm 1, about."""
        if self.is_accelerated:
            return _accelerated_path(self.n_steps) * self.step_size
        return self.n_steps * self.step_size / (1.0 - self.momentum)

    @cached_property
    def multipliers(self) -> np.ndarray:
        """Standard deviation of each step's noise in units of the sensitivity of its sum.

        ``1 / c_t^2`` is proportional to the weight of the noise of step t in the average, in the
        mean over `curvatures`. It is the same for the `n_blocks` steps of a cycle and adds up to
        ``mu^2`` over the steps of a block.
        """
        weights = np.abs(self.noise_weights(np.array(self.curvatures)))
        shares = (weights / weights.sum(axis=0)).sum(axis=1)
        shares = shares.reshape(-1, self.n_blocks).mean(axis=1)
        return np.repeat(np.sqrt(shares.sum() / shares) / self.mu, self.n_blocks)

    def noise_weights(self, curvatures: np.ndarray) -> np.ndarray:
        """Derivatives of the averaged iterate in the noise of the steps' mean gradients.

        Parameters
        ----------
        curvatures : ndarray of shape (m,)
            Of directions.

        Returns
        -------
        ndarray of shape (n_steps, m)
        """
        if len(curvatures) > _FEW:
            return np.array(self._adjoint(curvatures, np.zeros_like(curvatures)))
        few = [self._adjoint(curvature, 0.0) for curvature in curvatures.tolist()]
        return np.ascontiguousarray(np.array(few).T)

    def _adjoint(self, curvatures: Any, zero: Any) -> list[Any]:
        """Follow the adjoint recursion of the steps, for a number or an array."""
        weights, weight, change, share = [], zero, zero, 1.0 / self.n_averaged
        for step in range(self.n_steps - 1, -1, -1):
            momentum, size = self.recursion[0][step], self.recursion[1][step]
            if step >= self.n_skipped:
                weight = weight + share
            change = change + weight
            weights.append(-size * change)
            weight = weight + curvatures * weights[-1]
            change = change * momentum
        return weights[::-1]

    def average_variance(self, curvature: float, unit: float) -> float:
        """Variance of the averaged iterate along a direction of a curvature.

        Parameters
        ----------
        curvature : float
        unit : float
            Standard deviation of the noise of a mean gradient for a multiplier of 1.
        """
        weights = self.noise_weights(np.array([curvature]))[:, 0]
        return float(((weights * self.multipliers * unit) ** 2).sum())


def plan_schedule(
    horizon: float,
    mu: float,
    *,
    rate: float,
    n_blocks: int,
    products: float,
    is_preconditioned: bool = False,
) -> Schedule:
    """Choose number, size and momentum of the steps.

    Parameters
    ----------
    horizon : float
        Path length divided by `rate`: a direction of curvature h is learnt up to
        ``1 / (h rate horizon)``.
    mu : float
        Of the Gaussian differential privacy of all steps.
    rate : float
        Largest stable step.
    n_blocks : int
    products : float
        Products of records, features and outputs in a step on all records.
    is_preconditioned : bool, default=False
        Fewer steps do then.
    """
    limit = step_limit(products / n_blocks, "preconditioned" if is_preconditioned else "plain")
    n_steps = int(min(max(math.ceil(2.0 * math.sqrt(horizon)), rules.LEAST_STEPS), limit))
    step_size, momentum = rate, 0.0
    if horizon <= n_steps:
        step_size = rate * horizon / n_steps
    else:
        momentum = max(0.0, min(1.0 - n_steps / horizon, 1.0 - 4.0 / n_steps))
    n_steps = n_blocks * -(-n_steps // n_blocks)
    return Schedule(
        n_steps=n_steps,
        n_blocks=n_blocks,
        step_size=step_size,
        momentum=momentum,
        mu=mu,
        is_preconditioned=is_preconditioned,
    )


def plan_accelerated(
    path: float, mu: float, *, learnt: float, step_size: float, products: float
) -> Schedule:
    """Choose number and size of steps, of which the last iterates are averaged.

    The weights of the nu-method with nu = 1/2 (Brakhage, 1987; Hanke, 1991, Numer. Math. 60) are
    off by the factor ``sin((2 T + 1) a) / ((2 T + 1) sin(a))`` after T steps in a direction of
    curvature ``sin(a)^2 / step_size``.

    Parameters
    ----------
    path : float
        To be gone if the limit on steps allows.
    mu : float
        Of the Gaussian differential privacy of all steps.
    learnt : float
        Path from which on iterates are averaged; the last one alone where it is not reached.
    step_size : float
        Inverse of the largest curvature.
    products : float
        Products of records, features and outputs in a step.
    """
    wanted = _steps_for_path(path / step_size)
    n_steps = min(max(wanted, rules.LEAST_STEPS), step_limit(products, "accelerated"))
    step_size = min(step_size, path / _accelerated_path(n_steps))
    n_skipped = min(_steps_for_path(learnt / step_size), n_steps) - 1
    return Schedule(
        n_steps=n_steps,
        n_blocks=1,
        step_size=step_size,
        momentum=0.0,
        mu=mu,
        is_accelerated=True,
        n_skipped=n_skipped,
    )


def _accelerated_path(n_steps: int) -> float:
    """Length of the path of accelerated steps, in units of their size."""
    return 2.0 / 3.0 * n_steps * (n_steps + 1)


def _steps_for_path(path: float) -> int:
    """Least number of accelerated steps with this path, in units of their size."""
    return math.ceil((math.sqrt(1.0 + 6.0 * path) - 1.0) / 2.0)


def step_limit(products: float, kind: str) -> int:
    """Return the largest number of steps for a number of products in one step.

    Parameters
    ----------
    products : float
    kind : {"plain", "preconditioned", "accelerated"}
    """
    work, power, low, high = rules.STEP_LIMITS[kind]
    return int(min(max(math.floor((work / products) ** power), low), high))


def descend(
    schedule: Schedule,
    clipped_sum: Callable[[np.ndarray, int], np.ndarray],
    sensitivity: Callable[[np.ndarray], float],
    shape: tuple[int, int],
    n_records: float,
    noise: NoiseSource,
    unit: float = 1.0,
    inverse: np.ndarray | None = None,
    counted: Callable[[int], Iterable[int]] = range,
) -> np.ndarray:
    """Average the iterates of the noisy steps, which start from 0.

    Parameters
    ----------
    schedule : Schedule
    clipped_sum : callable ``(weights, block) -> ndarray``
        The sum over the records of a block, without noise.
    sensitivity : callable ``weights -> float``
        Bound on what one record changes in this sum; a function of the released weights.
    shape : tuple of int
        Of the weights.
    n_records : float
        Number of records that sums are divided by, public or released.
    noise : NoiseSource
    unit : float, default=1.0
        Of the weights; their norm is kept within 1e6 units.
    inverse : ndarray of shape (width, width), optional
        Symmetric preconditioner that multiplies every noisy gradient; released before.
    counted : callable, default=range
        Counts the steps.

    Returns
    -------
    ndarray of the given shape
    """
    weights, change, total = (np.zeros(shape) for _ in range(3))
    of_block, longest = schedule.n_blocks / n_records, WEIGHT_LIMIT * unit
    momenta, step_sizes = schedule.recursion
    noise.reserve(schedule.n_steps * total.size)
    multipliers = schedule.multipliers.tolist()
    for step in counted(schedule.n_steps):
        exact = clipped_sum(weights, step % schedule.n_blocks)
        mechanism = GaussianMechanism(sensitivity(weights), multipliers[step])
        gradient = mechanism.release(exact.ravel(), noise).reshape(shape) * of_block
        if inverse is not None:
            gradient = gradient @ inverse
        change = momenta[step] * change - step_sizes[step] * gradient
        weights = weights + change
        # before the next look at the records: no record may meet weights that are not numbers,
        # which they are if the change is not
        length = math.sqrt(float(np.vdot(weights, weights)))
        if not length < math.inf:
            weights, change = np.zeros(shape), np.zeros(shape)
        elif length > longest:
            weights *= longest / length
        if step >= schedule.n_skipped:
            total += weights
    return total / schedule.n_averaged
