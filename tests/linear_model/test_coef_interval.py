"""Confidence intervals of coefficients.

Coverage is of samples of a known population, pooled over the coefficients: the bounds are three
standard errors of independent coefficients off the level, or more, so that other seeds leave them
with a probability of less than 5e-3 where intervals are right. Ratios of deviations are those of
fits on the same records, as in test_noise_of_a_fit.py. Seeded: a test always passes or fails.
"""

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest

from skdp.algorithms.core.intervals import Newton
from skdp.inspection import plan_fit
from skdp.linear_model import DPLogisticRegression, DPRidge
from skdp.linear_model.intervals import apart

D = 5
ROOT = np.linalg.cholesky(0.7 ** np.abs(np.subtract.outer(np.arange(D), np.arange(D)))).T
COEF = np.array([1.0, -0.5, 0.0, 0.5, 0.25])


def model(n_classes, epsilon=3.0, **given):
    shared = {"data_norm": 1.0, "intervals": True, "random_state": 0, **given}
    if not n_classes:
        return DPRidge(epsilon, target_range=(-2, 2), **shared)
    return DPLogisticRegression(epsilon, classes=range(n_classes), **shared)


def table(n_classes, seed, n=3000, root=ROOT):
    """Draw correlated rows; targets have the coefficients that are returned."""
    rng, d = np.random.default_rng(seed), len(root)
    X = 0.27 * rng.normal(size=(n, d)) @ root + 0.05
    coef = np.resize(COEF, d)
    if not n_classes:
        return X, X @ coef + 0.2 + 0.3 * rng.normal(size=n), coef
    if n_classes == 2:
        return X, (4.0 * X @ coef - 0.4 + rng.logistic(size=n) > 0.0).astype(int), 4.0 * coef
    coef = 4.0 * np.array([coef, coef[::-1], -coef - coef[::-1]])
    return X, (X @ coef.T + rng.gumbel(size=(n, 3))).argmax(axis=1), coef


