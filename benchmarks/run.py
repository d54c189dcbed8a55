"""Run benchmarks: ``python benchmarks/run.py [CASE ...]``; see README.md beside this file.

A case is a module of `benchmarks/cases` with

- ``run(options) -> iterable of dicts``: the rows of its table; `options` are the parsed arguments;
- ``SHOWN`` or ``summarise(table) -> str``: the columns, or the few lines, that are printed;
- ``FROM_SCORES`` (optional) if ``run`` makes the table from other files;
- ``page(table) -> str`` (optional): a page of the documentation, or its part ``MARK``.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import time
from collections.abc import Iterable, Iterator
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
    parser.add_argument("--redraw", action="store_true", help="measure nothing: read DIR's tables")
    parser.add_argument("--page", type=Path, metavar="PATH", help="write the case's page, or part")
    parser.add_argument("--seeds", type=int, default=10, help="splits of each data set")
    parser.add_argument("--threads", type=int, default=1, help="threads of BLAS and OpenMP")
    parser.add_argument("--adult", metavar="PATH", help="UCI Adult as CSV")
    parser.add_argument("--california", metavar="PATH", help="California housing as CSV")
    parser.add_argument("--rdatasets", metavar="DIR", help="R's tables (costs, tabular, suite)")
    parser.add_argument("--only", choices=["skdp", "peers"], help="linear_table: fit these alone")
    parser.add_argument("--ebm-python", metavar="PATH", help="with interpret-core (tabular)")
    parser.add_argument("--side", action="append", metavar="LABEL:KEY=VALUE,...", help="suite")
    parser.add_argument("--sets", metavar="NAMES", help="suite, ablation: these alone, between ';'")
    parser.add_argument("--first-seed", type=int, default=0, help="suite, ablation")
    parser.add_argument("--jobs", type=int, help="suite, ablation, intervals: processes")
    options = parser.parse_args(arguments)
    unknown = set(options.cases) - set(names)
    if unknown:
        parser.error(f"unknown case {sorted(unknown)}, there are {names}")
    options.cases = options.cases or names
    return options


def run_case(name: str, case: ModuleType, options: argparse.Namespace) -> None:
    """Run or read one case: write its table and its page, print a summary."""
    import pandas as pd

    from benchmarks import tables

    start, path = time.perf_counter(), options.out / f"{name}.csv"
    if options.redraw and not hasattr(case, "FROM_SCORES"):
        table = tables.read(path)
    else:
        table = pd.DataFrame(reported(name, case.run(options)))
        tables.write(table, path, options)
    if options.page is not None:
        tables.write_page(options.page, case.page(table), getattr(case, "MARK", None))
    print(f"\n=== {name}: {len(table)} rows, {time.perf_counter() - start:.0f} s\n")
    summary = getattr(case, "summarise", None) or (lambda table: tables.show(table, case.SHOWN))
    print(summary(table), flush=True)


def reported(name: str, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Pass rows on, and name the latest one from time to time."""
    start = last = time.perf_counter()
    for i, row in enumerate(rows, 1):
        yield row
        if (now := time.perf_counter()) - last > 5.0:
            cell = ", ".join(str(value) for value in list(row.values())[:5])
            print(f"{name}: {now - start:.0f} s, row {i}: {cell}", file=sys.stderr, flush=True)
            last = now


if __name__ == "__main__":
    main()
