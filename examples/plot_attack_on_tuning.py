"""
A tuned penalty gives a label away
==================================

"I only publish the penalty." The best penalty is a function of the exact fit: who knows all records
but one label tries both, and sees which one gives the published number.
"""

# %%
# Ridge regression on a train and a validation half; the penalty is found to many digits.
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize_scalar

from skdp import DPRidgeCV

sizes, n_tables = (100, 300, 1000), 40


def made(n, seed):
    """Rows and labels that a linear model explains in part."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 10)) / 5
    X /= np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    return X, np.where(X @ np.linspace(3, 0, 10) + rng.normal(size=n) > 0, 1.0, -1.0)


def tuned(X, y):
    """Logarithm of the penalty that is best on the odd records."""
    A, b, C, d = X[::2], y[::2], X[1::2], y[1::2]

    def loss(log_alpha):
        gram = A.T @ A + len(A) * np.exp(log_alpha) * np.eye(10)
        return np.mean((C @ np.linalg.solve(gram, A.T @ b) - d) ** 2)

    return minimize_scalar(loss, bounds=(-12, 3), method="bounded", options={"xatol": 1e-9}).x


def guesses(choose, seed_of_attacker):
    """Share of labels that are found by trying both values."""
    found = []
    for n in sizes:
        right = 0
        for seed in range(n_tables):
            X, y = made(n, seed)
            published = choose(X, y, seed)
            tries = []
            for label in (-1.0, 1.0):
                y_try = np.append(label, y[1:])
                tries.append(abs(choose(X, y_try, seed_of_attacker(seed)) - published))
            right += (np.argmin(tries) * 2 - 1) == y[0]
        found.append(right / n_tables)
    return found


# %%
# The private penalty of a self-tuning model, whose noise the attacker does not know. Seeds are only
# for this page.
model = DPRidgeCV(epsilon=1.0, data_norm=1.0, target_range=(-1, 1))


def private(X, y, seed):
    """Logarithm of the private penalty."""
    return np.log(model.set_params(random_state=seed).fit(X, y).alpha_)


exact = guesses(lambda X, y, seed: tuned(X, y), lambda seed: 0)
noisy = guesses(private, lambda seed: 1000 + seed)
print(model.privacy_)

# %%
# Without privacy nearly every label is found, however many other records there are.
figure, axis = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
axis.plot(sizes, exact, "-o", color="#d55e00", label="tuned without privacy")
axis.plot(sizes, noisy, "--s", color="#0072b2", label="DPRidgeCV, epsilon 1")
axis.axhline(0.5, color="0.4", linewidth=1, label="chance")
axis.set(xscale="log", xlabel="number of records", ylabel="labels found", ylim=(0, 1.05))
axis.set_xticks(sizes, [str(n) for n in sizes])
axis.minorticks_off()
axis.legend(loc="lower right")
plt.show()
