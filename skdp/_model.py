"""Models of bounded rows: what linear models and networks share."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skdp._checks import check_real
from skdp._estimator import PrivateEstimator, noise_alarms, refuse_fit_params, staged
from skdp._records import validate_records
from skdp.algorithms.methods import Choice
from skdp.problems import Design, EmpiricalRisk, Loss, Records

if TYPE_CHECKING:
    from typing_extensions import Self


class PrivateModel(PrivateEstimator):
    """Base of private models of rows of bounded norm; not for direct use."""

    data_norm: float | None

    def fit(self, X: Any, y: Any = None, **fit_params: Any) -> Self:
        """Fit the model privately.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows longer than `data_norm` are scaled down to it.
        y : array-like of shape (n_samples,)
        **fit_params : dict
            Must be empty. `sample_weight` is refused, because the guarantee is per record: the
            sensitivity grows by the largest weight.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            For invalid parameters or input, before anything is computed. The error is for the
            data holder and lies outside of the guarantee.
        BudgetExceededError
            If the fit would exceed the budget of an accountant; nothing has then been computed.
        """
        refuse_fit_params(fit_params)
        with staged(self) as model:
            model._fit(X, y)
        return self

    @abstractmethod
    def _fit(self, X: Any, y: Any, groups: np.ndarray | None = None) -> None:
        """Set the fitted attributes."""

    def _validated(self, X: Any, y: Any, **options: Any) -> tuple[Any, Any]:
        return validate_records(self, X, y, accept_sparse="csr", **options)

    @abstractmethod
    def _private_weights(
        self, records: Records, risk: EmpiricalRisk, caveats: tuple[str, ...] = ()
    ) -> Any:
        """Plan and run the method; set ``privacy_`` and return what was fitted."""

    @abstractmethod
    def _planned(self, design: Design, risk: EmpiricalRisk, n_groups: int | None = None) -> Choice:
        """Choose the method and its plan from public numbers."""

    @abstractmethod
    def _check_parameters(self) -> None:
        """Refuse invalid parameters before any input is looked at."""

    @abstractmethod
    def _scores(self, X: Any) -> np.ndarray:
        """Compute scores of the bounded rows, shape (n_samples, n_outputs)."""

    def _warn_undeclared(self) -> None:
        """Warn of each bound that was not declared, for any records."""
        for consequence in self._undeclared():
            warnings.warn(consequence, UserWarning, stacklevel=4)

    def _undeclared(self) -> Iterator[str]:
        """Yield the consequence of each bound that was not declared."""
        if self.data_norm is None:
            yield (
                "data_norm was not declared: rows are scaled down to Euclidean norm 1. Scale raw "
                "features with skdp.preprocessing.BoundedScaler(ranges) and Normalizer() and "
                "declare data_norm=1.0; if rows are scaled already, declare their public bound."
            )

    def _records(self, X: Any, targets: np.ndarray, groups: np.ndarray | None = None) -> Records:
        """Return the records with bounded rows and the intercept feature."""
        self.data_norm_ = self._norm_bound
        return Records(X, self.data_norm_, self._intercept_value, targets=targets, groups=groups)

    def _plan_of_shape(
        self, n_samples: int, n_features: int, n_classes: int | None, n_groups: int | None
    ) -> tuple[Choice, Design]:
        """Plan a fit on records of a shape; see :func:`skdp.inspection.plan_fit`."""
        self._check_parameters()
        n_public = self._public_size(n_samples)
        # no row at all: the bounds of rows, and the size of a block, follow from the width
        empty = Design.of(self._records(np.zeros((0, n_features)), np.zeros(0)), n_public)
        design = replace(empty, n_records=n_public or n_samples)
        return self._planned(design, self._public_risk(n_classes), n_groups), design

    @abstractmethod
    def _public_risk(self, n_classes: int | None) -> EmpiricalRisk:
        """Make the risk from the parameters and the public number of classes, if it has any."""

    def _warn(self, plan: Any, records: Records, is_planned: bool = False) -> None:
        """Issue the warnings that follow from a plan.

        They come before the payment, so that one that a filter turns into an error costs nothing.
        The first release may enter the plans of later ones, and then what their noise is: only if
        `is_planned` are they looked at, too.
        """
        releases = plan.releases if is_planned else plan.releases[:1]
        size = self._public_size(records.n_records) or records.n_records
        radius = plan.to_dict().get("radius", math.inf)
        alarms = (
            *plan.alarms(),
            *self._delta_alarms(size),
            *noise_alarms(releases, records.norm_bound, radius),
        )
        for alarm in alarms:
            warnings.warn(f"{alarm.rstrip('.')}.", UserWarning, stacklevel=5)

    def _report(
        self,
        method: str,
        plan: Any,
        records: Records,
        risk: EmpiricalRisk,
        caveats: tuple[str, ...],
        public: dict[str, Any],
        remarks: tuple[str, ...] = (),
    ) -> None:
        """Set ``privacy_``; `public` holds numbers besides those of the plan."""
        releases, n_records = plan.releases, records.n_records
        alarms = self._delta_alarms(self._public_size(n_records) or n_records)
        numbers = {
            "data_norm": records.data_norm,
            "feature_norm": records.norm_bound,
            "risk": repr(risk),
            **plan.to_dict(),
            **public,
        }
        if not risk.is_smooth:
            numbers["smoothing"] = plan.risk.smoothing
        sizes = records.norm_bound, numbers.get("radius", math.inf)
        if "feature_bound" not in numbers:
            remarks = (f"rows are shortened to Euclidean norm {records.data_norm:g}", *remarks)
        self._set_report(
            releases,
            alarms + caveats,
            method=method,
            plan=numbers,
            remarks=(*remarks, *noise_alarms(releases, *sizes)),
        )

    def _risk(self, loss: Loss) -> EmpiricalRisk:
        """Make the risk of a loss."""
        return EmpiricalRisk(loss)

    def _public_size(self, n_records: int) -> int | None:
        """Nominal number of records under add/remove; None where their number is public."""
        return None

    def _size_caveats(self) -> tuple[str, ...]:
        """State what is disclosed about the number of records."""
        return ()

    @property
    def _norm_bound(self) -> float:
        """Public bound on the norm of a row."""
        return 1.0 if self.data_norm is None else float(self.data_norm)

    @property
    @abstractmethod
    def _intercept_value(self) -> float:
        """Value of the constant feature; 0 without an intercept."""

    def _check_shared(self) -> None:
        super()._check_shared()
        if self.data_norm is not None:  # its square must neither overflow nor vanish
            check_real("data_norm", self.data_norm, 1e-50, 1e50)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
