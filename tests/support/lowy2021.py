"""Published noise scales of Lowy and Razaviyayn (2021), and the exact delta of a movement."""

import math

from scipy.special import log_ndtr, ndtr

from skdp.algorithms.output.published import lowy_noise_factor


def exact_delta(movement, scale, epsilon):
    """Smallest delta of N(0, scale^2) and N(movement, scale^2): Balle and Wang (2018), Thm 8."""
    m = movement / scale
    if m == 0.0:
        return 0.0
    return ndtr(m / 2 - epsilon / m) - math.exp(epsilon + log_ndtr(-m / 2 - epsilon / m))


def k_factor(budget):
    """``c + sqrt(c^2 + epsilon)``, from the form that does not cancel."""
    c = math.sqrt(math.log((math.sqrt(16 * budget.delta + 1) + 1) / (8 * budget.delta)))
    return c + math.sqrt(c * c + budget.epsilon)


def published_scale(budget, sensitivity):
    """Alg. 1, delta > 0: density ``exp(-epsilon^2 z^2 / (s^2 k^2))``."""
    return sensitivity * k_factor(budget) / (math.sqrt(2) * budget.epsilon)


def printed_e7_gap(budget, d, n):
    """Thm 3.4, 2, with L = R = 1: for delta > 0 without the divisor ``(1 + q)^2``."""
    q = lowy_noise_factor(budget, d)
    return (q / n) ** 1.5 / ((1 + q) ** 2 if budget.is_pure else 1.0)
