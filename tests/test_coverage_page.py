"""docs/develop/coverage.md: every call that it promises runs, for both kinds of privacy."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import skdp
from skdp import (
    DPLinearClassifier,
    DPLinearRegressor,
    DPLogisticRegression,
    DPLogisticRegressionCV,
    DPRidge,
    DPRidgeCV,
)
from skdp.algorithms import (
    Run,
    adversarial_output_perturbation,
    exponential_mechanism,
    localized_exponential,
    output_perturbation,
    phased_saddle_output_perturbation,
    saddle_output_perturbation,
)
from skdp.algorithms.output.published import lowy_regularisation
from skdp.methods import (
    Bilevel,
    ExponentialMechanism,
    OutputPerturbation,
    PhasedOutputPerturbation,
)
from skdp.methods.choice import GROUP_METHODS, METHODS
from skdp.methods.tuning import INNER
from skdp.privacy import PrivacyBudget
from skdp.privacy.events import RECORD_RELATIONS, REPLACED_RELATIONS, Neighbouring
from skdp.problems import Ball, BilinearProblem, DeclaredProblem
from skdp.robust import (
    DPAdversarialClassifier,
    DPAdversarialRegressor,
)

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "develop" / "coverage.md").read_text(encoding="utf-8")
STRONG = [
    *[
        (DPLinearClassifier, {"loss": loss})
        for loss in ("hinge", "smoothed_hinge", "squared_hinge")
    ],
    *[(DPLinearRegressor, {"loss": loss}) for loss in ("absolute_error", "quantile", "huber")],
    (DPLogisticRegression, {}),
    (DPRidge, {}),
]


def fit(estimator, **parameters):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (300, 2))
    y = X[:, 0]
    if "classes" in estimator().get_params():
        parameters["classes"], y = [0, 1], (y > 0).astype(int)
    return estimator(random_state=0, **parameters).fit(X, y)


@pytest.mark.parametrize("k", range(len(STRONG)))
def test_means_over_records(k):
    """Tables 3 to 6: strongly convex (F, H) by `alpha`, convex (G, J) by alpha = 0 and a radius."""
    (estimator, loss), delta, population = STRONG[k], (0.0, 1e-6)[k % 2], k % 4 < 2
    method = OutputPerturbation(alpha=0.1, population=population)
    assert fit(estimator, delta=delta, method=method, **loss).alpha_ == 0.1
    for calibration in ("analytic", "paper"):
        ball = {"alpha": 0, "coef_norm": 1.0, "calibration": calibration}
        convex = fit(estimator, delta=delta, method=clone(method).set_params(**ball), **loss)
        assert convex.alpha_ > 0
        assert convex.privacy_.delta == delta


@pytest.mark.parametrize("solver", ["accelerated_gradient", "svrg"])
def test_the_stated_solvers(solver):
    for estimator, method, loss in (
        (DPLogisticRegression, OutputPerturbation, {}),
        (DPLinearClassifier, PhasedOutputPerturbation, {"loss": "hinge"}),
    ):
        model = fit(estimator, method=method(solver=solver), epsilon=0.5, **loss)
        assert model.privacy_.method == method.__name__


def declared(**constants):
    target = np.array([0.2, -0.1])
    return DeclaredProblem(
        lambda w: (0.5 * float((w - target) @ (w - target)), w - target), dimension=2,
        lipschitz=2.3, smoothness=1.0, domain=Ball(2.0), **constants,
    )  # fmt: skip


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_general_losses(delta):
    """Tables 1 and 2: classes F and H, and G and J with the published penalty."""
    budget = PrivacyBudget(1.0, delta)
    for problem in (declared(strong_convexity=1.0), declared(alpha=0.5)):
        for calibration in ("analytic", "lowy2021_alg1"):
            assert np.isfinite(
                output_perturbation(problem, budget, calibration=calibration).point
            ).all()
    for smoothness in (math.inf, 1.0):
        alpha = lowy_regularisation(budget, 2, 1, 2.3, smoothness, 2.0)
        for calibration in ("analytic", "lowy2021_alg6"):
            result = output_perturbation(declared(alpha=alpha), budget, calibration=calibration)
            assert np.linalg.norm(result.point) <= 2.0 * (1 + 1e-12)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_tilted_losses(delta):
    for estimator, loss in STRONG:
        method = OutputPerturbation(tilt=0.5, alpha=0.1, coef_norm=1.0)
        assert fit(estimator, method=method, delta=delta, **loss).privacy_.delta == delta


def test_other_algorithms():
    for estimator in (DPLogisticRegression, DPRidge):
        for alpha in (0, 0.1):
            method = ExponentialMechanism(alpha=alpha, coef_norm=1.0)
            drawn = fit(estimator, method=method, delta=0)
            assert drawn.privacy_.releases[0].mechanism == "exponential"
        paper = fit(estimator, method=PhasedOutputPerturbation(calibration="paper"), epsilon=0.5)
        assert "Alg. 2" in paper.privacy_.releases[0].reference
    for estimator in (DPAdversarialClassifier, DPAdversarialRegressor):
        assert np.isfinite(fit(estimator, attack_radius=0.1).coef_).all()
    problem = declared(alpha=0.5)
    zhang = output_perturbation(problem, PrivacyBudget(0.5, 1e-6), calibration="zhang2022_alg1")
    assert "Alg. 1" in zhang.plan.reference
    for function in (exponential_mechanism, localized_exponential, adversarial_output_perturbation):
        assert function.__name__ in PAGE


def test_saddle_points():
    rng = np.random.default_rng(0)
    parts = rng.normal(size=(200, 2, 3)), rng.normal(size=(200, 2)), rng.normal(size=(200, 3))
    problem = BilinearProblem(*parts, (1.0, 1.0, 1.0), Ball(1.0), Ball(1.0), 0.5, 0.5)
    budget = PrivacyBudget(0.5, 1e-6)
    for calibration in ("analytic", "paper"):
        both = saddle_output_perturbation(problem, budget, calibration=calibration)
        assert both.x.shape == (2,) and both.y.shape == (3,)
        for release, share in (("x", 0.5), ("y", 0.5)):
            shares = {"share": share} if calibration == "analytic" else {}
            phased = phased_saddle_output_perturbation(
                problem, budget, release=release, calibration=calibration, **shares
            )
            assert (phased.x is None) == (release == "y")
            if calibration == "paper":
                assert ("Alg. 4" if release == "x" else "Alg. 5") in phased.plan.reference
    for solver in ("extragradient", "best_response", "lsvre"):
        assert saddle_output_perturbation(problem, budget, run=Run(solver)).x.shape == (2,)
        assert f'"{solver}"' in PAGE


@pytest.mark.parametrize("estimator", [DPRidgeCV, DPLogisticRegressionCV])
def test_tuning(estimator):
    """That all of them are fitted: tests/contract/test_fits.py."""
    published = [Bilevel(as_published=True, inner=inner) for inner in INNER]
    assert all(f'"{inner}"' in PAGE for inner in INNER)
    for method in (*estimator._methods, *published):
        with pytest.raises(ValueError, match="delta > 0"):
            fit(estimator, method=method, delta=0.0)
    assert "`Bilevel(as_published=True)`" in PAGE


def test_names_and_paths_of_the_page_exist():
    for name in set(re.findall(r"`(DP[A-Za-z]+)", PAGE)):
        assert hasattr(skdp, name), name
    for path in set(re.findall(r"`((?:tests|skdp)/\S+)`", PAGE)):
        assert (ROOT / path).exists(), path


#: "Algorithm 2", "Algorithms 9, 10 and 11", "Alg. 3 to 5".
ALGORITHMS = re.compile(r"Alg(?:orithms?|\.) (\d+(?:(?:,| and| or| to)? \d+)*)")


def numbers(text):
    """All algorithms that a text names."""
    for match in ALGORITHMS.finditer(text):
        found = [int(number) for number in re.findall(r"\d+", match[1])]
        yield from range(found[0], found[-1] + 1) if " to " in match[1] else found


def rows():
    """Paper, first and last cell of each row of the page's tables."""
    paper = "Lowy"  # the tables come first
    for line in PAGE.splitlines():
        if line.startswith("## "):
            (paper,) = re.findall("Lowy|Zhang|Kornowski|Gonzalez", line) or [paper]
        elif line.startswith("| ") and not line.startswith(("| row |", "| result |")):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            assert len(cells) == 3, line
            yield paper, cells[0], cells[2]


