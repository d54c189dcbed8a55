"""Losses under attack: closed form, derivatives, and attacks on every constant."""

import math

import numpy as np
import pytest
from every_loss import BOUND, LOSSES
from scipy.special import logsumexp, softmax

from skdp.problems import (
    AdversarialRisk,
    Attack,
    Design,
    EmpiricalRisk,
    FiniteSumProblem,
    HingeLoss,
    LogisticLoss,
    Records,
)
from skdp.problems.adversarial import attacked_margins
from skdp.solvers import resolve_solver, solve_certified

KINDS = "logistic", "hinge", "squared hinge", "squared"
every_loss = pytest.mark.parametrize("kind", KINDS)
every_norm = pytest.mark.parametrize("norm", [1, 2, math.inf])


def targets_of(kind, rng, shape):
    if kind == "squared":
        return rng.choice([-BOUND, BOUND, 0.3, -0.7], shape)
    return rng.integers(0, 2, shape).astype(float)


def made(kind, norm, intercept, *, radius=0.2, bias=1e-3, alpha=0.1, n=20, d=3, seed=0, **kwargs):
    rng = np.random.default_rng(seed)
    rows = Records(rng.normal(size=(n, d)), 1.0, intercept)
    risk = AdversarialRisk(LOSSES[kind], Attack(norm, radius, intercept), bias)
    design = Design.of(rows)
    ball = risk.radius(design, alpha, None)
    return risk.problem(rows.with_targets(targets_of(kind, rng, n)), alpha, ball, **kwargs)


# ------------------------------------------------------------------------------- independent code


def surrogates(norm, bias, kind, radius, d):
    """(h, e): what the bias in a margin is spent on."""
    e = 0.5 * bias if kind == "squared" else 0.0
    return (bias - e) / (radius * {1: math.log(2 * d), 2: 1, math.inf: d}[norm]), e


def record(kind, norm, radius, h, e, w, x, t, intercept):
    """Value and gradient of records, all arrays with a leading batch axis."""
    d = x.shape[-1]
    u = w[..., :d]
    if norm == 2:
        root = np.sqrt((u**2).sum(-1) + h**2)
        nu, v = root - h, u / root[..., None]
    elif norm == 1:
        both = np.concatenate([u, -u], -1) / np.asarray(h)[..., None]
        nu = h * (logsumexp(both, axis=-1) - np.log(2 * d))
        v = softmax(both, axis=-1)
        v = v[..., :d] - v[..., d:]
    else:
        roots = np.sqrt(u**2 + h**2)
        nu, v = (roots - h).sum(-1), u / roots
    z = (u * x).sum(-1)
    rows = x
    if intercept:
        z = z + intercept * w[..., d]
        rows = np.concatenate([x, np.full_like(x[..., :1], intercept)], -1)
        v = np.concatenate([v, np.zeros_like(v[..., :1])], -1)
    if kind == "squared":
        root = np.sqrt((z - t) ** 2 + e**2)
        total = root - e + radius * nu
        gradient = (total * (z - t) / root)[..., None] * rows + radius * total[..., None] * v
        return total**2 / 2, gradient
    s = 2 * t - 1
    value, slope = LOSSES[kind].value_and_derivative(z - s * radius * nu, t)
    return value, slope[..., None] * (rows - (s * radius)[..., None] * v)


