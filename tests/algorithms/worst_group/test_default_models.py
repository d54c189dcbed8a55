"""Models of the core for the worst group: better than plain ones, and minimax with little noise."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import log_loss

from skdp import DPLogisticRegression, DPRidge
from skdp.robust import DPMaxGroupLossClassifier, DPMaxGroupLossRegressor

SHARED = {"data_norm": 1.0, "random_state": 0}
#: Models of the worst group, plain ones, what they are told, and losses of the group of few records
#: that the first are below and the others above.
KINDS = {
    "classes": (
        DPMaxGroupLossClassifier, DPLogisticRegression, {"classes": [0, 1], **SHARED}, (0.65, 1.2),
    ),
    "numbers": (
        DPMaxGroupLossRegressor, DPRidge, {"target_range": (-1, 1), **SHARED}, (0.1, 0.2),
    ),
}  # fmt: skip


def conflicting(kind, n):
    """One record of ten has labels or targets of its own."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 6))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    is_few = rng.random(n) < 0.1
    groups = np.where(is_few, "few", "most")
    if kind == "classes":
        margins = np.where(is_few, 12.0 * X[:, 1], 12.0 * X[:, 0] - 4.0 * X[:, 1])
        return X, (rng.random(n) < expit(margins)).astype(int), groups
    y = np.where(is_few, X[:, 1] + 0.3, X[:, 0] - 0.3 * X[:, 1])
    return X, np.clip(y + 0.1 * rng.normal(size=n), -1, 1), groups


def fit(kind, epsilon, data, **options):
    X, y, groups = data
    model, _, declared, _ = KINDS[kind]
    given = {"group_names": ["few", "most"], **declared, **options}
    return model(epsilon, **given).fit(X, y, groups=groups)


@pytest.mark.parametrize(
    "options", [{}, {"neighbouring": "add_remove"}, {"group_proportions": "public"}]
)
@pytest.mark.parametrize("kind", KINDS)
def test_the_worst_group_is_better_off_by_default(kind, options):
    """By half of the loss of a plain model; far from any chance."""
    _, plain, declared, (better, worse) = KINDS[kind]
    X, y, groups = data = conflicting(kind, 10_000)
    model = fit(kind, 1.0, data, **options)
    assert model.privacy_.method == "gradient"
    assert max(model.group_losses(X, y, groups).values()) < better
    few, usual = groups == "few", plain(**declared).fit(X, y)
    if kind == "classes":
        assert log_loss(y[few], usual.predict_proba(X[few])) > worse
    else:
        assert 0.5 * ((usual.predict(X) - y)[few] ** 2).mean() > worse


def test_with_little_noise_it_is_the_minimax_model():
    """Of classes the largest loss in the sample is at least 0.5577, by duality."""
    data = conflicting("classes", 5000)
    losses = np.array(list(fit("classes", 50.0, data).group_losses(*data).values()))
    assert 0.5576 < losses.max() < 0.57 and np.ptp(losses) < 0.02
    X, y, groups = data = conflicting("numbers", 5000)
    losses = np.array(list(fit("numbers", 100.0, data).group_losses(*data).values()))
    A = np.column_stack([X, np.ones(len(X))])
    bound, few = 0.0, groups == "few"
    for q in np.linspace(0.4, 0.6, 21):  # the least weighted loss: a bound, by duality
        weight = np.where(few, q / few.sum(), (1.0 - q) / (~few).sum())
        w = np.linalg.lstsq(A * np.sqrt(weight)[:, None], y * np.sqrt(weight), rcond=None)[0]
        bound = max(bound, float(weight @ (0.5 * (A @ w - y) ** 2)))
    assert bound <= losses.max() < 1.02 * bound


@pytest.mark.filterwarnings("ignore")  # of a method that is worse
@pytest.mark.parametrize(
    ("kind", "wish", "method"),
    [
        ("classes", {"solver": "extragradient"}, "phased"),
        ("classes", {"delta": 0.0}, "phased"),
        ("classes", {"alpha": 0.1}, "gradient"),
        ("classes", {"loss": "hinge"}, "output"),
        ("classes", {"loss": "hinge", "method": "gradient"}, "gradient"),
        ("numbers", {"loss": "absolute_error"}, "phased"),
        *(
            ("numbers", {"loss": loss, "method": "gradient"}, "gradient")
            for loss in ("huber", "absolute_error", "quantile")
        ),
    ],
)
def test_explicit_wishes_and_losses_without_a_default(kind, wish, method):
    model = fit(kind, 1.0, conflicting(kind, 300), **wish)
    assert model.privacy_.method == method and np.isfinite(model.coef_).all()


def test_groups_that_nobody_is_in_and_hinges_of_three_classes():
    names = {"group_names": ["few", "most", "none"]}
    data = conflicting("classes", 300)
    model = fit("classes", 50.0, data, group_proportions="public", **names)
    assert model.privacy_.method == "gradient" and np.isfinite(model.coef_).all()
    X, y, groups = conflicting("numbers", 300)
    labels = np.digitize(y, [-0.3, 0.3])
    model = fit(
        "classes", 30.0, (X, labels, groups), classes=range(3), loss="squared_hinge",
        method="gradient",
    )  # fmt: skip
    assert model.score(X, labels) > 0.4  # one against the rest does not find a middle class
