"""Fits that end where they would be paid for: all checks of their input, and nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import clone

from skdp._units import take_user_ids
from skdp.preprocessing import BoundedScaler, DPStandardScaler
from skdp.privacy.accounted import AccountedMixin
from skdp.privacy.charges import BudgetExceededError, Rehearsed


class _PublicScaler(BoundedScaler):
    """A private scaler's stand-in: ids of persons decide nothing."""

    def fit(self, X: Any, y: Any = None, *, user_ids: Any = None) -> _PublicScaler:
        """Read the ranges."""
        if isinstance(user_ids, str):
            X, _ = take_user_ids(X, user_ids)
        super().fit(X, y)
        return self


def check_private(model: Any, parts: Sequence[Any]) -> None:
    """Refuse a model without a private part, and a relation that parts of records do not cover."""
    if not any(isinstance(part, AccountedMixin) for part in parts):
        raise ValueError(
            f"No part of {model!r} is a private estimator: what it learned would be published "
            "without noise."
        )
    if any(getattr(part, "neighbouring", None) == "add_remove" for part in parts):
        raise ValueError(
            "neighbouring == 'add_remove': a record more or less moves the others to other folds "
            "or parts. Scores of held-out records are for neighbouring='replace_one'."
        )


def rehearse(
    estimator: Any,
    fits: Iterable[tuple[Any, np.ndarray, dict[str, Any]]],
    budget: Callable[[], contextlib.AbstractContextManager[Any]],
    must_pay: Callable[[Any], Any] = lambda model: False,
) -> None:
    """Fit clones of an estimator inside of a budget that refuses every payment.

    A fit checks its parameters and its input before it pays: errors and warnings come before the
    charge. What comes after a release could tell of it by an error, which nobody would have paid
    for. So what comes after a private scaler is reached by a second clone, in which it scales by
    its public ranges. `budget` makes a context in which a payment raises BudgetExceededError or
    Rehearsed; a clone that `must_pay` has parts that come to one.
    """
    models = [clone(estimator), *_without_private_scalers(estimator)]
    for model in models:  # searches catch errors otherwise
        searches = [name for name in model.get_params() if name.split("__")[-1] == "error_score"]
        model.set_params(**dict.fromkeys(searches, "raise"))
    for X, y, params in fits:
        for model in models:
            try:
                with budget():
                    clone(model).fit(X, y, **params)
            except (BudgetExceededError, Rehearsed):
                continue
            if must_pay(model):
                raise ValueError(f"No private part of {model!r} is fitted in its own thread.")


def _without_private_scalers(estimator: Any) -> Iterator[Any]:
    """Yield a clone whose private scalers scale by their ranges, if there are any."""
    found = estimator.get_params(deep=True).items()
    scalers = {name: part for name, part in found if isinstance(part, DPStandardScaler)}
    if scalers:
        public = {name: _PublicScaler(part.ranges) for name, part in scalers.items()}
        if get_config()["enable_metadata_routing"]:
            for scaler in public.values():
                scaler.set_fit_request(user_ids=False)
        yield clone(estimator).set_params(**public)