def climb(ratio, size, seed=0, population=200, steps=120):
    """Largest value of a vectorised function of genes in [-1, 1]^size: random search, uphill."""
    rng = np.random.default_rng(seed)
    genes = rng.uniform(-1, 1, (population, size))
    genes[: population // 2] = np.sign(genes[: population // 2])
    best = ratio(genes)
    for step in range(steps):
        length = 10.0 ** rng.uniform(-4, 0, (population, 1)) * (
            rng.random((population, size)) < 0.5
        )
        tried = np.clip(genes + length * rng.normal(size=genes.shape), -1, 1)
        if step % 10 == 0:  # the worst half starts again from the best
            order = np.argsort(best)
            tried[order[: population // 2]] = genes[order[population // 2 :]]
        value = ratio(tried)
        genes = np.where((value > best)[:, None], tried, genes)
        best = np.maximum(best, value)
    return float(best.max())


def in_ball(genes, radius):
    norm = np.linalg.norm(genes, axis=-1, keepdims=True)
    return radius * genes / np.maximum(norm, 1.0)


def target(kind, gene):
    return BOUND * gene if kind == "squared" else (gene > 0).astype(float)


# ------------------------------------------------------------------------------------ closed form


@every_loss
@every_norm
def test_closed_form_is_the_largest_loss(kind, norm):
    """No perturbation is worse than the closed form, and one is as bad."""
    rng = np.random.default_rng(1)
    loss, a = LOSSES[kind], 0.3
    attack = Attack(norm, a, 0.5)
    angle = np.linspace(0, 2 * np.pi, 2001)
    p = a * np.stack([np.cos(angle), np.sin(angle)], 1)
    if norm == 1:
        p /= np.abs(p / a).sum(axis=1, keepdims=True)  # includes the corners
    elif norm != 2:
        p = a * np.clip(1.5 * p / a, -1, 1)  # includes the corners
        p = np.concatenate([p, a * np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])])
    p = np.concatenate([p, p * rng.random((len(p), 1))])
    for _ in range(100):
        w, x, t = rng.normal(size=2) * 2, rng.normal(size=2), targets_of(kind, rng, 1)
        brute = loss.value((x + p) @ w + 0.1, np.repeat(t, len(p))).max()
        width = 1e-12 if kind == "squared" else 0.0
        margins = attacked_margins(np.array([x @ w + 0.1]), t, attack.rise(w) / a, a, width)
        closed = loss.value(*margins[:2])[0]
        assert brute <= closed * (1 + 1e-9) + 1e-12
        assert brute >= closed * (1 - 1e-4) - 1e-9


@every_loss
@every_norm
def test_surrogate_stays_below_by_no_more_than_the_bias(kind, norm):
    problem = made(kind, norm, 0.3, bias=0.05)
    a, d = 0.2, 3
    rng = np.random.default_rng(2)
    dual, worst = {1: math.inf, 2: 2, math.inf: 1}[norm], 0.0

    def exact(w):
        return np.linalg.norm(w, dual)

    for scale in (1e-6, 1e-3, 0.1, 1.0, 10.0, 1e4):
        w = scale * rng.normal(size=4)
        nu = problem.attack.surrogate(w[:d], problem.width)[0]
        z = problem.margins(w)
        rest = 0.5 * 0.1 * w @ w
        if kind == "squared":
            truth = np.mean((np.abs(z - problem.records.targets) + a * exact(w[:d])) ** 2 / 2)
            width = problem.residual_width
            rho = attacked_margins(z, problem.records.targets, 0.0, a, width)[0]
            lost = a * (exact(w[:d]) - nu) + (np.abs(z - problem.records.targets) - rho).max()
        else:
            s = 2 * problem.records.targets - 1
            truth = problem.loss.value(z - s * a * exact(w[:d]), problem.records.targets).mean()
            lost = a * (exact(w[:d]) - nu)
        assert -1e-9 * (1 + scale) <= lost <= 0.05 * (1 + 1e-9) + 1e-9 * scale
        worst = max(worst, lost)
        assert problem.value(w) - rest <= truth * (1 + 1e-12) + 1e-12
    assert worst >= 0.045  # far from 0 the bias is what was declared


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="no extended precision")
@every_loss
@every_norm
@pytest.mark.parametrize("bias", [1e-1, 1e-9])
def test_rounding_bound(kind, norm, bias):
    """A tiny bias bends the surrogate sharply; gradients stay as accurate as stated."""
    problem = made(kind, norm, 0.3, bias=bias, n=300, radius=0.7)
    rng = np.random.default_rng(4)
    h, e = surrogates(norm, np.longdouble(bias), kind, np.longdouble(0.7), 3)
    X = problem.records.block(slice(0, 300))
    scale = np.ones(300) if X.scale is None else X.scale
    exact_rows = X.matrix.astype(np.longdouble) * scale[:, None]
    for size in (bias, 1e-3, 1.0):
        w = problem.domain.project(size * rng.normal(size=4))
        value, gradient = record(
            kind, norm, np.longdouble(0.7), h, e, w.astype(np.longdouble)[None], exact_rows,
            problem.records.targets.astype(np.longdouble), np.longdouble(0.3),
        )  # fmt: skip
        value = float(value.mean()) + 0.5 * problem.alpha * w @ w
        assert problem.value(w) == pytest.approx(value, rel=1e-12)
        gradient = gradient.mean(0) + problem.alpha * w.astype(np.longdouble)
        error = np.linalg.norm((problem.gradient(w) - gradient).astype(float))
        assert error <= problem.gradient_rounding(w)
        assert problem.gradient_rounding(w) <= problem.constants.gradient_rounding * (1 + 1e-12)


