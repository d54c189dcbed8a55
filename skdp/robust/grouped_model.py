"""What the estimators for the worst group share: groups, their weights, the private fit."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from skdp._checks import check_bool, check_option, check_real
from skdp._estimator import declared_labels, encode, refuse_fit_params, staged, warn_inferred
from skdp._options import GroupMode
from skdp._records import take_rows
from skdp.algorithms.methods import GROUP_METHODS, Choice, Method, choose
from skdp.algorithms.worst_group.group_plan import GroupPlan, GroupResult
from skdp.linear_model.base import DPLinearModel
from skdp.privacy.gaussian_dp import gaussian_mu
from skdp.problems import Design, EmpiricalRisk, GroupWeights, Records
from skdp.problems.group_objective import GroupObjective
from skdp.robust.group_labels import (
    are_named,
    as_labels,
    checked_proportions,
    group_labels,
    has_column,
    without_column,
)
from skdp.solvers import resolve_solver

if TYPE_CHECKING:
    from typing_extensions import Self

_NO_GROUPS = (
    "fit() was given no groups. In a pipeline or a search pass them as `<step>__groups`, or enable "
    "metadata routing and call set_fit_request(groups=True)."
)
#: Part of the budget for noisy proportions, and largest weight over the relative noise of a mean.
_HISTOGRAM_SHARE, _WEIGHT_FOR_NOISE = 0.1, 0.08


class GroupedLinearModel(DPLinearModel):
    """Base of linear models for the worst group; not for direct use."""

    loss: str
    group_mode: str
    group_names: Any
    group_proportions: Any
    max_group_weight: float | str
    histogram_share: float | str
    release_group_weights: bool

    _methods: Mapping[str, Method] = GROUP_METHODS
    _gradient_losses: tuple[str, ...] = ()
    _group_column: str | None = None

    def fit(self, X: Any, y: Any = None, groups: Any = None, **fit_params: Any) -> Self:
        """Fit the model privately.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows longer than `data_norm` are scaled down to it.
        y : array-like of shape (n_samples,)
        groups : array-like of shape (n_samples,), str or None, default=None
            The group of each record, or the name of a column of a data frame X, which then is
            no feature. None: a classifier takes the classes as groups, a regressor all records as
            one group.
        **fit_params : dict
            Nothing is accepted here; `sample_weight` is refused, because the guarantee is per
            record.

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
        refuse_fit_params(fit_params)
        with staged(self) as model:
            model._check_parameters()
            labels = None if groups is None else group_labels(X, groups)
            proportions = self.group_proportions
            for name, is_declared in (
                ("group_names", self.group_names is not None),
                ("group_proportions", proportions is not None and not are_named(proportions)),
            ):
                if labels is None and is_declared:
                    raise ValueError(f"{name} were declared, but {_NO_GROUPS}")
            model._group_column = groups if isinstance(groups, str) else None
            check_consistent_length(X, labels)
            codes = None if labels is None else model._encoded(labels)
            model._fit(model._without_groups(X), y, codes)
        return self

    def _without_groups(self, X: Any) -> Any:
        """Drop the column that held the groups during fit, if it is there."""
        column = self._group_column
        return X if column is None or not has_column(X, column) else without_column(X, column)

    def _scores(self, X: Any) -> np.ndarray:
        return super()._scores(self._without_groups(X))

    def group_losses(self, X: Any, y: Any, groups: Any) -> np.ndarray:
        """Mean loss of each group: what was minimised, the largest of them.

        Of a regressor that of its linear scores, which are not yet clipped to `target_range`.

        Parameters and result as for :meth:`group_scores`.
        """
        return self._of_groups(X, y, groups, lambda X, y: float(self._record_losses(X, y).mean()))

    def _record_losses(self, X: Any, y: np.ndarray) -> np.ndarray:
        """Loss of each record."""
        raise NotImplementedError

    def group_scores(self, X: Any, y: Any, groups: Any) -> np.ndarray:
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
        ndarray of shape (n_groups,)
            In the order of ``group_names_``; NaN for a group without records.
        """
        return self._of_groups(X, y, groups, self.score)

    def _of_groups(
        self, X: Any, y: Any, groups: Any, function: Callable[[Any, np.ndarray], float]
    ) -> np.ndarray:
        check_is_fitted(self)
        labels = group_labels(X, groups)
        if isinstance(groups, str) and groups not in getattr(self, "feature_names_in_", ()):
            X = without_column(X, groups)
        check_consistent_length(X, y, labels)
        y = np.asarray(y)
        codes = encode(labels, self.group_names_, "groups contains labels not seen in fit.")
        values = np.full(len(self.group_names_), np.nan)
        for k in np.unique(codes):
            rows = np.flatnonzero(codes == k)
            values[k] = function(take_rows(X, rows), y[rows])
        return values

    def _default_groups(self, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Codes and names of the groups if none are given."""
        raise NotImplementedError

    def _with_groups(self, records: Records) -> tuple[Records, bool]:
        """Return the records with default groups if none were given, and whether some were."""
        if records.groups is not None:
            return records, True
        groups, self.group_names_ = self._default_groups(records.targets)
        return records.with_targets(records.targets, groups), False

    def _encoded(self, labels: np.ndarray) -> np.ndarray:
        """Set ``group_names_``; return the position of each record's group in it."""
        if self.group_names is None:
            names = np.unique(labels)
            warn_inferred("The groups", "group_names")
        else:
            declared = as_labels("group_names", self.group_names)
            names = declared_labels("group_names", declared, 1)
        self.group_names_ = names
        return encode(labels, names, "groups contains labels that are not in `group_names`.")

    def _private_weights(
        self, records: Records, risk: EmpiricalRisk, caveats: tuple[str, ...] = ()
    ) -> np.ndarray:
        records, are_given = self._with_groups(records)
        design = Design.of(records, self._public_size(records.n_records))
        weights, proportions = self._group_weights(records.groups, are_given, design)
        choice = self._choose(design, risk, weights, proportions)
        row = self._methods[choice.method]
        # other methods bound no solution, and later releases follow from earlier ones
        self._warn(choice.plan, records, is_planned=row.has_ball)
        result: GroupResult = self._pay_and_run(choice.plan, records)
        done = result.plan
        self.alpha_ = done.alpha
        self._keep_groups(result)
        self._report(
            done.method or choice.method,
            done,
            records,
            risk,
            caveats + self._group_caveats(are_given),
            self._public_numbers(result),
            (*self._group_remarks(result, row.weighs_groups), *done.remarks()),
        )
        return np.asarray(result.point).reshape(risk.loss.n_outputs, records.width)

    def _keep_groups(self, result: GroupResult) -> None:
        """Set what was released of the groups, and no more."""
        found = {"group_weights_": result.weights, "group_proportions_": result.proportions}
        for name, value in found.items():
            self.__dict__.pop(name, None)  # of an earlier fit
            if value is not None:
                setattr(self, name, value)

    def _public_numbers(self, result: GroupResult) -> dict[str, Any]:
        """Return what a report has besides the numbers of the plan."""
        names = [str(name) for name in self.group_names_]
        public: dict[str, Any] = {"group_mode": self._mode, "group_names": names}
        if result.proportions is not None:
            public["group_proportions"] = result.proportions.tolist()
        return public

    def _planned(self, design: Design, risk: EmpiricalRisk, n_groups: int | None = None) -> Choice:
        codes, are_given = self._public_groups(n_groups)
        choice = self._choose(design, risk, *self._group_weights(codes, are_given, design))
        plan = choice.plan
        assert isinstance(plan, GroupPlan)
        return replace(choice, method=plan.method or choice.method)

    def _public_groups(self, n_groups: int | None) -> tuple[np.ndarray, bool]:
        """Set ``group_names_`` for a plan; return codes of equal groups, and if they are given."""
        if self.group_names is not None:
            declared = as_labels("group_names", self.group_names)
            names = declared_labels("group_names", declared, 1)
            if n_groups not in (None, len(names)):
                raise ValueError(f"n_groups == {n_groups}, but group_names declares {len(names)}.")
        elif n_groups is not None:
            names = np.arange(n_groups)
        else:
            names = self._default_groups(np.zeros(0))[1]
        self.group_names_ = names
        return np.arange(len(names)), n_groups is not None or self.group_names is not None

    def _choose(
        self,
        design: Design,
        risk: EmpiricalRisk,
        weights: GroupWeights,
        proportions: np.ndarray | None,
    ) -> Choice:
        """Choose the method and its plan from public numbers."""
        has_histogram = self._mode == "histogram" and len(weights.largest) > 1
        share = _HISTOGRAM_SHARE if self.histogram_share == "auto" else float(self.histogram_share)
        objective = GroupObjective(
            **vars(self._objective(design, risk)),
            weights=weights,
            release_weights=bool(self.release_group_weights),
            histogram_share=share if has_histogram else 0.0,
            plans_share=self.histogram_share == "auto",
            proportions=None if proportions is None else tuple(proportions.tolist()),
            weight_limit=math.inf
            if self.max_group_weight == "auto"
            else float(self.max_group_weight),
        )
        return choose(
            self._methods,
            self.method,
            objective,
            self._budget,
            self.calibration,
            has_solver=self._has_solver,
        )

    @property
    def _mode(self) -> str:
        """The mode of the groups; "auto" by whether proportions were declared."""
        if self.group_mode != "auto":
            return self.group_mode
        # the published calibration releases the coefficients alone; not checked yet
        is_published = isinstance(self.calibration, str) and self.calibration == "paper"
        is_declared = self.group_proportions is not None or is_published
        return "proportions" if is_declared else "histogram"

    def _group_weights(
        self, codes: np.ndarray, are_given: bool, design: Design
    ) -> tuple[GroupWeights, np.ndarray | None]:
        """Return the weights of the groups and their public proportions, if they matter."""
        n_groups = len(self.group_names_)
        if self.max_group_weight != "auto":
            bound = float(self.max_group_weight)
        elif self.delta == 0:
            bound = 10.0
        else:  # as far as the noise of a mean gradient allows
            mu = gaussian_mu(self.epsilon, self.delta)
            # a draw of a vertex has the noise of the logarithm of their number
            d = math.log(2.0 * design.width) if self._is_entrywise else design.n_features
            noise = 2.0 * math.sqrt(d) / (design.n_records * mu)
            bound = min(max(_WEIGHT_FOR_NOISE / noise, 1.0), 1000.0)
        if self._mode == "public":
            proportions = np.bincount(codes, minlength=n_groups) / len(codes)
            return GroupWeights.of_proportions(proportions, bound, public_groups=True), proportions
        if self._mode == "proportions":
            proportions = self._declared_proportions(are_given)
            return GroupWeights.of_proportions(proportions, bound), proportions
        if n_groups == 1:  # it has all the records: nothing to estimate, nothing to clip
            return GroupWeights((1.0,)), None
        return GroupWeights((bound,) * n_groups, clipped=self._mode == "floored"), None

    def _declared_proportions(self, are_given: bool) -> np.ndarray:
        """Return the public proportions, equal ones with a warning if none were declared."""
        if self.group_proportions is not None:
            return checked_proportions(self.group_proportions, self.group_names_, self.group_names)
        n_groups = len(self.group_names_)
        if are_given and n_groups > 1:
            warnings.warn(
                "group_proportions were not declared: all groups are taken to be equally large, "
                "and a smaller one counts for less. Declare public ones, or use "
                "group_mode='auto'.",
                UserWarning,
                stacklevel=6,
            )
        return np.full(n_groups, 1.0 / n_groups)

    def _group_remarks(self, result: GroupResult, are_of_records: bool) -> Iterator[str]:
        """Yield remarks on the weights of the groups, and on groups that weigh less than one."""
        pairs = zip(self.group_names_, result.largest, strict=True)
        named = [f"{name} {weight:.3g}" for name, weight in pairs]
        listed = ", ".join(named[:12]) + (", ..." if len(named) > 12 else "")
        if are_of_records:
            yield f"groups ({self._mode}) and the weights of their records: {listed}"
            return
        yield f"groups ({self._mode}) and their largest weights: {listed}"
        shares = () if result.proportions is None else result.proportions
        for name, weight, share in zip(self.group_names_, result.largest, shares, strict=False):
            if 0.0 < share * weight < 0.999:
                yield f"group {name} counts for {share * weight:.2g} of a group"

    def _group_caveats(self, are_given: bool) -> tuple[str, ...]:
        """Return the limits of the guarantee that concern the groups."""
        caveats = self._size_caveats()
        if are_given and self.group_names is None:
            caveats += ("group_names were inferred from groups",)
        if self.calibration == "paper":
            caveats += ("calibration='paper' spends half of the budget",)
        if self._mode == "public":
            what = "group" if are_given else "class"
            caveats += (f"the {what} of each record is taken as public: it is not protected",)
        return caveats

    def _check_parameters(self) -> None:
        check_option("group_mode", self.group_mode, get_args(GroupMode))
        if self.group_proportions is not None and self._mode != "proportions":
            raise ValueError(
                f"group_proportions are for group_mode='proportions', not {self.group_mode!r}."
            )
        if self._mode == "public" and self.neighbouring != "replace_one":
            raise ValueError(
                "group_mode='public' is proven for neighbouring='replace_one' only: a record more "
                "changes the sizes of the groups."
            )
        for name, bounds in (
            ("max_group_weight", (1.0, 1e9)),
            ("histogram_share", (1e-6, 1.0 - 1e-6)),
        ):
            value = getattr(self, name)
            if isinstance(value, str) and value == "auto":
                continue
            check_real(name, value, *bounds)
        check_bool("release_group_weights", self.release_group_weights)
        super()._check_parameters()
        if self._mode == "floored" and not self._row.clips_groups:
            raise ValueError(f"method={self.method!r} is not for group_mode='floored'.")

    @property
    def _row(self) -> Method:
        """Row of the method; that of "auto" follows from the parameters alone."""
        is_gradient = (
            self.method == "auto"
            and self.calibration == "analytic"
            and self.delta > 0
            and not self._has_solver
            and self.alpha == "auto"
            and self.coef_norm is None
            and self.objective == "empirical"
            and self._mode != "floored"
            and self.loss in self._gradient_losses
        )
        if is_gradient:
            return self._methods["gradient"]
        return self._methods["phased" if self.method == "auto" else self.method]

    def _check_solver(self) -> None:
        resolve_solver(self.solver, saddle=True)
