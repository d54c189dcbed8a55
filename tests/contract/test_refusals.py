"""Parameters that are refused, in one table per family; a refused fit changes nothing."""

import math

import numpy as np
import pytest
from every_estimator import CLASSIFIERS, ESTIMATORS, REGRESSORS, declared, records
from refusals import one_at_a_time

from skdp._checks import LARGEST_UNIT
from skdp.linear_model import DPLinearClassifier, DPLinearRegressor, DPLogisticRegression, DPRidge
from skdp.methods import (
    Bilevel,
    GroupMirrorDescent,
    MirrorDescent,
    ObjectivePerturbation,
    OutputPerturbation,
    PhasedOutputPerturbation,
    PhasedSaddle,
)
from skdp.model_selection import DPLogisticRegressionCV, DPRidgeCV
from skdp.robust import (
    DPAdversarialClassifier,
    DPAdversarialRegressor,
    DPMaxGroupLossClassifier,
    DPMaxGroupLossMLPClassifier,
    DPMaxGroupLossRegressor,
)

NAN, INF = math.nan, math.inf
LINEAR = (DPLogisticRegression, DPRidge, DPLinearClassifier, DPLinearRegressor)
LOSSES = (DPLinearClassifier, DPLinearRegressor)
ADVERSARIAL = (DPAdversarialClassifier, DPAdversarialRegressor)
GROUPED = (DPMaxGroupLossClassifier, DPMaxGroupLossRegressor)
TUNED = (DPRidgeCV, DPLogisticRegressionCV)


PENALTIES = [-1.0, NAN, "best", None, 1e199]
#: Just beyond the ends of all units.
BEYOND = [1.01 * LARGEST_UNIT, 0.99 / LARGEST_UNIT]
#: What the algorithms as published refuse.
PARAMETERS = {
    "alpha": PENALTIES, "coef_norm": [0.0, -1, *BEYOND], "calibration": ["tight", None],
    "population": ["train", 1], "intercept_scaling": [0, NAN], "solver": ["sgd"],
}  # fmt: skip


def own(kind, values):
    """Objects with one wrong parameter after the other, for a table of what is refused."""
    bounds = {"data_norm": None} if kind.is_entrywise else {}
    return [({"method": kind(**wrong), **bounds}, name) for wrong, name in one_at_a_time(**values)]


def mirror(kind, **given):
    """A method whose bound is one on the entries."""
    return {"method": kind(feature_bound=1.0, **given), "data_norm": None}


