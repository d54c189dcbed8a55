"""Steps of pipelines that learn from the records without privacy, known by their classes alone.

Nothing here looks at a record, so that warnings may say it.
"""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from types import CodeType, FrameType
from typing import Any, NamedTuple

from sklearn.pipeline import Pipeline

from skdp.privacy.events import subclasses
from skdp.privacy.report import PrivacyLeakWarning


class Step(NamedTuple):
    """A part of an estimator that learns from the records, or may do so.

    Attributes
    ----------
    path : str
        Names of the parts that lead to it, with dots between them; empty for the estimator itself.
    kind : str
        Name of its class.
    keeps : str or None
        What it keeps of the records; None where that is not known.
    """

    path: str
    kind: str
    keeps: str | None

    def __str__(self) -> str:
        return f"{self.path!r} ({self.kind})" if self.path else self.kind


#: Estimators of scikit-learn that add nothing to what their parts learn.
_PLAIN = frozenset(
    {
        *("Pipeline", "FeatureUnion", "ColumnTransformer", "TransformedTargetRegressor"),
        *("VotingClassifier", "VotingRegressor", "BaggingClassifier", "BaggingRegressor"),
        *("OneVsRestClassifier", "OneVsOneClassifier", "OutputCodeClassifier", "ClassifierChain"),
        *("MultiOutputClassifier", "MultiOutputRegressor", "RegressorChain"),
        *("SelectFromModel", "FixedThresholdClassifier", "FrozenEstimator"),
    }
)


def _encoder(step: Any) -> str | None:
    if isinstance(step.categories, str):
        return "which categories occur"
    if step.min_frequency is not None or step.max_categories is not None:
        return "which categories are rare"
    if step.handle_unknown == "error":
        return "by an error whether a record has another category (handle_unknown)"
    return None


def _imputer(step: Any) -> str | None:
    if step.strategy != "constant":
        return f"the {step.strategy} of each column"
    if step.add_indicator or not step.keep_empty_features:
        return "which columns have missing values, or nothing else"
    return None


def _projection(step: Any) -> str | None:
    return "the number of records" if step.n_components == "auto" else None


def _words(step: Any) -> str | None:
    return None if step.vocabulary is not None else "which words occur"


#: Transformers of scikit-learn that keep nothing, some of them on a condition; others learn.
_SAFE: dict[str, Callable[[Any], str | None] | None] = {
    "Normalizer": None,
    "Binarizer": None,
    "FunctionTransformer": None,
    "PolynomialFeatures": None,
    "HashingVectorizer": None,
    "FeatureHasher": None,
    "SparseCoder": None,
    "AdditiveChi2Sampler": None,
    "SkewedChi2Sampler": None,
    "PolynomialCountSketch": None,
    "OneHotEncoder": _encoder,
    "OrdinalEncoder": _encoder,
    "SimpleImputer": _imputer,
    "CountVectorizer": _words,
    "GaussianRandomProjection": _projection,
    "SparseRandomProjection": _projection,
    "MissingIndicator": lambda step: (
        None if step.features == "all" else "which columns have missing values"
    ),
    "SplineTransformer": lambda step: (
        "extremes or quantiles" if isinstance(step.knots, str) else None
    ),
    "RBFSampler": lambda step: (
        "the variance of the entries" if isinstance(step.gamma, str) else None
    ),
    "StandardScaler": lambda step: (
        "means and variances" if step.with_mean or step.with_std else None
    ),
}
#: What others keep, where a word is better than "what it learns".
_KEPT = {
    "MinMaxScaler": "extremes: a single record can be read off them",
    "MaxAbsScaler": "extremes: a single record can be read off them",
    "RobustScaler": "medians and quantiles",
    "QuantileTransformer": "quantiles",
    "KBinsDiscretizer": "quantiles or extremes",
    "PowerTransformer": "means, variances and shapes",
    "LabelEncoder": "which labels occur",
    "LabelBinarizer": "which labels occur",
    "TargetEncoder": "means of the targets",
    "KNNImputer": "all records",
    "PCA": "directions of the records",
    "SelectKBest": "which features were chosen by the records",
    "SelectPercentile": "which features were chosen by the records",
    "VarianceThreshold": "which features vary",
    "TfidfVectorizer": "which words occur, and how often",
    "DictVectorizer": "which keys occur",
    "GridSearchCV": "which parameters had the best score, without noise",
    "RandomizedSearchCV": "which parameters had the best score, without noise",
}
#: Steps whose output are synthetic records: what learns from them learns nothing else.
_SYNTHETIC = "DPSyntheticData"
#: The method of pipelines that fits all steps but the last.
_OF_STEPS = Pipeline._fit.__code__
#: Stands for the position of a running step that is not known: steps before the last one.
_UNKNOWN = -1


def learning_steps(estimator: Any) -> list[Step]:
    """List the parts of an estimator that learn from records without privacy.

    Parameters
    ----------
    estimator : estimator
        Such as a Pipeline; not changed. Its parts are looked for in its parameters.

    Returns
    -------
    list of Step
        With ``keeps is None`` for classes that neither this package nor scikit-learn has.
    """
    return list(_walk(estimator, ()))


