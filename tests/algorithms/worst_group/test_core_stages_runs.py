"""Runs of models of the core for the worst group, draw by draw: all losses and matrices."""

import numpy as np
import pytest
from laboratory import Laboratory
from noisy_group_runs import (
    ADD,
    RELATIONS,
    check_draws,
    check_replay,
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
from skdp.algorithms.worst_group import looks
from skdp.algorithms.worst_group.core_stages import CoreStagesPlan
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
#: Loss, kind of matrix, intercept, epsilon, public proportions, whether the plain model is taken.
FITS = [
    (LogisticLoss(), "dense", 0.1, 1e4, None, False),
    (LogisticLoss(), "csr", 0.0, 100.0, None, False),
    (LogisticLoss(), "float32", 0.1, 100.0, SHARES, False),
    (SoftmaxLoss(3), "dense", 0.1, 1e4, None, False),
    (SoftmaxLoss(3), "csr", 0.1, 200.0, SHARES, False),
    (LogisticLoss(), "dense", 0.1, 300.0, None, True),
    (SoftmaxLoss(3), "csr", 0.0, 300.0, None, True),
    (SQUARES, "dense", 0.1, 1e4, None, False),
    (SQUARES, "csr", 0.0, 100.0, None, False),
    (SQUARES, "float32", 0.1, 200.0, SHARES, False),
    (SQUARES, "dense", 0.1, 300.0, None, True),
    (huber_loss(1.0, 0.2), "dense", 0.1, 300.0, None, False),
    (HingeLoss(), "dense", 0.1, 300.0, None, False),
    (OneVsRestLoss(SquaredHingeLoss(), 3), "csr", 0.1, 300.0, None, False),
]
every_fit = pytest.mark.parametrize("case", FITS, ids=lambda case: "-".join(map(str, case)))


@pytest.mark.mostly("slow", 14)  # each case with one relation
@RELATIONS
@every_fit
def test_a_record_moves_each_draw_by_its_sensitivity_and_all_by_the_budget(case, relation):
    """Every draw of a run, replayed on neighbours: moves within sensitivities, and their cost."""
    loss, kind, intercept, epsilon, proportions, is_plain = case
    data = data_of(loss, 0, is_plain)
    records = records_of(*data, kind, intercept)
    plan = planned(loss, design_of(records, relation), relation, epsilon, 0.01, proportions)

    def other_target(t):
        if loss.target_bound:
            return -np.sign(t + 0.1) * loss.target_bound
        return (t + 1) % 2 if is_smooth(loss) else 1 - t

    rows = -10.0 * data_of(loss, 1)[0]
    others = neighbours(data, relation, rows.__getitem__, other_target, kind, intercept)
    done = check_draws(plan, records, others, epsilon, is_plain)
    if not is_smooth(loss):
        assert any("between two models" in part.name for part in done.releases) != is_plain


@every_fit
def test_added_records_pay_for_the_rounding_of_margins(case, monkeypatch):
    """With every sum over groups."""
    loss, kind, intercept, epsilon, proportions, is_plain = case
    records = records_of(*data_of(loss, 0, is_plain), kind, intercept)
    plan = planned(loss, design_of(records, ADD), ADD, epsilon, 0.01, proportions)
    seen, release = [], NoisySum.release

    def watched(self, exact, noise, moved=0.0):
        if "group" in self.name:
            seen.append((self.name, moved))
        return release(self, exact, noise, moved)

    monkeypatch.setattr(NoisySum, "release", watched)
    monkeypatch.setattr(CoreStagesPlan, "_margin_rounding", lambda *_: 1e-9)
    plan.run(records, Run(noise=seeded(0)))
    moved = [amount for name, amount in seen if not name.startswith("sizes")]
    assert len(moved) >= 1
    assert min(moved) > 1e-12  # EPS alone is below


@RELATIONS
@pytest.mark.parametrize(
    ("loss", "word"), [(LogisticLoss(), "derivatives"), (SQUARES, "between two models")], ids=repr
)
def test_the_report_is_that_of_the_draws_where_weights_do_not_differ(
    loss, word, relation, monkeypatch
):
    """Several looks whose weights are the proportions are no plain model."""
    monkeypatch.setattr(looks, "worst_case_weights", lambda losses, shares, **_: shares)
    records = records_of(*data_of(loss, 0))
    design = design_of(records, relation)
    plan = planned(loss, design, relation, 1e4, 0.01, (0.25,) * 4)
    with Laboratory() as laboratory:
        done = plan.run(records, Run(noise=seeded(0))).plan
    assert done.n_looks > 1 and max(done.factors) == 1.0
    names = [release.name for release in done.releases]
    assert not any(name.startswith("size and shift") for name in names) and any(
        word in name for name in names
    )
    last, draw = done.releases[-1], laboratory.draws[-1]
    assert last.dimension == draw.value.size
    assert last.noise_scale / last.sensitivity == pytest.approx(
        draw.scale / draw.mechanism.sensitivity, rel=1e-12
    )


@RELATIONS
@pytest.mark.parametrize("loss", [LogisticLoss(), SQUARES], ids=repr)
def test_a_transcript_replays_on_unrelated_data(loss, relation):
    """The releases alone decide about noise, coefficients and plan: the records do not."""
    records = records_of(*data_of(loss, 0))
    plan = planned(loss, design_of(records, relation), relation, 200.0)
    X, y, groups = data_of(loss, 5)
    unrelated = 1.0 - y if is_smooth(loss) else 0.01 * y
    check_replay(plan, records, records_of(3.0 * X[:, ::-1], unrelated, 3 - groups))
