"""What the table of safe parts promises: a fit tells nothing of the record in which tables differ.

Every part of the table is fitted to neighbours; parts that are not on it, or not under their
condition, are what the comparison must find.
"""

import numpy as np
import pytest
from neighbours import TEXT, Classifier, Regressor, differences
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.ensemble import BaggingClassifier, BaggingRegressor, VotingClassifier, VotingRegressor
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.feature_selection import SelectFromModel, VarianceThreshold
from sklearn.frozen import FrozenEstimator
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.kernel_approximation import (
    AdditiveChi2Sampler,
    PolynomialCountSketch,
    RBFSampler,
    SkewedChi2Sampler,
)
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import (
    ClassifierChain,
    MultiOutputClassifier,
    MultiOutputRegressor,
    RegressorChain,
)
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection
from sklearn.utils import all_estimators

from skdp import BoundedScaler
from skdp.preprocessing import BoundedSplineTransformer
from skdp.privacy import safe_parts
from skdp.privacy.pipeline_steps import learning_steps, parts
from skdp.privacy.safe_parts import KEPT, SAFE
from skdp.tabular import Category, TableEncoder

KNOTS = np.linspace(0.0, 1.0, 5)[:, None] * np.ones((1, 2))
CATEGORIES = [["a", "bb"]] * 2
IGNORED = {"categories": CATEGORIES, "handle_unknown": "ignore"}
CODED = {"handle_unknown": "use_encoded_value", "unknown_value": -1}
TWO, TEN = Classifier([0, 1]), Classifier(list(range(10)))
DENSE = {"sparse_threshold": 0.0}


def encoder(**options):
    return OneHotEncoder(**{**IGNORED, **options})


def bounded(part):
    return make_pipeline(Normalizer(), part)


#: Parts of each class on the table with the kind of their input (tests/support/neighbours.py).
CASES = {
    "Normalizer": [(Normalizer(norm), "numbers") for norm in ("l1", "l2", "max")],
    "Binarizer": [(Binarizer(threshold=0.5), "numbers")],
    "FunctionTransformer": [(FunctionTransformer(), "numbers")],
    "PolynomialFeatures": [(bounded(PolynomialFeatures(degree)), "numbers") for degree in (2, 5)],
    "PolynomialCountSketch": [(bounded(PolynomialCountSketch()), "numbers")],
    "OneHotEncoder": [
        (encoder(), "texts"),
        (encoder(handle_unknown="infrequent_if_exist"), "texts"),
        (encoder(sparse_output=False), "texts"),
    ],
    "OrdinalEncoder": [(OrdinalEncoder(categories=CATEGORIES, **CODED), "texts")],
    "MissingIndicator": [(MissingIndicator(features="all"), "numbers")],
    "SplineTransformer": [
        (SplineTransformer(knots=KNOTS), "numbers"),
        (SplineTransformer(knots=KNOTS, extrapolation="periodic", sparse_output=True), "numbers"),
    ],
    "HashingVectorizer": [(HashingVectorizer(n_features=16), "words")],
    "FeatureHasher": [(FeatureHasher(n_features=16, input_type="string"), "tokens")],
    "CountVectorizer": [(CountVectorizer(vocabulary=["cat", "dog"]), "words")],
    "Pipeline": [
        (make_pipeline(Normalizer(), Binarizer()), "numbers"),
        (make_pipeline(Normalizer(), Regressor()), "regression"),
    ],
    "FeatureUnion": [
        (FeatureUnion([("a", Normalizer()), ("b", "passthrough"), ("c", "drop")]), "numbers"),
        (FeatureUnion([("a", encoder()), ("b", encoder(sparse_output=False))]), "texts"),
    ],
    "ColumnTransformer": [
        (ColumnTransformer([("a", Normalizer(), [0]), ("b", "drop", [1])], **DENSE), "numbers"),
        (ColumnTransformer([("a", Normalizer(), [0])], remainder=Binarizer(), **DENSE), "numbers"),
        (
            ColumnTransformer(
                [
                    ("one", encoder(categories=CATEGORIES[:1]), [0]),
                    ("code", OrdinalEncoder(categories=CATEGORIES[:1], **CODED), [1]),
                ],
                verbose_feature_names_out=False,
                **DENSE,
            ),
            "texts",
        ),
    ],
    "SelectFromModel": [(SelectFromModel(Regressor()), "regression")],
    "TransformedTargetRegressor": [
        (TransformedTargetRegressor(Regressor()), "regression"),
        (
            TransformedTargetRegressor(
                Regressor(), transformer=FunctionTransformer(), check_inverse=False
            ),
            "regression",
        ),
    ],
    "VotingRegressor": [(VotingRegressor([("a", Regressor())]), "regression")],
    "MultiOutputRegressor": [(MultiOutputRegressor(Regressor()), "outputs")],
    "MultiOutputClassifier": [
        (MultiOutputClassifier(TWO), "labels"),
        (MultiOutputClassifier(Classifier(list(range(20)))), "labels"),
    ],
    "RegressorChain": [(RegressorChain(Regressor(), order="random"), "outputs")],
    "ClassifierChain": [(ClassifierChain(TWO), "labels")],
    "FixedThresholdClassifier": [(FixedThresholdClassifier(TWO, threshold=0.1), "two")],
    "FrozenEstimator": [(FrozenEstimator(Regressor().fit([[0.0, 1.0]], [0.0])), "regression")],
}
#: Steps of this package without privacy, under the same rule.
OWN = [
    (BoundedScaler(ranges=[(0, 1)] * 2, fill_value=0.0), "numbers"),
    (BoundedSplineTransformer([(0, 1)] * 2), "numbers"),
    (TableEncoder({name: Category(["a", "bb"], missing=True) for name in "uv"}), "frames"),
]
#: Thresholds that the replaced record decides on, for the text tables.
COUNT = int((TEXT[:, 0] == "a").sum())
DENSITY = float(np.isin(TEXT, CATEGORIES[0]).mean()) / 2
#: What must be found: leaks of classes that are not on the table, and of others without their
#: condition.
LEAKS = [
    (MaxAbsScaler(), "numbers"),
    (StandardScaler(with_mean=False, with_std=False), "numbers"),
    (SimpleImputer(strategy="constant", fill_value=0, keep_empty_features=True), "numbers"),
    (KBinsDiscretizer(strategy="uniform"), "numbers"),
    (VarianceThreshold(), "numbers"),
    (RBFSampler(gamma=1.0), "numbers"),
    (GaussianRandomProjection(2), "numbers"),
    (SparseRandomProjection(2), "numbers"),
    (AdditiveChi2Sampler(), "numbers"),
    (SkewedChi2Sampler(), "numbers"),
    (PolynomialFeatures(), "numbers"),
    (PolynomialCountSketch(), "numbers"),
    (MissingIndicator(), "numbers"),
    (SplineTransformer(), "numbers"),
    (SplineTransformer(knots=KNOTS, extrapolation="error"), "numbers"),
    (SplineTransformer(knots=KNOTS, extrapolation="continue"), "numbers"),
    (encoder(categories=[[0, 1, 2]] * 2), "numbers"),
    (encoder(categories=[["0", "1", "2"]] * 2), "numbers"),
    (encoder(categories="auto"), "texts"),
    (encoder(drop="first"), "texts"),
    (encoder(handle_unknown="error"), "texts"),
    (encoder(min_frequency=COUNT), "texts"),
    (OrdinalEncoder(categories=[[0, 1, 2]] * 2, **CODED), "numbers"),
    (CountVectorizer(), "words"),
    (ColumnTransformer([("a", encoder(), [0, 1])], sparse_threshold=DENSITY), "texts"),
    (ColumnTransformer([("a", "passthrough", [0, 1])], sparse_threshold=1.0), "numbers"),
    (
        ColumnTransformer(
            [("a", "passthrough", make_column_selector(dtype_include="number"))], **DENSE
        ),
        "numbers",
    ),
    (
        FunctionTransformer(np.floor, np.copy, check_inverse=True, validate=True),
        "numbers",
    ),
    (
        TransformedTargetRegressor(Regressor(), func=np.floor, inverse_func=np.copy),
        "two",
    ),
    (
        TransformedTargetRegressor(Regressor(), transformer=MaxAbsScaler(), check_inverse=False),
        "regression",
    ),
    (BaggingRegressor(Regressor(), n_estimators=2), "regression"),
    (BaggingClassifier(TWO, n_estimators=2, bootstrap=False, max_samples=0.5), "two"),
    (VotingClassifier([("a", TEN)]), "three"),
    (OneVsRestClassifier(TWO), "three"),
    (OneVsOneClassifier(TWO), "three"),
    (OutputCodeClassifier(TWO), "three"),
    (MultiOutputClassifier(Classifier(list(range(30)))), "labels"),
    (FixedThresholdClassifier(TEN), "two"),
    (RegressorChain(Regressor(), cv=2), "outputs"),
    (ClassifierChain(TWO, cv=2), "labels"),
]  # fmt: skip


