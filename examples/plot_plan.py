"""
Plan a fit before there are data
================================

How many records are enough? A plan answers from public numbers. Simulated records of the same kind
then show the accuracy to be expected.
"""

# %%
# The noise in the score of an average row, and the number of records from which it is below what
# sampling does anyway. Nothing is fitted, and no budget is spent.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ShuffleSplit

from skdp import DPLogisticRegression
from skdp.inspection import PrivacyUtilityDisplay, plan_fit

warnings.simplefilter("ignore", UserWarning)  # of noise that is large, and of exact scores
model = DPLogisticRegression(epsilon=1.0, data_norm=1.0, classes=[0, 1])
for n in (500, 5000, 50_000):
    plan = plan_fit(model, n_samples=n, n_features=10)
    print(f"{n:6d} records: noise {plan.noise.average_row:.2f}")
print(f"below that of sampling from {plan.free_from:,.0f} records on")


# %%
# The display fits at each epsilon on several splits. Its scores are exact functions of the records,
# so draw it of public or simulated ones. Seeds are only for this page.
def simulated(n):
    """Rows of norm at most 1, and labels with noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 10))
    X /= np.maximum(np.linalg.norm(X, axis=1), 3.0)[:, None]
    return X, (8 * X[:, 0] - 6 * X[:, 1] + rng.logistic(size=n) > 0).astype(int)


# %%
# Five thousand records are as good as no privacy from epsilon 0.3 on, five hundred from 3 on.
figure, axis = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
for n, colour, baseline in ((500, "#d55e00", None), (5000, "#0072b2", LogisticRegression(C=100))):
    PrivacyUtilityDisplay.from_estimator(
        model,
        *simulated(n),
        epsilons=(0.1, 0.3, 1.0, 3.0, 10.0),
        scoring="accuracy",
        cv=ShuffleSplit(10, test_size=0.3, random_state=0),
        baseline=baseline,
        baseline_kw={"label": f"{n} records, no privacy"},
        random_state=0,
        name=f"{n} records",
        ax=axis,
        line_kw={"color": colour},
    )
plt.show()
