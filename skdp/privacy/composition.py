"""The smallest epsilon of an event: accountants, an exact trade-off, numerical convolution.

Proofs, and the sections that are referred to: ``docs/theory/accounting.md``.

Gaussian and pure releases together have an exact trade-off. Randomised response with parameter
epsilon is the hardest epsilon-DP release to tell apart, and a composition is no harder than that of
the hardest ones (section 5). Its privacy loss is epsilon with probability ``1 / (1 + e^-epsilon)``
and -epsilon otherwise, so with the sum S of the losses of all pure releases and mu of the Gaussian
ones

    delta(epsilon) = E delta_mu(epsilon - S),

delta_mu being the function of :mod:`skdp.privacy.gaussian_dp`, continued to negative arguments.

Rounding. Two slacks below cover the rounding of the chances and of S. That of ``epsilon - S`` is
relative to epsilon, and exceeds them for mu above 100 only; there it is covered by the
``1e-15 * epsilon`` that `_log_delta_bound` of that module adds for its own rounding, and of which
little is used.
"""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.stats import binom

from skdp._checks import check_real
from skdp.privacy.accountants import (
    PURE,
    GaussianDPAccountant,
    PrivacyAccountant,
    PureAccountant,
    ZCDPAccountant,
)
from skdp.privacy.events import (
    ApproximateEvent,
    ComposedEvent,
    ExponentialMechanismEvent,
    GaussianEvent,
    Neighbouring,
    PoissonSampledSumEvent,
    PrivacyEvent,
    PureEvent,
    RepeatedEvent,
    common_relation,
    flatten_event,
)
from skdp.privacy.gaussian_dp import gaussian_delta
from skdp.privacy.rounding import ceil_float, floor_float

_Part = tuple[PrivacyEvent, int]
Leaves = tuple[_Part, ...]

#: Number of values of S, largest S and least delta with which anything is computed.
_MAX_LOSSES, _MAX_TOTAL, _LEAST_DELTA = 400, 1e6, 1e-100
#: Relative slack of delta, and slack of epsilon per unit of the losses.
_DELTA_SLACK, _LOSS_SLACK = 1e-10, 1e-12


def tightest_epsilon(
    event: PrivacyEvent,
    delta: float,
    neighbouring: Neighbouring | str | None = None,
    *,
    enough: float = 0.0,
) -> float:
    """Return the smallest epsilon that a proof known to the package gives for an event.

    It is the minimum over all accountants that cover the event, each with any number of the pure
    releases added plainly: the epsilon of an epsilon-DP release adds to that of everything else
    (section 5). That of Gaussian and pure releases together is exact, up to 400 different sums of
    their losses. Other totals are also given to Google's ``dp-accounting`` if the optional extra
    ``accounting`` is installed. Without it Poisson sampling is ignored, which is valid (section 6).
    The delta of an :class:`ApproximateEvent` is taken off `delta`, and what remains of the event is
    a pure release (section 8). Epsilons and noise must be fixed before the first result: no total
    at ``delta > 0`` covers those that follow from earlier results (section 5).

    Parameters
    ----------
    event : PrivacyEvent
        What was released.
    delta : float
        A probability in [0, 1].
    neighbouring : Neighbouring or str, optional
        The relation that the event must have. Default: any.
    enough : float, default=0.0
        Once a bound is at most this, the slower ones are not computed.

    Returns
    -------
    epsilon : float
        Nats; infinite where the event has no guarantee, as for a Gaussian at ``delta = 0``.

    Raises
    ------
    UnsupportedEventError, ValueError
        If no proof covers a part of the event, or if it was measured under another relation.

    Examples
    --------
    >>> from skdp.privacy import GaussianEvent, RepeatedEvent, tightest_epsilon
    >>> fit = GaussianEvent(4.22, "replace_one")
    >>> [round(tightest_epsilon(event, 1e-6), 2) for event in (fit, RepeatedEvent(fit, 5))]
    [1.0, 2.4]
    """
    common_relation([event], neighbouring)
    check_real("delta", delta, 0.0, 1.0)
    event, lost = _without_failures(event)
    if lost > delta:
        return math.inf
    if lost:
        delta = floor_float(Fraction(float(delta)) - lost)
    dropped, reduced = _reduce(event, drop=True), _reduce(event)
    best = _unsampled_epsilon(dropped, delta, enough)
    if reduced == dropped or best <= enough:
        return best
    leaves = flatten_event(reduced)
    best = min(best, _pld_epsilon(leaves, delta, best, enough))
    pure, rest = _split_pure(leaves)
    if pure:
        best = min(best, _add_pure(tightest_epsilon(_composed(rest), delta), _pure_total(pure)))
    return best


