"""Fits that end where they would be paid for: all checks of their input, and nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import clone

from skdp._units import take_user_ids
from skdp.preprocessing import BoundedScaler, DPStandardScaler
from skdp.privacy.budget_accountant import BudgetAccountant
from skdp.privacy.charges import BudgetExceededError
from skdp.privacy.events import Neighbouring

#: Less than any release costs.
_NOTHING = 5e-324


class _PublicScaler(BoundedScaler):
    """A private scaler's stand-in: ids of persons decide nothing."""

    def fit(self, X: Any, y: Any = None, *, user_ids: Any = None) -> _PublicScaler:
        """Read the ranges."""
        if isinstance(user_ids, str):
            X, _ = take_user_ids(X, user_ids)
        super().fit(X, y)
        return self


def rehearse(
    estimator: Any,
    fits: Iterable[tuple[Any, np.ndarray, dict[str, Any]]],
    neighbouring: Neighbouring | None = None,
) -> None:
    """Fit clones of an estimator inside of a budget that refuses every payment.

    A fit checks its parameters and its input before it pays, in whatever thread or process it runs,
    and nothing is charged anywhere if one ledger refuses. What comes after a private scaler is
    reached by a second clone, in which it scales by its public ranges.

    Parameters
    ----------
    estimator : estimator
        Not changed.
    fits : iterable of tuple (X, y, params)
    neighbouring : Neighbouring or None, default=None
        The relation that all fits must have.

    Raises
    ------
    Exception
        Whatever a fit raises before it pays.
    """
    nothing = BudgetAccountant(_NOTHING, neighbouring=neighbouring)
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
        public = {name: _PublicScaler(part.ranges) for name, part in scalers.items()}
        if get_config()["enable_metadata_routing"]:
            for scaler in public.values():
                scaler.set_fit_request(user_ids=False)
        yield clone(estimator).set_params(**public)
