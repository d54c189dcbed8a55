"""Budgets, reports, and totals over several fits."""

import dataclasses
import json
import math

import numpy as np
import pytest

from skdp import DPRidge
from skdp.privacy import ComposedEvent, PrivacyBudget, PrivacyReport
from skdp.privacy.events import RECORD_RELATIONS, GaussianEvent, Neighbouring


def test_budgets_are_plain_positive_numbers():
    for given in ((0, 0), (-1, 0), (math.nan, 0), (math.inf, 0), (1, -1e-9), (1, 1), (1, math.nan)):
        with pytest.raises(ValueError, match="=="):
            PrivacyBudget(*given)
    for epsilon in ("1", None, True, 1j):
        with pytest.raises(TypeError, match="epsilon"):
            PrivacyBudget(epsilon)
    budget = PrivacyBudget(np.float32(0.5), np.int64(0))
    assert budget == PrivacyBudget(0.5) and budget.is_pure and type(budget.epsilon) is float


def test_report_is_plain_and_readable():
    model = DPRidge(0.7, 1e-5, method="output_perturbation")
    report = model.fit(np.eye(5), np.zeros(5)).privacy_
    plain = json.loads(json.dumps(report.to_dict()))
    assert plain["releases"][0]["event"]["type"] == "gaussian"
    assert plain["event"]["type"] == "composed"
    assert "replace-one" in str(report) and "Lowy" in str(report)
    lines = str(report).split("\n")
    twice = str(dataclasses.replace(report, releases=2 * report.releases)).split("\n")
    assert twice == [lines[0], f"  2 x {lines[1].strip()}", *lines[2:]]


def test_reports_come_back_from_their_dictionaries():
    """With caveats, remarks, two kinds of releases; also after JSON."""
    report = DPRidge(0.7, 1e-5, random_state=0).fit(np.eye(5), np.zeros(5)).privacy_
    report = dataclasses.replace(report, noise_source="opendp")
    assert report.caveats and report.remarks
    assert PrivacyReport.from_dict(report.to_dict()) == report
    plain = json.loads(json.dumps(report.to_dict()))
    assert report.noise is not None and "noise" not in plain
    again = PrivacyReport.from_dict(plain)
    assert json.loads(json.dumps(again.to_dict())) == plain and str(again) == str(report)
    with pytest.raises(ValueError, match="not that of its releases"):
        PrivacyReport.from_dict({**plain, "releases": 2 * plain["releases"]})
    for change in ({"releases": 3}, {"neighbouring": "none"}, {"event": {}}, {"more": 1}):
        with pytest.raises(ValueError, match="no privacy report"):
            PrivacyReport.from_dict({**plain, **change})


def test_reports_are_tables_in_notebooks():
    """All that their text has; names and sentences of others are no markup."""
    report = DPRidge(0.7, 1e-5, random_state=0).fit(np.eye(5), np.zeros(5)).privacy_
    html = report._repr_html_()
    assert html.count("<tr>") == 1 + len(report.releases)
    for release in report.releases:
        assert release.name in html and f"{release.noise_scale:.4g}" in html
        assert f"<td>{release.noise_norm / release.sensitivity:.4g}</td></tr>" in html
    assert repr(report) == "<(0.7, 1e-05)-DP of records>"
    assert all(text in html for text in (*report.remarks, *report.caveats))
    caveats = ("<script>", *report.caveats)
    assert "<script>" not in dataclasses.replace(report, caveats=caveats)._repr_html_()
    methods = {"to_dict", "from_dict", "event"}
    assert {field.name for field in dataclasses.fields(report)} | methods <= set(dir(report))


@pytest.mark.parametrize("relation", RECORD_RELATIONS)
def test_a_report_and_its_releases_have_one_relation(relation):
    """Events of fits under two relations would give a total that holds under neither."""
    changes = {"n_public": 5} if relation is Neighbouring.ADD_REMOVE else {}
    X, y = np.eye(5), np.linspace(-1, 1, 5)
    model = DPRidge(0.7, 1e-5, neighbouring=relation.value, **changes).fit(X, y)
    report = model.privacy_
    assert report.neighbouring is report.event.neighbouring is relation
    assert {release.event.neighbouring for release in report.releases} == {relation}
    plain = report.to_dict()
    named = [plain, plain["event"], plain["releases"][0]["event"]]
    assert {part["neighbouring"] for part in named} == {relation.value}
    with pytest.raises(ValueError, match=f"a fit under '{relation.value}'"):
        dataclasses.replace(report, neighbouring=next(r for r in Neighbouring if r is not relation))
    with pytest.raises(ValueError, match="one relation"):
        other = next(r for r in Neighbouring if r is not relation)
        ComposedEvent([report.event, GaussianEvent(1.0, other)])
    empty = PrivacyReport(1.0, 0.0, relation.value, "nothing", ())
    assert empty.neighbouring is relation and empty.event.neighbouring is None
