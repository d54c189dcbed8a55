"""Mirror descent with bias-reduced gradients: Algorithms 2 and 3 of González et al. (2024).

A gradient at the mean of few vertices is biased where the function is not quadratic. Here N is
geometric, ``2^(N + 1)`` vertices are drawn, and a difference of two gradients, times what makes up
for the rare large N, corrects the gradient at one vertex. The sequence of N does not depend on the
records: it is drawn before, so that batches, draws and steps are public numbers.
"""

from __future__ import annotations

import math

import numpy as np

from skdp._checks import check_count, check_option
from skdp._types import Calibration
from skdp.algorithms.mirror.plain import zcdp_of
from skdp.algorithms.mirror.rounds import OUTPUT, Round, VertexPlan, finished
from skdp.privacy.budget import PrivacyBudget
from skdp.problems.vertices import VertexDesign


def correction(most: int) -> float:
    """Return ``C_M = sum of 2^-k for k = 0..M``: between 1 and 2 (the paper has "at most 1")."""
    return 2.0 - 2.0**-most


def truncated_geometric(most: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Draw N with ``P(N = k) = 2^-k / C_M`` for k = 0..M."""
    weights = 0.5 ** np.arange(most + 1)
    return rng.choice(most + 1, size=size, p=weights / weights.sum())


def published_work(design: VertexDesign, kappa: float) -> tuple[int, float, float, float]:
    """Choose M, U, tau and alpha of Algorithm 3, for a privacy condition ``U <= kappa/(tau a)^2``.

    ``C = L0^2 + L2^2 + ell M L1^2``, L1 = L2 = L0 here, contains M, and U contains C: M grows from
    1 until ``M = floor(log2(U) / 2)``, to base 2 (the paper's statement has a natural logarithm).
    """
    ell, n = sum(design.log_sizes), design.n_records
    square, most = max(design.magnitudes) ** 2, 1
    for _ in range(64):
        constant = 2.0 * square + ell * most * square
        work = min(0.5 * n * math.sqrt(kappa * constant / ell), 0.5 * n)
        found = max(1, math.floor(0.5 * math.log2(max(work, 4.0))))
        if found <= most:
            break
        most = found
    step = math.sqrt(ell / (constant * work))
    return most, work, step, (2.0 * kappa / (n * step**2)) ** (1.0 / 3.0)


def plan_bias_reduced_mirror_descent(
    design: VertexDesign,
    budget: PrivacyBudget,
    *,
    rng: np.random.Generator | None = None,
    work: float | None = None,
    most: int | None = None,
    calibration: Calibration = "analytic",
) -> VertexPlan:
    """Draw the sequence of N and plan its rounds.

    Parameters
    ----------
    design : VertexDesign
    budget : PrivacyBudget
    rng : numpy.random.Generator, optional
        Draws the sequence, which may be published. Default: of a fixed seed.
    work : float, optional
        U: rounds are made as long as the sum of ``2^N`` stays at most that. Default: as published,
        with the corrected sensitivity; if "analytic", at least 2, two rounds with ``M = 0``.
    most : int, optional
        M, the largest N. Default: as published, or less for a small U.
    calibration : {"analytic", "paper"}, default="analytic"
        "paper": fresh draws for the output, the published batch sizes (rounded up), and steps at
        most the published one. "analytic": all records are shared out in proportion to ``2^N``,
        and the result is the average of the points.

    Raises
    ------
    ValueError
        If U is below ``2^(M + 1)`` or the records do not suffice for two rounds.
    """
    check_option("calibration", calibration, ("analytic", "paper"))
    rng = np.random.default_rng(0) if rng is None else rng
    n, is_paper = design.n_records, calibration == "paper"
    kappa = zcdp_of(budget) / (243.0 * max(design.magnitudes) ** 2)
    level, total, step, alpha = published_work(design, kappa)
    if work is not None:
        total = float(work)
    elif not is_paper:
        total = max(total, 2.0)
    if most is None:
        most = max(0, min(level, math.floor(math.log2(max(total, 1.0))) - 1))
    check_count("most", most, 0)
    if total < 2.0 ** (most + 1):
        raise ValueError(
            f"work == {total:.3g}, must be at least 2^(most + 1) == {2 ** (most + 1)}: there are "
            "too few records for bias-reduced gradients."
        )
    levels: list[int] = []
    while sum(2.0**k for k in levels) <= total - 2.0**most:
        levels.append(int(truncated_geometric(most, 1, rng)[0]))
    weights = 2.0 ** np.array(levels)
    if is_paper:
        batches = np.ceil(np.maximum(1.0, weights / alpha)).astype(int)
    else:
        batches = np.floor(n * weights / weights.sum()).astype(int)
    if len(levels) < 2 or batches.sum() > n or batches.min() < 1:
        raise ValueError(f"{n} samples are too few for the {len(levels)} rounds of this plan.")
    fresh = ((OUTPUT, 1),) if is_paper else ()
    rounds = [
        Round(
            requests=((t, 2 ** (k + 1)), *fresh),
            point=t,
            batch=int(batch),
            level=k,
            correction=correction(most),
        )
        for t, (k, batch) in enumerate(zip(levels, batches, strict=True))
    ]
    return finished(
        design,
        budget,
        rounds,
        calibration,
        "González et al. 2024, Algorithms 2 and 3",
        average=not is_paper,
        caps=(step,) * len(design.sizes),
        most=most,
        work=total,
    )
