"""Objective perturbation: its theorems on exact densities and by search."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from objective_plans import ADD, CLIPPED, HUBER, REPLACE, log_density, make_plan

from skdp.algorithms.objective.theorems import convex_delta, hessian_epsilon, largest_mu
from skdp.privacy.events import RECORD_RELATIONS, Neighbouring
from skdp.privacy.gaussian_dp import gaussian_delta, gaussian_mu
from skdp.problems import ClippedLogisticLoss, HingeLoss, LogisticLoss, SmoothedLoss, SoftmaxLoss


def test_bounds_of_every_theorem_hold_at_the_noise_and_not_beyond():
    """The sums of profiles that the theorems state, at the mu that was found."""

    def d(factor, mu, epsilon):
        return gaussian_delta(epsilon, factor * mu)

    two, six, eight = (math.sqrt(each) for each in (2, 6, 8))
    for epsilon in (1e-3, 0.1, 1.0, 9.0, 100.0):
        for delta in (1e-12, 1e-5, 0.1, 0.9):
            losses, relations = (CLIPPED, HUBER, SoftmaxLoss(4)), RECORD_RELATIONS
            for loss, relation in itertools.product(losses, relations):
                mu, theorem = largest_mu(loss, epsilon, delta, relation)
                stated = {
                    "1": lambda m, e: d(1, m, e),
                    "2": lambda m, e: d(2, m, e),
                    "2, union bound": lambda m, e: 2 * d(1, m, e) + d(2, m, e),
                    "6": lambda m, e, r=relation: 2 * d(1 if r is ADD else 2, m, e),
                    "6, union bound": lambda m, e: 2 * d(2, m, e) + 2 * d(two, m, e),
                    "3": lambda m, e, r=relation: (
                        3 * d(two, m, e)
                        if r is ADD
                        else 3 * d(eight, m, e) + 6 * d(six, m, e) + 6 * d(two, m, e)
                    ),
                }[theorem]
                assert stated(mu, epsilon) <= delta
                assert stated(mu * (1 + 1e-7), epsilon) > delta
                if theorem == "2":
                    assert mu**2 <= epsilon
                if theorem == "6" and relation is REPLACE:
                    assert 4 * mu**2 <= 2 * (math.sqrt(1 + epsilon**2) - 1) * (1 + 1e-9)


def test_conditions_of_theorems_2_and_6_fall_back_to_union_bounds():
    theorems = {
        (loss, delta): largest_mu(loss, 0.01, delta, REPLACE)
        for loss in (CLIPPED, HUBER)
        for delta in (1e-6, 0.5)
    }
    assert theorems[CLIPPED, 1e-6][1] == "2" and theorems[CLIPPED, 0.5][1] == "2, union bound"
    assert theorems[HUBER, 0.5][1] == "6, union bound"
    assert largest_mu(HUBER, 1.0, 1e-6, REPLACE)[1] == "6"
    mu = theorems[CLIPPED, 0.5][0]
    assert (2 * mu) < gaussian_mu(0.01, 0.5)  # more noise than the refined bound asks for
    assert make_plan(LogisticLoss(), 0.01, 0.5).theorem == "2, union bound"
    assert make_plan(HUBER, 0.01, 0.5).theorem == "6, union bound"


def cells(loss, X, y, penalty, scale, size):
    """Centers and volumes of cells that hold nearly all of the law; in one dimension, kinks of
    the derivative are on their borders."""
    far = (9.0 * scale + sum(np.linalg.norm(X, axis=1)) * loss.lipschitz(1.0, math.inf)) / penalty
    dimension = loss.n_outputs * X.shape[1]
    if dimension == 1:
        t = np.linspace(-1.0, 1.0, size)
        stretch = max(1.0, math.log(far * 10.0))  # dense near 0, where the curvature is
        kinks = [z / x for x, t in zip(X[:, 0], y, strict=True) for z in (-1, 0, 1, t - 1, t + 1)]
        if isinstance(loss, SmoothedLoss):
            kinks += [s * (1 - loss.width) / x for x in X[:, 0] for s in (-1, 1)]
        if isinstance(loss, ClippedLogisticLoss):
            kinks += [s * loss.threshold / x for x in X[:, 0] for s in (-1, 1)]
        kinks = [kink for kink in kinks if abs(kink) < far]
        edges = np.sort(np.append(far * np.sinh(stretch * t) / math.sinh(stretch), kinks))
        return 0.5 * (edges[1:] + edges[:-1])[:, None], np.diff(edges)
    axis = ((np.arange(size) + 0.5) / size * 2.0 - 1.0) * far
    points = np.stack(np.meshgrid(*[axis] * dimension, indexing="ij"), -1).reshape(-1, dimension)
    return points, np.full(len(points), (2.0 * far / size) ** dimension)


def hockey_stick(loss, first, second, penalty, scale, epsilon, size=6000):
    """``int (f - e^epsilon g)_+`` of the minimisers' densities for two data sets, and the mass."""
    X, y = (np.concatenate([first[k], second[k]]) for k in (0, 1))
    points, volumes = cells(loss, X, y, penalty, scale, size)
    f, g = (np.exp(log_density(loss, *each, penalty, scale, points)[0]) for each in (first, second))
    return float((np.maximum(f - math.exp(epsilon) * g, 0.0) * volumes).sum()), float(
        (f * volumes).sum()
    )


