"""Events: frozen descriptions of the private releases of an algorithm.

An event names the mechanism, its noise relative to the sensitivity, and the neighbouring relation
under which that sensitivity was measured. It holds public numbers only, so it can be published with
the release. Composition is adaptive: which release comes next may depend on those before it, as
long as the event itself was fixed in advance. Events of different relations do not compose.

To add a mechanism, write its frozen dataclass here, with a field ``neighbouring``, and its cost in
each accountant that has a proof for it; the others refuse it.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, ClassVar

from skdp._checks import check_count, check_non_negative, check_positive, check_real


class Neighbouring(str, Enum):
    """Which pairs of data sets a guarantee makes hard to tell apart."""

    #: The same public size n, and one record differs: features, target and group together.
    REPLACE_ONE = "replace_one"
    #: One is the other with one record added or removed. The size n is private; where a method
    #: needs a size it takes a public nominal one.
    ADD_REMOVE = "add_remove"
    #: The same public number of persons, and one person differs, with all its records and their
    #: number.
    REPLACE_USER = "replace_user"
    #: One person more or less, with all its records. The number of persons is private.
    ADD_REMOVE_USER = "add_remove_user"

    @property
    def is_replaced(self) -> bool:
        """Whether a record or a person is replaced, so that their number is public."""
        return self in (Neighbouring.REPLACE_ONE, Neighbouring.REPLACE_USER)

    @property
    def unit(self) -> str:
        """Whom the guarantee is for: "record", or "user" for a person with all its records."""
        return "user" if self.value.endswith("_user") else "record"

    @property
    def of_persons(self) -> Neighbouring:
        """The relation whose unit is a person."""
        return Neighbouring.REPLACE_USER if self.is_replaced else Neighbouring.ADD_REMOVE_USER

    @property
    def n_changes(self) -> float:
        """Number of units to add or remove between neighbours: a replaced one counts twice."""
        return 2.0 if self.is_replaced else 1.0


#: The relations whose unit is a record.
RECORD_RELATIONS = (Neighbouring.REPLACE_ONE, Neighbouring.ADD_REMOVE)
#: The relations with a public number of units.
REPLACED_RELATIONS = (Neighbouring.REPLACE_ONE, Neighbouring.REPLACE_USER)


class PrivacyEvent(abc.ABC):
    """Base class of all events, which are frozen dataclasses.

    Attributes
    ----------
    neighbouring : Neighbouring or None
        The relation that the event was measured under, that of its parts if it has parts; None
        if nothing was released.
    """

    kind: ClassVar[str] = "event"
    neighbouring: Neighbouring | None

    @abc.abstractmethod
    def __post_init__(self) -> None:
        """Check the fields and turn them into plain Python values."""

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"type": ..., <field>: <value>, ...}`` with plain values, events included."""
        return {"type": self.kind, **{name: plain(value) for name, value in vars(self).items()}}


@dataclass(frozen=True)
class GaussianEvent(PrivacyEvent):
    """A vector released with isotropic Gaussian noise.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation per coordinate over the l2 sensitivity of the vector; finite and > 0.
    neighbouring : Neighbouring or str
        The relation that the cost holds under.

    Examples
    --------
    >>> from skdp.privacy import GaussianEvent, tightest_epsilon
    >>> round(tightest_epsilon(GaussianEvent(4.0, "replace_one"), 1e-6), 2)
    1.06
    """

    noise_multiplier: float
    neighbouring: Neighbouring
    kind: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        check_positive(noise_multiplier=self.noise_multiplier)
        relation = Neighbouring(self.neighbouring)
        self._set(noise_multiplier=float(self.noise_multiplier), neighbouring=relation)


@dataclass(frozen=True)
class _EpsilonEvent(PrivacyEvent):
    epsilon: float
    neighbouring: Neighbouring

    def __post_init__(self) -> None:
        check_non_negative(epsilon=self.epsilon)
        self._set(epsilon=float(self.epsilon), neighbouring=Neighbouring(self.neighbouring))


