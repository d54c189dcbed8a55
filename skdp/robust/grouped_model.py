"""What the estimators for the worst group share: groups, their weights, the private fit."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from skdp._checks import check_lengths, check_option
from skdp._estimator import declared_labels, staged, taken_weights, warn_inferred
from skdp._model import PrivateModel
from skdp._records import take_rows, without_column
from skdp._types import Self
from skdp._units import take_user_ids
from skdp.algorithms.worst_group.group_plan import GroupResult
from skdp.data.collections import as_source
from skdp.methods import Method
from skdp.methods.choice import GROUP_METHODS, Choice
from skdp.problems import Design, EmpiricalRisk, GroupWeights, Records
from skdp.robust.group_labels import (
    GroupCodes,
    are_named,
    as_labels,
    checked_proportions,
    classes_as_groups,
    distinct_groups,
    group_labels,
    one_group,
)

_NO_GROUPS = (
    "fit() was given no groups. In a pipeline or a search pass them as `<step>__groups`, or enable "
    "metadata routing and call set_fit_request(groups=True)."
)

#: Weights of the groups, and their public proportions.
Groups = tuple[GroupWeights, np.ndarray | None]


class GroupedModel(PrivateModel):
    """Base of models for the worst group; not for direct use."""

    group_names: Any
    group_proportions: Any
    classes_: Any

    _methods: Mapping[str, Method] = GROUP_METHODS
    #: Column of a data frame that had the groups in fit.
    _group_column: str | None = None

    def fit(
        self, X: Any, y: Any = None, groups: Any = None, *, user_ids: Any = None, **fit_params: Any
    ) -> Self:
        """Fit the model privately.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or RecordSource
            Rows longer than `data_norm` are scaled down to it. A source of `skdp.data` holds all
            that follows. Dask collections of equal partitions are taken, too.
        y : array-like of shape (n_samples,)
        groups : array-like of shape (n_samples,), str or None, default=None
            The group of each record, or the name of a column of a data frame X, which then is
            no feature. None: a classifier takes the classes as groups, a regressor all records as
            one group.
        user_ids : array-like of shape (n_samples,), str or None, default=None
            Whose record each is: integers or strings, or the name of a column of a data frame X,
            which then is no feature. The guarantee is then for a person with all its records,
            whose weights add up to 1; they may be in several groups.
        **fit_params : dict
            `sample_weight`, an array-like of shape (n_samples,) or None: weights >= 0, which are
            divided by `weight_bound` and clipped to 1. It is metadata of scikit-learn.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            For invalid parameters or input, such as a group that is not in `group_names`, before
            anything is computed. It is meant for the data holder, outside of the guarantee.
        BudgetExceededError
            If the fit would exceed the budget of an accountant; nothing has then been computed.
        """
        sample_weight = taken_weights(fit_params)
        column = user_ids if isinstance(user_ids, str) else None
        X, user_ids = take_user_ids(X, user_ids)
        source = as_source(X, y, groups, user_ids=user_ids, sample_weight=sample_weight)
        with staged(self) as model:
            model._check_parameters()
            model._check_units(user_ids is not None, sample_weight is not None)
            model._id_column, given = column, (user_ids, sample_weight)
            if source is not None:
                model._group_column = None
                model._fit(source, None)
                return self
            labels = None if groups is None else group_labels(X, groups)
            if labels is None and (self.group_names is not None or model._has_order):
                name = "group_proportions" if self.group_names is None else "group_names"
                raise ValueError(f"{name} were declared, but {_NO_GROUPS}")
            model._group_column = groups if isinstance(groups, str) else None
            check_lengths(X, labels)
            codes = None
            if labels is not None:
                codes = model._group_encoder(lambda: np.unique(labels))(labels)
            model._fit(model._features_of(X), y, codes, given)
        return self

    def _check_units(self, has_persons: bool, has_weights: bool) -> None:
        """Raise a ValueError where ids of persons or weights have no proof."""
        if self._mode == "public" and (has_persons or has_weights):
            what = "user_ids" if has_persons else "sample_weight"
            raise ValueError(
                f"group_proportions='public' has no proof for {what}: the sizes of the groups "
                "follow from the numbers and weights of records, which are private."
            )

    def _features_of(self, X: Any) -> Any:
        """Drop the columns that held ids and groups during fit, if they are there."""
        return without_column(super()._features_of(X), self._group_column)

    def group_losses(self, X: Any, y: Any, groups: Any) -> dict[Any, float]:
        """Mean loss of each group: what was minimised, the largest of them.

        Of a regressor that of its linear scores, which are not yet clipped to `target_range`.

        Parameters and result as for :meth:`group_scores`.
        """
        return self._of_groups(X, y, groups, lambda X, y: float(self._record_losses(X, y).mean()))

    def _record_losses(self, X: Any, y: np.ndarray) -> np.ndarray:
        """Loss of each record."""
        raise NotImplementedError

    def group_scores(self, X: Any, y: Any, groups: Any) -> dict[Any, float]:
        """``score(X, y)`` of each group: accuracy or, of a regressor, R2 within the group.

        Of a regressor they do not order the groups: see :meth:`group_losses`. A function of the
        released coefficients: on records that were not used to fit, it costs no budget.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        groups : array-like of shape (n_samples,) or str
            Groups of the records, all of them in ``group_names_``, or the name of a column of X.

        Returns
        -------
        dict
            A number for each name in ``group_names_``, in that order; NaN for a group without
            records.
        """
        return self._of_groups(X, y, groups, self.score)

    def _of_groups(
        self, X: Any, y: Any, groups: Any, function: Callable[[Any, np.ndarray], float]
    ) -> dict[Any, float]:
        check_is_fitted(self)
        labels = group_labels(X, groups)
        if isinstance(groups, str) and groups not in getattr(self, "feature_names_in_", ()):
            X = without_column(X, groups)
        check_lengths(X, y, labels)
        y = np.asarray(y)
        codes = GroupCodes(self.group_names_)(labels)
        values = dict.fromkeys(self.group_names_.tolist(), math.nan)
        for k, name in enumerate(values):
            rows = np.flatnonzero(codes == k)
            if len(rows):
                values[name] = function(take_rows(X, rows), y[rows])
        return values

    @property
    def _default_groups(self) -> tuple[Callable[[Records], Records], np.ndarray]:
        """View of records with groups, and names of the groups, if none are given."""
        if is_classifier(self):
            return classes_as_groups, self.classes_
        return one_group, np.zeros(1, dtype=np.intp)

    def _declared_names(self) -> np.ndarray | None:
        if self.group_names is None:
            return None
        names = as_labels("group_names", self.group_names)
        declared_labels("group_names", names, 1)
        return names

    def _survey_parts(self) -> dict[str, Any]:
        has_groups = self.group_names is not None or self._has_order
        return {"groups": distinct_groups, "has_groups": has_groups}

    @property
    def _has_order(self) -> bool:
        """Whether proportions were declared in the order of the groups."""
        return self._mode == "proportions" and not are_named(self.group_proportions)

    def _group_encoder(self, seen: Callable[[], np.ndarray | None]) -> Any:
        names = self._declared_names()
        if names is None:
            names = seen()
            if names is None:
                return None
            warn_inferred("The groups", "group_names")
        self.group_names_ = names
        return GroupCodes(names)

    def _private_weights(
        self, records: Records, risk: EmpiricalRisk, caveats: tuple[str, ...] = ()
    ) -> Any:
        are_given = records.groups is not None
        if not are_given:
            view, self.group_names_ = self._default_groups
            records = records.viewed(view)
        design = Design.of(records, self._public_size(records.n_units))
        groups = self._group_weights(records.groups, design)
        choice = self._choose(design, risk, groups, are_given)
        planned: Any = choice.plan
        if not records.in_memory and planned.has_saddle:
            raise ValueError("The saddle problem of groups needs all records in memory.")
        # other methods bound no solution, and later releases follow from earlier ones
        self._warn(planned, records, is_planned=planned.has_saddle)
        result: GroupResult = self._pay_and_run(choice.plan, records)
        done = result.plan
        found = {"group_weights_": result.weights, "group_proportions_": result.proportions}
        for name, value in found.items():
            self.__dict__.pop(name, None)  # of an earlier fit
            if value is not None:
                setattr(self, name, value)
        public: dict[str, Any] = {"group_names": [str(name) for name in self.group_names_]}
        if result.proportions is not None:
            public["group_proportions"] = result.proportions.tolist()
        self._report(
            choice.method,
            done,
            records,
            risk,
            caveats + self._group_caveats(choice.plan, are_given),
            public,
            (*self._group_remarks(result, done), *done.remarks(), *choice.remarks),
        )
        return self._unpacked(result, risk)

    @abstractmethod
    def _choose(
        self, design: Design, risk: EmpiricalRisk, groups: Groups, are_given: bool
    ) -> Choice:
        """Choose the method and its plan from public numbers."""

    @abstractmethod
    def _unpacked(self, result: GroupResult, risk: EmpiricalRisk) -> Any:
        """Return the released point as weights of the model."""

    def _planned(self, design: Design, risk: EmpiricalRisk, n_groups: int | None = None) -> Choice:
        names = self._declared_names()
        if names is not None:
            if n_groups not in (None, len(names)):
                raise ValueError(f"n_groups == {n_groups}, but group_names declares {len(names)}.")
        elif n_groups is not None:
            names = np.arange(n_groups)
        else:
            names = self._default_groups[1]
        self.group_names_ = names
        are_given = n_groups is not None or self.group_names is not None
        groups = self._group_weights(np.arange(len(names)), design)  # of equal sizes
        return self._choose(design, risk, groups, are_given)

    @property
    def _mode(self) -> str:
        """Where the sizes of the groups come from."""
        is_word = isinstance(self.group_proportions, str)
        return self.group_proportions if is_word else "proportions"

    def _check_proportions(self) -> None:
        """Refuse what are no sizes of groups."""
        if isinstance(self.group_proportions, str):
            check_option("group_proportions", self.group_proportions, ["private", "public"])
        elif self.group_proportions is None:
            raise ValueError(
                "group_proportions is None, must be 'private', 'public', or hold a public number "
                "for each group."
            )

    @abstractmethod
    def _weight_bound(self, design: Design) -> float:
        """Public bound on the weight of a group."""

    def _group_weights(self, codes: np.ndarray, design: Design) -> Groups:
        """Return the weights of the groups and their public proportions, if they matter."""
        n_groups, bound = len(self.group_names_), self._weight_bound(design)
        if self._mode == "public":
            proportions = np.bincount(codes, minlength=n_groups) / len(codes)
            return GroupWeights.of_proportions(proportions, bound, public_groups=True), proportions
        if self._mode == "proportions":
            proportions = checked_proportions(self.group_proportions, self.group_names_)
            return GroupWeights.of_proportions(proportions, bound), proportions
        if n_groups == 1:  # it has all the records: nothing to estimate
            return GroupWeights.of_proportions((1.0,), 1.0), None
        return GroupWeights((bound,) * n_groups), None

    def _group_remarks(self, result: GroupResult, plan: Any) -> Iterator[str]:
        """Yield remarks on the weights of the groups, and on groups that weigh less than one."""
        pairs = zip(self.group_names_, result.largest, strict=True)
        named = [f"{name} {weight:.3g}" for name, weight in pairs]
        listed = ", ".join(named[:12]) + (", ..." if len(named) > 12 else "")
        if plan.weighs_groups:
            yield f"groups ({self._mode}) and the weights of their records: {listed}"
            return
        yield f"groups ({self._mode}) and their largest weights: {listed}"
        shares = () if result.proportions is None else result.proportions
        for name, weight, share in zip(self.group_names_, result.largest, shares, strict=False):
            if 0.0 < share * weight < 0.999:
                counts = "has at most" if plan.has_saddle else "counts for"
                of = "of all weight" if plan.has_saddle else "of a group"
                yield f"group {name} {counts} {share * weight:.2g} {of}"

    def _group_caveats(self, plan: Any, are_given: bool) -> tuple[str, ...]:
        """Return the limits of the guarantee that concern the groups."""
        caveats: tuple[str, ...] = ()
        if are_given and self.group_names is None:
            caveats += ("group_names were inferred from groups",)
        if self._mode == "public":
            what = "group" if are_given else "class"
            caveats += (f"the {what} of each record is taken as public: it is not protected",)
        return caveats