ADDED = {"neighbouring": "add_remove", "n_public": 12}
#: Estimators and what each of them refuses: parameters, and a part of the message.
FAMILIES = {
    "all": (
        ESTIMATORS,
        one_at_a_time(
            epsilon=[0, -1.0, NAN, INF, "1", True, 1e-99], delta=[-0.1, 1.0, NAN],
            data_norm=[-1.0, 0, NAN, INF, "auto", "1", *BEYOND], fit_intercept=[1],
            neighbouring=["add", "both"], random_state=[-1, "seed"], verbose=["yes"],
            accountant=["mine"],
        ),
    ),
    "regressors": (
        REGRESSORS,
        one_at_a_time(
            target_range=[(1, -1), (0, 0), (0, INF), (NAN, 1), 1.0, (0, 1, 2), "ab", ("0", "1"),
                          *((0, end) for end in BEYOND)],
        ),
    ),
    "classifiers": (
        CLASSIFIERS,
        [
            *one_at_a_time(classes=[[], [1], [1, 1], 3, [[0, 1]], "ab", [0, 2]]),
            ({"classes": np.array(["a", None], dtype=object)}, "must be labels of one kind"),
            ({"classes": [0, "a", None]}, "must be labels of one kind"),
            ({"classes": [["a"], ["b", "c"]]}, "classes must be a list"),
            ({"classes": [0.0, NAN]}, "classes contains missing values"),
            ({"classes": ["a", "b"]}, "not in `classes`"),
        ],
    ),
    "linear models": (
        LINEAR,
        [
            *one_at_a_time(
                alpha=[-1.0, NAN, "best", None, 1e199], solver=["sgd"],
                method=["phase", None, 1, OutputPerturbation],
            ),
            *own(OutputPerturbation, PARAMETERS | {"tilt": [-1.0, "much"]}),
            *own(PhasedOutputPerturbation, PARAMETERS),
            *own(ObjectivePerturbation, {"alpha": PENALTIES, "coef_norm": [0.0, -1]}),
            *own(MirrorDescent, {
                "variant": ["boosted", None], "feature_bound": [0.0, -1, "1", *BEYOND],
                "coef_norm_l1": [0.0, INF, *BEYOND], "alpha": [-1.0, 0, "best", None],
            }),
            ({"method": OutputPerturbation(tilt=INF)}, "tilt == inf"),
            ({"method": OutputPerturbation(alpha=0)}, "alpha == 0 needs coef_norm"),
            ({"method": OutputPerturbation(), "alpha": 0.1}, "has no penalty"),
            ({"method": MirrorDescent(), "alpha": 0.1, "data_norm": None}, "has no penalty"),
            ({"method": OutputPerturbation(), "solver": "lbfgs"}, "has no solver"),
            ({"method": "gradient", "solver": "lbfgs"}, "has no solver"),
            ({"method": MirrorDescent(feature_bound=1.0)}, "data_norm is for methods"),
            (mirror(MirrorDescent, alpha=1e12), "too large"),
            *[(mirror(MirrorDescent, variant=each) | ADDED, "replace_one")
              for each in ("bias_reduced", "variance_reduced")],
            ({"method": "exponential"}, "delta must be 0"),
            ({"method": "phased", "neighbouring": "add_remove"}, "replace_one"),
            ({"method": OutputPerturbation(calibration="paper"), "neighbouring": "add_remove"},
             "replace_one"),
            ({"method": OutputPerturbation(tilt=0.1), "neighbouring": "add_remove"}, "replace_one"),
            ({"method": PhasedOutputPerturbation(calibration="paper")}, "epsilon < 1"),
            ({"method": PhasedOutputPerturbation(calibration="paper"), "epsilon": 0.5, "delta": 0},
             "delta > 0"),
            ({"method": OutputPerturbation(solver="svrg", tilt=0.5)}, "batches"),
            ({"alpha": 0, "delta": 0.0}, "alpha == 0 needs delta > 0"),
            ({"n_public": 10}, "add_remove"),
            *[
                ({"neighbouring": "add_remove", "n_public": size}, "n_public")
                for size in (0, 2.5)
            ],
        ],
    ),
    "no objective perturbation": (
        (DPRidge, DPLinearRegressor),
        [({"method": "objective"}, "is proven for .* 'huber', 'absolute_error'")],
    ),
    "units": (LINEAR, one_at_a_time(weight_bound=[0.0, *BEYOND], max_records_per_user=[0])),
    "costs": (
        (DPLogisticRegression,),
        [
            *one_at_a_time("not in `classes`", class_weight=[{5: 1.0}]),
            *one_at_a_time(class_weight=[{0: 0.0}, "equal"]),
            *one_at_a_time("must be a dict", class_weight=[[1, 2]]),
            ({"class_weight": "balanced", "method": "objective"}, "needs released shares"),
        ],
    ),
    "costs of hinges": (
        (DPLinearClassifier,),
        [({"class_weight": "balanced", "loss": "hinge"}, "needs released shares")],
    ),
    "losses": (LOSSES + ADVERSARIAL[:1], one_at_a_time(loss=["softmax", None])),
    "losses of labels": (
        (DPLinearClassifier,),
        [*one_at_a_time(loss=["huber"]),
         (mirror(MirrorDescent) | {"loss": "hinge"}, "smooth losses")],
    ),
    "losses of numbers": (
        (DPLinearRegressor,),
        [
            *one_at_a_time(
                loss=["hinge"], quantile=[0.0, 1.0, NAN, "half"],
                huber_threshold=[0.0, -1, True, *BEYOND],
            ),
            (mirror(MirrorDescent) | {"loss": "quantile"}, "smooth losses"),
        ],
    ),
    "adversarial": (
        ADVERSARIAL,
        one_at_a_time(
            attack_norm=[3, "inf", True], attack_radius=[-0.1, INF, "0.1"], method=["phased"]
        ),
    ),
    "adversarial, several classes": (
        (DPAdversarialClassifier,),
        [
            ({"classes": [0, 1, 2], **given}, "needs the log loss and noisy gradients")
            for given in ({"delta": 0}, {"method": "output"}, {"method": OutputPerturbation(0.1)},
                          {"alpha": 0.1}, {"loss": "hinge"})
        ],
    ),
    "stochastic solvers": (ADVERSARIAL, [({"solver": "svrg"}, "records")]),
    "grouped": (
        GROUPED,
        [
            *one_at_a_time(
                group_proportions=[None, "histogram", [0.5, 0.6]], method=["exponential"]
            ),
            *own(PhasedSaddle, PARAMETERS | {
                "max_group_weight": [0.5, "much", INF], "histogram_share": [0.0, 1.0],
                "release_group_weights": [1], "n_phases": [0, "many"],
            }),
            *own(GroupMirrorDescent, {
                "variant": ["anytime"], "max_group_weight": [0.5], "feature_bound": [0.0],
                "coef_norm_l1": [-1.0],
            }),
            ({"method": GroupMirrorDescent(feature_bound=1.0)}, "clips the entries of X"),
            (mirror(GroupMirrorDescent) | {"solver": "lsvre"}, "has no solver"),
            (mirror(GroupMirrorDescent) | {"alpha": 0.1}, "has no penalty"),
            (mirror(GroupMirrorDescent, variant="bias_reduced") | ADDED, "replace_one"),
            (mirror(GroupMirrorDescent, variant="boosted") | {"group_proportions": "private"},
             "whole budget on each part|two groups"),
            ({"group_proportions": "public", "neighbouring": "add_remove"}, "replace_one"),
            ({"method": "rgda", "alpha": 0.1}, "has no penalty"),
            ({"method": "rgda", "neighbouring": "add_remove"}, "replace_one"),
            ({"method": "rgda", "delta": 0.0}, "delta"),
        ],
    ),
    "networks": (
        (DPMaxGroupLossMLPClassifier,),
        one_at_a_time(delta=[0.0], hidden_units=[0], balance=[0.0], max_group_weight=[0.5],
                      group_proportions=["equal", None, [1.0]], neighbouring=["add_remove"]),
    ),
    "losses of groups": (
        (DPMaxGroupLossClassifier,),
        [({"method": "rgda", "loss": "hinge"}, "smooth loss"),
         (mirror(GroupMirrorDescent) | {"loss": "hinge"}, "smooth")],
    ),
    "tuned": (
        TUNED,
        [
            *one_at_a_time(
                penalty_groups=[
                    [0, 1], 0, [[0, 1, 2]], "abc", {"a": 1}, [0, "a", 1], [0, None, 1],
                    [0, 1, NAN], ["a", None, "b"],
                ],
                alpha_bounds=[
                    1.0, (1.0,), (1.0, 1.0), (0.0, 1.0), (-1.0, 1.0), (1.0, INF), (NAN, 1.0),
                    ("a", "b"), "12", {1: 2, 3: 4}, (1e-300, 1.0), (1e-3, 1e200),
                ],
                method=["grid", None, 1, Bilevel],
            ),
            *own(Bilevel, {"as_published": [1, None], "tune_share": [0.0, 1.0, NAN],
                           "inner": ["sgd", 1]}),
            ({"method": Bilevel(as_published=True, solver="sgd")}, "solver"),
            ({"method": Bilevel(as_published=True), "neighbouring": "add_remove"}, "replace_one"),
            ({"method": Bilevel(as_published=True), "solver": "newton"}, "has no solver"),
            ({"method": OutputPerturbation()}, "is not for this model, which takes Bilevel"),
            ({"n_public": 10}, "add_remove"),
            *[
                ({"method": method, "delta": 0.0}, "needs delta > 0")
                for method in ("gradient", "bilevel", Bilevel(as_published=True))
            ],
            *[
                ({"solver": "newton", "method": method}, "solver must be 'auto'")
                for method in ("gradient", "bilevel", Bilevel(inner="localized_gd"))
            ],
            *[
                ({**untuned, **given}, "tuned with delta > 0 and without a solver")
                for untuned in ({"solver": "newton"}, {"delta": 0.0})
                for given in ({"alpha_bounds": (0.1, 1)}, {"penalty_groups": [0, 1, 1]})
            ],
        ],
    ),
}  # fmt: skip


def two_of(kinds, parameters, k):
    """Two of the estimators that have the parameters, by turns."""
    having = [kind for kind in kinds if set(parameters) <= set(kind().get_params())]
    return {having[k % len(having)]: 0, having[(k + len(having) // 2) % len(having)]: 0}


CASES = [
    pytest.param(kind, parameters, message, id=f"{kind.__name__}-{parameters}")
    for kinds, table in FAMILIES.values()
    for k, (parameters, message) in enumerate(table)
    for kind in two_of(kinds, parameters, k)
]


@pytest.mark.parametrize(("kind", "parameters", "message"), CASES)
def test_refused_parameters(kind, parameters, message):
    model = declared(kind, **parameters)
    before = dict(vars(model))
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(*records(kind, n=12))
    assert vars(model) == before


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_groups_are_for_models_of_groups(kind):
    if "group_names" not in kind().get_params():
        X, y = records(kind, n=12)
        with pytest.raises(TypeError, match="groups"):
            declared(kind).fit(X, y, groups=np.ones(12))