def configurations(loss, count, seed, replaced=False, dimension=1):
    """Base records, one more, and one in its place; penalty, noise and epsilon less J."""
    rng = np.random.default_rng(seed)
    c = 1.0 if isinstance(loss, SoftmaxLoss) else loss.lipschitz(1.0, math.inf)
    for _ in range(count):
        n = int(rng.integers(0, 4))
        X = rng.choice([-1.0, 1.0, 0.5], size=(n + 2, dimension))
        X[:n] *= rng.random((n, 1))
        X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
        if dimension > 1:
            X[n:] = [[1.0, 0.0], [math.cos(a := rng.uniform(0, 6.3)), math.sin(a)]]
        if isinstance(loss, SoftmaxLoss):
            y = rng.integers(loss.n_classes, size=n + 2)
        elif loss.target_bound:
            y = rng.choice([-4.0, 4.0, 1.0], size=n + 2)
        else:
            y = rng.integers(2, size=n + 2).astype(float)
        base, plus, other = X[:n], X[: n + 1], np.vstack([X[:n], X[n + 1 :]])
        sets = ((base, y[:n]), (plus, y[: n + 1]), (other, np.append(y[:n], y[n + 1])))
        penalty = 10.0 ** rng.uniform(-1.5, 0.7)
        scale = c * 10.0 ** rng.uniform(-0.5, 0.9)
        rest = 10.0 ** rng.uniform(-1.5, 0.5)
        yield sets, penalty, scale, rest, c / scale


def theorem_bound(loss, direction, mu, rest):
    """What the theorem for a loss and a direction states."""
    if isinstance(loss, SoftmaxLoss):
        k = loss.n_classes - 1
        terms = [(k, 2)]
        if direction == "replace":
            terms = [(k, 8), (k * (k - 1), 6), (2 * k, 2)]
        return sum(w * gaussian_delta(rest, math.sqrt(v) * mu) for w, v in terms)
    sided = loss.has_one_sided_derivative
    if direction != "replace":
        return (1 if sided else 2) * gaussian_delta(rest, mu)
    if sided:
        refined = mu**2 <= rest
        union = 2 * gaussian_delta(rest, mu) + gaussian_delta(rest, 2 * mu)
        return gaussian_delta(rest, 2 * mu) if refined else union
    refined = 4 * mu**2 <= 2 * (math.sqrt(1 + rest**2) - 1)
    union = 2 * gaussian_delta(rest, 2 * mu) + 2 * gaussian_delta(rest, math.sqrt(2) * mu)
    return 2 * gaussian_delta(rest, 2 * mu) if refined else union


def worst_ratio(loss, direction, count, seed, *, with_hessian=True, part=1.0, size=6000, d=1):
    """Largest ratio of the exact divergence to the bound; mutants leave J out or halve mu."""
    worst, n_checked = 0.0, 0
    for sets, penalty, scale, rest, mu in configurations(loss, count, seed, dimension=d):
        base, plus, other = sets
        pair = {"add": (base, plus), "remove": (plus, base), "replace": (plus, other)}[direction]
        bound = theorem_bound(loss, direction, part * mu, rest)
        epsilon = rest + with_hessian * hessian_epsilon(loss, 1.0, penalty, loss.n_outputs)
        if bound < 1e-7:
            continue
        found, mass = hockey_stick(loss, *pair, penalty, scale, epsilon, size)
        if d == loss.n_outputs == 1:
            assert mass == pytest.approx(1.0, abs=1e-4)
        elif abs(mass - 1.0) > 2e-3:  # the grid is too coarse for this case
            continue
        n_checked += 1
        worst = max(worst, (found - 1e-6) / bound)
    assert n_checked > 0.25 * count
    return worst


#: Options of comparisons in two dimensions: features, or coordinates of three classes.
TWO_FEATURES = {"count": 8, "seed": 2, "size": 220, "d": 2}
TWO_OUTPUTS = {"count": 12, "seed": 7, "size": 120}


