"""
Several records of one person
=============================

Simulated patients with 1 to 20 visits each. The guarantee is to hold for a patient, with all of the
visits, and there are three ways to get it.
"""

# %%
# A visit is ill or not, by its measurements and by what the patient brings along. Visits of a
# patient are alike, and the number of visits is private.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import log_loss

from skdp import DPLogisticRegression
from skdp.privacy.gaussian_dp import gaussian_epsilon, gaussian_mu

rng = np.random.default_rng(0)
MOST, DELTA = 20, 1e-6
weights = rng.normal(size=8)


def visits(n):
    """Rows, labels and patients of the visits of n patients."""
    number = np.clip(rng.lognormal(1.5, 0.9, n).astype(int), 1, MOST)
    patient = np.repeat(np.arange(n), number)
    own = rng.normal(size=(n, 8))[patient]
    X = 0.4 * own + 0.9 * rng.normal(size=own.shape)
    score = X @ weights + 0.5 * rng.normal(size=n)[patient]
    return X, (rng.logistic(size=len(X)) < score).astype(int), patient


X, y, patient = visits(800)
X_test, y_test, _ = visits(1500)


# %%
# With `user_ids` each patient weighs 1, however many visits there are. Without them the unit is a
# visit: either one visit of each patient is kept, or the noise is drawn for groups of 20 visits.
# For Gaussian noise that is a twentieth of mu.


def model(epsilon):
    """The default model; norms are a public bound."""
    return DPLogisticRegression(epsilon, DELTA, data_norm=5.0, classes=[0, 1])


def of_persons(epsilon):
    """All visits, with the patient of each."""
    return model(epsilon).fit(X, y, user_ids=patient)


def of_one_visit(epsilon):
    """One visit of each patient, drawn at random."""
    order = rng.permutation(len(y))
    first = order[np.unique(patient[order], return_index=True)[1]]
    return model(epsilon).fit(X[first], y[first])


def of_groups(epsilon):
    """All visits, each with a twentieth of the budget."""
    return model(gaussian_epsilon(DELTA, gaussian_mu(epsilon, DELTA) / MOST)).fit(X, y)


print(of_persons(1.0).privacy_)

# %%
# Error of patients who were not in the fit, averaged over six fits, and its standard error. Fits
# that are mostly noise say so; here they are part of the comparison.
warnings.filterwarnings("ignore", "The noise is of the size of the margins")

ways = {
    "user_ids": of_persons,
    "one visit of each patient": of_one_visit,
    "noise for 20 visits": of_groups,
}
epsilons = [0.5, 1.0, 2.0, 4.0, 8.0]
fig, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
for name, fit in ways.items():
    found = np.array(
        [[log_loss(y_test, fit(e).predict_proba(X_test)) for _ in range(6)] for e in epsilons]
    )
    ax.errorbar(
        epsilons, found.mean(axis=1), found.std(axis=1) / np.sqrt(6), marker="o", label=name
    )
exact = model(1e5).fit(X, y, user_ids=patient)
ax.axhline(
    log_loss(y_test, exact.predict_proba(X_test)), color="0.5", linestyle=":", label="no privacy"
)
ax.set(xscale="log", xlabel="epsilon of a patient", ylabel="log loss of new patients")
ax.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
ax.minorticks_off()
ax.legend()

# %%
# With a small budget the noise of 800 patients decides, and one visit of each says as much. From
# epsilon 2 on, all visits are worth having.

if __name__ == "__main__":
    plt.show()
