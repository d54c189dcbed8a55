"""scikit-learn's checks that an estimator cannot pass, each with the reason."""

import inspect
import warnings

from sklearn.base import clone, is_regressor

#: Of estimators whose fits take weights.
_WEIGHED = {
    "check_all_zero_sample_weights_error": "an error would tell that all weights are zero, which "
    "neighbours may differ in",
    "check_sample_weight_equivalence_on_dense_data": "the number of records is public: a record of "
    "weight 2 is one record, and twice the same record is two",
    "check_sample_weight_equivalence_on_sparse_data": "as for dense data",
}
#: Of estimators whose method has no proof for weights.
_REFUSED = {
    **_WEIGHED,
    **dict.fromkeys(
        [
            "check_sample_weights_pandas_series",
            "check_sample_weights_not_an_array",
            "check_sample_weights_list",
            "check_sample_weights_shape",
            "check_sample_weights_not_overwritten",
            "check_classifiers_one_label_sample_weights",
        ],
        "the method has no proof for weights",
    ),
}


#: Of regressors whose method stops early in place of a penalty, before the releases and after.
_UNPENALISED = {"check_regressors_train": "it sets alpha, which the method has not: it is refused"}


def expected_failures(estimator):
    """Return the names of checks that fail, with reasons."""
    expected = _UNPENALISED if _is_unpenalised(estimator) else {}
    parameters = estimator.get_params(deep=False)
    expected = expected | _of_class_weights(parameters)
    if "sample_weight" not in inspect.signature(estimator.fit).parameters:
        return expected
    expected = expected | (_WEIGHED if _weighs(estimator) else _REFUSED)
    if parameters.get("mirror_variant") == "anytime":  # its few draws hardly look at 30 records
        return {key: why for key, why in expected.items() if "equivalence" not in key}
    return expected


def _of_class_weights(parameters):
    """Return the check of class weights where they are weights in the loss, and why it fails."""
    if "class_weight" not in parameters:
        return {}
    has_odds = parameters.get("loss", "log_loss") == "log_loss"
    if has_odds and (parameters.get("fit_intercept", True) or parameters["epsilon"] >= 10.0):
        return {}  # a shift of the intercept, or little noise
    if parameters.get("tilt"):
        return {"check_class_weight_classifiers": "tilt has no proof for weights in the loss"}
    reason = "one class has weights of 1e-7 in the loss of 50 records: noise decides"
    return {"check_class_weight_classifiers": reason}


def _is_unpenalised(estimator):
    """Whether an explicit method of a regressor refuses a penalty."""
    parameters = estimator.get_params()
    if not is_regressor(estimator) or parameters.get("method", "auto") == "auto":
        return False
    row = estimator._methods[estimator.method]
    has_none = "alpha" in parameters and not row.is_penalised
    return has_none and not (row.penalises_after and estimator._prepares)


def _weighs(estimator):
    """Whether a fit takes weights: tried."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            estimator = clone(estimator)
            estimator.fit([[0.0], [1.0], [0.5]], [0, 1, 1], sample_weight=[1.0, 0.5, 1.0])
    except ValueError as error:
        return "no proof" not in str(error)
    return True
