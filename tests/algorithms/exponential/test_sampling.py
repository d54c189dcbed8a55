"""The exact sampler on the edges: no records of finite numbers make it fail, warn or run on."""

import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from plain_noise import seeded

from skdp.algorithms import Run
from skdp.algorithms.exponential import mechanism, rules, sampling
from skdp.algorithms.exponential.localisation import (
    localized_exponential,
    plan_localized_exponential,
)
from skdp.algorithms.exponential.mechanism import exponential_mechanism
from skdp.linear_model import DPRidge
from skdp.methods import ExponentialMechanism
from skdp.privacy import PrivacyBudget
from skdp.problems import Design, HalfSquaredLoss, LogisticLoss, Records, SquaredHingeLoss

LOSSES = [LogisticLoss(), HalfSquaredLoss(1.0), SquaredHingeLoss()]
NUMBERS = [0.0, 5e-324, 1e-308, 1e-300, 1e-162, 1e-155, 1e-9, 0.5, 1.0, 1e9, 1e155, 1e300, 1.7e308]


def strictly(work):
    """The result, with floating-point errors and warnings raised."""
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "The noise ")
        return work()


entries = st.one_of(
    st.sampled_from(NUMBERS),
    st.sampled_from(NUMBERS).map(lambda number: -number),
    st.floats(allow_nan=False, allow_infinity=False),
)


@st.composite
def settings_of_draws(draw):
    n, d = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    row = st.lists(entries, min_size=d, max_size=d)
    X = np.array(draw(st.lists(row, min_size=n, max_size=n)))
    if draw(st.booleans()):
        X[:] = X[0]  # duplicates
    loss = draw(st.sampled_from(LOSSES))
    if isinstance(loss, HalfSquaredLoss):
        targets = np.clip(draw(st.lists(entries, min_size=n, max_size=n)), -1.0, 1.0)
    else:
        targets = np.array(draw(st.lists(st.sampled_from([0.0, 1.0]), min_size=n, max_size=n)))
    options = {
        "radius": draw(st.sampled_from([1e-6, 0.3, 1.0, 1e3])),
        "alpha": draw(st.sampled_from([0.0, 1e-300, 1e-9, 0.1, 1e3])),
    }
    budget = PrivacyBudget(draw(st.sampled_from([1e-6, 0.5, 20.0, 1e3])))
    intercept = draw(st.sampled_from([0.0, 1.0]))
    return X, intercept, targets, loss, budget, options, draw(st.integers(0, 99))


@pytest.mark.audit
@given(settings_of_draws(), st.booleans())
@settings(max_examples=50, suppress_health_check=list(HealthCheck))
def test_every_data_set_has_a_draw(setting, localised):
    X, intercept, targets, loss, budget, options, seed = setting
    assume(not (localised and options["alpha"] == 0.0))
    method = localized_exponential if localised else exponential_mechanism

    def run(X, targets):
        records = Records(X, 1.0, intercept, targets=targets)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(mechanism, "PROPOSAL_LIMIT", 30.0)
            return method(records, loss, budget, run=Run(noise=seeded(seed)), **options)

    try:  # the plan, which may refuse, is the same for other records
        run(np.eye(*X.shape), np.zeros(len(X)))
    except ValueError:
        assume(False)
    point = strictly(lambda: run(X, targets)).point
    assert np.isfinite(point).all()
    assert np.linalg.norm(point) <= options["radius"] * (1 + 1e-12)


