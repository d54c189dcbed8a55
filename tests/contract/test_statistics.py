"""What is summed over records holds released and public numbers alone, and survives a pickle.

In whole fits every function that is summed over records is replaced by its copy from a pickle. It
is a frozen dataclass of a module, so it can be sent to where the records are, and the fit is the
same to the last bit.
"""

import dataclasses
import pickle
import re
import warnings

import numpy as np
import pytest
from fit_cases import CASES
from recorded_fits import first_cases
from sent_objects import leaves

from skdp.algorithms.core.centered_rows import CenteredRows
from skdp.problems import Records
from skdp.solvers import ScipySolver

#: Number of records: no array of a statistic has so many entries along an axis.
N = 59
#: Methods all of whose sums can be sent, by the names of cases.
SENT = re.compile(r"\b(gradient|bilevel|blocks|output|objective|solved)\b")
#: What the other methods sum, and why it stays with the records.
KEPT = {
    "skdp.problems.adversarial": "numbers beside all records",
    "skdp.problems.finite_sum": "residuals of all records, for tilted and batch solvers",
    "skdp.problems.group_network": "steps of batches, by position",
    "skdp.problems.max_group_loss": "residuals of all records",
    "skdp.problems.tilted": "weights of all records",
    "skdp.problems.vertices": "margins of all records",
}


@pytest.fixture
def sums(monkeypatch):
    """Watch the sums over records: names of dataclasses that were sent, modules of the others."""
    sent, kept = set(), set()

    def watch(kind, name):
        original = getattr(kind, name)

        def method(self, statistic, *args, **options):
            if not dataclasses.is_dataclass(statistic):
                kept.add(statistic.__module__)
                return original(self, statistic, *args, **options)
            for path, leaf in leaves(statistic, type(statistic).__name__):
                assert N not in np.shape(leaf), path
            inner = getattr(statistic, "terms", statistic)
            sent.update((type(statistic).__name__, type(inner).__name__))
            return original(self, pickle.loads(pickle.dumps(statistic)), *args, **options)

        monkeypatch.setattr(kind, name, method)

    def start():
        for name in ("total", "gram"):
            watch(Records, name)
        watch(CenteredRows, "full_total")
        return sent, kept

    return start


def fitted(name, n=None, **parameters):
    """All that a fit leaves, as bits."""
    case = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = case.fit(case.records(0, n=n), **parameters)
    return {name: pickle.dumps(value) for name, value in vars(model).items() if name[-1] == "_"}


@pytest.mark.mostly("slow", 8)
@pytest.mark.parametrize("name", first_cases(lambda case: case.place == "dense"))
def test_fits_are_the_same_with_statistics_that_were_sent(name, sums):
    expected = fitted(name, N)
    _, kept = sums()
    assert fitted(name, N) == expected
    assert kept <= (set() if SENT.search(name) else set(KEPT))


def test_all_statistics_were_sent_and_what_is_kept_is_kept(sums):
    """The cases above reach every one of them; some need a solver that is not the automatic one."""
    sent, kept = sums()
    for name, parameters in {
        "ridge, gradient, many features": {},
        "logistic, gradient, little noise": {},
        "ridge, intervals, replace-one": {},
        "ridge, solved, replace-one": {},
        "logistic, solved, little noise": {},
        "max-group classifier, gradient, rescaled": {},
        "max-group classifier, gradient, histogram": {},
        "max-group regressor, gradient, histogram": {},
        "max-group regressor, histogram, look": {},
        "logistic, output, delta 0": {"solver": "lbfgs"},
        "logistic, output, delta 0.01": {"solver": ScipySolver("newton-cg")},
        "multinomial, output, delta 0": {},
        "ridge, output, delta 0": {},
        "ridge, tilt": {},
        "adversarial classifier, 2, delta 0, replace_one": {"n": N},
        "max-group classifier, public, delta 0": {},
        "rgda, regressor": {},
        "vertices, logistic": {},
        "vertices, max-group classifier": {},
        "blocks, ridge": {},
    }.items():
        fitted(name, **parameters)
    assert kept == set(KEPT)
    assert sent == {
        "BlockDerivatives", "BlockMoments", "ClippedGradients", "ClippedLossTerms", "Curvature",
        "CurvatureProduct", "Derivatives", "GradientSum", "GroupSizes", "GroupTotals",
        "MeansSum", "MixTerms", "NewtonTerms",
        "QuadraticMoments", "ScaleTerms", "ShortenedSquares", "ValueAndGradientSum",
    }  # fmt: skip
