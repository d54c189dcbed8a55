"""Ranges of features that are found privately, within wider ones that are known."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from skdp._checks import check_pair
from skdp._estimator import randomness
from skdp._runtime import without_warnings
from skdp._units import take_user_ids
from skdp.algorithms.plan import Run
from skdp.algorithms.statistics.columns import are_of_persons
from skdp.algorithms.statistics.quantiles import QuantilesPlan
from skdp.preprocessing.bounded_scaler import BoundedScaler
from skdp.preprocessing.columns_of_sources import unit_columns
from skdp.preprocessing.ranges import check_ranges, middle_and_half
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.budget_accountant import BudgetAccountant, check_accountant, spend
from skdp.privacy.events import Neighbouring

_ALARM = (
    "The quantiles {low:g} and {high:g} are closer to the ends of the records than the draws are "
    "exact: {rank:.0f} of {size} {units}, for {width} columns and epsilon == {epsilon:g}. {remedy} "
    "Use more records, fewer columns, a larger epsilon or public ranges."
)
_INNER = "The quantiles {:.3g} and {:.3g} are drawn instead, and the ranges widened."
_OUTER = "The outer ranges are returned, and nothing is charged."


def private_ranges(
    X: Any,
    outer_ranges: Any,
    *,
    user_ids: Any = None,
    quantiles: tuple[float, float] = (0.01, 0.99),
    epsilon: float = 1.0,
    delta: float = 1e-6,
    n_candidates: int = 1001,
    accountant: BudgetAccountant | None = None,
    random_state: Any = None,
) -> np.ndarray:
    """Find the range of each feature privately, as a pair of quantiles.

    The result may be used as the `ranges` of the scalers of this package. It costs
    (epsilon, delta), for replace-one neighbours, whatever the number of features.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features), RecordSource or Dask collection
        The records.
    outer_ranges : pair of float, array-like of shape (n_features, 2) or dict
        Public ranges that are surely wide enough, as for :class:`BoundedScaler`. Values outside are
        clipped to them.
    user_ids : array-like of shape (n_samples,), str or None, default=None
        Whose record each is: integers or strings, or the name of a column of a data frame X, which
        is then left out. Each person counts once, and the guarantee is for a person with all its
        records.
    quantiles : tuple of two floats, default=(0.01, 0.99)
        What the ends of a range are to be: 0 <= low < high <= 1.
    epsilon, delta : float, default=1.0, 1e-6
        Budget of all ranges together.
    n_candidates : int, default=1001
        Number of values that an end may have, evenly spaced in the outer range.
    accountant : BudgetAccountant or None, default=None
        Is charged before a record is read, besides those of the open ``with`` blocks.
    random_state : int, RandomState, Generator or None, default=None
        None: the system's secure generator. A seed is for tests.

    Returns
    -------
    ndarray of shape (n_features, 2)
        Low and high end of each feature, low < high, within the outer range.

    Warns
    -----
    UserWarning
        If a quantile lies closer to the end of the sorted records than the draws are exact, before
        anything is paid for. The outermost one that does not is drawn, and the range widened as a
        normal law's would be. If even quartiles are too close, the outer ranges are returned, and
        nothing is read or charged.

    Raises
    ------
    ValueError
        For invalid parameters or input, before anything is computed.
    BudgetExceededError
        If the budget of an accountant would be exceeded; no record has then been read.

    Notes
    -----
    Each end is a draw by the exponential mechanism over the candidates, by their distance in ranks
    from the quantile (Smith 2011, Algorithm 2). All ends are within ``2 log(20 n_candidates
    n_draws) / e`` ranks with probability 95 %, e the share of one draw: many features need many
    records. All decisions but the draws follow from the sizes and the budget.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.preprocessing import private_ranges
    >>> X = np.random.default_rng(0).normal([20, 60], [2, 10], size=(10000, 2))
    >>> private_ranges(X, [(0, 100), (0, 1000)], random_state=0).round(0)
    array([[15., 25.],
           [37., 83.]])
    """
    budget = PrivacyBudget(epsilon, delta)
    check_accountant(accountant)
    low, high = check_pair("quantiles", quantiles, 0.0, 1.0)
    check_ranges(outer_ranges)
    table = BoundedScaler(outer_ranges)
    X, user_ids = take_user_ids(X, user_ids)
    rng, noise = randomness(random_state)
    with unit_columns(table, X, user_ids, "private_ranges") as (columns, shape):
        ranges, of_persons = table.ranges_, are_of_persons(columns)
        plan = QuantilesPlan(
            n_records=shape[0],
            n_features=shape[1],
            quantiles=(low, high),
            budget=budget,
            n_candidates=n_candidates,
            neighbouring=Neighbouring.REPLACE_USER if of_persons else Neighbouring.REPLACE_ONE,
        )
        rank, size = plan.rank_error, plan.n_records
        is_close = rank > size * low, rank > size * (1.0 - high)
        drawn = (rank / size if is_close[0] else low), (1.0 - rank / size if is_close[1] else high)
        if any(is_close):
            found = drawn[0] <= 0.25 and drawn[1] >= 0.75
            warnings.warn(
                _ALARM.format(
                    low=low,
                    high=high,
                    rank=rank,
                    size=size,
                    units="persons" if of_persons else "records",
                    width=shape[1],
                    epsilon=float(epsilon),
                    remedy=_INNER.format(*drawn) if found else _OUTER,
                ),
                UserWarning,
                stacklevel=2,
            )
            if not found:
                return ranges
        plan = replace(plan, quantiles=drawn)
        spend(plan.event, accountant, label="private_ranges")
        with without_warnings():  # the ranges are paid for
            ends = plan.run(columns, Run("auto", rng, noise)).point
            ends.sort(axis=1)
            step = 2.0 / (n_candidates - 1)
            narrow = ends[:, 1] - ends[:, 0] < 0.5 * step  # the same candidate twice
            ends[narrow] = np.clip(ends[narrow] + step * np.array([-1.0, 1.0]), -1.0, 1.0)
            if any(is_close):
                ends = np.clip(_widened(ends, drawn, (low, high)), -1.0, 1.0)
            middle, half = middle_and_half(*ranges.T)
            return np.asarray(middle[:, None] + half[:, None] * ends)


def _widened(
    ends: np.ndarray, drawn: tuple[float, float], wanted: tuple[float, float]
) -> np.ndarray:
    """Return the quantiles `wanted` of normal laws whose quantiles `drawn` are some ends."""
    positions, targets = ndtri(drawn), ndtri(wanted)
    widths = np.diff(ends) / np.diff(positions)
    return np.asarray(ends + widths * (targets - positions))
