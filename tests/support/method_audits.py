"""Audits of every estimator and method on neighbours that pull as hard as they can.

``python tests/support/method_audits.py methods`` audits all of them, ``... mechanisms`` the
mechanisms; both write ``benchmarks/results/audit_*.csv``, and ``... table`` prints the tables of
docs/benchmarks/audits.md. A bound is wrong with a probability of 0.001 over all audits together:
each has 0.001 divided by twice their number.

The neighbours: rows of norm 1, half of the targets at either end of their range, one record turned
round (its group too). One feature and no intercept, so that the released numbers are few. Audits of
mechanisms have more runs, and some look at a stronger claim than (epsilon, delta), see `bound_by`.
"""

from __future__ import annotations

import argparse
import csv
import functools
import importlib
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from remembered_plans import remember_calibrations, remember_schedules
from scipy import stats
from sklearn.base import BaseEstimator

from skdp.algorithms.objective import perturbation
from skdp.algorithms.plan import Run
from skdp.algorithms.statistics.quantiles import QuantilesPlan
from skdp.audit import audit_estimator, released_parameters
from skdp.audit.outputs import fit
from skdp.linear_model import DPLinearClassifier, DPLinearRegressor, DPLogisticRegression, DPRidge
from skdp.mechanisms import (
    GaussianMechanism,
    NoiseSource,
    SampledGaussianMechanism,
    SphericalLaplaceMechanism,
    calibrated_mechanism,
)
from skdp.mechanisms.sampled_gaussian import poisson_sample
from skdp.mechanisms.softmax import SoftmaxMechanism
from skdp.methods import (
    Bilevel,
    ExponentialMechanism,
    GroupMirrorDescent,
    MirrorDescent,
    OutputPerturbation,
    PhasedOutputPerturbation,
)
from skdp.methods.tuning import INNER
from skdp.model_selection import DPLogisticRegressionCV, DPRidgeCV, dp_cross_validate
from skdp.preprocessing import DPStandardScaler
from skdp.privacy import PrivacyBudget
from skdp.privacy.events import GaussianEvent, Neighbouring, flatten_event
from skdp.privacy.gaussian_dp import gaussian_mu
from skdp.problems import Design, LogisticLoss, Records
from skdp.robust import (
    DPAdversarialClassifier,
    DPAdversarialRegressor,
    DPMaxGroupLossClassifier,
    DPMaxGroupLossMLPClassifier,
    DPMaxGroupLossRegressor,
)
from skdp.solvers import solve_certified
from skdp.synthetic import DPSyntheticData

__all__ = [
    *("MECHANISMS", "METHODS", "PERSONS"),
    *("Audited", "Finding", "audited", "family", "replayed"),
]

#: Most runs at the largest, which few runs can come near to.
EPSILONS, DELTA = (4.0, 1.0, 0.5), 1e-5
#: Probability that any of the bounds is wrong.
FAMILY_RATE = 1e-3
N_RECORDS = 4
#: Functions are audited as estimators.
_NAMES = {"_Ranges": "private_ranges", "_Scores": "dp_cross_validate"}
HERE = Path(__file__).resolve().parents[2]
RESULTS = HERE / "benchmarks" / "results"


