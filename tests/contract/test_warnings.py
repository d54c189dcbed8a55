"""Every warning of a fit comes before the fit is paid for, or says what its report says.

So a filter that turns it into an error stops a fit that has cost nothing, or leaves the fitted
model. A new warning has to be listed in WARNINGS or LATE, and some fit below must give it.
"""

import inspect
import itertools
import math
import re
import warnings
from functools import partial

import numpy as np
import pytest
from every_fit import kinds_of_fits, make, records
from fit_cases import CASES
from recorded_fits import noted_payments
from sklearn.linear_model import LogisticRegression

from skdp.linear_model import DPLogisticRegression, DPRidge
from skdp.methods import OutputPerturbation
from skdp.model_selection import DPLogisticRegressionCV
from skdp.preprocessing import private_ranges
from skdp.privacy import BudgetAccountant
from skdp.robust import DPMaxGroupLossClassifier, DPMaxGroupLossMLPClassifier
from skdp.solvers import SklearnSolver
from skdp.synthetic import DPSyntheticData

#: Of a function that no fit calls.
OF_RANGES = "The quantiles 0.01 and 0.99 are closer to the ends of the records"
#: The beginnings of all warnings that a fit may give.
WARNINGS = (
    OF_RANGES,
    "data_norm was not declared",
    "feature_bound was not declared",
    "target_range was not declared",
    "The class labels were inferred",
    "The groups were inferred",
    "The categories were inferred",
    "The noise in the mean of the",
    "The noise is large",
    "The noise has a length",
    "The noise of a draw of",
    "The noise of draws is large",
    "The solver holds a fitted estimator",
    "tilt == ",
    "delta == ",
)
#: Those that follow from what was released; they are remarks of the report, too.
LATE = ("The noise is of the size of the margins", "The noise hides")
#: Parameters that provoke them; those that an estimator lacks or refuses are left out. As they are,
#: cases have no other late warnings either: test_fits.py.
SITUATIONS = {
    "nothing declared": dict.fromkeys(["data_norm", "target_range", "classes", "group_names"])
    | {"categories": "auto"},
    "mostly noise": {"epsilon": 1e-6},
    "extreme numbers": {"epsilon": 1e-15, "data_norm": 1e-20, "target_range": (-1e30, 1e30),
                        "ranges": (0.0, 1e-307)},
    "a large delta": {"delta": 0.5},
}  # fmt: skip


def in_situation(name, situation):
    """An estimator, or None if it refuses such parameters."""
    known = inspect.signature(type(make(name))).parameters
    estimator = make(name)
    changed = {key: value for key, value in SITUATIONS[situation].items() if key in known}
    if situation == "a large delta" and not estimator.delta > 0:
        return None
    if situation in ("mostly noise", "extreme numbers") and getattr(estimator, "intervals", False):
        return None  # the curvature would be hidden
    if "data_norm" in changed and estimator.data_norm is None:
        del changed["data_norm"]  # it has a bound on the entries
        if situation == "nothing declared":
            changed["method"] = type(CASES[name].row)()
    return make(name, **changed) if changed else None


def fit_noting_payment(fit):
    """Fit; return the warnings that came before the payment, and those that came after it."""
    with noted_payments() as (caught, early):
        fit()
    (n_early,), texts = early, [str(warning.message) for warning in caught]
    return texts[:n_early], texts[n_early:]


def check(fit, state=lambda: None):
    """Check that no warning of `fit(accountant)` costs or changes the `state`; return all."""
    early, late = fit_noting_payment(lambda: fit(None))
    assert all(text.startswith(LATE) for text in late)
    for text in dict.fromkeys(early):
        assert text.startswith(WARNINGS), f"{text!r} is not listed in WARNINGS"
        accountant, before = BudgetAccountant(math.inf, 0.9), state()
        with warnings.catch_warnings(), pytest.raises(UserWarning) as caught:
            warnings.simplefilter("ignore")
            warnings.filterwarnings("error", message=re.escape(text))
            fit(accountant)
        assert str(caught.value) == text
        assert accountant.entries == () and state() == before
    if early:
        accountant = BudgetAccountant(math.inf, 0.9)
        with warnings.catch_warnings(), accountant, pytest.raises(UserWarning):
            warnings.simplefilter("error")
            fit(None)
        assert accountant.entries == ()
    return early


def in_situations():
    """Each fit in one situation, each estimator in all of them."""
    turns = {}
    for name in kinds_of_fits():
        turn = turns.setdefault(CASES[name].estimator, itertools.cycle(SITUATIONS))
        refused = itertools.islice(turn, len(SITUATIONS))
        yield name, next(each for each in refused if in_situation(name, each))


@pytest.mark.mostly("slow", 16)
@pytest.mark.parametrize(("name", "situation"), list(in_situations()))
def test_warnings_come_before_the_payment_or_with_the_model(name, situation):
    estimator = in_situation(name, situation)
    arguments = records(name)[0]

    def fit(accountant):
        parameters = estimator.get_params(deep=False)
        return type(estimator)(**{**parameters, "accountant": accountant}).fit(**arguments)

    check(fit)
    fitted = []
    late = fit_noting_payment(lambda: fitted.append(fit(None)))[1]
    assert set(late) <= told_by(fitted[0])


