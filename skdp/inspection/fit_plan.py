"""What to expect of a private fit, from public numbers alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone

from skdp._checks import InvalidTypeError, check_count
from skdp._estimator import noise_alarms
from skdp.algorithms.weight_noise import MarginNoise
from skdp.privacy.composition import tightest_epsilon
from skdp.privacy.events import Neighbouring, PrivacyEvent
from skdp.privacy.report import Release


@dataclass(frozen=True)
class PlannedRelease:
    """A release before it is made.

    Attributes
    ----------
    release : Release
        As in the report of a fit: mechanism, sensitivity, noise scale, reference.
    noise_norm : float or None
        Expected Euclidean norm of the noise; None for draws of the exponential mechanism.
    records_of_noise : float or None
        ``noise_norm / sensitivity``: the noise moves the release as far as it takes at least this
        many other records, or persons, to do.
    relative_noise : float or None
        ``noise_norm`` over a bound on how far the value can move from any data set to any other:
        ``n_records * sensitivity`` (twice that under add/remove), or the diameter of the ball of
        the coefficients. Steps that are described "as one" have the noise of their average.
    """

    release: Release
    noise_norm: float | None
    records_of_noise: float | None
    relative_noise: float | None

    @classmethod
    def of(cls, release: Release, radius: float = math.inf) -> PlannedRelease:
        """Compute the expected norm of the noise of a release; `radius` is of the coefficients."""
        norm = release.noise_norm
        if norm is None:
            return cls(release, None, None, None)
        assert release.event.neighbouring is not None
        replaced = 2.0 / release.event.neighbouring.n_changes
        diameter = replaced * release.n_records * release.sensitivity
        if release.name == "coefficients":
            diameter = min(diameter, 2.0 * radius)
        return cls(release, norm, norm / release.sensitivity, norm / diameter)

    def to_dict(self) -> dict[str, Any]:
        """Return the release as plain Python types."""
        numbers = {name: getattr(self, name) for name in _NOISE}
        return {**self.release.to_dict(), **numbers}

    def __str__(self) -> str:
        release = self.release
        line = (
            f"{release.name}: {release.mechanism}, scale {release.noise_scale:.4g}, "
            f"sensitivity {release.sensitivity:.4g}, dimension {release.dimension}"
        )
        if self.noise_norm is None:
            return line
        relation = release.event.neighbouring
        units = "persons" if relation is not None and relation.unit == "user" else "records"
        return (
            f"{line}; noise of norm {self.noise_norm:.3g} = {self.records_of_noise:.3g} {units} "
            f"({self.relative_noise:.2g} of the domain)"
        )


#: Least and largest number of records that are looked at.
_FEWEST, _MOST = 16, 1 << 30
_NOISE = ("noise_norm", "records_of_noise", "relative_noise")


@dataclass(frozen=True)
class FitPlan:
    """What a fit will release, and what it costs; made by :func:`plan_fit`.

    Attributes
    ----------
    estimator : str
        Name of its class.
    n_samples, n_features : int
    n_users : int or None
        Number of persons of a fit with `user_ids`.
    method : str
        The private algorithm that a fit would run.
    reason : str
        Why it is this one.
    epsilon, delta : float
        The budget of the fit.
    total_epsilon : float
        Epsilon of all releases together at this delta, by :func:`skdp.privacy.tightest_epsilon`.
    event : PrivacyEvent
        What an accountant will be charged.
    releases : tuple of PlannedRelease
        Empty for tuners that plan the noise of their last fit as they choose the penalty; the event
        holds all of them.
    prediction_noise : float or None
        Standard deviation of the noise in a linear score, or in a prediction of a regressor before
        it is clipped, for a row of the largest norm. None where that depends on the records.
    excess_loss : float or None
        Bound on the expected excess of the mean loss on a reference design, to rank methods by.
    plan : dict
        What is in ``privacy_.plan`` after a fit, but for what is computed from earlier releases.
    noise : MarginNoise or None
        Expected noise of the coefficients (`coef`), and of the margins of an average and of a rare
        row (`average_row`, `rare_row`), on isotropic rows of the largest norm and classes of equal
        size: a rare class has several times as much. None where none is known.
    sampling_noise : float or None
        What a fit without privacy has from the sampling of records, in place of `average_row`.
    free_from : int or None
        Fewest records, or persons, for which `average_row` is not above the sampling noise, within
        1 %. It grows about as ``n_features / epsilon^2``, the "privacy for free" of Lowy and
        Razaviyayn (2021), section 4. None where it never is, as for penalties that are chosen for
        the worst case, and for tables whose features grow with the records. Far more records may
        be spent on speed.
    alarms : tuple of str
        Reasons to expect a useless model.
    remarks : tuple of str
    """

    estimator: str
    n_samples: int
    n_features: int
    method: str
    reason: str
    epsilon: float
    delta: float
    total_epsilon: float
    event: PrivacyEvent
    releases: tuple[PlannedRelease, ...]
    prediction_noise: float | None
    excess_loss: float | None
    plan: dict[str, Any]
    noise: MarginNoise | None = None
    sampling_noise: float | None = None
    free_from: int | None = None
    n_users: int | None = None
    alarms: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def neighbouring(self) -> Neighbouring | None:
        """The relation that all of it holds under."""
        return self.event.neighbouring

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain Python types, ready for JSON."""
        values = {**vars(self)}
        values |= {"event": self.event.to_dict(), "plan": dict(self.plan)}
        values["releases"] = [release.to_dict() for release in self.releases]
        values["noise"] = None if self.noise is None else self.noise.to_dict()
        return values | {name: list(values[name]) for name in ("alarms", "remarks")}

    def __str__(self) -> str:
        units, size = "records", f"{self.n_samples} records of {self.n_features} features"
        if self.n_users is not None:  # how many records they have is private, and does not matter
            units, size = "persons", f"{self.n_users} persons, {self.n_features} features"
        lines = [
            f"{self.estimator} on {size}: method {self.method!r} ({self.reason})",
            f"  epsilon {self.total_epsilon:.4g} at delta {self.delta:g}",
            *(f"  {release}" for release in self.releases),
        ]
        if self.prediction_noise is not None:
            lines.append(f"  noise in a prediction: up to {self.prediction_noise:.3g}")
        if self.noise is not None:
            lines.append(
                f"  noise in the margin of an average row: {self.noise.average_row:.3g}, of a rare "
                f"one {self.noise.rare_row:.3g} (sampling: {self.sampling_noise:.3g})"
            )
        if self.free_from is not None:
            lines.append(f"  privacy costs less than sampling from {self.free_from} {units} on")
        if self.excess_loss is not None:
            lines.append(f"  bound on the expected excess loss: {self.excess_loss:.3g}")
        lines.extend(f"  {remark}" for remark in self.remarks)
        lines.extend(f"  alarm: {alarm}" for alarm in self.alarms)
        return "\n".join(lines)