def fitted(n_classes, X, y, **given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model(n_classes, **given).fit(X, y)


def least_number(model):
    """Which number of records of 20 features a refused plan asks for."""
    with pytest.raises(ValueError, match=r"at least \d+ records") as refused:
        plan_fit(model, 100, 20)
    return int(re.search(r"at least (\d+)", str(refused.value)).group(1))


@pytest.mark.parametrize(
    ("n_classes", "epsilon", "n_tables"),
    [(0, 100.0, 40), (2, 3.0, 40), pytest.param(3, 3.0, 50, marks=pytest.mark.slow)],
)
def test_intervals_cover_the_coefficients_of_the_population(n_classes, epsilon, n_tables):
    """With little noise, deviations are those of the sample."""
    covered = []
    for seed in range(n_tables):
        X, y, coef = table(n_classes, seed)
        found = fitted(n_classes, X, y, epsilon=epsilon, random_state=seed).coef_interval(0.9)
        covered.append(
            np.abs(found.estimate - coef.reshape(found.low.shape)) <= found.high - found.estimate
        )
    assert abs(np.mean(covered) - 0.9) < 3.0 * 0.3 / np.sqrt(n_tables * D)
    assert np.mean(covered, axis=0).min() > 0.9 - 4.0 * 0.3 / np.sqrt(n_tables)


def test_stated_noise_is_that_of_fits_on_the_same_records():
    X, y, _ = table(0, 0)
    found = [fitted(0, X, y, random_state=seed).coef_interval() for seed in range(40)]
    stated = np.sqrt(np.mean([each.noise_std**2 for each in found], axis=0))
    ratio = stated / np.std([each.estimate for each in found], axis=0)
    assert 0.8 < np.median(ratio) < 1.25


def test_what_the_noise_hides_has_no_ends():
    root = np.random.default_rng(1).normal(size=(20, 20)) / 6.0
    X, y, _ = table(0, 0, 10000, root)
    found = fitted(0, X, y, epsilon=1.0).coef_interval()
    assert np.isinf(found.low).mean() > 0.9 and np.isfinite(found.estimate).all()
    np.testing.assert_array_equal(np.isinf(found.low), np.isinf(found.high))


def test_a_fit_warns_if_noise_hides_most_coefficients():
    """Here of features of a tenth of the first one's length."""
    X, y, _ = table(2, 0, 5000, np.diag([1.0, 0.1, 0.1, 0.1, 0.1]))
    with pytest.warns(UserWarning, match="The noise hides 60% of the coefficients"):
        hidden = model(2, 1.0).fit(X, y)
    assert np.isinf(hidden.coef_interval().low).sum() == 3
    assert "hides 60%" in hidden.privacy_.remarks[-1]
    shown = fitted(2, X, y, epsilon=30.0)
    assert np.isfinite(shown.coef_interval().low).all()
    assert "hides" not in str(shown.privacy_.remarks)


def test_frames_name_features_and_classes():
    pd = pytest.importorskip("pandas")
    columns = ["estimate", "noise_std", "sampling_std", "low", "high"]
    X, y, _ = table(0, 0)
    names = list("abcde")
    frame = fitted(0, pd.DataFrame(X, columns=names), y).coef_interval().to_frame()
    assert list(frame.columns) == columns and list(frame.index) == names
    X, y, _ = table(3, 0)
    found = fitted(3, X, y).coef_interval(0.5)
    frame = found.to_frame()
    assert found.level == 0.5 and found.low.shape == (3, D)
    assert list(frame.index[:2]) == [(0, "x0"), (0, "x1")] and len(frame) == 3 * D
    np.testing.assert_allclose(found.estimate.sum(axis=0), 0.0, atol=1e-9)
    wider = fitted(3, X, y).coef_interval(0.9)
    assert (wider.low < found.low).all() and (wider.high > found.high).all()


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"neighbouring": "add_remove"}, "add_remove"),
        ({"alpha": 0.1}, "alpha=0.1"),
        ({"delta": 0.0}, "delta=0"),
        ({"method": "output"}, "method='output'"),
        ({"method": "output_perturbation"}, "method='output_perturbation'"),
        ({"solver": "lbfgs"}, "solver"),
        ({"fit_intercept": False}, "fit_intercept"),
        ({"user_ids": np.arange(300) // 2}, "user_ids"),
        ({"sample_weight": np.full(300, 0.5), "weight_bound": 1.0}, "sample_weight"),
        ({"intervals": 1}, "intervals"),
    ],
)
def test_what_is_not_covered_is_refused_by_name(given, named):
    X, y, _ = table(0, 0, 300)
    of_fit = {name: given[name] for name in ("user_ids", "sample_weight") if name in given}
    given = {name: value for name, value in given.items() if name not in of_fit}
    with pytest.raises((ValueError, TypeError), match=re.escape(named)):
        model(0, **given).fit(X, y, **of_fit)


def test_the_least_number_of_records_of_several_classes():
    """Noise that is symmetric in outputs and in columns: with 2 k for k + 1 it would be larger."""
    found = {n_classes: least_number(model(n_classes, 1.0)) for n_classes in (2, 3, 10)}
    for n_classes in (3, 10):
        k, width = n_classes - 1.0, 21
        hidden = 2.0 / np.sqrt([(k + 1.0) * width, 2.0 * width])
        # deviations of Lemma 7, norms, mean curvatures and what is hidden, over those of k = 1
        expected = np.sqrt((4.0 + 4.5) / (2.0 + 4.5 + 2.0 / 9.0)) * np.sqrt((k + 1.0) / 2.0)
        expected *= (k + 1.0) / 2.0 * (1.0 + hidden[0]) / (1.0 + hidden[1])
        assert found[n_classes] / found[2] == pytest.approx(expected, rel=0.01)


def test_the_least_number_of_records_is_named_and_is_enough():
    least = least_number(model(2, epsilon=0.5))
    plan = plan_fit(model(2, epsilon=0.5), least, 20)
    assert "score and curvature" in [each.release.name for each in plan.releases]
    with pytest.raises(ValueError, match="at least"):
        plan_fit(model(2, epsilon=0.5), least - 1, 20)
    for n_classes, d in ((2, 500), (10, 120)):
        with pytest.raises(ValueError, match="at most 500 coefficients"):
            plan_fit(model(n_classes), 10**9, d)


def test_with_twice_the_least_number_rows_without_a_direction_have_ends():
    """With that number, 12 % of them; with half of it, none."""
    least = least_number(model(2, epsilon=1.0))
    X, y, _ = table(2, 0, 2 * least, 0.5 * np.eye(20))
    found = fitted(2, X, y, epsilon=1.0).coef_interval()
    assert np.isfinite(found.low).mean() > 0.5


