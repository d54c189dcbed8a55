"""Draws pictures of the pages from ``benchmarks/results``: ``python docs/tools/figures.py``.

At most two panels, and letters of at least 9 points on a picture as wide as the text.
"""

import importlib
import runpy
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import DPLogisticRegression

ROOT = Path(__file__).parents[2]
#: Colours of Okabe and Ito, told apart by everybody; markers tell curves apart in print.
STYLES = (("#0072b2", "o"), ("#d55e00", "s"), ("#009e73", "^"), ("#cc79a7", "D"))


def draw(
    name: str,
    ylabel: str,
    panels: Mapping[str, Mapping[str, pd.Series]],
    yticks: Sequence[float] = (),
) -> None:
    """A panel for each title, a curve for each name, one legend below.

    The x axis is epsilon; the y axis is logarithmic where it has ticks of its own.
    """
    rc = {
        "font.size": 10,
        "svg.fonttype": "none",
        "svg.hashsalt": "skdp",
        "font.family": "sans-serif",
    }
    with plt.rc_context(rc):
        figure, axes = plt.subplots(
            1, len(panels), figsize=(6.4, 3.4), layout="constrained", squeeze=False
        )
        for axis, (title, curves) in zip(axes[0], panels.items(), strict=True):
            for (label, curve), (colour, marker) in zip(curves.items(), STYLES, strict=False):
                axis.plot(curve.index, curve, color=colour, marker=marker, label=label)
            axis.set(title=title, xlabel="epsilon", xscale="log")
            ticks = next(iter(curves.values())).index
            axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            if yticks:
                axis.set(yscale="log")
                axis.set_yticks(yticks, [f"{tick:g}" for tick in yticks])
            axis.minorticks_off()
            axis.grid(alpha=0.3)
        axes[0, 0].set_ylabel(ylabel)
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
        path = ROOT / "docs" / "images" / f"{name}.svg"
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)


def table(name: str, **values: object) -> pd.DataFrame:
    """The rows of a table of ``benchmarks/results`` that have these values."""
    rows = pd.read_csv(ROOT / "benchmarks" / "results" / f"{name}.csv", skiprows=1)
    for column, value in values.items():
        rows = rows[rows[column] == value]
    return rows


def curves(
    rows: pd.DataFrame, column: str, names: Mapping[str, str], best: str = "max"
) -> dict[str, pd.Series]:
    """Curves of methods, under the names that a picture shows; epsilon from 0.1 to 10.

    Of several rows at one place the best counts, or their mean.
    """
    rows = rows[rows["epsilon"].between(0.1, 10)]
    return {
        shown: rows[rows["method"] == method].groupby("epsilon")[column].agg(best)
        for method, shown in names.items()
    }


def comparison() -> None:
    """The picture of README.md: that of the gallery."""
    plt.switch_backend("agg")
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": "skdp", "font.size": 9}):
        runpy.run_path(str(ROOT / "examples" / "plot_comparison.py"))
        plt.savefig(ROOT / "docs" / "images" / "comparison.svg", metadata={"Date": None})
        plt.close("all")


def intervals() -> None:
    """Intervals beside those of statsmodels without privacy: 6,366 answers on affairs."""
    sm = importlib.import_module("statsmodels.api")
    X = sm.datasets.fair.load_pandas().data
    y = (X.pop("affairs") > 0).astype(int)
    low = pd.Series([1, 15, 0, 0, 1, 8, 1, 1], X.columns)
    high = pd.Series([5, 45, 25, 6, 4, 20, 6, 6], X.columns)
    X = 2 * (X - low) / (high - low) - 1
    plain = sm.Logit(y, sm.add_constant(X)).fit(disp=0).conf_int()[1:]
    found = {"without privacy (statsmodels)": plain}
    for epsilon in (3.0, 1.0):
        model = DPLogisticRegression(
            epsilon, data_norm=2.0, classes=[0, 1], intervals=True, random_state=0
        ).fit(X, y)
        ends = model.coef_interval().to_frame()[["low", "high"]]
        found[f"epsilon {epsilon:g}"] = ends
    with plt.rc_context({"font.size": 10, "svg.fonttype": "none", "svg.hashsalt": "skdp"}):
        figure, axis = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
        for i, ((label, ends), (colour, marker)) in enumerate(
            zip(found.items(), STYLES, strict=False)
        ):
            low, high = ends.to_numpy().T
            axis.errorbar(
                0.5 * (low + high),
                np.arange(len(low)) + 0.24 * (i - 1),
                xerr=0.5 * (high - low),
                fmt=marker,
                color=colour,
                markersize=4,
                label=label,
            )
        axis.axvline(0.0, color="0.6", linewidth=1)
        axis.set_yticks(range(X.shape[1]), X.columns)
        axis.invert_yaxis()
        axis.set_xlabel("change of the log odds over half of a column's range, 95 % intervals")
        figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=9)
        figure.savefig(ROOT / "docs" / "images" / "intervals.svg", metadata={"Date": None})
        plt.close(figure)


def costs() -> None:
    """What is left of the gain over a constant, against records times epsilon, on real tables."""
    rows = table("costs", part="all")
    rows = rows[rows["metric"].isin(["ROC AUC", "R2"])]
    private = rows[rows["method"] == "planned"]
    others = rows.drop(private.index).pivot(index="dataset", columns="method", values="score")
    private = private.join(others, on="dataset")
    free = private[["no privacy, boosting", "no privacy, linear"]].max(axis=1)
    kept = (private["score"] - private["constant"]) / (free - private["constant"])
    with plt.rc_context({"font.size": 10, "svg.fonttype": "none", "svg.hashsalt": "skdp"}):
        figure, axis = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
        for metric, (colour, marker) in zip(("ROC AUC", "R2"), STYLES, strict=False):
            of = private["metric"] == metric
            size = private["n_train"][of] * private["epsilon"][of]
            axis.plot(size, kept[of], marker, color=colour, markersize=5, alpha=0.8, label=metric)
        axis.axhline(1.0, color="0.6", linewidth=1)
        axis.axhline(0.0, color="0.6", linewidth=1)
        axis.set(xscale="log", ylim=(min(-0.05, 1.1 * kept.min()), max(1.1, 1.05 * kept.max())))
        ticks = 10 ** np.arange(2, 6)
        axis.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axis.minorticks_off()
        axis.set(xlabel="training records times epsilon", ylabel="part of the gain that is kept")
        axis.legend(loc="lower right", frameon=False)
        figure.savefig(ROOT / "docs" / "images" / "costs.svg", metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    comparison()
    intervals()
    costs()
    groups = {
        "plain": "DPLogisticRegression",
        "private sizes": "DPMaxGroupLossClassifier",
        "DP-SGDA, tuned": "DP-SGDA, tuned on the test data",
    }
    data = {"conflict": "Contradicting minority", "Adult": "Adult"}
    draw(
        "worst_group",
        "accuracy of the worst group",
        {
            title: curves(table("worst_group", part="scores", data=name), "worst_accuracy", groups)
            for name, title in data.items()
        },
    )
    answers = {
        "DPSyntheticData, answers": "DPSyntheticData, answers",
        "DPSyntheticData, sample": "DPSyntheticData, sample",
        "Gaussian histograms, consistent": "noisy marginals, consistent",
    }
    draw(
        "synthetic",
        "distance of two-way marginals",
        {
            "Adult, nine columns": curves(
                table("synthetic", part="marginals"), "value", answers, best="mean"
            )
        },
        yticks=(0.002, 0.005, 0.01, 0.02, 0.03),
    )
