"""
Many features, few that matter
==============================

Features are random signs; three of them decide. Mirror descent in the l1 geometry pays with the
logarithm of the number of features, the default with its root.
"""

# %%
# The same number of records, and more and more features.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import log_loss

from skdp import DPLogisticRegression
from skdp.methods import MirrorDescent

warnings.simplefilter("ignore", UserWarning)  # of noise that is large
rng = np.random.default_rng(0)
widths = (10, 50, 200, 1000)


def made(n, d):
    """Signs and labels."""
    X = rng.choice([-1.0, 1.0], size=(n, d))
    odds = 1.5 * (X[:, 0] + X[:, 1] - X[:, 2])
    return X, (rng.logistic(size=n) < odds).astype(int)


# %%
# The sum of the absolute coefficients is bounded by 5 in mirror descent; rows have the norm of the
# root of the number of features. Seeds are only for this page.
losses = {"default": [], "mirror descent": []}
for d in widths:
    (X, y), (X_test, y_test) = made(10_000, d), made(5000, d)
    given = {"epsilon": 1.0, "classes": [0, 1], "random_state": 0}
    models = {
        "default": DPLogisticRegression(data_norm=d**0.5, **given),
        "mirror descent": DPLogisticRegression(
            method=MirrorDescent(feature_bound=1.0, coef_norm_l1=5.0), **given
        ),
    }
    for name, model in models.items():
        losses[name].append(log_loss(y_test, model.fit(X, y).predict_proba(X_test)))
print(models["mirror descent"].privacy_)

# %%
# A constant has a log loss of log 2.
figure, axis = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
styles = (("#0072b2", "-o"), ("#d55e00", "--s"))
for (name, values), (colour, style) in zip(losses.items(), styles, strict=True):
    axis.plot(widths, values, style, color=colour, label=name)
axis.axhline(np.log(2), color="0.4", linewidth=1, label="constant")
axis.set(xscale="log", xlabel="number of features", ylabel="log loss on other records")
axis.set_xticks(widths, [str(d) for d in widths])
axis.minorticks_off()
axis.legend()
plt.show()
