"""Labels, targets, weights, ids and groups of every kind are taken as they are, or refused by name.

Nothing loses a part, is parsed or is dropped without a word, and what is fitted can be scored.
"""

import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from skdp import DPLogisticRegression, DPMaxGroupLossClassifier, DPTabularClassifier
from skdp.data import ArrayRecords

rng = np.random.default_rng(0)
N = 200
X = rng.uniform(-0.5, 0.5, (N, 3))
B, ONES = X[:, 0] > 0, np.ones(N)
DATES = np.where(B, "2020-01-01", "2021-01-01").astype("M8[D]")
#: Labels of two classes by how they are stored.
LABELS = {
    "bool": B,
    "boolean": pd.Series(B, dtype="boolean"),
    "int8": B.astype(np.int8),
    "Int64": pd.Series(B.astype(int), dtype="Int64"),
    "float": B.astype(float),
    "list": B.tolist(),
    "category of int": pd.Series(B.astype(int), dtype="category"),
    "text": np.where(B, "yes", "no"),
    "objects of text": np.where(B, "yes", "no").astype(object),
    "category of text": pd.Series(np.where(B, "yes", "no"), dtype="category"),
    "string": pd.Series(np.where(B, "yes", "no"), dtype="string"),
    "digits": np.where(B, "1", "0"),
    "shuffled index": pd.Series(B.astype(int), index=rng.permutation(N)),
    "objects of bool": pd.Series(B.tolist(), dtype=object),
    "objects of int": pd.Series(B.astype(int).tolist(), dtype=object),
    "objects of float": np.array(B.astype(float).tolist(), dtype=object),
    "mixed objects": np.array([1, "a"] * (N // 2), dtype=object),
    "bytes": np.where(B, "1", "0").astype("S1"),
    "complex": B.astype(complex),
    "masked": np.ma.array(B.astype(int), mask=np.arange(N) < 5),
    "fractions": B + 0.5,
}
CLASSES = ([0, 1], [False, True], ["no", "yes"], ["0", "1"])


def outcome(model, y):
    """Accuracy on the records; None where a fit refuses them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(X, y)
        except (TypeError, ValueError):
            return None
    return model.score(X, np.asarray(y))  # whatever was fitted can be scored


@pytest.mark.parametrize("kind", LABELS)
def test_labels_as_in_scikit_learn(kind):
    """Refused where LogisticRegression refuses, or where they are not the declared classes."""
    y, accepted = LABELS[kind], []
    for classes in CLASSES:
        model = DPLogisticRegression(100.0, data_norm=1.0, classes=classes, random_state=0)
        score = outcome(model, y)
        if score is not None:
            assert score > 0.9
            assert model.classes_.tolist() == model.predict(X)[:0].tolist() + classes
            accepted.append(classes)
    # what masks hide is no label, and scikit-learn cannot score it
    is_taken = kind != "masked" and outcome(LogisticRegression(), y) is not None
    assert bool(accepted) == is_taken
    if is_taken:
        are_numbers = np.asarray(y).dtype.kind in "biuf"
        expected = CLASSES[:2] if are_numbers else [CLASSES[3 if kind == "digits" else 2]]
        assert accepted == list(expected)


def test_labels_of_objects_are_refused_as_in_scikit_learn():
    """Of models of groups, of tables and of sources, too."""
    y, declared = LABELS["objects of int"], {"classes": [0, 1]}
    for model, data in (
        (DPMaxGroupLossClassifier(data_norm=1.0, **declared), (X, y)),
        (DPTabularClassifier(columns=(-1, 1), **declared), (X, y)),
        (DPLogisticRegression(data_norm=1.0, **declared), (ArrayRecords(X, y.to_numpy()),)),
    ):
        with pytest.raises(ValueError, match=r"^(chunk 0: )?Unknown label type: unknown"):
            model.fit(*data)


#: Weights that are no real numbers, or not one that is finite and >= 0 for each record.
@pytest.mark.parametrize(
    "weights",
    [
        *(ONES + 1j, (ONES + 0j).astype(object), DATES, DATES.astype(object), B.astype("m8[s]")),
        *(ONES.astype(str), ONES.astype("S1"), ONES.astype(str).astype(object)),
        pd.Series(ONES.astype(str), dtype="string"),
        pd.Series([None] + [1] * (N - 1), dtype="Int64"),
        np.ma.array(ONES, mask=B),
        np.array([10**400] * N, dtype=object),
        *(ONES[1:], np.ones((N, 2)), -ONES, np.inf * ONES, np.nan * ONES),
    ],
    ids=lambda weights: f"{type(weights).__name__}-{weights.dtype}",
)
def test_weights_that_are_refused(weights):
    models = (
        DPLogisticRegression(data_norm=1.0, classes=[0, 1], weight_bound=1.0),
        DPTabularClassifier(columns=(-1, 1), classes=[0, 1], weight_bound=1.0),
        DPMaxGroupLossClassifier(data_norm=1.0, classes=[0, 1], weight_bound=1.0),
    )
    for model in models:
        with pytest.raises((TypeError, ValueError), match=r"[Ss]ample.weight"):
            model.fit(X, B.astype(int), sample_weight=weights)
        assert not hasattr(model, "privacy_")


@pytest.mark.parametrize(
    "weights",
    [B, B.astype(np.float32), B.astype(int).tolist(), pd.Series(B.astype(int), dtype="Int64"),
     np.array([Fraction(int(b)) for b in B])],
    ids=lambda weights: type(weights).__name__,
)  # fmt: skip
def test_weights_that_are_taken(weights):
    model = DPLogisticRegression(data_norm=1.0, classes=[0, 1], weight_bound=1.0, random_state=0)
    expected = model.fit(X, B, sample_weight=B.astype(float)).coef_.copy()
    np.testing.assert_array_equal(model.fit(X, B, sample_weight=weights).coef_, expected)


@pytest.mark.parametrize("name", ["groups", "user_ids"])
def test_masked_and_complex_groups_and_ids_are_refused(name):
    model = DPMaxGroupLossClassifier(data_norm=1.0, classes=[0, 1], group_names=[0, 1])
    for values in (np.ma.array(B.astype(int), mask=~B), B + 0j):
        given = {"groups": B.astype(int), name: values}
        with pytest.raises(ValueError, match=name):
            model.fit(X, B, **given)


# ------------------------------------------------------------------------ ids among the features


@pytest.mark.parametrize("kind", ["int", "text", "Int64", "category", "float"])
def test_ids_that_are_given_as_an_array_are_no_feature(kind):
    """By name a declared column of ids is refused; so it is where its values are given."""
    who = rng.integers(0, 50, N)
    column = {
        "int": who,
        "text": np.char.add("p", who.astype(str)).astype(object),
        "Int64": pd.Series(who, dtype="Int64"),
        "category": pd.Series(who, dtype="category"),
        "float": who.astype(float),
    }[kind]
    ids = who if kind == "float" else column
    declared = [f"p{k}" for k in range(50)] if kind == "text" else (0, 50)
    frame = pd.DataFrame({"x": X[:, 0], "who": column})
    y = B.astype(int)
    shared = {"classes": [0, 1], "random_state": 0}
    model = DPTabularClassifier(columns={"x": (-1, 1), "who": declared}, **shared)
    with pytest.raises(ValueError, match="'who' of X has the ids"):
        model.fit(frame, y, user_ids=ids)
    assert not hasattr(model, "privacy_")
    # another feature, and the same one where it is not declared, are fine
    left = DPTabularClassifier(columns={"x": (-1, 1)}, **shared)
    left.fit(frame[["x"]], y, user_ids=ids)
    model.fit(frame.assign(who=column[::-1].tolist()), y, user_ids=ids)


def test_ids_among_the_columns_of_an_array():
    who = rng.integers(0, 50, N)
    model = DPLogisticRegression(data_norm=1.0, classes=[0, 1])
    for table in (np.column_stack([X, who]), pd.DataFrame(X).assign(who=who).rename(columns=str)):
        with pytest.raises(ValueError, match="of X has the ids"):
            model.fit(table, B, user_ids=who)
    one = DPLogisticRegression(data_norm=1.0, classes=[0, 1])
    one.fit(np.column_stack([X, np.zeros(N)]), B, user_ids=np.zeros(N, dtype=int))  # one person
