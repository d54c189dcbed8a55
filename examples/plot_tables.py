"""
What privacy costs on tables
============================

Models of tables by declaration of their columns, with nothing tuned, at five budgets: beside the
linear model, DP-EBM, and boosting without privacy.
"""

# %%
# Customers of a bank are invented: who pays late?

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from skdp import DPTabularClassifier, Number

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
rng = np.random.default_rng(0)
n = 10_000
frame = pd.DataFrame(
    {
        "age": rng.integers(18, 90, n),
        "income": np.where(rng.random(n) < 0.1, np.nan, np.exp(rng.normal(10.5, 0.7, n))),
        "debt": rng.beta(2, 4, n),
        "home": pd.Categorical(rng.choice(["rent", "own", "mortgage"], n, p=[0.4, 0.1, 0.5])),
    }
)
score = (
    ((frame["age"] - 50) / 20) ** 2
    - np.log(frame["income"].fillna(25_000) / 40_000)
    + 6 * frame["debt"] * (frame["home"] == "rent")
    - 3.5
)
late = rng.logistic(size=n) < score

# %%
# The columns are declared; the features follow from the budget. Seeds are only for this page: leave
# them out where privacy matters.

columns = {
    "age": (18, 90),
    "income": Number(0, 1e6, log=True, missing=True),
    "debt": (0, 1),
    "home": ["rent", "own", "mortgage"],
}
train, test = slice(0, 8000), slice(8000, None)


def score_of(epsilon, **parameters):
    """Fit a model; return its ROC AUC on later records, and the model."""
    model = DPTabularClassifier(
        epsilon, 1e-5, columns=columns, classes=[False, True], random_state=0, **parameters
    ).fit(frame[train], late[train])
    return roc_auc_score(late[test], model.decision_function(frame[test])), model


planned = [score_of(epsilon) for epsilon in EPSILONS]
linear = [score_of(epsilon, features="linear") for epsilon in EPSILONS]
boosting = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0)
boosting.fit(frame[train], late[train])
without = roc_auc_score(late[test], boosting.decision_function(frame[test]))
print(planned[2][1].privacy_)

# %%
# Real tables take longer: ``benchmarks/run.py tabular`` has fitted them, and DP-EBM with its
# defaults, both with add/remove neighbours.

try:
    here = Path(__file__).resolve().parent
except NameError:  # in a notebook
    here = Path.cwd()
results = here.parent / "benchmarks" / "results" / "tabular.csv"
cells = pd.read_csv(results, comment="#")

# %%
# The first panel has the linear features of the same columns instead of DP-EBM, and both models
# have replace-one neighbours there.

PLANNED, LINEAR, PEER, FREE = "#0072B2", "#E69F00", "#009E73", "#555555"
NAMED = {
    "adult": "Adult, n = 39,073",
    "california": "California, n = 16,512",
    "rwm1984, outwork": "Doctor visits, n = 3,099",
    "Wages, lwage": "Wages, n = 3,332",
    "Computers, price": "Computers, n = 4,800",
}
fig, axes = plt.subplots(2, 3, figsize=(6.4, 4.6), layout="constrained", sharex=True)
axes = axes.ravel()
axes[0].plot(EPSILONS, [s for s, _ in planned], "o-", color=PLANNED, ms=4)
axes[0].plot(EPSILONS, [s for s, _ in linear], "s-", color=LINEAR, ms=4)
axes[0].axhline(without, color=FREE, ls="--", lw=1)
axes[0].set_title("Invented, n = 8,000", fontsize=8)
axes[0].set_ylabel("ROC AUC", fontsize=8)
for ax, (name, title) in zip(axes[1:], NAMED.items(), strict=True):
    table = cells[cells["dataset"] == name]
    for method, colour, marker in (("planned", PLANNED, "o"), ("DP-EBM", PEER, "^")):
        line = table[(table["method"] == method) & (table["neighbouring"] == "add_remove")]
        ax.plot(line["epsilon"], line["mean"], f"{marker}-", color=colour, ms=4)
    free = table[table["method"].str.contains("boosting")]["mean"].item()
    ax.axhline(free, color=FREE, ls="--", lw=1)
    ax.set_title(title, fontsize=8)
    ax.set_ylabel(table["metric"].iloc[0], fontsize=8)
    ax.set_ylim(bottom=max(table["mean"].min(), 0.0) - 0.02)
for ax in axes:
    ax.set_xscale("log")
    ax.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    ax.minorticks_off()
    ax.tick_params(labelsize=7)
for ax in axes[3:]:
    ax.set_xlabel("epsilon", fontsize=8)
for colour, name in (
    (PLANNED, "planned features"),
    (LINEAR, "linear features"),
    (PEER, "DP-EBM"),
    (FREE, "boosting without privacy"),
):
    axes[0].plot([], [], "--" if colour == FREE else "-", color=colour, label=name)
fig.legend(loc="outside lower center", ncols=4, fontsize=7, frameon=False)

if __name__ == "__main__":
    plt.show()
