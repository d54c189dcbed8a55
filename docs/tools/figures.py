"""Draws pictures of the pages from ``benchmarks/results``: ``python docs/tools/figures.py``.

At most two panels, and letters of at least 9 points on a picture as wide as the text.
"""

import runpy
from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

ROOT = Path(__file__).parents[2]
#: Colours of Okabe and Ito, told apart by everybody; markers tell curves apart in print.
STYLES = (("#0072b2", "o"), ("#d55e00", "s"), ("#009e73", "^"), ("#cc79a7", "D"))


def draw(name: str, ylabel: str, panels: Mapping[str, Mapping[str, pd.Series]]) -> None:
    """A panel for each title, a curve over epsilon for each name, one legend below."""
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
            ticks = next(iter(curves.values())).index
            axis.set(title=title, xlabel="epsilon", xscale="log")
            axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axis.minorticks_off()
            axis.grid(alpha=0.3)
        axes[0, 0].set_ylabel(ylabel)
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
        path = ROOT / "docs" / "images" / f"{name}.svg"
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)


def curves(
    table: str, column: str, names: Mapping[str, str], **values: object
) -> dict[str, pd.Series]:
    """Curves of methods over epsilon from 0.1 to 10, under the names that a picture shows.

    Of several settings of a method the best one counts.
    """
    rows = pd.read_csv(ROOT / "benchmarks" / "results" / f"{table}.csv", skiprows=1)
    rows = rows[rows["epsilon"].between(0.1, 10)]
    for name, value in values.items():
        rows = rows[rows[name] == value]
    return {
        shown: rows[rows["method"] == method].groupby("epsilon")[column].max()
        for method, shown in names.items()
    }


def comparison() -> None:
    """The picture of README.md: that of the gallery."""
    plt.switch_backend("agg")
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": "skdp", "font.size": 9}):
        runpy.run_path(str(ROOT / "examples" / "plot_comparison.py"))
        plt.savefig(ROOT / "docs" / "images" / "comparison.svg", metadata={"Date": None})
        plt.close("all")


if __name__ == "__main__":
    comparison()
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
            title: curves("worst_group", "worst_accuracy", groups, part="scores", data=name)
            for name, title in data.items()
        },
    )
    models = {
        "splines, add_remove": "splines",
        "linear, add_remove": "linear model",
        "DP-EBM": "DP-EBM",
        "DP-SGD, linear, best setting": "DP-SGD, tuned on the test data",
    }
    draw(
        "splines",
        "accuracy, or R2",
        {
            title: curves("nonlinear", "mean", models, dataset=name)
            for name, title in (("adult", "Adult, accuracy"), ("california", "California, R2"))
        },
    )
