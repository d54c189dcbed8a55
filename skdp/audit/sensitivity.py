"""Search for neighbours whose exact solutions lie as far apart as possible."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_regressor

from skdp._checks import check_count, check_real
from skdp.audit.outputs import DataSet, fit, released_parameters

#: Least and largest step of the search, in units of the norm of rows.
_STEPS = 0.03, 1.0


@dataclass(frozen=True)
class SensitivitySearch:
    """What a search found.

    Attributes
    ----------
    distance : float
        Largest distance of two solutions that was found: a lower bound on the sensitivity.
    claimed : float or None
        Sensitivity of the first release that the estimator states, if it states any.
    D, D_prime : tuple of ndarray
        The neighbours, ``(X, y)`` each.
    n_fits : int
    """

    distance: float
    claimed: float | None
    D: DataSet
    D_prime: DataSet
    n_fits: int

    @property
    def refutes(self) -> bool:
        """Whether the solutions lie farther apart than the estimator states."""
        return self.claimed is not None and self.distance > self.claimed


def worst_case_sensitivity(
    estimator: Any,
    n: int,
    d: int,
    *,
    solution: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
    output: Callable[[Any], np.ndarray] = released_parameters,
    norm: float = 1.0,
    targets: Any = None,
    n_starts: int = 6,
    n_steps: int = 100,
    random_state: int | None = None,
) -> SensitivitySearch:
    """Search for two data sets that differ in one record and whose solutions lie far apart.

    Climbs from data sets with much in common (all rows in one line, targets at their ends, one
    record turned round) and from random ones, by changes of rows and of targets.

    Parameters
    ----------
    estimator : object or None
        Of this or of another package; None: `solution` alone. Without `solution`, both neighbours
        are fitted with the same `random_state`: where noise is added to a solution, and its scale
        does not depend on the data, it cancels in the difference. Fix what noise decides (the
        penalty, a large ball).
    n, d : int
        Numbers of records and of features.
    solution : callable ``(X, y) -> ndarray``, optional
        The solution without noise, in place of fits.
    output : callable ``fitted -> ndarray``, default=released_parameters
        Vector whose distance is measured.
    norm : float, default=1.0
        Bound on the Euclidean norm of rows.
    targets : array-like, optional
        Values that targets take. Default: ``classes`` of the estimator or 0 and 1, the ends of its
        ``target_range`` for a regressor, or -1 and 1.
    n_starts, n_steps : int, default=6, 100
        Climbs, and steps of each.
    random_state : int, optional
        Seed of the search and of the fits.

    Returns
    -------
    SensitivitySearch
        The largest distance that was found, and its neighbours.

    Raises
    ------
    ValueError
        For invalid sizes.

    Warns
    -----
    UserWarning
        If many released points have the same norm: on the boundary of a ball the noise does not
        cancel.

    Examples
    --------
    >>> from skdp.audit import worst_case_sensitivity
    >>> from skdp.linear_model import DPLogisticRegression
    >>> from skdp.methods import OutputPerturbation
    >>> model = DPLogisticRegression(
    ...     method=OutputPerturbation(alpha=5.0, coef_norm=1e6), data_norm=1.0, classes=[0, 1],
    ...     fit_intercept=False,
    ... )
    >>> search = worst_case_sensitivity(model, n=10, d=1, n_starts=2, n_steps=10, random_state=0)
    >>> bool(0.4 * search.claimed < search.distance <= search.claimed)
    True
    """
    check_count("n", n, 2)
    check_count("d", d)
    check_count("n_starts", n_starts)
    check_count("n_steps", n_steps, 0)
    check_real("norm", norm, 0.0, closed="neither")
    rng = np.random.default_rng(random_state)
    seed = int(rng.integers(2**31))
    values = np.asarray(_targets(estimator) if targets is None else targets)
    first, second = np.arange(n), np.append(np.arange(n - 1), n)
    released: list[np.ndarray] = []

    def solve(X: np.ndarray, y: np.ndarray) -> np.ndarray:
        found = output(fit(estimator, (X, y), seed)) if solution is None else solution(X, y)
        found = np.ravel(np.asarray(found, dtype=float))
        released.append(found)
        return found

    def distance(X: np.ndarray, y: np.ndarray) -> float:
        """Of data sets of all records but the last, and of all but the last but one."""
        return float(np.linalg.norm(solve(X[first], y[first]) - solve(X[second], y[second])))

    best: tuple[float, Any, Any] = (-1.0, None, None)
    for start in range(n_starts):
        X, y = _start(start, n + 1, d, values, rng)
        X *= norm
        largest = distance(X, y)
        for _ in range(n_steps):
            X_new, y_new = _changed(X, y, values, norm, rng)
            found = distance(X_new, y_new)
            if found > largest:
                largest, X, y = found, X_new, y_new
        if largest > best[0]:
            best = largest, X, y
    largest, X, y = best
    n_fits = len(released)
    if solution is None and n_fits >= 50 and _are_cut(np.array(released)):
        warnings.warn(
            "Many released points have the same, largest norm. If they are on the boundary of a "
            "ball, the projection brings them together, and the distance found is too small: raise "
            "coef_norm and epsilon.",
            UserWarning,
            stacklevel=2,
        )
    fitted = None if estimator is None else fit(estimator, (X[first], y[first]), seed)
    releases = getattr(getattr(fitted, "privacy_", None), "releases", ())
    claimed = float(releases[0].sensitivity) if releases else None
    return SensitivitySearch(largest, claimed, (X[first], y[first]), (X[second], y[second]), n_fits)


def _are_cut(released: np.ndarray) -> bool:
    """Return whether a tenth of some points are on one sphere, and not all the same."""
    lengths = np.linalg.norm(released, axis=1)
    largest = released[lengths > (1.0 - 1e-9) * lengths.max()]
    are_different = len(np.unique(largest, axis=0)) > 1 or len(largest) == len(released)
    return are_different and len(largest) > 0.1 * len(released)


def _targets(estimator: Any) -> Any:
    """Return the values of targets at which records pull hardest."""
    if estimator is None or not is_regressor(estimator):
        classes = getattr(estimator, "classes", None)
        return (0, 1) if classes is None else classes
    declared = getattr(estimator, "target_range", None)
    return (-1.0, 1.0) if declared is None else declared


def _start(
    number: int, n: int, d: int, values: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Make rows of norm 1 and targets; the last two are the records that are exchanged."""
    y = values[rng.integers(len(values), size=n)]
    if number % 3 == 2:  # anything
        X = rng.normal(size=(n, d))
        return X / np.linalg.norm(X, axis=1, keepdims=True), y
    X = np.zeros((n, d))
    X[:, 0] = 1.0
    if number % 3 == 0:  # one line, the targets in turn
        y = values[np.arange(n) % len(values)]
    y[-2:] = values[0], values[-1]
    return X, y


def _changed(
    X: np.ndarray, y: np.ndarray, values: np.ndarray, norm: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Change some records: their rows by a random step, their signs, lengths or targets."""
    X, y = X.copy(), y.copy()
    n = len(y)
    exchanged = rng.random() < 0.5
    rows = (
        [n - 1 - int(rng.integers(2))] if exchanged else rng.random(n) < rng.choice([0.1, 0.5, 1])
    )
    kind = rng.integers(4)
    if kind == 0:
        step = math.exp(rng.uniform(*np.log(_STEPS)))
        X[rows] += step * norm * rng.normal(size=X[rows].shape) / math.sqrt(X.shape[1])
    elif kind == 1:
        X[rows] *= -1.0
    elif kind == 2:
        X[rows] *= rng.uniform(0.0, 2.0)
    else:
        y[rows] = values[rng.integers(len(values))]
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return X * np.minimum(1.0, norm / np.maximum(lengths, 1e-300)), y
