"""Mirror descent with gradients at the running average: Algorithm 5 of González et al. (2024).

The running average ``w^t`` of the iterates is a mixture of their softmaxes: a draw from it is a
draw of an index i, uniform on 1..t, and of a vertex from the i-th softmax. The indices do not
depend on the records. They are drawn before, and each vertex in the round that its index names, so
that no past iterate is kept and every draw is that of one softmax.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Literal

import numpy as np

from skdp._checks import check_count, check_option
from skdp._types import Calibration
from skdp.algorithms.mirror import rules
from skdp.algorithms.mirror.rounds import OUTPUT, Round, VertexPlan, finished
from skdp.privacy.budget import PrivacyBudget
from skdp.problems.vertices import VertexDesign


def plan_anytime_mirror_descent(
    design: VertexDesign,
    budget: PrivacyBudget,
    *,
    rng: np.random.Generator | None = None,
    n_rounds: int | None = None,
    n_vertices: int | None = None,
    calibration: Calibration = "analytic",
    smoothness: Literal["second_order", "first_order"] = "second_order",
) -> VertexPlan:
    """Draw the indices and plan the rounds.

    Parameters
    ----------
    design : VertexDesign
        Of one block.
    budget : PrivacyBudget
    rng : numpy.random.Generator, optional
        Draws the indices, which may be published. Default: of a fixed seed.
    n_rounds, n_vertices : int, optional
        T and K: a new point of K vertices in each of the first q rounds, and in each q-th one
        after. Default: the published numbers for `smoothness`; q follows from T.
    calibration : {"analytic", "paper"}, default="analytic"
        "paper": disjoint batches, and steps at most those of :func:`published_step`. "analytic":
        all records in each round, and the steps that privacy allows.
    smoothness : {"second_order", "first_order"}, default="second_order"
        Utility only: the function has bounded third derivatives, or no more than a Lipschitz
        gradient. The bounds L1 and L2 on derivatives are taken to be the magnitude L0.

    Raises
    ------
    ValueError
        For problems of two blocks, fewer than two rounds, or more rounds than records.
    """
    check_option("calibration", calibration, ("analytic", "paper"))
    check_option("smoothness", smoothness, ("second_order", "first_order"))
    if len(design.sizes) != 1:
        raise ValueError("anytime mirror descent minimises over one simplex.")
    rng = np.random.default_rng(0) if rng is None else rng
    full = calibration == "analytic"
    n, (log,) = design.n_records, design.log_sizes
    first = smoothness == "first_order"
    if n_rounds is None:
        log_delta = math.log(1.0 / budget.delta) if budget.delta else math.log(n)
        wanted = n * budget.epsilon / (log * math.sqrt(log_delta))
        if first:
            wanted = (n * budget.epsilon) ** 0.8 / (log * log_delta) ** 0.4
        n_rounds = max(2, min(n, math.floor(wanted)))
        n_rounds = min(n_rounds, rules.MOST_ROUNDS) if full else n_rounds
    check_count("n_rounds", n_rounds, 2)
    q = max(1, math.floor(math.sqrt(n_rounds) / (log if first else math.sqrt(log))))
    k = n_vertices or math.ceil(n_rounds / log if first else math.sqrt(n_rounds * log))
    check_count("n_vertices", k)
    batch = n if full else n // n_rounds
    if batch == 0:
        raise ValueError(f"n_rounds == {n_rounds} is more than the {n} records.")
    points, current = [], 0
    for t in range(n_rounds):
        if t < q or (t + 1) % q == 0:
            current = t
        points.append(current)
    requests = _requests(points, k, rng)
    while not any(requests[1:]):  # only draws without records: the result would say nothing
        requests = _requests(points, k, rng)
    rounds = [
        Round(
            requests=tuple(sorted(wanted.items())),
            point=points[t],
            batch=batch if t < n_rounds - 1 else 0,
        )
        for t, wanted in enumerate(requests)
    ]
    (magnitude,) = design.magnitudes
    cap = published_step(log, n_rounds, q, k, magnitude, first)
    return finished(
        design,
        budget,
        rounds,
        calibration,
        "González et al. 2024, Algorithm 5",
        full_batch=full,
        caps=(cap,),
        batch=batch,
        n_vertices=k,
        period=q,
    )


def published_step(
    log: float, n_rounds: int, period: int, n_vertices: int, l0: float, is_first_order: bool
) -> float:
    """Return the step of Theorem 4.2: ``min(sqrt(log d / (C T)), 1 / (4 L0 q))``.

    With bounded third derivatives ``C = L0^2 (1 + q log(d) / K + q / K^2)``, else
    ``C = L0^2 (1 + 2 q sqrt(log(d) / K) + q / (sqrt(log d) K^1.5))``, as L1 and L2 are L0 here.
    """
    q, k = float(period), float(n_vertices)
    bias = q * log / k + q / k**2
    if is_first_order:
        bias = 2.0 * q * math.sqrt(log / k) + q / (math.sqrt(log) * k**1.5)
    return min(math.sqrt(log / ((1.0 + bias) * n_rounds)) / l0, 1.0 / (4.0 * l0 * q))


def _requests(points: list[int], count: int, rng: np.random.Generator) -> list[Counter[int]]:
    """Draw the indices: how many vertices of each round are for each point."""
    requests: list[Counter[int]] = [Counter() for _ in points]
    for last, point in [*((t, t) for t in sorted(set(points))), (len(points) - 1, OUTPUT)]:
        # vertices of the average of the iterates 0..last
        for index, number in Counter(rng.integers(last + 1, size=count).tolist()).items():
            requests[index][point] += number
    return requests
