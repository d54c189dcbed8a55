"""A report names the method that was asked for, or its class, or the one that "auto" took."""

import inspect
import warnings

import numpy as np
import pytest

from skdp.linear_model import DPLinearClassifier, DPLinearRegressor, DPLogisticRegression, DPRidge
from skdp.model_selection import DPLogisticRegressionCV, DPRidgeCV
from skdp.robust import (
    DPAdversarialClassifier,
    DPAdversarialRegressor,
    DPMaxGroupLossClassifier,
    DPMaxGroupLossRegressor,
)

rng = np.random.default_rng(0)
X = rng.uniform(-0.5, 0.5, (60, 3))
Y = (X[:, 0] > 0).astype(int)
DECLARED = {"data_norm": 1.0, "classes": [0, 1], "target_range": (-1, 1), "random_state": 0}
KINDS = (
    DPLogisticRegression, DPRidge, DPLinearClassifier, DPLinearRegressor, DPLogisticRegressionCV,
    DPRidgeCV, DPMaxGroupLossClassifier, DPMaxGroupLossRegressor, DPAdversarialClassifier,
    DPAdversarialRegressor,
)  # fmt: skip
ONE_PHASE = "came to one phase"


def report_of(kind, **given):
    """The report of a fit; None where the method is refused."""
    known = inspect.signature(kind).parameters
    declared = {name: value for name, value in DECLARED.items() if name in known}
    method = given["method"]
    if getattr(kind._methods.get(method, method), "is_entrywise", False):
        del declared["data_norm"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return kind(**declared, **given).fit(X, Y).privacy_
        except ValueError:
            return None


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_names_the_method(kind):
    found = set()
    for name, row in kind._methods.items():
        for delta, method in ((1e-6, name), (1e-6, type(row)()), (0.0, name)):
            report = (
                None
                if name in found and delta == 0
                else report_of(kind, method=method, delta=delta)
            )
            if report is not None:
                called = name if method == name else type(row).__name__
                assert report.method == called
                found.add(name)
                sizes = report.plan.get("block_sizes", [len(X)])
                says = any(f"{called!r} {ONE_PHASE}" in text for text in report.remarks)
                is_one = (
                    len(sizes) == 1 and "n_steps" not in report.plan
                )  # which is the plain model
                assert says == (name == "phased" and is_one)
    # "objective" needs the log loss
    assert found >= set(kind._methods) - {"objective"}
    automatic = report_of(kind, method="auto")
    assert automatic.method == "gradient"


def test_one_phase_and_several():
    """Of records that are few or many."""
    many = np.tile(X, (130, 1)), np.tile(Y, 130)
    shared = {**DECLARED, "method": "phased", "epsilon": 20.0}
    del shared["classes"]
    counts = []
    for records in ((X[:50], Y[:50]), many):
        report = DPRidge(**shared).fit(*records).privacy_
        counts.append(len(report.plan["block_sizes"]))
        assert (counts[-1] == 1) == any(ONE_PHASE in text for text in report.remarks)
    assert counts[0] == 1 < counts[1]
