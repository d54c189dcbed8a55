"""Private synthetic records of a categorical table."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skdp._checks import InvalidTypeError, check_count, check_unit
from skdp._estimator import PrivateEstimator, randomness, staged, taken_weights, warn_inferred
from skdp._records import distinct_persons
from skdp._types import ReplaceOne, Self, SyntheticMethod, Verbose
from skdp._units import NO_WEIGHT, NO_WEIGHT_BOUND, record_weights, take_user_ids
from skdp.data.collections import as_source, first_rows, over_chunks
from skdp.methods.base import Method
from skdp.methods.choice import SYNTHETIC_METHODS, choose, resolved
from skdp.privacy.budget_accountant import BudgetAccountant
from skdp.privacy.events import Neighbouring
from skdp.privacy.report import PrivacyLeakWarning
from skdp.problems import (
    CategoricalRecords,
    Marginals,
    QueryMatrix,
    QueryObjective,
    Workload,
    universe_size,
)
from skdp.synthetic.tables import (
    TableFormat,
    array_of_objects,
    declared_categories,
    distinct_values,
    encode,
    has_missing,
    ordered_categories,
    refuse_floats,
    validated,
)
from skdp.synthetic.tables_of_sources import coded_chunks, inferred_from_source

#: Largest universe whose distribution is written out.
_MAX_TABLE = 1 << 24


class DPSyntheticData(OneToOneFeatureMixin, TransformerMixin, PrivateEstimator):
    """Learn the distribution of a categorical table privately, and sample synthetic records.

    A distribution of records is fitted to the answers of linear queries, such as all two-way
    marginals. Any number of records can be sampled from it, and any question answered, at no
    further cost.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget, > 0.
    delta : float, default=1e-6
        In [0, 1), far below 1 / n_samples. 0 is pure epsilon-differential privacy, for which there
        is ``method="mirror_descent"``.
    categories : "auto", list of list or dict, default="auto"
        Public categories of each column: one list per column, or a dict of lists by column name.
        None in a list stands for missing values. "auto" takes the values in X, which the
        guarantee does not cover, and warns; fractional numbers are refused.
    queries : str or array-like of shape (n_queries, n_cells), default="2-way"
        What the distribution is fitted to. "k-way" for a number k: all marginals of k columns. A
        matrix: its columns are the combinations of categories in C order (the category of the last
        column changes first), its entries the values of a query.
    neighbouring : {"replace_one"}, default="replace_one"
        Neighbouring tables differ in one record replaced; their number is public.
    weight_bound : float or None, default=None
        Public bound on `sample_weight`; larger weights are clipped to it. None: 1, with a warning.
    method : {"auto", "adaptive", "mirror_descent"} or Method, default="auto"
        "adaptive" draws badly answered marginals and measures them with Gaussian noise, round by
        round; it keeps a junction tree, so tables may have many columns. "mirror_descent" only
        draws queries (González et al. 2024, Theorem 1.1), on up to 2^20 combinations of
        categories; :class:`~skdp.methods.QueryMirrorDescent` has its steps as published. "auto" is
        "adaptive", for ``delta == 0`` "mirror_descent".
    accountant : BudgetAccountant or None, default=None
        Is charged before a record is read, besides those of open ``with`` blocks.
    random_state : int, RandomState, Generator or None, default=None
        None: the system's secure generator. A seed is for tests: who knows it subtracts the noise.
    verbose : int or callable, default=0
        1 prints the progress; a callable is given ``(name, done, planned)``.

    Attributes
    ----------
    categories_ : list of ndarray
        Of each column.
    distribution_ : ndarray of shape (n_categories_0, n_categories_1, ...)
        Fitted probabilities. Only for up to 2^24 combinations of categories; :meth:`answer` has no
        such limit.
    privacy_ : PrivacyReport
        All releases and their cost.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    Notes
    -----
    As a step of a pipeline, ``fit_transform`` replaces the records by as many synthetic ones (with
    `user_ids` one for each person), so that what follows is private. ``transform`` passes records
    on as they are, so that the pipeline predicts for real ones. A target has to be a column of the
    table.

    Names and types of the columns and the number of records are public.

    References
    ----------
    .. [1] T. González, C. Guzmán, C. Paquette, "Mirror descent algorithms with nearly
       dimension-independent rates for differentially-private stochastic saddle-point problems",
       COLT 2024, section 1.4.
    .. [2] R. McKenna, B. Mullins, D. Sheldon, G. Miklau, "AIM: an adaptive and iterative mechanism
       for differentially private synthetic data", VLDB 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.synthetic import DPSyntheticData
    >>> rng = np.random.default_rng(0)
    >>> smokes = rng.random(5000) < 0.3
    >>> ill = rng.random(5000) < np.where(smokes, 0.4, 0.1)
    >>> X = np.column_stack([smokes, ill]).astype(int)
    >>> model = DPSyntheticData(categories=[[0, 1], [0, 1]], random_state=0).fit(X)
    >>> model.sample(1000).shape
    (1000, 2)
    >>> bool(np.abs(model.distribution_[1, 1] - 0.12) < 0.02)
    True
    """

    #: Weights are metadata: as a named parameter, weight 2 would have to equal two records.
    __metadata_request__fit: ClassVar = {"sample_weight": None}

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-6,
        categories: Any = "auto",
        queries: Any = "2-way",
        neighbouring: ReplaceOne = "replace_one",
        weight_bound: float | None = None,
        method: SyntheticMethod | Method = "auto",
        accountant: BudgetAccountant | None = None,
        random_state: Any = None,
        verbose: Verbose = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.categories = categories
        self.queries = queries
        self.neighbouring = neighbouring
        self.weight_bound = weight_bound
        self.method = method
        self.accountant = accountant
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, *, user_ids: Any = None, **fit_params: Any) -> Self:
        """Learn the distribution of a table privately.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features), or RecordSource
            Every value must be among the categories of its column. Of a source, which holds all
            that follows, or a Dask collection, marginals are counted chunk by chunk.
        y : None
            Ignored.
        user_ids : array-like of shape (n_samples,), str or None, default=None
            Whose record each is: integers or strings, or the name of a column of a data frame X,
            which is then left out. The guarantee is then for a person with all its records, whose
            weights add up to 1; synthetic records belong to nobody, and the number of records of a
            person is not modelled.
        **fit_params : dict
            `sample_weight`, an array-like of shape (n_samples,) or None: weights >= 0, which are
            divided by `weight_bound` and clipped to 1; for ``method="adaptive"`` and marginals.
            Synthetic records have none.

        Returns
        -------
        self : DPSyntheticData

        Raises
        ------
        ValueError
            For invalid parameters or input, before anything is computed. The error is for the
            data holder and lies outside of the guarantee.
        BudgetExceededError
            If the fit would exceed the budget of an accountant; nothing has then been computed.
        """
        sample_weight = taken_weights(fit_params)
        column = user_ids if isinstance(user_ids, str) else None
        X, user_ids = take_user_ids(X, user_ids)
        with staged(self) as model:
            model._id_column = column
            model._fit(X, user_ids, sample_weight)
        return self

    def _fit(self, X: Any, user_ids: Any, sample_weight: Any) -> None:
        order = self._check_parameters()
        given = None if isinstance(self.categories, str) else self.categories
        allow_nan = given is not None and _any_missing(given)
        source = as_source(X, user_ids=user_ids, sample_weight=sample_weight)
        if source is not None:
            if getattr(self.method, "calibration", "") == "paper":
                raise ValueError("calibration='paper' needs all records in memory.")
            X = first_rows(source)
        X = validated(self, X, allow_nan=allow_nan, reset=True)
        self._names = tuple(getattr(X, "columns", range(X.shape[1])))
        if given is not None:
            categories = declared_categories(given, self._names)
        elif source is not None:
            categories = inferred_from_source(source, self._names)
        else:
            refuse_floats(X, self._names)
            categories = ordered_categories(distinct_values(X))
        self._categories, self._format = categories, TableFormat.of(X, categories)
        sizes = tuple(len(values) for values in categories)
        if order is not None and order > max(2, len(sizes)):
            raise ValueError(f"queries == {self.queries!r}, but X has {len(sizes)} columns.")
        workload: Workload = (
            QueryMatrix(sizes, self.queries)
            if order is None
            else Marginals(sizes, min(order, len(sizes)))
        )
        relation = Neighbouring(self.neighbouring)
        is_slack = sample_weight is not None
        bound = 1.0 if self.weight_bound is None else float(self.weight_bound)
        records: Any
        if source is not None:
            records = coded_chunks(source, categories, self._names, allow_nan, bound)
            of_persons, is_slack = records.has_persons, records.is_slack
        else:
            records = CategoricalRecords(encode(X, categories, self._names), sizes)
            of_persons = user_ids is not None
            persons = distinct_persons(user_ids, X.shape[0])[1] if of_persons else None
            weights = record_weights(sample_weight, bound, X.shape[0]) if is_slack else None
            if weights is not None and not weights.any():
                raise ValueError(NO_WEIGHT)
            records = records.of_units(weights, persons)
        relation = relation.of_persons if of_persons else relation
        n_units = records.n_records
        objective = QueryObjective(workload, n_units, relation, is_slack)
        choice = choose(SYNTHETIC_METHODS, self.method, objective, self._budget, is_slack=is_slack)
        if is_slack and self.weight_bound is None:
            warnings.warn(NO_WEIGHT_BOUND, UserWarning, stacklevel=3)
        if given is None:
            warn_inferred("The categories", "categories")
        for alarm in self._delta_alarms(n_units):
            warnings.warn(f"{alarm}.", UserWarning, stacklevel=3)
        result = self._pay_and_run(choice.plan, records)
        self._model, self._workload, self._n_records = result.model, workload, n_units
        self.categories_ = [_array_of(values) for values in categories]
        plan, caveats = result.plan, self._delta_alarms(n_units)
        if given is None:
            caveats += ("categories were inferred from the data, without privacy",)
        self._set_report(
            plan.releases,
            caveats,
            method=choice.method,
            plan={"n_categories": list(sizes), **plan.to_dict()},
            remarks=plan.remarks(),
        )

    def _check_parameters(self) -> int | None:
        """Refuse invalid parameters; return the order of the marginals, None for a matrix."""
        self._check_shared()
        if isinstance(self.categories, str) and self.categories != "auto":
            raise InvalidTypeError(f"categories == {self.categories!r}, must be 'auto' or lists.")
        if self.weight_bound is not None:
            check_unit("weight_bound", self.weight_bound)
        name = "mirror_descent" if self._budget.is_pure else "adaptive"
        method = resolved(SYNTHETIC_METHODS, self.method) or SYNTHETIC_METHODS[name]
        shown = name if self.method == "auto" else self.method
        method.check(shown, self._budget, Neighbouring(self.neighbouring))
        return _order(self.queries) if isinstance(self.queries, str) else None

    @property
    def distribution_(self) -> np.ndarray:
        """Fitted probabilities of all combinations of categories."""
        if "_model" not in self.__dict__:
            raise AttributeError("distribution_: the model is not fitted.")
        size = universe_size(self._workload.sizes)
        if size > _MAX_TABLE:
            raise AttributeError(
                f"distribution_: {size} combinations of categories are too many to write out; "
                "answer() gives marginals."
            )
        return np.asarray(self._model.table())

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Any:
        """Sample synthetic records; this costs no privacy.

        Each record has the fitted distribution. The records of one call are drawn together so that
        their marginals vary less than those of independent ones.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState, Generator or None, default=None
            Of the sampling; it need not be secret.

        Returns
        -------
        X : ndarray or data frame of shape (n_samples, n_features)
            Of the kind and column names of the table that was fitted. A column of it keeps its type
            if that is of the same kind as the declared categories and holds them all.
        """
        check_is_fitted(self)
        check_count("n_samples", n_samples)
        codes = self._model.sample(int(n_samples), randomness(random_state)[0])
        return self._format.decode(codes, self._categories)

    def answer(self, queries: Any = None) -> Any:
        """Answer linear queries from the fitted distribution; this costs no privacy.

        Parameters
        ----------
        queries : str, sequence or array-like, default=None
            - "k-way": all marginals of k columns;
            - a sequence of tuples of column names, or positions where X had no names;
            - a matrix as for the parameter `queries`.

            None: the queries of the fit.

        Returns
        -------
        answers : dict of tuple to ndarray, or ndarray of shape (n_queries,)
            Marginal distributions by columns, or the answers of a matrix.
        """
        check_is_fitted(self)
        queries = self.queries if queries is None else queries
        if isinstance(queries, str):
            groups: Sequence[tuple[int, ...]] = Marginals(
                self._workload.sizes, _order(queries)
            ).columns
        elif isinstance(queries, Sequence) and all(isinstance(key, tuple) for key in queries):
            positions = {name: j for j, name in enumerate(self._names)}
            unknown = [name for key in queries for name in key if name not in positions]
            if unknown:
                raise ValueError(f"queries name columns that X did not have: {unknown}.")
            groups = [tuple(positions[name] for name in key) for key in queries]
            if any(len(set(key)) < len(key) or not key for key in groups):
                raise ValueError("queries: each tuple must name distinct columns, at least one.")
        else:
            return QueryMatrix(self._workload.sizes, queries).answers(self.distribution_)
        return {
            tuple(self._names[c] for c in key): np.asarray(self._model.marginal(key))
            for key in groups
        }

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit to the records, and replace them by as many synthetic ones.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
        y : None
            Anything else is passed on without privacy, with a warning.

        Returns
        -------
        X : ndarray or data frame of shape (n_samples, n_features)
        """
        if y is not None:
            warnings.warn(
                "y is not made synthetic: its rows do not belong to the synthetic rows, and what "
                "is fitted to it is not private. Make the target a column of X.",
                PrivacyLeakWarning,
                stacklevel=2,
            )
        self.fit(X, **fit_params)
        # the first generator of the seed; the noise comes from the second
        rng = randomness(self.random_state)[0]
        return self._format.decode(self._model.sample(self._n_records, rng), self._categories)

    @over_chunks
    def transform(self, X: Any) -> Any:
        """Pass records on as they are, for what was fitted to synthetic ones.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Every value must be among the categories of its column.

        Returns
        -------
        X : ndarray or data frame of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        X = self._features_of(X)
        X = validated(self, X, allow_nan=has_missing(self._categories), reset=False)
        encode(X, self._categories, self._names)
        return X

    def __sklearn_is_fitted__(self) -> bool:
        return "_model" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = _any_missing(self.categories)
        tags.non_deterministic = True
        tags.transformer_tags.preserves_dtype = []
        return tags


def _order(queries: str) -> int:
    """Read the number k of "k-way"."""
    order = queries.removesuffix("-way")
    if not (queries.endswith("-way") and order.isdecimal() and int(order) >= 1):
        raise ValueError(f"queries == {queries!r}, must be 'k-way', such as '2-way', or a matrix.")
    return int(order)


def _any_missing(categories: Any) -> bool:
    """Whether declared categories of any form have a missing value among them."""
    lists = categories.values() if isinstance(categories, dict) else categories
    try:
        return has_missing(tuple(tuple(values) for values in lists))
    except TypeError:
        return False  # refused later


def _array_of(values: tuple[Any, ...]) -> np.ndarray:
    array = array_of_objects(values)
    plain = np.asarray(values) if all(type(v) is type(values[0]) for v in values) else array
    return plain if plain.shape == array.shape and plain.dtype.kind in "biufU" else array
