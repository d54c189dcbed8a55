"""Every algorithm on any finite records ends without error, warning or floating-point exception."""

import os
import signal
import threading
import warnings

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.base import clone
from tuning_runs import tune

from skdp._runtime import _FILTERS, without_warnings
from skdp._units import record_weights
from skdp.algorithms import (
    adversarial_output_perturbation,
    dp_bilevel,
    dp_localized_gd,
    exponential_mechanism,
    output_perturbation,
    phased_saddle_output_perturbation,
    saddle_output_perturbation,
)
from skdp.algorithms.plan import Run
from skdp.algorithms.tuning.bilevel import FinalFitPlan
from skdp.algorithms.tuning.blocks import plan_blocks
from skdp.algorithms.tuning.objective import TuningObjective
from skdp.linear_model import DPLogisticRegression
from skdp.mechanisms import NoiseSource
from skdp.privacy import PrivacyBudget
from skdp.problems import (
    Ball,
    BilinearProblem,
    BlockConstants,
    DeclaredProblem,
    DeclaredSaddleProblem,
    FiniteSumProblem,
    HalfSquaredLoss,
    LogisticLoss,
    PenaltyGroups,
    PenaltyProblem,
    Records,
    SaddleConstants,
)

BUDGET, PURE = PrivacyBudget(2.0, 1e-6), PrivacyBudget(2.0)
LOGISTIC, SQUARED = LogisticLoss(), HalfSquaredLoss(1.0)
PENALTIES = PenaltyGroups((0, 0), (1.0, 1.0), 1e-2, 1e2)
BLOCKS = PenaltyGroups((0, 1), (1.0, 1.0), 1e-2, 1e2)
N = 24
HUGE = np.finfo(float).max


def extreme_rows():
    """Data sets of one shape: each has numbers that overflow, vanish or repeat somewhere."""
    rng = np.random.default_rng(0)
    usual = rng.standard_normal((N, 2))
    numbers = [0.0, 5e-324, 1e-308, 1e-300, 1e-155, 1e-20, 1.0, 1e20, 1e155, 1e300, HUGE]
    mixed = rng.choice(numbers, (N, 2)) * rng.choice([-1.0, 1.0], (N, 2))
    one_small = np.zeros((N, 2))
    one_small[0, 1] = 1e-155
    return {
        "zero": np.zeros((N, 2)), "one small": one_small, "denormal": np.full((N, 2), 5e-324),
        "vanishing squares": 1e-155 * usual, "huge": 1e300 * usual,
        "largest": np.tile([HUGE, -HUGE], (N, 1)), "mixed": mixed,
        "duplicates": np.tile(usual[:1], (N, 1)),
    }  # fmt: skip


def bounded(X):
    return Records(X, 1.0)


def labels(X):
    return (np.arange(len(X)) % 2).astype(float)


def labelled(X):
    return Records(X, 1.0, targets=labels(X))


def numbers(X):
    return np.where(np.arange(len(X)) % 3, 1.0, -1e-300)


def noise():
    return NoiseSource(np.random.default_rng(0).bytes)


def finite_sum(X):
    return FiniteSumProblem(labelled(X), LOGISTIC, 0.1, Ball(3.0))


def bilinear(X):
    return BilinearProblem(
        X[:, :, None] * np.ones(2), X, X[::-1], (1.0, 1.0, 1.0), Ball(1.0), Ball(2.0), 0.3, 0.2
    )


def concave(X):
    rows = bounded(X).materialise()
    domains = Ball(2.0), Ball(0.5)
    constants = SaddleConstants(
        N,
        BlockConstants.on(domains[0], 2, modulus=1.0, lipschitz=4.0),
        BlockConstants.on(domains[1], 2, modulus=1.0, lipschitz=3.0),
        coupling=1.0,
    )
    return DeclaredSaddleProblem(
        lambda w, v: float((rows @ w).mean() + w @ v),
        lambda w, v: (rows.mean(axis=0) + v, w),
        *domains,
        constants,
    )


