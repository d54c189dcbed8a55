"""Progress of planned steps: public numbers of the plan, on request only."""

import inspect
import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
from fit_cases import CASES
from recorded_fits import every_case, record, recorded

from skdp.linear_model import DPLogisticRegression


@every_case(lambda case: "verbose" in inspect.signature(case.estimator).parameters, by_unit=False)
def test_planned_steps_are_counted_to_their_end_and_change_nothing(name):
    """With equal releases other records have the same progress, in chunks as in memory."""
    case, quiet, told = CASES[name], recorded(name), []
    for records in case.pair():
        seen = []
        given = {**case.parameters, "verbose": lambda *args, seen=seen: seen.append(args)}
        fit = record(replace(case, parameters=given), records, quiet.laboratory.releases)
        assert fit.model.privacy_.to_dict() == quiet.model.privacy_.to_dict()
        told.append([step for step in seen if isinstance(step[1], int)])  # others are of solves
    assert told[0] == told[1]
    planned = set()
    for what, steps in itertools.groupby(told[0], key=lambda step: step[::2]):
        counts = [step[1:] for step in steps]
        size = counts[0][1]
        assert counts == [(k + 1, size) for k in range(size)] * (len(counts) // size), what
        planned.add(size)
    if quiet.model.privacy_.method == "gradient":
        assert quiet.model.privacy_.plan["n_steps"] in planned


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_at_most_ten_lines_are_printed(capsys):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.5, 0.5, (400, 3)), np.arange(400) % 2
    model = DPLogisticRegression(3.0, classes=[0, 1], random_state=0, verbose=1).fit(X, y)
    lines, planned = capsys.readouterr().out.splitlines(), model.privacy_.plan["n_steps"]
    own = [line for line in lines if line.startswith("[skdp] noisy steps: ")]
    assert own[-1] == f"[skdp] noisy steps: {planned} of {planned} done"
    assert len(own) == min(planned, 10)
    done = [int(re.search(r": (\d+) of", line)[1]) for line in own]
    assert done == [k for k in range(1, planned + 1) if 10 * k // planned > 10 * (k - 1) // planned]
