"""What the estimators for the worst group share: groups, their weights, the private fit."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from skdp._checks import check_bool, check_option, check_real
from skdp.algorithms.max_group_loss import max_group_loss, private_proportions
from skdp.linear_model.base import (
    DPLinearModel,
    randomness,
    refuse_fit_params,
    warn_inferred,
)
from skdp.linear_model.classification import declared_labels, encode
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.report import Release
from skdp.problems import Design, EmpiricalRisk, GroupWeights, Records
from skdp.solvers import resolve_solver

__all__ = ["GroupedLinearModel"]

_NO_GROUPS = (
    "fit() was given no groups. In a pipeline or a search pass them as `<step>__groups`, or enable "
    "metadata routing and call set_fit_request(groups=True)."
)
_MODES = ("proportions", "public", "histogram", "floored")


class GroupedLinearModel(DPLinearModel):
    """Base of linear models for the worst group; not for direct use."""

    group_mode: str
    group_names: Any
    group_proportions: Any
    max_group_weight: float
    histogram_share: float
    release_group_weights: bool

    _methods: Any = MappingProxyType({"output": None, "phased": None})
    _is_bounded = True
    n_public = None

    def fit(self, X: Any, y: Any = None, groups: Any = None, **fit_params: Any) -> Any:
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
            For invalid parameters or input, such as a group that is not in `group_names`. Such an
            error is made before anything is computed, is meant for the data holder, and lies
            outside of the guarantee.
        """
        refuse_fit_params(fit_params)
        staged = copy.copy(self)
        staged._check_parameters()
        X, labels = staged._split(X, groups)
        if labels is None and self.group_names is not None:
            raise ValueError(f"group_names were declared, but {_NO_GROUPS}")
        declared = self.group_proportions is not None and not _by_name(self.group_proportions)
        if labels is None and declared:
            raise ValueError(f"group_proportions were declared, but {_NO_GROUPS}")
        staged._fit(X, y, None if labels is None else staged._encoded(labels))
        self.__dict__ = staged.__dict__
        return self

    def _split(self, X: Any, groups: Any) -> tuple[Any, Any]:
        """Features and groups."""
        self._group_column: str | None = None
        if not isinstance(groups, str):
            return X, None if groups is None else _as_labels("groups", groups)
        labels = _column(X, groups)
        self._group_column = groups
        return _drop(X, groups), labels

    def _without_groups(self, X: Any) -> Any:
        """X without the column that held the groups during fit, if it is there."""
        column = getattr(self, "_group_column", None)
        if column is None or column not in list(getattr(X, "columns", ())):
            return X
        return _drop(X, column)

    def group_losses(self, X: Any, y: Any, groups: Any) -> np.ndarray:
        """Mean loss of each group: what was minimised, the largest of them.

        Parameters and result as for :meth:`group_scores`.
        """
        return self._of_groups(X, y, groups, lambda X, y: float(self._record_losses(X, y).mean()))

    def _record_losses(self, X: Any, y: np.ndarray) -> np.ndarray:
        """Loss of each record."""
        raise NotImplementedError

    def group_scores(self, X: Any, y: Any, groups: Any) -> np.ndarray:
        """``score(X, y)`` of each group: accuracy or, of a regressor, R2 within the group.

        Of a regressor they do not order the groups: see :meth:`group_losses`.

        A function of the released coefficients: on records that were not used to fit, it costs
        no budget.

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
        if isinstance(groups, str):
            labels = _column(X, groups)
            if groups not in getattr(self, "feature_names_in_", ()):
                X = _drop(X, groups)
        else:
            labels = _as_labels("groups", groups)
        check_consistent_length(X, y, labels)
        y = np.asarray(y)
        codes = encode(labels, self.group_names_, "groups contains labels not seen in fit.")
        scores = np.full(len(self.group_names_), np.nan)
        for k in range(len(scores)):
            rows = np.flatnonzero(codes == k)
            if len(rows):
                scores[k] = function(_rows_of(X, rows), y[rows])
        return scores

    def _default_groups(self, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Codes and names of the groups if none are given."""
        raise NotImplementedError

    def _encoded(self, labels: np.ndarray) -> np.ndarray:
        """Set ``group_names_``; return the position of each record's group in it."""
        if self.group_names is None:
            names = np.unique(labels)
            warn_inferred("The groups", "group_names")
        else:
            declared = _as_labels("group_names", self.group_names)
            names = declared_labels("group_names", declared, 1)
        self.group_names_ = names
        return encode(labels, names, "groups contains labels that are not in `group_names`.")

    def _proportions(self, n_groups: int, are_given: bool) -> np.ndarray:
        """The declared proportions in the order of ``group_names_``; by default equal ones."""
        given = self.group_proportions
        if given is None:
            if are_given and n_groups > 1:
                warnings.warn(
                    "group_proportions were not declared: all groups are taken to be equally "
                    "large, and a smaller one counts for less. Declare public ones, or use "
                    "group_mode='histogram'.",
                    UserWarning,
                    stacklevel=5,
                )
            return np.full(n_groups, 1.0 / n_groups)
        if _by_name(given):
            given = given if isinstance(given, Mapping) else given.to_dict()
            names = self.group_names_.tolist()
            if set(given) != set(names):
                raise ValueError(
                    f"group_proportions has the keys {sorted(map(str, given))}, the groups are "
                    f"{sorted(map(str, names))}."
                )
            given = [given[name] for name in names]
        elif self.group_names is not None:
            # declared in the order of group_names; group_names_ is sorted
            order = np.argsort(np.asarray(self.group_names), kind="stable")
            given = np.asarray(given)
            if given.shape == order.shape:
                given = given[order]
        proportions = np.asarray(given)
        if proportions.dtype.kind not in "iuf" or proportions.shape != (n_groups,):
            raise ValueError(
                f"group_proportions must be {n_groups} numbers, one per group, or a dict; got "
                f"{self.group_proportions!r}."
            )
        proportions = proportions.astype(np.float64)
        if not (np.isfinite(proportions).all() and (proportions > 0).all()):
            raise ValueError(
                f"group_proportions == {self.group_proportions!r}, must be finite and > 0: a group "
                "without records has no loss."
            )
        if abs(float(proportions.sum()) - 1.0) > 1e-6:
            raise ValueError(
                f"group_proportions sum to {float(proportions.sum()):g}, they must sum to 1."
            )
        return proportions

    def _private_weights(
        self, records: Records, risk: EmpiricalRisk, caveats: tuple[str, ...] = ()
    ) -> np.ndarray:
        budget = PrivacyBudget(self.epsilon, self.delta)
        about_groups: tuple[str, ...] = ()
        are_given = records.groups is not None
        if not are_given:
            groups, self.group_names_ = self._default_groups(records.targets)
            records = records.with_targets(records.targets, groups)
        elif self.group_names is None:
            about_groups = ("group_names were inferred from groups",)
        codes = records.groups
        n_groups = len(self.group_names_)
        solver_rng, noise = randomness(self.random_state)
        cap, share = float(self.max_group_weight), 1.0
        releases: tuple[Release, ...] = ()
        if self.calibration == "paper":
            about_groups += ("calibration='paper' spends half of the budget",)
        proportions: np.ndarray | None = None
        if self.group_mode == "public":
            proportions = np.bincount(codes, minlength=n_groups) / len(codes)
            weights = GroupWeights.of_proportions(proportions, cap, public_groups=True)
            what = "group" if are_given else "class"
            about_groups += (f"the {what} of each record is taken as public: it is not protected",)
        elif self.group_mode == "proportions":
            proportions = self._proportions(n_groups, are_given)
            weights = GroupWeights.of_proportions(proportions, cap)
        elif n_groups == 1:  # it has all the records: nothing to estimate, no floor
            weights = GroupWeights((1.0,))
        elif self.group_mode == "floored":
            weights = GroupWeights((cap,) * n_groups, floored=True)
        else:
            share = 1.0 - float(self.histogram_share)
            proportions, histogram = private_proportions(
                codes, n_groups, budget, share=float(self.histogram_share), noise=noise
            )
            weights, releases = GroupWeights.of_proportions(proportions, cap), (histogram,)
        design = Design.of(records)
        radius = risk.reference_norm(design) if self.coef_norm is None else float(self.coef_norm)
        alpha = 0.0 if self.alpha == "auto" else float(self.alpha)
        result = max_group_loss(
            records,
            risk,
            weights,
            budget,
            radius=radius,
            alpha=alpha,
            share=share,
            release_weights=bool(self.release_group_weights),
            n_phases=1 if self.method == "output" else None,
            calibration=self.calibration,  # type: ignore[arg-type]
            objective=self.objective,  # type: ignore[arg-type]
            solver=self.solver,
            solver_rng=solver_rng,
            noise=noise,
            verbose=self.verbose,
        )
        phases = result.plan.regularisation
        # the penalty of the one shot is a property of the result; that of phases has no one center
        self.alpha_ = alpha + phases[0] if len(phases) == 1 else alpha
        for name in ("group_weights_", "group_proportions_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        if result.group_weights is not None:
            self.group_weights_ = result.group_weights
        if proportions is not None:
            self.group_proportions_ = proportions
        plan = {
            "risk": repr(risk),
            "radius": radius,
            "group_mode": self.group_mode,
            "group_names": [str(name) for name in self.group_names_],
            "largest_group_weights": list(weights.largest),
            **result.plan.to_dict(),
        }
        if proportions is not None:
            plan["group_proportions"] = proportions.tolist()
        if self.release_group_weights:
            plan["group_weights_noise"] = result.plan.phases[-1].noise_scale_y
        if not risk.is_smooth:
            plan["smoothing"] = result.risk.smoothing
        released = "coefficients"
        if result.plan.released == "joint":
            released = "(sqrt(mu_x) coefficients, sqrt(mu_y) group weights)"
        self.privacy_ = self._report(
            "output" if len(phases) == 1 else "phased",
            (*releases, result.plan.release(released)),
            plan,
            records,
            design.n_records,
            caveats + about_groups,
        )
        return result.point.reshape(risk.loss.n_outputs, records.width)

    def _check_parameters(self) -> None:
        check_option("group_mode", self.group_mode, _MODES)
        if self.group_proportions is not None and self.group_mode != "proportions":
            raise ValueError(
                f"group_proportions are for group_mode='proportions', not {self.group_mode!r}."
            )
        check_real("max_group_weight", self.max_group_weight, 1.0, 1e9)
        check_real("histogram_share", self.histogram_share, 1e-6, 1.0 - 1e-6)
        check_bool("release_group_weights", self.release_group_weights)
        check_option("neighbouring", self.neighbouring, ("replace_one", "add_remove"))
        if self.neighbouring != "replace_one":
            raise ValueError(
                "The worst group's loss is proven for neighbouring='replace_one' only."
            )
        super()._check_parameters()
        if self.calibration == "paper":
            if self.method == "output" or self.release_group_weights:
                raise ValueError("calibration='paper' has phases, of the coefficients alone.")
            if self.group_mode == "histogram":
                raise ValueError("calibration='paper' has no share of the budget for a histogram.")
            if not (self.delta > 0 and self.epsilon < 2.0):
                raise ValueError("calibration='paper' is proven for epsilon < 2, delta > 0 only.")

    def _check_method(self) -> None:
        pass

    def _check_solver(self) -> None:
        resolve_solver(self.solver, saddle=True)


def _as_labels(name: str, groups: Any) -> np.ndarray:
    """The groups as a 1-d array of one kind of labels, none of them missing."""
    labels = np.asarray(groups)
    if labels.ndim != 1:
        raise ValueError(f"{name} must be 1-dimensional, got an array of shape {labels.shape}.")
    entries = labels
    if labels.dtype.kind == "U" and not hasattr(groups, "dtype"):
        # a list in which numpy turned everything into strings, NaN and numbers included
        entries = np.asarray(groups, dtype=object)
    if entries.dtype != object:
        missing = bool((entries != entries).any())
    else:
        missing = any(_is_missing(label) for label in entries)
    if missing:
        raise ValueError(f"{name} contains missing values.")
    if entries.dtype == object:
        strings = [isinstance(label, str) for label in entries]
        if any(strings) and not all(strings):
            raise ValueError(f"{name} mixes strings with labels of other types.")
        if not any(strings):  # numbers of a nullable type
            labels = np.array(entries.tolist())
    return labels


def _by_name(proportions: Any) -> bool:
    """Whether proportions have names: a dict, or a Series of pandas."""
    return isinstance(proportions, Mapping) or hasattr(proportions, "to_dict")


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas.NA is neither true nor false
        return True


def _column(X: Any, name: str) -> np.ndarray:
    """The groups that a column of a data frame holds."""
    if name not in list(getattr(X, "columns", ())):
        raise ValueError(
            f"groups == {name!r} is the name of a column, but X is no data frame with such a "
            "column. (In a pipeline X is what the steps before return: pass the values.)"
        )
    return _as_labels("groups", X[name])


def _drop(X: Any, column: str) -> Any:
    """A data frame without a column."""
    return X.drop(columns=column) if hasattr(X, "iloc") else X.drop(column)


def _rows_of(X: Any, rows: np.ndarray) -> Any:
    """Some rows of a frame, a matrix or a list of lists."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if issparse(X):
        X = X.tocsr()
    return X[rows] if hasattr(X, "shape") else np.asarray(X)[rows]
