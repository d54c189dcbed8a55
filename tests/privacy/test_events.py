import dataclasses
import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp.privacy.events import (
    ComposedEvent,
    ExponentialMechanismEvent,
    GaussianEvent,
    Neighbouring,
    PoissonSampledEvent,
    PoissonSampledSumEvent,
    PrivacyEvent,
    PureEvent,
    RepeatedEvent,
    flatten_event,
)

LEAVES = st.one_of(
    st.floats(0.1, 10.0).map(GaussianEvent),
    st.floats(0.0, 10.0).map(PureEvent),
    st.floats(0.0, 10.0).map(ExponentialMechanismEvent),
    st.builds(
        PoissonSampledSumEvent,
        st.floats(0.0, 1.0),
        st.floats(0.1, 10.0).map(GaussianEvent),
        st.floats(0.1, 10.0),
    ),
)
EVENTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(PoissonSampledEvent, st.floats(0.0, 1.0), inner),
        st.lists(inner, max_size=3).map(ComposedEvent),
        st.builds(RepeatedEvent, inner, st.integers(0, 5)),
    ),
    max_leaves=6,
)


@given(EVENTS)
def test_events_are_values(event):
    copy = pickle.loads(pickle.dumps(event))
    assert copy == event
    assert hash(copy) == hash(event)
    assert copy is not event


@given(EVENTS)
def test_dictionaries_survive_json(event):
    dictionary = event.to_dict()
    assert json.loads(json.dumps(dictionary)) == dictionary


def test_dictionary_of_a_nested_event():
    event = ComposedEvent(
        [
            RepeatedEvent(PoissonSampledEvent(0.1, GaussianEvent(2.0)), 3),
            PureEvent(0.5),
            ExponentialMechanismEvent(0.25),
        ]
    )
    sampled = {
        "type": "poisson_sampled",
        "sampling_probability": 0.1,
        "event": {"type": "gaussian", "noise_multiplier": 2.0},
    }
    assert event.to_dict() == {
        "type": "composed",
        "events": [
            {"type": "repeated", "event": sampled, "count": 3},
            {"type": "pure", "epsilon": 0.5},
            {"type": "exponential_mechanism", "epsilon": 0.25},
        ],
    }


def test_dictionary_of_a_sampled_sum():
    assert PoissonSampledSumEvent(0.1, GaussianEvent(1.5), 3.0).to_dict() == {
        "type": "poisson_sampled_sum",
        "sampling_probability": 0.1,
        "event": {"type": "gaussian", "noise_multiplier": 1.5},
        "record_multiplier": 3.0,
    }


def test_numpy_numbers_become_plain_ones():
    event = RepeatedEvent(GaussianEvent(np.float64(2.0)), np.int64(3))
    assert type(event.count) is int
    assert type(event.event.noise_multiplier) is float


def test_events_of_different_kinds_differ():
    assert PureEvent(1.0) != ExponentialMechanismEvent(1.0)
    assert GaussianEvent(1.0) != GaussianEvent(2.0)
    assert ComposedEvent([PureEvent(1.0)]) == ComposedEvent((PureEvent(1.0),))


def test_events_are_frozen():
    event = GaussianEvent(1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.noise_multiplier = 0.5


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_noise_multiplier_is_checked(value):
    with pytest.raises(ValueError, match="noise_multiplier"):
        GaussianEvent(value)


@pytest.mark.parametrize("kind", [PureEvent, ExponentialMechanismEvent])
@pytest.mark.parametrize("value", [-1.0, math.inf, math.nan])
def test_epsilon_is_checked(kind, value):
    with pytest.raises(ValueError, match="epsilon"):
        kind(value)


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan])
def test_sampling_probability_is_checked(value):
    with pytest.raises(ValueError, match="sampling_probability"):
        PoissonSampledEvent(value, PureEvent(1.0))
    with pytest.raises(ValueError, match="sampling_probability"):
        PoissonSampledSumEvent(value, GaussianEvent(1.0), 1.0)


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_record_multiplier_is_checked(value):
    with pytest.raises(ValueError, match="record_multiplier"):
        PoissonSampledSumEvent(0.5, GaussianEvent(1.0), value)


@pytest.mark.parametrize("part", [1.0, PureEvent(1.0), RepeatedEvent(GaussianEvent(1.0), 1)])
def test_a_sampled_sum_is_gaussian(part):
    with pytest.raises(TypeError, match="GaussianEvent"):
        PoissonSampledSumEvent(0.5, part, 1.0)


@pytest.mark.parametrize("value", [-1, 1.5, math.nan])
def test_count_is_checked(value):
    with pytest.raises(ValueError, match="count"):
        RepeatedEvent(PureEvent(1.0), value)
    with pytest.raises(ValueError, match="count"):
        flatten_event(PureEvent(1.0), value)


@pytest.mark.parametrize(
    "build",
    [
        lambda part: ComposedEvent([part]),
        lambda part: RepeatedEvent(part, 1),
        lambda part: PoissonSampledEvent(0.5, part),
        flatten_event,
    ],
)
def test_parts_must_be_events(build):
    with pytest.raises(TypeError, match="PrivacyEvent"):
        build(1.0)


def test_the_base_class_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        PrivacyEvent()


def test_flatten_counts_leaves_in_order_of_appearance():
    gaussian, pure = GaussianEvent(1.0), PureEvent(0.5)
    sampled = PoissonSampledEvent(0.5, RepeatedEvent(gaussian, 7))
    event = ComposedEvent(
        [
            RepeatedEvent(ComposedEvent([pure, RepeatedEvent(gaussian, 2)]), 3),
            sampled,
            RepeatedEvent(PureEvent(9.0), 0),
            gaussian,
        ]
    )
    assert flatten_event(event) == ((pure, 3), (gaussian, 7), (sampled, 1))
    assert flatten_event(event, 2) == ((pure, 6), (gaussian, 14), (sampled, 2))
    assert flatten_event(ComposedEvent([])) == ()
    assert flatten_event(event, 0) == ()


@given(st.lists(EVENTS, max_size=3), st.integers(0, 4))
def test_flatten_is_additive(events, count):
    def total(event, times=1):
        return dict(flatten_event(event, times))

    whole = total(ComposedEvent(events), count)
    by_hand = {}
    for event in events:
        for leaf, number in total(event).items():
            by_hand[leaf] = by_hand.get(leaf, 0) + count * number
    assert whole == {leaf: number for leaf, number in by_hand.items() if number}


def test_neighbouring_relations_by_name():
    assert Neighbouring("replace_one") is Neighbouring.REPLACE_ONE
    assert Neighbouring("add_remove") is Neighbouring.ADD_REMOVE
    assert json.dumps(Neighbouring.ADD_REMOVE) == '"add_remove"'
    with pytest.raises(ValueError, match="swap"):
        Neighbouring("swap")
