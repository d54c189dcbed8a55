"""
Digits under attack
===================

An attacker changes every pixel by a little. A model that was trained for the worst such change
keeps more of its accuracy, at the price of some on clean digits.
"""

# %%
# The digits 4 and 9, rows of norm one; pixels are declared to lie in 0 to 16.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from skdp import DPAdversarialClassifier

X, y = load_digits(return_X_y=True)
chosen = np.isin(y, (4, 9))
X, y = normalize((X[chosen] - 8) / 8), (y[chosen] == 9).astype(int)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# %%
# Radius 0 is a plain model. Seeds are only for this page.
radii = (0.0, 0.01, 0.02, 0.04, 0.06)
given = {"epsilon": 30.0, "classes": [0, 1], "data_norm": 1.0, "random_state": 0}
models = {
    radius: DPAdversarialClassifier(attack_norm=np.inf, attack_radius=radius, **given).fit(
        X_train, y_train
    )
    for radius in (0.0, 0.04)
}
print(models[0.04].privacy_)


def attacked(model, radius):
    """The worst change of each row: every pixel towards the other class."""
    away = np.where(y_test == 1, -1.0, 1.0)[:, None] * np.sign(model.coef_)
    return X_test + radius * away


# %%
# One digit before and after the attack on the plain model, and accuracy against its radius.
figure, axes = plt.subplots(
    1, 3, figsize=(6.4, 2.8), layout="constrained", width_ratios=(1, 1, 2.2)
)
first = int(np.flatnonzero(y_test == 1)[0])
for axis, rows, title in (
    (axes[0], X_test, "a 9"),
    (axes[1], attacked(models[0.0], 0.06), "attacked"),
):
    axis.imshow(rows[first].reshape(8, 8), cmap="gray_r")
    axis.set(title=title, xticks=[], yticks=[])
for (radius, model), colour, style in zip(
    models.items(), ("#0072b2", "#d55e00"), ("-o", "--s"), strict=True
):
    scores = [np.mean(model.predict(attacked(model, r)) == y_test) for r in radii]
    axes[2].plot(radii, scores, style, color=colour, label=f"trained for {radius:g}")
axes[2].set(xlabel="change of each pixel", ylabel="accuracy", ylim=(0, 1))
axes[2].legend()
plt.show()
