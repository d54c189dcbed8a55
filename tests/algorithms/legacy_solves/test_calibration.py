"""The constant of log odds, and averages of solves whose directions of outputs differ."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from skdp import DPLogisticRegression
from skdp.algorithms.core.constant_model import ConstantModel
from skdp.algorithms.legacy_solves.prepared_records import AffineMap, ClippedSlopes
from skdp.algorithms.legacy_solves.rules import LONG_ROW, largest_residual
from skdp.algorithms.legacy_solves.undo import Average, Curvature
from skdp.problems import LogisticLoss, Records, SoftmaxLoss
from skdp.problems.slope_clipped import clipped


def test_mean_probabilities_are_those_of_the_constant_model():
    """Against 200,000 draws, whose mean is off by 0.001 (bound: 5 of these, and of the nodes)."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((200_000, 2))
    constant = ConstantModel(LogisticLoss(), np.array([-3.0]))
    offsets, curvature = constant.offsets(np.array([[9.0]]), np.array([0.0]))
    p = expit(offsets[0] + 3.0 * z[:, 0])
    assert p.mean() == pytest.approx(expit(-3.0), abs=0.005)
    assert curvature[0, 0] == pytest.approx((p * (1.0 - p)).mean(), abs=0.005)
    loss, start, root = SoftmaxLoss(3), np.array([0.5, -0.3]), np.array([[3.0, 0.0], [0.5, 0.2]])
    offsets, _ = ConstantModel(loss, start).offsets(root @ root.T, start)
    mean = loss.probabilities(offsets + z @ root.T).mean(axis=0)
    assert mean == pytest.approx(loss.probabilities(start[None])[0], abs=0.01)
    assert np.abs(offsets - start).max() > 0.3


@pytest.mark.parametrize("power", [0, 2])
def test_the_noise_of_an_average(power):
    """Against 4,000 draws, whose variances are off by 2 % (bound: 5 of these)."""
    rng = np.random.default_rng(1)
    shapes = [
        Curvature(
            moments=np.array([1.0, 0.5]),
            directions=np.eye(2),
            shares=np.array([0.1, 0.3]),
            outputs=np.linalg.qr(rng.standard_normal((2, 2)))[0],
            constant=0.5,
        )
        for _ in range(3)
    ]
    deviations, found = rng.uniform(0.5, 2.0, (3, 2, 3)), []
    for _ in range(4000):
        average = Average((2, 3))
        for k, shape in enumerate(shapes):
            noise = shape.rotated_back(deviations[k] * rng.standard_normal((2, 3)))
            average.add(1.0 + noise, deviations[k], shape, (k + 1.0) ** power)
        mean, variances = average.at(shapes[-1])
        found.append(shapes[-1].rotated_back(mean) - 1.0)
    turned = np.array([shapes[-1].rotated(each) for each in found])
    assert turned.var(axis=0) == pytest.approx(variances, rel=0.1)
    assert np.abs(np.mean(found, axis=0)).max() < 5.0 * np.sqrt(variances.max() / 4000)


def ordered(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True) / 3.0)
    z = X @ np.array([1.0, -0.5, 0.5, 0.25, -1.0])
    z = z / z.std() + 0.3 * rng.standard_normal(n)
    return X, np.digitize(z, np.quantile(z, [0.25, 0.5, 0.75]))


def test_ordered_classes_need_constants_of_their_own():
    """Middle classes have smaller margins than others of the same size."""
    X, y = ordered(16_000)
    shared = {"data_norm": 3.0, "classes": [0, 1, 2, 3], "random_state": 0}
    scores = [
        DPLogisticRegression(3.0, 1e-5, **shared, **each).fit(X[:8000], y[:8000]).score(X, y)
        for each in ({"solver": "lbfgs"}, {"method": "gradient"})
    ]
    assert scores[0] > scores[1] - 0.01


