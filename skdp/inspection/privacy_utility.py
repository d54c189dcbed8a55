"""A picture of what privacy costs: a score against epsilon."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import KFold, StratifiedKFold, check_cv, cross_validate
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from skdp._checks import check_option, check_real
from skdp.privacy.accounted import AccountedMixin
from skdp.privacy.blocks import active_blocks
from skdp.privacy.budget_accountant import BudgetAccountant
from skdp.privacy.report import PrivacyLeakWarning

#: Of the folds and of the noise, if a number is given for both.
_LARGEST_SEED = 2**31 - 1


class PrivacyUtilityDisplay:
    """A score against epsilon, with its spread over folds and noise.

    :meth:`from_estimator` makes one, and :meth:`plot` draws it again without computing anything.

    **The curve is not private.** Its scores are exact functions of records that were held out. Draw
    it of public or synthetic records of the kind that you expect, or of private ones for the data
    holder's eyes alone.

    Parameters
    ----------
    epsilons : ndarray of shape (n_epsilons,)
        Budgets of the fits.
    scores : ndarray of shape (n_epsilons, n_fits)
        Scores of the fits at each epsilon.
    score_name : str or None, default=None
        Label of the y axis. None: "Score", or "Negative score" with ``negate_score=True``.
    estimator_name : str or None, default=None
        Of the curve, in the legend.
    baseline_scores : ndarray of shape (n_fits,) or None, default=None
        Scores of a model without privacy, drawn as a horizontal line at their mean.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_, fill_between_, errorbar_, baseline_ : matplotlib artists or None
        What was drawn; None for what was not.

    See Also
    --------
    plan_fit : What to expect from public numbers, before there are any data.
    skdp.model_selection.dp_cross_validate : Scores that are private.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.inspection import PrivacyUtilityDisplay
    >>> from skdp.linear_model import DPLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, size=(1000, 2))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = DPLogisticRegression(data_norm=1.0, classes=[0, 1])
    >>> display = PrivacyUtilityDisplay.from_estimator(
    ...     model, X, y, epsilons=[0.1, 1.0, 10.0], random_state=0
    ... )
    >>> display.scores.shape
    (3, 5)
    """

    def __init__(
        self,
        *,
        epsilons: Any,
        scores: Any,
        score_name: str | None = None,
        estimator_name: str | None = None,
        baseline_scores: Any = None,
    ) -> None:
        self.epsilons = epsilons
        self.scores = scores
        self.score_name = score_name
        self.estimator_name = estimator_name
        self.baseline_scores = baseline_scores

    def plot(
        self,
        ax: Any = None,
        *,
        negate_score: bool = False,
        score_name: str | None = None,
        name: str | None = None,
        std_display_style: str | None = "fill_between",
        line_kw: Mapping[str, Any] | None = None,
        fill_between_kw: Mapping[str, Any] | None = None,
        errorbar_kw: Mapping[str, Any] | None = None,
        baseline_kw: Mapping[str, Any] | None = None,
    ) -> PrivacyUtilityDisplay:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None: a new figure.
        negate_score : bool, default=False
            Whether to draw errors in place of the negative ones of scikit-learn.
        score_name : str or None, default=None
            In place of that of the display.
        name : str or None, default=None
            Of the curve, in place of `estimator_name`.
        std_display_style : {"errorbar", "fill_between"} or None, default="fill_between"
            How to draw one standard deviation up and down; None: not at all.
        line_kw, fill_between_kw, errorbar_kw, baseline_kw : dict or None, default=None
            Passed to ``plot``, ``fill_between``, ``errorbar`` and, for the model without privacy,
            ``axhline`` of matplotlib.

        Returns
        -------
        display : PrivacyUtilityDisplay
            This one.
        """
        pyplot = pyplot_of(f"{type(self).__name__}.plot")
        if std_display_style is not None:
            styles = ("errorbar", "fill_between")
            check_option("std_display_style", std_display_style, styles)
        if ax is None:
            _, ax = pyplot.subplots()
        sign = -1.0 if negate_score else 1.0
        scores = sign * np.asarray(self.scores)
        mean, spread = scores.mean(axis=1), scores.std(axis=1)
        label = self.estimator_name if name is None else name
        options: dict[str, Any] = {"label": "private" if label is None else label}
        self.line_: Any = None
        self.fill_between_ = self.errorbar_ = self.baseline_ = None
        if std_display_style == "errorbar":
            options |= {"marker": "o", **(errorbar_kw or {})}
            self.errorbar_ = ax.errorbar(self.epsilons, mean, spread, **options)
        else:
            options |= {"marker": "o", **(line_kw or {})}
            (self.line_,) = ax.plot(self.epsilons, mean, **options)
        if std_display_style == "fill_between":
            options = {"alpha": 0.3, "color": self.line_.get_color(), **(fill_between_kw or {})}
            self.fill_between_ = ax.fill_between(
                self.epsilons, mean - spread, mean + spread, **options
            )
        if self.baseline_scores is not None:
            level = sign * float(np.mean(self.baseline_scores))
            options = {"linestyle": "--", "color": "0.4", "label": "without privacy"}
            self.baseline_ = ax.axhline(level, **{**options, **(baseline_kw or {})})
        ax.set_xscale("log")
        ax.set_xlabel("epsilon")
        fallback = "Negative score" if negate_score else "Score"
        ax.set_ylabel(score_name or self.score_name or fallback)
        ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        epsilons: Sequence[float] = (0.1, 0.3, 1.0, 3.0, 10.0),
        scoring: Any = None,
        cv: Any = 5,
        params: Mapping[str, Any] | None = None,
        param_name: str | None = None,
        baseline: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        ax: Any = None,
        negate_score: bool = False,
        score_name: str | None = None,
        name: str | None = None,
        std_display_style: str | None = "fill_between",
        line_kw: Mapping[str, Any] | None = None,
        fill_between_kw: Mapping[str, Any] | None = None,
        errorbar_kw: Mapping[str, Any] | None = None,
        baseline_kw: Mapping[str, Any] | None = None,
    ) -> PrivacyUtilityDisplay:
        """Fit at each epsilon on each fold, score on the rest, and draw.

        The scores, and the baseline, are not private: see the class. Fits are charged to open
        accountants like any others; scores cannot be, and then a
        :class:`~skdp.PrivacyLeakWarning` says so.

        Parameters
        ----------
        estimator : estimator
            A private estimator of this package, or a pipeline or meta-estimator around one.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        epsilons : sequence of float, default=(0.1, 0.3, 1.0, 3.0, 10.0)
            Values > 0 of the estimator's budget.
        scoring : str, callable or None, default=None
            A scorer of scikit-learn. None: ``score`` of the estimator.
        cv : int, splitter or iterable, default=5
            A number of shuffled folds, stratified for classifiers, or anything that scikit-learn
            takes. Repeated splits such as ``RepeatedKFold`` and ``ShuffleSplit`` show the spread of
            the noise better.
        params : dict or None, default=None
            Passed to ``fit`` of all private models, such as groups; arrays with one entry per
            record are split like X.
        param_name : str or None, default=None
            The parameter that epsilon is, such as ``"dplogisticregression__epsilon"``. None: the
            only one of this name.
        baseline : estimator or None, default=None
            A model without privacy, fitted on the same folds.
        n_jobs : int or None, default=None
            Number of parallel fits, by joblib.
        random_state : int, RandomState or None, default=None
            Of the folds, and of the noise: each fit gets a seed of its own. None: the estimator's
            own `random_state` counts; an integer there gives all fits the same noise, which makes
            the spread too small.
        ax, negate_score, score_name, name, std_display_style, line_kw, fill_between_kw, \
                errorbar_kw, baseline_kw
            See :meth:`plot`.

        Returns
        -------
        display : PrivacyUtilityDisplay

        Raises
        ------
        ValueError
            For invalid parameters, and for an estimator without a private part.
        BudgetExceededError
            If an accountant refuses a fit. What came before has been paid for.
        ImportError
            Without matplotlib; nothing has then been fitted.
        """
        pyplot_of(f"{cls.__name__}.from_estimator")
        for epsilon in epsilons:
            check_real("an entry of epsilons", epsilon, 1e-20, 1e20)
        if not len(epsilons):
            raise ValueError("epsilons must hold at least one number.")
        _warn_of_scores(estimator)
        parameter = _parameter(estimator, param_name)
        # repeated fits on the same folds differ in their noise alone
        rng = check_random_state(random_state)
        folds = _folds(estimator, X, y, cv, rng)
        seeded = [] if random_state is None else _parts(estimator)
        models = []
        for epsilon in epsilons:
            for _ in folds:
                values = {f"{at}random_state": int(rng.randint(_LARGEST_SEED)) for at in seeded}
                models.append(clone(estimator).set_params(**values, **{parameter: epsilon}))
        run = Parallel(n_jobs=n_jobs)
        fits = zip(models, folds * len(epsilons), strict=True)
        found = run(delayed(_score)(model, X, y, fold, scoring, params) for model, fold in fits)
        without = None
        if baseline is not None:
            tasks = (delayed(_score)(clone(baseline), X, y, each, scoring, None) for each in folds)
            without = np.array(run(tasks))
        display = cls(
            epsilons=np.array(epsilons, dtype=np.float64),
            scores=np.reshape(found, (len(epsilons), len(folds))),
            score_name=_score_name(scoring, negate_score) if score_name is None else score_name,
            estimator_name=type(estimator).__name__ if name is None else name,
            baseline_scores=without,
        )
        return display.plot(
            ax,
            negate_score=negate_score,
            std_display_style=std_display_style,
            line_kw=line_kw,
            fill_between_kw=fill_between_kw,
            errorbar_kw=errorbar_kw,
            baseline_kw=baseline_kw,
        )