PUBLISHED = {(paper, number): module for paper, row, module in rows() for number in numbers(row)}


def test_every_row_names_a_module():
    for _, row, module in rows():
        assert re.fullmatch(r"`skdp/\S+`", module), row


def test_every_published_algorithm_has_one_row():
    listed = [(paper, number) for paper, row, _ in rows() for number in numbers(row)]
    assert len(listed) == len(set(listed))
    papers = {"Lowy": 11, "Zhang": 5, "Kornowski": 4, "Gonzalez": 5}
    assert set(listed) == {(paper, i + 1) for paper, n in papers.items() for i in range(n)}


@pytest.mark.parametrize(("algorithm", "module"), PUBLISHED.items(), ids=str)
def test_the_module_names_the_algorithm(algorithm, module):
    """In its docstrings or reference strings, next to the authors."""
    paper, number = algorithm
    text = " ".join((ROOT / module.strip("`")).read_text(encoding="utf-8").split())
    near = (
        text[max(match.start() - 120, 0) : match.end() + 120]
        for match in ALGORITHMS.finditer(text)
        if number in numbers(match[0])
    )
    assert any(paper in part for part in near)


def covered(method):
    """What a row of the page of methods begins with, from the attributes of the object."""
    relations = set(method.relations)
    kinds = {
        frozenset(Neighbouring): "all",
        frozenset(REPLACED_RELATIONS): "R",
        frozenset(RECORD_RELATIONS): "rows",
        frozenset({Neighbouring.REPLACE_ONE}): "rows, replace-one,",
    }
    kind = kinds[frozenset(relations)]
    assert method.is_weighted is not kind.startswith("rows")
    conditions = "; `delta > 0`" * method.needs_delta + "; `delta=0`" * method.is_pure
    return kind + " in memory" * (not method.chunked) + conditions


def test_the_page_of_methods_is_that_of_the_objects():
    """Each object of linear models and of groups has a row with its name and what it covers."""
    text = (ROOT / "docs" / "guide" / "methods.md").read_text(encoding="utf-8")
    rows = re.findall(r'^\| `(\w+)` \| "(\w+)" \| [^|]* \| ([^|]*) \|$', text, flags=re.M)
    found = [*METHODS.items(), *GROUP_METHODS.items()]
    tables = {type(method).__name__: (name, method) for name, method in found}
    assert sorted(name for name, _, _ in rows) == sorted(tables)
    for kind, name, covers in rows:
        assert name == tables[kind][0], kind
        assert covers.startswith(covered(tables[kind][1])), kind
