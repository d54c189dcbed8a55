"""
Against tuned DP-SGD and diffprivlib
====================================

Test scores on three tables, from the committed results of ``benchmarks/run.py linear_table``. Our
models have no settings. DP-SGD is shown twice: with the best of 24 settings, *chosen on the test
data* of each cell, and with the setting that was best on other data sets, which is what somebody
without test data has.
"""

# %%
# Read the table. Every cell is the mean of several splits; delta is 1e-5 or 1e-6, neighbours differ
# in one record replaced.
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

here = Path(globals().get("__file__", "plot_comparison.py")).resolve()
root = here.parents[1]
scores = pd.read_csv(root / "benchmarks" / "results" / "linear_table.csv", skiprows=1)
panels = {
    "Adult": ("adult", "accuracy", (0.72, 0.86)),
    "digits": ("digits", "accuracy", (0.0, 1.0)),
    "California": ("california", "R2", (0.3, 0.72)),
}
methods = {
    "skdp": ("skdp", "#0072b2", "-o"),
    "DP-SGD, best of 24 settings on the test data": ("DP-SGD, best setting", "#d55e00", "-s"),
    "DP-SGD, setting of other data sets": ("DP-SGD, other sets' setting", "#d55e00", ":s"),
    "diffprivlib": ("diffprivlib", "#009e73", "--^"),
}

# %%
# One panel for each table; the grey line is scikit-learn without privacy.
figure, axes = plt.subplots(1, 3, figsize=(6.4, 3.0), layout="constrained")
for axis, (title, (name, score, limits)) in zip(axes, panels.items(), strict=True):
    rows = scores[(scores["dataset"] == name) & (scores["metric"] == score)]
    private = rows[(rows["relation"] == "replace_one") & rows["epsilon"].between(0.1, 10)]
    for label, (method, colour, style) in methods.items():
        curve = private[private["method"] == method].groupby("epsilon")["mean"].max()
        axis.plot(curve.index, curve, style, color=colour, markersize=4, label=label)
    plain = float(rows.loc[rows["method"] == "no privacy", "mean"].mean())
    axis.axhline(plain, color="0.5", linewidth=1, label="no privacy")
    axis.set(title=title, xlabel="epsilon", ylabel=score, xscale="log", ylim=limits)
    axis.set_xticks([0.1, 1, 10], ["0.1", "1", "10"])
    axis.minorticks_off()
    axis.grid(alpha=0.3)
handles, labels = axes[0].get_legend_handles_labels()
figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
plt.show()
