"""Reports of the releases of a fit and their cost: public numbers only."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from html import escape
from operator import attrgetter
from typing import Any

from scipy.special import gammaln

from skdp.privacy.events import (
    ComposedEvent,
    Neighbouring,
    PrivacyEvent,
    common_relation,
    event_from_dict,
    plain,
)


class PrivacyLeakWarning(UserWarning):
    """Something public was taken from the records because it was not declared."""


@dataclass(frozen=True)
class Release:
    """One noisy value that left a fit.

    Attributes
    ----------
    name : str
        Of the released value, such as "coefficients".
    mechanism : str
        "gaussian", "spherical_laplace" or "exponential" (a draw with density
        ``exp(-summed loss / noise_scale)``; the sensitivity is then in units of the loss).
    sensitivity : float
        Bound on the Euclidean distance of the values of neighbours, solver error included.
    noise_scale : float
        Gaussian: standard deviation per coordinate. Spherical Laplace: scale of the
        Gamma-distributed norm. In the units of the released coefficients.
    dimension : int
        Number of coordinates of the noise.
    n_records : int
        Public number of records, or of persons, that the value was computed from.
    reference : str
        The statement that the noise scale comes from.
    event : PrivacyEvent
        What an accountant composes; it names the neighbouring relation of the sensitivity.
    """

    name: str
    mechanism: str
    sensitivity: float
    noise_scale: float
    dimension: int
    n_records: int
    reference: str
    event: PrivacyEvent

    @property
    def noise_norm(self) -> float | None:
        """Expected Euclidean norm of the noise; None for a draw."""
        d = self.dimension
        if self.mechanism == "gaussian":  # the mean of a chi variable of d degrees of freedom
            log_mean = 0.5 * math.log(2.0) + gammaln(0.5 * (d + 1)) - gammaln(0.5 * d)
            return self.noise_scale * math.exp(float(log_mean))
        # of a Gamma variable
        return self.noise_scale * d if self.mechanism == "spherical_laplace" else None

    def to_dict(self) -> dict[str, Any]:
        """Return the release as plain Python types."""
        return {**asdict(self), "event": self.event.to_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Release:
        """Invert :meth:`to_dict`."""
        return cls(**{**values, "event": event_from_dict(values["event"])})


@dataclass(frozen=True, repr=False)
class PrivacyReport:
    """The privacy statement of one fit, a function of public inputs and of releases paid for.

    Attributes
    ----------
    epsilon, delta : float
        The guarantee.
    neighbouring : Neighbouring
        The relation that it holds under, and that every release was measured under.
    method : str
        Name of the private algorithm.
    releases : tuple of Release
    plan : dict
        Decisions: regularisation, radius, constants, accuracy. They are made before the records are
        read, or follow from earlier releases of the same fit, such as the steps of a second descent
        whose weights were released; no number follows from a record in another way.
    caveats : tuple of str
        Exceptions from the guarantee that the configuration of the estimator causes.
    remarks : tuple of str
        Of the plan, about the quality of the result.
    noise_source : str
        "skdp", or "opendp" if the normal noise was drawn by OpenDP.
    noise : dict of {str: float} or None
        Of linear models: standard deviations of what the noise adds, `coef` in the root mean square
        over the coefficients, `average_row` and `rare_row` in the margins of an average row and of
        one in the direction where noise is largest. Functions of what was released; no part of the
        statement, of comparisons and of :meth:`to_dict`. None where releases do not tell it.
    """

    epsilon: float
    delta: float
    neighbouring: Neighbouring
    method: str
    releases: tuple[Release, ...]
    plan: dict[str, Any] = field(default_factory=dict)
    caveats: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    noise_source: str = "skdp"
    noise: dict[str, float] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        events = map(attrgetter("event"), self.releases)
        object.__setattr__(self, "neighbouring", common_relation(events, self.neighbouring))

    @property
    def unit(self) -> str:
        """Whom the guarantee is for: "record", or "user" for a person with all its records."""
        return self.neighbouring.unit

    @property
    def event(self) -> PrivacyEvent:
        """All releases as one composed event, which names the relation."""
        return ComposedEvent(tuple(release.event for release in self.releases))

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain Python types, ready for JSON."""
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.compare}
        releases = [release.to_dict() for release in self.releases]
        own = {"releases": releases, "event": self.event.to_dict(), "plan": dict(self.plan)}
        return {name: plain(value) for name, value in values.items()} | own

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> PrivacyReport:
        """Invert :meth:`to_dict`, also after JSON, in which tuples of the plan become lists.

        Raises
        ------
        ValueError
            If something is missing or unknown, or if the event is not that of the releases.
        """
        try:
            parts = {name: value for name, value in values.items() if name != "event"}
            parts["releases"] = tuple(Release.from_dict(each) for each in parts["releases"])
            parts["neighbouring"] = Neighbouring(parts["neighbouring"])
            for name in ("caveats", "remarks"):
                parts[name] = tuple(parts.get(name, ()))
            report = cls(**parts)
            is_same = event_from_dict(values["event"]) == report.event
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"This is no privacy report: {error}") from None
        if not is_same:
            raise ValueError("The event of the report is not that of its releases.")
        return report

    def _repr_html_(self) -> str:
        """Return the report as a table, for notebooks."""
        first = str(self).partition("\n")[0]
        names = [each.name for each in fields(Release) if each.name != "event"]
        noise = f"noise_in_{'records' if self.unit == 'record' else 'persons'}"
        head = "".join(f"<th>{name}</th>" for name in (*names, noise))
        body = ""
        for release in self.releases:
            norm = release.noise_norm
            cells = [getattr(release, name) for name in names]
            cells.append("" if norm is None else norm / release.sensitivity)
            body += f"<tr>{''.join(f'<td>{_cell(cell)}</td>' for cell in cells)}</tr>"
        notes = "".join(f"<li>{escape(note)}</li>" for note in self._notes())
        return (
            f"<p>{escape(first)}</p><table><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table><ul>{notes}</ul>"
        )

    def __repr__(self) -> str:
        whom = "records" if self.unit == "record" else "persons"
        return f"<({self.epsilon:g}, {self.delta:g})-DP of {whom}>"

    def __str__(self) -> str:
        relation = "replace-one" if self.neighbouring.is_replaced else "add/remove"
        of_records = self.unit == "record"
        units = "records" if of_records else "persons"
        units = units if self.neighbouring.is_replaced else f"nominal {units}"
        whom = "" if of_records else " for persons"
        lines = [
            f"({self.epsilon:g}, {self.delta:g})-differentially private{whom}, {relation} "
            f"neighbours, "
            f"method {self.method!r}"
        ]
        releases: Counter[str] = Counter()
        for release in self.releases:
            kind = "draw" if release.mechanism == "exponential" else "noise"
            releases[
                f"{release.name}: {release.mechanism} {kind} of scale {release.noise_scale:.4g} "
                f"in {release.dimension} dimensions, sensitivity {release.sensitivity:.4g}, "
                f"{release.n_records} {units} ({release.reference})"
            ] += 1
        lines += [f"  {n} x {text}" if n > 1 else f"  {text}" for text, n in releases.items()]
        lines += [f"  {note}" for note in self._notes()]
        return "\n".join(lines)

    def _notes(self) -> list[str]:
        """What there is to say besides the releases."""
        source = [f"source of the normal noise: {self.noise_source}"]
        caveats = [f"caveat: {caveat}" for caveat in self.caveats]
        return [*(source if self.noise_source != "skdp" else []), *self.remarks, *caveats]


def _cell(value: Any) -> str:
    return escape(f"{value:.4g}" if isinstance(value, float) else str(value))
