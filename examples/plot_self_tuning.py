"""
A model that tunes its own penalty
==================================

``DPRidgeCV`` chooses its shrinkage within one budget. Beside it: ridge regression with three fixed
penalties, as published, where noise depends on the penalty.
"""

# %%
# Twenty features of different variances, 20,000 records.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import Ridge

from skdp import DPRidge, DPRidgeCV
from skdp.methods import OutputPerturbation

warnings.simplefilter("ignore", UserWarning)  # of noise that is large
rng = np.random.default_rng(0)
scales = np.geomspace(1, 0.1, 20)
weights = rng.normal(size=20)


def made(n):
    """Rows of norm at most one and targets."""
    X = rng.normal(size=(n, 20)) * scales / 3.5
    X /= np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    return X, np.clip(X @ weights + 0.3 * rng.normal(size=n), -3, 3)


X, y = made(20_000)
X_test, y_test = made(10_000)

# %%
# One fit at each epsilon; the seed is only for this page.
epsilons = (0.1, 0.3, 1.0, 3.0, 10.0)
given = {"data_norm": 1.0, "target_range": (-3, 3), "random_state": 0}
models = {"DPRidgeCV": DPRidgeCV(**given)}
for alpha in (1e-3, 1e-2, 1e-1):
    fixed = DPRidge(method=OutputPerturbation(alpha=alpha), **given)
    models[f"fixed penalty {alpha:g}"] = fixed
scores = {
    name: [model.set_params(epsilon=e).fit(X, y).score(X_test, y_test) for e in epsilons]
    for name, model in models.items()
}
print(models["DPRidgeCV"].privacy_)

# %%
# Each fixed penalty is right for one budget at best.
figure, axis = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
styles = ("-o", ":s", "--^", "-.D")
colours = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
for (name, values), style, colour in zip(scores.items(), styles, colours, strict=True):
    axis.plot(epsilons, values, style, color=colour, label=name)
plain = Ridge(1e-3).fit(X, y).score(X_test, y_test)
axis.axhline(plain, color="0.4", linewidth=1, label="without privacy")
axis.set(xscale="log", xlabel="epsilon", ylabel="R2 on other records", ylim=(-0.1, plain + 0.05))
axis.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
axis.minorticks_off()
axis.legend()
plt.show()