def _without_failures(event: PrivacyEvent) -> tuple[PrivacyEvent, Fraction]:
    """Replace (epsilon, delta)-DP releases by pure ones; return the sum of their deltas as well."""
    parts, lost = [], Fraction(0)
    for leaf, count in flatten_event(event):
        part: PrivacyEvent = leaf
        if isinstance(leaf, ApproximateEvent):
            part = PureEvent(leaf.epsilon, leaf.neighbouring)
            lost += count * Fraction(leaf.delta)
        parts.append((part, count))
    return (_composed(parts) if lost else event), lost


def import_convolution() -> Any:
    """Import the module of dp-accounting that convolves privacy loss distributions.

    Raises ImportError if it is missing, or older than 0.5.
    """
    try:
        pld = importlib.import_module("dp_accounting.pld.privacy_loss_distribution")
    except ImportError as error:
        raise ImportError(
            "dp-accounting is not installed; install the extra `accounting` "
            "(pip install 'skdp[accounting]')"
        ) from error
    if "neighboring_relation" not in inspect.signature(pld.from_gaussian_mechanism).parameters:
        raise ImportError("dp-accounting is too old: 0.5 or newer is needed.")
    return pld


def _unsampled_epsilon(event: PrivacyEvent, delta: float, enough: float) -> float:
    """Return the smallest epsilon of an event that holds no samples."""
    leaves = flatten_event(event)
    pure, rest = _split_pure(leaves)
    best = math.inf if rest else PureAccountant().compose(event).get_epsilon(delta)
    for accountant in (GaussianDPAccountant(), ZCDPAccountant()):
        accountant.compose(_composed(rest))
        added = _pure_total(pure)
        best = min(best, _add_pure(accountant.get_epsilon(delta), added))
        for part in _by_cost(pure, accountant):  # the parts after it are added plainly
            accountant.compose(*part)
            added -= _pure_total([part])
            best = min(best, _add_pure(accountant.get_epsilon(delta), added))
        if best <= enough:
            return best
    if 0.0 < delta < 1.0 and all(isinstance(leaf, PureEvent | GaussianEvent) for leaf, _ in leaves):
        losses = [(leaf.epsilon, count) for leaf, count in pure if isinstance(leaf, PureEvent)]
        exact = mixed_epsilon(_mu(rest), losses, delta, best)
        if exact < math.inf:
            return exact
    return min(best, _pld_epsilon(leaves, delta, best, enough))


def mixed_epsilon(
    mu: float, pure: Iterable[tuple[float, int]], delta: float, bound: float
) -> float:
    """Return the smallest epsilon of Gaussian and pure releases for a delta in (0, 1).

    mu is that of all Gaussian releases together, `pure` has epsilon and number of the pure ones,
    and the search starts at `bound`, a valid epsilon. Rounded up; inf where it would not be below
    `bound`, or where pure releases have too many different sums.
    """
    groups = [(float(epsilon), count) for epsilon, count in pure if epsilon > 0 and count]
    total = sum((Fraction(epsilon) * count for epsilon, count in groups), Fraction(0))
    too_many = math.prod(count + 1 for _, count in groups) > _MAX_LOSSES
    if too_many or bound == math.inf or total > _MAX_TOTAL or delta < _LEAST_DELTA:
        return math.inf
    losses, chances = np.zeros(1), np.ones(1)
    for epsilon, count in groups:
        heads = np.arange(count + 1)
        likely = binom.pmf(heads, count, 1.0 / (1.0 + math.exp(-epsilon)))
        losses = (losses[:, None] + epsilon * (2.0 * heads - count)).ravel()
        chances = (chances[:, None] * likely).ravel()
    slack = _LOSS_SLACK * (1.0 + float(total))

    def fits(epsilon: float) -> bool:
        terms = (_delta(epsilon - loss, mu) for loss in losses)
        found = math.fsum(chance * term for chance, term in zip(chances, terms, strict=True))
        return found * (1.0 + _DELTA_SLACK) <= delta

    if not fits(bound - slack):
        return math.inf
    if fits(0.0):
        return 0.0
    low, high = 0.0, bound - slack
    while high - low > 1e-9 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high + slack


def _delta(epsilon: float, mu: float) -> float:
    """Return the delta of mu-Gaussian-DP for an epsilon of either sign, rounded up."""
    if epsilon >= 0.0:
        return gaussian_delta(epsilon, mu)
    # 1 - e^epsilon (1 - delta(-epsilon)), by symmetry of the two laws
    return -math.expm1(epsilon) + math.exp(epsilon) * gaussian_delta(-epsilon, mu)


def _by_cost(pure: Iterable[_Part], accountant: PrivacyAccountant) -> list[_Part]:
    """Pure releases by what they add to an accountant's total per epsilon, the least first."""

    def ratio(part: _Part) -> Fraction:
        cost, epsilon = (of._cost(part[0]) for of in (accountant, PureAccountant()))
        return cost / epsilon if cost and epsilon else Fraction(0)

    return sorted(pure, key=ratio)


def _split_pure(leaves: Leaves) -> tuple[list[_Part], list[_Part]]:
    """Return the pure releases and the others."""
    pure = [part for part in leaves if isinstance(part[0], PURE)]
    return pure, [part for part in leaves if not isinstance(part[0], PURE)]


