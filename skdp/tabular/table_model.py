"""The base of private models of tables."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any, ClassVar, get_args

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from skdp._checks import check_option
from skdp._estimator import PrivateEstimator, staged, taken_weights
from skdp._model import PrivateModel
from skdp._runtime import without_warnings
from skdp._sources import LabelCodes
from skdp._types import ColumnsLeft, Relation, Self, TableFeatures
from skdp._units import take_user_ids
from skdp.algorithms.core.intervals import INTERVALS_SHARE, least_records, plan_newton
from skdp.algorithms.core.noisy_sums import Level
from skdp.algorithms.plan import Plan, Run
from skdp.algorithms.statistics.histograms import HistogramsPlan
from skdp.data.collections import as_source, over_chunks
from skdp.linear_model import DPLogisticRegression, DPRidge
from skdp.methods.choice import Choice
from skdp.privacy.budget_accountant import spend
from skdp.privacy.charges import Prepaid, Rehearsed
from skdp.privacy.events import ComposedEvent, GaussianEvent, Neighbouring, PrivacyEvent
from skdp.privacy.gaussian_dp import gaussian_budget
from skdp.privacy.report import PrivacyReport
from skdp.problems import Design
from skdp.tabular.columns import Declaration
from skdp.tabular.feature_plan import FeaturePlan, effective_size, plan_of_parts
from skdp.tabular.given_tables import Bins, TableInChunks, TableInMemory
from skdp.tabular.matching import (
    as_declaration,
    categories_of_frame,
    check_levels,
    declarations,
    is_by_name,
    matched,
    paired_parts,
    parts_of,
    refuse_without_limits,
    without_limits,
)
from skdp.tabular.rank_maps import (
    MOST,
    SCALE,
    ColumnMaps,
    found_limits,
    planned_histograms,
    planned_limits,
    rarer_class,
)
from skdp.tabular.row_features import MOST_DIRECTIONS, RowFeatures, capped_plan
from skdp.tabular.table_encoder import TableEncoder, table_of


@contextmanager
def _paid_for(mu: float, relation: Neighbouring, is_rehearsal: bool = False) -> Iterator[None]:
    """Let a fit go on, silently, within what was paid; or stop a rehearsal where it would pay."""
    with Prepaid(mu, False, is_rehearsal, relation).paying():
        if is_rehearsal:
            with suppress(Rehearsed):
                yield
            return
        with without_warnings():
            yield


class MappedPlan:
    """The plan of a linear model after histograms of the columns."""

    def __init__(self, histograms: Sequence[HistogramsPlan], plan: Plan) -> None:
        self._plan = plan
        self.releases = tuple(release for each in (*histograms, plan) for release in each.releases)
        self.event = ComposedEvent([each.event for each in (*histograms, plan)])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # of a copy that is not made yet
            raise AttributeError(name)
        return getattr(self._plan, name)


class TabularModel(PrivateEstimator):
    """Base of private models of tables; not for direct use."""

    neighbouring: Relation
    columns: Any
    features: TableFeatures
    pairs: Any
    columns_left: ColumnsLeft
    maps: str | None
    column_maps_: dict[str, np.ndarray]
    columns_dropped_: tuple[str, ...]
    n_public: int | None
    weight_bound: float | None
    intervals: bool
    classes: Any = None
    #: Weights are metadata: as a named parameter, weight 2 would have to equal two records.
    __metadata_request__fit: ClassVar = {"sample_weight": None}
    #: Kind of the model of the encoded rows, which gets all parameters that it shares.
    _linear_kind: ClassVar[type[DPLogisticRegression | DPRidge]]

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        user_ids: Any = None,
        **fit_params: Any,
    ) -> Self:
        """Fit the model privately.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_columns), or RecordSource
            Numbers outside of their range are clipped to it. A source of `skdp.data` holds the
            targets; rows are encoded where they are read. Dask collections are taken, too.
        y : array-like of shape (n_samples,)
        user_ids : array-like of shape (n_samples,), str or None, default=None
            Whose record each is: integers or strings, or the name of a column of a data frame X,
            which then is no feature and not declared. The guarantee is then for a person with all
            its records, whose weights add up to 1. None: every record is a person of its own.
        **fit_params : dict
            `sample_weight`, an array-like of shape (n_samples,) or None: weights >= 0, which are
            divided by `weight_bound` and clipped to 1. It is metadata: with metadata routing ask
            for it by ``set_fit_request(sample_weight=True)``.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            For invalid parameters or input, before anything is computed; errors about X name the
            column. They are for the data holder and lie outside of the guarantee.
        BudgetExceededError
            If the fit would exceed the budget of an accountant; nothing has then been computed.
        """
        sample_weight = taken_weights(fit_params)
        column = user_ids if isinstance(user_ids, str) else None
        if column is not None and is_by_name(self.columns) and column in self.columns:
            raise ValueError(
                f"columns declares {column!r}, which has the ids of persons: it is no feature. "
                "Leave it out of columns."
            )
        X, user_ids = take_user_ids(X, user_ids)
        source = as_source(X, y, user_ids=user_ids, sample_weight=sample_weight)
        with staged(self) as model:
            model._id_column = column
            linear = model._checked_model()
            linear._sent_from, linear._charged_as = model._sent_from, type(model).__name__
            table: TableInMemory | TableInChunks
            if source is None:
                table = TableInMemory.of(model, X, y, user_ids, sample_weight)
            else:
                table = TableInChunks.of(model, source)
            for each, arguments, context in model._stages(linear, table):
                each._levels = model.encoder_.row_features.levels
                with context:  # not `fit`: its warnings are of this line
                    each._fit(*arguments)
            model.privacy_ = model._report(linear.privacy_)
            model._found_alarms = linear.__dict__.pop("_found_alarms", ())
            model.model_ = linear
        return self

    def _stages(
        self, linear: PrivateModel, table: TableInMemory | TableInChunks
    ) -> Iterator[tuple[PrivateModel, Any, AbstractContextManager[None]]]:
        """Release limits and maps of numbers, plan features, yield models that are to be fitted.

        Before histograms are paid for comes a copy that stops where it would pay: its checks and
        its warnings are those of the fit.
        """
        found = matched(self.columns, table.first, self.columns_left)
        if isinstance(table, TableInMemory):
            check_levels(found, table.first)
        self._own_types = tuple(categories_of_frame(self.columns, found, table.first))
        schema = {column.name: column.declaration for column in found}
        limits, maps = self._planned_histograms(schema, table.n_units, table.is_of_persons)
        plans = [plan for plan in (limits, maps) if plan is not None]
        searched = without_limits(schema)
        searched = {name: replace(SCALE, missing=each.missing) for name, each in searched.items()}
        schema |= searched
        self._set_encoder(schema, table, bool(searched))
        self._histograms = tuple(release for plan in plans for release in plan.releases)
        self.column_maps_, self.columns_dropped_ = {}, ()
        if not plans:
            yield linear, table.arguments(table.encoded(self.encoder_)), nullcontext()
            return
        run, mu, relation = self._run(), self._leave(linear, plans), plans[0].neighbouring
        if self.random_state is not None:  # noise of its own
            linear.random_state = int.from_bytes(run.rng.bytes(32), "little")
        rehearsed = copy.copy(linear)
        blank = table.arguments(table.blank(self.encoder_))
        yield rehearsed, blank, _paid_for(mu, relation, is_rehearsal=True)
        events = [*(plan.event for plan in plans), GaussianEvent(1.0 / mu, relation)]
        if limits is not None:
            counts = self._counts(table, limits, run, searched, None, events)
            deviation = float(limits.deviations[0])
            for name, found_ in zip(searched, counts, strict=True):
                schema[name] = found_limits(found_, deviation, searched[name])
            self._set_encoder(schema, table, True)
        released, rarer = None, None
        if maps is not None:
            numbers = self.encoder_.row_features.numbers
            labels = LabelCodes(rehearsed.classes_) if len(maps.scales) > len(numbers) else None
            counts = self._counts(table, maps, run, schema, labels, events)
            released = ColumnMaps.of(counts, maps, numbers)
            names = [part.name for part in parts_of(schema)]
            # one bin may hold all of a number whose limits were found
            kept = {k for k in numbers if names[k] in map(str, searched)}
            kept = kept if self.features == "auto" else {*numbers}
            released = replace(released, constant=released.constant - kept)
            self.column_maps_ = {names[k]: each for k, each in released.values.items()}
            self.columns_dropped_ = tuple(names[k] for k in sorted(released.constant))
            rarer = None if labels is None else rarer_class(counts[-1], len(labels.classes))
        self._set_encoder(schema, table, bool(searched), released, rarer)
        yield linear, table.arguments(table.encoded(self.encoder_)), _paid_for(mu, relation)

    def _counts(
        self,
        table: TableInMemory | TableInChunks,
        plan: HistogramsPlan,
        run: Run,
        columns: Container[Any],
        labels: LabelCodes | None,
        events: list[PrivacyEvent],
    ) -> np.ndarray:
        """Release counts of some columns; all events are paid for before the first of them."""
        with table.bins(Bins(self.encoder_, columns, plan.n_bins - 1), labels) as bins:
            if events:
                event, name = ComposedEvent(events), type(self).__name__
                # not `_spend`: the rehearsal has warned
                spend(event, self.accountant, label=name, carried=self._sent_from)
                events.clear()
            return plan.run(bins, run).point.reshape(-1, plan.n_bins)

    def _leave(self, linear: PrivateModel, plans: Sequence[HistogramsPlan]) -> float:
        """Set the budget of the linear model to what histograms leave; return its mu."""
        mu = math.sqrt(Level.of(self._budget).mu ** 2 - math.fsum(plan.mu**2 for plan in plans))
        budget = gaussian_budget(mu, self.delta)
        linear.set_params(epsilon=budget.epsilon, delta=budget.delta)
        return mu

    def _planned_histograms(
        self, schema: dict[Any, Declaration], n_units: int, is_of_persons: bool
    ) -> tuple[HistogramsPlan | None, HistogramsPlan | None]:
        """Plan what is released for limits and for maps of numbers."""
        if self.maps is None or self.delta == 0:
            refuse_without_limits(schema)
            return None, None
        searched = [*without_limits(schema)]
        relation = Neighbouring(self.neighbouring)
        relation = relation.of_persons if is_of_persons else relation
        n, parts = self._nominal(n_units), parts_of(schema)
        pairs = paired_parts(self.pairs, schema)
        features = RowFeatures(parts, self._planned_features(schema, n_units), pairs)
        mu = Level.of(self._budget).mu
        limits = planned_limits(n, searched, mu, self.delta, relation) if searched else None
        maps = planned_histograms(
            n,
            len(features.numbers),
            mu,
            relation,
            # where a class of a twentieth of the records could be too rare for the features
            is_classifier(self) and features.directions > MOST_DIRECTIONS * n / 20,
        )
        return limits, maps

    def _nominal(self, n_units: int) -> int:
        """The public number of records or persons."""
        return max(1, n_units) if self.n_public is None else self.n_public

    def _set_encoder(
        self,
        schema: dict[Any, Declaration],
        table: TableInMemory | TableInChunks,
        is_changed: bool,
        maps: ColumnMaps | None = None,
        rarer: float | None = None,
    ) -> None:
        """Plan the features and fit the encoder, by given declarations if limits were found."""
        columns = schema if is_by_name(self.columns) else [*schema.values()]
        self.feature_plan_ = self._planned_features(schema, table.n_units, maps, rarer)
        self.encoder_ = TableEncoder(
            columns if is_changed else self.columns,
            features=self.feature_plan_,
            pairs=self.pairs,
            columns_left=self.columns_left,
            maps=maps,
        )
        self.encoder_._fit_table(table.first)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(self.encoder_, name, getattr(self, name))

    def _report(self, report: PrivacyReport) -> PrivacyReport:
        """Add the features to the report of the linear model."""
        features = self.encoder_.row_features.to_dict()
        caveats = tuple(
            f"the categories of {name!r} are those of the type of the column that was fitted: they "
            "are public only if the type was written down without the records"
            for name in self._own_types
        )
        return replace(
            report,
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            releases=(*self._histograms, *report.releases),
            plan={**report.plan, "features": features},
            caveats=(*report.caveats, *caveats),
        )

    def _checked_model(self) -> PrivateModel:
        """Check the parameters and make the linear model."""
        check_option("features", self.features, get_args(TableFeatures))
        check_option("columns_left", self.columns_left, get_args(ColumnsLeft))
        if self.maps is not None:
            check_option("maps", self.maps, ("auto",))
        linear = self._linear_kind(data_norm=1.0)
        given = self.get_params(deep=False)
        shared = given.keys() & linear.get_params(deep=False).keys()
        linear.set_params(**{name: given[name] for name in shared})
        linear._check_parameters()
        if self.intervals:
            named = {"pairs": self.pairs, "features='pairs'": self.features == "pairs"}
            linear._refuse(*(name for name, is_given in named.items() if is_given))
            if given.get("classes", ()) is None:
                raise ValueError("intervals=True plans features for `classes`, which are None.")
        return linear

    def _planned_features(
        self,
        given: dict[Any, Declaration],
        n_units: int,
        maps: ColumnMaps | None = None,
        rarer: float | None = None,
    ) -> FeaturePlan:
        """Plan the features by public numbers and what was released of the table."""
        pairs = paired_parts(self.pairs, given)
        parts = parts_of(given) if maps is None else maps.kept(parts_of(given))
        if self.features != "auto":
            plan = FeaturePlan.fixed(self.features)
        else:
            n_records = self._nominal(n_units)
            size = effective_size(self.epsilon, self.delta, n_records, self.neighbouring)
            plan = plan_of_parts(size, parts, n_records, pairs, is_pure=self.delta == 0)
            if rarer is not None:
                plan = capped_plan(parts, plan, pairs, rarer)
            if self.intervals:
                curves = plan.frequencies
                if maps is not None:  # what was checked before anything was paid for
                    curves = curves[: len(self.feature_plan_.frequencies)]
                plan = replace(plan, frequencies=curves, products=False, n_sketch=0)
                while self._hides(RowFeatures(parts, plan), n_records):
                    plan = replace(plan, frequencies=plan.frequencies[:-1])
        if self.intervals:  # effects are exact for rows that are not shortened
            plan = replace(plan, spread=RowFeatures(parts, plan).longest)
        return plan

    def _hides(self, features: RowFeatures, n_records: int) -> bool:
        """Whether noise hides the last curves from intervals, after any histograms."""
        if not features.plan.frequencies:
            return False
        width, k = features.n_features + 1, max(np.size(self.classes) - 1, 1)
        mu = Level.of(self._budget).part(INTERVALS_SHARE * (1.0 - 2.0 * MOST)).mu
        newton = plan_newton(Design(1.0, width, n_records), Neighbouring.REPLACE_ONE, mu, k)
        return least_records(newton, k, 0.5 * features.faintest) > n_records

    def _plan_of_shape(
        self,
        n_samples: int,
        n_features: int,
        n_classes: int | None,
        n_groups: int | None,
        n_users: int | None = None,
    ) -> tuple[Choice, Design]:
        """Plan a fit on a table of a shape; see :func:`skdp.inspection.plan_fit`."""
        linear = self._checked_model()
        given = declarations(self.columns)
        if not given:
            each = as_declaration(self.columns, "Each column")
            given = {f"x{j}": each for j in range(n_features)}
        elif len(given) != n_features and self.columns_left == "error":
            raise ValueError(
                f"n_features == {n_features}, but columns declares {len(given)}: it is the number "
                "of columns of the table."
            )
        plan = self._planned_features(given, n_users or n_samples)
        features = RowFeatures(parts_of(given), plan, paired_parts(self.pairs, given))
        plans = self._planned_histograms(given, n_users or n_samples, n_users is not None)
        histograms = [plan for plan in plans if plan is not None]
        if histograms:
            self._leave(linear, histograms)
        shape = n_samples, features.n_features, n_classes, n_groups, n_users
        choice, design = linear._plan_of_shape(*shape)
        if histograms:
            mapped: Any = MappedPlan(histograms, choice.plan)
            choice = replace(choice, plan=mapped)
        return choice, design

    def _of_rows(self, method: str, X: Any, return_std: bool = False) -> Any:
        """Call a method of the linear model on the features of some rows after the other."""
        check_is_fitted(self)
        table = table_of(self, self._features_of(X), reset=False)
        compute: Callable[..., Any] = getattr(self.model_, method)
        slabs = self.encoder_._slabs(table)
        if not return_std:
            return np.concatenate([compute(rows) for rows in slabs])
        parts = [compute(rows, return_std=True) for rows in slabs]
        return tuple(np.concatenate(each) for each in zip(*parts, strict=True))

    @over_chunks
    def predict(self, X: Any) -> np.ndarray:
        """Predict the class of each row.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_columns)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._of_rows("predict", X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        return tags
