"""The picture of a score against epsilon: the Display API, the budget, what it says of itself."""

import builtins

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.pipeline import make_pipeline

from skdp import BudgetAccountant, BudgetExceededError, PrivacyLeakWarning
from skdp.inspection import PrivacyUtilityDisplay
from skdp.linear_model import DPLogisticRegression, DPRidge
from skdp.preprocessing import BoundedScaler, DPStandardScaler
from skdp.robust import DPMaxGroupLossClassifier

pyplot = pytest.importorskip("matplotlib.pyplot")
pyplot.switch_backend("Agg")

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, size=(600, 2))
Y = (X[:, 0] > 0).astype(int)
MODEL = DPLogisticRegression(data_norm=1.0, classes=[0, 1])
EPSILONS = [0.01, 20.0]


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


def drawn(model=MODEL, y=Y, **options):
    options = {"epsilons": EPSILONS, "cv": 3, "random_state": 0, **options}
    return PrivacyUtilityDisplay.from_estimator(model, X, y, **options)


def test_scores_and_lines():
    display = drawn(baseline=LogisticRegression())
    assert display.scores.shape == (2, 3)
    assert display.scores[1].mean() > 0.9 > display.scores[0].mean()
    assert (display.epsilons == EPSILONS).all()
    assert display.ax_.figure is display.figure_
    np.testing.assert_array_equal(display.line_.get_ydata(), display.scores.mean(axis=1))
    assert display.fill_between_ in display.ax_.collections
    assert display.errorbar_ is None
    assert display.baseline_.get_ydata()[0] == display.baseline_scores.mean() > 0.9
    assert display.ax_.get_xlabel() == "epsilon"
    assert display.ax_.get_xscale() == "log"
    assert display.ax_.get_ylabel() == "Score"
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == ["DPLogisticRegression", "without privacy"]


def test_constructor_takes_arrays_and_plot_draws_again():
    scores = np.array([[0.5, 0.7], [0.9, 0.9]])
    display = PrivacyUtilityDisplay(epsilons=np.array([1.0, 2.0]), scores=scores)
    assert not hasattr(display, "ax_")
    _, ax = pyplot.subplots()
    assert display.plot(ax, std_display_style="errorbar", errorbar_kw={"color": "red"}) is display
    assert display.ax_ is ax
    assert display.line_ is display.fill_between_ is display.baseline_ is None
    np.testing.assert_allclose(display.errorbar_[0].get_ydata(), [0.6, 0.9])
    other = display.plot(std_display_style=None, negate_score=True, name="mine", score_name="loss")
    assert other.ax_ is not ax
    assert other.fill_between_ is other.errorbar_ is None
    np.testing.assert_allclose(other.line_.get_ydata(), [-0.6, -0.9])
    assert (other.line_.get_label(), other.ax_.get_ylabel()) == ("mine", "loss")
    with pytest.raises(ValueError, match="std_display_style"):
        display.plot(std_display_style="box")


@pytest.mark.parametrize(
    ("scoring", "negate", "label"),
    [("neg_log_loss", True, "Log loss"), ("neg_log_loss", False, "Negative log loss"),
     (lambda estimator, X, y: 1.0, False, "<lambda>")],
)  # fmt: skip
def test_any_scorer(scoring, negate, label):
    display = drawn(scoring=scoring, negate_score=negate, epsilons=[1.0])
    assert display.ax_.get_ylabel() == label
    assert (display.line_.get_ydata() > 0).all() == (negate or callable(scoring))


@pytest.mark.slow
def test_same_seed_same_curve_and_other_noise_in_every_fit():
    first, again = drawn(), drawn()
    np.testing.assert_array_equal(first.scores, again.scores)
    # the same split twice: what differs is the noise
    half = (np.arange(300), np.arange(300, 600))
    twice = drawn(cv=[half, half], epsilons=[0.05])
    assert twice.scores[0, 0] != twice.scores[0, 1]
    splits = drawn(cv=ShuffleSplit(4, random_state=0), epsilons=[1.0])
    assert splits.scores.shape == (1, 4)


@pytest.mark.slow
def test_pipelines_and_fit_parameters():
    scaled = make_pipeline(BoundedScaler((-1, 1)), MODEL)
    assert drawn(scaled, epsilons=[20.0]).scores.mean() > 0.9
    several = make_pipeline(DPStandardScaler(ranges=(-1, 1)), MODEL)
    with pytest.raises(ValueError, match="dpstandardscaler__epsilon"):
        drawn(several)
    name = "dplogisticregression__epsilon"
    assert drawn(several, param_name=name, epsilons=[20.0]).scores.shape == (1, 3)
    with pytest.raises(ValueError, match="no parameter"):
        drawn(param_name="eps")
    groups = np.where(X[:, 1] > 0, "up", "down")
    robust = DPMaxGroupLossClassifier(data_norm=1.0, classes=[0, 1], group_names=["up", "down"])
    assert drawn(robust, params={"groups": groups}, epsilons=[9.0]).scores.shape == (1, 3)
    regressor = DPRidge(data_norm=1.0, target_range=(-1, 1))
    assert drawn(regressor, y=X[:, 0], epsilons=[50.0], n_jobs=1).scores.mean() > 0.5


def test_fits_are_charged_and_scores_are_called_a_leak():
    with (
        BudgetAccountant(100.0, 1e-4) as accountant,
        pytest.warns(PrivacyLeakWarning, match="fits alone"),
    ):
        drawn(baseline=LogisticRegression())
    assert len(accountant.entries) == 2 * 3
    assert accountant.total().epsilon > 20.0
    with (
        BudgetAccountant(0.5, 1e-4) as accountant,
        pytest.warns(PrivacyLeakWarning),
        pytest.raises(BudgetExceededError),
    ):
        drawn()
    assert len(accountant.entries) == 3  # the fits at epsilon = 0.01
    own = BudgetAccountant(100.0, 1e-4)
    with pytest.warns(PrivacyLeakWarning):
        drawn(DPLogisticRegression(data_norm=1.0, classes=[0, 1], accountant=own), cv=KFold(2))
    assert len(own.entries) == 2 * 2


def test_clear_errors():
    for options, message in (
        ({"model": DummyClassifier()}, "private estimator"), ({"epsilons": []}, "at least one"),
        ({"epsilons": [0.0]}, "epsilons"), ({"epsilons": [1.0, "2"]}, "epsilons"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            drawn(**options)


def test_without_matplotlib(monkeypatch):
    """The message of scikit-learn, before anything is fitted."""
    load = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return load(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with BudgetAccountant(1.0) as accountant, pytest.raises(ImportError, match="pip install"):
        drawn()
    assert not accountant.entries
    display = PrivacyUtilityDisplay(epsilons=[1.0], scores=[[1.0]])
    with pytest.raises(ImportError, match=r"PrivacyUtilityDisplay.plot requires matplotlib"):
        display.plot()
