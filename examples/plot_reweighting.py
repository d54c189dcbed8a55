"""
Which source of data to trust
=============================

Records come from four sources, two of which have wrong labels. A bilevel problem of your own finds
their weights: the weights on the simplex are judged by the loss on trusted records of the model
that the weighted records give. Every look at a record is private.
"""

# %%
# 40,000 records of four sources, and 4,000 trusted ones. Rows have norm 1 at most.
import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from skdp.algorithms import Run, dp_bilevel
from skdp.mechanisms import NoiseSource
from skdp.privacy import PrivacyBudget
from skdp.problems import Ball, BilevelConstants, BilevelProblem, DeclaredProblem, Simplex

wrong = np.array([0.0, 0.1, 0.6, 0.9])  # parts of the labels
n_train, n_val, d, k, radius, alpha = 40_000, 4_000, 5, 4, 5.0, 0.02


def made(n, flipped, rng):
    """Rows and signs; the labels of a part are wrong."""
    X = normalize(rng.normal(size=(n, d)))
    signs = np.where(rng.random(n) < expit(4.0 * X @ np.ones(d) / np.sqrt(d)), 1.0, -1.0)
    return X, np.where(rng.random(n) < flipped, -signs, signs)


rng = np.random.default_rng(0)
source = rng.integers(k, size=n_train)
X, signs = made(n_train, wrong[source], rng)
X_val, signs_val = made(n_val, 0.0, rng)
X_new, signs_new = made(50_000, 0.0, rng)


def log_loss(X, signs, weights, y):
    """The sum of weighted losses over the weights' number, and its gradient."""
    margins = signs * (X @ y)
    value = weights @ np.logaddexp(0.0, -margins) / len(X)
    return float(value), X.T @ (-weights * signs * expit(-margins)) / len(X)


# %%
# The problem. The upper variable x is on the simplex, the lower one y in a ball. A record of source
# s has the weight ``k x_s``. Constants hold for every record: its loss is at most
# ``log(1 + e^R)``, and has a gradient of norm 1 at most and a curvature of 1/4.
class Reweighting(BilevelProblem):
    """Weights of sources by the loss on trusted records."""

    domain_x, domain_y = Simplex(k), Ball(radius)
    dimension_x, dimension_y = k, d
    n_train, n_val, disjoint = n_train, n_val, True
    constants = BilevelConstants(
        bound_upper=0.0,  # the loss on trusted records does not depend on x but through y
        bound_lower=k * np.logaddexp(0.0, radius),
        mixed_lipschitz=k,
    )

    def _problem(self, x, part):
        """The weighted loss plus `part` of the loss on trusted records."""
        largest = k * float(x.max())

        def value_and_gradient(y):
            value, gradient = log_loss(X, signs, k * x[source], y)
            other, of_other = log_loss(X_val, signs_val, np.ones(n_val), y)
            return value + part * other, gradient + part * of_other

        return DeclaredProblem(
            value_and_gradient,
            dimension=d,
            lipschitz=largest + part,
            smoothness=(largest + part) / 4.0,
            gradient_diameter=max(2.0 * largest / n_train, 2.0 * part / n_val),
            alpha=alpha,
            domain=Ball(radius),
            n_records=n_train + n_val,
        )

    def lower(self, x):
        """Return the weighted loss."""
        return self._problem(x, 0.0)

    def penalised(self, x, lam):
        """Return the weighted loss plus a part of that on trusted records."""
        return self._problem(x, 1.0 / lam)

    def upper_gradient_x(self, x, y, batch=None):
        """Return 0."""
        return np.zeros(k)

    def lower_gradient_x(self, x, y, batch=None):
        """Return the sums of the losses of each source."""
        losses = np.logaddexp(0.0, -signs * (X @ y))
        return k * np.bincount(source, weights=losses, minlength=k) / n_train


# %%
# Attack the constants before you trust them: records and points at the ends of their ranges come
# near to both, and none is beyond.
def record_losses(y, margins):
    """Losses of records whose rows have norm 1, along or against y."""
    return np.logaddexp(0.0, -margins * np.linalg.norm(y, axis=1))


ends = rng.normal(size=(100_000, d))
ends *= radius / np.linalg.norm(ends, axis=1, keepdims=True)
others = ends * rng.uniform(0.9, 1.0, (len(ends), 1))
sides = rng.choice([-1.0, 1.0], len(ends))
first, second = record_losses(ends, sides), record_losses(others, sides)
slopes = np.abs(first - second) / np.linalg.norm(ends - others, axis=1)
known = Reweighting.constants
for largest, bound in ((first, known.bound_lower), (slopes, known.mixed_lipschitz)):
    assert 0.99 < k * largest.max() / bound <= 1.0 + 1e-9

# %%
# Twelve steps within (3, 1e-6). The last weights give a model at no further cost: it is the lower
# solution of the last step.
run = Run(noise=NoiseSource(np.random.default_rng(1).bytes))  # a seed: only for this page
result = dp_bilevel(
    Reweighting(),
    PrivacyBudget(3.0, 1e-6),
    penalty=3.0,
    n_steps=12,
    step_size=1.0,
    output="last",
    run=run,
)
print("wrong labels", wrong)
print("weights     ", result.point.round(2))
alike = LogisticRegression(C=1.0 / (alpha * n_train), fit_intercept=False).fit(X, signs).coef_[0]
for name, y in (("", result.y), ("with equal weights, without privacy", alike)):
    print("log loss    ", np.logaddexp(0.0, -signs_new * (X_new @ y)).mean().round(3), name)

# %%
# Sources with wrong labels lose their weight; equal weights would keep what they say.
figure, axis = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
for weights, part, colour, style in zip(
    result.path.T, wrong, ("#0072b2", "#009e73", "#e69f00", "#d55e00"), ("-", "--", "-.", ":"),
    strict=True,
):  # fmt: skip
    axis.plot(weights, style, marker="o", color=colour, label=f"{part:.0%} wrong")
axis.set(xlabel="step", ylabel="weight of a source", ylim=(0, 1))
axis.legend(title="labels")
plt.show()
