"""What a data holder should know of a pipeline before private fits with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from skdp._checks import InvalidTypeError
from skdp._runtime import without_warnings
from skdp.preprocessing.ranges import ranges_per_feature
from skdp.privacy.accounted import AccountedMixin
from skdp.privacy.pipeline_steps import learning_steps, parts
from skdp.tabular import Number, TableEncoder, check_columns
from skdp.tabular.frames import Table
from skdp.tabular.table_model import TabularModel

#: Rows are mostly shortened if more than this part of them is.
_MOSTLY = 0.5
#: Units look wrong where norms are a smaller part of the declared one, or exceed it by a larger
#: factor.
_NARROW, _FAR = 0.02, 10.0
#: Meta-estimators that give their members other targets: transformed, encoded, or of one class.
_OTHER_TARGETS = {
    "TransformedTargetRegressor",
    "OneVsRestClassifier",
    "VotingClassifier",
    "BaggingClassifier",
    "StackingClassifier",
}
_SHOWN = 5


@dataclass(frozen=True)
class Finding:
    """Something to look at.

    Attributes
    ----------
    part : str
        Path of the part of the pipeline, such as "columntransformer.numbers"; empty for all of it.
    kind : str
        "learns", "unknown", "categories", "clipped", "constant", "units", "labels", "not numeric",
        "error", "not looked at", or that of a :class:`skdp.tabular.ColumnFinding`.
    message : str
    """

    part: str
    kind: str
    message: str

    def __str__(self) -> str:
        return f"{self.part or 'estimator'}: {self.message}"


@dataclass(frozen=True, repr=False)
class PipelineCheck:
    """Findings of :func:`check_pipeline`; printed, it says whether it is private.

    Attributes
    ----------
    findings : tuple of Finding
    has_records : bool
        Whether records were looked at: the findings are then not private.
    """

    findings: tuple[Finding, ...]
    has_records: bool

    def __repr__(self) -> str:
        first = "No records were looked at: what follows is public if the pipeline is."
        if self.has_records:
            first = (
                "NOT PRIVATE: this describes records without noise, for the data holder alone. "
                "Publish neither it nor bounds that were adapted to it."
            )
        return "\n".join([first, *(f"- {each}" for each in self.findings or ("no findings",))])


def check_pipeline(pipeline: Any, X: Any = None, y: Any = None) -> PipelineCheck:
    """Look for parts of a pipeline that leak, and for declarations that do not fit the records.

    Without records it lists the parts that learn from records without privacy, by their classes.
    With records it also fits clones of the parts that cost no budget, one after the other, and
    compares what is declared (ranges, categories, norms, classes) with what arrives.

    **Findings about records are not private**, and no budget is charged for them. They are for the
    holder of the data. Ranges that are then adapted to the records are measured, not declared.

    Parameters
    ----------
    pipeline : estimator
        A Pipeline, or any estimator; not changed.
    X : array-like, sparse matrix or data frame of shape (n_samples, n_features), default=None
        Records to compare declarations with.
    y : array-like of shape (n_samples,), default=None
        Their labels or targets.

    Returns
    -------
    PipelineCheck
        Its `findings`; ``print`` shows them.

    See Also
    --------
    skdp.model_selection.dp_cross_validate : Warns of parts that learn, as do fits inside of a
        ``with`` block of a :class:`skdp.BudgetAccountant`.
    skdp.tabular.check_columns : Declarations of columns alone.

    Examples
    --------
    >>> import skdp
    >>> from skdp.inspection import check_pipeline
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> model = skdp.DPRidge(epsilon=1.0, data_norm=1.0, target_range=(0, 1))
    >>> print(check_pipeline(make_pipeline(StandardScaler(), model)))
    No records were looked at: what follows is public if the pipeline is.
    - standardscaler: StandardScaler keeps, without noise, means and variances, or counts
    >>> scaler = skdp.BoundedScaler(ranges=[(0, 3)])
    >>> check = check_pipeline(make_pipeline(scaler, model), [[1700.0], [1850.0]], [0.3, 0.6])
    >>> [(each.part, each.kind) for each in check.findings]
    [('boundedscaler', 'clipped'), ('boundedscaler', 'constant'), ('dpridge', 'constant')]
    """
    if not hasattr(pipeline, "get_params") or isinstance(pipeline, type):
        raise InvalidTypeError(f"pipeline must be an estimator, got {type(pipeline).__name__}.")
    findings = [
        Finding(step.path, "unknown", f"what {step.kind} keeps of the records is not known here")
        if step.keeps is None
        else Finding(step.path, "learns", f"{step.kind} keeps, without noise, {step.keeps}")
        for step in learning_steps(pipeline)
    ]
    if X is not None:
        with without_warnings():
            _look(pipeline, X if hasattr(X, "shape") else np.asarray(X), y, (), findings)
    return PipelineCheck(tuple(findings), X is not None)


def _look(step: Any, X: Any, y: Any, path: tuple[str, ...], findings: list[Finding]) -> None:
    """Compare a step, or its parts, with the records that reach it."""
    if hasattr(step, "steps"):
        _look_along(step.steps, X, y, path, findings)
    elif hasattr(step, "transformer_list") or hasattr(step, "transformers"):
        for name, part, *columns in getattr(step, "transformer_list", None) or step.transformers:
            if not isinstance(part, str):
                _look(part, _selected(X, *columns), y, (*path, name), findings)
    else:
        where = ".".join(path)
        findings.extend(Finding(where, *each) for each in _of_step(step, X, y))
        if not isinstance(step, AccountedMixin):
            kinds = {kind.__name__ for kind in type(step).__mro__}
            y = None if kinds & _OTHER_TARGETS else y
            for name, part in parts(step):
                if name != "transformer" or "TransformedTargetRegressor" not in kinds:
                    _look(part, X, y, (*path, name), findings)


def _look_along(steps: Any, X: Any, y: Any, path: tuple[str, ...], findings: list[Finding]) -> None:
    for number, (name, part) in enumerate(steps):
        if part is None or isinstance(part, str):
            continue
        _look(part, X, y, (*path, name), findings)
        if number + 1 == len(steps):
            return
        where = ".".join((*path, name))
        if _is_private(part):
            text = "parts after it were not looked at: it is private, and its fit would cost budget"
            findings.append(Finding(where, "not looked at", text))
            return
        try:
            X = clone(part).fit_transform(X, y)
        except Exception as error:
            text = f"a fit fails: {type(error).__name__}: {error}"
            findings.append(Finding(where, "error", text))
            return


def _is_private(part: Any) -> bool:
    inner = [each for _, each in parts(part)]
    return isinstance(part, AccountedMixin) or any(map(_is_private, inner))


def _selected(X: Any, columns: Any = None) -> Any:
    """Take columns as a ColumnTransformer does."""
    if columns is None:
        return X
    columns = columns(X) if callable(columns) else columns
    chosen = [columns] if isinstance(columns, (str, int)) else columns
    if hasattr(X, "iloc"):
        by_name = not isinstance(chosen, slice) and all(isinstance(each, str) for each in chosen)
        return X.loc[:, chosen] if by_name else X.iloc[:, chosen]
    return X[:, chosen]


def _columns(X: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Yield how to call a column, and its values."""
    table = Table(X)
    for j in range(table.n_columns):
        values = X[:, [j]].toarray().ravel() if sp.issparse(X) else table.column(j)
        yield (str(j) if table.names is None else repr(table.names[j])), values


