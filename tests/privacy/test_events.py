import dataclasses
import itertools
import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp.privacy.events import (
    ApproximateEvent,
    ComposedEvent,
    ExponentialMechanismEvent,
    GaussianEvent,
    Neighbouring,
    PoissonSampledSumEvent,
    PureEvent,
    RepeatedEvent,
    event_from_dict,
    flatten_event,
)

REPLACE_ONE, ADD_REMOVE, REPLACE_USER, ADD_REMOVE_USER = Neighbouring


def events_under(relation):
    """Events of one relation."""
    gaussians = st.builds(GaussianEvent, st.floats(0.1, 10.0), st.just(relation))
    leaves = [
        gaussians,
        st.builds(PureEvent, st.floats(0.0, 10.0), st.just(relation)),
        st.builds(ExponentialMechanismEvent, st.floats(0.0, 10.0), st.just(relation)),
        st.builds(ApproximateEvent, st.floats(0.0, 10.0), st.just(relation), st.floats(0.0, 1.0)),
        st.builds(PoissonSampledSumEvent, st.floats(0.0, 1.0), gaussians, st.floats(0.1, 10.0)),
    ]
    return st.recursive(
        st.one_of(leaves),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3).map(ComposedEvent),
            st.builds(RepeatedEvent, inner, st.integers(0, 5)),
        ),
        max_leaves=6,
    )


EVENTS = st.one_of(map(events_under, Neighbouring))


@given(EVENTS)
def test_events_are_values(event):
    copy = pickle.loads(pickle.dumps(event))
    assert copy == event
    assert hash(copy) == hash(event)
    assert copy is not event


@given(EVENTS)
def test_dictionaries_survive_json(event):
    dictionary = event.to_dict()
    plain = json.loads(json.dumps(dictionary))
    assert plain == dictionary and event_from_dict(plain) == event


def test_events_are_frozen_and_have_plain_numbers():
    event = RepeatedEvent(GaussianEvent(np.float64(2.0), REPLACE_ONE), np.int64(3))
    assert type(event.count) is int
    assert type(event.event.noise_multiplier) is float
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.event.noise_multiplier = 0.5


ONE = GaussianEvent(1.0, REPLACE_ONE)
NOT_POSITIVE = [0.0, -1.0, math.inf, math.nan]
NO_PROBABILITY = [-0.1, 1.1, math.nan]


@pytest.mark.parametrize(
    ("event", "name", "values"),
    [
        (ONE, "noise_multiplier", NOT_POSITIVE),
        (PureEvent(1.0, REPLACE_ONE), "epsilon", NOT_POSITIVE[1:]),
        (ExponentialMechanismEvent(1.0, REPLACE_ONE), "epsilon", NOT_POSITIVE[1:]),
        (PoissonSampledSumEvent(0.5, ONE, 1.0), "sampling_probability", NO_PROBABILITY),
        (PoissonSampledSumEvent(0.5, ONE, 1.0), "record_multiplier", NOT_POSITIVE),
        (RepeatedEvent(ONE, 1), "count", [-1, 1.5, math.nan]),
    ],
)
def test_numbers_are_checked(event, name, values):
    for value in values:
        with pytest.raises(ValueError, match=name):
            dataclasses.replace(event, **{name: value})


def test_a_sampled_sum_is_gaussian():
    for part in (1.0, PureEvent(1.0, REPLACE_ONE), RepeatedEvent(ONE, 1)):
        with pytest.raises(TypeError, match="GaussianEvent"):
            PoissonSampledSumEvent(0.5, part, 1.0)
    for relation in Neighbouring:
        event = PoissonSampledSumEvent(0.5, GaussianEvent(1.0, relation), 2.0)
        assert event.neighbouring is relation


def test_parts_must_be_events():
    for build in (
        lambda part: ComposedEvent([part]), lambda part: RepeatedEvent(part, 1), flatten_event,
    ):  # fmt: skip
        with pytest.raises(TypeError, match="PrivacyEvent"):
            build(1.0)


# --- the relation ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [GaussianEvent, PureEvent, ExponentialMechanismEvent])
def test_a_release_names_its_relation(kind):
    for relation in Neighbouring:
        assert kind(1.0, relation).neighbouring is relation
        assert kind(1.0, relation.value) == kind(1.0, neighbouring=relation)
    with pytest.raises(TypeError, match="neighbouring"):
        kind(1.0)
    for unknown in ("swap", None):
        with pytest.raises(ValueError, match="not a valid Neighbouring"):
            kind(1.0, unknown)


@given(st.sampled_from(Neighbouring), st.data())
def test_the_relation_of_an_event_is_that_of_its_parts(relation, data):
    event = data.draw(events_under(relation))
    relations = {leaf.neighbouring for leaf, _ in flatten_event(event)}
    assert relations <= {relation, None}
    assert event.neighbouring is relation or relation not in relations
    assert event.to_dict()["neighbouring"] == (event.neighbouring and relation.value)


def test_nothing_has_no_relation_and_composes_with_everything():
    nothing = ComposedEvent([])
    for event in (nothing, RepeatedEvent(nothing, 3)):
        assert event.neighbouring is None
        for relation in Neighbouring:
            parts = [event, PureEvent(1.0, relation), event]
            assert ComposedEvent(parts).neighbouring is relation


def test_the_unit_of_a_relation_is_a_record_or_a_person():
    assert [relation.unit for relation in Neighbouring] == ["record", "record", "user", "user"]
    assert [relation.is_replaced for relation in Neighbouring] == [True, False, True, False]
    assert [relation.n_changes for relation in Neighbouring] == [2.0, 1.0, 2.0, 1.0]
    persons = [relation.of_persons for relation in Neighbouring]
    assert persons == [REPLACE_USER, ADD_REMOVE_USER, REPLACE_USER, ADD_REMOVE_USER]


@pytest.mark.parametrize(("relation", "other"), list(itertools.permutations(Neighbouring, 2)))
def test_relations_do_not_mix(relation, other):
    message = f"'{relation.value}': a fit under '{other.value}'"
    if relation.unit != other.unit:
        message = "for persons and releases for records do not add up: give user_ids"
    first, second = GaussianEvent(1.0, relation), PureEvent(1.0, other)
    for hidden in (
        second,
        RepeatedEvent(second, 2),
        PoissonSampledSumEvent(0.5, GaussianEvent(1.0, other), 1.0),
        ComposedEvent([ComposedEvent([]), second]),
    ):
        with pytest.raises(ValueError, match=message):
            ComposedEvent([first, hidden])


def test_flatten_counts_leaves_in_order_of_appearance():
    gaussian, pure = GaussianEvent(1.0, REPLACE_ONE), PureEvent(0.5, REPLACE_ONE)
    sampled = PoissonSampledSumEvent(0.5, gaussian, 2.0)
    event = ComposedEvent(
        [
            RepeatedEvent(ComposedEvent([pure, RepeatedEvent(gaussian, 2)]), 3),
            sampled,
            RepeatedEvent(PureEvent(9.0, REPLACE_ONE), 0),
            gaussian,
        ]
    )
    assert flatten_event(event) == ((pure, 3), (gaussian, 7), (sampled, 1))
    assert flatten_event(event, 2) == ((pure, 6), (gaussian, 14), (sampled, 2))
    assert flatten_event(ComposedEvent([])) == ()
    assert flatten_event(event, 0) == ()
    for count in (-1, 1.5, math.nan):
        with pytest.raises(ValueError, match="count"):
            flatten_event(event, count)
