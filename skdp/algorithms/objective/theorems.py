"""Theorems of objective perturbation: the cost of a record's gradient and of its Hessian.

A bound on epsilon has two parts. The Gaussian noise hides the gradient of a record or a person, at
the ratio mu; the penalty hides its Hessian, at the price J. Both follow from the loss and from
public numbers. Theory: docs/theory/objective_perturbation.md, and docs/theory/persons.md, Lemma G.
"""

from __future__ import annotations

import math
from functools import lru_cache

from skdp.privacy.events import Neighbouring
from skdp.privacy.gaussian_dp import gaussian_delta, gaussian_mu
from skdp.problems import ROUNDING_SLACK, Design, EmpiricalRisk, Loss, SoftmaxLoss
from skdp.problems.rounding import EPS

#: A bound ``sum of weight * delta_{factor mu}(epsilon)``: pairs (weight, factor).
Terms = tuple[tuple[float, float], ...]

#: Bound on the relative error of :func:`convex_delta` where it is 1e-300 or more.
_ERROR = 1e-8


def has_theorem(risk: EmpiricalRisk) -> bool:
    """Return whether a theorem covers a risk, or the envelope of its loss."""
    loss = risk.loss
    one_margin = loss.n_outputs == 1 or isinstance(loss, SoftmaxLoss)
    bounded = math.isfinite(loss.lipschitz(1.0, math.inf))
    return one_margin and bounded and type(risk) is EmpiricalRisk


def hessian_rank(loss: Loss, design: Design) -> int:
    """Return the largest rank of the Hessian of one record, or of all records of one person."""
    return loss.n_outputs * (design.width if design.of_persons else 1)


def hessian_epsilon(loss: Loss, feature_norm: float, penalty: float, rank: int) -> float:
    """Bound J on the change of the logarithm of the determinant by one record or person.

    ``rank * log(1 + trace / (rank Lambda))`` with the rank and the trace of its Hessian.
    """
    trace = rank_curvature(loss, feature_norm, rank) / penalty
    return rank * math.log1p(trace) * ROUNDING_SLACK


def rank_curvature(loss: Loss, feature_norm: float, rank: int) -> float:
    """Bound the mean of `rank` eigenvalues, all but 0, of the Hessian of a record or person."""
    return loss.curvature_trace / rank * feature_norm**2 * ROUNDING_SLACK


def gradient_bound(loss: Loss, feature_norm: float, neighbouring: Neighbouring) -> float:
    """Bound the Euclidean difference of the sums of gradients of neighbours."""
    return neighbouring.n_changes * loss.lipschitz(feature_norm, math.inf) * ROUNDING_SLACK


def largest_mu(
    loss: Loss, epsilon: float, delta: float, neighbouring: Neighbouring
) -> tuple[float, str]:
    """Return the largest ratio mu of a record's gradient to the Gaussian noise, and its theorem.

    mu is ``c X / s`` for a loss of one margin with derivatives of at most c, ``X / s`` for softmax;
    the minimiser is then (epsilon + J, delta)-DP, with epsilon and delta > 0 for the gradient.
    """
    replaced = neighbouring.is_replaced
    if neighbouring.unit == "user":
        return _largest_mu_of_persons(loss, epsilon, delta, neighbouring.n_changes), "G"
    if isinstance(loss, SoftmaxLoss):
        k, (two, six, eight) = float(loss.n_outputs), (math.sqrt(v) for v in (2.0, 6.0, 8.0))
        terms: Terms = ((k, two),)
        if replaced:
            terms = ((k, eight), (k * (k - 1.0), six), (2.0 * k, two))
        return _invert(terms, epsilon, delta), "3"
    if loss.has_one_sided_derivative:
        if not replaced:
            return _invert(((1.0, 1.0),), epsilon, delta), "1"
        mu = _invert(((1.0, 2.0),), epsilon, delta)
        if mu**2 <= epsilon:
            return mu, "2"
        return _invert(((2.0, 1.0), (1.0, 2.0)), epsilon, delta), "2, union bound"
    if not replaced:
        return _invert(((2.0, 1.0),), epsilon, delta), "6"
    mu = _invert(((2.0, 2.0),), epsilon, delta)
    # sqrt(1 + e^2) - 1 without its cancellation, rounded down
    if 2.0 * mu**2 <= epsilon**2 / (math.sqrt(1.0 + epsilon**2) + 1.0) * (1.0 - 8.0 * EPS):
        return mu, "6"
    return _invert(((2.0, 2.0), (2.0, math.sqrt(2.0))), epsilon, delta), "6, union bound"


def convex_delta(epsilon: float, mu: float) -> float:
    """Return ``E (mu Z + mu^2/2 - epsilon)_+`` for a standard normal Z."""
    b = epsilon / mu - 0.5 * mu
    density = math.exp(-0.5 * b * b) / math.sqrt(2.0 * math.pi)
    return mu * max(0.0, density - 0.5 * b * math.erfc(b / math.sqrt(2.0)))


def _largest_mu_of_persons(loss: Loss, epsilon: float, delta: float, changes: float) -> float:
    """Return the largest mu of Lemma G, for persons of one record of twice the size if replaced."""
    weight, length = (1.0 if loss.has_one_sided_derivative else 2.0), changes
    if isinstance(loss, SoftmaxLoss):
        weight, length = float(loss.n_outputs), math.sqrt(2.0) * changes
    low, high = 0.0, math.sqrt(2.0 * epsilon) + 1.0
    while weight * convex_delta(epsilon, high) <= delta:
        high *= 2.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        if weight * convex_delta(epsilon, middle) * (1.0 + _ERROR) <= delta:
            low = middle
        else:
            high = middle
    return low / length * (1.0 - 4.0 * EPS)


@lru_cache(maxsize=4096)
def _invert(terms: Terms, epsilon: float, delta: float) -> float:
    """Return the largest mu with ``sum of weight * delta_{factor mu}(epsilon) <= delta``."""
    terms = tuple(term for term in terms if term[0] > 0.0)
    each = [gaussian_mu(epsilon, delta / weight) / factor for weight, factor in terms]
    if len(terms) == 1:
        return each[0] * (1.0 - 4.0 * EPS)
    total = sum(weight for weight, _ in terms)
    low = gaussian_mu(epsilon, delta / total) / max(factor for _, factor in terms)
    high = max(min(each), low)

    def cost(mu: float) -> float:
        return sum(weight * gaussian_delta(epsilon, factor * mu) for weight, factor in terms)

    for _ in range(40):
        middle = math.sqrt(low) * math.sqrt(high)
        if cost(middle) * (1.0 + 16.0 * EPS) <= delta:
            low = middle
        else:
            high = middle
    return low * (1.0 - 4.0 * EPS)
