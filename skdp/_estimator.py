"""What every estimator does: fits that succeed or change nothing, randomness, reports, labels."""

from __future__ import annotations

import copy
import math
import numbers
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, TypeVar, get_args

import numpy as np
from sklearn.base import BaseEstimator

from skdp._checks import check_option, check_real, shown
from skdp._records import without_column
from skdp._types import Relation, Verbose
from skdp.algorithms.plan import Plan, Run, check_memory
from skdp.mechanisms import NoiseSource, noise_source_name, secure_noise
from skdp.privacy.accounted import AccountedMixin
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.budget_accountant import check_accountant
from skdp.privacy.events import Neighbouring, common_relation
from skdp.privacy.report import PrivacyLeakWarning, PrivacyReport, Release

SEEDED = (
    "random_state was given: the seed is stored in this model, anyone who knows it can subtract "
    "the noise, and clones, as in cross-validation, share it. The guarantee holds only if it stays "
    "secret and is used for this fit alone"
)


class PrivateEstimator(AccountedMixin, BaseEstimator):
    """Base of private estimators; not for direct use."""

    # Parameters are set by the subclasses' signatures, as scikit-learn requires.
    epsilon: float
    delta: float
    neighbouring: str
    random_state: Any
    #: Not parameters of all.
    verbose: Verbose = 0
    _solver: Any = "auto"
    #: Column of a data frame that had the ids of persons in fit.
    _id_column: str | None = None

    @property
    def _budget(self) -> PrivacyBudget:
        return PrivacyBudget(self.epsilon, self.delta)

    @property
    def _may_be_empty(self) -> bool:
        """Whether no records are a valid table: where their number is private."""
        return self.neighbouring == "add_remove"

    def _check_shared(self) -> None:
        """Refuse invalid values of the parameters that all private estimators have."""
        PrivacyBudget(self.epsilon, self.delta)
        check_real("epsilon", self.epsilon, 1e-20, 1e20)
        check_option("neighbouring", self.neighbouring, get_args(Relation))
        check_random_state(self.random_state)
        check_accountant(self.accountant)
        if not (isinstance(self.verbose, numbers.Integral) or callable(self.verbose)):
            raise TypeError(f"verbose must be an integer or a callable, got {shown(self.verbose)}.")

    def _run(self) -> Run:
        return Run(self._solver, *randomness(self.random_state), self.verbose)

    def _pay_and_run(self, plan: Plan, data: Any) -> Any:
        """Pay for the releases of a plan, then run it: the only place that does either."""
        check_memory(self.n_features_in_, plan)
        self._spend(plan.event)
        return plan.run(data, self._run())

    def _set_report(
        self, releases: tuple[Release, ...], caveats: tuple[str, ...], **parts: Any
    ) -> None:
        """Set ``privacy_``; `parts` are further parameters of :class:`PrivacyReport`."""
        events = map(attrgetter("event"), releases)
        self.privacy_ = PrivacyReport(
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            neighbouring=common_relation(events) or Neighbouring(self.neighbouring),
            noise_source=noise_source_name(self.random_state),
            releases=releases,
            caveats=caveats if self.random_state is None else (*caveats, SEEDED),
            **parts,
        )

    def _features_of(self, X: Any) -> Any:
        """Drop the column that had the ids of persons in fit, if it is there."""
        return without_column(X, self._id_column)

    def _delta_alarms(self, n_records: int) -> tuple[str, ...]:
        """Return a sentence if `delta` allows to publish a record, or none."""
        delta = float(self.delta)
        if delta * n_records < 1.0:
            return ()
        return (
            f"delta == {delta:g} is not below 1 / {n_records}: publishing a record drawn at random "
            "would satisfy such a guarantee",
        )


E_ = TypeVar("E_", bound=BaseEstimator)


@contextmanager
def staged(estimator: E_) -> Iterator[E_]:
    """Fit a shallow copy, whose state the estimator takes over unless something is raised.

    Then come the warnings about what was released: a filter that makes errors of them leaves the
    fitted estimator, which is paid for.
    """
    copied = copy.copy(estimator)
    yield copied
    alarms = copied.__dict__.pop("_found_alarms", ())
    estimator.__dict__ = copied.__dict__
    for alarm in alarms:
        warnings.warn(f"{alarm[0].upper()}{alarm[1:]}.", UserWarning, stacklevel=4)


