"""
What a cross-validation costs
=============================

Fits add up. A ledger that composes Gaussian noise exactly finds far less than the sum of their
epsilons.
"""

# %%
# One program: fits of ridge regression on the same records, charged to one accountant.
import matplotlib.pyplot as plt
import numpy as np

from skdp import BudgetAccountant, DPRidge
from skdp.model_selection import dp_cross_validate

rng = np.random.default_rng(0)
X = rng.uniform(-0.5, 0.5, size=(5000, 4))
y = np.clip(X @ [1.0, -1.0, 0.5, 0.0] + 0.1 * rng.normal(size=5000), -1, 1)
model = DPRidge(epsilon=0.5, data_norm=1.0, target_range=(-1, 1))

# %%
# After each of thirty fits: the total, and the sum of the epsilons.
totals = []
with BudgetAccountant(epsilon=20.0, delta=1e-4) as accountant:
    for _ in range(30):
        model.fit(X, y)
        totals.append(accountant.total().epsilon)
print(model.privacy_)

# %%
# Five folds cost less than five fits: each record is left out of one of them.
with BudgetAccountant(epsilon=20.0, delta=1e-4) as of_folds:
    dp_cross_validate(model, X, y, cv=5, epsilon=0.1)
    folds = of_folds.total().epsilon

figure, axis = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
numbers = np.arange(1, len(totals) + 1)
axis.plot(numbers, 0.5 * numbers, "--", color="#d55e00", label="sum of the epsilons")
axis.plot(numbers, totals, color="#0072b2", label="BudgetAccountant, delta = 1e-4")
axis.plot(5, folds, "s", color="#009e73", label="cross-validation with 5 folds, scores included")
axis.set(xlabel="fits at epsilon 0.5", ylabel="epsilon of all")
axis.legend()
plt.show()