def names(part):
    """The classes of a part and of its parts."""
    found = {type(part).__name__}
    return found.union(*(names(each) for _, each in parts(part)))


def faults(cases, names_of_parts):
    """What is wrong with some names of the table: no case, no safe one, or one that tells."""
    found = []
    for name in names_of_parts:
        if name not in safe_parts.SAFE or not cases.get(name):
            found.append(f"{name} has no case or is not on the table")
        for part, kind in cases.get(name, ()):
            if name not in names(part) or learning_steps(part):
                found.append(f"{part} is no safe case of {name}")
            found.extend(f"{name}, {text}" for text in differences(part, kind))
    return found


@pytest.mark.mostly("slow", 10)
@pytest.mark.parametrize("name", sorted({*SAFE, *CASES}))
def test_safe_parts_tell_nothing_of_a_record(name):
    assert faults(CASES, [name]) == []


@pytest.mark.parametrize("part, kind", OWN, ids=[type(part).__name__ for part, _ in OWN])
def test_steps_of_the_package_tell_nothing_of_a_record(part, kind):
    assert learning_steps(part) == []
    assert differences(part, kind) == []


@pytest.mark.mostly("slow", 12)
@pytest.mark.parametrize("part, kind", LEAKS, ids=[repr(part)[:60] for part, _ in LEAKS])
def test_leaks_are_reported_and_found_if_they_are_planted(part, kind, monkeypatch):
    assert any(step.keeps for step in learning_steps(part))
    for name in names(part):
        monkeypatch.setitem(safe_parts.SAFE, name, lambda step: None)
    assert learning_steps(part) == []
    name = type(part).__name__
    assert faults({name: [(part, kind)]}, [name])
    assert name in CASES or faults(CASES, [name]) == [f"{name} has no case or is not on the table"]


def test_the_table_names_estimators_of_scikit_learn():
    known = dict(all_estimators()) | {"CountVectorizer": CountVectorizer}
    assert set(SAFE) | set(KEPT) <= known.keys() | {"TfidfVectorizer"}
    assert not set(SAFE) & set(KEPT)