def fit(X, run):
    objective = TuningObjective.of(labelled(X), LOGISTIC, PENALTIES)
    plan = FinalFitPlan(objective=objective, alpha=np.ones(1), budget=BUDGET)
    return plan.run(labelled(X), run)


RUNS = {
    "output": lambda X, run: output_perturbation(finite_sum(X), BUDGET, run=run),
    "exponential, logistic":
        lambda X, run: exponential_mechanism(labelled(X), LOGISTIC, PURE, radius=1.0, run=run),
    "adversarial": lambda X, run: adversarial_output_perturbation(
        concave(X), BUDGET, mean_of_records=True, run=run
    ),
    "saddle": lambda X, run: saddle_output_perturbation(bilinear(X), BUDGET, run=run),
    "phased saddle": lambda X, run: phased_saddle_output_perturbation(
        bilinear(X), BUDGET, n_phases=2, run=run
    ),
    "localised descent":
        lambda X, run: dp_localized_gd(finite_sum(X), BUDGET, n_rounds=2, n_steps=3, run=run),
    "bilevel": lambda X, run: dp_bilevel(
        PenaltyProblem(labelled(X), LOGISTIC, PENALTIES), BUDGET, penalty=1.0, n_steps=2, run=run
    ),
    "final fit": fit,
    "blocks": lambda X, run: tune(plan_blocks, labelled(X), LOGISTIC, BLOCKS, BUDGET, run=run),
}  # fmt: skip


@pytest.fixture
def strict():
    """Floating-point errors and warnings raise."""
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("run", list(RUNS))
def test_every_data_set_is_fitted_in_silence(run, strict):
    with np.errstate(all="ignore"):
        tables = extreme_rows()
    for X in tables.values():
        result = RUNS[run](X, Run(noise=noise()))
        assert np.isfinite(result.point if hasattr(result, "point") else result.x).all()


#: Where weights of records in memory are divided and multiplied, before any fit.
WEIGHED = {
    "bound": lambda weights, _: record_weights(weights, 0.5, N),
    "weights": lambda weights, records: records.of_units(weights).shares,
    "persons": lambda _, records: records.of_units(None, np.arange(N) // 4).shares,
}


@pytest.mark.parametrize("place", list(WEIGHED))
def test_weights_are_read_in_silence(place, strict):
    weights = np.resize([0.0, 5e-324, 1e-308, 0.3, 1.0, HUGE], N)
    records = Records(np.ones((N, 1)), 1.0).of_units(np.minimum(weights, 1.0))
    read = WEIGHED[place](weights if place == "bound" else records.shares, records)
    assert (read >= 0.0).all() and (read <= 1.0).all()
    assert (read[weights >= 1.0] >= 0.25).all()


class Noisy:
    """A solver that warns, divides by zero and fails; it knows nothing of accuracies."""

    def __call__(self, problem, accuracy):
        warnings.warn(f"{problem}", UserWarning, stacklevel=2)
        warnings.warn("deprecated", DeprecationWarning, stacklevel=2)
        np.float64(1.0) / np.zeros(2)
        np.array([1e300]) ** 2
        raise ArithmeticError("of these records")


#: Runs that call the solver of a user.
CALLED = [name for name in RUNS if name not in ("localised descent", "blocks")]


@pytest.mark.parametrize("run", CALLED)
def test_warnings_of_a_solver_do_not_leak(run, strict):
    RUNS[run](np.random.default_rng(0).standard_normal((N, 2)), Run(Noisy()))


def test_warnings_inside_a_problem_do_not_leak(strict):
    """A user's gradient is computed outside of solvers too, for the certificate."""

    def value_and_gradient(w):
        warnings.warn("of these records", UserWarning, stacklevel=2)
        np.float64(1e-300) * np.float64(1e-300)
        return 0.5 * float((w - 0.1) @ (w - 0.1)), w - 0.1

    problem = DeclaredProblem(
        value_and_gradient, dimension=2, n_records=N, lipschitz=1.5, smoothness=1.0,
        strong_convexity=1.0, radius=1.0,
    )  # fmt: skip
    assert np.isfinite(output_perturbation(problem, BUDGET, run=Run(noise=noise())).point).all()
    assert np.isfinite(
        dp_localized_gd(problem, BUDGET, n_steps=2, run=Run(noise=noise())).point
    ).all()


def test_settings_are_restored():
    """The caller's filters and floating-point settings are as they were, after an error too."""
    with np.errstate(all="raise"):
        before, filters = np.geterr(), list(warnings.filters)
        with pytest.raises(KeyError), without_warnings():
            np.float64(1.0) / np.zeros(1)
            warnings.warn("silent", UserWarning, stacklevel=1)
            raise KeyError
        assert np.geterr() == before and warnings.filters == filters


def test_threads_share_the_silence():
    """Filters belong to the process: the last thread to leave restores those of the caller."""
    entered, left = threading.Event(), threading.Event()
    found = []

    def outlives():
        with without_warnings():
            entered.set()
            left.wait(10.0)
            try:
                warnings.warn("depends on the records", RuntimeWarning, stacklevel=1)
            except RuntimeWarning as error:
                found.append(error)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = list(warnings.filters)
        with without_warnings():
            thread = threading.Thread(target=outlives)
            thread.start()
            assert entered.wait(10.0)
        left.set()
        thread.join()
        assert not found
        assert list(warnings.filters) == before
        with pytest.raises(UserWarning, match="public"):
            warnings.warn("public", UserWarning, stacklevel=1)


def test_fits_in_threads_leave_the_filters_alone():
    X, y = np.zeros((50, 2)), np.arange(50) % 2
    model = DPLogisticRegression(data_norm=1.0, classes=[0, 1])
    before = list(warnings.filters)
    Parallel(n_jobs=4, backend="threading")(delayed(clone(model).fit)(X, y) for _ in range(12))
    assert list(warnings.filters) == before


forks = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),  # threads and fork
]


