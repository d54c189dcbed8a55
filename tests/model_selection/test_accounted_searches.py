"""Cross-validation and searches inside of a budget: every fit of every worker is counted."""

import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest
from joblib import Parallel, delayed
from kills import parallel_config
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from worker_fits import X, Y, build_and_fit, clone_and_fit, failing, pipeline

from skdp import BudgetAccountant
from skdp.algorithms.core.fit import CorePlan
from skdp.privacy import RepeatedEvent, blocks, tightest_epsilon

pytestmark = pytest.mark.filterwarnings("ignore:The noise", "ignore:Parts around a private fit")


def accountant(epsilon=100.0):
    return BudgetAccountant(epsilon, 1e-5)


BACKENDS = [
    ("loky", 1),
    ("threading", 2),
    pytest.param("multiprocessing", 2, marks=pytest.mark.slow),
    pytest.param("loky", 2, marks=pytest.mark.slow),
]
every_backend = pytest.mark.parametrize(("backend", "n_jobs"), BACKENDS)


@pytest.fixture
def _live_workers():
    """Workers of the executor that were started before any block."""
    Parallel(n_jobs=2)(delayed(abs)(i) for i in range(4))


@every_backend
@pytest.mark.parametrize("in_block", [True, False])
def test_ten_folds_cost_ten_fits(backend, n_jobs, in_block):
    """docs/guide/budget.md: ten fits at (0.5, 1e-6) cost 1.523 at delta = 1e-5."""
    spent = accountant()
    model = pipeline(accountant=None if in_block else spent)
    if backend != "threading" and n_jobs == 2:
        Parallel(n_jobs=2)(delayed(abs)(i) for i in range(4))  # started before the block
    with parallel_config(backend, n_jobs=n_jobs):
        if in_block:
            with spent:
                cross_validate(model, X, Y, cv=KFold(10), error_score="raise")
            cross_validate(model, X, Y, cv=KFold(2), error_score="raise")  # not counted
        else:
            cross_validate(model, X, Y, cv=KFold(10), error_score="raise")
    events = [entry.event for entry in spent.entries]
    assert len(events) == 10
    one = pipeline().fit(X, Y)[-1].privacy_.event
    ten = tightest_epsilon(RepeatedEvent(one, 10), 1e-5)
    assert spent.total().epsilon == pytest.approx(ten, rel=1e-12)
    assert ten == pytest.approx(1.523, abs=5e-4)


@every_backend
def test_a_search_with_refit(backend, n_jobs):
    grid = {"dplogisticregression__epsilon": [0.1, 0.2]}
    with parallel_config(backend, n_jobs=n_jobs), accountant() as outer, accountant() as inner:
        search = GridSearchCV(pipeline(), grid, cv=KFold(3), error_score="raise").fit(X, Y)
    assert len(outer.entries) == len(inner.entries) == 2 * 3 + 1
    assert outer.total() == inner.total()
    search.best_estimator_.fit(X, Y)  # after the blocks
    assert len(outer.entries) == 7


@every_backend
def test_an_overrun_is_refused_in_a_worker(backend, n_jobs):
    """scikit-learn goes on with the other folds, whose fits are refused as well."""
    spent = accountant(0.7)
    with parallel_config(backend, n_jobs=n_jobs), spent, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = cross_validate(pipeline(), X, Y, cv=KFold(10))["test_score"]
    assert np.isfinite(scores).sum() == len(spent.entries) == 2
    assert 0.5 < spent.total().epsilon <= 0.7


@pytest.mark.slow
@pytest.mark.usefixtures("_live_workers")
def test_estimators_that_are_made_in_a_worker():
    """No estimator is sent to the workers, and they are older than the block."""
    with accountant() as spent:
        Parallel(n_jobs=2)(delayed(build_and_fit)(i) for i in range(3))
    Parallel(n_jobs=2)(delayed(build_and_fit)(i) for i in range(3))
    assert len(spent.entries) == 3


@pytest.mark.slow
@pytest.mark.usefixtures("_live_workers")
def test_estimators_that_are_sent_to_a_worker(monkeypatch):
    """The pickle alone is enough: as if the worker were no child of this process."""
    monkeypatch.setattr(blocks, "_file_of", lambda *process: "/nonexistent/skdp")
    monkeypatch.setattr(blocks, "publish", lambda: None)
    with accountant() as spent:
        fitted = Parallel(n_jobs=2)(delayed(clone_and_fit)(pipeline()) for i in range(2))
    assert len(spent.entries) == 2
    fitted[0].fit(X, Y)
    assert len(spent.entries) == 2


@pytest.mark.slow
def test_other_programs_that_a_block_starts():
    code = (
        "import numpy, skdp; skdp.DPRidge(data_norm=1., target_range=(0, 1), epsilon=0.1)"
        ".fit(numpy.zeros((9, 1)), numpy.zeros(9))"
    )
    with accountant() as spent:
        subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
    assert [entry.label for entry in spent.entries] == ["DPRidge"]


def test_threads_of_a_block():
    with accountant() as spent:
        threads = [threading.Thread(target=build_and_fit, args=(i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(spent.entries) == 3


@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.slow)])
def test_a_solver_that_raises_has_been_paid_for(backend):
    """Its answer is replaced, so that nobody learns that it raised; the price is the same."""
    with parallel_config(backend, n_jobs=2), accountant() as spent:
        cross_validate(pipeline(solver=failing), X, Y, cv=KFold(3), error_score="raise")
    assert len(spent.entries) == 3


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt, SystemExit])
def test_a_fit_that_fails_has_been_paid_for(error, monkeypatch):
    def run(self, records, run):
        raise error

    monkeypatch.setattr(CorePlan, "run", run)
    spent, model = accountant(), pipeline()[-1]
    with pytest.raises(error), spent:
        model.fit(X, Y)
    assert len(spent.entries) == 1 and not hasattr(model, "coef_")
    assert not blocks.active_blocks()


def test_a_solver_that_is_interrupted_has_been_paid_for():
    def interrupted(problem, accuracy):
        raise KeyboardInterrupt

    spent, model = accountant(), pipeline(method="output", solver=interrupted)[-1]
    with pytest.raises(KeyboardInterrupt), spent:
        model.fit(X, Y)
    assert len(spent.entries) == 1 and not [key for key in vars(model) if key.endswith("_")]
