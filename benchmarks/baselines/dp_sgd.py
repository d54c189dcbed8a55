"""DP-SGD for linear models in NumPy, the method that most users would reach for otherwise.

Abadi et al. (2016): each step draws a Poisson batch, clips every record's gradient, adds Gaussian
noise to the sum and divides by the *expected* batch size. Neighbours differ in one record added
or removed, so that expected size, like n, is public. The noise is calibrated with dp-accounting's
privacy loss distributions, which are tighter than Renyi accounting by 5 to 15 % of noise.
The answer is the mean of the iterates of the second half: averaging is free post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import dp_accounting
import numpy as np
from dp_accounting.pld import PLDAccountant
from scipy.special import expit, softmax

__all__ = ["Setting", "dp_sgd", "noise_multiplier", "spent_epsilon"]


@dataclass(frozen=True)
class Setting:
    """One choice of DP-SGD's parameters.

    Attributes
    ----------
    sampling_rate : float
        Probability with which a record is in a batch.
    steps : int
    learning_rate : float
        In units of ``1 / clip_norm``: a step moves the weights by at most this length, noise
        apart.
    clip_norm : float
        Bound on the Euclidean norm of one record's gradient.
    """

    sampling_rate: float
    steps: int
    learning_rate: float
    clip_norm: float = 1.0

    def __str__(self) -> str:
        return (
            f"sampling_rate={self.sampling_rate:g} steps={self.steps} "
            f"learning_rate={self.learning_rate:g} clip_norm={self.clip_norm:g}"
        )


def spent_epsilon(
    multiplier: float, sampling_rate: float, steps: int, delta: float, interval: float = 1e-4
) -> float:
    """Privacy cost of `steps` batches with noise of `multiplier` times the clipping norm.

    Parameters
    ----------
    interval : float, default=1e-4
        Discretisation of the privacy loss. Any value gives an upper bound, a smaller one a
        tighter bound.
    """
    accountant = PLDAccountant(value_discretization_interval=interval)
    return float(accountant.compose(_event(multiplier, sampling_rate, steps)).get_epsilon(delta))


@cache
def noise_multiplier(epsilon: float, delta: float, sampling_rate: float, steps: int) -> float:
    """Smallest noise, in units of the clipping norm, that costs at most `epsilon`."""
    interval = 1e-3 * min(1.0, epsilon)
    return float(
        dp_accounting.calibrate_dp_mechanism(
            lambda: PLDAccountant(value_discretization_interval=interval),
            lambda multiplier: _event(multiplier, sampling_rate, steps),
            epsilon,
            delta,
            dp_accounting.LowerEndpointAndGuess(0.0, 1.0),
            tol=1e-3,
        )
    )


def _event(multiplier: float, sampling_rate: float, steps: int) -> dp_accounting.DpEvent:
    batch = dp_accounting.PoissonSampledDpEvent(
        sampling_rate, dp_accounting.GaussianDpEvent(multiplier)
    )
    return dp_accounting.SelfComposedDpEvent(batch, steps)


def dp_sgd(
    X: np.ndarray,
    targets: np.ndarray,
    loss: str,
    setting: Setting,
    multiplier: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Minimise the mean loss of a linear model privately.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        With a constant column if an intercept is wanted.
    targets : ndarray of shape (n,) or (n, n_classes)
        0/1 for "logistic", one-hot rows for "softmax", numbers for "squared".
    loss : {"logistic", "softmax", "squared"}
    setting : Setting
    multiplier : float
        Of :func:`noise_multiplier`.
    rng : numpy.random.Generator
        A simulation: a deployment would need a secure generator.

    Returns
    -------
    ndarray of shape (d,) or (d, n_classes)
    """
    mean = {"logistic": expit, "softmax": lambda z: softmax(z, axis=1), "squared": lambda z: z}
    predict = mean[loss]
    weights = np.zeros((X.shape[1], *targets.shape[1:]))
    average = np.zeros_like(weights)
    clip, expected_batch = setting.clip_norm, setting.sampling_rate * len(X)
    row_norms = np.linalg.norm(X, axis=1)
    for step in range(setting.steps):
        batch = np.flatnonzero(rng.random(len(X)) < setting.sampling_rate)
        rows = X[batch]
        # the gradient of a record is the outer product of its row and its residual
        residuals = predict(rows @ weights) - targets[batch]
        size = np.abs(residuals) if residuals.ndim == 1 else np.linalg.norm(residuals, axis=1)
        factors = clip / np.maximum(size * row_norms[batch], clip)
        clipped_sum = rows.T @ (residuals.T * factors).T
        noisy_sum = clipped_sum + clip * multiplier * rng.standard_normal(weights.shape)
        weights = weights - setting.learning_rate / clip * noisy_sum / expected_batch
        if 2 * (step + 1) > setting.steps:
            average += weights
    return average / (setting.steps - setting.steps // 2)
