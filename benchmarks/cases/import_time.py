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
from typing import Any

IMPORTS = ("import sklearn.linear_model", "import skdp", "from skdp import DPLogisticRegression")
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


SHOWN = ["import", "skdp_seconds", "sklearn_seconds", "ratio_of_medians", "ratio_of_minima"]
