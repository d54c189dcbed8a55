"""Private selection among candidates: the best of a secret, random number of private fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.base import MetaEstimatorMixin, clone, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skdp._checks import check_count, check_lengths, check_positive, check_real
from skdp._estimator import (
    PrivateEstimator,
    check_random_state,
    plain_labels,
    randomness,
    staged,
)
from skdp._records import refuse_without_values, take_rows
from skdp._runtime import without_warnings
from skdp._units import Persons, take_user_ids
from skdp.algorithms.plan import Run
from skdp.algorithms.statistics.noisy_score import ScorePlan
from skdp.mechanisms import random_order
from skdp.model_selection.cross_validation import split_params, with_ids
from skdp.model_selection.rehearsal import check_private, rehearse
from skdp.model_selection.scoring import Scoring, resolve_scoring
from skdp.privacy.accounted import AccountedMixin
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.budget_accountant import check_accountant
from skdp.privacy.charges import Prepaid
from skdp.privacy.events import whole_event
from skdp.privacy.gaussian_dp import gaussian_budget, gaussian_mu
from skdp.privacy.pipeline_steps import checked
from skdp.privacy.selection import DrawsLaw, selection_draw_epsilon, selection_mu

#: Parameters of private parts that belong to the search.
_OWN = frozenset({"epsilon", "delta", "accountant", "random_state", "neighbouring"})
#: What would tell how many draws there were, or make them share a release, and what it is set to.
_QUIET = {"verbose": False, "memory": None}
#: What fits each of its parts once.
_ONCE = (Pipeline, FeatureUnion, ColumnTransformer)


def _has(method: str) -> Any:
    def check(search: DPSearchCV) -> bool:
        getattr(getattr(search, "best_estimator_", search.estimator), method)
        return True

    return available_if(check)


class DPSearchCV(MetaEstimatorMixin, PrivateEstimator):
    """Choose among candidates by private scores on held-out records, and keep the best model.

    A secret, random number of times a candidate is drawn, fitted on one part of the records, and
    scored with noise on the other one. The model with the best noisy score is the result; it is not
    fitted again. All of it costs little more than one fit and its score: at ``epsilon=1`` and with
    ten draws expected, each may have about half of the mu of a single fit.

    :class:`~skdp.DPRidgeCV` and :class:`~skdp.DPLogisticRegressionCV` tune penalties for less. This
    class chooses among anything: features, methods, losses, preprocessing.

    Parameters
    ----------
    estimator : estimator
        A private estimator of this package, or a pipeline around some. The search sets their
        `epsilon`, `delta` and `random_state`; where a pipeline has several private parts, their
        `epsilon` say in which proportion they share. It switches `verbose` and `memory` off.
    param_distributions : dict or list of dicts
        As in :class:`~sklearn.model_selection.RandomizedSearchCV`: names of parameters, and lists
        or distributions. Without distributions all combinations are candidates.
    epsilon, delta : float, default=1.0, 1e-6
        Budget of the whole search. ``delta=0``: all parts must be purely private.
    n_draws : float, default=10
        Expected number of draws, above 1 and at most 500.
    draws : {"poisson", "geometric", "logarithmic"}, default="poisson"
        Law of the number of draws. "poisson" is close to its mean, and the dearest. With
        ``n_draws=10`` the others end after one draw with probability 10 % and 27 %, and leave more
        of the budget to each: with ``delta=0`` "geometric" is mostly better.
    n_candidates : int, default=20
        How many candidates are sampled if there are distributions.
    test_size : float, default=0.25
        Part of the records that is held out for the scores, in (0, 1).
    scoring : str or callable, default=None
        As in :func:`dp_cross_validate`; held-out records are scored.
    score_range : tuple of two floats, default=None
        As in :func:`dp_cross_validate`.
    accountant : BudgetAccountant or None, default=None
        Is charged for the search, besides those of open ``with`` blocks.
    random_state : int, RandomState, Generator or None, default=None
        None: secure generators for noise, order and the number of draws. A seed is for tests.

    Attributes
    ----------
    best_estimator_ : estimator
        Its own report tells the share of one draw. The price of publishing it is `privacy_`.
    best_params_ : dict
    best_score_ : float
        With its noise. It is the best of several, and hence too good on average.
    score_noise_ : float
        Standard deviation of the noise in a score.
    candidates_ : list of dict
    privacy_ : PrivacyReport

    Notes
    -----
    The number of draws must stay secret, and so must the time of `fit`, which tells it. Proof:
    ``docs/theory/accounting.md``, section 11.

    References
    ----------
    J. Liu, K. Talwar, "Private selection from private candidates", STOC 2019.
    N. Papernot, T. Steinke, "Hyperparameter tuning with Renyi differential privacy", ICLR 2022.

    Examples
    --------
    >>> import numpy as np
    >>> import skdp
    >>> from skdp.model_selection import DPSearchCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, size=(20000, 2))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = skdp.DPLogisticRegression(data_norm=1.0, classes=[0, 1])
    >>> search = DPSearchCV(model, {"method": ["gradient", "output"]}, epsilon=1.0)
    >>> bool(search.fit(X, y).score(X, y) > 0.9)
    True
    """

    #: Metadata of candidates.
    __metadata_request__fit: ClassVar = {"sample_weight": None, "groups": None}

    def __init__(
        self,
        estimator: Any,
        param_distributions: Any,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        n_draws: float = 10,
        draws: str = "poisson",
        n_candidates: int = 20,
        test_size: float = 0.25,
        scoring: Any = None,
        score_range: tuple[float, float] | None = None,
        accountant: Any = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.epsilon = epsilon
        self.delta = delta
        self.n_draws = n_draws
        self.draws = draws
        self.n_candidates = n_candidates
        self.test_size = test_size
        self.scoring = scoring
        self.score_range = score_range
        self.accountant = accountant
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, user_ids: Any = None, **params: Any) -> DPSearchCV:
        """Draw, fit and score candidates, and keep the best.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        user_ids : array-like of shape (n_samples,), str or None, default=None
            Whose record each is: integers or strings, or the name of a column of a data frame X,
            which is then left out, here and in `predict`. Persons are held out.
        **params
            Passed to the ``fit`` of candidates. Arrays with one entry per record are split like X.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            For invalid parameters, also those of any candidate, and for a candidate whose releases
            are neither Gaussian nor pure. Nothing has been paid for then.
        BudgetExceededError
            If an accountant refuses the search.
        """
        with staged(self) as fitted, _global_generator():
            fitted._fit(X, y, user_ids, params)
        return self

    def _fit(self, X: Any, y: Any, user_ids: Any, params: Mapping[str, Any]) -> None:
        check_accountant(self.accountant)
        check_random_state(self.random_state)
        check_real("test_size", self.test_size, 0.0, 1.0, closed="neither")
        if y is None:
            raise ValueError("DPSearchCV requires y to be passed, but the target y is None.")
        self._id_column = user_ids if isinstance(user_ids, str) else None
        X, user_ids = take_user_ids(X, user_ids)
        check_lengths(X, y)
        with refuse_without_values():
            y = column_or_1d(y, warn=True)
        if not is_classifier(self.estimator):  # whose labels must not be objects
            y = plain_labels(y)
        law = DrawsLaw(mean=self.n_draws, name=self.draws)  # type: ignore[arg-type]
        limit, budget = _budget_of_draw(self._budget, law)
        scoring = self._resolved(self.estimator, y)
        persons = None if user_ids is None else Persons(user_ids, len(y))
        n_units = len(y) if persons is None else persons.number
        n_test = max(1, round(float(self.test_size) * n_units))
        if n_test >= n_units:
            raise ValueError(
                f"test_size == {self.test_size!r} leaves no record to fit on (n_samples={n_units})."
            )
        plan = scoring.plan(n_test, budget, persons)
        rng, noise = randomness(self.random_state)
        self.candidates_ = self._candidates(rng)
        order = random_order(n_units, noise)
        test, train = order[:n_test], order[n_test:]
        if persons is not None:
            test, train = persons.rows_of(test), persons.rows_of(train)

        def fit_on(rows: np.ndarray, model: Any) -> tuple[Any, np.ndarray, dict[str, Any]]:
            ids = {} if persons is None else with_ids(model, persons.ids[rows])
            return take_rows(X, rows), y[rows], {**ids, **split_params(params, rows, len(y))}

        models = [self._candidate(each, budget) for each in self.candidates_]
        with without_warnings():  # that of the search has given them
            for model in models:
                self._resolved(model, y)
        prepaid = partial(Prepaid, limit, budget.is_pure, neighbouring=plan.neighbouring)
        with checked(*models):
            for model in models:  # all records are valid, and the part that is fitted suffices
                fits = (fit_on(rows, model) for rows in (np.arange(len(y)), train))
                rehearse(model, fits, lambda: prepaid(True).paying(), must_pay=_private_parts)
        self._spend(whole_event(self.epsilon, self.delta, plan.neighbouring))
        best: tuple[float, dict[str, Any], Any, int] | None = None
        held_out = take_rows(X, test), y[test], test
        with without_warnings():
            for _ in range(law.number(lambda chance: bool(noise.bernoulli(1, chance)[0]))):
                number = int(rng.integers(len(models)))
                model = self._seeded(clone(models[number]), rng)
                X_train, y_train, options = fit_on(train, model)
                with prepaid().paying():
                    model.fit(X_train, y_train, **options)
                scored = scoring.data(model, *held_out, persons)
                point = plan.run(scored, Run("auto", rng, noise)).point
                score = scoring.released(plan, point)
                # NaN would win or lose by its place
                rank = float(np.fmax(score["test_score"], -np.inf))
                if best is None or rank > best[0]:
                    best = rank, score, model, number
        assert best is not None  # there is at least one draw
        _, score, self.best_estimator_, number = best
        self.best_score_ = float(score["test_score"])
        self.score_noise_ = float(score["score_noise"])
        self.best_params_ = self.candidates_[number]
        self._report(plan, law, limit, budget)

    def _resolved(self, model: Any, y: np.ndarray) -> Scoring:
        parts = [model, *model.get_params(deep=True).values()]
        return resolve_scoring(parts, y, self.scoring, self.score_range)

    def _candidates(self, rng: np.random.Generator) -> list[dict[str, Any]]:
        """List the candidates: all combinations, or a sample; nothing private."""
        given = self.param_distributions
        parts = [given] if isinstance(given, Mapping) else given
        if not isinstance(parts, Sequence) or not all(isinstance(part, Mapping) for part in parts):
            raise ValueError("param_distributions must be a dict or a list of dicts.")
        for name in {name for part in parts for name in part}:
            if name.rsplit("__", 1)[-1] in _OWN:
                raise ValueError(f"param_distributions has {name!r}, which the search itself sets.")
        if any(hasattr(values, "rvs") for part in parts for values in part.values()):
            check_count("n_candidates", self.n_candidates)
            seed = int(rng.integers(2**32))
            return list(ParameterSampler(list(parts), self.n_candidates, random_state=seed))
        return list(ParameterGrid(list(parts)))

    def _candidate(self, parameters: Mapping[str, Any], budget: PrivacyBudget) -> Any:
        """Set the parameters of a candidate, and the budgets of its private parts."""
        model = clone(self.estimator).set_params(**clone(parameters, safe=False))
        parts = _private_parts(model)
        check_private(model, parts)
        for part in parts:
            check_positive(epsilon=part.epsilon)
        asked = np.array([float(part.epsilon) for part in parts])
        pure = budget.is_pure
        shares = asked / (asked.sum() if pure else np.linalg.norm(asked)) * (1.0 - 1e-9)
        for part, of_one in zip(parts, shares, strict=True):
            if pure:
                one = PrivacyBudget(of_one * budget.epsilon, 0.0)
            else:
                mu = of_one * gaussian_mu(budget.epsilon, budget.delta)
                one = gaussian_budget(mu, budget.delta)
            part.set_params(epsilon=one.epsilon, delta=one.delta, accountant=None)
        for name in model.get_params(deep=True):
            if (last := name.rsplit("__", 1)[-1]) in _QUIET:
                model.set_params(**{name: _QUIET[last]})
        return self._seeded(model, None)

    def _seeded(self, model: Any, rng: np.random.Generator | None) -> Any:
        """Give private parts noise of their own in every draw."""
        for part in _private_parts(model):
            seed = None if self.random_state is None or rng is None else int(rng.integers(2**32))
            part.set_params(random_state=seed)
        return model

    def _report(self, plan: ScorePlan, law: DrawsLaw, limit: float, budget: PrivacyBudget) -> None:
        (score,) = plan.releases
        release = replace(
            score,
            name="best of a random number of draws",
            n_records=plan.n_records,
            reference="docs/theory/accounting.md, section 11",
            event=whole_event(self.epsilon, self.delta, plan.neighbouring),
        )
        self._set_report(
            (release,),
            (),
            method="selection",
            plan={
                "n_candidates": len(self.candidates_),
                "n_draws": float(law.mean),
                "draws": law.name,
                "draw_epsilon": budget.epsilon,
                "draw_mu": None if budget.is_pure else limit,
                "n_test": plan.n_records,
            },
        )

    @property
    def classes_(self) -> np.ndarray:
        return np.asarray(self._best.classes_)

    @property
    def n_features_in_(self) -> int:
        return int(self._best.n_features_in_)

    @property
    def _best(self) -> Any:
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_

    @_has("predict")  # type: ignore[untyped-decorator]
    def predict(self, X: Any) -> np.ndarray:
        """Predict with the best model."""
        return np.asarray(self._best.predict(self._features_of(X)))

    @_has("predict_proba")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> np.ndarray:
        """Compute probabilities of classes with the best model."""
        return np.asarray(self._best.predict_proba(self._features_of(X)))

    @_has("decision_function")  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> np.ndarray:
        """Compute scores with the best model."""
        return np.asarray(self._best.decision_function(self._features_of(X)))

    @_has("score")  # type: ignore[untyped-decorator]
    def score(self, X: Any, y: Any) -> float:
        """Score the best model by its own ``score``, without noise."""
        return float(self._best.score(self._features_of(X), y))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        of_estimator = self.estimator.__sklearn_tags__()
        tags.estimator_type = of_estimator.estimator_type
        tags.classifier_tags = of_estimator.classifier_tags
        tags.regressor_tags = of_estimator.regressor_tags
        tags.input_tags, tags.target_tags = of_estimator.input_tags, of_estimator.target_tags
        return tags


def _budget_of_draw(total: PrivacyBudget, law: DrawsLaw) -> tuple[float, PrivacyBudget]:
    """Return what a draw may spend, of mu or epsilon and as a budget, for the best to cost that."""
    if total.is_pure:
        epsilon = selection_draw_epsilon(total.epsilon, law)
        return epsilon, PrivacyBudget(epsilon, 0.0)
    mu = selection_mu(total.epsilon, total.delta, law)
    return mu, gaussian_budget(mu, total.delta)


@contextmanager
def _global_generator() -> Iterator[None]:
    """Give NumPy's global generator its state back: it tells how much was drawn from it."""
    state = np.random.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002


def _private_parts(model: Any) -> list[Any]:
    """Return the private estimators in a model, itself included; each of them is fitted once."""
    if isinstance(model, AccountedMixin):
        return [model]
    parts, found = [model, *model.get_params(deep=True).values()], {}
    for part in parts:
        if isinstance(part, AccountedMixin):
            found[id(part)] = part
        elif hasattr(part, "get_params") and not isinstance(part, _ONCE):
            inside = part.get_params(deep=True).values()
            if any(isinstance(each, AccountedMixin) for each in inside):
                raise ValueError(
                    f"A {type(part).__name__} may fit a private estimator several times: a search "
                    "is over private estimators, and over pipelines of them."
                )
    return list(found.values())