def _composed(leaves: Iterable[_Part]) -> ComposedEvent:
    return ComposedEvent([RepeatedEvent(*part) for part in leaves])


def _pure_total(pure: Iterable[_Part]) -> Fraction:
    return PureAccountant().compose(_composed(pure))._total


def _add_pure(epsilon: float, added: Fraction) -> float:
    """Add the cost of pure releases plainly, rounded up (section 5)."""
    return math.inf if epsilon == math.inf else ceil_float(Fraction(epsilon) + added)


def _mu(leaves: Iterable[_Part]) -> float:
    accountant = GaussianDPAccountant()
    accountant.compose(_composed(leaves))
    return accountant.mu


def _reduce(event: PrivacyEvent, *, drop: bool = False) -> PrivacyEvent:
    """Resolve samples of no record and of all records, with `drop` all of them (section 6).

    The result is in canonical order.
    """
    parts: list[_Part] = []
    for leaf, count in flatten_event(event):
        part: PrivacyEvent = leaf
        if isinstance(leaf, PoissonSampledSumEvent):
            if leaf.sampling_probability == 0.0:
                continue
            if drop or leaf.sampling_probability == 1.0:
                part = leaf.event
        parts.append((part, count))
    return _composed(sorted(flatten_event(_composed(parts)), key=repr))


def _pld_epsilon(leaves: Leaves, delta: float, bound: float, enough: float) -> float:
    """Return the epsilon by numerical convolution of privacy loss distributions (section 7).

    Every leaf becomes a pair of laws that dominates it: randomised response for a pure release,
    two Gaussians for the Gaussian ones, either for an exponential mechanism, and mixtures of
    Gaussians for sampled sums. The discretisation is pessimistic; some delta is kept back for the
    rounding of the convolution. Infinite where there is nothing to gain.
    """
    number = sum(count for _, count in leaves)
    rounding = 1e-12 * max(1.0, ceil_float(Fraction(number, 1000)))
    is_sampled = any(isinstance(leaf, PoissonSampledSumEvent) for leaf, _ in leaves)
    exact = all(isinstance(leaf, GaussianEvent) for leaf, _ in leaves) or number == 1
    if bound <= enough or delta < 1000.0 * rounding or (exact and not is_sampled):
        return math.inf
    try:
        pld = import_convolution()
    except ImportError:
        return math.inf
    either = {False, any(isinstance(leaf, ExponentialMechanismEvent) for leaf, _ in leaves)}
    return min(_convolve(leaves, delta - rounding, bound, pld, choice) for choice in either)


def _convolve(leaves: Leaves, delta: float, bound: float, pld: Any, as_gaussian: bool) -> float:
    as_response = PureEvent if as_gaussian else PURE
    pure = [(leaf.epsilon, count) for leaf, count in leaves if isinstance(leaf, as_response)]
    done = (PoissonSampledSumEvent, as_response)
    mu = _mu(part for part in leaves if not isinstance(part[0], done))
    # distance of two Gaussians, noise, options and number
    gaussian: list[tuple[float, float, dict[str, Any], int]] = []
    if mu > 0.0:
        gaussian.append((mu, floor_float(1 / Fraction(mu)), {}, 1))
    relations = importlib.import_module("dp_accounting").NeighboringRelation
    for leaf, count in leaves:
        if isinstance(leaf, PoissonSampledSumEvent):
            noise, relation = leaf.record_multiplier, relations.ADD_OR_REMOVE_ONE
            if leaf.neighbouring.is_replaced:
                relation = relations.REPLACE_ONE
            options = {"sampling_prob": leaf.sampling_probability, "neighboring_relation": relation}
            gaussian.append((leaf.neighbouring.n_changes / noise, noise, options, count))
    # Small beside the answer, but with about 1e5 steps at most; one epsilon need not be rounded up.
    spans = [0.5 * distance * distance + 10.0 * distance for distance, *_ in gaussian]
    if max(spans + [epsilon for epsilon, _ in pure], default=0.0) > 600.0 or len(leaves) > 100:
        return math.inf  # e^loss leaves double precision, or too much work
    width = sum(spans) + sum(epsilon * count for epsilon, count in pure)
    step = max(1e-5 * width, 1e-4 * min(1.0, bound))
    if pure and min(pure)[0] > step:
        step = (1.0 + 1e-12) * min(pure)[0] / math.ceil(min(pure)[0] / step)
    total = pld.identity(value_discretization_interval=step)
    for _, noise, options, count in gaussian:
        part = pld.from_gaussian_mechanism(
            min(1e10, noise), value_discretization_interval=step, **options
        )
        total = total.compose(part.self_compose(count))
    for epsilon, count in pure:
        parameters = pld.common.DifferentialPrivacyParameters(epsilon)
        part = pld.from_privacy_parameters(parameters, value_discretization_interval=step)
        total = total.compose(part.self_compose(count))
    return float(total.get_epsilon_for_delta(delta))
