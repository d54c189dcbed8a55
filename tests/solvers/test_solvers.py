"""Every solver on every kind of problem, against solutions in extended precision."""

import functools
import re
from dataclasses import replace
from pathlib import Path

import extended_precision as reference
import numpy as np
import pytest
import scipy.sparse as sp

from skdp.linear_model import DPLogisticRegression
from skdp.methods import Output, OutputPerturbation
from skdp.problems import (
    Ball,
    Box,
    FiniteSumProblem,
    HalfSquaredLoss,
    LogisticLoss,
    Records,
    Simplex,
    SoftmaxLoss,
    WholeSpace,
)
from skdp.solvers import (
    LBFGS,
    SADDLE_SOLVERS,
    SOLVERS,
    SVRG,
    Extragradient,
    Newton,
    Solver,
    certify,
    solve_certified,
)
from skdp.solvers.svrg import MiniBatches

LOSSES = {"logistic": LogisticLoss(), "softmax": SoftmaxLoss(3), "squared": HalfSquaredLoss(1.0)}
N_RECORDS, N_FEATURES = 40, 3


def records(loss, case="random", seed=0, n=N_RECORDS, nudge=0):
    """Records; with a `nudge` the rows differ from those without by up to 1e-15, relatively."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, N_FEATURES)) * [1.0, 0.3, 0.1]
    if nudge:
        X *= 1.0 + 1e-15 * np.random.default_rng(nudge).uniform(-1.0, 1.0, X.shape)
    targets = rng.integers(0, 3 if loss == "softmax" else 2, n)
    if loss == "squared":
        targets = targets - 0.5
    elif loss == "logistic":
        targets = targets.astype(float)
    if case == "one class":
        targets[:] = targets[0]
    elif case == "duplicates":
        X[:], targets[:] = X[0], targets[0]
    elif case == "zero rows":
        X[:] = 0.0
    elif case == "float32":
        X = X.astype(np.float32)
    return X, targets


def problem_of(loss, kappa, domain, sparse=False, case="random", n=N_RECORDS, nudge=0):
    """A problem of the given condition number, with the constraint active or not."""
    X, targets = records(loss, case, n=n, nudge=nudge)
    rows = Records(sp.csr_matrix(X) if sparse else X, 1.0, 0.1)
    phi = LOSSES[loss]
    alpha = phi.smoothness(rows.norm_bound) / max(kappa - 1.0, 1e-2)
    free = FiniteSumProblem(rows.with_targets(targets), phi, alpha, WholeSpace())
    w = reference.solve(free, Newton().solve(free, 1e-6 / alpha).point).astype(float)
    norm, size = float(np.linalg.norm(w)), np.abs(w)
    domains = {
        "free": lambda: WholeSpace(),
        "ball inactive": lambda: Ball(2.0 * norm),
        "ball active": lambda: Ball(0.3 * norm),
        "box": lambda: Box(-0.5 * size, 0.5 * size + 0.1 * size.max()),
        "simplex": lambda: Simplex(w.size),
    }
    chosen = domains[domain]()
    problem = FiniteSumProblem(rows.with_targets(targets), phi, alpha, chosen)
    assert problem.smoothness / problem.strong_convexity == pytest.approx(kappa, rel=0.1)
    limit = norm if not np.isfinite(chosen.circumradius) else min(norm, chosen.circumradius)
    return problem, limit


def hasty(name):
    """A solver that gives up early: the gate is part of what is tested."""
    solver = SOLVERS[name]()
    for limit, small in (("max_passes", 15.0), ("max_iterations", 200)):
        if hasattr(solver, limit):
            setattr(solver, limit, small)
    return solver


@functools.lru_cache(maxsize=1)  # many solvers, one problem after another
def exact_solution(problem, scale):
    return reference.solve(problem, Newton().solve(problem, 1e-7 * scale).point)


def true_distance(problem, point):
    scale = 2.0 ** np.ceil(np.log2(max(1.0, float(np.linalg.norm(point)))))
    gap = point.astype(np.longdouble) - exact_solution(problem, scale)
    return float(np.sqrt(gap @ gap))


#: Condition numbers that each method manages alone on these problems, within its default limits.
ALONE = {"newton": 1e6, "lbfgs": 1e6, "accelerated_gradient": 1e5, "svrg": 3e1}


#: Every method on four problems, losses and domains by turns.
TURNS = [
    (name, list(LOSSES)[i % 3], ("free", "ball inactive", "ball active", "box", "simplex")[i % 5])
    for i, name in enumerate(4 * list(ALONE))
]


@pytest.mark.mostly("slow", 8)
@pytest.mark.parametrize(("name", "loss", "domain"), TURNS)
def test_every_solver_manages_alone(name, loss, domain):
    """Without the gate, because the method is right; also on rows that differ by 1e-15."""
    for nudge in range(2):
        problem, scale = problem_of(loss, ALONE[name], domain, nudge=nudge)
        accuracy = 1e-6 * scale
        start = problem.domain.project(np.zeros(problem.dimension))
        with np.errstate(all="ignore"):
            answer = SOLVERS[name]()._solve(problem, accuracy, start, np.random.default_rng(0))
        point = problem.domain.project(answer)
        assert certify(problem, point).distance <= accuracy
        assert true_distance(problem, point) <= accuracy


@pytest.mark.mostly("slow", 1)
@pytest.mark.parametrize(
    ("loss", "sparse", "case"),
    [("logistic", False, "one class"), ("softmax", True, "duplicates"),
     ("squared", False, "zero rows"), ("logistic", True, "float32"),
     ("softmax", False, "one record")],
)  # fmt: skip
def test_degenerate_records(loss, sparse, case):
    n = 1 if case == "one record" else N_RECORDS
    X, targets = records(loss, case, n=n)
    rows = Records(sp.csr_matrix(X) if sparse else X, 1.0, 0.1)
    for alpha in (1.0, 1e-3):
        free = FiniteSumProblem(rows.with_targets(targets), LOSSES[loss], alpha, WholeSpace())
        exact = reference.solve(free, Newton().solve(free, 1e-9).point)
        norm = float(np.linalg.norm(exact.astype(float)))
        for domain in (WholeSpace(), Ball(0.3 * norm), Ball(2.0 * norm)):
            problem = FiniteSumProblem(rows.with_targets(targets), LOSSES[loss], alpha, domain)
            accuracy = 1e-6 * norm
            for name in SOLVERS:
                solution = hasty(name).solve(problem, accuracy, rng=np.random.default_rng(0))
                assert solution.distance <= accuracy, name
                assert true_distance(problem, solution.point) <= solution.distance


@pytest.mark.parametrize("name", ["newton", "lbfgs", "accelerated_gradient"])
def test_add_remove_and_a_center(name):
    """More rows than the nominal size, and a regulariser that pulls elsewhere."""
    X, targets = records("logistic")
    rows = Records(X, 1.0, 0.1)
    center = np.array([1.0, -1.0, 0.5, 0.0])
    for domain in (Ball(0.5), WholeSpace(), Simplex(4)):
        problem = FiniteSumProblem(
            rows.with_targets(targets), LogisticLoss(), 0.05, domain, n_public=25, center=center
        )
        problem.constants = replace(problem.constants, size_ratio=10.0)  # not a million records
        solution = SOLVERS[name]().solve(problem, 1e-7, rng=np.random.default_rng(0))
        assert solution.distance <= 1e-7
        assert true_distance(problem, solution.point) <= solution.distance


# --- stochastic methods ---------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 7, None, 10**6])
def test_batch_sizes(batch_size):
    problem, scale = problem_of("logistic", 100.0, "ball active", n=90)
    solver = SVRG(batch_size=batch_size, max_passes=1000.0)
    start = np.zeros(problem.dimension)
    point = solver._solve(problem, 1e-6 * scale, start, np.random.default_rng(0))
    assert certify(problem, point).distance <= 1e-6 * scale


@pytest.mark.parametrize(
    ("n", "batch_size", "sparse"),
    [(1, None, False), (2, 1, True), (31, 50, True), (1000, 50, False)],
)
def test_batches_hold_every_record_once(n, batch_size, sparse):
    problem, _ = problem_of("logistic", 10.0, "free", sparse=sparse, n=n)
    batches = MiniBatches(problem, batch_size)
    seen = np.concatenate([np.arange(n)[batches[j].block.positions] for j in range(len(batches))])
    np.testing.assert_array_equal(np.sort(seen), np.arange(n))
    w = np.linspace(-1, 1, problem.dimension)
    gradients = [
        batches.gradient(b, b.residuals(w)) for b in map(batches.__getitem__, range(len(batches)))
    ]
    mean = np.mean(gradients, axis=0) + problem.penalty_gradient(w)
    np.testing.assert_allclose(mean, problem.gradient(w), atol=1e-14)


@pytest.mark.parametrize("loss", list(LOSSES))
def test_measured_smoothness_of_batches(loss):
    """Near the true smoothness of the batches, and never above the public bound."""
    problem, _ = problem_of(loss, 10.0, "free", n=400)
    batches = MiniBatches(problem, 50)
    X = reference.bounded_rows(problem).astype(float)
    exact = [
        LOSSES[loss].curvature
        * np.linalg.norm(X[batches[j].block.positions], 2) ** 2
        * len(batches)
        / problem.n_public
        for j in range(len(batches))
    ]
    measured = batches.smoothness(np.random.default_rng(0))
    assert 0.9 * min(exact) <= measured <= 1.3 * max(exact)


def test_a_step_that_is_too_long_is_halved(monkeypatch):
    monkeypatch.setattr(MiniBatches, "smoothness", lambda self, rng: 1e-4)
    problem, scale = problem_of("logistic", 30.0, "ball inactive", n=200)
    start = np.zeros(problem.dimension)
    point = SVRG(max_passes=2000.0)._solve(problem, 1e-4 * scale, start, np.random.default_rng(0))
    assert certify(problem, point).distance <= 1e-4 * scale


# --- one contract -----------------------------------------------------------------------------


def test_a_solver_or_a_domain_of_another_kind_is_refused_in_words():
    problem, _ = problem_of("logistic", 10.0, "free")
    for domain in (Simplex(7), Box(np.zeros(7), np.ones(7))):
        with pytest.raises(ValueError, match="7 dimensions, the problem has 4"):
            FiniteSumProblem(problem.records, LogisticLoss(), 1.0, domain)
    for solver in (Extragradient(), "extragradient"):
        with pytest.raises(ValueError, match=r"must be one of .*'newton'.*skdp\.solvers\.Solver"):
            solve_certified(problem, 1e-3, solver)


def sloppy(direction):
    """A solver that returns a point as far from the solution as the certificate lets it."""

    def solve(problem, accuracy):
        exact = Newton().solve(problem, 1e-3 * accuracy).point
        step = direction * np.ones(problem.dimension) / np.sqrt(problem.dimension)
        length = 4.0 * accuracy
        while certify(problem, problem.domain.project(exact + length * step)).distance > accuracy:
            length *= 0.98
        return exact + length * step

    return solve


def test_swapping_the_solver_moves_the_release_by_no_more_than_the_accuracy():
    """Every answer is within tau / 2 of the solution; under one seed the noise is the same."""
    method = OutputPerturbation(alpha=0.05)
    model = DPLogisticRegression(classes=[0, 1], random_state=0, method=method)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4))
    y = (X[:, 0] + 0.3 * rng.standard_normal(300) > 0).astype(int)
    weights, statements = [], []
    for solver in (*SOLVERS, sloppy(+1.0), sloppy(-1.0)):
        fitted = model.set_params(method__solver=solver).fit(X, y)
        coef, intercept = np.atleast_2d(fitted.coef_), np.reshape(fitted.intercept_, (-1, 1))
        weights.append(np.hstack([coef, intercept / 0.1]))
        statements.append(fitted.privacy_.to_dict())
    accuracy = statements[0]["plan"]["accuracy"]
    moved = max(np.linalg.norm(a - b) for a in weights for b in weights)
    assert moved <= accuracy * (1 + 1e-9)
    assert moved >= 0.2 * accuracy  # of the sloppy ones: the bound is not idle
    assert all(statement == statements[0] for statement in statements)


def test_the_end_of_a_solver_is_told_on_request_only(capsys):
    problem, scale = problem_of("logistic", 100.0, "free")
    quiet = SVRG().solve(problem, 1e-6 * scale, rng=np.random.default_rng(0))
    assert capsys.readouterr().out == ""
    told = SVRG().solve(problem, 1e-6 * scale, rng=np.random.default_rng(0), verbose=1)
    assert capsys.readouterr().out == "[skdp] SVRG(): accuracy reached\n"
    np.testing.assert_array_equal(quiet.point, told.point)
    solve_certified(problem, 1e-6 * scale, lambda problem, accuracy: 1 / 0, verbose=1)
    first, second = capsys.readouterr().out.splitlines()
    assert "not reached, a trusted solver goes on (ZeroDivisionError" in first
    assert second == "[skdp] Newton(): accuracy reached"
    seen = []
    SVRG().solve(problem, 1e-6 * scale, verbose=lambda *args: seen.append(args))
    assert seen == [("SVRG()", 1.0, 1.0)]
    assert capsys.readouterr().out == ""


class Remembers(Solver):
    def _solve(self, problem, accuracy, start, rng):
        self.seen = np.array(problem.records.targets)
        return start


class CannotBeCopied(Remembers):
    def __deepcopy__(self, memo):
        raise RuntimeError("no")


def test_what_a_solver_stores_in_itself_during_a_fit_is_not_kept():
    X, y = np.random.default_rng(0).standard_normal((60, 3)), np.arange(60) % 2
    model = DPLogisticRegression(classes=[0, 1], method="output", solver=Remembers()).fit(X, y)
    assert vars(model.solver) == {}
    model = DPLogisticRegression(classes=[0, 1], method=Output(solver=Remembers())).fit(X, y)
    assert vars(model.method.solver) == {}
    # what cannot be copied is used all the same
    model.set_params(method__solver=CannotBeCopied()).fit(X, y)


def test_newton_copes_with_a_row_beyond_single_precision():
    X = np.random.default_rng(0).uniform(-1, 1, (200, 3))
    X[0] = 1e39
    problem = FiniteSumProblem(
        Records(X, 1.0, targets=np.arange(200) % 2.0), LogisticLoss(), 0.1, Ball(3.0)
    )
    solution = solve_certified(problem, 1e-8, Newton())
    assert [attempt.error for attempt in solution.attempts] == [None]


# --- the documentation ------------------------------------------------------------------------


def documented_solvers():
    """Names and classes in the tables of docs/develop/add_solver.md, by the order of the tables."""
    tables, rows = [], None
    for line in (Path(__file__).parents[2] / "docs/develop/add_solver.md").read_text().splitlines():
        if line.startswith("| name |"):
            rows = {}
            tables.append(rows)
        elif not line.startswith("|"):
            rows = None
        elif rows is not None and not line.startswith("|---"):
            names, classes = line.split("|")[1:3]
            found = re.findall(r'"(\w+)"', names), re.findall(r"`(\w+)`", classes)
            rows.update(zip(*found, strict=True))
    return tables


def test_the_documented_tables_are_complete():
    for_fits, for_saddles = documented_solvers()
    classes = {name: solver.__name__ for name, solver in SOLVERS.items()}
    assert for_fits | {"auto": "Auto"} == classes
    classes = {name: solver.__name__ for name, solver in SADDLE_SOLVERS.items()}
    assert for_saddles | {"auto": "AutoSaddle"} == classes


def test_lbfgs_asks_for_no_gradient_twice(monkeypatch):
    """The certificate of a free minimiser takes the gradient that stopped the search."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.4, 0.4, (300, 4))
    records = Records(X, 1.0, targets=(X[:, 0] > 0.0).astype(float))
    problem, seen = FiniteSumProblem(records, LogisticLoss(), 0.1, Ball(100.0)), []
    monkeypatch.setattr(problem, "gradient", lambda w: seen.append(w))
    point = LBFGS()._solve(problem, 1e-6, np.zeros(4), rng)
    assert not seen
    assert certify(problem, point, problem.value_and_gradient(point)[1]).distance <= 1e-6
    solution = solve_certified(problem, 1e-6, "lbfgs")  # nor does the gate
    assert solution.distance <= 1e-6 and not seen
