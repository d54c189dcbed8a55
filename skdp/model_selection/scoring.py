"""Which scores of held-out records can be released, and what they are computed from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.multiclass import check_classification_targets

from skdp._checks import LARGEST_UNIT, check_lengths, check_pair, shown
from skdp._estimator import declared_labels, encode, warn_inferred
from skdp._records import refuse_without_values, take_rows
from skdp._runtime import without_warnings
from skdp._units import Persons
from skdp.algorithms.statistics.noisy_score import (
    AUCPlan,
    F1ScorePlan,
    LabelledScoresPlan,
    MeanScorePlan,
    ScorePlan,
)
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import Neighbouring
from skdp.robust.group_labels import as_labels

#: One score per record, the larger the better.
RecordScores = Callable[[Any, Any, np.ndarray], Any]


def _log_probability(estimator: Any, X: Any, y: np.ndarray) -> np.ndarray:
    chances = estimator.predict_proba(X)
    of_label = np.searchsorted(estimator.classes_, y)
    of_label = np.minimum(of_label, len(estimator.classes_) - 1)
    found = chances[np.arange(len(y)), of_label]
    # a label outside of the model's classes has no probability
    return np.log(np.where(estimator.classes_[of_label] == y, found, 0.0))


def _brier(estimator: Any, X: Any, y: np.ndarray, n_classes: int) -> np.ndarray:
    """Return minus the squared distance from the label's indicators, halved for two classes."""
    chances, own = estimator.predict_proba(X), estimator.classes_ == y[:, None]
    # a label outside of the model's classes has an indicator that no probability is beside
    squares = ((chances - own) ** 2).sum(axis=1) + ~own.any(axis=1)
    return np.asarray(-squares / (2.0 if n_classes == 2 else 1.0))


def _is_correct(estimator: Any, X: Any, y: np.ndarray) -> Any:
    return estimator.predict(X) == y