def plan_fit(
    estimator: Any,
    n_samples: int,
    n_features: int,
    *,
    n_classes: int | None = None,
    n_groups: int | None = None,
    n_users: int | None = None,
) -> FitPlan:
    """Plan a fit from public numbers, before there are any data.

    A fit on records of this shape makes the same plan. It costs nothing, and can be repeated until
    the plan is good.

    Parameters
    ----------
    estimator : estimator
        Of :mod:`skdp.linear_model`, :mod:`skdp.robust`, :mod:`skdp.tabular` or
        :mod:`skdp.model_selection`; it is not changed. Of a pipeline pass the last step, and the
        number of features that reach it.
    n_samples : int
        Number of records; under ``neighbouring="add_remove"`` it is the public number if
        `n_public` is None.
    n_features : int
        Number of features, without the intercept; of models of tables that of columns. They are
        taken to be dense: a sparse X changes the last digits, by the bounds on rounding.
    n_classes : int or None, default=None
        Of classifiers. None: those of `classes`, or 2.
    n_groups : int or None, default=None
        Of models for the worst group. None: those of `group_names`; the classes of a classifier and
        one group of a regressor if there are none. With ``group_proportions="public"``, whose noise
        depends on the sizes of the groups, they are taken to be equal.
    n_users : int or None, default=None
        Number of persons of a fit with `user_ids`, which takes the place of `n_samples` in all
        releases. None: a fit without.

    Returns
    -------
    FitPlan
        Method, releases and their noise; ``print`` shows them.

    Raises
    ------
    ValueError
        For parameters and sizes that a fit would refuse.
    TypeError
        For other estimators.

    See Also
    --------
    PrivacyUtilityDisplay : Scores of fits on records.

    Examples
    --------
    >>> from skdp.inspection import plan_fit
    >>> from skdp.linear_model import DPRidge
    >>> bounds = {"data_norm": 1.0, "target_range": (-1, 1)}
    >>> model = DPRidge(epsilon=1.0, method="output_perturbation", **bounds)
    >>> few, many = (plan_fit(model, n, n_features=10) for n in (1000, 100_000))
    >>> few.method, round(few.total_epsilon, 3)
    ('output_perturbation', 1.0)
    >>> bool(few.prediction_noise > many.prediction_noise)
    True
    """
    if not hasattr(estimator, "_plan_of_shape") or isinstance(estimator, type):
        raise InvalidTypeError(
            "estimator must be a private model of skdp.linear_model, skdp.robust, skdp.tabular or "
            f"skdp.model_selection, got {estimator!r}. Of a pipeline pass the last step."
        )
    check_count("n_samples", n_samples)
    check_count("n_features", n_features)
    for name, value, least in (
        ("n_classes", n_classes, 2),
        ("n_groups", n_groups, 1),
        ("n_users", n_users, 1),
    ):
        if value is not None:
            check_count(name, value, least)
    staged = clone(estimator)
    shape = int(n_samples), int(n_features), n_classes, n_groups, n_users
    choice, design = staged._plan_of_shape(*shape)
    plan = choice.plan
    numbers = plan.to_dict()
    radius = numbers.get("radius", math.inf)
    releases = tuple(PlannedRelease.of(release, radius) for release in plan.releases)
    alarms = noise_alarms(plan, plan.releases)
    bound, noise = plan.bound(), plan.planned_noise()
    asked = getattr(estimator, "method", "auto")
    return FitPlan(
        estimator=type(estimator).__name__,
        n_samples=int(n_samples),
        n_features=int(n_features),
        method=choice.method,
        reason=f"method={asked!r}"
        if asked != "auto"
        else choice.reason or "the default for these parameters",
        epsilon=float(estimator.epsilon),
        delta=float(estimator.delta),
        total_epsilon=tightest_epsilon(plan.event, float(estimator.delta)),
        event=plan.event,
        releases=releases,
        prediction_noise=_prediction_noise(plan.releases, design.feature_norm),
        excess_loss=bound if math.isfinite(bound) else None,
        plan=numbers,
        noise=None if noise is None else noise.margins,
        sampling_noise=None if noise is None else noise.sampling,
        free_from=None
        if noise is None
        else _free_from(staged, *shape[1:-1], of_persons=n_users is not None),
        n_users=None if n_users is None else int(n_users),
        alarms=(*plan.alarms(), *alarms),
        remarks=(*plan.remarks(), *choice.notes),
    )


