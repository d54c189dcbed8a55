"""scikit-learn's checks that an estimator cannot pass, each with the reason."""

import inspect
import warnings

from sklearn.base import clone

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


def expected_failures(estimator):
    """Return the names of checks that fail, with reasons."""
    if "sample_weight" not in inspect.signature(estimator.fit).parameters:
        return {}
    return _WEIGHED if _weighs(estimator) else _REFUSED


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