# --------------------------------------------------------------------------------------- constants


def constants_of(kind, norm, intercept, a, R, bias, d=2):
    risk = AdversarialRisk(LOSSES[kind], Attack(norm, a, intercept), bias)
    design = Design(math.hypot(1.0, intercept), d + bool(intercept), 10)
    return risk.constants(design, 1.0, R)


SIZES = [(0.1, 1.0, 0.3), (1.0, 0.3, 0.0), (0.5, 40.0, 0.0), (0.9, 200.0, 0.3)]
#: Every loss and every norm, with the sizes by turns.
TURNS = [
    (kind, norm, *SIZES[(i + j) % 4])
    for i, kind in enumerate(KINDS)
    for j, norm in enumerate([1, 2, math.inf])
]


@pytest.mark.mostly("slow", 4)
@pytest.mark.parametrize(("kind", "norm", "a", "R", "intercept"), TURNS)
def test_lipschitz_and_diameter(kind, norm, a, R, intercept):
    """Never exceeded; the Lipschitz constant is attained, the diameter where slopes saturate."""
    d, bias = 2, 1e-7
    k = d + bool(intercept)
    h, e = surrogates(norm, bias, kind, a, d)
    constants = constants_of(kind, norm, intercept, a, R, bias)

    def gradient(genes, w):
        x, t = in_ball(genes[:, :d], 1.0), target(kind, genes[:, d])
        return record(kind, norm, a, h, e, w, x, t, intercept)[1]

    def length(genes):
        w = in_ball(genes[:, :k], R)
        return np.linalg.norm(gradient(genes[:, k:], w), axis=1) / constants.lipschitz

    def distance(genes):
        w = in_ball(genes[:, :k], R)
        apart = gradient(genes[:, k : k + d + 1], w) - gradient(genes[:, k + d + 1 :], w)
        return np.linalg.norm(apart, axis=1) / constants.gradient_diameter

    with np.errstate(over="ignore"):
        longest, widest = climb(length, k + d + 1), climb(distance, k + 2 * (d + 1))
    assert 0.999 <= longest <= 1 + 1e-9
    assert (0.999 if kind == "logistic" and R >= 40 else 0.7) <= widest <= 1 + 1e-9


@pytest.mark.mostly("slow", 1)
@pytest.mark.parametrize(
    ("kind", "norm", "a", "R", "bias"),
    [("logistic", 1, 0.1, 1.0, 0.1), ("hinge", 2, 1.0, 0.3, 0.03),
     ("squared hinge", math.inf, 1.0, 3.0, 1e-3), ("squared", 1, 1.0, 3.0, 1e-3)],
)  # fmt: skip
def test_smoothness(kind, norm, a, R, bias):
    """No difference quotient on three times the ball exceeds it, however near to 0."""
    d, intercept = 2, 0.3
    h, e = surrogates(norm, bias, kind, a, d)
    beta = constants_of(kind, norm, intercept, a, R, bias).smoothness

    def quotient(genes):
        away = 10.0 ** (4 * (genes[:, :1] - 1))  # from the origin: 1e-8 to 1
        w = away * in_ball(genes[:, 1:4], 3 * R)
        size = 10.0 ** (2 * genes[:, 4:5] - 4)
        other = w + size * h * in_ball(genes[:, 5:8], 1.0)
        x, t = in_ball(genes[:, 8:10], 1.0), target(kind, genes[:, 10])
        ends = [record(kind, norm, a, h, e, p, x, t, intercept)[1] for p in (w, other)]
        step = np.linalg.norm(other - w, axis=1)
        moved = np.linalg.norm(ends[0] - ends[1], axis=1)
        return np.where(step > 1e-9, moved / np.maximum(step, 1e-9), 0) / beta

    # one climb may end on a plateau
    best = max(climb(quotient, 11, seed=seed) for seed in range(4))
    # the slope that is multiplied with 1/h is that at the edge, where Hess nu is small
    # and of two weights the surrogate for norm 1 has half of it
    most = 0.45 if kind in ("logistic", "hinge") else 0.04
    assert (0.5 if norm == 1 else 1.0) * most <= best <= 1 + 1e-5