@pytest.mark.parametrize(
    ("loss", "direction", "least", "options"),
    [(CLIPPED, "add", 0.5, {}), (CLIPPED, "remove", 0.8, {}), (CLIPPED, "replace", 0.3, {}),
     (ClippedLogisticLoss(0.25), "remove", 0.5, {}), (HingeLoss().smoothed(1.0), "remove", 0.5, {}),
     (HUBER, "add", 0.3, {}), (HUBER, "remove", 0.3, {}), (HUBER, "replace", 0.2, {}),
     (CLIPPED, "replace", 0.1, TWO_FEATURES), (SoftmaxLoss(3), "add", 0.25, TWO_OUTPUTS),
     (SoftmaxLoss(3), "remove", 0.25, TWO_OUTPUTS), (SoftmaxLoss(3), "replace", 0.1, TWO_OUTPUTS)],
    ids=str,
)  # fmt: skip
def test_theorems_1_2_3_and_6_on_exact_densities(loss, direction, least, options):
    """Hockey-stick divergence of the exact laws over the bound."""
    worst = worst_ratio(loss, direction, **{"count": 25, "seed": 0, **options})
    assert least < worst <= 1.0 + (2e-3 if options else 1e-3)


@pytest.mark.parametrize("loss", [CLIPPED, HUBER], ids=str)
def test_weaker_bounds_are_refuted_by_exact_densities(loss):
    """Without J, and with half of mu, the same comparison fails."""
    assert worst_ratio(loss, "remove", 25, 0, with_hessian=False) > 1.1
    assert worst_ratio(loss, "add", 25, 0, part=0.5) > 1.5


@pytest.mark.parametrize(
    ("loss", "relation"),
    [(CLIPPED, ADD), (HUBER, REPLACE), (SoftmaxLoss(3), ADD), (SoftmaxLoss(5), REPLACE)],
    ids=str,
)
def test_theorem_5_pointwise(loss, relation):
    """Log ratios of the densities in up to eight dimensions, at the scale of the plan."""
    rng, worst = np.random.default_rng(0), -math.inf
    for trial in range(25):
        d, epsilon = int(rng.integers(1, 3)), 10.0 ** rng.uniform(-1, 1)
        ((base, plus, other), *_) = next(configurations(loss, 1, trial, dimension=d))
        plan = make_plan(loss, epsilon, 0.0, relation, n=3, width=d)
        spent = plan.budget.epsilon
        penalty, scale = plan.penalty, plan.linear.noise_scale
        centers = rng.normal(size=(200, loss.n_outputs * d)) * 10.0 ** rng.uniform(-2, 2, (200, 1))
        pairs = [(plus, other)] if relation is REPLACE else [(base, plus)]
        for pair in pairs:
            logs = [
                log_density(plan.loss, *each, penalty, scale, centers, pure=True)[0]
                for each in pair
            ]
            worst = max(worst, float(abs(logs[0] - logs[1]).max()) / spent)
    assert 0.3 < worst <= 1.0 + 1e-9


@pytest.mark.parametrize(
    ("loss", "relation", "epsilon"),
    [(LogisticLoss(), ADD, 0.1), (LogisticLoss(), REPLACE, 1.0), (HUBER, REPLACE, 0.1),
     (HingeLoss().smoothed(1.0), ADD, 1.0)],
    ids=str,
)  # fmt: skip
def test_planned_noise_is_enough_and_half_of_it_is_not(loss, relation, epsilon):
    """The plan's penalty and noise against exact densities of the worst neighbours."""
    delta = 0.01
    plan = make_plan(loss, epsilon, delta, relation, n=2, width=1)

    def worst(part):
        found = 0.0
        for sets, *_ in configurations(plan.loss, 12, 0):
            base, plus, other = sets
            pairs = [(base, plus), (plus, base)] if relation is ADD else [(plus, other)]
            for pair in pairs:
                scale = part * plan.linear.noise_scale
                found = max(
                    found,
                    hockey_stick(plan.loss, *pair, plan.penalty, scale, plan.budget.epsilon)[0],
                )
        return found

    assert worst(1.0) <= plan.budget.delta * (1 + 1e-3)
    assert worst(0.5) > plan.budget.delta


PERSON_RELATIONS = (Neighbouring.REPLACE_USER, Neighbouring.ADD_REMOVE_USER)


@pytest.mark.parametrize("mu", [1e-3, 0.05, 1.0, 7.0, 60.0])
@pytest.mark.parametrize("epsilon", [1e-3, 0.4, 3.0, 80.0])
def test_mean_excess_of_a_gaussian_loss(mu, epsilon):
    """Against 60 digits, also where the difference cancels."""
    with mpmath.workdps(60):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        b = e / m - m / 2
        exact = m * (mpmath.npdf(b) - b * mpmath.ncdf(-b))
        found = convex_delta(epsilon, mu)
        if exact > mpmath.mpf("1e-300"):
            assert abs(found / exact - 1) < 1e-8
        else:
            assert found < 1e-299


