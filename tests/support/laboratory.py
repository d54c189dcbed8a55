"""A record of everything that a fit draws, and of what each draw was added to.

Inside of :class:`Laboratory` a `NoiseSource` hands out symbols in place of numbers. A symbol keeps
its factor while it is multiplied, cut and reshaped. When it is added to a value, that value, the
factor and the mechanism that made the noise are recorded, and the sum goes back to the code as
plain numbers. Whatever a fit does to its noise on the way, the record shows the noise that was
*really* added, in units of a standard draw.

A second run may be given the releases of a first one (``releases=first.releases``): each sum is
then replaced by the one that the first run released. Two runs have the same history then, so that
the difference of their values before noise is what the sensitivity must bound, and the fitted
models must be the same to the last bit.
"""

from __future__ import annotations

import contextlib
import importlib
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from types import MethodType
from typing import Any

import numpy as np
import pytest

from skdp.mechanisms import (
    GaussianMechanism,
    NoiseSource,
    SoftmaxMechanism,
    SphericalLaplaceMechanism,
)

__all__ = ["Draw", "Laboratory", "state"]


@dataclass
class Draw:
    """One draw."""

    #: "gaussian", "spherical_laplace", "exponential" (a point of a ball), "choice" (one of some
    #: candidates), "vertices" (some from one softmax) or "batch" (that of a step).
    kind: str
    dimension: int  # of vertices: how many
    mechanism: Any = None  # the one that asked for the noise
    within: Any = None  # the argument of the innermost :meth:`Laboratory.inside`
    #: What the noise was added to; for a choice or vertices the scores.
    value: np.ndarray = field(default_factory=lambda: np.empty(0))
    #: What each standard variable was multiplied with; NaN until it is added to a value.
    factors: np.ndarray = field(default_factory=lambda: np.empty(0))
    #: Of a batch: the threshold; of a choice: its epsilon; of a point: the concentration.
    rate: float = float("nan")
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def scale(self) -> float:
        """The noise scale of all coordinates; NaN if it is not one and the same."""
        low, high = float(self.factors.min()), float(self.factors.max())
        return high if high - low <= 1e-12 * abs(high) else float("nan")