@dataclass(frozen=True)
class PureEvent(_EpsilonEvent):
    """Any epsilon-DP release, for example one with spherical Laplace noise.

    Parameters
    ----------
    epsilon : float
        Privacy loss in nats, finite and >= 0.
    neighbouring : Neighbouring or str
        The relation that the cost holds under.
    """

    kind: ClassVar[str] = "pure"


@dataclass(frozen=True)
class ApproximateEvent(_EpsilonEvent):
    """Any (epsilon, delta)-DP release of which no more is known, such as objective perturbation.

    Parameters
    ----------
    epsilon : float
        In nats, finite and >= 0.
    neighbouring : Neighbouring or str
        The relation that the cost holds under.
    delta : float
        In [0, 1].
    """

    delta: float
    kind: ClassVar[str] = "approximate"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_real("delta", self.delta, 0.0, 1.0)
        self._set(delta=float(self.delta))


@dataclass(frozen=True)
class ExponentialMechanismEvent(_EpsilonEvent):
    """A softmax draw: log-probability ratios of bounded range.

    For every neighbouring pair with output laws P and Q, ``log P/Q`` takes values in one interval
    of length ``epsilon`` (bounded range: Durfee and Rogers, "Practical differentially private top-k
    selection", NeurIPS 2019). A draw with probability proportional to
    ``exp(epsilon * score / (2 * sensitivity))`` is of this kind; so is one proportional to
    ``exp(epsilon * score / sensitivity)`` when the score is monotone in the records.

    Parameters
    ----------
    epsilon : float
        Length of the interval in nats, finite and >= 0.
    neighbouring : Neighbouring or str
        The relation that the cost holds under.
    """

    kind: ClassVar[str] = "exponential_mechanism"


@dataclass(frozen=True)
class PoissonSampledSumEvent(PrivacyEvent):
    """A sum over a random subset of the records, with isotropic Gaussian noise.

    Each record enters the subset independently with the same probability; it stays secret. Each of
    its records adds one vector, which may depend on earlier releases but on no other record. The
    bound on its length is the sensitivity under add/remove, and makes sampling pay under
    replace-one neighbours, too (``docs/theory/accounting.md``, section 6).

    Parameters
    ----------
    sampling_probability : float
        In [0, 1].
    event : GaussianEvent
        The sum over all records: its noise in units of the sensitivity.
    record_multiplier : float
        Standard deviation of the noise per coordinate over the bound on the l2 norm of what one
        record adds to the sum; finite and > 0.
    """

    sampling_probability: float
    event: GaussianEvent
    record_multiplier: float
    neighbouring: Neighbouring = field(init=False)
    kind: ClassVar[str] = "poisson_sampled_sum"

    def __post_init__(self) -> None:
        if not isinstance(self.event, GaussianEvent):
            raise TypeError(f"expected a GaussianEvent, got {self.event!r}.")
        check_real("sampling_probability", self.sampling_probability, 0.0, 1.0)
        check_positive(record_multiplier=self.record_multiplier)
        self._set(
            sampling_probability=float(self.sampling_probability),
            record_multiplier=float(self.record_multiplier),
            neighbouring=self.event.neighbouring,
        )


@dataclass(frozen=True)
class ComposedEvent(PrivacyEvent):
    """Several releases from the same records, in any order.

    Parameters
    ----------
    events : sequence of PrivacyEvent
        All under the same relation; kept as a tuple. Empty: nothing was released.

    Examples
    --------
    >>> from skdp.privacy import ComposedEvent, GaussianEvent, PureEvent, tightest_epsilon
    >>> both = ComposedEvent([GaussianEvent(4.0, "replace_one"), PureEvent(0.1, "replace_one")])
    >>> round(tightest_epsilon(both, 1e-6), 2)
    1.13
    """

    events: Sequence[PrivacyEvent]
    neighbouring: Neighbouring | None = field(init=False)
    kind: ClassVar[str] = "composed"

    def __post_init__(self) -> None:
        events = tuple(self.events)
        self._set(events=events, neighbouring=common_relation(events))


