"""Bases of the classifiers: classes, predictions, and the costs of errors on the classes.

The minimiser of a log loss whose records have the weights of their classes is, if the model is
right, that without weights with log odds shifted by the logarithms of the weights. The shift is
post-processing and has no price, while weights leave fewer records beside the same noise. Without
an intercept, and for other losses, weights are in the loss (docs/theory/persons.md, "Costs of
classes").
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from skdp._checks import check_option, check_unit, shown
from skdp._estimator import declared_labels, encode, plain_labels, warn_inferred
from skdp._model import PrivateModel
from skdp._sources import ChunkCheck, LabelCodes, distinct_labels
from skdp.data.collections import over_chunks
from skdp.linear_model.base import DPLinearModel
from skdp.problems import (
    ClippedLogisticLoss,
    Design,
    EmpiricalRisk,
    LogisticLoss,
    Loss,
    Records,
    SoftmaxLoss,
)

#: Least share of a class whose inverse is its weight.
_LEAST_SHARE = 0.02


def _has_probabilities(estimator: PrivateClassifier) -> bool:
    loss = getattr(estimator, "loss", "log_loss")  # a parameter of some
    if loss != "log_loss":
        raise AttributeError(f"loss={loss!r} has no probabilities.")
    return True


class PrivateClassifier(ClassifierMixin, PrivateModel):
    """Base of private classifiers; not for direct use."""

    classes: Any

    @property
    def _only_binary(self) -> str | None:
        """Reason for allowing two classes only; None where there may be more."""
        return None

    def _loss(self, n_classes: int) -> Loss:
        """Return the loss for targets 0 and 1 of two classes, else for class indices."""
        return LogisticLoss() if n_classes == 2 else SoftmaxLoss(n_classes)

    def _fit(self, X: Any, y: Any, groups: Any = None, given: Any = (None, None)) -> None:
        self._check_parameters()
        declared = None if self.classes is None else declared_labels("classes", self.classes, 2)
        if declared is not None and len(declared) > 2 and self._only_binary is not None:
            raise ValueError(f"classes declares {len(declared)} labels, but {self._only_binary}.")
        for consequence in self._undeclared():
            warnings.warn(consequence, UserWarning, stacklevel=3)
        caveats: tuple[str, ...] = ()
        labels = distinct_labels if declared is None else None
        with self._surveyed(X, ChunkCheck(), labels) as surveyor:
            persons = weights = None
            if surveyor is None:
                X, y, persons, weights = self._validated(X, y, given)
            classes: Any = declared
            if declared is None:
                classes = distinct_labels(y) if surveyor is None else surveyor.seen.labels
                classes = np.zeros(0) if classes is None else classes  # of no records
                weighed = classes
                if weights is not None:
                    weighed = np.unique(y[weights > 0.0])
                if len(weighed) < 2:
                    found = "The data hold" if len(classes) < 2 else "sample_weight leaves"
                    raise ValueError(
                        f"{found} one class only; declare at least two with `classes`."
                    )
                warn_inferred("The class labels", "classes")
                caveats = ("classes were inferred from y",)
            if len(classes) > 2 and self._only_binary is not None:
                raise ValueError(
                    "Only binary classification is supported. The type of the target is "
                    f"multiclass, but {self._only_binary}."
                )
            encoder, loss = LabelCodes(classes), self._loss(len(classes))
            self.classes_ = classes
            records: Any
            if surveyor is not None:
                records = self._chunked(surveyor, encoder)
            else:
                records = self._records(X, encoder(y), groups)
                records = records.of_units(weights, persons, self.max_records_per_user)
            risk = self._risk(loss)
            weights = self._private_weights(self._with_costs(records, risk), risk, caveats)
            self._set_coefficients(weights, loss, records.n_features)

    def _public_risk(self, n_classes: int | None) -> EmpiricalRisk:
        names = self.classes
        declared = None if names is None else len(declared_labels("classes", names, 2))
        if None not in (declared, n_classes) and declared != n_classes:
            raise ValueError(f"n_classes == {n_classes}, but classes declares {declared} labels.")
        number = n_classes or declared or 2
        if number > 2 and self._only_binary is not None:
            raise ValueError(f"n_classes == {number}, but {self._only_binary}.")
        self.classes_ = np.arange(number)
        return self._risk(self._loss(number))

    def _with_costs(self, records: Records, risk: EmpiricalRisk) -> Records:
        """Give the records the costs of errors on their classes, if there are any."""
        return records

    @abstractmethod
    def _set_coefficients(self, weights: Any, loss: Loss, d: int) -> None:
        """Set the fitted weights of d features and of the intercept feature."""

    @over_chunks
    def decision_function(self, X: Any, return_std: bool = False) -> Any:
        """Compute the linear scores: coefficients times the bounded row, plus the intercept.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows longer than `data_norm` are scaled down to it, as in `fit`.
        return_std : bool, default=False
            Whether to return how far the noise of the fit moves each score, too. It costs no
            budget. A ValueError for methods whose releases do not tell it.

        Returns
        -------
        scores : ndarray of shape (n_samples,) for two classes, else (n_samples, n_classes)
        std : ndarray of the same shape
            Standard deviations, with `return_std`.
        """
        scores = self._scores(X)
        is_binary = len(self.classes_) == 2
        scores = scores[:, 0] if is_binary else scores
        if not return_std:
            return scores
        std = self._score_noise(X)
        return scores, std[:, 0] if is_binary else std

    def _log_odds(self, X: Any, moved: float = 0.0) -> np.ndarray:
        """Compute log odds of two classes, or scores to take the softmax of, of `moved` scores."""
        scores = self.decision_function(X) + moved
        clip = self.privacy_.plan.get("clip")  # of the log loss that was minimised, if it was
        return scores if clip is None else ClippedLogisticLoss(clip).log_odds(scores)

    @over_chunks
    def predict(self, X: Any) -> np.ndarray:
        """Predict the most likely class of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        scores = self.decision_function(X)
        codes = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[codes])

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    @over_chunks
    def predict_proba(self, X: Any, return_std: bool = False) -> Any:
        """Compute class probabilities; only with the log loss.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        return_std : bool, default=False
            Whether to return how far the noise of the fit moves each probability, too, to first
            order. It costs no budget. A ValueError for methods whose releases do not tell it.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``.
        std : ndarray of shape (n_samples, n_classes)
            Standard deviations, with `return_std`.
        """
        scores = self._log_odds(X)
        if scores.ndim == 1:
            chances = np.column_stack([expit(-scores), expit(scores)])
        else:
            chances = np.asarray(softmax(scores, axis=1))
        if not return_std:
            return chances
        if scores.ndim == 1:
            steep = (self._log_odds(X, 1e-6) - scores) * 1e6  # 1 but for clipped log odds
            slopes = (steep * chances[:, 0] * chances[:, 1])[:, None, None] * [[-1.0], [1.0]]
        else:
            slopes = chances[:, :, None] * (np.eye(scores.shape[1]) - chances[:, None, :])
        return chances, self._score_noise(X, slopes)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    @over_chunks
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Compute logarithms of :meth:`predict_proba`, accurate for small probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        scores = self._log_odds(X)
        if scores.ndim == 1:
            return np.column_stack([log_expit(-scores), log_expit(scores)])
        return np.asarray(log_softmax(scores, axis=1))


