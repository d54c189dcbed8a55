"""Published noise, accuracies and regularisation, with the errata corrected.

For comparison with the tight calibration, and for the reference values of the tests. Neighbours
are replace-one. Errata are those of docs/theory/errata.md: the published forms of Lowy and
Razaviyayn (2021), Alg. 6 (erratum L1), and of the accuracy "in expectation" (L3) break the stated
privacy.
"""

from __future__ import annotations

import math

from skdp.mechanisms import gaussian_noise_multiplier
from skdp.privacy.budget import PrivacyBudget


def lowy_noise_factor(budget: PrivacyBudget, dimension: int) -> float:
    """Compute the factor q of Lowy and Razaviyayn (2021): relative size of the noise.

    ``d / eps`` for delta = 0, else ``sqrt(d) (c + sqrt(c^2 + eps)) / eps``.
    """
    if budget.is_pure:
        return dimension / budget.epsilon
    zwb = gaussian_noise_multiplier(budget.epsilon, budget.delta, "zwb")
    return math.sqrt(2.0 * dimension) * zwb


def lowy_gap(
    budget: PrivacyBudget,
    dimension: int,
    n_records: float,
    lipschitz: float,
    smoothness: float,
    *,
    strong_convexity: float | None = None,
    radius: float | None = None,
) -> float:
    """Compute the objective gap that Lowy and Razaviyayn (2021) allow the solver.

    The constants are those of the loss without a regulariser, n is 1 for a general loss.
    For Alg. 1 `strong_convexity` is given: class H (smooth)
    ``(L^2 / (mu n^2)) min(kappa q^2, 1)``, class F ``(L^2 / (mu n)) min(1/n, q)``.
    For Alg. 6 the `radius`: class J (smooth) ``min(L^{4/3} R^{2/3} beta^{-1/3} q^{-2/3} n^{-4/3},
    beta^{1/3} L^{2/3} R^{4/3} r^{2/3})`` with ``r = q / n`` (erratum L8), class G
    ``L R r^{3/2} / (1 + q)^2`` (erratum L13).
    """
    q, n, smooth = lowy_noise_factor(budget, dimension), n_records, math.isfinite(smoothness)
    if strong_convexity is not None:
        if smooth:
            kappa = (smoothness + strong_convexity) / strong_convexity
            return lipschitz**2 / (strong_convexity * n**2) * min(kappa * q**2, 1.0)
        return lipschitz**2 / (strong_convexity * n) * min(1.0 / n, q)
    if radius is None:
        raise ValueError("One of strong_convexity and radius must be given.")
    r = q / n
    if not smooth:
        return lipschitz * radius * r**1.5 / (1.0 + q) ** 2
    first = lipschitz ** (4 / 3) * radius ** (2 / 3) * smoothness ** (-1 / 3)
    second = smoothness ** (1 / 3) * lipschitz ** (2 / 3) * radius ** (4 / 3)
    return min(first * q ** (-2 / 3) * n ** (-4 / 3), second * r ** (2 / 3))


def lowy_regularisation(
    budget: PrivacyBudget,
    dimension: int,
    n_records: float,
    lipschitz: float,
    smoothness: float,
    radius: float,
    *,
    population: bool = False,
) -> float:
    """Compute the regularisation of Lowy and Razaviyayn (2021), Alg. 6, for convex losses.

    Class J (smooth): ``(beta L^2 / R^2)^{1/3} r^{2/3}``; class G: ``L / (R sqrt(1 + 1/r))``. For
    the population loss (Props. 4.3 and 4.4): J with ``r^{2/3} + 1 / sqrt(n)``, and G
    ``(L / R) (sqrt(r) + 1 / sqrt(n))``.
    """
    r = lowy_noise_factor(budget, dimension) / n_records
    sampling = 1.0 / math.sqrt(n_records) if population else 0.0
    if math.isfinite(smoothness):
        return (smoothness * lipschitz**2 / radius**2) ** (1 / 3) * (r ** (2 / 3) + sampling)
    if population:
        return lipschitz / radius * (math.sqrt(r) + sampling)
    return lipschitz / (radius * math.sqrt(1.0 + 1.0 / r))