_Found = Iterator[tuple[str, str]]


def _of_step(step: Any, X: Any, y: Any) -> _Found:
    if len(X.shape) != 2:
        yield "error", f"X has the shape {X.shape}, not (n_samples, n_features)"
        return
    if isinstance(step, (TableEncoder, TabularModel)):
        for row in check_columns(X, step.columns).rows:
            if not (row.kind == "undeclared" and step.columns_left == "drop"):
                yield row.kind, f"column {row.column!r}: {row.text}"
    categories = getattr(step, "categories", None)
    if categories is not None and not isinstance(categories, str):
        yield from _of_categories(categories, X)
    if getattr(step, "ranges", None) is not None:
        yield from _of_ranges(step.ranges, X)
    if getattr(step, "data_norm", None) is not None:
        yield from _of_rows(float(step.data_norm), X)
    y = np.asarray(y)
    if y.ndim != 1:  # none, or several targets, of which each goes to another member
        return
    if getattr(step, "target_range", None) is not None:
        yield from _of_range("y", y, step.target_range)
    if getattr(step, "classes", None) is not None:
        yield from _of_values("y", "classes", step.classes, y, "labels")


def _of_ranges(ranges: Any, X: Any) -> _Found:
    names = list(getattr(X, "columns", ()))
    columns = {"feature_names_in_": names} if names else {}
    shape = SimpleNamespace(ranges=ranges, n_features_in_=X.shape[1], **columns)
    try:
        pairs = ranges_per_feature(shape)
    except ValueError as error:
        yield "error", str(error)
        return
    for (name, values), pair in zip(_columns(X), pairs, strict=True):
        yield from _of_range(f"column {name}", values, pair)