@pytest.mark.parametrize("relation", PERSON_RELATIONS)
@pytest.mark.parametrize("delta", [1e-6, 0.9])
def test_lemma_g_is_reached_by_its_mu(relation, delta):
    """And costs at most 1.1 % of noise beside the theorems of records up to epsilon 10."""
    changes, k = relation.n_changes, 3
    rows = {CLIPPED: (1, 1.0), HUBER: (2, 1.0), SoftmaxLoss(k + 1): (k, math.sqrt(2.0))}
    for (loss, (weight, length)), epsilon in itertools.product(rows.items(), (0.1, 1.0, 10.0)):
        mu, lemma = largest_mu(loss, epsilon, delta, relation)
        assert lemma == "G"
        assert weight * convex_delta(epsilon, length * changes * mu) <= delta
        assert weight * convex_delta(epsilon, length * changes * mu * (1 + 1e-7)) > delta
        if delta < 1e-5 and epsilon >= 1.0:
            of_records, _ = largest_mu(loss, epsilon, delta, RECORD_RELATIONS[changes == 1.0])
            assert 0.99 < of_records / mu < 1.011


@pytest.mark.parametrize("epsilon", [10.0, 100.0])
def test_determinants_of_persons_change_by_their_j(epsilon):
    """Random and orthogonal rows: the planned J is reached, that of a record is exceeded."""
    d = 10
    plan = make_plan(LogisticLoss(), epsilon, 1e-5, Neighbouring.REPLACE_USER, 10**5, width=d)
    trace, penalty, norm = plan.loss.curvature_trace, plan.penalty, plan.design.feature_norm
    rng, found = np.random.default_rng(0), []
    for case in range(60):
        m = int(rng.choice([1, 3, 10, 50]))
        rows = np.tile(np.eye(d), (5, 1))[:m] if case % 2 else rng.normal(size=(m, d))
        rows *= norm / np.linalg.norm(rows, axis=1, keepdims=True)
        base = rng.normal(size=(3, d)) * (case % 4 > 1)
        before = penalty * np.eye(d) + base.T @ base
        after = before + trace / m * rows.T @ rows
        found.append(np.linalg.slogdet(after)[1] - np.linalg.slogdet(before)[1])
    assert hessian_epsilon(plan.loss, norm, penalty, 1) * 1.1 < max(found)
    assert max(found) <= plan.hessian_epsilon <= max(found) * (1 + 1e-6)


@pytest.mark.parametrize(
    ("loss", "relation", "delta"),
    [(LogisticLoss(), PERSON_RELATIONS[0], 0.0), (LogisticLoss(), PERSON_RELATIONS[1], 0.01),
     (HUBER, PERSON_RELATIONS[0], 0.01), (HUBER, PERSON_RELATIONS[1], 0.0)],
    ids=str,
)  # fmt: skip
def test_noise_for_persons_on_exact_densities(loss, relation, delta):
    """The plan's penalty and noise, persons of 1 to 4 records at the ends of one feature."""
    plan = make_plan(loss, 1.0, delta, relation, n=2, width=1)
    rng, found, halved = np.random.default_rng(0), 0.0, 0.0
    ends = [0.0, 1.0] if plan.loss is not HUBER else [-4.0, 4.0]

    def person():
        m = int(rng.integers(1, 5))
        return rng.choice([-1.0, 1.0], (m, 1)), rng.choice(ends, m), np.full(m, 1.0 / m)

    for _ in range(12):
        (first, second), others = (person(), person()), [person() for _ in range(rng.integers(3))]
        sides = [[*others, first], [*others, second] if relation.is_replaced else others]
        data = [
            [np.concatenate(column) for column in zip(*side, strict=True)]
            if side
            else [np.zeros((0, 1)), np.zeros(0), np.zeros(0)]
            for side in sides
        ]
        X, y = (np.concatenate([each[k] for each in data]) for k in (0, 1))
        for part in (1.0, 0.5):
            scale = part * plan.linear.noise_scale
            points, volumes = cells(plan.loss, X, y, plan.penalty, scale, 8000)
            f, g = (
                np.exp(
                    log_density(
                        plan.loss, *each[:2], plan.penalty, scale, points, not delta, each[2]
                    )[0]
                )
                for each in data
            )
            for one, other in ((f, g), (g, f)):
                if not delta:
                    seen = one > 1e-200
                    value = np.log(one[seen] / other[seen]).max() / plan.budget.epsilon
                else:
                    gap = np.maximum(one - math.exp(plan.budget.epsilon) * other, 0.0)
                    value = float(gap @ volumes) / plan.budget.delta
                found, halved = (
                    (max(found, value), halved) if part == 1.0 else (found, max(halved, value))
                )
    assert found <= 1.0 + 1e-3 < 1.1 < halved
