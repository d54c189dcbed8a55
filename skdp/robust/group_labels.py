"""Labels and proportions of groups, as users declare them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp._checks import shown
from skdp._estimator import encode
from skdp._records import has_column, is_missing, refuse_kinds
from skdp.problems import Records


def group_labels(X: Any, groups: Any) -> np.ndarray:
    """Return the groups of all records, given as such or as the name of a column of X."""
    if not isinstance(groups, str):
        return as_labels("groups", groups)
    if not has_column(X, groups):
        raise ValueError(
            f"groups == {shown(groups)} is the name of a column, but X is no data frame with such "
            "a column. (In a pipeline X is what the steps before return: pass the values.)"
        )
    return as_labels("groups", X[groups])


def as_labels(name: str, groups: Any) -> np.ndarray:
    """Return the groups as a 1-d array of one kind of labels, none of them missing."""
    refuse_kinds(name, groups, "c")
    try:
        labels = np.asarray(groups)
    except ValueError:  # of sequences of different lengths
        raise ValueError(f"{name} must be 1-dimensional, got a ragged sequence.") from None
    if labels.ndim != 1:
        raise ValueError(f"{name} must be 1-dimensional, got an array of shape {labels.shape}.")
    entries = labels
    if labels.dtype.kind == "U" and not hasattr(groups, "dtype"):
        # a list in which numpy turned everything into strings, NaN and numbers included
        entries = np.asarray(groups, dtype=object)
    is_object = entries.dtype == object
    if any(map(is_missing, entries)) if is_object else (entries != entries).any():
        raise ValueError(f"{name} contains missing values.")
    if is_object:
        strings = [isinstance(label, str) for label in entries]
        if any(strings) and not all(strings):
            raise ValueError(f"{name} mixes strings with labels of other types.")
        if not any(strings):  # numbers of a nullable type
            labels = np.array(entries.tolist())
            if labels.ndim != 1:
                raise ValueError(f"{name} contains labels that are sequences themselves.")
    return labels


def distinct_groups(groups: Any) -> np.ndarray:
    """Return the sorted groups of some records."""
    return np.unique(as_labels("groups", groups))


@dataclass(frozen=True, eq=False)
class GroupCodes:
    """Positions of groups in `names`."""

    names: np.ndarray

    def __call__(self, groups: Any) -> np.ndarray:
        order = np.argsort(self.names, kind="stable")
        message = "groups contains labels that are not in `group_names`."
        return order[encode(as_labels("groups", groups), self.names[order], message)]


def classes_as_groups(records: Records) -> Records:
    """View records with their classes as groups."""
    return records.with_targets(records.targets, records.targets.astype(np.intp))


def one_group(records: Records) -> Records:
    """View records as one group."""
    return records.with_targets(records.targets, np.zeros(len(records.targets), dtype=np.intp))


def are_named(proportions: Any) -> bool:
    """Whether proportions have names: a dict, or a Series of pandas."""
    return isinstance(proportions, Mapping) or hasattr(proportions, "to_dict")


def checked_proportions(declared: Any, names: np.ndarray) -> np.ndarray:
    """Return declared proportions, by name or in the order of `names`, in that order."""
    given = declared
    if are_named(declared):
        by_name = declared if isinstance(declared, Mapping) else declared.to_dict()
        if set(by_name) != set(names.tolist()):
            raise ValueError(
                f"group_proportions has the keys {sorted(map(str, by_name))}, the groups are "
                f"{sorted(map(str, names.tolist()))}."
            )
        given = [by_name[name] for name in names.tolist()]
    try:
        proportions = np.asarray(given)
    except ValueError:  # of sequences of different lengths
        proportions = np.empty(0, dtype=object)
    if proportions.dtype.kind not in "iuf" or proportions.shape != names.shape:
        raise ValueError(
            f"group_proportions must be {len(names)} numbers, one per group, or a dict; got "
            f"{shown(declared)}."
        )
    proportions = proportions.astype(np.float64)
    if not (np.isfinite(proportions).all() and (proportions > 0).all()):
        raise ValueError(
            f"group_proportions == {shown(declared)}, must be finite and > 0: a group without "
            "records has no loss."
        )
    if abs(float(proportions.sum()) - 1.0) > 1e-6:
        raise ValueError(
            f"group_proportions sum to {float(proportions.sum()):g}, they must sum to 1."
        )
    return proportions