def _of_range(name: str, values: np.ndarray, pair: Any) -> _Found:
    try:
        low, high = map(float, pair)
        declared = [Number(low, high, missing=True)]
    except (TypeError, ValueError) as error:
        yield "error", f"{name}: {error}"
        return
    for row in check_columns(values.reshape(-1, 1), declared).rows:
        yield row.kind, f"{name}: {row.text}"


def _of_rows(data_norm: float, X: Any) -> _Found:
    squares, constant = np.zeros(X.shape[0]), []
    for name, values in _columns(X):
        try:
            values = np.nan_to_num(values.astype(np.float64))
        except (TypeError, ValueError, OverflowError):
            yield "not numeric", f"column {name} is not numeric ({values.dtype})"
            return
        squares += values**2
        if values.size and values.min() == values.max():
            constant.append(name)
    if constant:
        more = f" and {len(constant) - _SHOWN} more" if len(constant) > _SHOWN else ""
        yield "constant", f"columns {', '.join(constant[:_SHOWN])}{more} are constant"
    norms = np.sqrt(squares)
    bound, size = f"data_norm={data_norm:g}", float(np.median(norms))
    long = float((norms > data_norm * (1.0 + 1e-9)).mean())
    if long > _MOSTLY:
        kind = "units" if size > _FAR * data_norm else "clipped"
        yield kind, f"{long:.0%} of the rows are shortened to {bound}; norms are about {size:.3g}"
    elif 0.0 < size < _NARROW * data_norm:
        yield "units", f"rows have norms of about {size:.3g}, little beside {bound}"


def _of_categories(categories: Any, X: Any) -> _Found:
    names = list(getattr(X, "columns", range(X.shape[1])))
    if not hasattr(categories, "keys"):
        if len(categories) != len(names):
            yield "error", f"categories are declared for {len(categories)} of {len(names)} columns"
            return
        categories = dict(zip(names, categories, strict=True))
    for name, (shown, values) in zip(names, _columns(X), strict=True):
        if name in categories:
            yield from _of_values(f"column {shown}", "categories", categories[name], values)


def _of_values(
    name: str, what: str, declared: Any, values: np.ndarray, kind: str = "categories"
) -> _Found:
    """Compare declared values with those that occur."""
    found = set(values.tolist())
    known = [each.item() if isinstance(each, np.generic) else each for each in declared]
    never, declared = [each for each in known if each not in found], set(known)
    other = sum(value not in declared for value in values.tolist())
    if never:
        types = sorted({type(each).__name__ for each in found})
        hint = "" if len(never) < len(known) else f"; the records have {', '.join(types)}"
        shown = ", ".join(map(repr, never[:_SHOWN])) + (", ..." if len(never) > _SHOWN else "")
        yield kind, f"declared {what} of {name} that match no record: {shown}{hint}"
    if other:
        yield kind, f"{other} of {len(values)} values of {name} are none of the declared {what}"