ROWS = {
    "zero": np.zeros((2, 4)),
    "one of norm 1e-155": np.array([[0.0, 1e-155, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]),
    "denormal": np.full((2, 4), 5e-324),
    "one of norm 1": np.array([[0.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.5, 0.5]]),
}


@pytest.mark.parametrize("rows", list(ROWS))
@pytest.mark.parametrize("n_features", [2, 9])
def test_least_squares_without_a_penalty(rows, n_features):
    """The proposals' precision is that of the multiplier alone; its root is hit exactly."""
    X = np.resize(ROWS[rows], (2, n_features))
    model = DPRidge(
        1.0, 0.0, data_norm=1.0, target_range=(-1, 1), fit_intercept=False, random_state=0,
        method=ExponentialMechanism(alpha=0, coef_norm=1.0),
    )  # fmt: skip
    model = strictly(lambda: model.fit(X, [0.0, 0.0]))
    assert 0.0 < np.linalg.norm(model.coef_) <= 1.0


@pytest.mark.parametrize("smallest", [0.0, 5e-324, 1e-200, 1.0])
@pytest.mark.parametrize("linear", [0.0, 1e-155, 1.0])
@pytest.mark.parametrize(("concentration", "n_balls"), [(1e-12, 1), (1.0, 2), (1e11, 1)])
def test_multipliers_give_proper_gaussians(smallest, linear, concentration, n_balls):
    """Positive precisions, and proposals about as wide as the balls, or narrower."""
    eigenvalues = np.array([smallest, smallest, 1.0])
    centers = np.array([[0.0, 0.0, 0.0], [0.5, 0.0, 0.5]])[:n_balls]
    radii = np.array([1.0, 0.1])[:n_balls]
    with np.errstate(all="ignore"):
        found = sampling._best_multipliers(
            eigenvalues, np.full(3, linear), centers, radii, concentration
        )
        precision = eigenvalues + found.sum()
        mean = (np.full(3, linear) + found @ centers) / precision
        spread = (1.0 / precision).sum() / concentration
        excess = np.square(mean - centers).sum(axis=1) + spread - radii**2
    assert (found >= 0.0).all() and np.isfinite(found).all() and precision.min() > 0.0
    assert excess.max() <= 0.01 * radii.max() ** 2
    if n_balls == 1 and found[0] > 0.0:  # the best one: its ball is just filled
        assert abs(excess[0]) <= 1e-9


def test_another_factorisation_where_the_first_fails(monkeypatch):
    """LAPACK may give up on a matrix, and that would depend on the records."""
    plain, drivers = sampling.eigh, []

    def fragile(matrix, driver=None):
        drivers.append(driver)
        if driver is None:
            raise np.linalg.LinAlgError("no convergence")
        return plain(matrix, driver=driver)

    rows = Records(np.random.default_rng(0).standard_normal((20, 3)), 1.0)
    arguments = (rows.with_targets(np.zeros(20)), HalfSquaredLoss(1.0), PrivacyBudget(1.0))
    points = [exponential_mechanism(*arguments, radius=1.0, run=Run(noise=seeded(0))).point]
    monkeypatch.setattr(sampling, "eigh", fragile)
    points.append(exponential_mechanism(*arguments, radius=1.0, run=Run(noise=seeded(0))).point)
    assert drivers == [None, "ev"]
    assert np.isfinite(points).all() and np.linalg.norm(points, axis=1).max() <= 1.0


@pytest.mark.parametrize("size", [5e-324, 1e-200, 1.0, 1.7e308])
def test_eigenvalues_of_matrices_of_any_size(size):
    with np.errstate(all="ignore"):
        eigenvalues, vectors = sampling._eigh(size * np.diag([1.0, 0.0, 0.5]))
    np.testing.assert_allclose(eigenvalues, [0.0, size * 0.5, size], rtol=1e-15)
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(3), atol=1e-15)


@pytest.mark.parametrize("ratio", [1e-6, 1.0 - 1e-12, 1.0, 3.0])
@pytest.mark.parametrize("offset", [0.0, 5e-324, 1e-17, 1e-8, 1.0])
def test_points_of_lenses(ratio, offset):
    """Projections lie in both balls, to rounding, from concentric balls to tangent ones.

    No point of the lens is on the other side of the plane through the projection (for the lens of
    two balls that cross).
    """
    rng = np.random.default_rng(0)
    axis = np.array([0.6, 0.8, 0.0])
    outer = sampling.CenteredBall(center=np.zeros(3), radius=1.0)
    inner = sampling.CenteredBall(center=offset * axis, radius=ratio)
    lens = sampling.Lens(outer=outer, inner=inner)
    for length, _ in itertools.product([1e-3, 0.9, 1.1, 10.0, 1e6], range(5)):
        point = length * rng.standard_normal(3)
        found = strictly(lambda point=point: lens.project(point))
        for ball in (outer, inner):
            assert ball.holds(found, 1.0 + 1e-9)
        others = inner.center + ratio * rng.uniform(-1.0, 1.0, (100, 3))
        inside = [w for w in others if outer.holds(w) and inner.holds(w)]
        assert all((point - found) @ (w - found) <= 1e-9 * max(1.0, length) for w in inside)
        if offset <= 1e-12:  # as good as one ball
            radius = min(1.0, ratio)
            nearest = point * min(1.0, radius / np.linalg.norm(point))
            assert np.linalg.norm(found - nearest) <= 2.0 * offset + 1e-9 * radius


@pytest.mark.parametrize("astray", [3.0, math.nan, math.inf])
def test_anchors_outside_of_the_balls_are_not_used(astray, monkeypatch):
    """The quadratic lies below F on the balls only if its anchor is one of their points."""
    rng = np.random.default_rng(0)
    rows = Records(rng.standard_normal((30, 1)), 1.0)
    balls = (sampling.CenteredBall(center=np.zeros(1), radius=1.0),)
    density = sampling.Density(
        records=rows.with_targets(np.ones(30)),
        loss=LogisticLoss(),
        alpha=0.0,
        concentration=1.0,
        balls=balls,
    )
    anchors, plain = [], sampling.LowerBound.at
    monkeypatch.setattr(sampling.Density, "near_minimiser", lambda *_: np.array([astray]))

    def at(anchor, *rest):
        anchors.append(anchor)
        return plain(anchor, *rest)

    monkeypatch.setattr(sampling.LowerBound, "at", at)
    sampling.draw(density, "auto", rng, seeded(0))
    assert np.array_equal(anchors, [np.zeros(1)])


def test_balls_that_are_too_small_for_double_precision(monkeypatch):
    """Points of such a ball around a released center are rounded; no proposal would hit it."""
    arguments = {"design": Design(1.0, 2, 100), "budget": PrivacyBudget(2.0)}
    arguments |= {"radius": 1.0, "alpha": 0.5}
    monkeypatch.setattr(rules, "LOCAL_RADII", (1e-16, 1e-16, 1))
    with pytest.raises(ValueError, match="too small"):
        plan_localized_exponential(LogisticLoss(), **arguments)
    monkeypatch.setattr(rules, "LOCAL_RADII", (1e-6, 1e-6, 1))
    assert plan_localized_exponential(LogisticLoss(), **arguments).local_radius > 0