def test_steps_follow_the_curvature():
    """Of large margins it is small; with that of a constant model the loss is 0.03 higher."""
    X, y = ordered(16_000)
    shared = {"data_norm": 3.0, "classes": [0, 1, 2, 3], "random_state": 0}
    model = DPLogisticRegression(1000.0, 1e-5, solver="lbfgs", **shared).fit(X[:8000], y[:8000])
    public = LogisticRegression(C=1e6).fit(X[:8000], y[:8000])
    losses = [log_loss(y[8000:], each.predict_proba(X[8000:])) for each in (model, public)]
    assert losses[0] < losses[1] + 0.025


def with_rare_category(n, share, seed):
    """Rows with an indicator of a category whose odds are e^-1.5 times those of the others."""
    rng = np.random.default_rng(seed)
    rare = rng.random(n) < share
    X = np.column_stack([rng.uniform(-0.5, 0.5, (n, 2)), 0.7 * rare])
    return X, (rng.random(n) < expit(X[:, 0] - 1.5 * rare)).astype(int), rare


def test_the_odds_of_a_rare_category_are_not_those_of_clipped_slopes():
    """100 of 20,000 records, 0.18 of them positive; of clipped slopes or short rows below 0.09."""
    found = []
    for seed in range(4):
        X, y, rare = with_rare_category(20_000, 0.005, seed)
        model = DPLogisticRegression(10.0, 1e-5, classes=[0, 1], random_state=seed, solver="lbfgs")
        found.append(model.fit(X, y).predict_proba(X[rare])[:, 1].mean() - y[rare].mean())
    assert abs(np.mean(found)) < 0.07


def test_nothing_is_learnt_of_columns_without_records():
    largest = []
    for seed in range(4):
        X, y, _ = with_rare_category(4000, 0.0, seed)
        X = np.column_stack([X, np.zeros((len(X), 3))])
        model = DPLogisticRegression(1.0, 1e-5, classes=[0, 1], random_state=seed, solver="lbfgs")
        largest.append(np.abs(model.fit(X, y).coef_[0, 2:]).max())
    assert np.mean(largest) < 2.5  # 6 to 9 with the whole noise


@pytest.mark.parametrize("loss", [LogisticLoss(), SoftmaxLoss(4)], ids=repr)
@pytest.mark.parametrize("clip", [0.1, 1.0])
def test_gradients_of_long_rows_are_short_and_their_slopes_whole(loss, clip):
    """Lemma A with factors, at 20 points: no gradient is longer than c, and some are as long."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((400, 3)) * np.geomspace(0.1, 30.0, 400)[:, None]
    targets = rng.integers(loss.n_outputs + 1 if loss.n_outputs > 1 else 2, size=400)
    whole = AffineMap.of(np.eye(3), np.zeros(3), 1.0, 1.0, 0.5)
    affine = replace(whole, raw_norm=200.0, largest_norm=400.0)
    steepest = largest_residual(loss)
    view = ClippedSlopes(affine=affine, clip=clip, steepest=steepest)
    rows = view(Records(X, 200.0, 1.0, targets=targets))
    made = clipped(loss, np.zeros(loss.n_outputs), clip).with_factors()
    longest, norms = 0.0, np.linalg.norm(np.column_stack([X, np.full(400, 0.5)]), axis=1)
    for scale in np.geomspace(0.01, 100.0, 20):
        margins = scale * rng.standard_normal((400, loss.n_outputs))
        slopes = made.derivative(margins.squeeze(), rows.targets).reshape(400, -1)
        longest = max(longest, float((np.linalg.norm(slopes, axis=1) * norms).max()))
        plain = loss.derivative(margins.squeeze(), targets).reshape(400, -1)
        is_long = norms > LONG_ROW**2 * steepest / clip
        expected = plain * rows.targets[:, 2:]
        np.testing.assert_allclose(slopes[is_long], expected[is_long], atol=1e-9)
    assert is_long.any() and 0.99 * clip < longest <= clip
