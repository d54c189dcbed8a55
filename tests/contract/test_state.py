"""All that a fitted estimator keeps, and all that it says, is a function of releases.

Two data sets of one public shape, as different as can be, are fitted so that every release of the
second fit is that of the first. Then the whole state is equal to the last bit: private attributes,
plans, reports, what a pickle holds. Warnings and what is printed are equal without such help.
"""

import enum
import pickle
import warnings

import numpy as np
import pytest
from fit_cases import CASES
from laboratory import Laboratory

SEED = 0

every_case = pytest.mark.parametrize("name", CASES)


def state(value, path="", seen=()):
    """All parts of an object, private names included, as pairs (path, bits)."""
    assert id(value) not in seen, f"{path} holds itself"
    seen = (*seen, id(value))
    yield path, f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, np.ndarray):
        yield path, (value.dtype.str, value.shape)
        if value.dtype.hasobject:
            for i, part in enumerate(value.ravel().tolist()):
                yield from state(part, f"{path}[{i}]", seen)
        else:
            yield path, value.tobytes()
    elif isinstance(value, np.generic | float | complex):
        yield path, np.asarray(value).tobytes()
    elif value is None or isinstance(value, str | bytes | int | enum.Enum | type):
        yield path, repr(value)
    elif isinstance(value, dict):
        yield path, len(value)
        for i, (key, part) in enumerate(value.items()):
            yield from state(key, f"{path} key {i}", seen)
            yield from state(part, f"{path}[{key!r}]", seen)
    elif isinstance(value, list | tuple | set | frozenset):
        parts = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
        yield path, len(value)
        for i, part in enumerate(parts):
            yield from state(part, f"{path}[{i}]", seen)
    else:
        slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
        parts = {name: getattr(value, name) for name in slots if hasattr(value, name)}
        parts |= getattr(value, "__dict__", {})
        assert parts or pickle.dumps(value), path
        for name, part in parts.items():
            yield from state(part, f"{path}.{name}", seen)


def pair(case):
    """Two very different data sets of one public shape."""
    plain, wild = case.records(SEED), case.records(SEED + 1, "wild")
    if case.parameters.get("group_mode") == "public":
        wild = wild._replace(groups=plain.groups, y=wild.y if case.n_groups else plain.y)
    return plain, wild


@pytest.mark.mostly("slow", 20)
@every_case
def test_whole_state_follows_from_the_releases(name):
    """Every attribute of both fits, its parts and its pickle are the same, bit by bit."""
    case, states, releases = CASES[name], [], None
    for records in pair(case):
        with warnings.catch_warnings(), Laboratory(releases=releases) as laboratory:
            warnings.simplefilter("ignore")
            fitted = case.fit(records)
        releases = laboratory.releases
        again = pickle.loads(pickle.dumps(fitted))
        states.append([*state(fitted), *state(again, "pickle: ")])
    first, second = states
    assert [path for path, _ in first] == [path for path, _ in second]
    differences = [mine[0] for mine, its in zip(first, second, strict=True) if mine != its]
    assert not differences


@pytest.mark.mostly("slow", 20)
@every_case
def test_nothing_is_said_about_the_records(name, capfd):
    """Warnings, their number and text, and what is printed do not depend on the records."""
    case, said = CASES[name], []
    for records in pair(case):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            case.fit(records)
        texts = [(warning.category, str(warning.message)) for warning in caught]
        said.append((texts, *capfd.readouterr()))
    assert said[0] == said[1]


def test_state_finds_what_is_hidden():
    """The walk sees private names, nested objects and single bits."""

    class Part:
        __slots__ = ("inner",)

    def thing(number):
        part = Part()
        part.inner = {"a": [np.array([number])]}
        return [part]

    assert list(state(thing(0.0))) == list(state(thing(0.0)))
    assert list(state(thing(0.0))) != list(state(thing(-0.0)))
    assert list(state(thing(1.0))) != list(state(thing(np.nextafter(1.0, 2.0))))
    nan = float("nan")
    assert list(state(thing(nan))) == list(state(thing(nan)))