@every_loss
def test_no_attack_is_the_mean(kind):
    """attack radius 0: the constants, costs and problem of the loss; nearly so with 1e-9."""
    design, plain = Design(math.hypot(1, 0.3), 4, 50), EmpiricalRisk(LOSSES[kind])
    risk, weak = (AdversarialRisk(LOSSES[kind], Attack(2, a, 0.3), 1e-3) for a in (0.0, 1e-9))
    assert risk.is_smooth and risk.smoothed(1.0) is risk
    near, none, exact = (each.constants(design, 0.1, 2.0) for each in (weak, risk, plain))
    assert none == exact and risk.noise_cost(design, 0.1) == plain.noise_cost(design, 0.1)
    assert risk.penalty_cost(design, 0.1, 2.0) == plain.penalty_cost(design, 0.1, 2.0)
    assert type(made(kind, 2, 0.3, radius=0.0)) is FiniteSumProblem
    assert near.gradient_diameter == pytest.approx(exact.gradient_diameter, rel=1e-6)
    # the features' part of the norm bound is found even beside a large intercept feature
    for intercept in (0.0, 0.1, 1e6):
        norm, width = math.hypot(1.0, intercept), 3 + bool(intercept)
        computed = Attack(math.inf, 0.2, intercept).feature_norm(norm, width)
        known = math.hypot(1 + 0.2 * math.sqrt(3), intercept)
        assert known * (1 - 1e-15) <= computed <= known * (1 + 1e-9)


# ---------------------------------------------------------------------------------------- solutions


@pytest.mark.mostly("search", 1)
@pytest.mark.parametrize(
    ("kind", "norm", "alpha"),
    [("logistic", 1, 50.0), ("hinge", 2, 1.0), ("squared hinge", math.inf, 0.05),
     ("squared", 1, 50.0)],
)  # fmt: skip
def test_solution_radius(kind, norm, alpha):
    """Solutions in a ball of twice the radius lie in that of the unattacked loss."""
    rng = np.random.default_rng(6)
    best = 0.0
    for i in range(24):
        n, d = int(rng.integers(1, 4)), int(rng.integers(1, 3))
        attack = Attack(norm, float(rng.choice([0.01, 0.3, 2.0])), float(rng.choice([0.0, 0.3])))
        bias = 10.0 ** rng.uniform(-3, -1)
        X = in_ball(rng.choice([-1.0, 0.0, 1.0], (n, d)) * rng.random() ** (i % 3), 1.0)
        t = targets_of(kind, rng, n)
        if i % 2:  # all records alike
            X[:], t[:] = X[0], t[0]
        rows = Records(X, 1.0, attack.intercept, targets=t)
        risk = AdversarialRisk(LOSSES[kind], attack, bias)
        radius = risk.radius(Design.of(rows), alpha, None)
        problem = risk.problem(rows, alpha, 2.0 * radius)
        found = solve_certified(problem, 1e-5 * radius, resolve_solver("newton"))
        ratio = (np.linalg.norm(found.point) - found.distance) / radius
        assert ratio <= 1.0
        best = max(best, ratio)
    assert best >= (0.95 if alpha == 50 else 0.7)


# ---------------------------------------------------------------------------- solvers and requests


def test_smoothing_follows_the_noise_within_limits():
    design = Design(1.0, 4, 100)
    risk = AdversarialRisk(LogisticLoss(), Attack(math.inf, 0.5))
    assert not risk.is_smooth and math.isinf(risk.constants(design, 1.0, 1.0).smoothness)
    assert risk.smoothed(0.2).smoothing == pytest.approx(0.01)
    assert risk.smoothed(1e9).smoothing == pytest.approx(0.05)
    assert risk.smoothed(0.0).smoothing == pytest.approx(5e-4)
    hinge = AdversarialRisk(HingeLoss(), Attack(2, 0.5)).smoothed(0.2)
    assert hinge.is_smooth and hinge.loss.width == hinge.bias == pytest.approx(0.01)
    # the private constants do not depend on it
    exact, smooth = (r.constants(design, 1.0, 1.0) for r in (risk, risk.smoothed(0.2)))
    assert exact.gradient_diameter == smooth.gradient_diameter
