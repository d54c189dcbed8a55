"""
A penalty for unequal treatment
===============================

A loss of your own: the log loss plus a penalty on the difference between two groups in the mean
score. The penalty is the square of a mean over records, and so no mean itself. What the proof
needs are a few public constants, which are declared.
"""

# %%
# Two groups of public shares; a column of the second is lower for reasons that have nothing to do
# with the label. Rows have norm 1 at most.
import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.preprocessing import normalize

from skdp.algorithms import Run, output_perturbation
from skdp.mechanisms import NoiseSource
from skdp.privacy import PrivacyBudget
from skdp.problems import DeclaredProblem

rng = np.random.default_rng(0)
n, share = 40_000, 0.3
group = (rng.random(2 * n) < share).astype(float)
skill = rng.normal(size=2 * n)
columns = [skill + 0.8 * rng.normal(size=2 * n) for _ in range(3)]
columns.append(skill - 1.5 * group + 0.8 * rng.normal(size=2 * n))
X = normalize(np.column_stack([*columns, np.ones(2 * n)]))
sign = np.where(skill + 0.5 * rng.normal(size=2 * n) > 0, 1.0, -1.0)
train, test = slice(0, n), slice(n, 2 * n)

# %%
# The loss. ``c`` is the covariance of group and row: the difference of the groups' mean scores is
# about ``c @ w / (share * (1 - share))``.
weighted = X[train] * (group[train] - share)[:, None]
c = weighted.mean(axis=0)


def loss(w, penalty):
    """The value and the gradient."""
    margins = sign[train] * (X[train] @ w)
    slopes = -sign[train] * expit(-margins)
    value = np.logaddexp(0.0, -margins).mean() + 0.5 * penalty * (c @ w) ** 2
    return float(value), X[train].T @ slopes / n + penalty * (c @ w) * c


# %%
# The constants, for every data set: rows of norm 1 have gradients of norm 1 and curvature 1/4, and
# ``|c| <= g`` with ``g = max(share, 1 - share)``. One record moves the mean of gradients by at most
# 2 / n and c by 2 g / n, so on the ball of radius R the gradients of neighbours differ by at most
# ``2 / n + 2 penalty R g (2 g / n)``.
radius, alpha, g = 6.0, 0.01, max(share, 1.0 - share)


def fit(penalty, epsilon, seed=0):
    """Release the coefficients."""
    problem = DeclaredProblem(
        lambda w: loss(w, penalty),
        dimension=X.shape[1],
        lipschitz=1.0 + penalty * radius * g**2,
        smoothness=0.25 + penalty * g**2,
        gradient_diameter=2.0 / n + 4.0 * penalty * radius * g**2 / n,
        alpha=alpha,
        radius=radius,
        n_records=n,
    )
    run = Run(noise=NoiseSource(np.random.default_rng(seed).bytes))  # a seed: only for this page
    return output_perturbation(problem, PrivacyBudget(epsilon, 1e-6), run=run).point


# %%
# At epsilon 10 the penalty halves the gap for less than one point of accuracy. Its noise grows with
# it: at epsilon 1 a penalty of 30 is mostly noise.
penalties = (0.0, 3.0, 10.0, 30.0)
figure, axis = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
for epsilon, colour, style in ((1.0, "#d55e00", "--s"), (10.0, "#0072b2", "-o")):
    found = []
    for penalty in penalties:
        for seed in range(5):
            scores = X[test] @ fit(penalty, epsilon, seed)
            rates = [np.mean(scores[group[test] == k] > 0) for k in (0.0, 1.0)]
            found.append((abs(rates[0] - rates[1]), np.mean(sign[test] * scores > 0)))
    gap, accuracy = np.mean(np.reshape(found, (len(penalties), 5, 2)), axis=1).T
    axis.plot(gap, accuracy, style, color=colour, label=f"epsilon {epsilon:g}")
    for x, y, penalty in zip(gap, accuracy, penalties, strict=True):
        axis.annotate(f"{penalty:g}", (x, y), textcoords="offset points", xytext=(4, 4), size=8)
        print(f"epsilon {epsilon:g}, penalty {penalty:g}: gap {x:.3f}, accuracy {y:.3f}")
axis.set(xlabel="difference of the groups' positive rates", ylabel="accuracy on new records")
axis.legend()
plt.show()
