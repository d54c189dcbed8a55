"""Models of bounded rows: what linear models and networks share."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skdp._estimator import PrivateEstimator, noise_alarms, staged, taken_weights
from skdp._records import distinct_persons, validate_records
from skdp._runtime import without_warnings
from skdp._sources import ChunkCheck
from skdp._types import Self
from skdp._units import (
    NO_WEIGHT,
    NO_WEIGHT_BOUND,
    ClippedWeights,
    record_weights,
    refuse_id_features,
    take_user_ids,
)
from skdp.algorithms.plan import check_memory
from skdp.algorithms.weight_noise import WeightNoise
from skdp.data.collections import as_source
from skdp.data.sources import RecordSource
from skdp.methods.choice import Choice
from skdp.problems import Design, EmpiricalRisk, Loss, Records
from skdp.problems.bounding import Bounding, Encoder
from skdp.problems.chunked_records import ChunkedRecords
from skdp.problems.constants import check_nominal_size
from skdp.problems.surveys import Surveyor

_NO_PERSONS = (
    "max_records_per_user is for persons, but there are no user_ids: the guarantee would be for "
    "single records."
)
#: Methods of phases, by name and by class, which may come to one.
_PHASED = ("phased", "PhasedOutputPerturbation", "PhasedSaddle")


class PrivateModel(PrivateEstimator):
    """Base of private models of rows of bounded norm; not for direct use."""

    data_norm: float | None
    #: A parameter of those models that have a proof for add/remove neighbours.
    n_public: int | None
    #: Parameters of those models that have a proof for units other than records.
    weight_bound: float | None = None
    max_records_per_user: int | None = None
    #: Weights are metadata: as a named parameter, weight 2 would have to equal two records.
    __metadata_request__fit: ClassVar = {"sample_weight": None}
    #: What of units other than records a source may hold.
    _units_of_sources: tuple[str, ...] = ("user_ids", "sample_weight")
    #: Of the coefficients of the last fit, where its method tells it.
    _noise: WeightNoise | None = None
    #: What a fit warns of at its end.
    _found_alarms: tuple[str, ...] = ()

    def fit(self, X: Any, y: Any = None, *, user_ids: Any = None, **fit_params: Any) -> Self:
        """Fit the model privately.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or RecordSource
            Rows longer than `data_norm` are scaled down to it. A source of `skdp.data` holds all
            that follows. Dask collections of equal partitions are taken, too.
        y : array-like of shape (n_samples,)
        user_ids : array-like of shape (n_samples,), str or None, default=None
            Whose record each is: integers or strings, or the name of a column of a data frame X,
            which then is no feature. The guarantee is then for a person with all its records,
            whose weights add up to 1.
        **fit_params : dict
            `sample_weight`, an array-like of shape (n_samples,) or None: weights >= 0, which are
            divided by `weight_bound` and clipped to 1. It is metadata of scikit-learn.

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
        sample_weight = taken_weights(fit_params)
        column = user_ids if isinstance(user_ids, str) else None
        X, user_ids = take_user_ids(X, user_ids)
        source = as_source(X, y, user_ids=user_ids, sample_weight=sample_weight)
        with staged(self) as model:
            model._id_column = column
            model._fit(X if source is None else source, y, None, (user_ids, sample_weight))
        return self

    @abstractmethod
    def _fit(self, X: Any, y: Any, groups: Any = None, given: Any = (None, None)) -> None:
        """Set the fitted attributes; `given` are the ids of persons and the weights of records."""

    def _validated(self, X: Any, y: Any, given: tuple[Any, Any], **options: Any) -> tuple[Any, ...]:
        """Return records in memory, codes of their persons and their weights.

        Where there are no persons or weights, they are None.
        """
        least = int(not self._may_be_empty)
        options = {"accept_sparse": "csr", "ensure_min_samples": least, **options}
        X, y = validate_records(self, X, y, **options)
        check_memory(X.shape[1])
        persons = weights = None
        user_ids, sample_weight = given
        if user_ids is None and self.max_records_per_user is not None:
            raise ValueError(_NO_PERSONS)
        if user_ids is not None:
            persons = distinct_persons(user_ids, X.shape[0])[1]
            if isinstance(X, np.ndarray):
                names = getattr(self, "feature_names_in_", range(X.shape[1]))
                refuse_id_features(zip(names, X.T, strict=True), user_ids)
        if sample_weight is not None:
            bound = float(self.weight_bound or 1.0)
            weights = record_weights(sample_weight, bound, X.shape[0])
            self._check_weights(bool(weights.any()))
        return X, y, persons, weights

    def _check_weights(self, is_any: bool) -> None:
        """Refuse weights that are all zero where no records are; warn of an undeclared bound."""
        if self.weight_bound is None:
            warnings.warn(NO_WEIGHT_BOUND, UserWarning, stacklevel=5)
        if not (is_any or self._may_be_empty):
            raise ValueError(NO_WEIGHT)

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

    def _score_noise(self, X: Any, slopes: np.ndarray | None = None) -> np.ndarray:
        """Return standard deviations of the noise in the scores, or in functions of them.

        Parameters and result are those of :meth:`skdp.algorithms.weight_noise.WeightNoise.scores`.
        """
        check_is_fitted(self)
        if self._noise is None:
            raise ValueError(
                f"What method={self.privacy_.method!r} releases does not tell how far noise moves "
                "predictions: return_std must be False."
            )
        X = validate_records(self, self._features_of(X), accept_sparse="csr", reset=False)
        with without_warnings():
            return self._noise.scores(Records(X, self.data_norm_), slopes)

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

    @contextmanager
    def _surveyed(self, X: Any, check: ChunkCheck, labels: Any = None) -> Iterator[Surveyor | None]:
        """Open a source and yield its surveyor; None for records in memory.

        `check` and `labels` are those of :class:`~skdp.problems.surveys.SurveyTask`.
        """
        if not isinstance(X, RecordSource):
            yield None
            return
        self._check_chunked()
        with X.opened() as source:
            yield Surveyor(
                source,
                X.feature_names,
                check=check,
                labels=labels,
                units=self._units_of_sources,
                name=type(self).__name__,
                may_be_empty=self._may_be_empty,
                **self._survey_parts(),
            )

    def _survey_parts(self) -> dict[str, Any]:
        """Return further parts of :class:`~skdp.problems.surveys.SurveyTask`."""
        return {}

    def _check_chunked(self) -> None:
        """Refuse what needs all records in memory."""
        raise ValueError(f"{type(self).__name__} needs all records in memory.")

    def _chunked(self, surveyor: Surveyor, targets: Encoder) -> ChunkedRecords:
        """Survey a source; return its records with bounded rows and the intercept feature."""
        self.data_norm_ = self._norm_bound
        bounding = Bounding(
            data_norm=self.data_norm_,
            intercept=self._intercept_value,
            targets=targets,
            groups=self._group_encoder(lambda: surveyor.seen.groups),
            weights=ClippedWeights(float(self.weight_bound or 1.0)),
            persons=distinct_persons,
            max_records=self.max_records_per_user,
        )
        survey = surveyor.survey(bounding)
        if survey.n_persons is None:
            if self.max_records_per_user is not None:
                raise ValueError(_NO_PERSONS)
            bounding = replace(bounding, persons=None)
        if survey.shape.is_weighted:
            self._check_weights(survey.has_weight)
        else:
            bounding = replace(bounding, weights=None)
        check_memory(survey.shape.n_features)
        self.n_features_in_ = survey.shape.n_features
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        if survey.shape.names is not None:
            self.feature_names_in_ = np.array(survey.shape.names, dtype=object)
        return ChunkedRecords(surveyor.source, survey, bounding, type(self).__name__)

    def _group_encoder(self, seen: Callable[[], np.ndarray | None]) -> Encoder | None:
        """Encode groups of declared names, or of those that were `seen`, if they matter."""
        return None

    def _plan_of_shape(
        self,
        n_samples: int,
        n_features: int,
        n_classes: int | None,
        n_groups: int | None,
        n_users: int | None = None,
    ) -> tuple[Choice, Design]:
        """Plan a fit on records of a shape; see :func:`skdp.inspection.plan_fit`."""
        self._check_parameters()
        n_units = n_samples if n_users is None else n_users
        n_public = self._public_size(n_units)
        # no row at all: the bounds of rows, and the size of a block, follow from the width
        empty = Design.of(self._records(np.zeros((0, n_features)), np.zeros(0)), n_public)
        design = replace(empty, n_records=n_public or n_units, of_persons=n_users is not None)
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
        size = self._public_size(records.n_units) or records.n_units
        alarms = (*plan.alarms(), *self._delta_alarms(size), *noise_alarms(plan, releases))
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
        releases, n_units = plan.releases, records.n_units
        n_public = self._public_size(n_units)
        caveats = self._delta_alarms(n_public or n_units) + caveats
        if n_public is not None and self.n_public is None:
            caveats += (
                "n_public was not given: len(X) is disclosed, and the guarantee holds only as if "
                "that number had been fixed beforehand",
            )
        numbers = {
            "data_norm": records.data_norm,
            "feature_norm": records.norm_bound,
            "risk": repr(risk),
            **plan.to_dict(),
            **public,
        }
        if not risk.is_smooth:
            numbers["smoothing"] = plan.risk.smoothing
        self._found_alarms = plan.found_alarms()
        if "feature_bound" not in numbers:
            remarks = (f"rows are shortened to Euclidean norm {records.data_norm:g}", *remarks)
        is_solved = method in _PHASED and "n_steps" not in numbers
        if is_solved and len(numbers.get("block_sizes", [n_units])) == 1:
            name = f"method={method!r} came to one phase"
            remarks = (f"{name}: output perturbation, one solve on all records", *remarks)
        remarks = (*remarks, *noise_alarms(plan, releases))
        self._set_report(releases, caveats, method=method, plan=numbers, remarks=remarks)

    def _risk(self, loss: Loss) -> EmpiricalRisk:
        """Make the risk of a loss."""
        return EmpiricalRisk(loss)

    def _public_size(self, n_units: int) -> int | None:
        """Nominal number of records under add/remove; None where their number is public."""
        if self.neighbouring == "replace_one":
            return None
        n_public = max(1, n_units) if self.n_public is None else int(self.n_public)
        check_nominal_size(n_public, n_units)
        return n_public

    @property
    def _norm_bound(self) -> float:
        """Public bound on the norm of a row."""
        return 1.0 if self.data_norm is None else float(self.data_norm)

    @property
    @abstractmethod
    def _intercept_value(self) -> float:
        """Value of the constant feature; 0 without an intercept."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
