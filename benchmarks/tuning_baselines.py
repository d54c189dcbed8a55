"""Private ways to choose a penalty that the self-tuning estimators are compared with.

All work on the same records: rows of norm at most 1 and targets in [-1, 1] (ridge) or {0, 1}
(logistic), both public. Their base fit is output perturbation at a fixed penalty, that of
`skdp.methods.OutputPerturbation`: the same minimiser, sensitivity, noise and projection. The
minimiser of a penalty is computed once per data set; the time that it took is charged to every
method that asks for it, once.

Neighbours differ in one record replaced. Every method returns the event that it made, and
`total_epsilon` says what that costs; noise is calibrated such that this is the budget. Noise comes
from a seeded generator here, as everything else: nothing in this file is for real data.

References: Liu and Talwar (2019); Papernot and Steinke (2022); Wang (2018), AdaSSP; Kornowski
(2024), section 7; docs/theory/bilevel.md.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from skdp.algorithms import plan_output_perturbation
from skdp.mechanisms import gaussian_noise_multiplier
from skdp.privacy import (
    ComposedEvent,
    ExponentialMechanismEvent,
    GaussianEvent,
    Neighbouring,
    PrivacyBudget,
    PrivacyEvent,
    RepeatedEvent,
    tightest_epsilon,
)
from skdp.privacy.gaussian_dp import gaussian_mu, pure_mu
from skdp.problems import Design, EmpiricalRisk, HalfSquaredLoss, LogisticLoss, Records
from skdp.solvers import resolve_solver, solve_certified

#: The relation of all events.
REPLACE_ONE = Neighbouring.REPLACE_ONE
#: Half decades; the squared bound of a row is 1.
GRID = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0)
#: Decades, where every candidate costs budget.
SMALL_GRID = GRID[::2]
#: Where the smallest penalty sets the sensitivity of all scores.
STRONG_GRID = GRID[4:]
#: Value of the constant feature, that of the estimators' default.
INTERCEPT = 0.1
#: Part of a base run's squared Gaussian parameter that its score gets; the fit gets the others.
SCORE_SHARE = 0.1
#: Part that the exponential mechanism gets, the final fit gets the others.
TUNE_SHARE = 0.2
#: Failure probability of AdaSSP's bounds.
ADASSP_FAILURE = 0.05
#: Rényi orders of the accountant; its default ones stop at 64 but for four.
ORDERS = (*np.linspace(1.05, 3.0, 20), *np.geomspace(3.1, 3000.0, 120))

Penalty = float | tuple[float, ...]


# --------------------------------------------------------------------------------------- accounting


@dataclass(frozen=True)
class RepeatAndSelect:
    """A base run repeated K times, of which only the one with the best score is returned.

    K follows the truncated negative binomial law with this shape (0: logarithmic, 1: geometric,
    infinity: Poisson) and mean.
    """

    base: PrivacyEvent
    mean: float
    shape: float


@lru_cache(maxsize=1024)
def total_epsilon(event: PrivacyEvent | RepeatAndSelect, delta: float) -> float:
    """What an event costs under replacement of a record.

    The package's accountants; they cannot repeat and select, so that this one event is given to the
    RDP accountant of dp-accounting (Papernot and Steinke 2022, Theorems 2 and 6).
    """
    if not isinstance(event, RepeatAndSelect):
        return tightest_epsilon(event, delta)
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(ORDERS, dp_accounting.NeighboringRelation.REPLACE_ONE)
    repeated = dp_accounting.dp_event.RepeatAndSelectDpEvent(
        _converted(event.base), event.mean, event.shape
    )
    return float(accountant.compose(repeated).get_epsilon(delta))


def _converted(event: PrivacyEvent) -> Any:
    import dp_accounting

    if isinstance(event, ComposedEvent):
        return dp_accounting.ComposedDpEvent([_converted(part) for part in event.events])
    assert isinstance(event, GaussianEvent)
    return dp_accounting.GaussianDpEvent(event.noise_multiplier)


def composed_gaussians(multiplier: float, shares: Sequence[float]) -> ComposedEvent:
    """Gaussian releases whose squared parameters are these shares of ``1 / multiplier^2``."""
    return ComposedEvent(
        tuple(GaussianEvent(multiplier / math.sqrt(share), REPLACE_ONE) for share in shares)
    )


@lru_cache(maxsize=256)
def calibrated_base(epsilon: float, delta: float, mean: float, shape: float) -> RepeatAndSelect:
    """Repeat and select whose base run, fit and score together, has the least noise allowed."""

    def event(log_multiplier: float) -> RepeatAndSelect:
        shares = (1.0 - SCORE_SHARE, SCORE_SHARE)
        return RepeatAndSelect(composed_gaussians(math.exp(log_multiplier), shares), mean, shape)

    def excess(log_multiplier: float) -> float:
        return min(total_epsilon(event(log_multiplier), delta), 1e6 * epsilon) - epsilon

    # a single run is a lower bound on the noise
    low = math.log(gaussian_noise_multiplier(epsilon, delta)) - 1e-3
    found = float(brentq(excess, low, low + 12.0, xtol=1e-6))
    while excess(found) > 0:
        found += 1e-6
    return event(found)


def repetitions(mean: float, shape: float, rng: np.random.Generator) -> int:
    """Draw the number of runs.

    ``P(K = k)`` is proportional to ``(1 - gamma)^k prod_{l < k} (l + shape) / (l + 1)`` for
    k >= 1 (Papernot and Steinke 2022, Definition 1), or Poisson.
    """
    if shape == math.inf:
        return int(rng.poisson(mean))
    law = repetition_law(mean, shape)
    return 1 + min(int(np.searchsorted(np.cumsum(law), rng.random())), len(law) - 1)


@lru_cache(maxsize=16)
def repetition_law(mean: float, shape: float) -> np.ndarray:
    """Probabilities of K = 1, 2, ... down to about 1e-17 of the first."""

    def law(log_gamma: float) -> np.ndarray:
        gamma = math.exp(log_gamma)
        k = np.arange(1, math.ceil(45.0 * (1.0 + shape) / gamma) + 2)
        logs = np.cumsum(np.log1p(-gamma) + np.log((k + shape) / (k + 1.0)))
        weights = np.exp(np.concatenate([[0.0], logs]) - max(0.0, logs.max()))
        return weights / weights.sum()

    def excess(log_gamma: float) -> float:
        found = law(log_gamma)
        return float(found @ np.arange(1, len(found) + 1)) - mean

    low = math.log(0.02 / mean)
    return law(float(brentq(excess, low, math.log1p(-1e-9), xtol=1e-10)))


# ---------------------------------------------------------------------------------------- base fits


@dataclass(frozen=True)
class Solution:
    """The exact minimiser at a penalty and what its release needs; not private."""

    weights: np.ndarray
    unit: np.ndarray
    radius: float
    sensitivity: float
    seconds: float


@dataclass
class BaseFits:
    """Output perturbation at fixed penalties on one data set.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows of norm at most 1.
    targets : ndarray of shape (n,)
    logistic : bool
    groups : ndarray of shape (d,), optional
        Group of each feature, for tuples of penalties.
    """

    X: np.ndarray
    targets: np.ndarray
    logistic: bool
    groups: np.ndarray | None = None
    _solutions: dict[Penalty, Solution] = field(default_factory=dict)

    @property
    def n(self) -> int:
        return len(self.targets)

    @property
    def loss(self) -> Any:
        return LogisticLoss() if self.logistic else HalfSquaredLoss(1.0)

    @property
    def score_bound(self) -> float:
        """Losses are clipped to [0, this] in scores: what a prediction of 0 can cost, or twice."""
        return 2.0 * math.log(2.0) if self.logistic else 0.5

    @property
    def score_slope(self) -> float:
        """Lipschitz constant of the clipped loss in the margin."""
        return 1.0  # of sqrt(2 * 0.5), where the squared loss is cut off

    @property
    def row_norm(self) -> float:
        return math.hypot(1.0, INTERCEPT)

    def solution(self, penalty: Penalty) -> Solution:
        """Solve, or remember.

        For several penalties ``a_g``, features are multiplied by ``sqrt(min a / a_g)``, at most 1,
        and their coefficients penalised by ``min a``.
        """
        if penalty not in self._solutions:
            start = time.perf_counter()
            X, unit, alpha = self.X, np.ones(self.X.shape[1] + 1), penalty
            if isinstance(penalty, tuple):
                assert self.groups is not None
                alpha = min(penalty)
                unit[:-1] = np.sqrt(alpha / np.array(penalty))[self.groups]
                X = X * unit[:-1]
            rows = Records(X, 1.0, INTERCEPT)
            risk, design = EmpiricalRisk(self.loss), Design.of(rows)
            radius = risk.radius(design, alpha, None)
            problem = risk.problem(rows.with_targets(self.targets), alpha, radius)
            # neither accuracy nor sensitivity depends on the budget
            plan = plan_output_perturbation(problem.constants, PrivacyBudget(1.0, 1e-6))
            point = solve_certified(
                problem, 0.5 * plan.accuracy, resolve_solver("auto"), rng=np.random.default_rng(0)
            ).point
            self._solutions[penalty] = Solution(
                np.array(point), unit, radius, plan.mechanism.sensitivity,
                time.perf_counter() - start,
            )  # fmt: skip
        return self._solutions[penalty]

    def release(self, penalty: Penalty, multiplier: float, rng: np.random.Generator) -> np.ndarray:
        """Private coefficients, that of the constant feature last."""
        found = self.solution(penalty)
        point = found.weights + multiplier * found.sensitivity * rng.standard_normal(
            found.weights.size
        )
        norm = float(np.linalg.norm(point))
        return point * min(1.0, found.radius / max(norm, 1e-300)) * found.unit

    def margins(self, weights: np.ndarray) -> np.ndarray:
        return self.X @ weights[:-1] + INTERCEPT * weights[-1]

    def score(self, weights: np.ndarray) -> float:
        """Mean clipped loss, not private: moves by at most ``score_bound / n``."""
        losses = self.loss.value(self.margins(weights), self.targets)
        return float(np.minimum(losses, self.score_bound).mean())


@dataclass(frozen=True)
class Choice:
    """A private model and how it came about.

    Attributes
    ----------
    weights : ndarray of shape (d + 1,)
    penalty : float or tuple
    event : PrivacyEvent or RepeatAndSelect
        Of everything that the choice and the model are made from.
    runs : int
        Base fits.
    asked : tuple
        Strengths whose minimisers were needed.
    """

    weights: np.ndarray
    penalty: Penalty
    event: PrivacyEvent | RepeatAndSelect | None
    runs: int = 1
    asked: tuple[Penalty, ...] = ()


Baseline = Callable[[BaseFits, float, float, np.random.Generator], Choice]


# ------------------------------------------------- baselines: (fits, epsilon, delta, rng) -> Choice


def fixed(penalty: float) -> Baseline:
    """No choice: a penalty written down before, the whole budget for one fit."""

    def run(fits: BaseFits, epsilon: float, delta: float, rng: np.random.Generator) -> Choice:
        multiplier = gaussian_noise_multiplier(epsilon, delta)
        weights = fits.release(penalty, multiplier, rng)
        return Choice(weights, penalty, GaussianEvent(multiplier, REPLACE_ONE), asked=(penalty,))

    return run


def constant(fits: BaseFits, epsilon: float, delta: float, rng: np.random.Generator) -> Choice:
    """The model 0, which needs no records."""
    return Choice(np.zeros(fits.X.shape[1] + 1), math.inf, None, runs=0)


def repeat_and_select(
    mean: float, shape: float, grid: Sequence[float] = GRID, n_groups: int = 1
) -> Baseline:
    """Liu and Talwar (2019; shape 1), Papernot and Steinke (2022; shape 0 or infinity).

    A run draws a penalty (one per group) uniformly from the grid, fits, and scores its private
    model by the mean clipped loss on the same records with noise; both parts see all records, so
    that their costs add.
    """

    def run(fits: BaseFits, epsilon: float, delta: float, rng: np.random.Generator) -> Choice:
        event = calibrated_base(epsilon, delta, mean, shape)
        fit, score = (part.noise_multiplier for part in event.base.events)  # type: ignore
        best, asked = (math.inf, None, 0.0), []
        runs = repetitions(mean, shape, rng)
        for _ in range(runs):
            drawn = tuple(float(value) for value in rng.choice(grid, n_groups))
            penalty: Penalty = drawn if n_groups > 1 else drawn[0]
            asked.append(penalty)
            weights = fits.release(penalty, fit, rng)
            noise = score * fits.score_bound / fits.n * rng.standard_normal()
            best = min(best, (fits.score(weights) + noise, weights, penalty), key=lambda x: x[0])
        if best[1] is None:  # Poisson: no run at all
            return Choice(np.zeros(fits.X.shape[1] + 1), math.inf, event, 0)
        return Choice(best[1], best[2], event, runs, tuple(asked))

    return run


def split_budget(grid: Sequence[float] = SMALL_GRID) -> Baseline:
    """Plain grid search: k fits and the vector of their k scores, with equal shares."""

    def run(fits: BaseFits, epsilon: float, delta: float, rng: np.random.Generator) -> Choice:
        k = len(grid)
        multiplier = gaussian_noise_multiplier(epsilon, delta) * math.sqrt(k + 1)
        models = [fits.release(penalty, multiplier, rng) for penalty in grid]
        scores = np.array([fits.score(weights) for weights in models])
        sensitivity = math.sqrt(k) * fits.score_bound / fits.n
        best = int(np.argmin(scores + multiplier * sensitivity * rng.standard_normal(k)))
        event = RepeatedEvent(GaussianEvent(multiplier, REPLACE_ONE), k + 1)
        return Choice(models[best], grid[best], event, k, tuple(grid))

    return run


def exponential_over_grid(grid: Sequence[float] = STRONG_GRID) -> Baseline:
    """Exponential mechanism on scores of the exact minimisers, then a fit with what is left.

    A score is the mean clipped loss plus a public bound on what the noise of the final fit adds to
    it: without that, the smallest penalty is always best on the records that it was fitted to.
    It moves by at most ``slope * row norm * sensitivity(minimiser) + bound / n``. The draw is
    of range `share`, hence Gaussian DP with that of a pure ``share / 2`` release
    (docs/theory/accounting.md, section 3), and squares add.
    """

    def run(fits: BaseFits, epsilon: float, delta: float, rng: np.random.Generator) -> Choice:
        mu = gaussian_mu(epsilon, delta)
        multiplier = 1.0 / (mu * math.sqrt(1.0 - TUNE_SHARE))
        target = mu * math.sqrt(TUNE_SHARE)
        share = float(
            brentq(lambda e: pure_mu(0.5 * e) - target, 1e-12, 40.0 + 2.0 * target**2, xtol=1e-12)
        )
        share *= 1.0 - 1e-8
        found = [fits.solution(penalty) for penalty in grid]
        slope = fits.score_slope * fits.row_norm
        moves = max(slope * one.sensitivity for one in found) + fits.score_bound / fits.n
        curvature = fits.loss.curvature
        scores = np.array(
            [
                fits.score(one.weights)
                + 0.5 * curvature * (fits.row_norm * multiplier * one.sensitivity) ** 2
                for one in found
            ]
        )
        noisy = -share * scores / (2.0 * moves) + rng.gumbel(size=len(grid))
        best = int(np.argmax(noisy))
        event = ComposedEvent(
            (ExponentialMechanismEvent(share, REPLACE_ONE), GaussianEvent(multiplier, REPLACE_ONE))
        )
        weights = fits.release(grid[best], multiplier, rng)
        return Choice(weights, grid[best], event, 1, tuple(grid))

    return run


def adassp(fits: BaseFits, epsilon: float, delta: float, rng: np.random.Generator) -> Choice:
    """AdaSSP (Wang 2018) with exact Gaussian accounting instead of three times epsilon / 3."""
    if fits.logistic:
        raise ValueError("AdaSSP is for least squares.")
    multiplier = gaussian_noise_multiplier(epsilon, delta) * math.sqrt(3.0)
    A = np.hstack([fits.X, np.full((fits.n, 1), INTERCEPT)])
    weights, penalty = adassp_release(A, fits.targets, fits.row_norm, multiplier, rng)
    return Choice(
        weights, penalty / fits.n, RepeatedEvent(GaussianEvent(multiplier, REPLACE_ONE), 3), 1
    )


def adassp_release(
    A: np.ndarray,
    targets: np.ndarray,
    row_norm: float,
    multiplier: float,
    rng: np.random.Generator,
    neighbouring: Neighbouring = REPLACE_ONE,
) -> tuple[np.ndarray, float]:
    """Coefficients and penalty of AdaSSP from three releases with one noise multiplier.

    With X a public bound on the rows and 1 one on the targets, the least eigenvalue of ``A'A`` is
    moved by at most X^2, by a replaced record too; ``A'A`` by X^2 in the Frobenius norm, and by
    sqrt(2) X^2 by a replaced record; ``A'b`` by X, and by 2 X. With the standard deviation s of
    an off-diagonal entry of ``A'A`` the penalty is ``max(0, s sqrt(d log(2 d^2 / rho)) - lower)``,
    lower being a bound on the least eigenvalue that holds with probability ``1 - rho`` (and is at
    least 0).
    """
    replaced = neighbouring is REPLACE_ONE
    d, square = A.shape[1], row_norm**2
    moments, vector = A.T @ A, A.T @ targets
    # per orthonormal coordinate of symmetric matrices, which are sqrt(2) entries
    s = multiplier * square * (1.0 if replaced else math.sqrt(0.5))
    deviation = multiplier * square
    least = np.linalg.eigvalsh(moments)[0] + deviation * rng.standard_normal()
    lower = max(0.0, float(least - deviation * ndtri(1.0 - ADASSP_FAILURE)))
    noise = np.triu(s * rng.standard_normal((d, d)), 1)
    noise = noise + noise.T + np.diag(math.sqrt(2.0) * s * rng.standard_normal(d))
    moved = (2.0 if replaced else 1.0) * row_norm
    vector = vector + multiplier * moved * rng.standard_normal(d)
    penalty = max(0.0, s * math.sqrt(d * math.log(2 * d**2 / ADASSP_FAILURE)) - lower)
    return np.linalg.solve(moments + noise + penalty * np.eye(d), vector), penalty


#: Runs expected of methods that repeat.
MEAN_RUNS = 10.0


def baselines(logistic: bool, n_groups: int = 1) -> dict[str, Baseline]:
    """All private baselines by name."""
    found: dict[str, Baseline] = {
        "constant": constant,
        **{f"fixed alpha={penalty:g}": fixed(penalty) for penalty in GRID},
        "Liu-Talwar": repeat_and_select(MEAN_RUNS, 1.0),
        "Papernot-Steinke, logarithmic": repeat_and_select(MEAN_RUNS, 0.0),
        "Papernot-Steinke, Poisson": repeat_and_select(MEAN_RUNS, math.inf),
        "exponential mechanism over a grid": exponential_over_grid(),
        "grid, split budget": split_budget(),
    }
    if not logistic:
        found["AdaSSP"] = adassp
    if n_groups > 1:
        # the weakest group sets the sensitivity: only strong penalties
        found["Papernot-Steinke, per group"] = repeat_and_select(
            MEAN_RUNS, 0.0, STRONG_GRID[::2], n_groups
        )
    return found