class Laboratory:
    """Record the draws of the fits that run inside, and their releases.

    Given `releases` are those of another record, `numbers` the standard variables of some draws.
    """

    def __init__(
        self,
        seed: int = 0,
        releases: Sequence[Any] | None = None,
        numbers: Mapping[int, np.ndarray] | None = None,
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.draws: list[Draw] = []
        self.releases: list[Any] = []
        self._given, self._numbers = releases, numbers or {}
        self._mechanism: Any = None
        self._within: list[Any] = [None]
        self._length = 0, 0.0
        self._is_sampling = False
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> Laboratory:
        try:
            self._patch_all()
        except BaseException:  # there is no __exit__ then
            self._patch.undo()
            raise
        return self

    def _patch_all(self) -> None:
        for mechanism in (GaussianMechanism, SphericalLaplaceMechanism):
            self._observe(mechanism)
        for name in ("standard_normal", "exponential", "gamma", "direction"):
            self._substitute(name)
        self._replace("exponential.sampling", "sample", self._point)
        self._replace("statistics.quantiles", "draw_exponential", self._choice)
        self._replace("mirror.rounds", "_draw", self._vertices)
        original = SoftmaxMechanism.draw
        draw = lambda mechanism, *args: self._vertices(partial(original, mechanism), *args)  # noqa: E731
        self._patch.setattr(SoftmaxMechanism, "draw", draw)
        for module in ("bilevel.penalty_method", "bilevel.localized_descent"):
            self._replace(module, "poisson_sample", self._batch)

    def __exit__(self, *args: object) -> None:
        self._patch.undo()

    @contextlib.contextmanager
    def inside(self, what: Any) -> Iterator[None]:
        """Draws of this block are marked with `what`."""
        self._within.append(what)
        try:
            yield
        finally:
            self._within.pop()

    # ------------------------------------------------------------------------------ substitutes

    def _replace(self, module_name: str, name: str, function: Any) -> None:
        module = importlib.import_module(f"skdp.algorithms.{module_name}")
        original = getattr(module, name)

        def substitute(*args: Any) -> Any:
            return function(original, *args)

        self._patch.setattr(module, name, substitute)

    def _observe(self, mechanism: Any) -> None:
        """Keep in mind which mechanism asks for noise."""
        original = mechanism.draw

        def draw(this: Any, *args: Any) -> Any:
            self._mechanism = this
            try:
                return original(this, *args)
            finally:
                self._mechanism = None

        self._patch.setattr(mechanism, "draw", draw)
        # symbols have no bits: the sum is not rounded to a grid
        release = lambda this, value, noise: value + this.draw(value.size, noise)  # noqa: E731
        self._patch.setattr(mechanism, "release", release)

    def _substitute(self, name: str) -> None:
        original, draw = getattr(NoiseSource, name), getattr(self, f"_{name}")

        def substitute(source: NoiseSource, size: int) -> Any:
            if self._is_sampling:
                return original(source, size)
            return draw(size)

        self._patch.setattr(NoiseSource, name, substitute)

    def _begin(self, kind: str, dimension: int, **details: Any) -> int:
        self.draws.append(Draw(kind, dimension, self._mechanism, self._within[-1], **details))
        self.releases.append(None)
        return len(self.draws) - 1

    def _finish(self, index: int, release: Any) -> Any:
        if self._given is not None:
            release = self._given[index]
        self.releases[index] = release
        return release

    def _standard_normal(self, size: int) -> Symbol:
        draw = self._begin("gaussian", size)
        numbers = self._numbers.get(draw, self.rng.normal(size=size))
        return Symbol(self, draw, np.arange(size), numbers, np.ones(size))

    def _gamma(self, shape: int) -> float:
        length = float(self.rng.gamma(shape))
        self._length = shape, length
        return length

    def _direction(self, dimension: int) -> Symbol:
        shape, length = self._length
        assert shape == dimension, f"a norm of {shape} dimensions for a direction of {dimension}"
        vector = self.rng.normal(size=dimension)
        vector /= np.linalg.norm(vector)
        draw = self._begin("spherical_laplace", dimension)
        # a factor of 1 for the standard variable, which is the vector times the length
        factors = np.full(dimension, 1.0 / length)
        numbers = self._numbers.get(draw, length * vector)
        return Symbol(self, draw, np.arange(dimension), numbers, factors)

    def _exponential(self, size: int) -> Any:
        raise AssertionError("exponential variables for what is no point or choice")

    def _point(self, original: Any, *args: Any) -> np.ndarray:
        density, bound, _, _ = args
        draw = self._begin("exponential", len(bound.linear), rate=float(density.concentration))
        self.draws[draw].details = {"records": density}
        if self._given is not None:
            return np.array(self._finish(draw, None))
        self._is_sampling = True
        try:
            return np.array(self._finish(draw, original(*args)))
        finally:
            self._is_sampling = False

    def _choice(self, original: Any, *args: Any) -> int:
        scores, epsilon, *_ = args
        draw = self._begin("choice", 1, value=np.array(scores), rate=float(epsilon))
        self._is_sampling = True
        try:
            return int(self._finish(draw, original(*args)))
        finally:
            self._is_sampling = False

    def _vertices(self, original: Any, scores: np.ndarray, count: int, noise: NoiseSource) -> Any:
        if self._is_sampling:  # seen before
            return original(scores, count, noise)
        draw = self._begin("vertices", int(count), value=np.array(scores))
        self._is_sampling = True
        try:
            return np.array(self._finish(draw, original(scores, count, noise)))
        finally:
            self._is_sampling = False

    def _batch(self, original: Any, n_records: int, rate: float, noise: NoiseSource) -> Any:
        if rate < 1.0:
            self._begin("batch", int(n_records), rate=float(rate))
        return original(n_records, rate, noise)

    def add(self, symbol: Symbol, value: Any) -> np.ndarray:
        """Record what a symbol is added to; the sum."""
        draw, places = self.draws[symbol.draw], symbol.places
        assert places.ndim == 1, "noise is added to a matrix"
        if not draw.factors.size:
            draw.factors = np.full(draw.dimension, np.nan)
            draw.value = np.full(draw.dimension, np.nan)
            self.releases[symbol.draw] = np.full(draw.dimension, np.nan)
        assert np.isnan(draw.factors[places]).all(), "noise is used twice"
        draw.factors[places] = symbol.factors
        draw.value[places] = value
        total = draw.value[places] + symbol.factors * symbol.numbers
        if self._given is not None:
            total = self._given[symbol.draw][places]
        self.releases[symbol.draw][places] = total
        return np.array(total)


@dataclass(eq=False)
class Symbol:
    """Some coordinates of a draw: where they are, what was drawn, and a factor of each."""

    laboratory: Laboratory
    draw: int  # its number
    places: np.ndarray
    numbers: np.ndarray
    factors: np.ndarray

    __array_priority__ = 1e9

    shape = property(lambda self: self.places.shape)
    size = property(lambda self: self.places.size)
    ndim = property(lambda self: self.places.ndim)

    def __len__(self) -> int:
        return len(self.places)

    def _with(self, function: Any) -> Symbol:
        parts = (function(part) for part in (self.places, self.numbers, self.factors))
        return Symbol(self.laboratory, self.draw, *parts)

    def __getitem__(self, key: Any) -> Symbol:
        return self._with(lambda part: part[key])

    def reshape(self, *shape: Any) -> Symbol:
        return self._with(lambda part: part.reshape(*shape))

    def ravel(self) -> Symbol:
        return self.reshape(-1)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        assert function is np.split, f"{function.__name__} of noise"
        (_, points), start, parts = args, 0, []
        for stop in (*points, len(self)):
            parts.append(self[start:stop])
            start = stop
        return parts

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        assert method == "__call__" and not kwargs, f"{ufunc.__name__}.{method} of noise"
        first, second = inputs
        other = second if first is self else first
        assert not isinstance(other, Symbol), "noise meets noise"
        if ufunc is np.multiply or (ufunc is np.divide and first is self):
            factors = np.broadcast_to(ufunc(self.factors, other), self.shape)
            return Symbol(self.laboratory, self.draw, self.places, self.numbers, factors)
        if ufunc is np.add:
            return self.laboratory.add(self, other)
        raise AssertionError(f"{ufunc.__name__} of noise that is not added to a value yet")

    def __mul__(self, other: Any) -> Any:
        return np.multiply(self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return np.divide(self, other)

    def __add__(self, other: Any) -> Any:
        return np.add(self, other)

    __radd__ = __add__


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
    elif value is None or isinstance(value, str | bytes | int | Enum) or is_named(value):
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
        if not parts:
            yield path, pickle.dumps(value)
        for name, part in parts.items():
            yield from state(part, f"{path}.{name}", seen)


def is_named(value):
    """Whether an object is a class or a function, which its name tells."""
    return hasattr(value, "__qualname__") and not isinstance(value, MethodType)
