"""Reports of fits and their alarms, from public numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from skdp.mechanisms import noise_source_name
from skdp.privacy.events import Neighbouring
from skdp.privacy.report import PrivacyReport, Release

_SEED = (
    "random_state was given: the seed is stored in this model, anyone who knows it can subtract "
    "the noise, and clones, as in cross-validation, share it. The guarantee holds only if it stays "
    "secret and is used for this fit alone"
)


def fit_report(
    model: Any, releases: tuple[Release, ...], caveats: tuple[str, ...], **parts: Any
) -> PrivacyReport:
    """Make the report of a fit from the parameters that all private estimators have.

    `parts` are further parameters of :class:`PrivacyReport`.
    """
    return PrivacyReport(
        epsilon=float(model.epsilon),
        delta=float(model.delta),
        neighbouring=Neighbouring(model.neighbouring),
        noise_source=noise_source_name(model.random_state),
        releases=releases,
        caveats=caveats if model.random_state is None else (*caveats, _SEED),
        **parts,
    )


def delta_alarms(delta: float, n_records: int) -> tuple[str, ...]:
    """Return a sentence if `delta` allows to publish a record, or none."""
    delta = float(delta)
    if delta * n_records < 1.0:
        return ()
    return (
        f"delta == {delta:g} is not below 1 / {n_records}: publishing a record drawn at random "
        "would satisfy such a guarantee",
    )


def noise_alarms(
    releases: Iterable[Release], feature_norm: float, radius: float = math.inf
) -> Iterator[str]:
    """Yield a sentence for each release whose noise is larger than any value before noise.

    `feature_norm` bounds rows, the intercept feature included, and `radius` solutions.
    """
    for release in releases:
        # the norm of spherical Laplace noise is Gamma distributed
        pure = release.mechanism == "spherical_laplace"
        norm = release.noise_scale * (release.dimension if pure else math.sqrt(release.dimension))
        if release.name == "second moments":
            # of p (p + 1) / 2 entries: the norm of a symmetric matrix of them is about
            # 2 sqrt(p) times the deviation of one
            norm *= 2.0 / (2.0 * release.dimension) ** 0.25
            largest = feature_norm**2
            values = (
                f"in the moments has a norm of about {norm:.3g}, and those of the features have"
            )
        elif release.name == "coefficients" and release.mechanism != "exponential":
            largest = radius
            values = f"has a length of about {norm:.3g} and any solution"
        else:
            continue
        if norm > largest:
            yield f"The noise {values} at most {largest:.3g}: the result is mostly noise"
