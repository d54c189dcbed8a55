"""Parts of scikit-learn that keep nothing of the records, and the conditions on their parameters.

:data:`SAFE` is the one table: :func:`skdp.inspection.check_pipeline`, the warning of a fit and the
guide follow it. A part is on it only if fits to any two neighbours leave equal attributes and equal
layouts, and warn and fail alike; tests/contract/test_safe_parts.py fits each of them. Records that
no private model accepts either (missing or infinite values, text among numbers) may be refused.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import numpy as np

#: A condition's answer where the parameters do not tell, such as for functions.
UNKNOWN = "something that is not known"
#: Data types of columns that text must not be readable as.
_OTHER_TYPES = (np.float64, np.complex128, "datetime64[ns]", "timedelta64[ns]")
#: Labels up to this number never make scikit-learn warn of many classes.
_FEW = 20

_OVERFLOW = "by an overflow whether a record is huge, unless a step that bounds them comes before"


def _always(step: Any) -> None:
    return None


def _functions(*names: str) -> Callable[[Any], str | None]:
    """Return the condition that some parameters are no functions."""
    return lambda step: UNKNOWN if any(callable(getattr(step, name)) for name in names) else None


def _function(step: Any) -> str | None:
    if step.func is None and step.inverse_func is None:
        return None
    return (
        "by a warning whether functions are inverse (check_inverse)"
        * bool(step.check_inverse and step.func is not None and step.inverse_func is not None)
        or UNKNOWN
    )


def _target(step: Any) -> str | None:
    if step.func is None and step.inverse_func is None and step.transformer is None:
        return None
    if step.check_inverse:
        return "by a warning whether the transform is inverted (check_inverse)"
    return None if step.transformer is not None else UNKNOWN


def _encoder(step: Any) -> str | None:
    if isinstance(step.categories, str):
        return "which categories occur"
    if step.min_frequency is not None or step.max_categories is not None:
        return "which categories are rare"
    if step.handle_unknown not in ("ignore", "infrequent_if_exist", "use_encoded_value"):
        return "by an error or a warning whether a record has another category (handle_unknown)"
    if getattr(step, "drop", None) is not None:
        return "by a warning whether a record has another category (drop)"
    if not all(map(_is_text, step.categories)):
        return "the type of the columns, which one record can change: declare categories as text"
    return None


def _is_text(categories: Any) -> bool:
    """Whether a column of numbers is refused: categories are cast to the type of the records."""
    if not all(isinstance(each, str) and each for each in categories) or len(categories) < 2:
        return False
    for kind in _OTHER_TYPES:
        try:
            np.array(list(categories), dtype=kind)
        except ValueError:
            continue
        return False
    return True


def _indicator(step: Any) -> str | None:
    if step.features != "all":
        return "which columns have missing values"
    return None if isinstance(step.missing_values, numbers.Real) else "the type of the columns"


def _splines(step: Any) -> str | None:
    if isinstance(step.knots, str):
        return "extremes or quantiles"
    if step.extrapolation not in ("constant", "periodic"):
        return "by an error or an overflow whether a record is outside the knots (extrapolation)"
    return None


def _words(step: Any) -> str | None:
    if step.vocabulary is None:
        return "which words occur"
    return _functions("analyzer", "preprocessor", "tokenizer")(step)


def _columns(step: Any) -> str | None:
    if step.sparse_threshold != 0:
        return "by its layout whether the density is below sparse_threshold: set it to 0"
    if any(callable(columns) for _, _, columns in step.transformers):
        return "which columns are chosen, which one record can change"
    return None


def _chain(step: Any) -> str | None:
    return None if step.cv is None else "predictions of records for others"


def _two_labels(step: Any) -> str | None:
    if len(_labels(step)) == 2:
        return None
    return "by an error how many labels occur: declare two classes"


def _few_labels(step: Any) -> str | None:
    if _labels(step):
        return None
    return f"by a warning how many labels occur: declare up to {_FEW} classes"


def _labels(step: Any) -> list[Any]:
    """List the labels that a member declares, if they are few; none if it does not."""
    member = step.estimator
    while getattr(member, "steps", None):
        member = member.steps[-1][1]
    classes = getattr(member, "classes", None)
    labels = [] if classes is None or isinstance(classes, str) else list(classes)
    is_plain = all(isinstance(each, (str, numbers.Integral, np.bool_)) for each in labels)
    return labels if is_plain and len(labels) <= _FEW else []


#: What a part keeps besides what its parts keep, by the name of its class: None for nothing.
SAFE: dict[str, Callable[[Any], str | None]] = {
    "Normalizer": _always,
    "Binarizer": _always,
    "FunctionTransformer": _function,
    "PolynomialFeatures": lambda step: _OVERFLOW,
    "PolynomialCountSketch": lambda step: _OVERFLOW,
    "OneHotEncoder": _encoder,
    "OrdinalEncoder": _encoder,
    "MissingIndicator": _indicator,
    "SplineTransformer": _splines,
    "HashingVectorizer": _functions("analyzer", "preprocessor", "tokenizer"),
    "FeatureHasher": _always,
    "CountVectorizer": _words,
    "Pipeline": lambda step: None if step.memory is None else "what steps make of records, on disk",
    "FeatureUnion": _always,
    "ColumnTransformer": _columns,
    "SelectFromModel": _functions("max_features", "importance_getter"),
    "TransformedTargetRegressor": _target,
    "VotingRegressor": _always,
    "MultiOutputRegressor": _always,
    "MultiOutputClassifier": _few_labels,
    "RegressorChain": _chain,
    "ClassifierChain": _chain,
    "FixedThresholdClassifier": _two_labels,
    "FrozenEstimator": _always,
}
#: Safe directly after a step of BOUNDED, whose output cannot overflow.
AFTER_BOUNDED = frozenset({"PolynomialFeatures", "PolynomialCountSketch"})
#: Steps whose output has entries of a bounded size.
BOUNDED = frozenset({"BoundedScaler", "BoundedSplineTransformer", "Normalizer", "Binarizer"})
#: What others keep, where a word is better than "what it learns".
KEPT = {
    "StandardScaler": "means and variances, or counts",
    "MinMaxScaler": "extremes: a single record can be read off them",
    "MaxAbsScaler": "extremes: a single record can be read off them",
    "RobustScaler": "medians and quantiles",
    "QuantileTransformer": "quantiles",
    "KBinsDiscretizer": "quantiles or extremes",
    "PowerTransformer": "means, variances and shapes",
    "LabelEncoder": "which labels occur",
    "LabelBinarizer": "which labels occur",
    "TargetEncoder": "means of the targets",
    "SimpleImputer": "statistics, or at least the type of the columns, which one record can change",
    "KNNImputer": "all records",
    "PCA": "directions of the records",
    "RBFSampler": "the variance of the entries, or at least their precision",
    "GaussianRandomProjection": "the number of records, or at least their precision",
    "SparseRandomProjection": "the number of records, or at least their precision",
    "AdditiveChi2Sampler": "by an error whether an entry is negative",
    "SkewedChi2Sampler": "by an error whether an entry is too small",
    "SparseCoder": "by warnings how well a record is coded",
    "SelectKBest": "which features were chosen by the records",
    "SelectPercentile": "which features were chosen by the records",
    "VarianceThreshold": "which features vary",
    "TfidfVectorizer": "which words occur, and how often",
    "DictVectorizer": "which keys occur",
    "GridSearchCV": "which parameters had the best score, without noise",
    "RandomizedSearchCV": "which parameters had the best score, without noise",
    "BaggingClassifier": (
        "the seeds of its members, with which their noise can be subtracted, and draws records "
        "several times, by weights that one record moves for all"
    ),
    "VotingClassifier": "which labels occur, and encodes them by that",
    "OneVsRestClassifier": "which labels occur",
    "OneVsOneClassifier": "which labels occur, and how often",
    "OutputCodeClassifier": "which labels occur",
}
KEPT["BaggingRegressor"] = KEPT["BaggingClassifier"]
