"""
Ranges that are too wide, norms that are too small
==================================================

Declared bounds are public guesses. How much does it cost if they are wrong?
"""

# %%
# Regression of diabetes: targets lie between 25 and 346. Classification of breast cancer: rows of
# thirty features in [-1, 1], of norm about 3.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import minmax_scale

from skdp import DPLogisticRegression, DPRidge

warnings.simplefilter("ignore", UserWarning)  # of noise that is large
factors = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
diabetes, cancer = load_diabetes(return_X_y=True), load_breast_cancer(return_X_y=True)
# for this page alone: where privacy matters, ranges come from public sources
diabetes = diabetes[0] / 0.2, diabetes[1]
cancer = minmax_scale(cancer[0], (-1, 1)), cancer[1]


def mean_score(model, X, y):
    """Mean of ten splits; the seeds are only for this page."""
    found = []
    for seed in range(10):
        X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=seed)
        found.append(
            model.set_params(random_state=seed).fit(X_train, y_train).score(X_test, y_test)
        )
    return np.mean(found)


# %%
# Ranges of the target around 185, of a factor times 160 on either side; and norms of a factor times
# three.
ranges = [
    mean_score(DPRidge(3.0, data_norm=1.0, target_range=(185 - 160 * f, 185 + 160 * f)), *diabetes)
    for f in factors
]
norms = []
for f in factors:
    model = DPLogisticRegression(data_norm=3.0 * f, classes=[0, 1])
    norms.append(mean_score(model, *cancer))
print(model.privacy_)

# %%
# A range that is twice too wide costs little, and one that is half too narrow clips the targets. A
# norm may be too small by a factor: rows are shortened and keep their direction.
figure, axes = plt.subplots(1, 2, figsize=(6.4, 3.2), layout="constrained")
for axis, title, scores, ylabel in (
    (axes[0], "range of the target", ranges, "R2, epsilon 3"),
    (axes[1], "norm of a row", norms, "accuracy, epsilon 1"),
):
    axis.plot(factors, scores, "-o", color="#0072b2")
    axis.axvline(1.0, color="0.6", linewidth=1)
    axis.set(title=title, xscale="log", xlabel="declared / right", ylabel=ylabel)
    axis.set_xticks(factors, [f"{f:g}" for f in factors])
    axis.minorticks_off()
plt.show()
