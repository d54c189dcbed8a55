"""Releases and payments are functions of public numbers: the layout of the rows is none."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from every_fit import kinds_of_fits, make, records
from sklearn.utils import get_tags

from skdp import BudgetAccountant, DPRidge


def unsorted(X):
    """CSR with the entries of each row in the other order."""
    X = sp.csr_array(X)[::-1]
    return sp.csr_array((X.data[::-1].copy(), X.indices[::-1].copy(), X.indptr), X.shape)


DENSE = {
    "by columns": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "single precision": lambda X: X.astype(np.float32),
}
SPARSE = {"CSR": sp.csr_array, "CSC": sp.csc_matrix, "CSR, unsorted": unsorted}


def seen(name, given):
    """What a fit pays, says and reports, but for the numbers that it releases."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        with BudgetAccountant(1e9, 0.5) as accountant:
            model = make(name).fit(**given)
    report = model.privacy_
    entries = [(entry.label, repr(entry.event)) for entry in accountant.entries]
    return entries, repr(report.event), report.releases, [str(each.message) for each in found]


@pytest.mark.mostly("slow", 5)
@pytest.mark.parametrize("name", kinds_of_fits())
def test_releases_and_payments_do_not_depend_on_the_layout(name):
    given = records(name)[0]
    if given["X"].dtype.kind == "f":
        given["X"] = np.round(given["X"] * 2**10) / 2**10  # the same numbers in single precision
    layouts = DENSE | (SPARSE if get_tags(make(name)).input_tags.sparse else {})
    dense = seen(name, given)
    for layout, change in layouts.items():
        assert seen(name, {**given, "X": change(given["X"])}) == dense, layout


@pytest.mark.parametrize("method", ["output", "phased", "gradient"])
def test_bounds_on_rounding_do_not_depend_on_the_layout(method):
    """On wide rows, whose sums are formed in other blocks for each layout."""
    X = np.random.default_rng(0).integers(-8, 9, (400, 140)) / 256.0
    given = {"data_norm": 1.0, "target_range": (-1, 1), "random_state": 0}
    dense, *others = (
        DPRidge(**given, method=method).fit(change(X), X[:, 0]).privacy_
        for change in (np.array, sp.csr_array, lambda X: X.astype(np.float32))
    )
    for other in others:
        assert other.releases == dense.releases and other.event == dense.event
