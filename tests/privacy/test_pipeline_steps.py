"""Steps that learn from records without privacy, by their classes, and the warnings about them."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.feature_selection import SelectFromModel, SelectKBest
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    SplineTransformer,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection
from sklearn.utils import all_estimators

from skdp import (
    BoundedScaler,
    BudgetAccountant,
    BudgetExceededError,
    DPLogisticRegression,
    DPRidge,
    DPStandardScaler,
    DPSyntheticData,
)
from skdp.model_selection import dp_cross_validate
from skdp.privacy import PrivacyLeakWarning
from skdp.privacy.pipeline_steps import Step, learning_steps

DOCS = Path(__file__).resolve().parents[2] / "docs" / "guide" / "preprocessing.md"
RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (400, 2))
Y = X[:, 0]


def ridge(**parameters):
    return DPRidge(**{"data_norm": 1.0, "target_range": (-1, 1), "random_state": 0, **parameters})


class Own(StandardScaler):
    """Learns what its base does."""


class Unknown(TransformerMixin, BaseEstimator):
    """Of somebody else."""

    def fit(self, X, y=None):
        return self


class Sampler(BaseEstimator):
    """As those of imbalanced-learn."""

    __module__ = "imblearn.over_sampling"

    def fit_resample(self, X, y):
        return X, y

    def fit(self, X, y=None):
        return self

    transform = fit


ENCODED = {"categories": [["a"]], "handle_unknown": "ignore"}
SAFE = [
    Normalizer(), FunctionTransformer(), OneHotEncoder(**ENCODED),
    OrdinalEncoder(categories=[["a"]], handle_unknown="use_encoded_value", unknown_value=-1),
    SimpleImputer(strategy="constant", keep_empty_features=True), MissingIndicator(features="all"),
    SplineTransformer(knots=np.array([[0.0], [1.0]])), RBFSampler(gamma=1.0),
    GaussianRandomProjection(2), SparseRandomProjection(2), CountVectorizer(vocabulary=["a"]),
    StandardScaler(with_mean=False, with_std=False), BoundedScaler(), DPStandardScaler(),
    SelectFromModel(ridge()), ridge(),
]  # fmt: skip
UNSAFE = [
    StandardScaler(), StandardScaler(with_std=False), Own(), OneHotEncoder(),
    OneHotEncoder(categories=[["a"]]), OneHotEncoder(**ENCODED, min_frequency=3), OrdinalEncoder(),
    SimpleImputer(), SimpleImputer(strategy="constant"),
    SimpleImputer(strategy="constant", keep_empty_features=True, add_indicator=True),
    MissingIndicator(), SplineTransformer(), RBFSampler(gamma="scale"), GaussianRandomProjection(),
    CountVectorizer(), SelectFromModel(LogisticRegression()), LogisticRegression(), Sampler(),
]  # fmt: skip


@pytest.mark.parametrize("step", SAFE, ids=repr)
def test_safe_steps(step):
    assert learning_steps(step) == []


@pytest.mark.parametrize("step", UNSAFE, ids=repr)
def test_steps_that_learn(step):
    (found,) = learning_steps(make_pipeline(step, ridge()))
    assert found.path.startswith(type(step).__name__.lower())
    assert found.keeps


def test_steps_of_others_are_not_known():
    assert learning_steps(Unknown()) == [Step("", "Unknown", None)]


def test_parts_are_found_wherever_they_are():
    columns = ColumnTransformer(
        [("n", make_pipeline(BoundedScaler(), MinMaxScaler()), [0]), ("rest", "passthrough", [1])]
    )
    union = FeatureUnion([("safe", Normalizer()), ("pca", PCA())])
    pipeline = Pipeline([("c", columns), ("skip", "passthrough"), ("u", union), ("m", ridge())])
    search = GridSearchCV(pipeline, {})
    paths = [step.path for step in learning_steps(search)]
    assert paths == ["", "estimator.c.n.minmaxscaler", "estimator.u.pca"]


def test_made_records_may_be_learned_from():
    made = DPSyntheticData(categories=[[0, 1], [0, 1]])
    assert learning_steps(make_pipeline(made, OneHotEncoder(), PCA())) == []
    assert len(learning_steps(make_pipeline(OneHotEncoder(), made))) == 1


def test_the_tables_of_the_documentation_say_the_same():
    """Every transformer that they name, with its defaults; conditions are tested above."""
    kinds = dict(all_estimators())
    kinds |= {"TfidfVectorizer": None, "CountVectorizer": CountVectorizer}
    text = DOCS.read_text().split("## Which transformers")[1].split("## Scale by")[0]
    safe, unsafe = text.split("These are not safe")
    named = re.findall(r"`(\w+)`", "\n".join(re.findall(r"^\| (`.*?) \|", unsafe, re.M)))
    checked = [name for name in named if kinds.get(name) is not None]
    assert len(checked) > 20
    for name in checked:
        arguments = (LogisticRegression(),) if name in ("RFE", "SelectFromModel") else ()
        assert learning_steps(kinds[name](*arguments)), name
    unconditional = [row for row in re.findall(r"^\| (`.*)\|$", safe, re.M) if "none" in row]
    for name in re.findall(r"`(\w+)`", "\n".join(unconditional)):
        assert not learning_steps(kinds[name]()), name


def warned(call):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return [str(each.message) for each in found if each.category is PrivacyLeakWarning]


def test_a_block_warns_of_what_comes_before_a_fit():
    pipeline = make_pipeline(StandardScaler(), Normalizer(), ridge())

    def inside():
        with BudgetAccountant(100.0, 1e-3):
            pipeline.fit(X, Y)

    (message,) = warned(inside)
    assert "'standardscaler' (StandardScaler) keeps means and variances" in message
    with_own = make_pipeline(StandardScaler(), ridge(accountant=BudgetAccountant(9.0, 1e-3)))
    assert len(warned(lambda: with_own.fit(X, Y))) == 1
    assert not warned(lambda: pipeline.fit(X, Y))  # nobody keeps a budget
    safe = make_pipeline(BoundedScaler(), Normalizer(), ridge())
    with BudgetAccountant(100.0, 1e-3):
        assert not warned(lambda: safe.fit(X, Y))
        assert not warned(lambda: ridge().fit(StandardScaler().fit_transform(X) / 9, Y))


class OwnPipeline(Pipeline):
    """Has a method of its own, as that of imbalanced-learn."""

    def fit(self, X, y=None):
        for _, step in self.steps[:-1]:
            X = step.fit_transform(X, y)
        self.steps[-1][1].fit(X, y)
        return self


def fit_elsewhere(self, X, y):
    """Is called like a method of a pipeline, and is none."""
    return ridge().fit(X, y)


def test_running_pipelines_are_told_from_what_looks_like_them():
    steps = [("scale", StandardScaler()), ("normalize", Normalizer()), ("model", ridge())]
    by_other_methods = Pipeline([*steps[:2], ("select", SelectFromModel(ridge()))])
    with BudgetAccountant(100.0, 1e-3):
        assert len(warned(lambda: OwnPipeline(steps).fit(X, Y))) == 1
        assert len(warned(lambda: by_other_methods.fit_transform(X, Y))) == 1
        assert not warned(lambda: fit_elsewhere(Pipeline(steps), X / 9, Y))


def test_a_warning_that_is_an_error_costs_nothing():
    """In nested pipelines, and in the clones of a meta-estimator."""
    pipeline = make_pipeline(make_pipeline(StandardScaler(), Normalizer()), ridge())
    with BudgetAccountant(100.0, 1e-3) as accountant, warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        with pytest.raises(PrivacyLeakWarning, match="StandardScaler"):
            cross_val_score(pipeline, X, Y, cv=2, error_score="raise")
    assert accountant.entries == ()


def test_cross_validation_warns_once_and_before_the_first_charge():
    pipeline = make_pipeline(SelectKBest(k=1), ridge())
    options = {"cv": 3, "epsilon": 1.0, "score_range": (-4, 0)}
    messages = warned(lambda: dp_cross_validate(pipeline, X, Y, **options))
    assert len(messages) == 1 and "SelectKBest" in messages[0]
    with BudgetAccountant(100.0, 1e-3) as accountant, warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        with pytest.raises(PrivacyLeakWarning, match="SelectKBest"):
            dp_cross_validate(pipeline, X, Y, **options)
    assert accountant.entries == ()


@pytest.mark.parametrize("reason", ["budget", "labels"])
def test_private_steps_are_paid_for_if_a_later_one_is_refused(reason):
    """As docs/guide/budget.md says: each step pays for itself, when its turn comes."""
    scaler = DPStandardScaler(epsilon=1.0, delta=0.0)
    model = DPLogisticRegression(epsilon=1.0, delta=0.0, data_norm=1.0, classes=[0, 1])
    error = BudgetExceededError if reason == "budget" else ValueError
    y = np.arange(400) % (2 if reason == "budget" else 3)
    with BudgetAccountant(1.5 if reason == "budget" else 9.0) as accountant, pytest.raises(error):
        make_pipeline(scaler, model).fit(X, y)
    assert [entry.label for entry in accountant.entries] == ["DPStandardScaler"]
    with BudgetAccountant(9.0) as checked, pytest.raises(ValueError, match="not in `classes`"):
        dp_cross_validate(make_pipeline(scaler, model), X, np.arange(400) % 3)
    assert checked.entries == ()
