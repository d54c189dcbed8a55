"""Scores and losses of the worst group, for model selection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, log_loss
from sklearn.utils import check_consistent_length

from skdp.robust.group_labels import as_labels


def worst_group_score(
    y_true: Any,
    y_pred: Any,
    groups: Any = None,
    *,
    metric: Callable[..., float] = accuracy_score,
    **options: Any,
) -> float:
    """Return the smallest score of a group; for ``make_scorer`` with metadata routing.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels or targets.
    y_pred : array-like of shape (n_samples,) or (n_samples, n_outputs)
        What `metric` takes.
    groups : array-like of shape (n_samples,)
        Groups of the records. Groups without records are left out.
    metric : callable ``(y_true, y_pred, **options) -> float``, default=accuracy_score
        A score: greater is better. The coefficient of determination does not order groups.
    **options : dict
        For `metric`.

    Returns
    -------
    float
        The smallest score of a group.

    Raises
    ------
    ValueError
        Without groups, or if lengths differ.

    See Also
    --------
    worst_group_loss : For metrics of which smaller values are better.

    Notes
    -----
    Nothing here is private: use records that were not used to fit, or pay for the selection.

    Examples
    --------
    >>> from skdp.robust import worst_group_score
    >>> worst_group_score([0, 1, 1, 0], [0, 1, 1, 1], groups=["a", "a", "b", "b"])
    0.5
    """
    return min(_of_groups(y_true, y_pred, groups, metric, options))


def worst_group_loss(
    y_true: Any,
    y_pred: Any,
    groups: Any = None,
    *,
    metric: Callable[..., float] = log_loss,
    **options: Any,
) -> float:
    """Return the largest loss of a group; for ``make_scorer(..., greater_is_better=False)``.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels or targets.
    y_pred : array-like of shape (n_samples,) or (n_samples, n_outputs)
        What `metric` takes.
    groups : array-like of shape (n_samples,)
        Groups of the records. Groups without records are left out.
    metric : callable ``(y_true, y_pred, **options) -> float``, default=log_loss
        A loss: smaller is better. The log loss needs ``labels`` where a group may lack a class.
    **options : dict
        For `metric`.

    Returns
    -------
    float
        The largest loss of a group.

    Raises
    ------
    ValueError
        Without groups, or if lengths differ.

    See Also
    --------
    worst_group_score : For metrics of which greater values are better.

    Examples
    --------
    >>> from sklearn.metrics import mean_squared_error
    >>> from skdp.robust import worst_group_loss
    >>> groups = ["a", "a", "b", "b"]
    >>> worst_group_loss([0, 1, 2, 3], [0, 1, 2, 5], groups, metric=mean_squared_error)
    2.0
    """
    return max(_of_groups(y_true, y_pred, groups, metric, options))


def _of_groups(
    y_true: Any, y_pred: Any, groups: Any, metric: Callable[..., float], options: dict[str, Any]
) -> list[float]:
    """Return the metric of each group."""
    if groups is None:
        raise ValueError(
            "groups are missing. In a search enable metadata routing and call "
            "set_score_request(groups=True) on the scorer."
        )
    if isinstance(groups, str):
        raise ValueError(
            f"groups == {groups!r} is a name, but a scorer gets no columns: pass the values, as in "
            "fit(X, y, groups=X[name])."
        )
    labels = as_labels("groups", groups)
    check_consistent_length(y_true, y_pred, labels)
    targets, predictions = np.asarray(y_true), np.asarray(y_pred)
    return [
        float(metric(targets[labels == name], predictions[labels == name], **options))
        for name in np.unique(labels)
    ]
