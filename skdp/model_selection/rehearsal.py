"""Fits that end where they would be paid for: all checks of their input, and nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from sklearn.base import clone

from skdp.preprocessing import BoundedScaler, DPStandardScaler
from skdp.privacy.budget_accountant import BudgetAccountant
from skdp.privacy.charges import BudgetExceededError

#: Less than any release costs.
_NOTHING = 5e-324


def rehearse(estimator: Any, fits: Iterable[tuple[Any, np.ndarray, dict[str, Any]]]) -> None:
    """Fit clones of an estimator inside of a budget that refuses every payment.

    A fit checks its parameters and its input before it pays, in whatever thread or process it runs,
    and nothing is charged anywhere if one ledger refuses. What comes after a private scaler is
    reached by a second clone, in which it scales by its public ranges.

    Parameters
    ----------
    estimator : estimator
        Not changed.
    fits : iterable of tuple (X, y, params)

    Raises
    ------
    Exception
        Whatever a fit raises before it pays.
    """
    nothing = BudgetAccountant(_NOTHING)
    models = [clone(estimator), *without_private_scalers(estimator)]
    for model in models:  # searches catch errors otherwise
        searches = [name for name in model.get_params() if name.split("__")[-1] == "error_score"]
        model.set_params(**dict.fromkeys(searches, "raise"))
    for X, y, params in fits:
        for model in models:
            with contextlib.suppress(BudgetExceededError), nothing:
                clone(model).fit(X, y, **params)


def without_private_scalers(estimator: Any) -> Iterator[Any]:
    """Yield a clone whose private scalers scale by their ranges, if there are any."""
    found = estimator.get_params(deep=True).items()
    scalers = {name: part for name, part in found if isinstance(part, DPStandardScaler)}
    if scalers:
        public = {name: BoundedScaler(part.ranges) for name, part in scalers.items()}
        yield clone(estimator).set_params(**public)
