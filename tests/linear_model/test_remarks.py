"""Remarks of reports: from public numbers, handed in by plans."""

import re
from types import SimpleNamespace

import numpy as np

from skdp import DPLinearClassifier, DPLogisticRegression, DPMaxGroupLossClassifier, DPRidge
from skdp._estimator import noise_alarms
from skdp.methods import PhasedSaddle
from skdp.privacy import GaussianEvent, Neighbouring, Release

RELATION = Neighbouring.REPLACE_ONE


def test_alarms_are_public_arithmetic():
    event = GaussianEvent(1.0, RELATION)
    release = Release("coefficients", "gaussian", 1.0, 3.0, 4, 100, "theorem", event)
    small, large = (SimpleNamespace(to_dict=lambda r=r: {"radius": r}) for r in (5.0, 7.0))
    (alarm,) = noise_alarms(small, (release,))  # 3 sqrt(4) > 5
    assert "mostly noise" in alarm
    assert not list(noise_alarms(large, (release,)))


def test_a_report_tells_phases_bounds_and_rows():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.5, 0.5, (5000, 2)), rng.uniform(-1, 1, 5000)
    report = DPRidge(100.0, data_norm=1.0, target_range=(-1, 1), method="phased").fit(X, y).privacy_
    plan, text = report.plan, str(report)
    sizes = ", ".join(map(str, plan["block_sizes"]))
    scales = ", ".join(f"{scale:.3g}" for scale in plan["noise_scales"])
    assert len(plan["block_sizes"]) > 1
    assert f"phases: {sizes} records with noise of scale {scales}" in text
    assert "rows are shortened to Euclidean norm 1\n" in text
    assert "bound on" not in text
    compared = DPLinearClassifier(1.0, 0.0, loss="hinge", data_norm=1.0, classes=[0, 1])
    report = compared.fit(X, y > 0).privacy_
    bound = report.plan["method_bounds"]["output_perturbation"]
    assert f"output_perturbation {bound:.3g}, phased " in str(report)
    assert "phases:" not in str(report)


def test_a_report_tells_what_groups_weigh():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.5, 0.5, (2000, 2)), np.arange(2000) % 2
    model = DPMaxGroupLossClassifier(
        data_norm=1.0, classes=[0, 1], group_names=[0, 1], group_proportions=[0.95, 0.05],
        method=PhasedSaddle(max_group_weight=4.0),
    )  # fmt: skip
    text = str(model.fit(X, y, groups=y).privacy_)
    assert "groups (proportions) and their largest weights: 0 1.05, 1 4" in text
    assert "group 1 has at most 0.2 of all weight" in text and "group 0 has" not in text


def test_an_undisclosed_size_is_not_in_the_report():
    """replace_one discloses n by definition; add_remove without `n_public` says that it does."""
    X, y = np.zeros((37, 1)), np.arange(37) % 2
    model = DPLogisticRegression(data_norm=1.0, classes=[0, 1], neighbouring="add_remove")
    report = model.fit(X, y).privacy_
    assert report.releases[0].n_records == 37
    assert any("n_public" in caveat for caveat in report.caveats)
    report = model.set_params(n_public=50).fit(X, y).privacy_
    assert not re.search(r"(?<![.\d])37(?![.\d])", str(report))
    assert not report.caveats