@dataclass(frozen=True)
class Audited:
    """An estimator, one of its methods and a claim."""

    estimator: Any
    method: str  # empty where there is only one; its object may be among the parameters
    epsilon: float
    delta: float
    parameters: dict[str, Any] = field(default_factory=dict, hash=False)
    kind: str = "targets"  # of neighbours: or "classes", "groups", "features", "categories"
    mechanism: str = ""  # what an audit of a mechanism is about
    n_runs: int = 0  # fits on each side; 0: as many as a given time allows
    #: "gaussian": the privacy of a Gaussian mechanism, "range": a privacy loss of bounded range;
    #: both are what the event of the mechanism states, and imply the pair of epsilon and delta.
    bound_by: str = ""
    score: Any = None  # for :func:`skdp.audit.audit_estimator`
    of_persons: bool = False  # neighbours differ in a person, who has one record or six

    @property
    def name(self) -> str:
        return _NAMES.get(self.estimator.__name__, self.estimator.__name__) + (
            f", {self.method}" if self.method else ""
        )

    @property
    def title(self) -> str:
        """The name in the table."""
        sizes = self.parameters.get("group_proportions")
        sizes = sizes if isinstance(sizes, str | None) else "declared"
        title = self.mechanism or self.name + (f", {sizes}" if sizes else "")
        return title + ", persons" * self.of_persons

    def __str__(self) -> str:
        return f"{self.title}, epsilon {self.epsilon:g}, delta {self.delta:g}"

    def make(self) -> Any:
        """The estimator, unfitted."""
        options = dict(self.parameters)
        if self.method:
            options.setdefault("method", self.method)
        return self.estimator(epsilon=self.epsilon, delta=self.delta, **options)

    def neighbours(self) -> list[tuple[Any, ...]]:
        """Two data sets."""
        pair = []
        for turned in (False, True):
            X, y = np.ones((N_RECORDS, 1)), np.tile([1.0, -1.0], N_RECORDS // 2)
            groups = np.tile([0, 1], N_RECORDS // 2)
            if turned:
                y[0], groups[0] = -1.0, 1
            ids = np.arange(N_RECORDS)
            if turned and self.of_persons:
                rows = np.repeat(ids, [6, 1, 1, 1])
                X, y, groups, ids = X[rows], y[rows], groups[rows], rows
            options = {"groups": groups} if self.kind == "groups" else {}
            options |= {"user_ids": ids} if self.of_persons else {}
            more: tuple[Any, ...] = (options,) if options else ()
            if self.kind == "features":
                X = y[:, None]
            elif self.kind == "categories":
                X = (y[:, None] > 0).astype(int)
            if "classes" in self.parameters:
                y = (y > 0).astype(int)
            pair.append((X, y, *more))
        return pair


# ------------------------------------------------------------------------- mechanisms by themselves


class _StandIn(BaseEstimator):
    """An estimator of one mechanism or function."""

    def __init__(self, epsilon=1.0, delta=0.0, random_state=None):
        self.epsilon, self.delta, self.random_state = epsilon, delta, random_state

    @property
    def noise(self):
        return NoiseSource(np.random.default_rng(self.random_state).bytes)


class _Noise(_StandIn):
    """A number or a vector with the package's noise, that the record moves by the sensitivity."""

    def __init__(self, epsilon=1.0, delta=0.0, dimension=1, random_state=None):
        super().__init__(epsilon, delta, random_state)
        self.dimension = dimension

    def fit(self, X, y):
        value = np.zeros(self.dimension)
        value[0] = y[0]
        mechanism = calibrated_mechanism(PrivacyBudget(self.epsilon, self.delta), 2.0)
        self.coef_ = mechanism.release(value, self.noise)
        return self


def _nearer(outputs: np.ndarray) -> np.ndarray:
    """The privacy loss of spherical Laplace noise."""
    ends = np.zeros((2, outputs.shape[1]))
    ends[:, 0] = 1.0, -1.0
    far, near = (np.linalg.norm(outputs - end, axis=1) for end in ends[::-1])
    return far - near


class _Softmax(_StandIn):
    """A draw of one of two candidates whose scores the record moves in opposite directions."""

    def fit(self, X, y):
        # the record moves both scores by the sensitivity; the first candidate is not too rare
        move = 0.25 * self.epsilon * (1.0 if y[0] > 0 else -1.0)
        scores = np.array([move - 0.5 * self.epsilon - 0.5, -move])
        drawn = SoftmaxMechanism(0.5 * self.epsilon).draw(scores, 1, self.noise)
        self.coef_ = drawn.astype(float)
        return self


@functools.cache
def _sampled(epsilon, delta):
    return SampledGaussianMechanism.calibrated(
        PrivacyBudget(epsilon, delta), None, Neighbouring.ADD_REMOVE,
        sensitivity=1.0, sampling_rate=0.9, n_steps=1,
    )  # fmt: skip


class _SampledSum(_StandIn):
    """One noisy sum whose batch holds the record with probability 0.9."""

    def fit(self, X, y):
        # the guarantee is for added records: a row of zeros adds what no row adds
        mechanism = _sampled(self.epsilon, self.delta)
        batch = poisson_sample(1, mechanism.sampling_rate, self.noise)
        total = (X[:1] * (y[0] > 0))[batch].sum(axis=0)
        self.coef_ = mechanism.release(total, self.noise)
        return self


@functools.cache
def _ball_plan(epsilon):
    module = importlib.import_module("skdp.algorithms.exponential.mechanism")
    design = Design.of(Records(np.ones((1, 1)), 1.0, 0.0))
    return module.plan_exponential_mechanism(
        LogisticLoss(), design, PrivacyBudget(epsilon), radius=1.0
    )


class _Ball(_StandIn):
    """A point of [-1, 1] from the exponential mechanism for the log loss of one record."""

    def fit(self, X, y):
        records = Records(X[:1], 1.0, 0.0).with_targets((y[:1] + 1.0) / 2.0)
        rng = np.random.default_rng(self.random_state)
        run = Run(rng=rng, noise=NoiseSource(rng.bytes))
        self.coef_ = _ball_plan(self.epsilon).run(records, run).point
        return self


class _Ranges(_StandIn):
    """What private_ranges draws."""

    def fit(self, X, y):
        plan = QuantilesPlan(
            n_records=len(X), n_features=X.shape[1], quantiles=(0.25, 0.75), n_candidates=5,
            budget=PrivacyBudget(self.epsilon, self.delta),
        )  # fmt: skip
        noise = NoiseSource(np.random.default_rng(self.random_state).bytes)
        self.coef_ = plan.run((X, None), Run(noise=noise)).point
        return self


class _Scores(_StandIn):
    """The scores of dp_cross_validate; the models that it scores cost nearly nothing."""

    def fit(self, X, y):
        model = DPRidge(
            1e-9, 0, method=OutputPerturbation(coef_norm=1e-9), data_norm=1.0,
            target_range=(-1, 1), fit_intercept=False, random_state=self.random_state,
        )  # fmt: skip
        found = dp_cross_validate(
            model, X, y, cv=2, scoring="neg_mean_absolute_error", score_range=(-2, 0),
            epsilon=self.epsilon, delta=self.delta, random_state=self.random_state,
        )  # fmt: skip
        self.coef_ = np.asarray(found["test_score"])
        return self


# ---------------------------------------------------------------------------------------- catalogue

_CLASSES: dict[str, Any] = {"classes": [0, 1], "data_norm": 1.0, "fit_intercept": False}
_TARGETS: dict[str, Any] = {"target_range": (-1.0, 1.0), "data_norm": 1.0, "fit_intercept": False}
_GROUPS: dict[str, Any] = {"group_names": [0, 1]}
_TABLE: dict[str, Any] = {"categories": [[0, 1]], "queries": "1-way"}
_VERTICES = {"coef_norm_l1": 1.0, "feature_bound": 1.0}
#: Of methods whose defaults have too much noise, or take seconds.
_OBJECTS: dict[str, dict[str, Any]] = {
    "output_perturbation": {"method": OutputPerturbation(alpha=100.0)},
    "mirror_descent": {"method": MirrorDescent(**_VERTICES), "data_norm": None},
}
#: The exponential mechanism has no fast sampler for a kinked loss and a small penalty.
_OF_LOSSES = {**_OBJECTS, "exponential": {"method": ExponentialMechanism(alpha=100.0)}}
_OF_GROUPS = {"mirror_descent": {"method": GroupMirrorDescent(**_VERTICES), "data_norm": None}}


def _deltas(method: str) -> tuple[float, ...]:
    if method in ("gradient", "rgda", "adaptive"):
        return (DELTA,)
    return 0.0, DELTA


def _listed() -> Iterator[Audited]:
    linear: list[tuple[Any, dict[str, Any], set[str]]] = [
        (DPLogisticRegression, _CLASSES, set()),
        (DPRidge, _TARGETS, {"objective"}),
        (DPLinearClassifier, {**_CLASSES, "loss": "hinge"}, {"mirror_descent"}),
        (DPLinearRegressor, {**_TARGETS, "loss": "huber"}, set()),
    ]
    cells: list[tuple[Any, str, dict[str, Any], str, tuple[float, ...]]] = []
    for estimator, parameters, missing in linear:
        for method in estimator._methods:
            if method in missing:
                continue
            objects = _OF_LOSSES if "loss" in parameters else _OBJECTS
            options = {**parameters, **objects.get(method, {})}
            deltas = (0.0,) if method == "exponential" else _deltas(method)
            if method == "output":
                options |= {"alpha": 100.0}
                deltas = deltas if estimator is DPRidge else (DELTA,)
            cells.append((estimator, method, options, "targets", deltas))
    for estimator, parameters in (
        (DPAdversarialClassifier, _CLASSES),
        (DPAdversarialRegressor, _TARGETS),
    ):
        options = {**parameters, **_OBJECTS["output_perturbation"]}
        cells.append((estimator, "output", options, "targets", (0.0, DELTA)))
        cells.append((estimator, "gradient", parameters, "targets", (DELTA,)))
    for estimator, parameters in (
        (DPMaxGroupLossClassifier, _CLASSES),
        (DPMaxGroupLossRegressor, _TARGETS),
    ):
        for method in estimator._methods:
            for sizes in ([0.5, 0.5], "private") if method != "phased" else ([0.5, 0.5],):
                options = {**parameters, **_GROUPS, **_OF_GROUPS.get(method, {})}
                options["group_proportions"] = sizes
                deltas = (DELTA,) if method == "output" else _deltas(method)
                cells.append((estimator, method, options, "groups", deltas))
    network = {"classes": [0, 1], "data_norm": 1.0, "hidden_units": 1, "n_steps": 3, **_GROUPS}
    cells.append((DPMaxGroupLossMLPClassifier, "", network, "groups", (DELTA,)))
    for estimator, parameters in ((DPLogisticRegressionCV, _CLASSES), (DPRidgeCV, _TARGETS)):
        options = {**parameters, "alpha_bounds": (100.0, 101.0)}
        cells.append((estimator, "gradient", options, "targets", (DELTA,)))
        for name, inner in (("bilevel", INNER[0]), ("bilevel, batches", "localized_sgd")):
            published = {"method": Bilevel(as_published=True, inner=inner), **options}
            cells.append((estimator, name, published, "targets", (DELTA,)))
    cells.append((DPStandardScaler, "", {}, "features", (0.0, DELTA)))
    for method in ("adaptive", "mirror_descent"):
        cells.append((DPSyntheticData, method, _TABLE, "categories", _deltas(method)))
    cells.append((_Ranges, "", {}, "features", (0.0, DELTA)))
    cells.append((_Scores, "", {}, "targets", (0.0, DELTA)))
    for epsilon in EPSILONS:
        for estimator, method, options, kind, deltas in cells:
            for delta in deltas:
                yield Audited(estimator, method, epsilon, delta, options, kind)


#: Every estimator and method at every claim.
METHODS = tuple(_listed())
_PUBLISHED = {**_TARGETS, **_OBJECTS["output_perturbation"]}
_PHASED = {**_CLASSES, "method": PhasedOutputPerturbation(alpha=10.0, coef_norm=0.1)}
_PRIVATE = {**_CLASSES, **_GROUPS, "group_proportions": "private"}
#: The same of persons, one audit for each way to what is released.
PERSONS = tuple(
    Audited(estimator, method, 4.0, delta, parameters, kind, of_persons=True)
    for estimator, method, parameters, kind, deltas in (
        (DPLogisticRegression, "gradient", _CLASSES, "targets", (DELTA,)),
        (DPLogisticRegression, "objective", _CLASSES, "targets", (0.0, DELTA)),
        (DPRidge, "gradient", _TARGETS, "targets", (DELTA,)),
        (DPRidge, "output", {**_TARGETS, "alpha": 100.0}, "targets", (DELTA,)),
        (DPRidge, "output_perturbation", _PUBLISHED, "targets", (0.0,)),
        (DPLogisticRegression, "phased", _PHASED, "targets", (0.0, DELTA)),
        (DPMaxGroupLossClassifier, "gradient", _PRIVATE, "groups", (DELTA,)),
        (DPStandardScaler, "", {}, "features", (0.0, DELTA)),
        (DPSyntheticData, "adaptive", _TABLE, "categories", (DELTA,)),
        (DPSyntheticData, "mirror_descent", _TABLE, "categories", (0.0,)),
    )
    for delta in deltas
)
#: One audit per mechanism, with power.
MECHANISMS = (
    Audited(_Noise, "", 4.0, 0.0, mechanism="Laplace noise", n_runs=6000),
    Audited(
        _Noise, "", 4.0, 0.0, {"dimension": 2}, mechanism="spherical Laplace noise, d = 2",
        n_runs=10_000, score=_nearer,
    ),
    Audited(
        _Noise, "", 4.0, DELTA, mechanism="Gaussian noise", n_runs=16_000, bound_by="gaussian"
    ),
    Audited(
        _Ball, "", 4.0, 0.0, mechanism="exponential mechanism on a ball", n_runs=10_000,
        bound_by="range",
    ),
    Audited(_Softmax, "", 4.0, 0.0, mechanism="softmax draws", n_runs=8000),
    Audited(_SampledSum, "", 2.0, 0.1, mechanism="sampled Gaussian noise", n_runs=20_000),
)  # fmt: skip


# ------------------------------------------------------------------------------------------- audits


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
