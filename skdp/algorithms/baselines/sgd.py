"""DP-SGD: noisy gradient descent on random batches, the baseline of private learning.

Algorithm 1 of Abadi et al. (2016) for generalised linear losses. Each step draws a batch, which
every record joins independently, clips the gradient of each of its records, adds Gaussian noise to
their sum and divides by the *expected* size of the batch. Every step costs; no convexity is needed.
The gradient of a record is the outer product of its residual and its row, and its norm the product
of their norms, so that no matrix of gradients is formed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp._checks import check_bool, check_count, check_real
from skdp._runtime import without_warnings
from skdp.algorithms.plan import Result, Run
from skdp.algorithms.sampled_steps import NoisyStepsPlan
from skdp.mechanisms import SampledGaussianMechanism
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import Neighbouring
from skdp.problems import (
    MAX_SIZE_RATIO,
    ROUNDING_SLACK,
    Domain,
    Loss,
    Records,
    SoftmaxLoss,
    WholeSpace,
)
from skdp.problems.block import Block
from skdp.problems.constants import check_nominal_size
from skdp.problems.rounding import EPS, two_sums

#: More than the square root of a sum of squares can lose to underflow.
_UNDERFLOW = 1e-140


@dataclass(frozen=True, kw_only=True)
class DPSGDPlan(NoisyStepsPlan):
    """A plan of :func:`dp_sgd`; the sensitivity of a step is the clipping norm."""

    loss: Loss
    width: int
    learning_rate: float
    alpha: float
    domain: Domain
    average: bool

    _statement = "gradient sums", "Abadi et al. 2016, Alg. 1, with privacy loss distributions"

    @property
    def dimension(self) -> int:
        return self.loss.n_outputs * self.width

    @property
    def clip_norm(self) -> float:
        return self.mechanism.sensitivity

    def to_dict(self) -> dict[str, Any]:
        return {
            **super().to_dict(),
            "learning_rate": self.learning_rate,
            "clip_norm": self.clip_norm,
            "alpha": self.alpha,
            "radius": self.domain.radius if math.isfinite(self.domain.radius) else None,
            "average": self.average,
        }

    @without_warnings()
    def run(self, data: Records, run: Run) -> Result:
        targets = np.asarray(data.targets)
        if isinstance(self.loss, SoftmaxLoss) and targets.dtype.kind in "bf":
            indices = targets.astype(np.intp)
            targets = indices if (indices == targets).all() else targets
        records = data.with_targets(targets)
        records.check_targets(self.loss)
        check_nominal_size(self.n_public, records.n_records)
        if not all(np.isfinite(block.norms()).all() for block in records.blocks()):
            raise ValueError("Input X contains NaN or infinity.")
        w, n_steps = np.zeros(self.dimension), self.mechanism.n_steps
        total = np.zeros_like(w)
        rate = self.learning_rate / self.clip_norm
        for step in range(n_steps):
            batch = self.batch(records.n_records, run.noise)
            weights = w.reshape(self.loss.n_outputs, self.width)
            sizes = self.clip_norm, self.n_public
            clipped = clipped_gradient_sum(records, self.loss, weights, *sizes, batch)
            noisy = self.mechanism.release(clipped.ravel(), run.noise)
            w = self.domain.project(w - rate * (noisy / self.expected_batch + self.alpha * w))
            if 2 * (step + 1) > n_steps:
                total += w
        if self.average:
            w = self.domain.project(total / (n_steps - n_steps // 2))
        return Result(point=w, plan=self)


def dp_sgd(
    records: Records,
    loss: Loss,
    budget: PrivacyBudget | None = None,
    *,
    run: Run | None = None,
    **options: Any,
) -> Result:
    """Minimise a mean loss by private stochastic gradient descent.

    Starts at 0. With C the clipping norm, g_i the gradient of record i and B a random batch,
    each step is ``w <- project(w - (learning_rate / C) (s / (sampling_rate n_public) +
    alpha w))``, where s is the sum over B of ``g_i min(1, C / ||g_i||)`` plus normal noise of
    standard deviation ``noise_multiplier C`` in each coordinate.

    Parameters
    ----------
    records : Records
        With targets in the encoding of `loss`. The privacy does not depend on the norm bound.
    loss : Loss
        For :class:`skdp.problems.SoftmaxLoss` the weights, and the noise, live in the K - 1
        coordinates that sum to zero over the classes; ``loss.basis`` leads back to K.
    budget : PrivacyBudget, optional
        Of the whole run, delta > 0. Either this or `noise_multiplier`.
    run : Run, optional
        Its `noise` draws batches and noise: sampling protects a record only while nobody knows
        which batches it was in. Nothing else of it matters.
    **options
        Those of :func:`plan_dp_sgd`. They must be chosen without looking at the records.

    Returns
    -------
    Result
        ``point`` holds ``loss.n_outputs`` weight vectors of length ``records.width``, one after
        the other.

    Notes
    -----
    A record added or removed moves the clipped sum of a batch by at most the clipping norm. (Norms
    are clipped to a little less, for the rounding of sums of up to ``10 n_public`` records.) All
    else in a step is a public function of noisy sums: the run is an adaptive composition of
    Poisson-sampled Gaussian releases.

    References
    ----------
    M. Abadi, A. Chu, I. Goodfellow, H. B. McMahan, I. Mironov, K. Talwar, L. Zhang, "Deep
    learning with differential privacy", CCS 2016: Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.algorithms import Run, dp_sgd
    >>> from skdp.mechanisms import NoiseSource
    >>> from skdp.privacy import PrivacyBudget
    >>> from skdp.problems import LogisticLoss, Records
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.7, 0.7, size=(5000, 2))
    >>> result = dp_sgd(
    ...     Records(X, 1.0, targets=(X[:, 0] > 0).astype(float)), LogisticLoss(),
    ...     PrivacyBudget(1.0, 1e-6), n_public=5000, sampling_rate=0.1, n_steps=20,
    ...     run=Run(noise=NoiseSource(rng.bytes)),
    ... )
    >>> bool((((X @ result.point) > 0) == (X[:, 0] > 0)).mean() > 0.9)
    True
    >>> result.plan.neighbouring.value, round(result.plan.epsilon(), 2)
    ('add_remove', 1.0)
    """
    if not isinstance(records, Records):
        raise TypeError(f"records must be Records, got {type(records).__name__}.")
    check_real("records.norm_bound", records.norm_bound, 1e-50, 1e50)
    plan = plan_dp_sgd(budget, loss=loss, width=records.width, **options)
    return plan.run(records, run or Run())


def plan_dp_sgd(
    budget: PrivacyBudget | None = None,
    *,
    loss: Loss,
    width: int,
    n_public: int,
    sampling_rate: float,
    n_steps: int,
    learning_rate: float = 1.0,
    clip_norm: float = 1.0,
    alpha: float = 0.0,
    domain: Domain | None = None,
    average: bool = True,
    noise_multiplier: float | None = None,
) -> DPSGDPlan:
    """Calibrate the noise from public numbers, for add/remove neighbours.

    Parameters
    ----------
    budget : PrivacyBudget, optional
        The run costs no more by :func:`skdp.privacy.tightest_epsilon`, and little less. Either
        this or `noise_multiplier`.
    loss : Loss
    width : int
        Number of features, the intercept feature included.
    n_public : int
        Public nominal number of records; n itself is private, and at most 10 times that.
    sampling_rate : float
        In (0, 1]. With 1 each step uses all records.
    n_steps : int
    learning_rate : float, default=1.0
        In units of ``1 / clip_norm``: the clipped gradient of `n_public` records moves the
        weights by at most this length.
    clip_norm : float, default=1.0
        Bound on the Euclidean norm of one record's gradient.
    alpha : float, default=0.0
        Of an L2 penalty. Its gradient is free of data and of noise.
    domain : Domain, optional
        Set that each step is projected onto; default: the whole space.
    average : bool, default=True
        Return the mean of the iterates of the second half instead of the last one.
    noise_multiplier : float, optional
        Standard deviation of the noise in units of the clipping norm, > 0; instead of a budget.

    Raises
    ------
    ImportError
        If a budget is given, ``sampling_rate < 1``, and the optional extra ``accounting`` is
        not installed.

    Notes
    -----
    With sampling, the cost is a numerical convolution of privacy loss distributions by Google's
    dp-accounting (``docs/theory/accounting.md``, sections 6 and 7); without, it is exact. Where
    delta is below about 1e-9, or 1e-12 per step, the convolution is not precise enough; bounds that
    need far more noise take its place.
    """
    if not isinstance(loss, Loss):
        raise TypeError(f"loss must be a Loss, got {loss!r}.")
    if not math.isfinite(loss.curvature):
        raise ValueError(f"{loss!r} is not smooth: rounding moves gradients. Use its smoothed().")
    check_count("width", width)
    check_count("n_public", n_public)
    # wide, but products of them are far from the ends of double precision
    check_real("learning_rate", learning_rate, 1e-50, 1e50)
    check_real("clip_norm", clip_norm, 1e-50, 1e50)
    check_real("alpha", alpha, 0.0, 1e150)
    if learning_rate * alpha > clip_norm:
        raise ValueError(
            f"learning_rate * alpha / clip_norm == {learning_rate * alpha / clip_norm:g}, must be "
            "<= 1: a step of the penalty alone would overshoot."
        )
    if not (domain is None or isinstance(domain, Domain)):
        raise TypeError(f"domain must be a Domain, got {domain!r}.")
    check_bool("average", average)
    return DPSGDPlan(
        n_public=int(n_public),
        neighbouring=Neighbouring.ADD_REMOVE,
        mechanism=SampledGaussianMechanism.calibrated(
            budget,
            noise_multiplier,
            Neighbouring.ADD_REMOVE,
            sensitivity=clip_norm,
            sampling_rate=sampling_rate,
            n_steps=n_steps,
        ),
        delta=None if budget is None else budget.delta,
        loss=loss,
        width=int(width),
        learning_rate=float(learning_rate),
        alpha=float(alpha),
        domain=WholeSpace() if domain is None else domain,
        average=bool(average),
    )


def clipped_gradient_sum(
    records: Records,
    loss: Loss,
    weights: np.ndarray,
    clip_norm: float,
    n_public: int,
    batch: np.ndarray | None = None,
) -> np.ndarray:
    """Sum the records' gradients over a batch, each clipped to almost `clip_norm`; not private.

    Adding or removing a record moves the computed sum by at most `clip_norm`, if there are at most
    ``10 n_public`` records (docs/theory/output_perturbation.md, "Rounding"). Weights and gradients
    have the shape (loss.n_outputs, records.width); the batch holds positions, None stands for all.
    """
    n, norm, products = MAX_SIZE_RATIO * n_public, records.norm_bound, 1.1 * (records.width + 32.0)
    relative = ROUNDING_SLACK + n * (two_sums(n) + EPS * products)
    # gradients of other records, whose margins change in the last bits as they change places
    margins = products * EPS * (norm * float(np.linalg.norm(weights)) + 1.0)
    shifted = n * norm * loss.curvature * margins
    limit = max(clip_norm / (relative + 2.0 * n), (clip_norm - shifted) / relative)

    def statistic(block: Block) -> np.ndarray:
        residuals = loss.derivative(block.margins(weights), block.targets)
        # an overflow must not count: such a record has no direction to follow
        residuals = np.nan_to_num(residuals, nan=0.0, posinf=0.0, neginf=0.0)
        many = residuals.ndim == 2
        size = np.linalg.norm(residuals, axis=1) if many else np.abs(residuals)
        factors = limit / np.maximum(size * (block.norms() + _UNDERFLOW), limit)
        return block.pull_back(residuals * (factors[:, None] if many else factors))

    total: np.ndarray = records.total(statistic, part=slice(None) if batch is None else batch)
    return total
