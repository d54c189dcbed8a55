"""What estimators share is described in the same words, as in scikit-learn's own tests.

A parameter or attribute has one text in all estimators. FAMILIES lists the exceptions: groups of
estimators in which it has one text each, because it means something else there. Examples run on the
package that is imported, installed or not.
"""

import ast
import doctest
import importlib
import inspect
import re
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from every_estimator import ESTIMATORS as MODELS

import skdp
from skdp.inspection import plan_fit
from skdp.preprocessing import BoundedScaler, BoundedSplineTransformer, DPStandardScaler
from skdp.robust import worst_group_loss, worst_group_score
from skdp.synthetic import DPSyntheticData
from skdp.tabular import DPTabularClassifier, DPTabularRegressor, TableEncoder

ESTIMATORS = (*MODELS, DPTabularClassifier, DPTabularRegressor, DPSyntheticData)
TRANSFORMERS = (BoundedScaler, BoundedSplineTransformer, DPStandardScaler, TableEncoder)
PRIVATE = (*ESTIMATORS, DPStandardScaler)

LINEAR_CLASSIFIERS = ("DPLogisticRegression", "DPLinearClassifier")
LINEAR_REGRESSORS = ("DPRidge", "DPLinearRegressor")
LINEAR = LINEAR_CLASSIFIERS + LINEAR_REGRESSORS
TABULAR = ("DPTabularClassifier", "DPTabularRegressor")
ADVERSARIAL = ("DPAdversarialClassifier", "DPAdversarialRegressor")
GROUPED = ("DPMaxGroupLossClassifier", "DPMaxGroupLossRegressor")
NETWORK = ("DPMaxGroupLossMLPClassifier",)
SYNTHETIC = ("DPSyntheticData",)
TUNED = ("DPLogisticRegressionCV", "DPRidgeCV")
MULTICLASS = (
    *LINEAR_CLASSIFIERS,
    "DPAdversarialClassifier",
    "DPMaxGroupLossClassifier",
    "DPLogisticRegressionCV",
)
REGRESSORS = (*LINEAR_REGRESSORS, "DPAdversarialRegressor", "DPMaxGroupLossRegressor", "DPRidgeCV")

FAMILIES = {
    # the convention of the nearest model of scikit-learn; "auto" is 0 for groups
    "alpha": (LINEAR_CLASSIFIERS, LINEAR_REGRESSORS, ADVERSARIAL, GROUPED),
    # the same in phases; one per group of features
    "alpha_": (LINEAR + ADVERSARIAL, GROUPED, TUNED),
    # two classes only
    "classes": (MULTICLASS + NETWORK + TABULAR[:1],),
    "classes_": (MULTICLASS + NETWORK + TABULAR[:1],),
    # the log loss with an intercept alone
    "class_weight": ((*LINEAR_CLASSIFIERS, TUNED[0]), TABULAR[:1]),
    # Gaussian noise only; public factors only; of the last step
    "delta": (LINEAR + ADVERSARIAL + GROUPED + TUNED + TABULAR, NETWORK, SYNTHETIC),
    "group_proportions_": (GROUPED, NETWORK),
    "group_weights_": (GROUPED, NETWORK),
    "coef_": (MULTICLASS, REGRESSORS),
    "intercept_": (MULTICLASS, REGRESSORS),
    # losses of each kind of target; the others refer to the linear models
    "loss": (
        ("DPLinearClassifier",),
        ("DPAdversarialClassifier", "DPMaxGroupLossClassifier"),
        ("DPLinearRegressor",),
        ("DPMaxGroupLossRegressor",),
    ),
    # other values
    "neighbouring": (LINEAR + ADVERSARIAL + TABULAR + TUNED, GROUPED, NETWORK, SYNTHETIC),
    "method": (LINEAR, ADVERSARIAL, GROUPED, TUNED[:1], TUNED[1:], SYNTHETIC),
    "solver": (LINEAR, ADVERSARIAL, GROUPED, TUNED),
    "intervals": (("DPLogisticRegression", "DPRidge"), TABULAR),
    # without solvers
    "verbose": (LINEAR + ADVERSARIAL + GROUPED + TUNED, NETWORK + SYNTHETIC + TABULAR),
}


def entries(kind):
    """Type and text of each parameter and attribute in a numpydoc docstring."""
    sections = re.split(r"^(\w[\w ]*)\n-+\n", inspect.getdoc(kind), flags=re.MULTILINE)
    for title, section in zip(sections[1::2], sections[2::2], strict=True):
        if title in ("Parameters", "Attributes"):
            for entry in re.split(r"^(?=\S)", section, flags=re.MULTILINE):
                head, _, text = entry.partition("\n")
                names, _, kind_of = head.partition(" : ")
                for name in filter(None, names.split(", ")):
                    yield name, (kind_of, " ".join(text.split()))


