"""
A first private model
=====================

Accuracy on breast cancer data against epsilon, between a model without privacy and the answer that
looks at nothing.
"""

# %%
# Three features of 569 patients; their ranges are declared, not looked up in the records.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from skdp import BoundedScaler, DPLogisticRegression

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
ranges = {"worst radius": (0, 50), "worst concave points": (0, 0.5), "worst texture": (0, 60)}
X = X[[*ranges]]


def score(model, seed):
    """Fit on three quarters of the records; return the accuracy on the others."""
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=seed)
    return make_pipeline(BoundedScaler(ranges), model).fit(X_train, y_train).score(X_test, y_test)


# %%
# The norm of three features in [-1, 1] is at most the root of 3. Seeds are only for this page.
epsilons = (0.1, 0.3, 1.0, 3.0, 10.0)
private = DPLogisticRegression(classes=[0, 1], data_norm=3**0.5)
found = np.array(
    [
        [score(private.set_params(epsilon=e, random_state=seed), seed) for e in epsilons]
        for seed in range(10)
    ]
)
print(private.privacy_)

# %%
# The band holds the scores of all ten splits.
plain = np.mean([score(LogisticRegression(C=100), seed) for seed in range(10)])
figure, axis = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
axis.fill_between(epsilons, found.min(axis=0), found.max(axis=0), color="#0072b2", alpha=0.2)
axis.plot(epsilons, found.mean(axis=0), "-o", color="#0072b2", label="private, mean of 10 splits")
axis.axhline(plain, color="0.4", label="without privacy")
axis.axhline(max(y.mean(), 1 - y.mean()), color="#d55e00", linestyle="--", label="majority class")
axis.set(xscale="log", xlabel="epsilon", ylabel="accuracy on other patients")
axis.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
axis.minorticks_off()
axis.legend(loc="lower right")
plt.show()
