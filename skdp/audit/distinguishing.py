"""Empirical lower bounds on epsilon: how well fits on neighbouring data sets are told apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import stats
from sklearn.utils.parallel import Parallel, delayed

from skdp._checks import check_count, check_real
from skdp.audit.outputs import DataSet, check_data, fit, released_parameters
from skdp.privacy.events import GaussianEvent, flatten_event
from skdp.privacy.gaussian_dp import gaussian_epsilon

#: Thresholds that are tried on the first half of the runs.
_N_THRESHOLDS = 200


@dataclass(frozen=True)
class AuditResult:
    """What an audit found.

    Attributes
    ----------
    claimed_epsilon, delta : float
        The claim.
    epsilon_lower_bound : float
        With probability `confidence` at least, the estimator is not ``(epsilon, delta)``-DP for any
        epsilon below. 0 where nothing was shown.
    gaussian_lower_bound : float
        The same for estimators whose privacy is that of a Gaussian mechanism (Gaussian DP, as of
        most methods here for ``delta > 0``), which claim more than one pair. NaN for ``delta = 0``.
    epsilon_estimate : float
        Epsilon of two normal laws whose means are as far apart as those of the scores, in standard
        deviations. Sharper, but an estimate without confidence. NaN for ``delta = 0``.
    n_runs : int
        Fits on each data set.
    confidence : float
    is_gaussian : bool
        Whether the claim is that of ``privacy_``, whose events are all Gaussian.
    """

    claimed_epsilon: float
    delta: float
    epsilon_lower_bound: float
    gaussian_lower_bound: float
    epsilon_estimate: float
    n_runs: int
    confidence: float
    is_gaussian: bool = False

    @property
    def refutes(self) -> bool:
        """Whether the bound is above the claim: `gaussian_lower_bound` if that `is_gaussian`."""
        bound = self.gaussian_lower_bound if self.is_gaussian else self.epsilon_lower_bound
        return bound > self.claimed_epsilon


def audit_estimator(
    estimator: Any,
    D: DataSet,
    D_prime: DataSet,
    n_runs: int = 1000,
    confidence: float = 0.999,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    output: Callable[[Any], np.ndarray] = released_parameters,
    score: Callable[[np.ndarray], np.ndarray] | None = None,
    n_jobs: int | None = None,
    random_state: int | None = None,
) -> AuditResult:
    """Bound the epsilon of an estimator from below by fits on two neighbouring data sets.

    If fits are (epsilon, delta)-DP, no set of outputs has a probability p under one data set and q
    under the other with ``p > exp(epsilon) q + delta``. Half of the runs find a set: a statistic of
    the output, and a threshold. The other half counts how often outputs lie in it, and
    Clopper-Pearson bounds on p and q give one on epsilon.

    Parameters
    ----------
    estimator : object
        Of this or of another package, with ``fit`` and ``get_params``. Its `random_state` is set
        anew for every fit.
    D, D_prime : tuple
        ``(X, y)`` or ``(X, y, fit_params)``. The claim must cover them as neighbours.
    n_runs : int, default=1000
        Fits on each data set. An epsilon above about ``log(n_runs / 20)`` cannot be shown.
    confidence : float, default=0.999
        Probability that the bound is right, in (0, 1).
    epsilon, delta : float, optional
        The claim. Default: what ``privacy_`` of a fit says, which may be that of Gaussian noise,
        else the parameters of the estimator, with ``delta = 0`` if there is none.
    output : callable ``fitted -> ndarray of shape (k,)``, default=released_parameters
        What an attacker sees.
    score : callable ``ndarray (n, k) -> ndarray (n,)``, optional
        A statistic that is large under D. Default: the better one, on the first half, of the linear
        discriminant and of the distance from the mean output, with either sign.
    n_jobs : int, optional
        For joblib.
    random_state : int, optional
        Seed of the fits. None: their own randomness, as users have it.

    Returns
    -------
    AuditResult
        The lower bound beside the claim.

    Raises
    ------
    ValueError
        For fewer than 20 runs, outputs that are not finite, or without a claim.

    References
    ----------
    M. Jagielski, J. Ullman, A. Oprea, "Auditing differentially private machine learning: how
    private is private SGD?", NeurIPS 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.audit import audit_estimator
    >>> from skdp.linear_model import DPRidge
    >>> from skdp.methods import OutputPerturbation
    >>> X, y = np.ones((20, 1)), np.ones(20)
    >>> changed = np.append(-1.0, np.ones(19))
    >>> model = DPRidge(
    ...     2.0, delta=0, method=OutputPerturbation(alpha=100.0), data_norm=1.0,
    ...     target_range=(-1, 1), fit_intercept=False,
    ... )
    >>> result = audit_estimator(model, (X, y), (X, changed), n_runs=200, random_state=0)
    >>> bool(0.5 < result.epsilon_lower_bound < result.claimed_epsilon == 2.0)
    True
    """
    D, D_prime = check_data("D", D), check_data("D_prime", D_prime)
    check_count("n_runs", n_runs, 20)
    check_real("confidence", confidence, 0.0, 1.0, closed="neither")
    first = fit(estimator, D, None if random_state is None else 0)
    is_gaussian = epsilon is None and delta is None and _is_gaussian(first)
    epsilon, delta = _claim(first, epsilon, delta)
    seeds: list[Any] = [None] * (2 * n_runs)
    if random_state is not None:
        words = np.random.SeedSequence(random_state).generate_state(2 * n_runs)
        seeds = [int(word) for word in words]
    jobs = ((D, seed) for seed in seeds[:n_runs]), ((D_prime, seed) for seed in seeds[n_runs:])
    run = delayed(_run)
    here, there = (
        np.array(Parallel(n_jobs=n_jobs)(run(estimator, data, seed, output) for data, seed in part))
        for part in jobs
    )
    if not (np.isfinite(here).all() and np.isfinite(there).all()):
        raise ValueError("output returned numbers that are not finite.")
    half = n_runs // 2
    training, test = (here[:half], there[:half]), (here[half:], there[half:])
    statistics = [score] if score is not None else _statistics(*training)

    bound = partial(epsilon_lower_bound, delta=delta, confidence=confidence)
    found, _ = _held_out(statistics, training, test, bound)
    bound = partial(mu_lower_bound, confidence=confidence)
    mu, (p, q) = _held_out(statistics, training, test, bound)
    gaussian = estimate = math.nan
    if delta:
        gaussian = gaussian_epsilon(delta, max(mu, 0.0))
        deviation = math.sqrt(0.5 * (p.var() + q.var()))
        estimate = gaussian_epsilon(delta, abs(p.mean() - q.mean()) / max(deviation, 1e-300))
    return AuditResult(
        claimed_epsilon=epsilon,
        delta=delta,
        epsilon_lower_bound=max(found, 0.0),
        gaussian_lower_bound=gaussian,
        epsilon_estimate=estimate,
        n_runs=int(n_runs),
        confidence=float(confidence),
        is_gaussian=is_gaussian,
    )


def _held_out(
    statistics: list[Callable[[np.ndarray], np.ndarray]],
    training: tuple[np.ndarray, np.ndarray],
    test: tuple[np.ndarray, np.ndarray],
    bound: Callable[[int, int, int], float],
) -> tuple[float, tuple[np.ndarray, np.ndarray]]:
    """Choose statistic and threshold on the first half; return bound and scores of the other."""

    def counted(scores: tuple[np.ndarray, np.ndarray], threshold: float) -> float:
        p, q = (int((part > threshold).sum()) for part in scores)
        return bound(p, q, len(scores[0]))

    best: tuple[float, Any, float] = (-math.inf, statistics[0], 0.0)
    for statistic in statistics:
        scores = statistic(training[0]), statistic(training[1])
        for threshold in np.quantile(np.concatenate(scores), np.linspace(0.0, 1.0, _N_THRESHOLDS)):
            found = counted(scores, float(threshold))
            if found > best[0]:
                best = found, statistic, float(threshold)
    scores = best[1](test[0]), best[1](test[1])
    return counted(scores, best[2]), scores


def epsilon_lower_bound(p: int, q: int, n_runs: int, delta: float, confidence: float) -> float:
    """Bound epsilon from below by how often outputs of two data sets lie in a set.

    The set must be chosen without a look at these outputs. The set and its complement are looked
    at, in both directions, with Clopper-Pearson bounds on their probabilities.

    Parameters
    ----------
    p, q : int
        How many of the `n_runs` outputs under each of two neighbouring data sets lie in the set.
    n_runs : int
        Number of fits on each of the two.
    delta : float
        Of the claim; in [0, 1).
    confidence : float
        Probability that the bound is right, in (0, 1).

    Returns
    -------
    float
        Nats; ``-inf`` where nothing follows.

    Examples
    --------
    >>> from skdp.audit import epsilon_lower_bound
    >>> round(epsilon_lower_bound(950, 50, 1000, delta=0.0, confidence=0.999), 2)
    2.46
    """
    check_count("n_runs", n_runs, 1)
    check_count("p", p, 0, n_runs)
    check_count("q", q, 0, n_runs)
    check_real("delta", delta, 0.0, 1.0, closed="left")
    check_real("confidence", confidence, 0.0, 1.0, closed="neither")
    bounds = []
    for low, high in _error_rates(p, q, n_runs, confidence):
        bounds.append(math.log((low - delta) / high) if low > delta else -math.inf)
    return float(max(bounds))


def mu_lower_bound(p: int, q: int, n_runs: int, confidence: float) -> float:
    """Bound the mu of Gaussian DP from below by two counts; see :func:`epsilon_lower_bound`."""
    rates = _error_rates(p, q, n_runs, confidence)
    return float(max(stats.norm.ppf(low) - stats.norm.ppf(high) for low, high in rates))


def _error_rates(p: int, q: int, n_runs: int, confidence: float) -> Iterator[tuple[float, float]]:
    """Yield bounds on probabilities of a set: from below under one data set, above under the other.

    For the set and its complement, in both directions. All hold at once.
    """
    rate = (1.0 - confidence) / 4.0  # one-sided bounds (Clopper, Pearson): two for each probability
    for often, seldom in ((p, q), (q, p), (n_runs - p, n_runs - q), (n_runs - q, n_runs - p)):
        low = stats.beta.ppf(rate, often, n_runs - often + 1) if often else 0.0
        high = stats.beta.isf(rate, seldom + 1, n_runs - seldom) if seldom < n_runs else 1.0
        yield float(low), float(high)


def _run(
    estimator: Any, data: DataSet, seed: int | None, output: Callable[[Any], np.ndarray]
) -> np.ndarray:
    return np.ravel(np.asarray(output(fit(estimator, data, seed)), dtype=float))


def _claim(fitted: Any, epsilon: float | None, delta: float | None) -> tuple[float, float]:
    """Return the claim of a fitted estimator where none is given."""
    claims = getattr(fitted, "privacy_", fitted)
    if epsilon is None:
        epsilon = getattr(claims, "epsilon", None)
    if epsilon is None:
        raise ValueError(f"{type(fitted).__name__} has no epsilon: pass epsilon=.")
    if delta is None:
        delta = getattr(claims, "delta", 0.0)
    check_real("epsilon", epsilon, 0.0)
    check_real("delta", delta, 0.0, 1.0, closed="left")
    return float(epsilon), float(delta or 0.0)


def _is_gaussian(fitted: Any) -> bool:
    """Whether all that a fit reports is Gaussian noise."""
    event = getattr(getattr(fitted, "privacy_", None), "event", None)
    parts = [] if event is None else flatten_event(event)
    return bool(parts) and all(isinstance(part, GaussianEvent) for part, _ in parts)


def _statistics(here: np.ndarray, there: np.ndarray) -> list[Callable[[np.ndarray], np.ndarray]]:
    """Make statistics of outputs from those of the first half of the runs."""
    center = 0.5 * (here.mean(axis=0) + there.mean(axis=0))
    spread = 0.5 * (np.cov(here, rowvar=False) + np.cov(there, rowvar=False))
    spread = np.atleast_2d(spread)
    # a part of the trace: fewer runs than numbers must not make it singular; 1 without noise
    typical = float(np.trace(spread)) / len(spread) or 1.0
    spread = spread + 1e-3 * typical * np.eye(len(spread))
    direction = np.linalg.solve(spread, here.mean(axis=0) - there.mean(axis=0))
    scales = np.sqrt(np.diag(spread))
    middle = np.median(np.concatenate([here, there]), axis=0)

    def linear(outputs: np.ndarray) -> np.ndarray:
        return np.asarray((outputs - center) @ direction)

    def distance(outputs: np.ndarray) -> np.ndarray:
        return np.linalg.norm((outputs - middle) / scales, axis=1)

    return [linear, distance]
