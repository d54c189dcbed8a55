"""What a part of scikit-learn keeps of the records, by fits to tables that differ in one record.

A fit is seen through its attributes, the layout of its output, its warnings and its failure. The
rows that it makes, or that its members get, may differ in one row: that of the record.
"""

import warnings

import numpy as np
import pandas as pd
import scipy.sparse as sp
from laboratory import state
from sklearn.base import BaseEstimator, clone

__all__ = ["PAIRS", "TEXT", "Classifier", "Regressor", "differences"]

N = 60
_RNG = np.random.default_rng(0)
_NUMBERS = _RNG.uniform(0.1, 1.0, (N, 2))
_CODES = _RNG.integers(3, size=(N, 2))
TEXT = np.array(["a", "bb", "c"], dtype=object)[_CODES]
#: The record that is replaced; sees to it that a regular sample of the rows has it.
_AT = 6
#: Rows that members got, and the mean of the last targets.
_SEEN, _MEAN = [], [0.0]
#: Parts whose fits succeeded.
_FITTED = []


class Member(BaseEstimator):
    """Stands for a private model: refuses what those do, keeps the shape of what it gets."""

    __module__ = "skdp.stub"

    def __init__(self, classes=None):
        self.classes = classes

    def fit(self, X, y, sample_weight=None):
        X = sp.csr_array(X) if sp.issparse(X) else np.asarray(X, dtype=float)
        rows, y = X.toarray() if sp.issparse(X) else X, np.asarray(y)
        if not np.isfinite(rows).all():
            raise ValueError("Input X contains NaN or infinity.")
        if self.classes is not None and not np.isin(y, self.classes).all():
            raise ValueError("y has labels that are not in `classes`.")
        weights = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight)
        _SEEN.append([row.tobytes() for row in np.c_[rows, y.astype(float), weights]])
        _MEAN[0] = float(np.mean(y))
        self.n_records_, self.n_features_in_ = X.shape
        self.is_sparse_, self.coef_ = sp.issparse(X), np.arange(X.shape[1], dtype=float)
        if self.classes is not None:
            self.classes_ = np.asarray(self.classes)
        return self

    def predict(self, X):
        if self.classes is None:
            return np.full(X.shape[0], _MEAN[0])
        return np.full(X.shape[0], self.classes_[0])


class Regressor(Member):
    __module__ = "skdp.stub"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.estimator_type = "regressor"
        return tags


class Classifier(Member):
    __module__ = "skdp.stub"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.estimator_type = "classifier"
        return tags

    def predict_proba(self, X):
        return np.full((X.shape[0], len(self.classes_)), 1.0 / len(self.classes_))


def _with(table, record):
    """The table with one record replaced; a frame takes the type that pandas gives it."""
    if isinstance(table, list):
        return [*table[:_AT], record, *table[_AT + 1 :]]
    if isinstance(table, pd.DataFrame):
        columns = {}
        for name, value in zip(table, record, strict=True):
            entries = [*table[name].tolist()[:_AT], value, *table[name].tolist()[_AT + 1 :]]
            columns[name] = pd.Series(entries)
        return pd.DataFrame(columns)
    if sp.issparse(table):
        changed = table.toarray()
        changed[_AT] = record
        return type(table)(changed)
    changed = table.astype(np.result_type(table, np.asarray(record)), copy=True)
    changed[_AT] = record
    return changed


def _frame(values):
    return pd.DataFrame(values, columns=["u", "v"])


