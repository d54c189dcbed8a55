"""For tests of what is built on this package."""

from __future__ import annotations

from typing import Any

from sklearn.base import is_regressor

__all__ = ["expected_failed_checks"]


def expected_failed_checks(estimator: Any) -> dict[str, str]:
    """Return scikit-learn's checks that an estimator is expected to fail, each with the reason.

    For ``check_estimator`` and ``parametrize_with_checks`` of
    :mod:`sklearn.utils.estimator_checks`. Every estimator of this package passes all checks with
    its default parameters; some methods and costs of classes cannot pass one.

    Parameters
    ----------
    estimator : estimator
        Of this package.

    Returns
    -------
    dict of {str: str}
        Reasons by the names of checks.

    Examples
    --------
    >>> from skdp import DPLinearClassifier, DPRidge
    >>> from skdp.utils import expected_failed_checks
    >>> expected_failed_checks(DPRidge())
    {}
    >>> list(expected_failed_checks(DPLinearClassifier(loss="hinge")))
    ['check_class_weight_classifiers']
    """
    parameters = estimator.get_params(deep=False)
    found = _of_penalties(estimator, parameters) | _of_class_weights(parameters)
    if is_regressor(estimator) and parameters.get("neighbouring") == "add_remove":
        reason = "with add/remove neighbours no records are a data set: a constant is fitted"
        found["check_estimators_empty_data_messages"] = reason
    return found


def _of_penalties(estimator: Any, parameters: dict[str, Any]) -> dict[str, str]:
    """Return the check that sets `alpha`, for a method of a regressor that refuses a penalty."""
    if not is_regressor(estimator) or parameters.get("method", "auto") == "auto":
        return {}
    if "alpha" not in parameters or estimator._takes_alpha(estimator._method):
        return {}
    return {"check_regressors_train": "it sets alpha, which is refused: the method has none"}


def _of_class_weights(parameters: dict[str, Any]) -> dict[str, str]:
    """Return the check of class weights where they are weights in the loss."""
    if "class_weight" not in parameters:
        return {}
    has_odds = parameters.get("loss", "log_loss") == "log_loss"
    if has_odds and (parameters.get("fit_intercept", True) or parameters["epsilon"] >= 10.0):
        return {}  # a shift of the intercept, or little noise
    if getattr(parameters.get("method"), "tilt", 0.0):
        return {"check_class_weight_classifiers": "tilt has no proof for weights in the loss"}
    reason = "one class has weights of 1e-7 in the loss of 50 records: noise decides"
    return {"check_class_weight_classifiers": reason}
