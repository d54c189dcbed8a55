"""What is audited: every estimator and method, and the mechanisms by themselves.

The neighbours: rows of norm 1, half of the targets at either end of their range, one record turned
round (its group too). One feature and no intercept, so that the released numbers are few. Audits of
mechanisms have more runs, and some look at a stronger claim than (epsilon, delta), see `bound_by`.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skdp.algorithms.plan import Run
from skdp.algorithms.statistics.quantiles import QuantilesPlan
from skdp.linear_model import DPLinearClassifier, DPLinearRegressor, DPLogisticRegression, DPRidge
from skdp.mechanisms import NoiseSource, SampledGaussianMechanism, calibrated_mechanism
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
from skdp.privacy.events import Neighbouring
from skdp.problems import Design, LogisticLoss, Records
from skdp.robust import (
    DPAdversarialClassifier,
    DPAdversarialRegressor,
    DPMaxGroupLossClassifier,
    DPMaxGroupLossMLPClassifier,
    DPMaxGroupLossRegressor,
)
from skdp.synthetic import DPSyntheticData

#: Most runs at the largest, which few runs can come near to.
EPSILONS, DELTA = (4.0, 1.0, 0.5), 1e-5
N_RECORDS = 4
#: Functions are audited as estimators.
_NAMES = {"_Ranges": "private_ranges", "_Scores": "dp_cross_validate"}


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
