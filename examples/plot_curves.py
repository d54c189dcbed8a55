"""
Effects that rise and fall
==========================

A private model of invented customers, and the curves, bars and surfaces that it is a sum of. They
are functions of what was released: drawing them costs nothing.
"""

# %%
# Customers leave early or late, if their contract allows it, and if high charges meet a short
# tenure. Some tenures are not known.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import DPTabularClassifier, Number
from skdp.inspection import PartialEffectDisplay, feature_importance

rng = np.random.default_rng(0)
n = 20_000
tenure = np.clip(rng.gamma(2, 15, n), 0, 72)
frame = pd.DataFrame(
    {
        "tenure": np.where(rng.random(n) < 0.05, np.nan, tenure),
        "charges": rng.uniform(18, 120, n),
        "contract": rng.choice(["monthly", "one year", "two years"], n, p=[0.55, 0.2, 0.25]),
    }
)
score = (
    1.0
    - tenure / 20
    + 1.5 * np.exp(-(((tenure - 48) / 8) ** 2))
    + 1.2 * (frame["contract"] == "monthly")
    + (frame["charges"] > 80) * (tenure < 20)
)
left = rng.logistic(size=n) < score

# %%
# What is public of each column is declared once. The seed is only for this page: leave it out
# where privacy matters.

columns = {
    "tenure": Number(0, 72, missing=True),
    "charges": (18, 120),
    "contract": ["monthly", "one year", "two years"],
}
model = DPTabularClassifier(
    epsilon=1.0, columns=columns, classes=[False, True], random_state=0
).fit(frame, left)
print(model.privacy_)

# %%
# The true curve of the tenure has a second rise at 48 months, which no straight line follows. The
# dashed line is the effect of a tenure that is missing.

fig, axes = plt.subplots(2, 2, figsize=(6.4, 5.4), layout="constrained")
terms = ["tenure", "contract", "charges", ("tenure", "charges")]
display = PartialEffectDisplay.from_estimator(model, terms, ax=axes)
axes[0, 0].plot(
    months := np.linspace(0, 72, 100),
    (truth := 1.5 * np.exp(-(((months - 48) / 8) ** 2)) - months / 20) - truth.mean(),
    color="0.5",
    linestyle=":",
    label="invented",
)
axes[0, 0].legend(fontsize=8)

# %%
# One number for each effect: its root mean square over the declared range.

for name, size in feature_importance(model).items():
    print(f"{' x '.join(name) if isinstance(name, tuple) else name:22s} {size:.2f}")

if __name__ == "__main__":
    plt.show()
