"""What private classifiers share: labels, decisions and probabilities."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from skdp._estimator import declared_labels, encode, plain_labels, warn_inferred
from skdp._model import PrivateModel
from skdp._runtime import without_warnings
from skdp.problems import ClippedLogisticLoss, EmpiricalRisk, Loss

_UNKNOWN_LABELS = "y contains labels that are not in `classes`."
_ENCODED = (
    " Meta-estimators such as VotingClassifier, StackingClassifier and BaggingClassifier encode "
    "labels as 0, ..., K - 1: inside of them declare classes=range(K)."
)


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

    @abstractmethod
    def _loss(self, n_classes: int) -> Loss:
        """Loss for targets 0 and 1 if there are two classes, else for class indices."""

    def _fit(self, X: Any, y: Any, groups: np.ndarray | None = None) -> None:
        self._check_parameters()
        declared = None if self.classes is None else declared_labels("classes", self.classes, 2)
        if declared is not None and len(declared) > 2 and self._only_binary is not None:
            raise ValueError(f"classes declares {len(declared)} labels, but {self._only_binary}.")
        self._warn_undeclared()
        X, y = self._validated(X, y)
        y = plain_labels(y)
        caveats: tuple[str, ...] = ()
        if declared is None:
            try:
                with without_warnings():  # of many distinct labels
                    check_classification_targets(y)
                classes = np.unique(y)
            except TypeError:
                raise ValueError("y must have labels of one kind.") from None
            if len(classes) < 2:
                raise ValueError(
                    "The data hold one class only; declare at least two with `classes`."
                )
            warn_inferred("The class labels", "classes")
            caveats = ("classes were inferred from y",)
        else:
            classes = declared
        if len(classes) > 2 and self._only_binary is not None:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass, "
                f"but {self._only_binary}."
            )
        codes = encode(y, classes, _UNKNOWN_LABELS + (_ENCODED if y.dtype.kind in "iu" else ""))
        loss = self._loss(len(classes))
        targets = codes.astype(np.float64) if len(classes) == 2 else codes
        self.classes_ = classes
        records = self._records(X, targets, groups)
        weights = self._private_weights(records, self._risk(loss), caveats)
        self._set_coefficients(weights, loss, X.shape[1])

    def _public_risk(self, n_classes: int | None) -> EmpiricalRisk:
        declared = (
            None if self.classes is None else len(declared_labels("classes", self.classes, 2))
        )
        if None not in (declared, n_classes) and declared != n_classes:
            raise ValueError(f"n_classes == {n_classes}, but classes declares {declared} labels.")
        number = n_classes or declared or 2
        if number > 2 and self._only_binary is not None:
            raise ValueError(f"n_classes == {number}, but {self._only_binary}.")
        self.classes_ = np.arange(number)
        return self._risk(self._loss(number))

    @abstractmethod
    def _set_coefficients(self, weights: Any, loss: Loss, d: int) -> None:
        """Set the fitted weights of d features and of the intercept feature."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self._only_binary is None
        return tags

    def decision_function(self, X: Any) -> np.ndarray:
        """Compute the linear scores: coefficients times the bounded row, plus the intercept.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows longer than `data_norm` are scaled down to it, as in `fit`.

        Returns
        -------
        ndarray of shape (n_samples,) for two classes, else (n_samples, n_classes)
        """
        scores = self._scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def _log_odds(self, X: Any) -> np.ndarray:
        """Compute the log odds of two classes, or scores whose softmax are the probabilities."""
        scores = self.decision_function(X)
        clip = self.privacy_.plan.get("clip")  # of the log loss that was minimised, if it was
        return scores if clip is None else ClippedLogisticLoss(clip).log_odds(scores)

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
    def predict_proba(self, X: Any) -> np.ndarray:
        """Compute class probabilities; only with the log loss.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes), columns in the order of ``classes_``
        """
        scores = self._log_odds(X)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        return np.asarray(softmax(scores, axis=1))

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
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
