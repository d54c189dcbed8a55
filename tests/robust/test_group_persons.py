"""The estimators for the worst group with persons who have several records."""

import numpy as np
import pandas as pd
import pytest
from group_models import GROUPS, NAMES, X, Y
from sklearn.base import clone

from skdp import BudgetAccountant
from skdp.methods import GroupMirrorDescent, PhasedSaddle, SaddleOutputPerturbation
from skdp.problems import Design
from skdp.robust import (
    DPMaxGroupLossClassifier,
    DPMaxGroupLossMLPClassifier,
    DPMaxGroupLossRegressor,
)

IDS = np.arange(len(X)) // 3
DECLARED = {"group_names": NAMES, "data_norm": 1.0, "random_state": 0}
PAPER = {
    "method": PhasedSaddle(calibration="paper"),
    "epsilon": 0.5,
    "group_proportions": [0.5, 0.5],
}


def classifier(**parameters):
    return DPMaxGroupLossClassifier(classes=[0, 1], **DECLARED, **parameters)


def test_columns_of_ids_and_groups_are_no_features():
    frame = pd.DataFrame(X, columns=list("abc"))
    tagged = frame.assign(person=IDS, group=GROUPS)
    for model in (classifier(), DPMaxGroupLossRegressor(target_range=(-1, 1), **DECLARED)):
        expected = model.fit(frame, Y, groups=GROUPS, user_ids=IDS).coef_
        model.fit(tagged, Y, groups="group", user_ids="person")
        np.testing.assert_array_equal(model.coef_, expected)
        assert model.feature_names_in_.tolist() == list("abc")
        np.testing.assert_array_equal(model.predict(tagged), model.predict(frame))
        assert len(model.group_scores(tagged, Y, "group")) == 2
        report = model.privacy_
        assert report.unit == "user" and {r.n_records for r in report.releases} == {len(set(IDS))}
        with pytest.raises(ValueError, match="level of the index: call reset_index"):
            model.fit(tagged.set_index("person"), Y, groups="group", user_ids="person")


def test_largest_weights_follow_from_the_number_of_persons():
    model = classifier()
    few, many = (Design(3, 1.0, n) for n in (len(set(IDS)), len(X)))
    assert model._weight_bound(few) < model._weight_bound(many)


PERSONS, WEIGHTS = {"user_ids": IDS}, {"sample_weight": np.ones(len(X))}
NETWORK = DPMaxGroupLossMLPClassifier(classes=[0, 1], **DECLARED)


@pytest.mark.parametrize(
    ("model", "units", "parameters", "message"),
    [
        (classifier(), PERSONS, {"group_proportions": "public"}, "sizes of the groups"),
        (classifier(), PERSONS, {"method": "mirror_descent", "data_norm": None},
         "'mirror_descent' has no proof"),
        (classifier(), PERSONS, {"method": GroupMirrorDescent(), "data_norm": None},
         "has no proof for user_ids"),
        (classifier(), PERSONS, {"method": "rgda"}, "'rgda' has no proof"),
        (classifier(), PERSONS, PAPER, "single records only"),
        (classifier(), PERSONS, {"method": "phased", "neighbouring": "add_remove"},
         "'replace_one' only"),
        (NETWORK, PERSONS, {}, "random batch"),
        (NETWORK, WEIGHTS, {}, "no proof for sample_weight"),
        (classifier(), WEIGHTS, {"group_proportions": "public"}, "sizes of the groups"),
        (classifier(), WEIGHTS, {"method": "rgda"}, "'rgda' has no proof for weights"),
        (classifier(), WEIGHTS, {"method": "mirror_descent", "data_norm": None},
         "'mirror_descent' has no proof"),
        (classifier(), WEIGHTS, PAPER, "'paper' has no proof"),
    ],
)  # fmt: skip
def test_what_has_no_proof_is_refused_before_anything_is_charged(model, units, parameters, message):
    accountant = BudgetAccountant(10.0, 1e-3)
    bound = {"weight_bound": 1.0} if units is WEIGHTS and model is not NETWORK else {}
    model = clone(model).set_params(accountant=accountant, **bound, **parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y, groups=GROUPS, **units)
    assert not accountant.entries


@pytest.mark.parametrize(
    ("given", "shares"),
    [
        ({"method": "saddle"}, [0.6, 0.4]),
        ({"method": "phased"}, "private"),
        ({"method": "saddle", "solver": "lsvre"}, "private"),
        ({"delta": 0.0}, "private"),
        ({"method": SaddleOutputPerturbation(max_group_weight=2.0)}, "private"),
    ],
)
def test_equal_persons_have_the_saddle_point_of_one_record_each(given, shares):
    """Lemma E: a person's records weigh 1 together, in losses, gradients and sizes of groups."""
    rows, labels, groups, ids = (
        np.repeat(part, 3, axis=0) for part in (X, Y, GROUPS, np.arange(len(X)))
    )
    model = classifier(group_proportions=shares, epsilon=20.0, **given)
    expected = model.fit(X, Y, groups=GROUPS, user_ids=ids[::3]).coef_.copy()
    model.fit(rows, labels, groups=groups, user_ids=ids)
    np.testing.assert_allclose(model.coef_, expected, rtol=1e-3, atol=1e-4)
    assert model.privacy_.unit == "user"
