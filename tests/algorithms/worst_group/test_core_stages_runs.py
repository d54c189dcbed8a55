"""Runs of models of the core for the worst group, draw by draw: all losses and matrices."""

import numpy as np
import pytest
from laboratory import Laboratory
from noisy_group_runs import (
    ADD,
    REPLACE,
    check_draws,
    data_of,
    design_of,
    is_smooth,
    neighbours,
    planned,
    records_of,
)
from plain_noise import seeded

from skdp.algorithms.core.noisy_sums import NoisySum
from skdp.algorithms.plan import Run
from skdp.algorithms.worst_group import core_stages
from skdp.algorithms.worst_group.core_stages import StagesFit
from skdp.problems import (
    HalfSquaredLoss,
    HingeLoss,
    LogisticLoss,
    OneVsRestLoss,
    SoftmaxLoss,
    SquaredHingeLoss,
    huber_loss,
)

SQUARES = HalfSquaredLoss(2.0)
SHARES = (0.7, 0.2, 0.05, 0.05)
#: Loss, relation, kind of matrix, intercept, epsilon, public proportions, whether the plain model
#: is taken.
FITS = [
    (LogisticLoss(), REPLACE, "dense", 0.1, 7e3, None, False),
    (LogisticLoss(), ADD, "float32", 0.0, 100.0, SHARES, False),
    (LogisticLoss(), REPLACE, "dense", 0.1, 300.0, None, True),
    (SoftmaxLoss(3), ADD, "dense", 0.1, 3e3, None, False),
    (SoftmaxLoss(3), REPLACE, "csr", 0.0, 200.0, SHARES, False),
    (SQUARES, ADD, "csr", 0.1, 3e3, None, False),
    (SQUARES, REPLACE, "float32", 0.0, 200.0, SHARES, False),
    (SQUARES, ADD, "dense", 0.1, 300.0, None, True),
    (huber_loss(1.0, 0.2), REPLACE, "dense", 0.1, 300.0, None, False),
    (HingeLoss(), ADD, "dense", 0.1, 300.0, None, False),
    (OneVsRestLoss(SquaredHingeLoss(), 3), REPLACE, "csr", 0.1, 300.0, None, False),
]


@pytest.mark.parametrize("case", FITS, ids=lambda case: "-".join(map(str, case)))
def test_a_record_moves_each_draw_by_its_sensitivity_and_all_by_the_budget(case):
    """Every draw, replayed on neighbours: moves within sensitivities; and on unrelated records."""
    loss, relation, kind, intercept, epsilon, proportions, is_plain = case
    X, y, groups = data = data_of(loss, 0, is_plain)
    records = records_of(*data, kind, intercept)
    plan = planned(loss, design_of(records, relation), relation, epsilon, 0.01, proportions)

    def other_target(t):
        if loss.target_bound:
            return -np.sign(t + 0.1) * loss.target_bound
        return (t + 1) % 2 if is_smooth(loss) else 1 - t

    rows = -10.0 * data_of(loss, 1)[0]
    others = neighbours(data, relation, rows.__getitem__, other_target, kind, intercept)
    unrelated = records_of(3.0 * X[:, ::-1], y[::-1].copy(), 3 - groups, kind, intercept)
    done = check_draws(plan, records, others, unrelated, epsilon, is_plain)
    if not is_smooth(loss):
        assert any("between two models" in part.name for part in done.releases) != is_plain


@pytest.mark.parametrize("loss", [LogisticLoss(), SoftmaxLoss(3), SQUARES, HingeLoss()], ids=repr)
def test_added_records_pay_for_the_rounding_of_margins(loss, monkeypatch):
    """With every sum over groups."""
    records = records_of(*data_of(loss, 0))
    plan = planned(loss, design_of(records, ADD), ADD, 300.0)
    seen, release = [], NoisySum.release

    def watched(self, exact, noise, moved=0.0):
        if "group" in self.name:
            seen.append((self.name, moved))
        return release(self, exact, noise, moved)

    monkeypatch.setattr(NoisySum, "release", watched)
    monkeypatch.setattr(StagesFit, "margin_rounding", lambda *_: 1e-9)
    plan.run(records, Run(noise=seeded(0)))
    moved = [amount for name, amount in seen if not name.startswith("sizes")]
    assert len(moved) >= 1
    assert min(moved) > 1e-12  # EPS alone is below


@pytest.mark.parametrize(
    ("loss", "relation", "word"),
    [(LogisticLoss(), ADD, "derivatives"), (SQUARES, REPLACE, "between two models")],
)
def test_the_report_is_that_of_the_draws_where_weights_do_not_differ(
    loss, relation, word, monkeypatch
):
    """Several looks whose weights are the proportions are no plain model."""
    monkeypatch.setattr(core_stages, "worst_case_weights", lambda losses, shares, **_: shares)
    records = records_of(*data_of(loss, 0))
    design = design_of(records, relation)
    plan = planned(loss, design, relation, 7e3, 0.01, (0.25,) * 4)
    with Laboratory() as laboratory:
        done = plan.run(records, Run(noise=seeded(0))).plan
    assert done.n_measurements > 1 and max(done.factors) == 1.0
    names = [release.name for release in done.releases]
    assert not any(name.startswith("size and shift") for name in names) and any(
        word in name for name in names
    )
    last, draw = done.releases[-1], laboratory.draws[-1]
    assert last.dimension == draw.value.size
    assert last.noise_scale / last.sensitivity == pytest.approx(
        draw.scale / draw.mechanism.sensitivity, rel=1e-12
    )
