"""Audits of every estimator and method on neighbours that pull as hard as they can.

``python tests/support/method_audits.py methods`` audits all of them, ``... mechanisms`` the
mechanisms; both write ``benchmarks/results/audit_*.csv``, and ``... table`` prints the tables of
docs/benchmarks/audits.md. A bound is wrong with a probability of 0.001 over all audits together:
each has 0.001 divided by twice their number.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audit_cases import EPSILONS, MECHANISMS, METHODS, Audited
from remembered_plans import remember_calibrations, remember_schedules
from scipy import stats

from skdp.algorithms.objective import perturbation
from skdp.audit import audit_estimator, released_parameters
from skdp.audit.outputs import fit
from skdp.mechanisms import GaussianMechanism, SphericalLaplaceMechanism
from skdp.privacy.events import GaussianEvent, flatten_event
from skdp.privacy.gaussian_dp import gaussian_mu
from skdp.solvers import solve_certified

__all__ = ["Finding", "audited", "family", "replayed"]

#: Probability that any of the bounds is wrong.
FAMILY_RATE = 1e-3
RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"


@dataclass(frozen=True)
class Finding:
    """What an audit found: the bound, the kind of claim that it is about, and the runs."""

    bound: float
    claim: str
    n_runs: int


def family() -> float:
    """The confidence of one audit, such that all hold together with that of the family."""
    return 1.0 - FAMILY_RATE / (2 * len(METHODS) + len(MECHANISMS))


def released(fitted: Any) -> np.ndarray:
    """All numbers that a fit releases."""
    if hasattr(fitted, "coef_"):
        return released_parameters(fitted)
    if hasattr(fitted, "distribution_"):
        return np.ravel(fitted.distribution_)
    if hasattr(fitted, "coefs_"):
        parts = [*fitted.coefs_, *fitted.intercepts_, fitted.group_weights_]
        return np.concatenate([np.ravel(part) for part in parts])
    return np.concatenate([np.ravel(fitted.mean_), np.ravel(fitted.var_)])


def range_lower_bound(
    here: np.ndarray, there: np.ndarray, confidence: float, threshold: float
) -> float:
    """Bound the range of the privacy loss from below by outputs of either side.

    A mechanism of bounded range epsilon has ``P(A) Q(B) <= e^epsilon Q(A) P(B)`` for all sets. A
    are the numbers above a threshold that was fixed beforehand, B those below its negative.
    """
    n, rate = len(here), (1.0 - confidence) / 4.0
    often = (here > threshold).sum(), (there < -threshold).sum()
    seldom = (there > threshold).sum(), (here < -threshold).sum()
    if min(often) == 0:
        return 0.0
    least = [stats.beta.ppf(rate, k, n - k + 1) for k in often]
    most = [stats.beta.isf(rate, k + 1, n - k) if k < n else 1.0 for k in seldom]
    return float(np.log(least).sum() - np.log(most).sum())


def audited(case: Audited, confidence: float, seconds: float = 1.5, n_runs: int = 0) -> Finding:
    """Audit a case; `n_runs`: fits on each side instead of those of the case."""
    model, (D, D_prime) = case.make(), case.neighbours()
    n_runs = n_runs or case.n_runs
    if not n_runs:
        fit(model, D, 0)
        start = time.process_time()
        fits = 3
        for number in range(fits):
            last = fit(model, D, number)
        each = (time.process_time() - start) / fits
        n_runs = int(min(max(min(case.epsilon / 4.0, 1.0) * seconds / (2.0 * each), 20), 1000))
    if case.bound_by == "range":
        outputs = [
            np.array([released(fit(model, data, 2 * k + side))[0] for k in range(n_runs)])
            for side, data in enumerate((D, D_prime))
        ]
        return Finding(range_lower_bound(*outputs, confidence, 0.75), "range", n_runs)
    result = audit_estimator(
        model, D, D_prime, n_runs, confidence, epsilon=case.epsilon, delta=case.delta,
        output=released, score=case.score, random_state=n_runs,
    )  # fmt: skip
    last = fit(model, D, 0)
    events = flatten_event(last.privacy_.event) if hasattr(last, "privacy_") else ()
    is_gaussian = events and all(isinstance(event, GaussianEvent) for event, _ in events)
    if case.bound_by == "gaussian" or (case.delta and is_gaussian):
        bound = max(result.epsilon_lower_bound, result.gaussian_lower_bound)
        return Finding(bound, "gaussian", n_runs)
    return Finding(result.epsilon_lower_bound, "epsilon, delta", n_runs)


@dataclass
class Releases:
    """What a fit adds noise to, the noise, and what comes out; or the values under given outputs.

    The noise of objective perturbation is beside the gradient at the minimiser, times n.
    """

    #: Outputs of another fit, which are then those of this one.
    given: list[np.ndarray] | None = None
    values: list[np.ndarray] = field(default_factory=list)
    noises: list[np.ndarray] = field(default_factory=list)
    outputs: list[np.ndarray] = field(default_factory=list)
    mechanisms: list[Any] = field(default_factory=list)

    def watching(self, patch: pytest.MonkeyPatch) -> Releases:
        """Watch the mechanisms; the noise is that which a fit really draws."""
        for kind in (GaussianMechanism, SphericalLaplaceMechanism):
            self._watch(patch, kind)
        patch.setattr(f"{perturbation.__name__}.solve_and_release", self._minimum)
        return self

    def _watch(self, patch: pytest.MonkeyPatch, kind: Any) -> None:
        original, original_draw = kind.release, kind.draw

        def release(mechanism: Any, value: Any, noise: Any) -> Any:
            output = original(mechanism, value, noise)
            self.noises.append(output - value)
            return self._kept(mechanism, np.array(value), np.array(output))

        def draw(mechanism: Any, dimension: int, noise: Any) -> Any:
            self.noises.append(original_draw(mechanism, dimension, noise))
            self.mechanisms.append(mechanism)
            return self.noises[-1].copy()

        patch.setattr(kind, "release", release)
        patch.setattr(kind, "draw", draw)

    def _minimum(self, problem: Any, accuracy: float, *others: Any, **options: Any) -> Any:
        point = solve_certified(problem, accuracy).point
        if self.given is not None:
            point = self.given[len(self.values)]
        value = problem.n_public * problem.gradient(point) - self.noises[-1]
        return self._kept(self.mechanisms.pop(), value, point)

    def _kept(self, mechanism: Any, value: np.ndarray, output: np.ndarray) -> np.ndarray:
        if self.given is not None:
            output = self.given[len(self.values)].copy()
        self.values.append(value)
        self.outputs.append(output)
        self.mechanisms.append(mechanism)
        return output.copy()


def replayed(
    case: Audited, confidence: float, n_draws: int = 400, n_replays: int = 3
) -> tuple[float, float]:
    """Audit a case by its releases: a lower bound on its privacy loss, and the claim.

    Fits of the one data set release numbers; the other one is fitted at the same history. How far
    the values before noise are apart, over the scales that are stated, is a loss if the noise has
    these scales; what all noise really has beside them is estimated from as many standard variables
    as `n_draws`. The bound is wrong with a probability of ``1 - confidence``. Both are mu of
    Gaussian releases, or epsilon of spherical Laplace ones.
    """
    model, pair = case.make(), case.neighbours()
    power = 2.0 if case.delta else 1.0
    largest, total, n_seen, seed = 0.0, 0.0, 0, 0
    while n_seen < n_draws:
        one = _releases(model, pair[0], seed)
        scales = [mechanism.noise_scale for mechanism in one.mechanisms]
        total += sum(
            (np.linalg.norm(noise) / scale) ** power
            for noise, scale in zip(one.noises, scales, strict=True)
        )
        n_seen += sum(noise.size for noise in one.noises)
        if seed < n_replays:
            values = _releases(model, pair[1], seed, one.outputs).values
            moved = [a - b for a, b in zip(one.values, values, strict=True)]
            norms = [
                np.linalg.norm(each) / scale for each, scale in zip(moved, scales, strict=True)
            ]
            largest = max(largest, float(np.linalg.norm(norms, power)))
        seed += 1
    # squares of normal variables, or norms of spherical Laplace ones: known laws of their sums
    law = stats.chi2(n_seen) if case.delta else stats.gamma(n_seen)
    ratio = (total / law.ppf(1.0 - confidence)) ** (1.0 / power)
    claim = gaussian_mu(case.epsilon, case.delta) if case.delta else case.epsilon
    return largest / ratio, claim


def _releases(model: Any, data: Any, seed: int, given: Any = None) -> Releases:
    """Fit a model and watch its releases."""
    with pytest.MonkeyPatch.context() as patch:
        seen = Releases(given=given).watching(patch)
        fit(model, data, seed)
    return seen


# -------------------------------------------------------------------------------------------- table


def _results(part: str) -> Path:
    return RESULTS / f"audit_{part}.csv"


def _read(part: str) -> list[dict[str, Any]]:
    with _results(part).open() as file:
        rows: list[dict[str, Any]] = list(csv.DictReader(file))
    for row in rows:
        row |= {key: float(row[key]) for key in ("epsilon", "delta", "bound")}
    return rows


def table() -> str:
    """The results as two tables of Markdown."""
    lines = ["| mechanism | epsilon | delta | runs | lower bound | part of the claim |"]
    lines.append("|---" * 6 + "|")
    lines += [
        f"| {row['name']} | {row['epsilon']:g} | {row['delta']:g} | {row['runs']} | "
        f"{row['bound']:.2f} | {row['bound'] / row['epsilon']:.0%} |"
        for row in _read("mechanisms")
    ]
    found: dict[tuple[str, float], dict[float, float]] = {}
    for row in _read("methods"):
        found.setdefault((row["name"], row["delta"]), {})[row["epsilon"]] = row["bound"]
    heads = " | ".join(f"{epsilon:g}" for epsilon in EPSILONS)
    lines += ["", f"| estimator, method | delta | {heads} |", "|---" * 5 + "|"]
    for (name, delta), bounds in found.items():
        numbers = " | ".join(
            f"{bounds[epsilon]:.2f}" if epsilon in bounds else "not run" for epsilon in EPSILONS
        )
        lines.append(f"| {name} | {delta:g} | {numbers} |")
    return "\n".join(lines)


def main() -> int:
    """Audit everything, write the table, and tell whether a claim was refuted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["mechanisms", "methods", "table"])
    parser.add_argument(
        "--seconds", type=float, default=1.2, help="of fits at epsilon = 4, less below"
    )
    options = parser.parse_args()
    if options.part == "table":
        print(table())
        return 0
    warnings.simplefilter("ignore")
    rows, confidence = [], family()
    with pytest.MonkeyPatch.context() as patch, _results(options.part).open("w") as file:
        remember_calibrations(patch)
        remember_schedules(patch)
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["name", "epsilon", "delta", "runs", "bound", "claim"])
        for case in {"mechanisms": MECHANISMS, "methods": METHODS}[options.part]:
            found = audited(case, confidence, options.seconds)
            rows.append((case.title, case.epsilon, case.delta, found.n_runs, found.bound))
            writer.writerow([*rows[-1][:-1], f"{found.bound:.4f}", found.claim])
            file.flush()
    refuted = [row for row in rows if row[-1] > row[1]]
    print(f"{len(rows)} audits, refuted: {refuted}")
    return int(bool(refuted))


if __name__ == "__main__":
    sys.exit(main())
