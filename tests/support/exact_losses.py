"""Exact losses of small compositions, by enumeration."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from skdp.privacy.events import (
    RECORD_RELATIONS,
    ComposedEvent,
    ExponentialMechanismEvent,
    GaussianEvent,
    Neighbouring,
    PoissonSampledSumEvent,
    PrivacyEvent,
    PureEvent,
    RepeatedEvent,
)

PLD_MODULE = "dp_accounting.pld.privacy_loss_distribution"


REPLACE_ONE, ADD_REMOVE = RELATIONS = RECORD_RELATIONS


@dataclass(frozen=True)
class NovelEvent(PrivacyEvent):
    """An event that nothing is proved about."""

    neighbouring: Neighbouring = REPLACE_ONE

    def __post_init__(self):
        pass


def under(relation, event):
    """The same numbers, measured under another relation."""
    if isinstance(event, ComposedEvent):
        return ComposedEvent([under(relation, part) for part in event.events])
    if isinstance(event, RepeatedEvent | PoissonSampledSumEvent):
        return replace(event, event=under(relation, event.event))
    return replace(event, neighbouring=relation)


def two_point_pair(epsilon, above):
    """The worst pair of laws with log-ratio in [above - epsilon, above]."""
    low, high = math.exp(above - epsilon), math.exp(above)
    chance = (1.0 - low) / (high - low)  # of the second law at the outcome of ratio `high`
    return [(high * chance, chance), (low * (1.0 - chance), 1.0 - chance)]


def pure_pair(epsilon):
    return two_point_pair(2.0 * epsilon, epsilon)


def exact_delta(pairs, epsilon):
    """Hockey-stick divergence of a product of pairs of finite laws."""
    total = 0.0
    for outcome in itertools.product(*pairs):
        first = math.prod(probability for probability, _ in outcome)
        second = math.prod(probability for _, probability in outcome)
        total += max(0.0, first - math.exp(epsilon) * second)
    return total


SPECS = st.lists(
    st.tuples(st.booleans(), st.floats(0.05, 3.0), st.floats(0.05, 0.95)), min_size=1, max_size=6
)


def events_and_pairs(specs):
    events, pairs = [], []
    for pure, epsilon, fraction in specs:
        if pure:
            events.append(PureEvent(epsilon, REPLACE_ONE))
            pairs.append(pure_pair(epsilon))
        else:
            events.append(ExponentialMechanismEvent(epsilon, REPLACE_ONE))
            pairs.append(two_point_pair(epsilon, fraction * epsilon))
    return ComposedEvent(events), pairs


GAUSSIAN, PURE, DRAW = (
    GaussianEvent(2.0, REPLACE_ONE),
    PureEvent(0.5, REPLACE_ONE),
    ExponentialMechanismEvent(0.5, REPLACE_ONE),
)