def _walk(estimator: Any, path: tuple[str, ...]) -> Iterator[Step]:
    known = _known_class(estimator)
    if known is not None and known.__module__.startswith("skdp."):
        return  # private, or without a memory
    keeps, is_learning = _verdict(estimator, known)
    if is_learning:
        yield Step(".".join(path), type(estimator).__name__, keeps)
    for name, part in parts(estimator):
        yield from _walk(part, (*path, name) if name else path)
        if any(kind.__name__ == _SYNTHETIC for kind in type(part).__mro__):
            return


def _verdict(estimator: Any, known: type | None) -> tuple[str | None, bool]:
    if known is None:
        return None, True
    if known.__module__.startswith("imblearn.") and known.__name__ != "Pipeline":
        return "records several times or not at all: one record counts more than once", True
    name = known.__name__
    if name in _PLAIN:
        return None, False
    if name in _SAFE:
        condition = _SAFE[name]
        keeps = None if condition is None else condition(estimator)
        return keeps, keeps is not None
    return _KEPT.get(name, "what it learns from the records"), True


def _known_class(estimator: Any) -> type | None:
    """Return the class of a known library whose `fit` an estimator has; None if it has another."""
    kinds = type(estimator).__mro__
    of_library = [kind.__module__.startswith(("skdp.", "sklearn.", "imblearn.")) for kind in kinds]
    fits = [bool({"fit", "fit_transform", "fit_resample"} & set(vars(kind))) for kind in kinds]
    if True not in fits or not of_library[fits.index(True)]:
        return None
    return kinds[of_library.index(True)]


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


_IS_CHECKED: ContextVar[bool] = ContextVar("_IS_CHECKED", default=False)


@contextlib.contextmanager
def checked(*estimators: Any) -> Iterator[None]:
    """Warn of the parts of estimators now, and not again inside of the block."""
    steps = (step for estimator in estimators for step in learning_steps(estimator))
    warn_of_steps(list(dict.fromkeys(steps)))
    token = _IS_CHECKED.set(True)
    try:
        yield
    finally:
        _IS_CHECKED.reset(token)


def steps_before() -> list[Step]:
    """List the parts that learn without privacy of the pipelines that are being fitted.

    A private estimator that is the last step is not told of the others, and scikit-learn has no
    hook for it. So the pipelines are found by their methods ``fit``, ``fit_transform`` and
    ``fit_predict`` that are running in this thread.
    """
    found: list[Step] = []
    if _IS_CHECKED.get():
        return found
    for running, _ in _running_pipelines():
        found = learning_steps(running)  # that of an outer pipeline has the inner one
    return found


def refuse_mixed_units(kind: type, unit: str) -> None:
    """Refuse a private step of a class if one before it was fitted for another unit of privacy.

    Only pipelines that are being fitted know of both. What follows a synthetic table reads no
    records.

    Raises
    ------
    ValueError
        If persons and records would be mixed.
    """
    for running, position in _running_pipelines():
        for _, step in running.steps[:position]:
            kinds = [each.__name__ for each in type(step).__mro__]
            if _SYNTHETIC in kinds or (position == _UNKNOWN and type(step) is kind):
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


def _running_pipelines() -> Iterator[tuple[Pipeline, int]]:
    """Yield the pipelines that are being fitted in this thread, the innermost first.

    With each the position of the step that runs, :data:`_UNKNOWN` in methods that do not tell.
    """
    own = set(_fit_methods(Pipeline))
    methods = own.union(*map(_fit_methods, subclasses(Pipeline)))
    positions: dict[int, int] = {}
    frame: FrameType | None = inspect.currentframe()
    while frame is not None:
        code = frame.f_code
        if code is _OF_STEPS or code in methods:
            running = frame.f_locals.get(code.co_varnames[0])
            if isinstance(running, Pipeline) and code is _OF_STEPS:
                positions[id(running)] = frame.f_locals.get("step_idx", _UNKNOWN)
            elif isinstance(running, Pipeline):
                last = len(running.steps) - 1 if code in own else _UNKNOWN
                yield running, positions.setdefault(id(running), last)
        frame = frame.f_back


def _fit_methods(kind: Any) -> Iterator[CodeType]:
    """Yield the code of the methods of a class that fit, but for those that it inherits."""
    for name in ("fit", "fit_transform", "fit_predict"):
        method = inspect.unwrap(getattr(kind, name))
        if name in vars(kind) and inspect.isfunction(method):
            yield method.__code__


def warn_of_steps(steps: list[Step]) -> None:
    """Warn with a :class:`PrivacyLeakWarning` of steps that are known to learn."""
    known = [step for step in steps if step.keeps is not None]
    if known:
        each = "; ".join(f"{step} keeps {step.keeps}" for step in known)
        warnings.warn(
            f"Parts of the pipeline learn from the records without noise, and no budget covers "
            f"that: {each}. docs/guide/preprocessing.md names parts that learn nothing or "
            "privately; skdp.inspection.check_pipeline checks a pipeline.",
            PrivacyLeakWarning,
            stacklevel=3,
        )
