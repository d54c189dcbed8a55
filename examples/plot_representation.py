"""
What related tasks have in common
=================================

Four tasks with the same features and coefficients of their own: two of the eight features matter,
the same ones for all tasks. A bilevel problem of your own learns the shared representation, factors
of the features on the simplex: they are judged by the loss, on records held out, of the heads that
they lead to. Then a fifth task with few records has a better model. Every look at a record is
private.
"""

# %%
# 60,000 records to fit heads and 60,000 to judge them. Rows have norm 1.
import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.preprocessing import normalize

from skdp.algorithms import Run, dp_bilevel
from skdp.linear_model import DPLogisticRegression
from skdp.mechanisms import NoiseSource
from skdp.privacy import PrivacyBudget
from skdp.problems import Ball, BilevelConstants, BilevelProblem, DeclaredProblem, Simplex

n, d, n_tasks, radius, alpha = 60_000, 8, 4, 4.0, 0.01
matters = np.arange(d) < 2


def made(n, heads, rng):
    """Rows, their tasks, and signs that follow the head of the task."""
    X, task = normalize(rng.normal(size=(n, d))), rng.integers(len(heads), size=n)
    chances = expit((X * heads[task]).sum(axis=1))
    return X, task, np.where(rng.random(n) < chances, 1.0, -1.0)


rng = np.random.default_rng(0)
heads = matters * rng.choice([-6.0, 6.0], (n_tasks, d))
train, held_out = made(n, heads, rng), made(n, heads, rng)


def log_loss(records, x, y):
    """The mean loss, and its gradients in the representation x and in the heads y."""
    X, task, signs = records
    heads, pushed = y.reshape(n_tasks, d), np.zeros((n_tasks, d))
    margins = signs * d * (X * (x * heads)[task]).sum(axis=1)
    slopes = -signs * expit(-margins) * d / len(X)
    for k in range(n_tasks):
        pushed[k] = slopes[task == k] @ X[task == k]
    value = np.logaddexp(0.0, -margins).mean()
    return float(value), (pushed * heads).sum(axis=0), (pushed * x).ravel()


# %%
# The problem. The margin of a record of task k is ``d <a * x, y_k>`` with a row a, the factors x
# and the head y_k. Constants hold for every record and for all x and y of their domains.
class Representation(BilevelProblem):
    """Factors of the features by the loss of the heads on records held out."""

    domain_x, domain_y = Simplex(d), Ball(radius)
    dimension_x, dimension_y = d, n_tasks * d
    n_train, n_val, disjoint = n, n, True
    constants = BilevelConstants(
        bound_upper=d * radius,
        bound_lower=d * radius,
        mixed_lipschitz=d + d**2 * radius / 4.0,
    )

    def _problem(self, x, part):
        """The loss to fit plus `part` of that on records held out."""
        longest = d * float(x.max())

        def value_and_gradient(y):
            value, _, gradient = log_loss(train, x, y)
            other, _, of_other = log_loss(held_out, x, y)
            return value + part * other, gradient + part * of_other

        return DeclaredProblem(
            value_and_gradient,
            dimension=n_tasks * d,
            lipschitz=longest * (1.0 + part),
            smoothness=longest**2 * (1.0 + part) / 4.0,
            gradient_diameter=2.0 * longest * max(1.0, part) / n,
            alpha=alpha,
            domain=Ball(radius),
            n_records=2 * n,
        )

    def lower(self, x):
        """Return the problem of the heads."""
        return self._problem(x, 0.0)

    def penalised(self, x, lam):
        """Return the same with a part of the loss on records held out."""
        return self._problem(x, 1.0 / lam)

    def upper_gradient_x(self, x, y, batch=None):
        """Return the gradient of the loss on records held out."""
        return log_loss(held_out, x, y)[1]

    def lower_gradient_x(self, x, y, batch=None):
        """Return that of the loss to fit."""
        return log_loss(train, x, y)[1]


# %%
# Attack the constants before you trust them: a row, a representation and a head along one
# coordinate attain the first; rows between the coordinates of both come near half of the second.
def gradients_x(a, x, y):
    """Gradients in x of single records with the sign 1, whose heads are y."""
    margins = d * (a * x * y).sum(axis=1)
    return -expit(-margins)[:, None] * d * a * y


known, m = Representation.constants, 20_000
i, j = rng.integers(d, size=(2, m))
corners = np.eye(d)
a = np.concatenate(
    [corners[i], normalize(corners[i] + corners[j]), normalize(rng.normal(size=(m, d)))]
)
x = np.concatenate([corners[i], corners[i], rng.dirichlet(np.ones(d), m)])
y = np.concatenate([-corners[i], corners[j], normalize(rng.normal(size=(m, d)))]) * radius
nearer = y - 1e-3 * np.concatenate([corners[i], corners[i], corners[j]])
lengths = np.linalg.norm(gradients_x(a, x, y), axis=1)
steps = np.linalg.norm(gradients_x(a, x, y) - gradients_x(a, x, nearer), axis=1)
slopes = steps / np.linalg.norm(y - nearer, axis=1)
print("largest gradient, in units of the bound", (lengths / known.bound_lower).max().round(3))
print("largest slope                          ", (slopes / known.mixed_lipschitz).max().round(3))
assert max(lengths.max() / known.bound_lower, slopes.max() / known.mixed_lipschitz) <= 1.0

# %%
# Six steps within (3, 1e-6).
run = Run(noise=NoiseSource(np.random.default_rng(1).bytes))  # a seed: only for this page
result = dp_bilevel(
    Representation(),
    PrivacyBudget(3.0, 1e-6),
    penalty=2.0,
    n_steps=6,
    step_size=1.0,
    output="last",
    run=run,
)
print("representation", result.point.round(2))


# %%
# A fifth task has records of its own and a budget of 1. With the released factors its noise is
# spread over the features that matter, at no further cost.
def new_task(factors, size, seed):
    """Log loss on new records of a private model of a new task."""
    rng = np.random.default_rng(seed)
    head = matters * rng.choice([-6.0, 6.0], (1, d))
    (X, _, signs), (X_new, _, signs_new) = made(size, head, rng), made(4000, head, rng)
    norm = float(factors.max())
    model = DPLogisticRegression(1.0, classes=[-1, 1], data_norm=norm, random_state=seed)
    model.fit(X * factors, signs)
    margins = model.decision_function(X_new * factors)
    return np.logaddexp(0.0, -signs_new * margins).mean()


sizes = [150, 300, 600, 1200, 2400]
losses = {
    name: [np.mean([new_task(factors, size, seed) for seed in range(20)]) for size in sizes]
    for name, factors in (("all features alike", np.ones(d)), ("representation", result.point))
}
figure, (left, right) = plt.subplots(1, 2, figsize=(6.4, 3.0), layout="constrained")
left.bar(np.arange(d), result.point, color=np.where(matters, "#0072b2", "#d55e00"))
left.set(xlabel="feature (the first two matter)", ylabel="factor")
for (name, values), style in zip(losses.items(), ("o--", "s-"), strict=True):
    right.plot(sizes, values, style, label=name)
    print(f"{name:20}", np.round(values, 3))
right.set(xlabel="records of the new task", ylabel="log loss", xscale="log")
right.set_xticks(sizes, sizes)
right.minorticks_off()
right.legend()
plt.show()
