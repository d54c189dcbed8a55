"""Cross-validation whose scores are private."""

from __future__ import annotations

import contextlib
import math
import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from skdp._checks import InvalidTypeError, check_count, check_lengths, shown
from skdp._estimator import check_random_state, randomness
from skdp._records import take_rows
from skdp._runtime import without_warnings
from skdp._units import Persons, take_user_ids
from skdp.algorithms.plan import Run
from skdp.mechanisms import NoiseSource, random_order
from skdp.model_selection.rehearsal import check_private, rehearse
from skdp.model_selection.scoring import RecordScores, resolve_scoring
from skdp.privacy.accounted import AccountedMixin
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.budget_accountant import BudgetAccountant, check_accountant, spend
from skdp.privacy.overlap import OverlappingParts
from skdp.privacy.pipeline_steps import checked


def dp_cross_validate(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    scoring: str | RecordScores | None = None,
    score_range: tuple[float, float] | None = None,
    score_groups: Any = None,
    group_names: Any = None,
    epsilon: float = 0.1,
    delta: float = 0.0,
    accountant: BudgetAccountant | None = None,
    params: Mapping[str, Any] | None = None,
    user_ids: Any = None,
    return_estimator: bool = False,
    random_state: Any = None,
) -> dict[str, Any]:
    """Fit and score on folds; models and scores are private, and so is all of it together.

    As :func:`~sklearn.model_selection.cross_validate`, but the score of a fold is released with
    noise (proofs: docs/theory/scores.md). A record is in the training sets of all folds but one,
    and in the test set of this one: the whole costs ``n_folds - 1`` fits and one score, which is
    what accountants are charged. Everything is checked before, by fits that end where they would
    be paid for.

    Parameters
    ----------
    estimator : estimator
        A private estimator, or a pipeline or meta-estimator around one. Everything that its fit
        does with records must be private: see docs/guide/preprocessing.md.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
        Labels or targets.
    cv : int, splitter or iterable, default=5
        Number of folds, drawn in a secret random order. Or a splitter or pairs of indices
        (train, test) by position, which must not depend on the records as in a sorted table.
    scoring : {"accuracy", "neg_log_loss", "neg_brier_score", "neg_mean_absolute_error", \
            "neg_mean_squared_error", "balanced_accuracy", "balanced_neg_log_loss", "f1", \
            "f1_macro", "precision", "precision_macro", "recall", "roc_auc"} or callable, \
            default=None
        As in scikit-learn; of two classes the last one in sorted order is the positive one.
        "balanced_neg_log_loss" is the mean over the classes of their mean log losses. Or a callable
        ``(estimator, X, y) -> array`` with one score per row of X, which may depend on that row
        alone. None: accuracy of a classifier, negative squared error of a regressor.
    score_range : tuple of two floats or None, default=None
        Public range of the score of a record, which log losses and callables need, such as (-5, 0);
        scores are clipped to it. None: that of the score, for errors by `target_range`.
    score_groups : array-like of shape (n_samples,) or None, default=None
        Groups of the records. The mean score of each group is released, for the price of one, and
        the score of a fold is that of its worst group. For scores of single records.
    group_names : array-like or None, default=None
        Public names of the groups. None: `group_names` of the estimator, or else those in
        `score_groups`, with a :class:`PrivacyLeakWarning`.
    epsilon, delta : float, default=0.1, 0.0
        Budget of the score of one fold; the fits have their own.
    accountant : BudgetAccountant or None, default=None
        Is charged for everything, besides those of the estimator and of the open ``with`` blocks.
    params : dict or None, default=None
        Passed to ``fit``. Arrays with one entry per record, such as groups, are split like X.
    user_ids : array-like of shape (n_samples,), str or None, default=None
        Whose record each is: integers or strings, or the name of a column of a data frame X, which
        is then left out. Folds, and their number `cv`, are of persons, in whose scores weights add
        up to 1, and all private parts of the estimator get the ids.
    return_estimator : bool, default=False
        Whether to return the fitted estimators.
    random_state : int, RandomState, Generator or None, default=None
        Of the folds and of the noise in the scores. None: secure generators; a seed is for tests.

    Returns
    -------
    dict
        "test_score" and "score_noise", the standard deviation of the noise in it (for ratios to
        first order), are arrays of shape (n_folds,). With `score_groups` "group_score" and
        "group_noise" have the shape (n_folds, n_groups), in sorted order of the names. "event" is
        what all of it cost, for :func:`skdp.privacy.tightest_epsilon`; "estimator" lists the fitted
        estimators, if asked for.

    Raises
    ------
    ValueError
        For what is invalid or not private, before anything is paid for; add/remove neighbours are.
    BudgetExceededError
        If an accountant refuses a fit or a score. What came before has been paid for.

    Examples
    --------
    >>> import numpy as np
    >>> import skdp
    >>> from skdp.model_selection import dp_cross_validate
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, size=(20000, 2))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = skdp.DPLogisticRegression(epsilon=0.5, data_norm=1.0, classes=[0, 1])
    >>> with skdp.BudgetAccountant(epsilon=3.0, delta=1e-5) as accountant:
    ...     found = dp_cross_validate(model, X, y, cv=5, epsilon=0.1)
    >>> bool(found["test_score"].mean() > 0.9)
    True
    >>> bool(accountant.total().epsilon < 4 * 0.5 + 0.1)
    True
    """
    budget = PrivacyBudget(epsilon, delta)
    check_accountant(accountant)
    check_random_state(random_state)
    if not isinstance(params, Mapping | None):
        raise InvalidTypeError(f"params must be None or a dict, got {shown(params)}.")
    parts = [estimator, *estimator.get_params(deep=True).values()]
    check_private(estimator, parts)
    if user_ids is None and any(name.rsplit("__", 1)[-1] == "user_ids" for name in params or ()):
        raise ValueError("Pass user_ids= of dp_cross_validate, not params: folds are of persons.")
    X, user_ids = take_user_ids(X, user_ids)
    check_lengths(X, y)
    y = np.asarray(y)
    persons = None if user_ids is None else Persons(user_ids, len(y))
    n_units = len(y) if persons is None else persons.number
    if persons is not None:
        if not isinstance(cv, numbers.Integral):
            raise ValueError("cv must be a number with user_ids: folds are of persons.")
        params = {**with_ids(estimator, persons.ids), **(params or {})}
    scoring_ = resolve_scoring(parts, y, scoring, score_range, score_groups, group_names)
    rng, noise = randomness(random_state)
    folds = _folds(cv, n_units, noise)
    overlap = OverlappingParts(_members(folds, n_units))
    plans = [scoring_.plan(len(test), budget, persons) for _, test in folds]
    if persons is not None:
        folds = [(persons.rows_of(train), persons.rows_of(test)) for train, test in folds]
    events = [plan.event for plan in plans]  # their noise may be out of range
    # keeps what all of it cost, also that of fits in other processes
    recorder = BudgetAccountant(math.inf)
    accountants = [
        part for part in (recorder, accountant, *parts) if isinstance(part, BudgetAccountant)
    ]

    def fit_on(rows: np.ndarray) -> tuple[Any, np.ndarray, dict[str, Any]]:
        return take_rows(X, rows), y[rows], split_params(params, rows, len(y))

    released, models = [], []
    with contextlib.ExitStack() as stack:
        stack.enter_context(checked(estimator))
        parts_of_records = (np.arange(len(y)), *(train for train, _ in folds))
        # less than any release costs: refuses every payment, in whatever process
        nothing = BudgetAccountant(5e-324, neighbouring=plans[0].neighbouring)
        rehearse(estimator, (fit_on(rows) for rows in parts_of_records), lambda: nothing)
        for each in accountants:
            stack.enter_context(each)
        stack.enter_context(without_warnings())  # they came with the rehearsals
        for number, (train, test) in enumerate(folds):
            with overlap.part(2 * number):
                X_train, y_train, options = fit_on(train)
                model = clone(estimator).fit(X_train, y_train, **options)
            plan = plans[number]
            with overlap.part(2 * number + 1):
                spend(events[number], label=f"score of fold {number + 1}")
            data = scoring_.data(model, take_rows(X, test), y[test], test, persons)
            point = plan.run(data, Run("auto", rng, noise)).point
            released.append(scoring_.released(plan, point))
            models.append(model)
    found = {name: np.array([each[name] for each in released]) for name in released[0]}
    return {**found, "event": recorder.event, **({"estimator": models} if return_estimator else {})}