def _numbers():
    """Tables of numbers: missing, zero, huge, of other types, dense and sparse."""
    records = {
        "missing": (np.nan, 0.5), "zeros": (0.0, 0.0), "ones": (1.0, 1.0), "huge": (1e9, -1e9),
        "enormous": (1e300, -1e300), "negative": (-0.5, -2.0), "infinite": (np.inf, 0.5),
    }  # fmt: skip
    tables = {"array": _NUMBERS, "frame": _frame(_NUMBERS)}
    for kind in (sp.csr_matrix, sp.csc_array):
        tables[kind.__name__] = kind(np.where(_NUMBERS > 0.5, _NUMBERS, 0.0))
        tables[f"full {kind.__name__}"] = kind(_NUMBERS)
    for name, record in records.items():
        for kind, table in tables.items():
            yield f"{name}, {kind}", table, _with(table, record)
    whole, record = _frame(_CODES), (77, 2)
    yield "unknown", whole, _with(whole, record)
    yield "whole to fraction", whole, _with(whole, (0.5, 2))
    yield "whole to missing", whole, _with(whole, (None, 2))
    yield "whole to array of fractions", _CODES, _with(_CODES, (0.5, 2.0))
    yield "whole to object", whole, _with(whole.astype(object), record)
    yield "whole to text", whole, _with(whole, ("secret", 2))
    yield "whole to digits", whole, _with(whole, ("77", 2))
    single = _frame(_NUMBERS).astype(np.float32)
    yield "single precision", single, _with(single.astype(float), (1e300, 0.5))
    yield "single precision array", single.to_numpy(), single.to_numpy(float)
    yield "small integers", _CODES.astype(np.int8), _with(_CODES, (300, 2))
    yield "truth values", _frame(_CODES > 0), _with(_frame(_CODES > 0), (0.5, 2))


def _texts():
    """Columns of text: unknown, long, missing, with numbers."""
    text = _frame(TEXT)
    records = {
        "known": ("bb", "c"), "unknown": ("secret agent", "?"), "missing": (np.nan, "a"),
        "none": (None, "a"), "number": (77, "a"), "fraction": (0.5, "a"), "empty": ("", "a"),
        "digits": ("77", "a"),
    }  # fmt: skip
    for name, record in records.items():
        yield name, text, _with(text, record)
        yield f"{name}, array", TEXT, _with(TEXT, np.array(record, dtype=object))
    yield "long, array of text", TEXT.astype(str), _with(TEXT.astype(str), ("secret agent", "a"))
    known = _frame(np.array(["a", "bb"], dtype=object)[_CODES % 2])
    yield "first unknown", known, _with(known, ("c", "a"))
    numbers = _frame(_CODES)
    yield "a text among numbers", numbers, _with(numbers, ("a", 2))
    yield "a number among fractions", _frame(_CODES / 2.0), _frame(_CODES).astype(object)
    yield from (pair for pair in _numbers() if "whole" in pair[0])


