"""Which declaration is of which column of a table: by name, by position, or one for all."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from skdp._checks import InvalidTypeError, shown
from skdp.preprocessing.ranges import hint_of_ends
from skdp.tabular.columns import (
    Category,
    Declaration,
    Flag,
    Number,
    Part,
    Text,
    is_real,
    present_values,
)
from skdp.tabular.frames import Table

#: Values that are looked at before all others.
_PEEKED = 64
_EXPECTED = "(low, high), a list of categories, bool, Number, Category, Flag, Date or Text"


def as_declaration(given: Any, where: str) -> Declaration:
    """Turn the short form of a declaration into the declaration, with errors that say where."""
    if given is ... or (isinstance(given, (tuple, list)) and any(each is ... for each in given)):
        raise ValueError(
            f"{where} is still to be declared: a range (low, high), or a list of categories, from "
            "what is known without the records."
        )
    try:
        found = _declaration(given)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from None
    if found is None:
        raise ValueError(f"{where}: expected {_EXPECTED}, got {shown(given)}.")
    return found


def _declaration(given: Any) -> Declaration | None:
    if isinstance(given, Declaration):
        return given
    if given is bool or given is Flag:
        return Flag()
    if given is Text:
        return Text()
    if is_range(given):
        return Number(*given)
    if isinstance(given, list) or (isinstance(given, np.ndarray) and given.ndim == 1):
        return Category(given)
    if has_categories(given):
        return Category(list(given.categories))
    return None


def is_range(given: Any) -> bool:
    """Whether something is a pair (low, high)."""
    is_pair = isinstance(given, tuple) and len(given) == 2
    return is_pair and all(is_real(end) for end in given)


def has_categories(given: Any) -> bool:
    """Whether something is a type of a frame's column that lists its categories."""
    return not isinstance(given, type) and getattr(given, "categories", None) is not None


class Column(NamedTuple):
    """A column of a table and its declaration."""

    name: Any
    position: int
    declaration: Declaration


def is_by_name(columns: Any) -> bool:
    """Whether declarations are given by the names of columns."""
    return isinstance(columns, Mapping)


def is_for_all(columns: Any) -> bool:
    """Whether one declaration is given for all columns."""
    return is_range(columns) or isinstance(columns, Declaration)


def listed(columns: Any) -> list[Any] | None:
    """Return declarations by position; None if there is one for all columns, or names."""
    if is_by_name(columns) or is_for_all(columns):
        return None
    if isinstance(columns, np.ndarray) and columns.ndim == 2:
        return [tuple(row) for row in columns.tolist()]
    if isinstance(columns, (list, tuple)):
        return list(columns)
    raise InvalidTypeError(
        "columns must be a dict of names and declarations, a list of declarations, or one range "
        f"(low, high) for all columns; got {shown(columns)}."
    )


def declarations(columns: Any) -> dict[Any, Declaration]:
    """Return the declarations by name, or by position; of one for all columns, nothing."""
    given = columns if is_by_name(columns) else dict(enumerate(listed(columns) or ()))
    try:
        return {name: as_declaration(each, f"Column {name!r}") for name, each in given.items()}
    except ValueError as error:
        raise ValueError(f"{error}{hint_of_ends(columns)}") from None


def parts_of(given: Mapping[Any, Declaration]) -> list[Part]:
    """Return the parts of all columns."""
    return [part for name, each in given.items() for part in each.expand(str(name))]


def without_limits(given: Mapping[Any, Declaration]) -> dict[Any, Number]:
    """Return the numbers whose limits are still to be found."""
    pairs = given.items()
    return {name: each for name, each in pairs if isinstance(each, Number) and each.low is None}


def refuse_without_limits(given: Mapping[Any, Declaration]) -> None:
    """Refuse numbers without limits where none can be found."""
    for name in without_limits(given):
        raise ValueError(
            f"Column {name!r} was declared Number() without limits, which models of tables find "
            'with maps="auto" and delta > 0 alone: declare Number(low, high).'
        )


