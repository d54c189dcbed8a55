"""Bilevel optimisation: the law of the outer noise, and sampling."""

import dataclasses
import math

import numpy as np
import pytest
from bilevel_leak import BUDGET, Leak, Mixed, Replay, one_step
from plain_noise import seeded
from scipy import stats

from skdp.algorithms import OutputPerturbation, plan_bilevel
from skdp.privacy.composition import tightest_epsilon
from skdp.privacy.events import GaussianEvent, PoissonSampledSumEvent
from skdp.privacy.gaussian_dp import gaussian_delta, gaussian_mu
from skdp.problems import DeclaredProblem, WholeSpace


class Watched(Mixed):
    """Remembers batches; all that one record adds has the length of its bound."""

    domain_y = WholeSpace()

    def lower_difference_x(self, x, y, y_lam, batch=None):
        self.batches.append(batch)
        return super().lower_difference_x(x, y, y_lam, batch)


def test_law_of_the_sampled_outer_release():
    """Algorithm 3: mean over the *expected* size of a batch, noise of ``2 b / rate``.

    800 steps. Sizes of batches, what is not the batch, and the mean of the releases: each of four
    comparisons within 5 standard errors, a test of normality at 1e-6: 4e-6 in all.
    """
    n, rate, lam, outer, runs = 30, 0.2, 7.0, 0.5, 800
    weights = np.random.default_rng(0).choice([1.0, 0.5], n)
    problem = Watched(np.zeros((n, 2)), weights[:, None, None] * np.eye(2))
    problem.batches = []
    plan = plan_bilevel(problem, BUDGET, penalty=lam, n_steps=1)
    plan = dataclasses.replace(plan, outer_multiplier=outer, outer_sampling_rate=rate)
    inner = Replay([np.zeros(2), np.array([1.0, 0.0])] * runs)
    rng, source = np.random.default_rng(0), seeded(1)
    outs = np.array(
        [one_step(problem, np.zeros(2), lam, inner, plan, rng, source)[1] for _ in range(runs)]
    )
    assert all((np.diff(batch) > 0).all() for batch in problem.batches)  # no record twice: K8
    sizes = np.array([len(batch) for batch in problem.batches])
    assert abs(sizes.mean() - n * rate) < 5 * math.sqrt(n * rate * (1 - rate) / runs)
    assert sizes.var() == pytest.approx(n * rate * (1 - rate), rel=5 * math.sqrt(2.2 / runs))
    known = np.array([lam * weights[batch].sum() / n / rate for batch in problem.batches])
    rest = np.column_stack([outs[:, 0] - known, outs[:, 1]])
    scale = outer * 2.0 * (lam / n) / rate  # one record adds at most lam * distance / n
    assert np.std(rest) == pytest.approx(scale, rel=5 / math.sqrt(4 * runs))
    assert stats.kstest(rest.ravel() / scale, "norm").pvalue > 1e-6
    spread = outs[:, 0].std() / math.sqrt(runs)
    assert abs(outs[:, 0].mean() - lam * weights.mean()) < 5 * spread


class Concave(Leak):
    """``f = -y^2``, ``g = (y - mean)^2 / 2``: L1f = 2, L1g = mu_g = 1."""

    def _problem(self, u, x):
        def f(y):
            return 0.5 * float((y - self.mean) @ (y - self.mean)) - u * float(y @ y), (
                y - self.mean - 2 * u * y
            )

        return DeclaredProblem(
            f, dimension=1, lipschitz=3.0 + 4.0 * u, smoothness=1.0,
            strong_convexity=1.0 - 2.0 * u, radius=2.0,
            n_records=self.n_train, mean_of_records=True,
        )  # fmt: skip


def test_condition_on_the_penalty():
    """Erratum K6: the printed condition is lam >= 2 L1g / mu_g = 2, where g + f / lam is linear."""
    problem, x = Concave(np.full((10**6, 1), 0.5)), np.zeros(1)
    with pytest.raises(ValueError, match="strong"):
        plan_bilevel(problem, BUDGET, penalty=2.0, n_steps=1)
    plan = plan_bilevel(problem, BUDGET, penalty=4.0, n_steps=1)
    assert problem.penalised(x, 4.0).strong_convexity == 0.5
    inner, rng = OutputPerturbation(), np.random.default_rng(0)
    y, gradient, _ = one_step(problem, x, 4.0, inner, plan, rng, seeded(0))
    assert y[0] == pytest.approx(0.5, abs=1e-2)
    assert gradient[0] == pytest.approx(1.0, abs=1e-2)  # x + y_lam, y_lam = 2 mean


def test_sampling_with_replacement_is_not_amplified_as_printed():
    """Erratum K8: a record that is drawn k times moves the Gaussian by k."""
    grid = np.linspace(-10, 15, 100001)
    for eps0, delta0, n, b, least in (
        (1.0, 1e-6, 1000, 1000, 1.27e-3),
        (0.5, 1e-8, 1000, 500, 1.7e-6),
    ):
        mu, drawn = gaussian_mu(eps0, delta0), 1 - (1 - 1 / n) ** b
        epsilon = math.log1p(drawn * math.expm1(eps0))
        k = np.arange(25)
        weights = stats.binom.pmf(k, b, 1 / n)
        p = sum(w * stats.norm.pdf(grid - j * mu) for w, j in zip(weights, k, strict=True))
        excess = np.maximum(0.0, p - math.exp(epsilon) * stats.norm.pdf(grid))
        delta = excess.sum() * (grid[1] - grid[0])
        assert delta >= least
        assert delta > 100 * delta0
        # a record that is drawn once at most: exactly as printed
        assert drawn * gaussian_delta(math.log1p(math.expm1(epsilon) / drawn), mu) <= delta0


def test_printed_outer_noise_does_not_allow_any_batch_size():
    """Erratum K9: Theorem 5.1 keeps sigma for batches of one: a step's delta is of order 1/n."""
    n, T, delta = 1000, 100, 1e-6
    # Theorem 4.1 with an outer sensitivity of 1 / n: sigma^2 = T log(T / delta) / (eps^2 n^2)
    sigma = math.sqrt(T * math.log(T / delta)) / n
    mu = 1.0 / sigma  # a batch of one record moves by 1
    exposed = gaussian_delta(math.log1p(math.expm1(1.0) * n), mu) / n
    assert exposed > 100 * delta
    pytest.importorskip("dp_accounting")
    printed = PoissonSampledSumEvent(1 / n, GaussianEvent(sigma / 2, "replace_one"), sigma)
    assert tightest_epsilon(printed, delta) > 1.0
