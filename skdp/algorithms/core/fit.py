"""The default of the linear models: means, noisy steps, size and shift; all else is free.

Only this module and :mod:`~.sums` meet records. A plan holds public numbers; what the first release
adds is a :class:`Found`. Theory: docs/theory/core.md, Theorem 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import softmax

from skdp._runtime import spare_processors, without_warnings
from skdp.algorithms.core.margin_laws import CONSTANT, Balance, Law, basis, odds, squares
from skdp.algorithms.core.means import Means, plan_means, release_means
from skdp.algorithms.core.size import Corrected, Derivatives, Size, posterior
from skdp.algorithms.core.steps import Steps, plan_steps
from skdp.algorithms.plan import Plan, Result, Run
from skdp.algorithms.preparation.centered_chunks import centered
from skdp.algorithms.preparation.centered_rows import CenteredRecords, ClippedGradients
from skdp.algorithms.preparation.noisy_sums import NoisySum
from skdp.mechanisms import GaussianMechanism
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.gaussian_dp import gaussian_mu
from skdp.privacy.report import Release
from skdp.problems import Loss, Objective, Records
from skdp.problems.rounding import two_margins, two_norms

#: Wanted noise of the means, least and largest part of the squared mu for them.
_MEANS_NOISE, _MEANS_SHARES = 0.05, (0.02, 0.12)
#: Part of size and shift, and its rounds.
_SIZE_SHARE, _ROUNDS = 0.06, 3
#: Clip of the last release over its noise, and the largest one of log odds.
_TOP, _TOP_OF_ODDS = 0.03, 2.0
#: Norm that no private weights exceed, in units of margins.
_LONGEST = 1e6


@dataclass(frozen=True)
class Found:
    """What follows from releases: the means, then the law and the steps, then the size."""

    means: Means
    law: Law
    steps: Steps
    balance: Balance | None
    size: Size | None = None
    theta: Corrected | None = None

    @property
    def start(self) -> np.ndarray:
        """Margins of a constant model in the basis."""
        return np.zeros(1) if self.balance is None else self.balance.start

    def base_at(
        self, size: float, root: np.ndarray, start: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the base of margins of a size and a shape, and its derivative in the size."""
        if self.balance is None:
            return start, np.zeros_like(start)
        step = 0.01 * size + 1e-3
        base = self.balance.base(size * root, start)
        ahead = self.balance.base((size + step) * root, base)
        return base, (ahead - base) / step