def test_a_fit_without_intervals_and_a_level_that_is_none_are_refused():
    X, y, _ = table(0, 0, 300)
    with pytest.raises(ValueError, match="intervals=True"):
        fitted(0, X, y, intervals=False).coef_interval()
    ready = fitted(0, *table(0, 0)[:2])
    for level in (0.0, 1.0, 1.5):
        with pytest.raises(ValueError, match="level"):
            ready.coef_interval(level)


def test_what_is_hidden_does_not_spread_to_others():
    """Unless they visibly go with it; what levels have in common is no part of the step."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(6, 6))
    curvature = np.diag([1.0, 0.0, 1.0, 1.0, 1.0, 1.0]) + 0.1 * (noise + noise.T) / 2.0
    curvature[2:5, 2:5] -= curvature[2:5, 2:5].mean()  # three levels that add up to 1
    step = Newton(
        weights=np.zeros((1, 6)), score=rng.normal(size=(1, 6)), curvature=curvature,
        squares=np.eye(6), errors=(0.1, 0.1, 0.1), n_records=100, unit=1.0, mix=np.eye(1),
    )  # fmt: skip
    along = np.vstack([np.eye(5)[:3], [0.0, 0.0, 2.0, -1.0, -1.0]])
    found = apart(step, ((2, 3, 4),)).debiased(along)
    assert found[3].tolist() == [[False, True, True, False]]
    without = np.delete(np.delete(curvature, 1, 0), 1, 1)
    narrow = replace(step, weights=np.zeros((1, 5)), score=np.delete(step.score, 1, 1),
                     curvature=without, squares=np.eye(5))  # fmt: skip
    alone = apart(narrow, ((1, 2, 3),)).debiased()
    np.testing.assert_allclose(found[0][0, 0], alone[0][0, 0])
    np.testing.assert_allclose(found[1][0, 0], alone[1][0, 0], rtol=0.2)
    for own in (0.0, 1.0):  # of a feature that goes with the first one, hidden itself or not
        curvature[0, 1] = curvature[1, 0] = 0.5 + 0.5 * own
        curvature[1, 1] = own
        found = apart(replace(step), ((2, 3, 4),)).debiased(along)
        assert found[3].tolist() == [[True, True, True, False]]


def of_curvature(curvature, k=1, noise=0.01):
    n = len(curvature)
    return Newton(
        weights=np.zeros((k, n // k)), score=np.ones((k, n // k)), curvature=curvature,
        squares=np.eye(n), errors=(noise,) * 3, n_records=100, unit=1.0, mix=np.eye(k),
    )  # fmt: skip


def test_a_direction_of_most_coefficients_stays_in_the_step():
    """It would be one of noise in all of them."""
    curvature = np.eye(4)
    curvature[:3, :3] -= 1.0 / 3.0
    step = of_curvature(curvature)
    np.testing.assert_array_equal(apart(step).curvature, curvature)
    assert apart(step).debiased()[3].all()


def test_entries_of_several_classes_have_less_noise():
    """Of two outputs they are an eighth of it in the mean, of one a half."""
    curvature = np.eye(8)
    curvature[0, 0] = 0.0
    for square, is_left in ((0.9, True), (1.1, False)):  # of the largest that noise would make
        entry = np.sqrt(square * 0.375 * 0.01 * (7.0 + 3.0 * np.sqrt(14.0)) / 7.0)
        curvature[0, 1:] = curvature[1:, 0] = entry
        step = of_curvature(curvature, 2, 0.1)
        assert (apart(step).curvature[0, 1:] == 0.0).all() == is_left


def test_what_hides_a_coefficient_most_is_found_first():
    """By what is lost of its curvature: two features that go together, and one of more units."""
    curvature = np.diag([0.05, 0.05, 4.0, 1.0])
    curvature[0, 1] = curvature[1, 0] = -0.05
    curvature[0, 2] = curvature[2, 0] = 0.06
    curvature[1, 2] = curvature[2, 1] = -0.06
    curvature[:2, 3] = curvature[3, :2] = 0.01  # of noise
    assert np.abs(apart(of_curvature(curvature)).curvature[:2].sum(axis=0)).max() < 1e-9
