"""The estimators for the worst group: quality and minimax value."""

import numpy as np
import pytest
from group_models import GROUPS, MODES, NAMES, X, Y, classifier, conflicting, every_model, regressor

from skdp import DPLogisticRegression, DPRidge
from skdp.problems import GroupWeights, HalfSquaredLoss, LogisticLoss, MaxGroupLossProblem, Records
from skdp.solvers import solve_certified


def worst_accuracy(model, data):
    features, y, groups = data
    right = model.predict(features) == y
    return min(right[groups == name].mean() for name in NAMES)


def known(mode):
    """The proportions that are declared."""
    return {"group_proportions": {"most": 0.85, "few": 0.15}} if mode == "declared" else {}


@pytest.mark.slow
def test_worst_group_does_better_than_without_groups():
    """At epsilon = 1: on fresh records, each of two fits beats every plain one, by far."""
    train, test = conflicting(50_000, 1), conflicting(50_000, 2)
    features, y, groups = train
    plain = [
        worst_accuracy(
            DPLogisticRegression(classes=[0, 1], random_state=seed).fit(features, y), test
        )
        for seed in range(2)
    ]
    for mode in MODES:
        fits = [classifier(mode=mode, random_state=seed, **known(mode)) for seed in range(2)]
        robust = [worst_accuracy(fitted.fit(features, y, groups=groups), test) for fitted in fits]
        assert min(robust) > 0.69 > max(plain) + 0.05
        spread = max(np.ptp(plain), np.ptp(robust))
        assert min(robust) - max(plain) > 2 * spread


@pytest.mark.slow
def test_worst_group_of_a_regression_does_better():
    """Mean squared error of the worse group on fresh records, two fits against two plain ones."""
    rng = np.random.default_rng(7)
    data = []
    for seed in (1, 2):
        features, _, groups = conflicting(20_000, seed)
        target = np.where(groups == "few", features[:, 1], features[:, 0])
        data.append((features, target + 0.1 * rng.normal(size=len(target)), groups))
    (features, target, groups), test = data

    def worst_error(model):
        error = (model.predict(test[0]) - test[1]) ** 2
        return max(error[test[2] == name].mean() for name in NAMES)

    plain = [worst_error(DPRidge(random_state=seed).fit(features, target)) for seed in range(2)]
    for mode in MODES:
        given = {"target_range": (-1, 1), **known(mode)}
        fits = [regressor(mode=mode, random_state=seed, **given) for seed in range(2)]
        robust = [worst_error(fitted.fit(features, target, groups=groups)) for fitted in fits]
        spread = max(np.ptp(plain), np.ptp(robust))
        assert max(robust) < min(plain) - 2 * spread


@every_model
def test_minimax_value_at_a_large_budget(model):
    """The largest loss of a group comes within 3 % of the least possible one."""
    features, y, groups = conflicting(4000, 3, d=4)
    fitted = model(1e4, mode="public", own={"coef_norm": 3.0}, fit_intercept=False)
    fitted.fit(features, y, groups=groups)
    shares = 1.0 / np.array(fitted.privacy_.plan["largest_group_weights"])
    problem = MaxGroupLossProblem(
        Records(features, 1.0, targets=y + 0.0, groups=(groups == fitted.group_names_[1]) + 0),
        LogisticLoss() if model is classifier else HalfSquaredLoss(2.0),
        GroupWeights.of_proportions(shares, 10.0),
        3.0,
        1e-4,
        1e-5,
    )
    best = solve_certified(problem, 1e-3)
    least = problem.group_losses(best.x) / shares
    assert np.ptp(least) < 0.01 * least.max()  # both groups bind: the conflict is real
    losses = problem.group_losses(np.ravel(fitted.coef_)) / shares
    lower = float(problem.value(best.x, best.y)) - 0.5 * 1e-4 * 9.0
    assert lower * (1 - 1e-3) <= losses.max() <= 1.03 * least.max()


@pytest.mark.parametrize(("model", "mode"), [(classifier, "public"), (regressor, "declared")])
def test_group_weights(model, mode):
    """On the simplex, only if asked for, and larger for the group that is harder to please."""
    features, y, groups = conflicting(5_000, 3, d=4)
    rng = np.random.default_rng(0)
    y = np.where(groups == "few", rng.integers(0, 2, len(y)), features[:, 0] > 0)  # pure chance
    own = {"release_group_weights": True, "coef_norm": 2.0}
    fitted = model(1000.0, mode=mode, own=own).fit(features, y, groups=groups)
    noisy = model(0.01, mode=mode, own=own, group_names=["a", *NAMES]).fit(X, Y, groups=GROUPS)
    for each, size in ((fitted, 2), (noisy, 3)):
        assert each.group_weights_.shape == (size,) and (each.group_weights_ >= 0).all()
        assert each.group_weights_.sum() == pytest.approx(1.0, abs=1e-12)
    if mode == "public":  # declared equal ones make the minority light
        assert fitted.group_weights_[1] > 0.6