def paired_parts(pairs: Any, given: Mapping[Any, Declaration]) -> tuple[tuple[int, int], ...]:
    """Return the positions of the parts that are multiplied, named as in TableEncoder."""
    parts: list[Part] = []
    found: dict[Any, list[int]] = {}
    for j, (name, declared) in enumerate(given.items()):
        own = range(len(parts), len(parts) + len(declared.expand(str(name))))
        parts += declared.expand(str(name))
        found.setdefault(j, [*own])
        found.update({parts[k].name: [k] for k in own if len(own) > 1})
        found[name] = [*own]
    if not isinstance(pairs, (list, tuple)):
        raise InvalidTypeError(f"pairs must be a list of pairs of names, got {shown(pairs)}.")
    positions: dict[tuple[int, int], None] = {}
    for pair in pairs:
        if not (isinstance(pair, (list, tuple)) and len(pair) == 2):
            raise ValueError(f"pairs must hold pairs of names of columns, got {shown(pair)}.")
        for name in pair:
            if name not in found:
                near = closest(name, list(found))
                raise ValueError(f"pairs names {name!r}, which is not declared{near}.")
            if any(parts[k].kind == "text" for k in found[name]):
                raise ValueError(f"pairs names {name!r}, whose declaration is Text.")
        one, other = (found[name] for name in pair)
        if set(one) & set(other):
            raise ValueError(f"pairs holds {tuple(pair)!r}: two columns are needed.")
        positions.update({(min(i, j), max(i, j)): None for i in one for j in other})
    return tuple(positions)


def are_numbers(columns: Any) -> bool:
    """Whether all columns are numbers."""
    if is_range(columns) or isinstance(columns, Number):
        return True
    return all(isinstance(each, Number) for each in declarations(columns).values())


def matched(columns: Any, table: Table, columns_left: str) -> tuple[Column, ...]:
    """Match declarations with the columns of a table, in the order of the declarations."""
    if is_by_name(columns):
        return _matched_by_name(columns, table, columns_left)
    n_columns = table.n_columns
    names = table.names or [f"x{j}" for j in range(n_columns)]
    given = listed(columns)
    if given is None:
        given = [columns] * n_columns
    elif len(given) != n_columns:
        hint = hint_of_ends(columns)
        raise ValueError(f"columns has {len(given)} declarations, X has {n_columns} columns.{hint}")
    pairs = enumerate(zip(names, given, strict=True))
    return tuple(Column(n, j, as_declaration(each, f"Column {n!r}")) for j, (n, each) in pairs)


def _matched_by_name(columns: Any, table: Table, columns_left: str) -> tuple[Column, ...]:
    if table.names is None:
        raise ValueError(
            "columns is a dict of names, but X has no column names: pass a data frame or a list of "
            "declarations."
        )
    if not columns:
        raise ValueError("columns declares no column.")
    position = table.position_of()
    lacking = [name for name in columns if name not in position]
    left = [name for name in table.names if name not in columns]
    if lacking:
        texts = ", ".join(f"{name!r}{closest(name, left)}" for name in lacking)
        raise ValueError(f"Declared columns that X does not have: {texts}.")
    if left and columns_left == "error":
        raise ValueError(
            f"Columns of X without a declaration: {left}. If one has the ids of persons who may "
            "have several rows, name it: user_ids=... Declare the others, or drop them with "
            'columns_left="drop".'
        )
    found = (Column(n, position[n], as_declaration(columns[n], f"Column {n!r}")) for n in columns)
    return tuple(found)


def check_levels(columns: Sequence[Column], table: Table) -> None:
    """Refuse whole columns of categories that hold values, and none of the declared ones."""
    wrong = []
    for name, at, declared in columns:
        if type(declared) is not Category or declared.other:
            continue
        if declared.is_read(table.column(at, slice(_PEEKED))).any():
            continue
        present = present_values(table.column(at), keeps_blank=True)
        if len(present) and not declared.is_read(present).any():
            hint = ""
            if len(declared.values) == 2 and all(is_real(value) for value in declared.values):
                hint = f" A range of numbers is a pair: {declared.values}."
            wrong.append(
                f"Column {name!r} has no value that is one of the declared categories.{hint}"
            )
    if wrong:
        raise ValueError("\n".join(wrong))


def closest(name: Any, names: Sequence[Any]) -> str:
    """Return a question that names the most similar of some names, or nothing."""
    texts = {str(each): each for each in names}
    near = difflib.get_close_matches(str(name), list(texts), n=1)
    return f" (did you mean {texts[near[0]]!r}?)" if near else ""


def categories_of_frame(columns: Any, matched_: Sequence[Column], table: Table) -> Iterator[str]:
    """Yield names of columns that were declared by the type that this very frame has.

    Types of pandas list the categories that a conversion of the records has found; those of polars
    are written down.
    """
    if is_by_name(columns):
        for column in matched_:
            given, dtype = columns[column.name], table.dtype(column.position)
            if type(given).__name__ == "CategoricalDtype" and given == dtype:
                yield str(column.name)