def check_random_state(random_state: Any) -> None:
    """Refuse anything but None, an integer >= 0 and numpy's generators."""
    if isinstance(random_state, numbers.Integral) and not isinstance(random_state, bool):
        if random_state < 0:
            raise ValueError(f"random_state == {shown(random_state)}, must be >= 0.")
    elif not isinstance(random_state, (type(None), np.random.RandomState, np.random.Generator)):
        raise ValueError(
            f"random_state == {shown(random_state)}, must be None, an integer or a numpy generator."
        )


def randomness(random_state: Any) -> tuple[np.random.Generator, NoiseSource]:
    """Return separate generators for the solver and for the noise."""
    check_random_state(random_state)
    if random_state is None:
        return np.random.default_rng(), secure_noise()
    if isinstance(random_state, (np.random.RandomState, np.random.Generator)):
        entropy: Any = np.frombuffer(random_state.bytes(32), dtype=np.uint32).tolist()
    else:
        entropy = int(random_state)
    for_noise, for_solver = np.random.SeedSequence(entropy).spawn(2)
    return np.random.default_rng(for_solver), NoiseSource(np.random.default_rng(for_noise).bytes)


def taken_weights(fit_params: dict[str, Any]) -> Any:
    """Return the weights of records among the metadata of a fit; refuse other names."""
    for name in fit_params:
        if name != "sample_weight":
            raise TypeError(f"fit() got an unexpected keyword argument {name!r}.")
    return fit_params.get("sample_weight")


def warn_inferred(inferred: str, parameter: str) -> None:
    """Warn that something public was inferred from the records."""
    warnings.warn(
        f"{inferred} were inferred from the data, which the privacy guarantee does not cover. "
        f"Declare them with the parameter `{parameter}`.",
        PrivacyLeakWarning,
        stacklevel=4,
    )


def noise_alarms(plan: Plan, releases: Iterable[Release]) -> Iterator[str]:
    """Yield a sentence for coefficients whose noise is longer than any solution in a ball."""
    for release in releases:
        if release.name != "coefficients" or release.mechanism == "exponential":
            continue
        radius = plan.to_dict().get("radius", math.inf)
        # the norm of spherical Laplace noise is Gamma distributed
        pure = release.mechanism == "spherical_laplace"
        norm = release.noise_scale * (release.dimension if pure else math.sqrt(release.dimension))
        if norm > radius:
            yield (
                f"The noise has a length of about {norm:.3g} and any solution at most "
                f"{radius:.3g}: the result is mostly noise"
            )


def declared_labels(name: str, values: Any, at_least: int) -> np.ndarray:
    """Return the labels that a parameter declares, sorted."""
    try:
        labels = plain_labels(np.asarray(values))
    except ValueError:  # of sequences of different lengths
        labels = np.zeros(0)
    if labels.ndim != 1 or len(labels) < at_least:
        number = "one label" if at_least == 1 else "two labels"
        raise ValueError(
            f"{name} must be a list or a 1-d array of at least {number}, got {shown(values)}."
        )
    try:
        names = np.unique(labels)
    except TypeError:  # labels of mixed kinds have no order
        raise ValueError(f"{name} must be labels of one kind, got {shown(values)}.") from None
    if (names != names).any():
        raise ValueError(f"{name} contains missing values: {shown(values)}.")
    if len(names) != len(labels):
        raise ValueError(f"{name} lists a label twice: {shown(values)}.")
    return names


def encode(labels: np.ndarray, known: np.ndarray, message: str) -> np.ndarray:
    """Return the position of each label in the sorted `known`; errors name no label."""
    if not len(labels):  # they have no kind
        return np.zeros(0, dtype=np.intp)
    numeric = [array.dtype.kind in "biuf" for array in (labels, known)]
    if numeric[0] != numeric[1]:
        raise ValueError(message)
    if not numeric[0]:
        labels, known = labels.astype(object), known.astype(object)
    try:
        codes = np.searchsorted(known, labels)
    except TypeError as error:  # labels of mixed kinds have no order
        raise ValueError(message) from error
    np.minimum(codes, len(known) - 1, out=codes)
    if (known[codes] != labels).any():
        raise ValueError(message)
    return codes


def plain_labels(labels: np.ndarray) -> np.ndarray:
    """Return labels of dtype object that are all numbers as an array of numbers."""
    if labels.dtype == object and all(isinstance(label, numbers.Real) for label in labels.flat):
        return np.array(labels.tolist())
    return labels