def with_ids(estimator: Any, ids: np.ndarray) -> dict[str, np.ndarray]:
    """Return the parameters of ``fit`` that give ids of persons to all private parts."""
    if not isinstance(estimator, Pipeline) or get_config()["enable_metadata_routing"]:
        return {"user_ids": ids}
    steps = estimator.steps
    return {f"{name}__user_ids": ids for name, step in steps if isinstance(step, AccountedMixin)}


def _folds(cv: Any, n: int, noise: NoiseSource) -> list[tuple[np.ndarray, np.ndarray]]:
    """Split positions, without a look at the records."""
    if isinstance(cv, numbers.Integral):
        check_count("cv", cv, 2, n)
        order = random_order(n, noise)
        cuts = np.array_split(order, cv)
        # in the drawn order, so that neighbouring tables differ in one place of each fold
        cv = [(np.concatenate(cuts[:k] + cuts[k + 1 :]), cuts[k]) for k in range(cv)]
    if hasattr(cv, "split"):
        try:
            cv = list(cv.split(np.zeros((n, 1))))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"cv={cv!r} must split by position alone, such as KFold(shuffle=True): folds that "
                "depend on targets or groups leave no record where it was when another changes."
            ) from error
    folds = [(np.asarray(train), np.asarray(test)) for train, test in cv]
    for indices in (each for fold in folds for each in fold):
        is_valid = indices.ndim == 1 and indices.size and indices.dtype.kind in "iu"
        if not is_valid or not (indices.min() >= 0 and indices.max() < n):
            raise ValueError("cv must yield pairs of arrays of positions.")
        if len(np.unique(indices)) != len(indices):
            raise ValueError("cv lists a record twice in one fold: it would count twice.")
    if not folds:
        raise ValueError("cv must yield at least one fold.")
    return folds


def _members(folds: list[tuple[np.ndarray, np.ndarray]], n: int) -> np.ndarray:
    """Which records are in which training and test sets, alternately."""
    members = np.zeros((n, 2 * len(folds)), dtype=bool)
    for number, indices in enumerate(each for fold in folds for each in fold):
        members[indices, number] = True
    return members


def split_params(params: Mapping[str, Any] | None, rows: np.ndarray, n: int) -> dict[str, Any]:
    """Take the rows of parameters that have one entry per record."""
    split = {}
    for name, value in (params or {}).items():
        is_per_record = not isinstance(value, str) and np.ndim(value) > 0 and len(value) == n
        split[name] = take_rows(value, rows) if is_per_record else value
    return split
