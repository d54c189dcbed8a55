"""CPU time to import an estimator of skdp against ``import sklearn.linear_model``, as a ratio.

``import skdp`` alone loads nothing else until an estimator is asked for. Each import runs in a
fresh process, all in turn, so that a busy machine slows each. Modules are compiled beforehand, as
`pip` does when it installs.
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

IMPORTS = (
    "import sklearn.linear_model",
    "import skdp",
    "from skdp import DPLogisticRegression",
)
SCRIPT = """
import time
start = time.process_time()
{statement}
print(time.process_time() - start)
"""


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    repeats = 1 if options.quick else 15
    with tempfile.TemporaryDirectory() as cache:
        if options.quick:
            cache = sys.pycache_prefix or ""
        else:
            seconds(IMPORTS[-1], cache)  # compiles what all import
        times = [[seconds(line, cache) for line in IMPORTS] for _ in range(repeats)]
    theirs, *ours = zip(*times, strict=True)
    return [
        {
            "import": line,
            "repeats": repeats,
            "skdp_seconds": statistics.median(mine),
            "sklearn_seconds": statistics.median(theirs),
            "ratio_of_medians": statistics.median(mine) / statistics.median(theirs),
            "ratio_of_minima": min(mine) / min(theirs),
        }
        for line, mine in zip(IMPORTS[1:], ours, strict=True)
    ]


def seconds(statement: str, cache: str) -> float:
    """CPU time of one import in a fresh process, with compiled modules in the folder `cache`."""
    variables = {
        key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(statement=statement)],
        env=variables
        | {"PYTHONPYCACHEPREFIX": cache, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def summarise(table: pd.DataFrame) -> str:
    columns = ["import", "skdp_seconds", "sklearn_seconds", "ratio_of_medians", "ratio_of_minima"]
    return table[columns].to_string(index=False, float_format="{:.3g}".format)


def plot(table: pd.DataFrame, path: Path) -> None:
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots(figsize=(6.0, 2.0))
    axis.barh(IMPORTS, [table["sklearn_seconds"].iloc[0], *table["skdp_seconds"]])
    axis.invert_yaxis()
    axis.set_xlabel("CPU seconds to import (median)")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