def _free_from(estimator: Any, *shape: int | None, of_persons: bool) -> int | None:
    """Fewest units for which noise is not above that of sampling, within 1 %; None if none."""

    def is_free(n: int) -> bool:
        n_users = n if of_persons else None
        try:
            noise = estimator._plan_of_shape(n, *shape, n_users)[0].plan.planned_noise()
        except ValueError:  # too few for what is asked for
            return False
        return noise is not None and noise.margins.average_row <= noise.sampling

    if estimator.neighbouring != "replace_one" and getattr(estimator, "n_public", None) is not None:
        return None  # the number of records is given
    if getattr(estimator, "features", None) == "auto":
        return None  # more records pay for more features of a table
    low = high = _FEWEST
    while not is_free(high):
        low, high = high, 2 * high
        if high > _MOST:
            return None
    while high > 1.01 * low + 1:
        middle = round(math.sqrt(low * high))
        low, high = (low, middle) if is_free(middle) else (middle, high)
    return high


def _prediction_noise(releases: tuple[Release, ...], norm: float) -> float | None:
    """Return the deviation of the noise in a score, if it is all added to the coefficients."""
    if not releases:
        return None
    *earlier, last = releases
    if last.name != "coefficients" or any(each.name.startswith("gradient") for each in earlier):
        return None
    if last.mechanism == "gaussian":
        return last.noise_scale * norm
    if last.mechanism == "spherical_laplace":  # d (d + 1) is the mean square of the norm
        return last.noise_scale * math.sqrt(last.dimension + 1.0) * norm
    return None
