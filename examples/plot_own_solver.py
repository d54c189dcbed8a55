"""
Plug in your own solver
=======================

Privacy comes from the solution: any function that finds a minimum may be plugged in, and its result
is certified before noise is added. A bad one costs time, not privacy.
"""

# %%
# Heavy-ball momentum in ten lines. A solver gets a problem and the accuracy that is asked for.
import matplotlib.pyplot as plt
import numpy as np

from skdp import DPLogisticRegression


def heavy_ball(problem, accuracy):
    """Gradient steps with momentum from 0."""
    w = velocity = np.zeros(problem.dimension)
    for _ in range(500):
        gradient = problem.gradient(w)
        if np.linalg.norm(gradient) <= problem.constants.strong_convexity * accuracy:
            break
        velocity = 0.9 * velocity - gradient / problem.smoothness
        w = w + velocity
    return w


def nonsense(problem, accuracy):
    """No solver at all: a trusted method goes on from its result."""
    return np.full(problem.dimension, 1e3)


# %%
# The same records for all; the seeds are only for this page.
rng = np.random.default_rng(0)
X = rng.normal(size=(12_000, 10)) / 5
X /= np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
y = (rng.logistic(size=len(X)) < 6 * X[:, 0] - 4 * X[:, 1]).astype(int)
train, test = slice(0, 8000), slice(8000, None)
solvers = {"default, no solver": "auto", "lbfgs": "lbfgs", "heavy ball": heavy_ball,
           "nonsense": nonsense}  # fmt: skip
scores = {}
for name, solver in solvers.items():
    given = {"classes": [0, 1], "data_norm": 1.0, "solver": solver}
    scores[name] = [
        DPLogisticRegression(random_state=seed, **given)
        .fit(X[train], y[train])
        .score(X[test], y[test])
        for seed in range(8)
    ]
model = DPLogisticRegression(random_state=0, **given).fit(X[train], y[train])
print(model.privacy_)

# %%
# With a solver the private algorithm makes ten solves. All solvers end at the same
# optimum, up to a proven accuracy, so their private models have the same law.
figure, axis = plt.subplots(figsize=(6.4, 3.0), layout="constrained")
for place, values in enumerate(scores.values()):
    axis.plot(values, [place] * len(values), "o", color="#0072b2", alpha=0.5)
    axis.plot(np.mean(values), place, "|", color="#d55e00", markersize=22, markeredgewidth=3)
axis.set_yticks(range(len(scores)), list(scores))
axis.set(xlabel="accuracy on other records, epsilon 1: eight fits and their mean", ylim=(3.5, -0.5))
plt.show()
