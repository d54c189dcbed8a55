"""Run benchmarks: ``python benchmarks/run.py [CASE ...]``; see README.md beside this file.

A case is a module of `benchmarks/cases` with

- ``run(options) -> list of dicts``: the rows of its table; `options` are the parsed arguments;
- ``summarise(table) -> str`` (optional): the few lines that are printed;
- ``plot(table, path)`` (optional): writes a figure.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import os
import pkgutil
import platform
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent


def main(arguments: list[str] | None = None) -> None:
    sys.path.insert(0, str(HERE.parent))  # cases are modules of the package `benchmarks`
    names = sorted(module.name for module in pkgutil.iter_modules([str(HERE / "cases")]))
    options = parse(arguments, names)
    cases = {name: importlib.import_module(f"benchmarks.cases.{name}") for name in options.cases}
    if options.list:
        for name, case in cases.items():
            print(f"{name:12} {(case.__doc__ or '').splitlines()[0]}")
        return

    import threadpoolctl  # after the cases: it limits the libraries that they have loaded

    options.out.mkdir(parents=True, exist_ok=True)
    with threadpoolctl.threadpool_limits(options.threads):
        for name, case in cases.items():
            run_case(name, case, options)


def parse(arguments: list[str] | None, names: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"default: all of {names}")
    parser.add_argument("--list", action="store_true", help="list the cases and stop")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it works")
    parser.add_argument("--out", type=Path, default=HERE / "results", metavar="DIR")
    parser.add_argument("--seeds", type=int, default=10, help="splits of each data set")
    parser.add_argument("--threads", type=int, default=1, help="threads of BLAS and OpenMP")
    parser.add_argument("--adult", metavar="PATH", help="UCI Adult as CSV")
    parser.add_argument("--california", metavar="PATH", help="California housing as CSV")
    parser.add_argument("--rdatasets", metavar="DIR", help="tables of pydataset (linear_real)")
    parser.add_argument(
        "--only",
        choices=["skdp", "peers", "page"],
        help="linear_table, synthetic: fit this side alone, and keep the results of the other",
    )
    parser.add_argument("--page", metavar="PATH", help="linear_table, worst_group: write the page")
    parser.add_argument(
        "--ebm-python",
        metavar="PATH",
        help="Python that has interpret-core, for DP-EBM (nonlinear)",
    )
    parser.add_argument("--dpmm-python", metavar="PATH", help="Python that has dpmm (synthetic)")
    options = parser.parse_args(arguments)
    unknown = set(options.cases) - set(names)
    if unknown:
        parser.error(f"unknown case {sorted(unknown)}, there are {names}")
    options.cases = options.cases or names
    return options


def run_case(name: str, case: ModuleType, options: argparse.Namespace) -> None:
    """Run one case; write ``<name>.csv`` and, if it can be drawn, ``<name>.png``."""
    import pandas as pd

    start = time.perf_counter()
    table = pd.DataFrame([row | environment(options) for row in case.run(options)])
    table.to_csv(options.out / f"{name}.csv", index=False, float_format="%.6g")
    if hasattr(case, "plot"):
        import matplotlib

        matplotlib.use("Agg")
        case.plot(table, options.out / f"{name}.png")
    print(f"\n=== {name}: {len(table)} rows, {time.perf_counter() - start:.0f} s\n")
    if hasattr(case, "summarise"):
        print(case.summarise(table), flush=True)


def environment(options: argparse.Namespace) -> dict[str, Any]:
    """What a row needs to be read alone: versions and the machine."""
    import skdp

    return {
        "skdp": skdp.__version__,
        **{name: version(name) for name in ("numpy", "scipy", "scikit-learn", "diffprivlib")},
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "threads": options.threads,
        "quick": options.quick,
    }


def version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


if __name__ == "__main__":
    main()