def _words(as_tokens=False):
    docs = ["the cat sat", "a dog ran", "the dog sat"] * (N // 3)
    docs = [doc.split() for doc in docs] if as_tokens else docs
    for name, doc in {"unknown": "secret agent 77", "empty": "", "long": "cat " * 99}.items():
        yield name, docs, _with(docs, doc.split() if as_tokens else doc)


def _targets(kind):
    """X and targets: one record with another target, other rows, other weights."""
    y = {
        "regression": _NUMBERS[:, 0], "two": _CODES[:, 0] % 2, "three": _CODES[:, 0],
        "outputs": _NUMBERS.copy(), "labels": _CODES % 2,
    }[kind]  # fmt: skip
    X, w = _NUMBERS, np.ones(N)
    for name, target in (("zero", 0), ("one", 1), ("huge", 10**9), ("two", 2), ("half", 0.5)):
        yield f"target {name}", (X, y), (_with(X, (0.0, 0.0)), _with(y, target))
        yield f"weight, target {name}", (X, y, w), (X, _with(y, target), _with(w, 1e9))
    if kind in ("two", "three", "labels"):
        rare = np.zeros_like(y)
        yield "absent class", (X, _with(rare, 1)), (X, rare)
        yield "third class", (X, y % 2), (X, _with(y % 2, 2))
        names = np.random.default_rng(1).permutation(np.arange(N) // 3).reshape(N, 1)
        many = names if y.ndim == 1 else np.hstack([names, names])
        many = np.minimum(many[:, 0] if y.ndim == 1 else many, 19)
        yield "many classes", (X[:38], many[:38]), (X[:38], _with(many[:38], 25))
    yield "other row", (X, y), (_with(X, (1e300, -1e9)), y)
    sparse = sp.csr_array(np.where(X > 0.5, X, 0.0))
    yield "sparse", (sparse, y), (_with(sparse, (1.0, 1.0)), y)


#: Neighbours by the kind of input: triples of a name and two tables, or tuples of what fit gets.
PAIRS = {"numbers": _numbers, "texts": _texts, "words": _words}
PAIRS["tokens"] = lambda: _words(as_tokens=True)
PAIRS["frames"] = lambda: (pair for pair in _texts() if isinstance(pair[1], pd.DataFrame))
PAIRS |= {
    kind: lambda kind=kind: _targets(kind)
    for kind in ("regression", "two", "three", "outputs", "labels")
}


def differences(part, kind):
    """Names of neighbours that fits of a part tell apart, with what differs first."""
    found, known = [], {}
    del _FITTED[:]
    for name, first, second in PAIRS[kind]():
        difference = _difference(part, name, first, second, kind, known)
        found += [] if difference is None else [f"{name}: {difference}"]
    return found if _FITTED else ["no fit succeeds"]


def _difference(part, name, first, second, kind, known):
    """Compare the fits of a pair; `known` keeps those of first tables, which are often the same."""
    inputs = [each if isinstance(each, tuple) else (each,) for each in (first, second)]
    key = tuple(map(id, inputs[0]))
    if key not in known:
        known[key] = inputs[0], _fit(part, *inputs[0])  # with the tables: no other has their ids
    one, rows, is_error = known[key][1]
    other, others, is_other = _fit(part, *inputs[1])
    valid = [_is_valid(each[0], kind) and _is_declared(part, *each[1:2]) for each in inputs]
    if (is_error and not valid[0]) or (is_other and not valid[1]):
        return None  # refused, as by a private model
    ends = {"finite"} if not all(valid) else set()  # missing values are passed on
    keys = [key for key in {**one, **other} if key not in ends and one.get(key) != other.get(key)]
    if keys:
        return keys[0]
    if name.startswith("single precision"):
        return None  # the precision of rows is public
    if [len(each) for each in rows] != [len(each) for each in others]:
        return "number of rows"
    pairs = zip(rows, others, strict=True)
    changed = [sum(a != b for a, b in zip(*pair, strict=True)) for pair in pairs]
    return "rows of other records" if any(number > 1 for number in changed) else None


def _is_valid(X, kind):
    """Whether private models accept a table: finite numbers, or columns that may hold text."""
    if kind in ("words", "tokens"):
        return True
    if kind in ("texts", "frames"):
        kinds = X.dtypes if isinstance(X, pd.DataFrame) else [X.dtype]
        return all(each.kind in "OU" for each in kinds)
    if isinstance(X, pd.DataFrame) and "bool" in X.dtypes.astype(str).tolist():
        return False
    try:
        values = X.toarray() if sp.issparse(X) else np.asarray(X, dtype=float)
    except ValueError:
        return False
    is_number = not isinstance(X, pd.DataFrame) or all(
        not isinstance(value, str) for value in X.to_numpy().ravel()
    )
    return is_number and bool(np.isfinite(values).all())


def _is_declared(part, y=None):
    """Whether the members that a part has accept the targets."""
    classes = [getattr(each, "classes", None) for each in part.get_params().values()]
    return y is None or all(np.isin(y, each).all() for each in classes if each is not None)


def _fit(part, X, y=None, sample_weight=None):
    """Attributes, layout, warnings and failure of a fit; rows it makes or its members get."""
    del _SEEN[:]
    part, seen = clone(part), {}
    part.set_params(**{key: 0 for key in part.get_params() if key.endswith("random_state")})
    rows, given = [], {} if sample_weight is None else {"sample_weight": sample_weight}
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        try:
            if hasattr(part, "transform") and y is None:
                out = part.fit_transform(X)
                seen["layout"] = (type(out).__name__, getattr(out, "format", None), out.shape)
                dense = out.toarray() if sp.issparse(out) else np.asarray(out)
                seen["finite"] = bool(np.isfinite(dense.astype(float)).all())
                rows.append([row.tobytes() for row in dense.astype(float)])
            else:
                part.fit(X, y, **given)
        except (TypeError, ValueError) as error:
            if "sample_weight" in str(error) or "sample weights" in str(error):
                return {}, [], False  # weights are refused, whatever they are
            seen["error"] = type(error).__name__
    if "error" not in seen:
        _FITTED.append(part)
        seen |= _attributes(part)
    texts = [str(each.message) for each in found]
    seen["warnings"] = [text for text in texts if "encountered in" not in text] + sorted(
        {"floating point" for text in texts if "encountered in" in text}
    )
    return seen, rows + list(_SEEN), "error" in seen


def _attributes(part):
    return {f".{name}": list(state(value)) for name, value in vars(part).items()}
