"""The pictures of the benchmarks: curves on panels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

#: Colour and line of a method.
Style = tuple[str, str]


def curves(
    table: pd.DataFrame,
    x: str,
    y: str,
    panel: str,
    line: str,
    *,
    error: str | None = None,
    styles: dict[str, Style] | None = None,
    log: str = "x",
    ylabel: str | None = None,
    columns: int = 4,
) -> Any:
    """Draw a panel for each value of `panel`, and on it a line for each value of `line`.

    Points are means of the rows with one `x`; their bars are the column `error`, or standard
    errors. Rows without a finite `x` are a level. `styles` chooses and orders the lines, `log` says
    which axes are logarithmic.
    """
    from matplotlib import pyplot as plt

    names = list(dict.fromkeys(table[panel]))
    n_columns = min(columns, len(names))
    n_rows = math.ceil(len(names) / n_columns)
    figure, axes = plt.subplots(
        n_rows, n_columns, figsize=(3.8 * n_columns, 3.2 * n_rows + 1.0), squeeze=False,
        layout="constrained",
    )  # fmt: skip
    if styles is None:
        lines = enumerate(dict.fromkeys(table[line]))
        styles = {name: (f"C{i % 10}", "-" if i < 10 else "--") for i, name in lines}
    handles: dict[str, Any] = {}
    for axis, name in zip(axes.flat, names, strict=False):
        part = table[(table[panel] == name) & table[y].notna()]
        for each, (color, dash) in styles.items():
            rows = part[part[line] == each]
            points = rows[np.isfinite(rows[x])].groupby(x)
            if len(points):
                spread = points[y].sem().fillna(0.0) if error is None else points[error].mean()
                handles[each] = axis.errorbar(
                    *(points[y].mean().index, points[y].mean(), spread.clip(lower=0.0)),
                    color=color, linestyle=dash, marker="o", markersize=3, linewidth=1,
                )  # fmt: skip
            elif len(rows):
                handles[each] = axis.axhline(rows[y].mean(), color=color, linestyle=dash, lw=0.8)
        axis.set(title=name, xlabel=x)
        if "x" in log:
            axis.set_xscale("log")
        if "y" in log:
            axis.set_yscale("log")
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    for row in axes:
        row[0].set_ylabel(y.replace("_", " ") if ylabel is None else ylabel)
    kept = [name for name in styles if name in handles]
    figure.legend(
        [handles[name] for name in kept], kept,
        loc="outside lower center", ncols=min(4, max(2, n_columns)), fontsize=8, frameon=False,
    )  # fmt: skip
    return figure