class DPLinearClassification(PrivateClassifier, DPLinearModel):
    """Base of private linear classifiers; not for direct use."""

    #: Not a parameter of all.
    class_weight: Any = None

    @property
    def _only_binary(self) -> str | None:
        if self._method.is_binary:
            return f"method={self.method!r} supports two only"
        return None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.class_weight, str):
            check_option("class_weight", self.class_weight, ["balanced"])
        elif not isinstance(self.class_weight, Mapping | None):
            raise ValueError(
                f"class_weight must be a dict, 'balanced' or None, got {shown(self.class_weight)}."
            )

    def _with_costs(self, records: Any, risk: EmpiricalRisk) -> Records:
        if isinstance(self.class_weight, str):
            design = Design.of(records, self._public_size(records.n_units))
            plan = self._chosen(design, risk, records.in_memory).plan
            if not getattr(plan, "has_class_shares", False):
                raise ValueError(
                    "class_weight='balanced' needs released shares of the classes: a method that "
                    "prepares rows, such as 'gradient', with the log loss and an intercept. Name "
                    "the weights in a dict."
                )
        elif self.class_weight is not None:
            costs = declared_costs(self.class_weight, self.classes_)
            if not (risk.loss.has_odds and self.fit_intercept):
                return records.viewed(WeighedClasses(costs / costs.max()))
        return records

    def _set_coefficients(self, weights: Any, loss: Loss, d: int) -> None:
        weights = loss.class_weights(weights)
        self.coef_ = np.ascontiguousarray(weights[:, :d])
        self.intercept_ = (
            weights[:, d] * self._intercept_value if self.fit_intercept else np.zeros(len(weights))
        )
        if self.class_weight is not None and loss.has_odds and self.fit_intercept:
            if isinstance(self.class_weight, str):
                shares = np.array(self.privacy_.plan["class_shares"])
                costs = 1.0 / (len(shares) * np.maximum(shares, _LEAST_SHARE))
            else:
                costs = declared_costs(self.class_weight, self.classes_)
            shifts = np.log(costs)
            is_one = len(self.intercept_) == 1
            self.intercept_ += shifts[1] - shifts[0] if is_one else shifts - shifts.mean()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self._only_binary is None
        # an accuracy of 0.83 from 300 records: methods as published have more noise
        tags.classifier_tags.poor_score = not isinstance(self.method, str)
        return tags


def declared_costs(class_weight: Mapping[Any, float], classes: np.ndarray) -> np.ndarray:
    """Return the weights of classes that a parameter declares, and 1 for those it does not name."""
    weights = np.ones(len(classes))
    if not class_weight:
        return weights
    names = plain_labels(np.array(list(class_weight), dtype=object))
    for name, weight in class_weight.items():
        check_unit(f"class_weight[{shown(name)}]", weight)
    codes = encode(names, classes, "class_weight names labels that are not in `classes`.")
    weights[codes] = list(class_weight.values())
    return weights


@dataclass(frozen=True, eq=False)
class WeighedClasses:
    """View of records with the weights of their classes, relative to the largest."""

    costs: np.ndarray

    def __call__(self, records: Records) -> Records:
        return records.of_units(self.costs[np.asarray(records.targets, dtype=np.intp)])
