"""Parts of estimators that learn from the records without privacy, known by their parameters alone.

Nothing here looks at a record, so that warnings may say it.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from types import CodeType, FrameType
from typing import Any, NamedTuple

from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from skdp.privacy.blocks import OfThisThread
from skdp.privacy.report import PrivacyLeakWarning
from skdp.privacy.safe_parts import AFTER_BOUNDED, BOUNDED, KEPT, SAFE, UNKNOWN


class Step(NamedTuple):
    """A part of an estimator that learns from the records, or may do so."""

    #: Names of the parts that lead to it, with dots between them; empty for the estimator itself.
    path: str
    #: Name of its class.
    kind: str
    #: What it keeps of the records; None where that is not known.
    keeps: str | None

    def __str__(self) -> str:
        return f"{self.path!r} ({self.kind})" if self.path else self.kind


#: Steps whose output are synthetic records: what learns from them learns nothing else.
_SYNTHETIC = "DPSyntheticData"
#: Methods of estimators that fit, in which the parts of running ones are looked for.
_FITS = ("fit", "fit_transform", "fit_predict", "partial_fit")
#: A class of somebody else with one of these is not judged by its base.
_METHODS = frozenset({*_FITS, "fit_resample", "transform"})


def learning_steps(estimator: Any) -> list[Step]:
    """List the parts of an estimator, such as a Pipeline, that learn from records without privacy.

    Parts are looked for in its parameters. ``keeps is None`` for functions and classes that neither
    this package nor scikit-learn has.
    """
    return list(_walk(estimator, ()))


def _walk(
    estimator: Any, path: tuple[str, ...], before: Any = None, is_made: bool = False
) -> Iterator[Step]:
    """Yield what learns; `before` is the step before it, `is_made` says that X is synthetic."""
    known = _known_class(estimator)
    if known is not None and known.__module__.startswith("skdp."):
        return  # private, or without a memory
    keeps, is_learning = _verdict(estimator, known, before)
    if is_made:
        keeps, is_learning = "the targets, which are not synthetic", _reads_targets(estimator)
    if is_learning:
        yield Step(".".join(path), type(estimator).__name__, keeps)
    before, is_chain = None, hasattr(estimator, "steps")
    for name, part in parts(estimator):
        yield from _walk(part, (*path, name) if name else path, before, is_made)
        before = part if is_chain else None
        is_made = is_made or (is_chain and _is_synthetic(part))


def _is_synthetic(part: Any) -> bool:
    return any(kind.__name__ == _SYNTHETIC for kind in type(part).__mro__)


def _reads_targets(part: Any) -> bool:
    if next(parts(part), None) is not None and type(part).__name__ in SAFE:
        return False  # its parts are asked
    if "SelectorMixin" in {kind.__name__ for kind in type(part).__mro__}:
        return True  # most read them, and their tags do not say so
    return not hasattr(part, "__sklearn_tags__") or bool(get_tags(part).target_tags.required)


def _verdict(estimator: Any, known: type | None, before: Any) -> tuple[str | None, bool]:
    if known is None:
        return None, True
    if known.__module__.startswith("imblearn.") and known.__name__ != "Pipeline":
        return "records several times or not at all: one record counts more than once", True
    name = known.__name__
    if name not in SAFE:
        return KEPT.get(name, "what it learns from the records"), True
    bounding = None if before is None else _known_class(before)
    if name in AFTER_BOUNDED and bounding is not None and bounding.__name__ in BOUNDED:
        return None, False
    keeps = SAFE[name](estimator)
    return (None if keeps is UNKNOWN else keeps), keeps is not None


def _known_class(estimator: Any) -> type | None:
    """Return the class of a known library whose methods an estimator has; None if it has others."""
    known = None
    for kind in type(estimator).__mro__:
        is_known = kind.__module__.startswith(("skdp.", "sklearn.", "imblearn."))
        known = kind if known is None and is_known else known
        if not _METHODS.isdisjoint(vars(kind)):
            return known if is_known else None
    return None


def parts(estimator: Any) -> Iterator[tuple[str, Any]]:
    """Yield names and estimators among the parameters, those in lists of steps included."""
    if not hasattr(estimator, "get_params") or isinstance(estimator, type):
        return
    for name, value in estimator.get_params(deep=False).items():
        if _is_estimator(value):
            yield name, value
        elif isinstance(value, (list, tuple)):
            for each in value:
                if isinstance(each, tuple) and len(each) >= 2 and _is_estimator(each[1]):
                    yield str(each[0]), each[1]


def _is_estimator(value: Any) -> bool:
    return hasattr(value, "fit") and hasattr(value, "get_params") and not isinstance(value, type)


_IS_CHECKED: OfThisThread[bool] = OfThisThread("skdp_checked")


def checked(*estimators: Any) -> AbstractContextManager[None]:
    """Warn of the parts of estimators now, and not again inside of the block that is returned."""
    steps = (step for estimator in estimators for step in learning_steps(estimator))
    _warn_of(dict.fromkeys(steps))
    return _IS_CHECKED.holding(True)


def warn_of_steps_before() -> None:
    """Warn of the parts that learn without privacy of the estimators that are being fitted.

    A private estimator inside of others is not told of them, and scikit-learn has no hook for it.
    So they are found by their methods that are running in this thread.
    """
    found: dict[tuple[str, str | None], Step] = {}
    if not _IS_CHECKED.get():
        for running in reversed(list(_running_estimators())):  # an outer one has the inner ones
            for step in _walk(running, ()):
                found.setdefault(step[1:], step)
    if found:
        _warn_of(found.values())


def refuse_mixed_units(kind: type, unit: str) -> None:
    """Refuse a private step of a class if one before it was fitted for another unit of privacy.

    Only pipelines that are being fitted know of both. A step that a pipeline fits in a clone, as
    those before the last one with ``memory=``, is not found among its steps and not checked. What
    follows a synthetic table reads no records.
    """
    running = list(_running_estimators())
    for depth, outer in enumerate(running):
        if not isinstance(outer, Pipeline):
            continue
        inner = {id(each) for each in running[:depth]}
        names = [name for name, step in outer.steps if id(step) in inner]
        for name, step in outer.steps if names else ():
            if name == names[0] or _is_synthetic(step):
                break
            for fitted in _fitted_parts(step):
                if getattr(getattr(fitted, "privacy_", None), "unit", unit) != unit:
                    raise ValueError(
                        f"{type(fitted).__name__} and {kind.__name__} of one pipeline have "
                        "guarantees for different units, persons and records: give user_ids to "
                        "both."
                    )


def _fitted_parts(step: Any) -> Iterator[Any]:
    """Yield a fitted step and what it has fitted: pipelines, unions and transformers of columns."""
    yield step
    for name in ("steps", "transformer_list", "transformers_"):
        found: Sequence[Any] = getattr(step, name, ())
        for _, part, *_ in found:
            yield from _fitted_parts(part)


def _running_estimators() -> Iterator[Any]:
    """Yield the estimators whose methods that fit are running in this thread, innermost first."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None:
        code = frame.f_code
        if code.co_name in _FITS and code.co_argcount:
            running = frame.f_locals.get(code.co_varnames[0])
            if isinstance(running, BaseEstimator) and _has_method(type(running), code):
                yield running
        frame = frame.f_back


def _has_method(kind: type, code: CodeType) -> bool:
    """Whether a class or one of its bases defines a method by some code."""
    for each in kind.__mro__:
        if code.co_name in vars(each):
            method = inspect.unwrap(getattr(each, code.co_name))
            if getattr(method, "__code__", None) is code:
                return True
    return False


def _warn_of(steps: Iterable[Step]) -> None:
    """Warn with a :class:`PrivacyLeakWarning` of steps that are known to learn."""
    known = [step for step in steps if step.keeps is not None]
    if known:
        each = "; ".join(f"{step} keeps {step.keeps}" for step in known)
        warnings.warn(
            f"Parts around a private fit learn from the records without noise, and no budget "
            f"covers that: {each}. docs/guide/preprocessing.md names parts that learn nothing or "
            "privately; skdp.inspection.check_pipeline checks a pipeline.",
            PrivacyLeakWarning,
            stacklevel=3,
        )
