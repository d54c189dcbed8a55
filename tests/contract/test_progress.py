"""Progress of planned steps: public numbers of the plan, on request only."""

import re

import numpy as np
import pytest

from skdp.data import ArrayRecords
from skdp.linear_model import DPLinearClassifier, DPLinearRegressor, DPLogisticRegression, DPRidge
from skdp.model_selection import DPLogisticRegressionCV, DPRidgeCV
from skdp.robust import (
    DPMaxGroupLossClassifier,
    DPMaxGroupLossMLPClassifier,
    DPMaxGroupLossRegressor,
)
from skdp.synthetic import DPSyntheticData
from skdp.tabular import DPTabularRegressor

CLASSES, TARGETS = {"classes": [0, 1]}, {"target_range": (0.0, 1.0)}
GROUPED = {"group_names": [0, 1]}
STEPS, PLAIN = "noisy steps", "noisy steps of the plain model"
SECOND, ROUNDS = "noisy steps after look 1 of 1", "rounds of mirror descent"
#: Class, parameters, names of what is counted, and the number of the plan that it is, if any.
CASES = {
    "gradient": (DPLogisticRegression, CLASSES, [STEPS], "n_steps"),
    "gradient-squares": (DPRidge, TARGETS, [STEPS], "n_steps"),
    "statistics": (
        DPLinearRegressor,
        {**TARGETS, "method": "statistics", "delta": 0.0},
        ["second moments"],
        None,
    ),
    "exponential": (
        DPLinearClassifier,
        {**CLASSES, "method": "exponential", "delta": 0.0, "alpha": 0.1},
        ["draw"],
        None,
    ),
    "mirror": (DPLinearClassifier, {**CLASSES, "method": "mirror_descent"}, [ROUNDS], None),
    "groups": (DPMaxGroupLossClassifier, CLASSES | GROUPED, [PLAIN, SECOND], None),
    "groups-numbers": (DPMaxGroupLossRegressor, TARGETS | GROUPED, [PLAIN, SECOND], None),
    "groups-mirror": (
        DPMaxGroupLossClassifier,
        {**CLASSES, **GROUPED, "method": "mirror_descent"},
        [ROUNDS],
        None,
    ),
    "table": (DPTabularRegressor, TARGETS, [STEPS], None),
    "tuned-rounds": (DPRidgeCV, {**TARGETS, "method": "rounds"}, ["rounds"], "n_rounds"),
    "tuned-newton": (
        DPLogisticRegressionCV,
        {**CLASSES, "method": "newton"},
        ["second moments", "gradients"],
        None,
    ),
    "synthetic": (DPSyntheticData, {"categories": [[0, 1]] * 4}, ["measurements"], "n_candidates"),
    "synthetic-mirror": (
        DPSyntheticData,
        {"categories": [[0, 1]] * 4, "method": "mirror_descent"},
        ["rounds"],
        "n_rounds",
    ),
    "network": (
        DPMaxGroupLossMLPClassifier,
        {**CLASSES, **GROUPED, "hidden_units": 3, "n_steps": 30},
        [STEPS],
        "n_steps",
    ),
}


def fitted(case, verbose, seed=0):
    made, options, _, _ = CASES[case]
    rng = np.random.default_rng(seed)
    X, y = rng.uniform(-0.5, 0.5, (400, 3)), np.arange(400) % 2
    model = made(3.0, random_state=0, verbose=verbose, **options)
    if made is DPSyntheticData:
        return model.fit((X[:, [0, 1, 2, 0]] > 0).astype(int))
    return model.fit(X, y, **({"groups": y} if "group_names" in options else {}))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("case", CASES)
def test_planned_steps_are_counted_to_their_end_and_change_nothing(case, capsys):
    made, _, names, number = CASES[case]
    quiet, seen = fitted(case, 0), []
    assert capsys.readouterr().out == ""
    printed = fitted(case, 1)
    lines = capsys.readouterr().out.splitlines()
    told = fitted(case, lambda *args: seen.append(args))
    found = {name: [args[1:] for args in seen if args[0] == name] for name in names}
    for name, counts in found.items():
        planned = counts[0][1]
        assert counts == [(k + 1, planned) for k in range(planned)]
        assert printed.privacy_.plan[number] == planned if number else planned >= 1
        own = [line for line in lines if line.startswith(f"[skdp] {name}: ")]
        done = [int(re.search(r": (\d+) of", line)[1]) for line in own]
        assert own[-1] == f"[skdp] {name}: {planned} of {planned} done"
        assert len(own) == min(planned, 10)
        assert done == [
            k for k in range(1, planned + 1) if 10 * k // planned > 10 * (k - 1) // planned
        ]
    assert quiet.privacy_.to_dict() == printed.privacy_.to_dict() == told.privacy_.to_dict()
    if made is DPSyntheticData:
        return
    at = "coefs_" if case == "network" else "coef_"
    for model in (printed, told):
        one, other = (getattr(each, "model_", each) for each in (model, quiet))
        for mine, its in zip(getattr(one, at), getattr(other, at), strict=True):
            np.testing.assert_array_equal(mine, its)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("case", ["statistics", "mirror", "groups-mirror", "network"])
def test_other_records_have_the_same_lines(case, capsys):
    outputs = []
    for seed in (0, 1):
        fitted(case, 1, seed)
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != ""


def test_a_source_is_counted_like_records_in_memory():
    rng, found = np.random.default_rng(0), []
    X, y = rng.uniform(-0.5, 0.5, (400, 3)), np.arange(400) % 2
    for records in ((X, y), (ArrayRecords(X, y, chunk_rows=150),)):
        seen = []
        DPLogisticRegression(
            classes=[0, 1],
            data_norm=1.0,
            random_state=0,
            verbose=lambda *args, s=seen: s.append(args),
        ).fit(*records)
        found.append(seen)
    assert found[0] == found[1] != []
