"""What cases share: tables as files and as text, the few statistics, and times taken in turn.

A table is a CSV file. Its first line is a comment with what all rows have in common, the versions,
the machine and the settings of the run, so that the file can be read alone.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import math
import os
import platform
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

PACKAGES = ("skdp", "numpy", "scipy", "scikit-learn")


def write(table: pd.DataFrame, path: Path, options: argparse.Namespace) -> None:
    found = {name: importlib.metadata.version(name) for name in PACKAGES[1:]}
    import skdp  # may be a source tree that is not installed

    found = {"skdp": skdp.__version__} | found | {"python": platform.python_version()}
    found["machine"] = f"{platform.machine()}, {os.cpu_count()} cores"
    found |= {"threads": str(options.threads), "quick": str(options.quick)}
    with path.open("w") as file:
        file.write("# " + "; ".join(f"{key} {value}" for key, value in found.items()) + "\n")
        table.to_csv(file, index=False, float_format="%.6g")


def read(path: Path) -> pd.DataFrame:
    """Read a table; texts that are missing are empty."""
    table = pd.read_csv(path, skiprows=1)
    texts = table.select_dtypes(object).columns
    return table.fillna(dict.fromkeys(texts, ""))


def write_page(path: Path, text: str, mark: str | None = None) -> None:
    """Write a page, or its part between the two comments that begin and end `mark`."""
    if mark is not None:
        begin, end = f"<!-- {mark}: begin -->\n", f"<!-- {mark}: end -->"
        head, rest = path.read_text().split(begin)
        text = f"{head}{begin}\n{text.strip()}\n\n{end}{rest.split(end)[1]}"
    path.write_text(text)


def markdown(head: Iterable[Any], rows: Iterable[Iterable[Any]]) -> list[str]:
    """Return the lines of a table of a page."""
    head = list(head)
    lines = [head, *rows]
    text = ["| " + " | ".join(str(cell) for cell in line) + " |" for line in lines]
    return [text[0], "|---" * len(head) + "|", *text[1:]]


def show(table: pd.DataFrame, columns: list[str], digits: str = "{:.3g}") -> str:
    """Return the columns as text, without those that a table does not have."""
    present = [column for column in columns if column in table]
    return str(table[present].to_string(index=False, float_format=digits.format, na_rep="-"))


def standard_error(values: Any) -> float:
    """Return that of the mean; NaN for a single value."""
    values = np.asarray(values, dtype=float)
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan


def in_turn(works: dict[str, Callable[[], Any]], rounds: int) -> dict[str, np.ndarray]:
    """Return wall and processor seconds of each work, shape (rounds, 2).

    They run in turn, in one process, so that a busy machine slows all of them.
    """
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            start = time.perf_counter(), time.process_time()
            work()
            end = time.perf_counter(), time.process_time()
            seconds[name].append((end[0] - start[0], end[1] - start[1]))
    return {name: np.array(each) for name, each in seconds.items()}
