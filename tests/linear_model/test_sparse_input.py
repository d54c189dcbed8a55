"""Sparse input: broken formats and absurd shapes are refused before anything is paid for."""

import numpy as np
import pytest
import scipy.sparse as sp
from every_estimator import ESTIMATORS, declared, records

from skdp import BudgetAccountant, DPLogisticRegression, DPRidge
from skdp.algorithms.plan import MOST_NUMBERS


def with_field(X, name, value):
    """A copy of a sparse matrix with one entry of a field replaced."""
    X = X.copy()
    place, number = value
    getattr(X, name)[place] = number
    return X


def broken(n=20, d=3):
    """Matrices of which SciPy's compiled loops would read or write out of bounds."""
    rows = sp.random(n, d, density=0.7, format="csr", random_state=0)
    for name, value in {
        "indices": (0, d),
        "indices ": (1, -1),
        "indices  ": (2, 10**9),
        "indptr": (3, 10**6),
        "indptr ": (3, -5),
        "indptr  ": (-1, 10**6),
        "indptr   ": (0, 1),
    }.items():
        yield f"csr {name} {value}", with_field(rows, name.strip(), value)
    yield "csc", with_field(rows.tocsc(), "indices", (0, n))
    yield "bsr", with_field(rows.tobsr((2, 3)), "indices", (0, 1))
    yield "coo rows", with_field(rows.tocoo(), "row", (0, n))
    yield "coo columns", with_field(rows.tocoo(), "col", (0, -1))
    short = rows.copy()
    short.data = short.data[:-1]
    yield "csr without the last entry", short
    lists = rows.tolil()
    lists.rows[0] = [d + 7] * len(lists.rows[0])
    yield "lil", lists
    lists = rows.tolil()
    lists.data[3] = lists.data[3][:-1]
    yield "lil without a value", lists


BROKEN = dict(broken())


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_broken_format_is_refused_before_the_charge(kind):
    y = records(kind, n=20)[1]
    for name, X in BROKEN.items():
        accountant = BudgetAccountant(5.0, 1e-5)
        with pytest.raises(ValueError, match=r"inconsistent|out of range|index"):
            declared(kind, accountant=accountant).fit(X, y)
        assert accountant.total().epsilon == 0, name


def test_predictions_refuse_it_too():
    X, y = records(DPRidge, n=20)
    model = declared(DPRidge).fit(X, y)
    for broken_one in BROKEN.values():
        with pytest.raises(ValueError, match=r"inconsistent|out of range|index"):
            model.predict(broken_one)


def test_valid_matrices_stay_as_they_are():
    """With spare room behind the entries, in any format, and with any type of indices."""
    X, y = records(DPRidge, n=50)
    expected = declared(DPRidge).fit(X, y).coef_
    roomy = sp.csr_matrix(X)
    roomy.data = np.append(roomy.data, [np.pi, np.pi])
    roomy.indices = np.append(roomy.indices, [0, 0]).astype(roomy.indices.dtype)
    for kept in (roomy, *(sp.csr_matrix(X).asformat(f) for f in ("csc", "bsr", "coo", "lil"))):
        data = getattr(kept, "data", None)
        model = declared(DPRidge).fit(kept, y)
        assert getattr(kept, "data", None) is data
        np.testing.assert_allclose(model.coef_, expected, atol=1e-7)
    wide = sp.csr_matrix(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    np.testing.assert_allclose(declared(DPRidge).fit(wide, y).coef_, expected, atol=1e-7)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_absurd_numbers_of_columns_are_refused_before_the_charge(kind):
    width = 10**9 if kind is DPRidge else MOST_NUMBERS + 1
    accountant = BudgetAccountant(5.0, 1e-5)
    y = records(kind, n=20)[1]
    with pytest.raises(ValueError, match="columns, which are too many"):
        declared(kind, accountant=accountant).fit(sp.csr_matrix((20, width)), y)
    assert accountant.total().epsilon == 0


def test_many_coefficients_of_several_classes_have_the_same_bound():
    accountant = BudgetAccountant(5.0, 1e-5)
    model = DPLogisticRegression(classes=range(5), data_norm=1.0, accountant=accountant)
    with pytest.raises(ValueError, match="columns, which are too many"):
        model.fit(sp.csr_matrix((20, 1 << 24)), np.arange(20) % 5)
    assert accountant.total().epsilon == 0