def zhang_minimisation_noise(
    budget: PrivacyBudget, lipschitz: float, strong_convexity: float, n_records: float
) -> float:
    """Compute the noise scale of Zhang et al. (2022), Alg. 1 and each phase of Alg. 2.

    ``4 L sqrt(2 log(2.5 / delta)) / (mu n eps)``: half of delta is set aside for the
    solver's failure; the solver is within ``L / (mu n)``. Needs eps < 1.
    """
    multiplier = gaussian_noise_multiplier(budget.epsilon, 0.5 * budget.delta, "classical")
    return 4.0 * lipschitz / (strong_convexity * n_records) * multiplier


def zhang_saddle_noise(
    budget: PrivacyBudget,
    lipschitz: float,
    strong_convexity: float,
    strong_concavity: float,
    n_records: int,
    *,
    primal_only: bool = False,
) -> tuple[float, float]:
    """Compute the noise scales (x, y) of Zhang et al. (2022), Alg. 3.

    ``(8 L / (n eps)) sqrt(2 log(5 / delta) / (mu_x mu))``, and with mu_y. The x-value with
    ``(mu_k, mu)`` is that of a phase of Alg. 4; with `primal_only`, constants 4 and 2.5, that
    of a phase of the convex-strongly-concave variant. Needs eps < 2, primal only eps < 1.
    """
    share = 1.0 if primal_only else 0.5
    weakest = min(strong_convexity, strong_concavity)
    multiplier = gaussian_noise_multiplier(
        share * budget.epsilon, 0.5 * share * budget.delta, "classical"
    )
    unit = 4.0 * lipschitz / n_records * multiplier
    return unit / math.sqrt(strong_convexity * weakest), unit / math.sqrt(
        strong_concavity * weakest
    )


def shrinking_schedule(
    budget: PrivacyBudget, lipschitz: float, radius: float, n: int, dimension: int
) -> tuple[int, float]:
    """Compute K and mu of Zhang et al. (2022), section 3.2: ``mu_k = mu 8^k``, ``n_k = n / 2^k``.

    The paper has no constants for it. ``mu = (L / D) sqrt(1 / (6 n) + 32 d log(2.5 / delta) /
    (n eps)^2)`` minimises the bound on the excess, which has no logarithm of n
    (docs/theory/output_perturbation.md, "Shrinking blocks").
    """
    if budget.is_pure:
        raise ValueError("delta == 0: Zhang et al. (2022) need delta > 0.")
    noise = dimension * math.log(2.5 / budget.delta) / (n * budget.epsilon) ** 2
    regularisation = lipschitz / radius * math.sqrt(1.0 / (6.0 * n) + 32.0 * noise)
    return max(1, n.bit_length() - 1), regularisation


def zhang_schedule(
    budget: PrivacyBudget, algorithm: str, lipschitz: float, radius: float, n: int, dimension: int
) -> tuple[list[int], list[float]]:
    """Compute n_k and ``mu_k = mu 2^k`` of Alg. 2, 4, 5 or the convex-strongly-concave variant.

    K is the base-2 logarithm rounded up (erratum Z1), blocks have ``floor(n / K)`` records (Z2).
    For Alg. 4 the dimension is the larger one of the two blocks, and nu is ``mu_1 / 2``.
    """
    constant, privacy, log_factor = {
        "alg2": (1.0, 14.0, 2.5),
        "alg4": (2.0, 13.0, 5.0),
        "c-sc": (3.0, 12.0, 2.5),
    }[algorithm]
    if budget.is_pure:
        raise ValueError("delta == 0: Zhang et al. (2022) need delta > 0.")
    phases = max(1, math.ceil(math.log2(n)))
    noise = math.sqrt(dimension * math.log(log_factor / budget.delta)) / (n * budget.epsilon)
    scale = max(constant / math.sqrt(n), privacy * phases * noise)
    mu = lipschitz / radius * scale
    return [n // phases] * phases, [mu * 2.0**k for k in range(1, phases + 1)]
