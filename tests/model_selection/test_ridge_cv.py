"""DPRidgeCV on released moments: groups, bounds, units, quality."""

import math

import numpy as np
import pytest

from skdp.linear_model import DPRidge
from skdp.methods import Bilevel
from skdp.model_selection import DPRidgeCV


def planted(n, d=20, seed=0):
    """Rows of norm at most 1, targets of [-1, 1]; returns also the noiseless targets."""
    rng = np.random.default_rng(seed)
    direction = np.random.default_rng(99).normal(size=d)
    direction /= np.linalg.norm(direction)
    X = rng.normal(size=(n, d)) / math.sqrt(d)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    clean = 1.5 * X @ direction
    return X, np.clip(clean + 0.3 * rng.normal(size=n), -1.0, 1.0), clean


def ridge(epsilon=1.0, **parameters):
    return DPRidgeCV(epsilon, method="statistics", **parameters)


def excess(model, X, clean):
    return float(np.mean((model.predict(X) - clean) ** 2))


# -------------------------------------------------------------------------------------- parameters


def test_groups_are_labels():
    """Sorted labels of any kind number the alphas; the last one is the intercept's."""
    X, y, _ = planted(400, 4)
    by_name = ridge(penalty_groups=["b", "a", "a", "b"], random_state=0).fit(X, y)
    by_number = ridge(penalty_groups=[7, 3, 3, 7], random_state=0).fit(X, y)
    np.testing.assert_array_equal(by_name.coef_, by_number.coef_)
    assert by_name.alpha_.shape == (3,)
    assert by_name.alpha_path_.shape[1] == 3
    swapped = ridge(penalty_groups=["a", "b", "b", "a"], random_state=0).fit(X, y)
    np.testing.assert_allclose(swapped.alpha_[[1, 0, 2]], by_name.alpha_, rtol=1e-3)
    centred = {"fit_intercept": False, "random_state": 0}
    one = ridge(penalty_groups=[0, 0, 0, 0], **centred).fit(X, y)
    plain = ridge(**centred).fit(X, y)
    assert one.alpha_.shape == (1,) and isinstance(plain.alpha_, float)
    np.testing.assert_array_equal(one.coef_, plain.coef_)
    assert plain.alpha_path_.ndim == 1 and plain.alpha_path_[-1] == plain.alpha_
    assert by_name.privacy_.plan["n_penalty_groups"] == 3


def test_order_of_columns_does_not_matter_beside_groups():
    """The intercept is in the group of no feature."""
    X, y, _ = planted(400, 3)
    X[:, 1:] = 0.0  # the noise of columns is not permuted with them: let it not matter
    order, exact = [2, 0, 1], {"epsilon": 1e9, "random_state": 0}
    model = ridge(penalty_groups=[0, 1, 1], **exact).fit(X, y)
    other = ridge(penalty_groups=[1, 0, 1], **exact).fit(X[:, order], y)
    np.testing.assert_allclose(other.coef_, model.coef_[order], rtol=1e-4, atol=1e-9)
    np.testing.assert_allclose(other.alpha_[[0, 2]], model.alpha_[[0, 2]], rtol=0.1)


def test_bounds_of_alpha():
    X, y, _ = planted(200, 3)
    for bounds in ((1e-4, 2e-4), (5.0, 6.0)):
        model = ridge(alpha_bounds=bounds, random_state=0).fit(X, y)
        assert bounds[0] <= model.alpha_path_.min()
        assert model.alpha_path_.max() <= bounds[1]
        assert model.privacy_.plan["alpha_bounds"] == list(bounds)
    model = ridge(data_norm=10.0).fit(X, y)
    np.testing.assert_allclose(model.privacy_.plan["alpha_bounds"], [1e-4, 1e8])
    model = DPRidgeCV(data_norm=10.0, method=Bilevel(as_published=True)).fit(X, y)
    np.testing.assert_allclose(model.privacy_.plan["alpha_bounds"], [1e-4, 1e3])


def test_nothing_but_noise_gives_a_constant_model():
    X, y, _ = planted(50, 3)
    model = ridge(epsilon=1e-3, random_state=0).fit(X, y)
    assert model.alpha_ > 10 and np.abs(model.coef_).max() < 0.2


# ----------------------------------------------------------------------------------------- quality


def test_better_than_a_public_rule():
    """epsilon = 1, n = 30,000, d = 20: better than a public penalty, nearly as without privacy."""
    X, y, _ = planted(30_000)
    X_test, _, clean = planted(5_000, seed=1)
    tuned, fixed = [], []
    for seed in range(3):
        tuned.append(excess(ridge(random_state=seed).fit(X, y), X_test, clean))
        printed = DPRidge(method="output_perturbation", random_state=seed)
        fixed.append(excess(printed.fit(X, y), X_test, clean))
    zero = float(np.mean(clean**2))
    assert max(tuned) < 0.1 * min(fixed)
    assert max(tuned) < 0.02 * zero


@pytest.mark.slow
def test_not_much_worse_than_the_zero_model():
    """Noise that drowns the signal is recognised: epsilon = 0.1, 1,000 records.

    On average over 100 seeds the loss is 1.2 to 1.3 times that of the zero model, at worst 4 times.
    """
    X, y, _ = planted(1_000)
    X_test, _, clean = planted(5_000, seed=1)
    zero = float(np.mean(clean**2))
    models = [ridge(0.1, random_state=seed).fit(X, y) for seed in range(20)]
    assert np.mean([excess(model, X_test, clean) for model in models]) < 1.6 * zero


def test_groups_help_when_features_differ():
    """Ten features matter and sixty do not: a alpha for each kind is better than one."""
    rng = np.random.default_rng(0)
    d = 70
    X = rng.normal(size=(20_000, d)) / math.sqrt(d)
    w = np.where(np.arange(d) < 10, 2.0, 0.0)
    clean = X @ w
    y = clean + 0.1 * rng.normal(size=len(X))
    kinds = (np.arange(d) >= 10).astype(int)
    common = {"data_norm": 1.3, "target_range": (-2.0, 2.0)}
    for seed in range(1):
        one = ridge(random_state=seed, **common).fit(X, y)
        two = ridge(penalty_groups=kinds, random_state=seed, **common).fit(X, y)
        assert two.alpha_[1] > 3.0 * two.alpha_[0]
        assert excess(two, X, clean) < 0.8 * excess(one, X, clean)


def test_groups_do_not_drop_the_intercept():
    """Its alpha is the best one for all coefficients together: none for it alone is searched."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9000, 8)) / math.sqrt(8)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    y = np.clip(X[:, 0] + 0.1 * rng.normal(size=9000), -1, 1)
    shared = {"target_range": (-1, 1), "data_norm": 1.0, "random_state": 0}
    model = ridge(1.0, penalty_groups=["a"] * 4 + ["b"] * 4, **shared).fit(X, y)
    plain = ridge(1.0, **shared).fit(X, y)
    assert model.alpha_[-1] == plain.alpha_ < 1.0