TEXTS = defaultdict(dict)
for estimator in ESTIMATORS:
    for name, described in entries(estimator):
        TEXTS[name][estimator.__name__] = described


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_every_parameter_is_described_with_its_default(estimator):
    described = dict(entries(estimator))
    for name, parameter in inspect.signature(estimator).parameters.items():
        default = described[name][0].partition("default=")[2]
        assert ast.literal_eval(default) == parameter.default, name


def options(hint):
    """The strings among the values of a type."""
    if get_origin(hint) is Literal:
        return set(get_args(hint))
    return set().union(*map(options, get_args(hint)))


@pytest.mark.parametrize("estimator", PRIVATE, ids=lambda kind: kind.__name__)
def test_options_are_those_of_the_signature_and_of_the_check(estimator):
    described, X = dict(entries(estimator)), [[0.0], [1.0]]
    for name, hint in get_type_hints(estimator.__init__).items():
        if name == "return" or hint is Any:  # several types, such as a name or an object
            continue
        texts = set(re.findall(r'"(\w+)"', described[name][0].partition("default=")[0]))
        assert options(hint) == texts, name
        if get_origin(hint) is Literal:
            with pytest.raises(ValueError, match=f"{name} == 'x', must be one of") as refused:
                estimator(**{name: "x"}).fit(X, [0, 1])
            accepted = set(ast.literal_eval(str(refused.value).partition("one of ")[2][:-1]))
            # the proof of a method, not the check of the option, refuses other relations
            assert texts == accepted or (name == "neighbouring" and texts < accepted)


@pytest.mark.parametrize("estimator", TRANSFORMERS + ESTIMATORS, ids=lambda kind: kind.__name__)
def test_fit_keeps_the_type(estimator):
    """``DPRidge().fit(X, y)`` is a DPRidge for editors and type checkers."""
    assert estimator.fit.__annotations__["return"] == "Self"


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_one_text_for_what_estimators_share(name):
    texts = TEXTS[name]
    families = FAMILIES.get(name, (tuple(texts),))
    assert sorted(sum(families, ())) == sorted(texts)
    found = [{texts[estimator] for estimator in family} for family in families]
    assert all(len(family) == 1 for family in found), found
    assert len(set.union(*found)) == len(families)  # an exception that is none is taken out


def test_one_text_for_what_the_scores_of_groups_share():
    """All parameters but the metric, which is a score in one function and a loss in the other."""
    score, loss = (dict(entries(f)) for f in (worst_group_score, worst_group_loss))
    assert score.pop("metric") != loss.pop("metric")
    assert score == loss


#: Values of parameters that may select another private algorithm than the default one.
CHANGES = {"delta": 0.0, "alpha": 0.01, "solver": "auto", "loss": None}


@pytest.mark.parametrize(
    "names",
    [LINEAR_CLASSIFIERS, LINEAR_REGRESSORS, GROUPED[:1], GROUPED[1:], ADVERSARIAL[:1],
     ADVERSARIAL[1:]],
    ids=" ".join,
)  # fmt: skip
def test_docstrings_name_what_selects_another_algorithm(names):
    """The paragraphs before the parameters name each such parameter, and no other."""
    name, models = names[0], {model.__name__: model for model in ESTIMATORS}
    model_class, grouped = models[name], name in GROUPED
    regressor = name in REGRESSORS
    given = {"data_norm": 1.0}
    given |= {"target_range": (-1, 1)} if regressor else {"classes": [0, 1]}
    given |= {"group_names": [0, 1]} if grouped else {}
    given |= {"attack_radius": 0.1} if name in ADVERSARIAL else {}
    changes = CHANGES | {
        "solver": "extragradient" if grouped else "lbfgs",
        "loss": "huber" if name in LINEAR_REGRESSORS + GROUPED[1:] else "smoothed_hinge",
    }
    shape = {"n_samples": 1000, "n_features": 2} | ({"n_groups": 2} if grouped else {})

    def method(**change):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return plan_fit(model_class(**given, **change), **shape).method

    default, known = method(), inspect.signature(model_class).parameters
    changing = {k for k, v in changes.items() if k in known and method(**{k: v}) != default}
    if not grouped and method(delta=0.0, alpha=2.0) != method(delta=0.0):
        changing.add("alpha")  # without delta
    assert default == "gradient"
    for name in names:
        opening = inspect.getdoc(models[name]).partition("Parameters\n---")[0]
        assert changing == {k for k in changes if re.search(f"`{k}[`=]", opening)}


FOLDER = Path(skdp.__file__).parent


#: Modules with examples, by their files.
MODULES = sorted(
    ".".join(("skdp", *path.relative_to(FOLDER).with_suffix("").parts)).removesuffix(".__init__")
    for path in FOLDER.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


#: An audit of many fits.
AUDITED = "skdp.audit.distinguishing"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.audit] * (name == AUDITED)) for name in MODULES]
)
def test_examples_of_docstrings(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_examples_are_found():
    examples = (
        test.examples
        for name in MODULES
        for test in doctest.DocTestFinder().find(importlib.import_module(name))
    )
    assert sum(map(len, examples)) > 90
