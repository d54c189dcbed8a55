"""Solves in place of noisy steps: their numbers, the view, rounding, whole fits (section 10)."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from every_loss import ALL, SEVERAL
from every_loss import CLIPPED as LOSSES
from plain_noise import seeded
from sklearn.base import clone

from skdp import DPLinearClassifier, DPLinearRegressor, DPRidge
from skdp.algorithms import Run
from skdp.algorithms.core import solved_rows
from skdp.algorithms.core.centered_rows import CenteredRows, Centering
from skdp.algorithms.core.fit import plan_core
from skdp.algorithms.core.margin_laws import odds, squares
from skdp.algorithms.core.solved_rows import SolvedView, least_norm, map_rounding
from skdp.algorithms.core.solves import Solves, paced_solves
from skdp.inspection import plan_fit
from skdp.mechanisms import NoiseSource
from skdp.methods import Output
from skdp.model_selection import DPRidgeCV
from skdp.privacy import PrivacyBudget, tightest_epsilon
from skdp.privacy.events import RECORD_RELATIONS, Neighbouring
from skdp.problems import Ball, Design, EmpiricalRisk, FiniteSumProblem, Objective, Records
from skdp.problems.rounding import two_norms
from skdp.problems.slope_clipped import clipped
from skdp.robust import DPMaxGroupLossRegressor

SOLVERS = {"squares": "svrg", "log loss": "lbfgs", "huber": "svrg", "classes": "lbfgs"}
#: Each loss with one relation.
CASES = list(zip(ALL, 4 * list(RECORD_RELATIONS), strict=True))


class Silent(NoiseSource):
    """Adds a fixed number of deviations."""

    def __init__(self, value=0.0):
        super().__init__(np.random.default_rng(0).bytes)
        self.value = value

    def add_normal(self, value, scale):
        return value + scale * self.value


def table(n=400, d=4, seed=0, loss="squares"):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d)) * [1.0, 0.5, 0.2, 0.1][:d] + 0.2
    X /= 1.01 * np.linalg.norm(X, axis=1).max()
    margin = 2.0 * X[:, 0] - X[:, 1] + 0.2 * rng.standard_normal(n)
    if loss in SEVERAL:
        edges = [-0.3, 0.0, 0.3, 0.6][: SEVERAL[loss].n_classes - 1]
        return X, np.digitize(margin, edges)
    targets = np.clip(0.2 * margin, -1, 1) if LOSSES[loss].target_bound else (margin > 0.3) * 1.0
    return X, targets


def goal(name, data, relation=Neighbouring.REPLACE_ONE, n_public=None):
    return Objective(EmpiricalRisk(ALL[name]), Design.of(data, n_public), neighbouring=relation)


def test_noise_and_signal_of_solves_are_those_of_implicit_steps():
    lengths, curvature = (3.0, 1.0, 0.5), 0.7
    solves = Solves(1.0, 0.5, 10, 2.0, 0.2, lengths)
    for j in range(3):
        weight = 0.0
        for t, length in enumerate(lengths):
            weight = (weight + length * (t == j)) / (1.0 + (t > j) * length * curvature)
        found = solves.responses(np.array([curvature]))[j, 0]
        assert found == pytest.approx(weight, rel=1e-12)
    weight = 0.0
    for length in lengths:
        weight = (weight + length * curvature) / (1.0 + length * curvature)
    assert solves.reached(curvature) == pytest.approx(weight, rel=1e-12)
    assert solves.responses(np.zeros(1)).sum() == pytest.approx(4.5, rel=1e-12)


@pytest.mark.parametrize("law", [squares(), odds(np.full(2, 0.5)), odds(np.full(3, 1 / 3))])
def test_margins_of_solves_end_where_those_of_short_steps_do(law):
    """A solve of length h is about h / s noiseless steps of the length s around its start."""
    pull, moments = law.pulled(0.7), np.array([0.05, 0.3])
    solves = Solves(0.7, 0.5, 10, 1.0, 0.2, (4.0, 2.0))
    fitted = np.zeros((1, 2))
    for length in (4.0, 2.0):
        center = fitted
        for _ in range(600):
            moved = length * moments * pull(fitted) + fitted - center
            fitted = fitted - 0.1 * moved
    assert solves.learnt(pull, moments) == pytest.approx(fitted, abs=2e-3)


def test_the_longest_solves_are_inverse_curvatures_on_average():
    solves = paced_solves(3, True, 0.5, 0.3, 1e9, 1.0, 7, 0.1)
    assert sum(solves.lengths) == pytest.approx(3 * 7 / 0.3)
    assert sum(paced_solves(3, False, 0.5, 0.3, 1e9, 1.0, 7, 0.1).lengths) > 1e6


@pytest.mark.parametrize("is_pure", [False, True])
def test_noise_after_all_solves_is_the_predicted_one(is_pure):
    """The median of 4 deviations, each of 50 fits: off by 6 %, by 25 % with less than 1e-4."""
    X, y = table(1000)
    data = Records(X, 1.0, 0.3, targets=y)
    budget = PrivacyBudget(3.0, 0.0 if is_pure else 1e-6)
    plan = plan_core(goal("squares", data), budget, True)
    rows, found = plan.prepare(data, seeded(1))
    solves = found.steps
    points = np.array([plan.stepped(rows, found, Run(noise=seeded(s)))[0, :4] for s in range(50)])
    squares = ((X / rows.unit - rows.shift) ** 2).mean(axis=0)
    expected = np.sqrt(solves.variances(solves.bend * squares))
    assert np.median(points.std(axis=0) / expected) == pytest.approx(1.0, abs=0.25)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array, np.float32])
@pytest.mark.parametrize("intercept", [0.3, 0.0])
def test_the_view_has_the_products_of_the_rows(container, intercept):
    rng = np.random.default_rng(1)
    X, t = table()
    X = container(X)
    dense = (X.toarray() if sp.issparse(X) else X).astype(np.float64)
    centering = replace(Centering.unknown(4, 1), mean=intercept * np.full(4, 0.5), scale=0.4)
    data = Records(X, 1.0, intercept, targets=t)
    view = data.viewed(SolvedView(centering=centering, clip=0.3))
    rows = (dense - centering.mean) / 0.4
    if intercept:
        rows = np.column_stack([rows, np.full(len(dense), centering.constant)])
    weights, residuals = rng.standard_normal(rows.shape[1]), rng.standard_normal(len(dense))
    assert view.materialise() == pytest.approx(rows, abs=1e-12)
    assert view.margins(weights[None, :])[:, 0] == pytest.approx(rows @ weights, abs=1e-12)
    pulled = view.total(lambda block: block.pull_back(residuals[block.positions]))
    assert pulled[0] == pytest.approx(residuals @ rows, abs=1e-10)
    gram = view.gram(lambda block: residuals[block.positions] ** 2)
    assert gram == pytest.approx(rows.T * residuals**2 @ rows, abs=1e-9)
    norms = np.linalg.norm(rows, axis=1)
    assert (view.targets[:, 1] * norms <= 0.3).all()
    assert view.targets[:, 1] == pytest.approx(0.3 / norms, rel=1e-9)
    assert norms.max() <= view.norm_bound
    some = view.take(np.arange(3, 90))
    assert some.materialise() == pytest.approx(rows[3:90], abs=1e-12)
    other = view.read_only_copy()
    other.map.unit *= 2.0  # what a solver changes stays with it
    assert view.materialise() == pytest.approx(rows, abs=1e-12)


@pytest.mark.parametrize(("name", "relation"), CASES)
@pytest.mark.parametrize(("n", "epsilon"), [(200, 0.1), (10**6, 3.0)])
def test_the_parts_make_the_budget(name, relation, n, epsilon):
    design = Design(1.1, 5, n, 1.0 if relation is Neighbouring.REPLACE_ONE else 10.0, 0.3)
    objective = Objective(EmpiricalRisk(ALL[name]), design, neighbouring=relation)
    plan = plan_core(objective, PrivacyBudget(epsilon, 1e-6), True)
    assert tightest_epsilon(plan.event, 1e-6) == pytest.approx(epsilon, rel=1e-6)
    if name == "squares":
        plan = plan_core(objective, PrivacyBudget(epsilon), True)
        assert tightest_epsilon(plan.event, 0.0) == pytest.approx(epsilon, rel=1e-9)
        assert {release.mechanism for release in plan.releases} == {"spherical_laplace"}


@pytest.mark.parametrize("name", ALL)
def test_solvers_agree_within_their_certificates(name):
    X, y = table(120, loss=name)
    data = Records(X, 1.0, 0.3, targets=y)
    plan = plan_core(goal(name, data), PrivacyBudget(1.0, 1e-6), True)
    solver = SOLVERS.get(name, "newton")
    first = plan.run(data, Run(noise=Silent(0.1)))
    second = plan.run(data, Run(solver, np.random.default_rng(0), noise=Silent(0.1)))
    assert second.point == pytest.approx(first.point, rel=2e-2, abs=1e-2)
    assert first.plan.event == plan.event


class Recording(Silent):
    """Keeps the first value and its scale, and ends the fit there."""

    def add_normal(self, value, scale):
        self.seen = np.array(value), scale
        raise StopIteration


@pytest.mark.parametrize("factors", [None, np.array([0.5, 3.0])])
@pytest.mark.parametrize(("name", "relation"), CASES)
def test_a_solve_moves_by_no_more_than_its_noise_is_for(name, relation, factors):
    """The first solves of neighbours after one preparation; the record replaced is at the ends."""
    best, n_public = 0.0, None if relation.is_replaced else 20
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X, y = table(20, seed=seed, loss=name)
        X *= 0.02
        other, labels, groups = X.copy(), y.copy(), rng.integers(2, size=20)
        X[0] = rng.standard_normal(4)
        X[0] /= np.linalg.norm(X[0])
        groups[0] = 1
        other[0], y[0], labels[0] = -X[0], 1.0, 1.0
        if seed % 2:
            other[0], labels[0] = X[0], -1.0 if ALL[name].target_bound else 0
        keep = slice(0 if relation.is_replaced else 1, None)
        first, second = (
            Records(rows, 1.0, 0.3, targets=t, groups=g)
            for rows, t, g in ((X, y, groups), (other[keep], labels[keep], groups[keep]))
        )
        plan = plan_core(goal(name, first, relation, n_public), PrivacyBudget(100.0, 1e-3), True)
        rows, found = plan.prepare(first, Silent())
        solves = replace(found.steps, lengths=(1e-3,) * len(found.steps.lengths))
        found, seen = replace(found, steps=solves), []
        for data in (first, second):
            noise = Recording()
            centered = CenteredRows(data, rows.centering)
            with pytest.raises(StopIteration):
                plan.stepped(centered, found, Run(noise=noise), factors=factors)
            seen.append(noise.seen)
        (one, scale), (two, same) = seen
        assert scale == same
        sensitivity = scale * plan.mu_steps * math.sqrt(solves.parts[0])
        best = max(best, float(np.linalg.norm(one - two)) / sensitivity)
    assert best <= 1.0
    assert best > (0.9 if ALL[name].n_outputs == 1 else 0.6)


class Fixed(NoiseSource):
    """Releases the same numbers whatever the values are."""

    def __init__(self):
        super().__init__(np.random.default_rng(0).bytes)
        self.rng = np.random.default_rng(1)

    def add_normal(self, value, scale):
        return 0.3 * self.rng.standard_normal(np.shape(value)) * np.sqrt(np.size(value) * scale)


@pytest.mark.parametrize("name", ["squares", "log loss", "quantile", "classes"])
def test_problems_follow_from_releases_to_the_last_bit(name, monkeypatch):
    """Whole fits of neighbours at equal history: center, penalty, ball, loss and map are equal."""
    made = []

    class Recorded(FiniteSumProblem):
        def __init__(self, records, loss, alpha, domain, **options):
            super().__init__(records, loss, alpha, domain, **options)
            center, made_of = options["center"].tobytes(), vars(records.map)
            numbers = [
                np.asarray(made_of[each]).tobytes() for each in ("unit", "shift", "constant")
            ]
            made.append((repr(loss), alpha, domain.radius, center, *numbers))

    monkeypatch.setattr(solved_rows, "FiniteSumProblem", Recorded)
    X, y = table(60, loss=name)
    other, labels = X.copy(), y.copy()
    other[0], labels[0] = -X[1], 1 - int(y[0] > 0)
    for rows, targets in ((X, y), (other, labels)):
        data = Records(rows, 1.0, 0.3, targets=targets)
        plan = plan_core(goal(name, data), PrivacyBudget(1.0, 1e-3), True)
        plan.run(data, Run("newton", noise=Fixed()))
    assert len(made) == 20 and made[:10] == made[10:]


def stepped(name, lengths, n_public=None, relation=Neighbouring.REPLACE_ONE, factors=None):
    """The point after noiseless solves, after noiseless means."""
    X, y = table(200, loss=name)
    data = Records(X, 1.0, 0.3, targets=y, groups=np.arange(200) % 2)
    plan = plan_core(goal(name, data, relation, n_public), PrivacyBudget(10.0, 1e-3), True)
    rows, found = plan.prepare(data, Silent())
    solves = replace(found.steps, lengths=lengths, clip=0.5)
    return plan.stepped(rows, replace(found, steps=solves), Run(noise=Silent()), factors=factors)


@pytest.mark.parametrize("name", ["squares", "log loss"])
def test_factors_are_worth_what_they_are(name):
    """Equal ones are longer solves."""
    tripled = stepped(name, (1.0, 0.5), factors=np.array([3.0, 3.0]))
    assert tripled == pytest.approx(stepped(name, (3.0, 1.5)), rel=0.02, abs=1e-3)


def test_released_counts_take_the_place_of_public_numbers():
    added = Neighbouring.ADD_REMOVE
    points = [stepped("squares", (2.0, 2.0), n, added) for n in (200, 400)]
    assert points[0] == pytest.approx(points[1], rel=0.02, abs=1e-3)


@pytest.mark.parametrize(("seed", "name"), list(enumerate(ALL)))
def test_no_noise_makes_a_fit_fail(seed, name):
    """Rows without any variance; second moments are noise, and often all below 0."""
    data = Records(np.zeros((300, 1 + seed % 2)), 1.0, 0.3, targets=np.zeros(300, dtype=int))
    objective = replace(goal(name, data), alpha=0.1 * (seed % 3))
    plan = plan_core(objective, PrivacyBudget(3.0, 1e-3), True)
    assert np.isfinite(plan.run(data, Run(noise=seeded(seed))).point).all()


@pytest.mark.parametrize(
    ("name", "intercept", "scale"),
    [
        *((name, 0.3, None) for name in ALL),
        ("huber", 0.0, None),
        ("classes", 0.0, None),
        ("log loss", 0.3, 1e-3),
        ("one against the rest", 0.3, 1e-3),
    ],
)
def test_gradients_are_within_their_rounding(name, intercept, scale):
    """Rows far from the origin and short ones, beside extended precision; tiny scales."""
    X, y = table(500, loss=name)
    X[:250] *= 1e-3
    data, long = Records(X, 1.0, intercept, targets=y), np.longdouble
    plan = plan_core(goal(name, data), PrivacyBudget(3.0, 1e-3), True)
    rows, found = plan.prepare(data, Silent())
    clip, offsets = found.clip, rows.centering.offsets
    if scale:
        centering = replace(rows.centering, mean=np.zeros(4), scale=scale)
        X *= 0.0
        data = Records(X, 1.0, intercept, targets=y)
        rows = CenteredRows(data, centering)
    loss = clipped(plan.loss, offsets, clip)
    view = data.viewed(SolvedView(centering=rows.centering, clip=clip))
    problem, k = FiniteSumProblem(view, loss, 0.05, Ball(5.0)), loss.n_outputs
    rounding = map_rounding(problem.constants, rows, loss)
    constants = replace(problem.constants, additional_rounding=rounding)
    exact = X.astype(long) / rows.unit - rows.shift
    if intercept:
        exact = np.column_stack([exact, np.full(len(X), long(rows.constant))])
    added = two_norms(4, (rows.norm_bound - rows.constant) ** 2) if intercept else 0.0
    norms = np.sqrt((exact**2).sum(axis=1) + added)
    limits = clip / np.maximum(norms, long(least_norm(rows)))
    worst = 0.0
    for seed in range(8):
        w = np.random.default_rng(seed).standard_normal(problem.dimension)
        w *= 5.0 / np.linalg.norm(w)
        margins = exact @ w.reshape(k, -1).T
        margins = margins[:, 0] if k == 1 else margins
        slopes = loss.derivative(margins, np.column_stack([y.astype(long), limits]))
        gradient = (slopes.reshape(len(X), k).T @ exact).ravel() / len(X) + 0.05 * w.astype(long)
        for computed in (problem.gradient(w), problem.value_and_gradient(w)[1]):
            off = float(np.sqrt(((computed - gradient) ** 2).sum()))
            worst = max(worst, off / constants.gradient_rounding)
    assert 0.0 < worst <= 1.0
    more = map_rounding(replace(problem.constants, size_ratio=10.0), rows, loss)
    assert more >= 10.0 * rounding  # sums over more records are divided by the public number


def test_the_penalty_of_the_user_is_in_no_solve():
    design = Design(1.1, 5, 1000, 1.0, 0.3)
    plans = [
        plan_core(
            Objective(EmpiricalRisk(LOSSES["squares"]), design, alpha=alpha),
            PrivacyBudget(1.0, 1e-6),
            True,
        )
        for alpha in (0.0, 1e-6)
    ]
    assert len({plan.numbers.steps.lengths for plan in plans}) == 1


def test_squares_are_solved_for_pure_privacy_and_groups_are_not():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (4000, 8))
    y = np.clip(X @ rng.standard_normal(8) * 0.5 + 0.1 * rng.standard_normal(4000), -1, 1)
    shared = {"delta": 0.0, "data_norm": 1.5, "target_range": (-1, 1), "random_state": 0}
    solved = DPRidge(1.0, **shared).fit(X, y)
    published = DPRidge(1.0, **shared, method="output_perturbation").fit(X, y)
    assert solved.privacy_.method == "output" and "n_solves" in solved.privacy_.plan
    assert solved.score(X, y) > published.score(X, y) + 0.03
    tuned = DPRidgeCV(1.0, **shared).fit(X, y)
    assert np.array_equal(tuned.coef_, solved.coef_)
    strong = DPRidge(1.0, alpha=1e3, **shared).fit(X, y)
    assert np.linalg.norm(strong.coef_) < 0.01 * np.linalg.norm(solved.coef_)
    assert math.isfinite(strong.privacy_.noise["coef"])
    model = DPMaxGroupLossRegressor(
        delta=0.0, group_names=[0, 1], target_range=(-1, 1), data_norm=1.0
    )
    names = [each.release.name for each in plan_fit(model, 5000, 4, n_groups=2).releases]
    assert names and not any("solutions" in name for name in names)


@pytest.mark.parametrize("method", ["output", Output(solver="lbfgs")])
def test_what_there_is_no_proof_for_is_refused_and_left_to_the_published_algorithm(method):
    X, model = sp.csr_array((5, 3)), DPLinearRegressor(delta=0.0, loss="huber")
    model.set_params(method=method, data_norm=1.0, target_range=(-1, 1))
    with pytest.raises(ValueError, match="method='output' is not for this objective"):
        model.fit(X, np.zeros(5))
    model.set_params(method="output_perturbation")
    assert len(model.fit(X, np.zeros(5)).privacy_.releases) == 1


@pytest.mark.parametrize("loss", ["log_loss", "hinge", "quantile"])
def test_solvers_are_level_with_the_default(loss):
    rng = np.random.default_rng(9)
    X = rng.uniform(0.0, 0.5, (10_000, 3)) * [1.0, 0.5, 1.0]
    y = np.clip(X @ [1.0, -1.0, 0.5] - 0.2 + 0.1 * rng.standard_normal(10_000), -1, 1)
    shared = {"loss": loss, "data_norm": 1.0, "random_state": 0}
    model = DPLinearRegressor(target_range=(-1, 1), **shared)
    if loss == "log_loss" or "hinge" in loss:
        model, y = DPLinearClassifier(classes=[0, 1], **shared), (y > 0.1).astype(int)
    default = clone(model).fit(X, y)
    solved = model.set_params(solver="lbfgs").fit(X, y)
    assert (default.privacy_.method, solved.privacy_.method) == ("gradient", "output")
    assert solved.score(X, y) > default.score(X, y) - 0.02
    assert default.score(X, y) > (0.75 if hasattr(model, "classes") else 0.6)
