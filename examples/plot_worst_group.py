"""
A minority that a plain model fails
===================================

Eight percent of the records follow another rule. A plain model is right for the others; a model for
the worst group balances both. It is better for the minority and worse for the majority: that is a
choice.
"""

# %%
# In the majority the first feature decides, in the minority its opposite does, and a second feature
# tells the classes of both apart, though less well.
import matplotlib.pyplot as plt
import numpy as np

from skdp import DPLogisticRegression, DPMaxGroupLossClassifier

rng = np.random.default_rng(0)


def made(n):
    """Rows of norm at most one, labels and groups."""
    y, minority = rng.integers(0, 2, n), rng.random(n) < 0.08
    sign = 2 * y - 1
    first = np.where(minority, -sign, sign) + 0.5 * rng.normal(size=n)
    X = np.column_stack([first, 0.8 * sign + rng.normal(size=n)]) / 4
    return X / np.maximum(1, np.linalg.norm(X, axis=1))[:, None], y, minority.astype(int)


X, y, groups = made(50_000)
X_test, y_test, groups_test = made(20_000)

# %%
# The names of the groups are declared. Seeds are only for this page.
given = {"epsilon": 1.0, "classes": [0, 1], "data_norm": 1.0, "random_state": 0}
plain = DPLogisticRegression(**given).fit(X, y)
fair = DPMaxGroupLossClassifier(group_names=[0, 1], **given).fit(X, y, groups=groups)
print(fair.privacy_)


# %%
# Accuracy by group on other records.
figure, axis = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
names = ("majority, 92 %", "minority, 8 %")
for shift, label, colour, model in (
    (-0.2, "DPLogisticRegression", "#0072b2", plain),
    (0.2, "DPMaxGroupLossClassifier", "#d55e00", fair),
):
    scores = [model.score(X_test[groups_test == g], y_test[groups_test == g]) for g in (0, 1)]
    bars = axis.bar(np.arange(2) + shift, scores, 0.4, color=colour, label=label)
    axis.bar_label(bars, fmt="%.2f")
axis.axhline(0.5, color="0.4", linewidth=1)
axis.set_xticks(range(2), names)
axis.set(ylabel="accuracy", ylim=(0, 1.15))
axis.legend(loc="upper right", ncols=2)
plt.show()