def in_child(check):
    """Whether a check holds in a fork of this process; a child that hangs is ended."""
    child = os.fork()
    if not child:
        signal.alarm(20)  # its default action ends the child
        try:
            os._exit(0 if check() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class TestForks:
    """Of a process in which a thread is inside of ``without_warnings``."""

    pytestmark = forks

    def test_a_child_has_the_filters_of_the_caller(self):
        """The thread that was inside does not exist in the child, and will never leave."""
        before, entered, leave = list(warnings.filters), threading.Event(), threading.Event()

        def stays():
            with without_warnings():
                entered.set()
                leave.wait(30.0)

        thread = threading.Thread(target=stays)
        thread.start()
        assert entered.wait(10.0)

        def check():
            restored = list(warnings.filters) == before
            with without_warnings():
                silent = list(warnings.filters) != before
            return restored and silent and list(warnings.filters) == before

        try:
            assert in_child(check)
        finally:
            leave.set()
            thread.join()
        assert list(warnings.filters) == before

    def test_a_child_of_a_thread_inside_stays_silent_until_it_leaves(self):
        before = list(warnings.filters)
        with without_warnings(), without_warnings():

            def check():
                _FILTERS.__exit__(None, None, None)
                silent = list(warnings.filters) != before
                _FILTERS.__exit__(None, None, None)
                return silent and list(warnings.filters) == before

            assert in_child(check)
        assert list(warnings.filters) == before

    def test_no_child_inherits_a_lock(self):
        """Threads enter and leave all the time while children are made."""
        stop = threading.Event()

        def works():
            while not stop.is_set():
                with without_warnings():
                    pass

        threads = [threading.Thread(target=works) for _ in range(2)]
        for thread in threads:
            thread.start()

        def check():
            with without_warnings():
                return True

        try:
            assert all(in_child(check) for _ in range(15))
        finally:
            stop.set()
            for thread in threads:
                thread.join()
