"""Draws pictures of the pages from ``benchmarks/results``: ``python docs/tools/figures.py``.

At most two panels, and letters of at least 9 points on a picture as wide as the text.
"""

import runpy
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

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