_OF_RECORDS: dict[str, RecordScores] = {
    "accuracy": _is_correct,
    "neg_mean_absolute_error": lambda estimator, X, y: -np.abs(estimator.predict(X) - y),
    "neg_mean_squared_error": lambda estimator, X, y: -((estimator.predict(X) - y) ** 2),
    "neg_log_loss": _log_probability,
}
#: Powers of the width of `target_range` that bound an error.
_POWERS = {"neg_mean_absolute_error": 1, "neg_mean_squared_error": 2}
_OF_CLASSES = (
    "balanced_accuracy", "balanced_neg_log_loss", "f1", "f1_macro", "precision",
    "precision_macro", "recall", "roc_auc",
)  # fmt: skip
#: What there is for several classes in place of a score of two.
_FOR_SEVERAL = {
    "f1": "f1_macro",
    "precision": "precision_macro",
    "recall": "balanced_accuracy",
    "roc_auc": "balanced_accuracy",
}
#: Rows of the tables in which records of persons are scored, and the golden section of them, which
#: spreads the persons.
_TABLE, _APART = 1024, 633
_METHODS = {
    "neg_brier_score": ("predict_proba",),
    "neg_log_loss": ("predict_proba",),
    "balanced_neg_log_loss": ("predict_proba",),
    "roc_auc": ("decision_function", "predict_proba"),
}


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """How the records of test sets are scored."""

    #: Makes a plan of ``(n_records=, budget=, neighbouring=)``.
    plan_kind: Callable[..., ScorePlan]
    #: One value per record, of ``(model, X, y)``; a plan makes sums of them.
    values: RecordScores
    #: Codes of the classes or of the groups of all records.
    labels: np.ndarray | None = None
    #: Whether records are labelled with the predicted class, whose code is their value; the score
    #: is whether it is the true one.
    is_by_prediction: bool = False
    #: The label that is scored; None: all of them.
    own_label: int | None = None
    #: What scores of 0 and 1 of a plan stand for.
    low: float = 0.0
    high: float = 1.0
    #: Whether the labels are groups, of which the worst counts; else their mean does.
    is_grouped: bool = False

    def plan(
        self, n_units: int, budget: PrivacyBudget, persons: Persons | None = None
    ) -> ScorePlan:
        """Plan the release of the score of one test set, of so many records or persons."""
        relation = Neighbouring.REPLACE_ONE if persons is None else Neighbouring.REPLACE_USER
        return self.plan_kind(n_records=n_units, budget=budget, neighbouring=relation)

    @without_warnings()
    def data(
        self, model: Any, X: Any, y: np.ndarray, rows: np.ndarray, persons: Persons | None = None
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
        """Return what the plan makes sums of: not private.

        Values of other records than those of one person must not move when this person has other
        records, for ties and thresholds are counted: each is computed in its own row of tables of a
        public size (docs/theory/scores.md).
        """
        if persons is None:
            values = self._values(model, X, y)
        else:
            values = np.empty(len(y))
            for table in _tables(persons.codes[rows]):
                own, used = np.flatnonzero(table >= 0), np.maximum(table, 0)
                values[table[own]] = self._values(model, take_rows(X, used), y[used])[own]
        values = (values - self.low) / (self.high - self.low)
        labels = None if self.labels is None else self.labels[rows]
        if self.is_by_prediction:
            values, labels = (values == labels).astype(np.float64), values.astype(np.intp)
        if self.own_label is not None and labels is not None:
            labels = (labels != self.own_label).astype(np.intp)  # 0: is scored
        return values, labels, None if persons is None else persons.codes_of(rows)

    def _values(self, model: Any, X: Any, y: np.ndarray) -> np.ndarray:
        values = np.asarray(self.values(model, X, y), dtype=np.float64)
        if values.shape != y.shape:
            raise ValueError(f"scoring must return one score per record, shape {y.shape}.")
        return values

    def released(self, plan: ScorePlan, point: np.ndarray) -> dict[str, Any]:
        """Return the scores, and the deviations of their noise, that released sums stand for."""
        width = self.high - self.low
        each = self.low + width * plan.scores(point)[0]
        noise = width * plan.deviations(point)
        if not self.is_grouped:
            return {"test_score": each.mean(), "score_noise": np.linalg.norm(noise) / len(noise)}
        worst, groups = int(np.argmin(each)), {"group_score": each, "group_noise": noise}
        return {"test_score": each[worst], "score_noise": noise[worst], **groups}


def _tables(persons: np.ndarray) -> np.ndarray:
    """Give each record a row of a table, by the place of its person and its own among them.

    `persons` are the codes of the records, person by person. A table has positions of records, and
    -1 in rows that have none.
    """
    n = len(persons)
    is_first = np.append(True, persons[1:] != persons[:-1])
    place = np.cumsum(is_first)
    rows = (_APART * place + np.arange(n) - np.flatnonzero(is_first)[place - 1]) % _TABLE
    order, numbers = np.argsort(rows, kind="stable"), np.bincount(rows, minlength=_TABLE)
    tables = np.full((numbers.max(), _TABLE), -1)
    tables[np.concatenate([np.arange(number) for number in numbers]), rows[order]] = order
    return tables


def resolve_scoring(
    parts: Sequence[Any],
    y: np.ndarray,
    scoring: str | RecordScores | None,
    score_range: tuple[float, float] | None,
    groups: Any = None,
    group_names: Any = None,
) -> Scoring:
    """Check everything that scores need, but for the records of X.

    `parts` are an estimator and all of its parameters; the others are those of
    :func:`skdp.model_selection.dp_cross_validate`.
    """
    if scoring is None:
        scoring = "accuracy" if is_classifier(parts[0]) else "neg_mean_squared_error"
    names = [*_OF_RECORDS, "neg_brier_score", *_OF_CLASSES]
    if not callable(scoring) and scoring not in names:
        raise ValueError(f"scoring == {shown(scoring)}, must be callable or one of {names}.")
    if not callable(scoring):
        _check_estimator(parts[0], y, scoring)
    if scoring in _OF_CLASSES:
        is_log_loss = scoring == "balanced_neg_log_loss"
        if groups is not None or (score_range is not None and not is_log_loss):
            takes = "no score_groups" if is_log_loss else "no score_range and no score_groups"
            raise ValueError(f"scoring={scoring!r} takes {takes}.")
        return _of_classes(parts, y, scoring, score_range)
    values: RecordScores
    if scoring == "neg_brier_score":
        n_classes = len(_classes(parts, y))
        score_range = (
            (-1.0 if n_classes == 2 else -2.0, 0.0) if score_range is None else score_range
        )
        values = partial(_brier, n_classes=n_classes)
    else:
        values = scoring if callable(scoring) else _OF_RECORDS[scoring]
    low, high = _score_range(parts, scoring, score_range)
    if groups is None:
        return Scoring(plan_kind=MeanScorePlan, values=values, low=low, high=high)
    check_lengths(groups, y)
    labels, known = _groups(parts, groups, group_names)
    return Scoring(
        plan_kind=partial(LabelledScoresPlan, n_labels=len(known)),
        values=values,
        labels=labels,
        low=low,
        high=high,
        is_grouped=True,
    )


def _check_estimator(estimator: Any, y: np.ndarray, scoring: str) -> None:
    is_of_classes = scoring not in _POWERS
    if is_of_classes and not is_classifier(estimator):
        raise ValueError(f"scoring={scoring!r} is for classifiers.")
    if not is_of_classes and y.dtype.kind not in "biuf":
        raise ValueError(f"scoring={scoring!r} needs numbers as targets.")
    methods = _METHODS.get(scoring, ("predict",))
    if not any(hasattr(estimator, method) for method in methods):
        raise ValueError(f"scoring={scoring!r} needs an estimator with {' or '.join(methods)}.")


def _score_range(
    parts: Sequence[Any], scoring: str | RecordScores, score_range: Any
) -> tuple[float, float]:
    """Check the public range of the score of a record, or find it."""
    if score_range is None:
        if scoring == "accuracy":
            return 0.0, 1.0
        ranges = {_pair(part) for part in parts if hasattr(part, "target_range")}
        # targets in other units
        is_turned = any(type(part).__name__ == "TransformedTargetRegressor" for part in parts)
        if scoring not in _POWERS or len(ranges) != 1 or is_turned:
            raise ValueError(f"scoring={scoring!r} needs score_range: a public range of the score.")
        (pair,) = ranges
        score_range = (-((pair[1] - pair[0]) ** _POWERS[str(scoring)]), 0.0)
    return check_pair("score_range", score_range, -1e100, 1e100)


def _pair(part: Any) -> tuple[float, float]:
    """Return the public range of the targets of a regressor."""
    given = (-1.0, 1.0) if part.target_range is None else part.target_range
    return check_pair("target_range", given, -LARGEST_UNIT, LARGEST_UNIT)


def _classes(parts: Sequence[Any], y: np.ndarray) -> np.ndarray:
    """Return the declared labels, or those in y with a warning."""
    classes = _declared(parts, "classes", y)
    if classes is None:
        with refuse_without_values():
            check_classification_targets(y)
        classes = np.unique(y)
        warn_inferred("The class labels", "classes")
    return classes


def _of_classes(parts: Sequence[Any], y: np.ndarray, scoring: str, score_range: Any) -> Scoring:
    classes = _classes(parts, y)
    labels, n_classes = _codes(y, classes), len(classes)
    if scoring in _FOR_SEVERAL and n_classes != 2:
        instead = _FOR_SEVERAL[scoring]
        raise ValueError(f"scoring={scoring!r} is for two classes; {instead!r} is for several.")

    def predicted(model: Any, X: Any, y: np.ndarray) -> np.ndarray:
        return _codes(np.asarray(model.predict(X)), classes)

    def margin(model: Any, X: Any, y: np.ndarray) -> np.ndarray:
        if hasattr(model, "decision_function"):
            return np.asarray(model.decision_function(X))
        return np.asarray(model.predict_proba(X)[:, 1])

    of_all, of_one = (partial(LabelledScoresPlan, n_labels=n) for n in (n_classes, 1))
    low, high = 0.0, 1.0
    if scoring == "balanced_neg_log_loss":
        low, high = _score_range(parts, scoring, score_range)
    plans: dict[str, tuple[Callable[..., ScorePlan], RecordScores]] = {
        "balanced_accuracy": (of_all, _is_correct),
        "balanced_neg_log_loss": (of_all, _log_probability),
        "f1": (partial(F1ScorePlan, n_labels=1), predicted),
        "f1_macro": (partial(F1ScorePlan, n_labels=n_classes), predicted),
        "precision": (of_one, predicted),
        "precision_macro": (of_all, predicted),
        "recall": (of_one, _is_correct),
        "roc_auc": (AUCPlan, margin),
    }
    plan_kind, values = plans[scoring]
    return Scoring(
        plan_kind=plan_kind,
        values=values,
        labels=labels,
        is_by_prediction=scoring.startswith("precision"),
        own_label=1 if scoring in ("precision", "recall") else None,
        low=low,
        high=high,
    )


def _declared(parts: Sequence[Any], name: str, labels: np.ndarray) -> np.ndarray | None:
    """Return what a part declares with a parameter, if it has all of some labels."""
    for part in parts:
        declared = getattr(part, name, None)
        if declared is not None and not isinstance(part, type):
            names = declared_labels(name, declared, 1)
            if (_codes(labels, names) < len(names)).all():
                return names
    return None


def _codes(labels: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return the position of each label in `known`, and the length of it for others."""
    codes = np.full(len(labels), len(known))
    for code, name in enumerate(known):
        codes[labels == name] = code
    return codes


def _groups(parts: Sequence[Any], groups: Any, names: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the codes of groups, and their names."""
    labels = as_labels("score_groups", groups)
    if names is None:
        known = _declared(parts, "group_names", labels)
        if known is None:
            known = np.unique(labels)
            warn_inferred("The groups", "group_names")
    else:
        known = declared_labels("group_names", names, 1)
    message = "score_groups contains labels that are not in `group_names`."
    return encode(labels, known, message), known
