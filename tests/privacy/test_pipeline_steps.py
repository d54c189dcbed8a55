"""Steps that learn from records without privacy, by their classes, and the warnings about them."""

import contextlib
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingRegressor, VotingClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.feature_selection import SelectFromModel, SelectKBest
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)
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
from skdp.privacy.safe_parts import SAFE as SAFE_PARTS

DOCS = Path(__file__).resolve().parents[2] / "docs" / "guide" / "preprocessing.md"
RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (400, 2))
Y = X[:, 0]


def ridge(**parameters):
    return DPRidge(**{"data_norm": 1.0, "target_range": (-1, 1), "random_state": 0, **parameters})


class Own(StandardScaler):
    """Learns what its base does."""


class Turned(MaxAbsScaler):
    """Has a name of its own."""


class Unknown(TransformerMixin, BaseEstimator):
    """Of somebody else."""

    def fit(self, X, y=None):
        return self


class BoundedLike(TransformerMixin, BaseEstimator):
    """Of the name of a step that bounds."""

    def fit(self, X, y=None):
        return self


BoundedLike.__name__ = "BoundedScaler"


class Sampler(BaseEstimator):
    """As those of imbalanced-learn."""

    __module__ = "imblearn.over_sampling"

    def fit_resample(self, X, y):
        return X, y

    def fit(self, X, y=None):
        return self

    transform = fit


#: What tests/contract/test_safe_parts.py has no case of: of this package, subclasses, models.
SAFE = [BoundedScaler(), DPStandardScaler(), SelectFromModel(ridge()), ridge()]
UNSAFE = [
    Own(), RBFSampler(gamma="scale"), SelectFromModel(LogisticRegression()), LogisticRegression(),
    Sampler(), Turned(), VotingClassifier([("a", ridge())]),
]  # fmt: skip


@pytest.mark.parametrize("step", SAFE, ids=repr)
def test_safe_steps(step):
    assert learning_steps(step) == []


@pytest.mark.parametrize("step", UNSAFE, ids=repr)
def test_steps_that_learn(step):
    (found,) = learning_steps(make_pipeline(step, ridge()))
    assert found.path.startswith(type(step).__name__.lower())
    assert found.keeps


class Centered(Normalizer):
    """Learns where it transforms."""

    def transform(self, X, copy=None):
        return X - X.mean(axis=0)


def test_steps_of_others_and_functions_are_not_known():
    assert learning_steps(Unknown()) == [Step("", "Unknown", None)]
    assert learning_steps(Centered()) == [Step("", "Centered", None)]
    function = FunctionTransformer(lambda X: X - X.mean())
    assert learning_steps(function) == [Step("", "FunctionTransformer", None)]
    words = CountVectorizer(vocabulary=["a"], tokenizer=str.split)
    assert learning_steps(words) == [Step("", "CountVectorizer", None)]


def test_features_that_can_overflow_follow_a_step_that_bounds_them():
    powers = PolynomialFeatures(2)
    assert learning_steps(make_pipeline(BoundedScaler(), powers)) == []
    for first in (FunctionTransformer(), BoundedLike(), "passthrough"):
        found = learning_steps(make_pipeline(first, powers))
        assert [step.kind for step in found if step.keeps] == ["PolynomialFeatures"]


def test_parts_are_found_wherever_they_are():
    columns = ColumnTransformer(
        [("n", make_pipeline(BoundedScaler(), MinMaxScaler()), [0]), ("rest", "passthrough", [1])],
        remainder=PCA(),
        sparse_threshold=0,
    )
    union = FeatureUnion([("safe", Normalizer()), ("pca", PCA())])
    pipeline = Pipeline([("c", columns), ("skip", "passthrough"), ("u", union), ("m", ridge())])
    search = GridSearchCV(pipeline, {})
    paths = [step.path for step in learning_steps(search)]
    assert paths == [
        *("", "estimator.c.remainder", "estimator.c.n.minmaxscaler", "estimator.u.pca")
    ]


def test_made_records_may_be_learned_from():
    made = DPSyntheticData(categories=[[0, 1], [0, 1]])
    assert learning_steps(make_pipeline(made, OneHotEncoder(), PCA())) == []
    assert len(learning_steps(make_pipeline(OneHotEncoder(), made))) == 1
    # but the pipeline hands them the targets of the records
    for last in (LogisticRegression(), SelectFromModel(LogisticRegression()), SelectKBest()):
        (found,) = learning_steps(make_pipeline(made, make_pipeline(PCA(), last)))
        assert found.keeps == "the targets, which are not synthetic"


def test_the_tables_of_the_documentation_say_the_same():
    """Every name of the table, and those that are not on it; conditions are tested elsewhere."""
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
    of_safe = re.findall(r"^\| (`.*?) \|", safe, re.M)
    listed = re.findall(r"`(\w+)`", "\n".join(of_safe))
    assert sorted(listed) == sorted(SAFE_PARTS)


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
    assert len(warned(lambda: pipeline.fit(X, Y))) == 1  # whether or not a budget is kept
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


def fit(self, X, y):
    """Is called like a method of a pipeline, and is none."""
    return ridge().fit(X, y)


def test_running_pipelines_are_told_from_what_looks_like_them():
    steps = [("scale", StandardScaler()), ("normalize", Normalizer()), ("model", ridge())]
    by_other_methods = Pipeline([*steps[:2], ("select", SelectFromModel(ridge()))])
    with BudgetAccountant(100.0, 1e-3):
        assert len(warned(lambda: OwnPipeline(steps).fit(X, Y))) == 1
        assert len(warned(lambda: by_other_methods.fit_transform(X, Y))) == 1
        assert not warned(lambda: fit(Pipeline(steps), X / 9, Y))


@pytest.mark.parametrize("with_budget", [False, True])
def test_meta_estimators_that_mix_records_are_warned_of(with_budget):
    """Before their members read a record; each member says so again."""
    given = np.ones(400)
    for meta, options in (
        (BaggingRegressor(ridge(), n_estimators=1), {"sample_weight": given}),
        (BaggingRegressor(make_pipeline(Normalizer(), ridge()), n_estimators=1), {}),
    ):
        block = BudgetAccountant(100.0, 1e-3) if with_budget else contextlib.nullcontext()
        with block:
            (message,) = warned(lambda: meta.fit(X, Y, **options))  # noqa: B023
        assert "BaggingRegressor keeps the seeds of its members" in message


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
