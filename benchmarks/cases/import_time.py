"""CPU time of ``import skdp`` against ``import sklearn.linear_model``, as a ratio.

Each import runs in a fresh process, the two in turn, so that a busy machine slows both. Modules are
compiled beforehand, as `pip` does when it installs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

MODULES = ("sklearn.linear_model", "skdp")
SCRIPT = """
import time
start = time.process_time()
import {module}
print(time.process_time() - start)
"""


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    repeats = 1 if options.quick else 10
    with tempfile.TemporaryDirectory() as cache:
        if options.quick:
            cache = sys.pycache_prefix or ""
        else:
            seconds("skdp", cache)  # compiles what both import
        pairs = [[seconds(module, cache) for module in MODULES] for _ in range(repeats)]
    theirs, mine = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratios = [second / first for first, second in pairs]
    return [
        {
            "repeats": repeats,
            "skdp_seconds": mine,
            "sklearn_seconds": theirs,
            "ratio_of_medians": mine / theirs,
            "ratio_min": min(ratios),
            "ratio_max": max(ratios),
        }
    ]


def seconds(module: str, cache: str) -> float:
    """CPU time of one import in a fresh process, with compiled modules in the folder `cache`."""
    variables = {
        key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(module=module)],
        env=variables
        | {"PYTHONPYCACHEPREFIX": cache, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def summarise(table: pd.DataFrame) -> str:
    columns = ["skdp_seconds", "sklearn_seconds", "ratio_of_medians", "ratio_min", "ratio_max"]
    return table[columns].to_string(index=False, float_format="{:.3g}".format)


def plot(table: pd.DataFrame, path: Path) -> None:
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots(figsize=(6.0, 2.0))
    axis.barh(MODULES, table[["sklearn_seconds", "skdp_seconds"]].iloc[0])
    axis.invert_yaxis()
    axis.set_xlabel("CPU seconds to import (median)")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