@dataclass(frozen=True)
class RepeatedEvent(PrivacyEvent):
    """The same event, several times.

    Parameters
    ----------
    event : PrivacyEvent
        What is released each time.
    count : int
        >= 0.

    Examples
    --------
    >>> from skdp.privacy import PureEvent, RepeatedEvent, tightest_epsilon
    >>> round(tightest_epsilon(RepeatedEvent(PureEvent(0.1, "replace_one"), 10), 1e-6), 2)
    1.0
    """

    event: PrivacyEvent
    count: int
    neighbouring: Neighbouring | None = field(init=False)
    kind: ClassVar[str] = "repeated"

    def __post_init__(self) -> None:
        relation = common_relation([self.event])
        check_count("count", self.count, 0, largest=math.inf)
        self._set(count=int(self.count), neighbouring=relation)


def common_relation(
    events: Iterable[PrivacyEvent], neighbouring: Neighbouring | str | None = None
) -> Neighbouring | None:
    """Find the relation of all events; None if `neighbouring` is and no event has a relation.

    Raises TypeError if a part is no event, and ValueError if relations differ.
    """
    common = None if neighbouring is None else Neighbouring(neighbouring)
    for event in events:
        _check_event(event)
        if event.neighbouring not in (common, None):
            if common is not None:
                if common.unit != event.neighbouring.unit:
                    raise ValueError(
                        "Releases for persons and releases for records do not add up: give "
                        "user_ids to all of them."
                    )
                raise ValueError(
                    f"A budget has one relation, here neighbouring == {common.value!r}: a fit "
                    f"under {event.neighbouring.value!r} needs a budget of its own."
                )
            common = event.neighbouring
    return common


def whole_event(epsilon: float, delta: float, neighbouring: Neighbouring) -> PrivacyEvent:
    """Describe releases of which no more is known than what they cost together."""
    if delta == 0.0:
        return PureEvent(epsilon, neighbouring)
    return ApproximateEvent(epsilon, neighbouring, delta)


def flatten_event(event: PrivacyEvent, count: int = 1) -> tuple[tuple[PrivacyEvent, int], ...]:
    """Undo composition and repetition of an event that happened `count` >= 0 times.

    Returns the distinct single releases in order of first appearance, with their numbers (> 0). A
    sampled event is one leaf.
    """
    check_count("count", count, 0, largest=math.inf)
    counts: dict[PrivacyEvent, int] = {}
    todo = [(event, int(count))]
    while todo:
        current, times = todo.pop()
        _check_event(current)
        if times == 0:
            continue
        if isinstance(current, ComposedEvent):
            todo.extend((part, times) for part in reversed(current.events))
        elif isinstance(current, RepeatedEvent):
            todo.append((current.event, times * current.count))
        else:
            counts[current] = counts.get(current, 0) + times
    return tuple(counts.items())


def event_from_dict(values: Mapping[str, Any]) -> PrivacyEvent:
    """Invert :meth:`PrivacyEvent.to_dict`, or raise TypeError or ValueError for unknown events."""
    kinds = {kind.kind: kind for kind in subclasses(PrivacyEvent)}
    if values.get("type") not in kinds:
        raise ValueError(f"Unknown event {values.get('type')!r}.")
    kind: Any = kinds[values["type"]]
    parts = {each.name: _event_or_value(values[each.name]) for each in fields(kind) if each.init}
    return kind(**parts)


def _event_or_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return event_from_dict(value)
    return [_event_or_value(part) for part in value] if isinstance(value, list) else value


def subclasses(kind: Any) -> Iterator[Any]:
    """Yield the classes below a class."""
    for each in kind.__subclasses__():
        yield each
        yield from subclasses(each)


def _check_event(event: object) -> None:
    if not isinstance(event, PrivacyEvent):
        hint = ": pass its `event`" if hasattr(event, "event") else ""
        raise TypeError(f"expected a PrivacyEvent, got a {type(event).__name__}{hint}.")


def plain(value: Any) -> Any:
    """Turn events, tuples and relations into plain Python values."""
    if isinstance(value, PrivacyEvent):
        return value.to_dict()
    if isinstance(value, tuple):
        return [plain(part) for part in value]
    return value.value if isinstance(value, Neighbouring) else value
