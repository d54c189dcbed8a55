"""Weights of groups from noisy losses; functions of released numbers.

docs/theory/worst_group.md, "Weights", has the formulas.
"""

from __future__ import annotations

import numpy as np

from skdp.algorithms.worst_group import rules


def shrunk_losses(
    losses: np.ndarray, errors: np.ndarray, proportions: np.ndarray, n_records: float
) -> np.ndarray:
    """Shrink noisy mean losses of groups to that of all (empirical Bayes), by their errors."""
    variances = errors**2 + rules.LOSS_VARIANCE / (n_records * proportions)
    mean = float(proportions @ losses)
    precisions = 1.0 / (variances + 0.1 * rules.LARGEST_SPREAD**2) ** 2
    excess = precisions @ ((losses - mean) ** 2 - variances) / precisions.sum()
    spread = min(max(float(excess), rules.LEAST_SPREAD**2), rules.LARGEST_SPREAD**2)
    return np.asarray(mean + spread / (spread + variances) * (losses - mean))


def worst_case_weights(
    losses: np.ndarray,
    proportions: np.ndarray,
    *,
    noise_price: float,
    spread_price: float,
    center: np.ndarray | None = None,
    ceiling: float = 1.0,
) -> np.ndarray:
    """Maximise ``<q, L> - a max_g (q_g / p_g)^2 - b sum_g (q_g - c_g)^2 / max(p_g, c_g)``.

    Over the simplex, up to a grid of the largest quotient, with the prices a and b, and c the
    `center`, p by default. The `ceiling` bounds the weight of a group of a smaller proportion.
    """
    top = max(1.0, 1.0 / float(proportions.min()))
    caps = np.geomspace(1.0, top, 40)[:, None] * proportions
    caps = np.minimum(caps, np.maximum(proportions, ceiling))
    center = proportions if center is None else center
    metric = np.maximum(proportions, center) / (2.0 * spread_price)
    # for a cap M: q = clip(c + max(p, c) (L - nu) / 2 b, 0, cap), with nu such that the sum is 1
    reach = float((caps.max(axis=0) / metric).max())
    low = np.full((40, 1), losses.min() - reach)
    high = np.full((40, 1), losses.max() + float((center / metric).max()))
    for _ in range(60):
        middle = 0.5 * (low + high)
        is_low = np.clip(center + metric * (losses - middle), 0.0, caps).sum(axis=1) > 1.0
        low, high = (
            np.where(is_low[:, None], middle, low),
            np.where(is_low[:, None], high, middle),
        )
    weights = np.clip(center + metric * (losses - low), 0.0, caps)
    weights /= weights.sum(axis=1, keepdims=True)
    values = weights @ losses - noise_price * (weights / proportions).max(axis=1) ** 2
    values -= ((weights - center) ** 2 / (2.0 * metric)).sum(axis=1)
    return np.asarray(weights[int(np.argmax(values))])


def prefers_plain(losses: np.ndarray | None, weights: np.ndarray, proportions: np.ndarray) -> bool:
    """Say whether little is to be won over the plain model: a large group is about the worst one.

    The losses are log losses under the plain model; without any the weights alone decide.
    """
    if (weights / proportions).max() < rules.LEAST_FACTOR:
        return True
    if losses is None:
        return False
    return bool((losses[proportions >= rules.LARGE] > losses.max() - rules.LEAST_GAP).any())
