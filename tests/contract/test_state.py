"""All that a fitted estimator keeps, and all that it says, is a function of releases.

Two data sets of one public shape, as different as can be, are fitted so that every release of the
second fit is that of the first. Then the whole state is equal to the last bit: private attributes,
plans, reports, what a pickle holds, and all warnings.
"""

import enum
import pickle

import numpy as np
from recorded_fits import every_case, recorded


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


@every_case()
def test_whole_state_follows_from_the_releases(name):
    """Every attribute of both fits, its parts and its pickle are the same, bit by bit.

    So are all warnings; those that come after the payment are in the report. Nothing is printed.
    """
    fits = recorded(name), recorded(name, is_wild=True)
    for fit in fits:
        remarks = [f"{text[0].upper()}{text[1:]}." for text in fit.model.privacy_.remarks]
        assert {text for _, text in fit.warned[fit.n_early :]} <= set(remarks)
        assert fit.printed == ""
    assert fits[0].warned == fits[1].warned
    first, second = (
        [*state(fit.model), *state(pickle.loads(pickle.dumps(fit.model)), "pickle: ")]
        for fit in fits
    )
    assert [path for path, _ in first] == [path for path, _ in second]
    differences = [mine[0] for mine, its in zip(first, second, strict=True) if mine != its]
    assert not differences


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
