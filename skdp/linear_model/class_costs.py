"""Costs of errors by class: weights of records, or a shift of the log odds after all releases.

The minimiser of a log loss whose records have the weights of their classes is, if the model is
right, that without weights with log odds shifted by the logarithms of the weights. The shift is
post-processing and has no price, while weights leave fewer records beside the same noise. Without
an intercept, and for other losses, weights are in the loss (docs/theory/persons.md, "Costs of
classes").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp._checks import check_unit, shown
from skdp._estimator import encode, plain_labels
from skdp.problems import Records

#: Least share of a class whose inverse is its weight.
_LEAST_SHARE = 0.02


def declared_costs(class_weight: Mapping[Any, float], classes: np.ndarray) -> np.ndarray:
    """Return the weights of classes that a parameter declares; 1 for those that it does not name.

    Raises
    ------
    ValueError
        For labels that are no classes, and for weights that are not finite and > 0.
    """
    weights = np.ones(len(classes))
    if not class_weight:
        return weights
    names = plain_labels(np.array(list(class_weight), dtype=object))
    for name, weight in class_weight.items():
        check_unit(f"class_weight[{shown(name)}]", weight)
    codes = encode(names, classes, "class_weight names labels that are not in `classes`.")
    weights[codes] = list(class_weight.values())
    return weights


def balanced_costs(shares: np.ndarray) -> np.ndarray:
    """Return the inverse shares of the classes, over the number of classes."""
    return 1.0 / (len(shares) * np.maximum(shares, _LEAST_SHARE))


@dataclass(frozen=True, eq=False)
class WeighedClasses:
    """View of records with the weights of their classes, relative to the largest."""

    costs: np.ndarray

    def __call__(self, records: Records) -> Records:
        return records.with_weights(self.costs[np.asarray(records.targets, dtype=np.intp)])
