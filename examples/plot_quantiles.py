"""
Median and 90 % quantile with outliers
======================================

Quantiles are bounded in what one record can do to them, and so are their private models: outliers
that pull a mean away leave them where they are.
"""

# %%
# Delivery times by distance; one in twenty is wrong by hours.
import matplotlib.pyplot as plt
import numpy as np

from skdp import DPLinearRegressor, DPRidge

rng = np.random.default_rng(0)
n = 10_000
distance = rng.uniform(0, 20, n)
minutes = 10 + 2 * distance + rng.gamma(2, 1 + 0.2 * distance, n)
minutes[rng.random(n) < 0.05] += rng.uniform(60, 170)
X = distance[:, None] / 10 - 1

# %%
# The range of the target is declared once for all. Seeds are only for this page.
given = {"epsilon": 1.0, "data_norm": 1.0, "target_range": (0, 240), "random_state": 0}
models = {
    "mean": (DPRidge(**given), "#d55e00", ":"),
    "median": (DPLinearRegressor(loss="absolute_error", **given), "#0072b2", "-"),
    "90 % quantile": (DPLinearRegressor(loss="quantile", quantile=0.9, **given), "#009e73", "--"),
}
for model, _, _ in models.values():
    model.fit(X, minutes)
print(models["median"][0].privacy_)

# %%
# The points are a sample that is for the data holder's eyes only.
grid = np.linspace(0, 20, 50)
figure, axis = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
axis.scatter(distance[:600], minutes[:600], s=5, color="0.7", label="records")
for name, (model, colour, style) in models.items():
    axis.plot(grid, model.predict(grid[:, None] / 10 - 1), style, color=colour, label=name)
axis.set(xlabel="distance, km", ylabel="minutes", ylim=(0, 200))
axis.legend(loc="upper left", ncols=2)
plt.show()