def pyplot_of(caller: str) -> Any:
    """Import matplotlib, which is optional."""
    try:
        import matplotlib.pyplot as pyplot
    except ImportError as error:
        raise ImportError(
            f"{caller} requires matplotlib. You can install matplotlib with "
            "`pip install matplotlib`."
        ) from error
    return pyplot


def _parts(estimator: Any) -> dict[str, Any]:
    """Return the private parts of an estimator by the prefix of their parameters."""
    deep = {"": estimator, **estimator.get_params(deep=True)}
    private = {name: part for name, part in deep.items() if isinstance(part, AccountedMixin)}
    return {name and f"{name}__": part for name, part in private.items()}


def _parameter(estimator: Any, param_name: str | None) -> str:
    """Return the name of the parameter that is epsilon."""
    parts = _parts(estimator)
    if not parts:
        raise ValueError(f"No part of {estimator!r} is a private estimator of this package.")
    if param_name is not None:
        if param_name not in estimator.get_params(deep=True):
            raise ValueError(f"param_name == {param_name!r} is no parameter of {estimator!r}.")
        return param_name
    names = [f"{prefix}epsilon" for prefix in parts]
    if len(names) > 1:
        raise ValueError(f"Several parts are private: param_name must be one of {names}.")
    return names[0]


def _warn_of_scores(estimator: Any) -> None:
    """Warn that scores are not charged, if somebody keeps accounts."""
    deep = estimator.get_params(deep=True).values()
    if active_blocks(()) or any(isinstance(part, BudgetAccountant) for part in deep):
        warnings.warn(
            "The accountant is charged for the fits alone: the scores of a PrivacyUtilityDisplay "
            "are computed from records without privacy. Publish them only if the records are "
            "public; skdp.model_selection.dp_cross_validate has private ones.",
            PrivacyLeakWarning,
            stacklevel=3,
        )


def _folds(estimator: Any, X: Any, y: Any, cv: Any, rng: np.random.RandomState) -> list[Any]:
    """Split the records, whose values folds may depend on: scores are not private anyway."""
    if isinstance(cv, numbers.Integral):
        kind = StratifiedKFold if is_classifier(estimator) else KFold
        cv = kind(cv, shuffle=True, random_state=rng.randint(_LARGEST_SEED))
    return list(check_cv(cv, y, classifier=is_classifier(estimator)).split(X, y))


def _score(model: Any, X: Any, y: Any, fold: Any, scoring: Any, params: Any) -> float:
    """Fit on one part of a fold and score on the other."""
    found = cross_validate(
        model, X, y, cv=[fold], scoring=scoring, params=params, error_score="raise"
    )
    return float(found["test_score"][0])


def _score_name(scoring: Any, negate_score: bool) -> str | None:
    """Name a scorer as the displays of scikit-learn do."""
    if scoring is None:
        return None
    name = scoring if isinstance(scoring, str) else getattr(scoring, "__name__", str(scoring))
    if name.startswith("neg_"):
        name = name.removeprefix("neg_") if negate_score else f"negative_{name[4:]}"
    return name.replace("_", " ").capitalize()