@dataclass(frozen=True, kw_only=True)
class CorePlan(Plan):
    """The three releases.

    Attributes
    ----------
    objective : Objective
        Of squares or log odds.
    mu : float
        Of the Gaussian differential privacy of all.
    share : float
        Part of its square for the means.
    found : Found or None
        None before the first release.
    """

    objective: Objective
    mu: float
    share: float
    found: Found | None = None

    @property
    def loss(self) -> Loss:
        return self.objective.risk.loss

    @property
    def n_classes(self) -> int:
        """Number of classes; 0 for numbers."""
        return self.loss.n_outputs + 1 if self.loss.has_odds else 0

    @property
    def unit(self) -> float:
        """Margins of the loss over those in the basis of log odds."""
        return math.sqrt(2.0) if self.loss.link == "logit" else 1.0

    @property
    def changes(self) -> int:
        return self.objective.neighbouring.n_changes

    @property
    def means(self) -> NoisySum:
        entries = self.objective.design.n_features + 2 + (self.n_classes or 2)
        mu = self.mu * math.sqrt(self.share)
        design, relation = self.objective.design, self.objective.neighbouring
        return plan_means(self.n_classes, design, relation, mu, entries)

    @property
    def mu_steps(self) -> float:
        return self.mu * math.sqrt(1.0 - self.share - _SIZE_SHARE)

    @property
    def mu_round(self) -> float:
        return self.mu * math.sqrt(_SIZE_SHARE / _ROUNDS)

    @property
    def numbers(self) -> Found:
        """What was found, or what public numbers let expect."""
        return self.found or self._expected()

    def _expected(self) -> Found:
        design = self.objective.design
        from skdp.algorithms.core.means import found

        d, classes = design.n_features, self.n_classes or 2
        targets = np.full(classes, 1.5 / math.sqrt(2.0) / classes)
        if not self.n_classes:
            targets = np.array([0.0, 0.06])
        noise = self.means.deviation / design.n_records
        vector = np.concatenate([np.zeros(d), [0.5], targets])
        is_moved = design.intercept > 0.0
        return self._planned(
            found(vector, noise, float(design.n_records), False, self.n_classes, is_moved)
        )

    def _planned(self, means: Means) -> Found:
        design = self.objective.design
        law = odds(means.shares) if self.n_classes else squares()
        n = means.n_records if design.is_slack else float(design.n_records)
        given = self.n_classes, design.n_features, n, self.changes, self.mu_steps
        balance = Balance(means.shares) if self.n_classes else None
        return Found(means, law, plan_steps(law, *given), balance)

    def _sum(self, name: str, lemma: str, clip: float, mu: float, entries: int) -> NoisySum:
        return NoisySum(
            design=self.objective.design,
            neighbouring=self.objective.neighbouring,
            mu=mu,
            sensitivity=self.changes * clip,
            size=clip,
            n_entries=entries,
            name=name,
            reference=f"docs/theory/core.md, {lemma}",
        )

    def spread(self, means: Means) -> float:
        """Deviation of the targets in units of the loss; 1 for classes."""
        return means.deviation * (self.loss.target_bound or 1.0)

    @property
    def releases(self) -> tuple[Release, ...]:
        steps, means = self.numbers.steps, self.numbers.means
        clip = steps.clip * self.spread(means) / self.unit
        name = f"sums of clipped gradients, {steps.n_steps} steps as one"
        of_steps = self._sum(name, "Lemma 2", clip, self.mu_steps, self.objective.dimension)
        top, k = self._top(means.n_records), self.loss.n_outputs
        mu = self.mu_round * math.sqrt(_ROUNDS)
        rounds = self._sum(
            f"size and shift, {_ROUNDS} rounds as one", "Lemma 3", top, mu, 2 * k + 3
        )
        return self.means.describe(), of_steps.describe(), rounds.describe()

    def _top(self, n: float) -> float:
        top = max(_TOP * n * self.mu_round / self.changes, 1.0)
        return min(top, _TOP_OF_ODDS) if self.n_classes else top

    def to_dict(self) -> dict[str, Any]:
        steps = self.numbers.steps
        return {
            "alpha": self.objective.alpha or 1.0 / (steps.size * steps.n_steps),
            "n_steps": steps.n_steps,
            "step_size": steps.size,
            "momentum": steps.momentum,
            "clip_norm": steps.clip,
            "mu": self.mu,
        }

    def run(self, data: Records, run: Run) -> Result:
        self.objective.design.check(data)
        data.check_targets(self.loss)
        with without_warnings(), spare_processors(data.is_sparse and data.in_memory):
            data = data.in_double()
            bound = self.loss.target_bound or 1.0
            means = release_means(self.means, data, self.n_classes, bound, run.noise)
            found = self._planned(means)
            offsets = means.centering.offsets * (self.unit if self.n_classes else bound)
            rows = centered(data, replace(means.centering, offsets=offsets))
            weights = self._stepped(rows, found, run)
            d = self.objective.design.n_features
            norm = float(np.linalg.norm(weights[:, :d]))
            k = self.loss.n_outputs
            size = posterior(norm, found.steps, found.law, k, not self.n_classes)
            start = self._start(means, found, size, rows.constant * weights[:, d:].sum(axis=1))
            theta, base = self._corrected(rows, found, size, weights[:, :d], start, run)
            scale = self.spread(means) * self.unit
            weights[:, :d] *= scale * theta.theta[0] / size.deviation
            weights[:, d:] = 0.0
            center = 0.0 if self.n_classes else means.mean * bound
            offsets = center + scale * (base + theta.theta[1:])
            if not rows.has_intercept:
                offsets = np.zeros_like(offsets)
            point = rows.coefficients(weights, offsets, data.intercept)
            return Result(point=point, plan=replace(self, found=replace(found, size=size, theta=theta)))

    def _stepped(self, rows: CenteredRecords, found: Found, run: Run) -> np.ndarray:
        """Release 2: the mean iterate, shape (n_outputs, width), in the basis."""
        steps, loss, d = found.steps, self.loss, self.objective.design.n_features
        spread = self.spread(found.means)
        clip, scale = steps.clip * spread / self.unit, self.unit / spread
        offsets, bound = rows.centering.offsets, rows.norm_bound
        sums = replace(
            self._sum("", "", clip, self.mu_steps, self.objective.dimension),
            size=clip * rows.amplification,
        )
        shape = (loss.n_outputs, self.objective.design.width)
        weights, change, total = (np.zeros(shape) for _ in range(3))
        run.noise.reserve(steps.n_steps * total.size)
        for step in run.counted("noisy steps")(steps.n_steps):
            own = spread * self.unit * weights
            gradients = ClippedGradients(
                loss=loss, weights=rows.weights(own), offset=offsets.squeeze(), clip_norm=clip
            )
            with np.errstate(divide="ignore"):
                exact = rows.sums(rows.full_total(gradients))
            size = bound * float(np.linalg.norm(own)) + float(np.linalg.norm(offsets))
            moved = bound * two_margins(d, size) * max(1.0, loss.curvature)
            moved += two_norms(d, rows.cancellation) * clip
            multiplier = 1.0 / (self.mu_steps * math.sqrt(steps.parts[step]))
            noisy = GaussianMechanism(sums.bound(moved), multiplier).release(
                exact.ravel(), run.noise
            )
            gradient = noisy.reshape(shape) * (scale / found.means.n_records)
            change = steps.momentum * change - steps.size * gradient
            weights = weights + change
            length = float(np.linalg.norm(weights))
            if not length < math.inf:  # no record may meet weights that are not numbers
                weights, change = np.zeros(shape), np.zeros(shape)
            elif length > _LONGEST:
                weights *= _LONGEST / length
            total += weights
        return np.asarray(total / steps.n_steps)

    def _start(self, means: Means, found: Found, size: Size, constant: np.ndarray) -> Corrected:
        """Return the posterior of size and shift after the steps: a function of releases."""
        k = len(constant)
        if self.n_classes:
            of_shares = means.noise * math.sqrt(2.0) / 1.5 / means.shares
            known = float((of_shares**2 @ basis(self.n_classes) ** 2).mean())
            known += (CONSTANT * size.size) ** 2
        else:
            known = (means.noise / means.deviation) ** 2
        if not self.objective.design.intercept:
            return Corrected(np.append(size.size, np.zeros(k)), _diagonal(size.variance, 1e-12, k))
        if self.n_classes:
            return Corrected(np.append(size.size, np.zeros(k)), _diagonal(size.variance, known, k))
        steps = found.steps
        curvature = CONSTANT**2 * steps.bend
        weights = steps.responses(np.array([curvature]))[:, 0]
        learnt = max(curvature * float(weights.sum()), 0.5)
        shift = constant / learnt
        error = (CONSTANT * steps.unit / learnt) ** 2 * float((weights**2 / steps.parts).sum())
        error += max(float((shift**2).mean()) - known - error, 0.0)
        kept = known / (known + error)
        theta = np.append(size.size, kept * shift)
        return Corrected(theta, _diagonal(size.variance, kept * error, k))

    def _corrected(
        self,
        rows: CenteredRecords,
        found: Found,
        size: Size,
        weights: np.ndarray,
        theta: Corrected,
        run: Run,
    ) -> tuple[Corrected, np.ndarray]:
        """Release 3: rounds of derivatives in size and shift; also return the base."""
        means, k, loss = found.means, self.loss.n_outputs, self.loss
        width, scale = self.objective.design.width, self.spread(found.means) * self.unit
        of_rows = np.zeros((k, width))
        of_rows[:, : weights.shape[1]] = weights / size.deviation
        length = float(np.linalg.norm(of_rows))
        top = self._top(means.n_records)
        sums = self._sum("", "", top, self.mu_round, 2 * k + 3)
        bend = np.eye(k)
        if self.n_classes:
            of_classes, p = basis(self.n_classes), means.shares
            bend = of_classes.T @ (np.diag(p) - np.outer(p, p)) @ of_classes
            bend *= k / np.trace(bend)
        center = 0.0 if self.n_classes else means.mean * loss.target_bound
        root, base = _root(weights / size.deviation), found.start
        for _ in range(_ROUNDS):
            base, slope = found.base_at(float(theta.theta[0]), root, base)
            statistic = Derivatives(
                loss=loss,
                weights=rows.weights(of_rows),
                size=float(theta.theta[0]),
                shift=center + scale * (base + theta.theta[1:]),
                unit=self.unit,
                spread=self.spread(means),
                top=top,
            )
            moved = statistic.steepness * two_margins(width, rows.norm_bound * length)
            noisy, tau = sums.release(rows.full_total(statistic), run.noise, moved)
            n = means.n_records
            theta = theta.after(noisy / n, tau / n, n, slope, bend)
        return theta, found.base_at(float(theta.theta[0]), root, base)[0]


def _root(weights: np.ndarray) -> np.ndarray:
    """Return the root of the covariance of margins on rows of equal variances."""
    values, vectors = np.linalg.eigh(weights @ weights.T / weights.shape[1])
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def _diagonal(first: float, others: float, k: int) -> np.ndarray:
    return np.diag(np.append(first, np.full(k, max(others, 1e-12))))


def covers_core(objective: Objective, budget: PrivacyBudget) -> bool:
    """Whether it is for the objective."""
    loss = objective.risk.loss
    return bool(not budget.is_pure and (loss.has_odds or loss.is_quadratic))


def plan_core(objective: Objective, budget: PrivacyBudget) -> CorePlan:
    """Choose the parts of the budget from public numbers."""
    mu = gaussian_mu(budget.epsilon, budget.delta)
    plan = CorePlan(objective=objective, mu=mu, share=_MEANS_SHARES[1])
    design = objective.design
    if objective.neighbouring.is_replaced and not design.is_slack:
        needed = (plan.means.sensitivity / (design.n_records * mu * _MEANS_NOISE)) ** 2
        plan = replace(plan, share=min(max(needed, _MEANS_SHARES[0]), _MEANS_SHARES[1]))
    return plan
