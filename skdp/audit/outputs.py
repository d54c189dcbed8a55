"""What an attack sees of a fit."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone

#: Data sets: X, y and, if there are any, the other arguments of fit.
DataSet = tuple[Any, ...]


def released_parameters(fitted: Any) -> np.ndarray:
    """Return ``coef_`` and ``intercept_`` of a fitted model as one vector.

    Parameters
    ----------
    fitted : object
        With the attribute ``coef_``, or with a ``model_`` that has one, as in :mod:`skdp.tabular`.
        Without ``intercept_``, or with one of 0, that is left out.

    Returns
    -------
    ndarray of shape (n_parameters,)
        Coefficients and intercepts.

    Raises
    ------
    AttributeError
        Without ``coef_``: other models need a function of their own.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from skdp.audit import released_parameters
    >>> X = np.arange(6.0).reshape(3, 2) ** 2
    >>> released_parameters(LinearRegression(fit_intercept=False).fit(X, X @ [1.0, 2.0])).round(6)
    array([1., 2.])
    """
    if not hasattr(fitted, "coef_") and hasattr(fitted, "model_"):
        return released_parameters(fitted.model_)
    if not hasattr(fitted, "coef_"):
        raise AttributeError(
            f"{type(fitted).__name__} has no coef_: pass output=, a function of the fitted model "
            "that returns what was released as a vector."
        )
    parts = [np.ravel(np.asarray(fitted.coef_, dtype=float))]
    if getattr(fitted, "fit_intercept", True) and hasattr(fitted, "intercept_"):
        parts.append(np.ravel(np.asarray(fitted.intercept_, dtype=float)))
    return np.concatenate(parts)


def fit(estimator: Any, data: DataSet, seed: int | None) -> Any:
    """Fit a copy of an estimator without warnings; `seed` replaces its `random_state`."""
    X, y, *more = data
    copied = clone(estimator)
    if "random_state" in copied.get_params():
        copied.set_params(random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return copied.fit(X, y, **(more[0] if more else {}))


def check_data(name: str, data: Any) -> DataSet:
    """Refuse what is not ``(X, y)`` or ``(X, y, fit_params)``."""
    if not isinstance(data, tuple) or len(data) not in (2, 3):
        raise ValueError(f"{name} must be a tuple (X, y) or (X, y, fit_params).")
    if len(data) == 3 and not isinstance(data[2], dict):
        raise ValueError(f"the third part of {name} must be a dict of arguments of fit.")
    return data