def told_by(model):
    """What the report says, which is a function of what was released, as warnings."""
    return {f"{remark[0].upper()}{remark[1:]}." for remark in model.privacy_.remarks}


@pytest.mark.parametrize(
    ("kind", "parameters", "n"),
    [
        (DPLogisticRegression, {"classes": [0, 1]}, 500),
        (DPLogisticRegressionCV, {"classes": [0, 1]}, 500),
        (DPRidge, {"epsilon": 0.1}, 2000),
    ],
)
def test_warnings_of_what_was_released(kind, parameters, n):
    """Equal for equal releases; as errors they leave a fitted model, which was paid for."""
    X, y = classification(n)
    y = np.random.default_rng(1).permutation(y)  # rows and targets have nothing in common
    y = y if "classes" in parameters else 0.1 * y
    model, again = (kind(data_norm=1.0, random_state=0, **parameters) for _ in range(2))
    early, late = fit_noting_payment(lambda: model.fit(X, y))
    assert any(each.startswith(LATE) for each in late) and not set(early) & set(late)
    assert set(late) <= told_by(model)
    # of other records that have the same releases: in another order
    assert fit_noting_payment(lambda: again.fit(X[::-1], y[::-1]))[1] == late
    accountant = BudgetAccountant(math.inf, 0.9)
    again = kind(data_norm=1.0, random_state=0, accountant=accountant, **parameters)
    with warnings.catch_warnings(), pytest.raises(UserWarning, match=re.escape(late[0])):
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message=re.escape(late[0]))
        again.fit(X, y)
    assert len(accountant.entries) == 1
    np.testing.assert_array_equal(again.coef_, model.coef_)


def classification(n=60):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (n, 2))
    return X, (X[:, 0] > 0).astype(int)


#: For each warning an estimator, its parameters, and the arguments of fit besides X and y; None for
#: a table of categories.
SINGLE = {
    "data_norm was not declared": (DPRidge, {}, {}),
    "target_range was not declared": (DPRidge, {}, {}),
    "The class labels were inferred": (DPLogisticRegression, {}, {}),
    "The noise has a length": (
        DPRidge, {"method": OutputPerturbation(population=True), "epsilon": 1e-3}, {}
    ),
    "The noise is large": (DPLogisticRegression, {"method": "gradient", "epsilon": 1e-3}, {}),
    "feature_bound was not declared": (DPLogisticRegression, {"method": "mirror_descent"}, {}),
    "The groups were inferred": (DPMaxGroupLossClassifier, {}, {"groups": np.arange(60) % 2}),
    "The solver holds a fitted estimator": (
        DPLogisticRegression, {"method": "output", "solver": SklearnSolver(
            LogisticRegression(fit_intercept=False).fit(
                np.column_stack([classification()[0], np.ones(60)]), classification()[1]
            )
        )}, {},
    ),
    "The categories were inferred": (DPSyntheticData, {}, None),
    "The noise in the mean of the": (
        DPMaxGroupLossMLPClassifier, {"epsilon": 1e-3, "hidden_units": 2, "n_steps": 3}, {}
    ),
    "The noise of a draw of": (DPRidge, {"method": "exponential", "delta": 0.0}, {}),
    "The noise of draws is large": (
        DPLogisticRegression, {"method": "mirror_descent", "epsilon": 1e-2}, {}
    ),
    "tilt == ": (DPLogisticRegression, {"method": OutputPerturbation(tilt=100.0)}, {}),
    "delta == ": (DPLogisticRegression, {"delta": 0.1}, {}),
}  # fmt: skip


def test_every_warning_is_given_by_some_fit():
    assert {*SINGLE, OF_RANGES} == set(WARNINGS)
    X, y = classification()
    for text, (kind, parameters, more) in SINGLE.items():
        estimator = kind(**parameters)
        data = (X, y) if more is not None else ((X > 0).astype(int),)

        def fit(accountant, estimator=estimator, data=data, more=more):
            estimator.set_params(accountant=accountant)
            estimator.fit(*data, **(more or {}))

        def state(estimator=estimator):
            return {key: id(value) for key, value in vars(estimator).items() if key != "accountant"}

        assert any(each.startswith(text) for each in check(fit, state)), text


def test_quantile_ranges_do_not_warn_after_the_payment():
    X = np.random.default_rng(0).normal(size=(50, 2))
    for ranges in ((-1.0, 1.0), (-1e300, 1e300), (0.0, 1e-300)):
        fit = partial(private_ranges, X, ranges, epsilon=60.0, random_state=0)
        (text,) = check(lambda accountant, fit=fit: fit(accountant=accountant))
        assert text.startswith(OF_RANGES) and "are drawn instead" in text
