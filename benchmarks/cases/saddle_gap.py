"""Saddle points: duality gap against n and epsilon, ours, the paper's constants, DP-SGDA tuned.

All methods have the same budget (delta = 1e-6) under replace-one neighbours and the same public
constants. Problems (`benchmarks/saddle_data.py`):

- ``bilinear, interior``: strong coupling, saddle point inside of the balls; ``bilinear, boundary``:
  weak coupling, saddle point on both spheres; ``bilinear, flat``: no coupling and mean offsets of
  the size of the privacy noise, the kind of instance that lower bounds are proven with;
- ``quadratic``: strongly convex and concave in some coordinates;
- ``groups``: worst of three groups' logistic losses; also its primal excess.

Gaps are strong ones, averaged over noise: exact, over the distribution of the records, which is
known, and over the records. Ours plan by public bounds. DP-SGDA has the best sampling rate, number
of steps and learning rates of a grid *for this very problem, n, epsilon and measure, without
privacy*, which flatters it; "by its bound" has public settings. "best mu in hindsight" is Alg. 3
with one joint release and mu_x = mu_y chosen by the measured mean, which is not private either.
Evaluations are operators of single records: counted for ours (certificates included; Hessians
beside them), ``n_steps * sampling_rate`` times n for DP-SGDA, whose tuning is not counted.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.saddle_data import Counter, Instance, bilinear, groups, quadratic, watched
from skdp.algorithms import (
    Run,
    dp_sgda,
    phased_saddle_output_perturbation,
    plan_saddle_output_perturbation,
)
from skdp.algorithms.baselines.sgda import plan_dp_sgda
from skdp.mechanisms import NoiseSource, calibrated_mechanism
from skdp.privacy import PrivacyBudget
from skdp.solvers import solve_certified

DELTA = 1e-6
PROBLEMS = (
    "bilinear, interior",
    "bilinear, boundary",
    "bilinear, flat",
    "quadratic",
    "groups",
)
JOINT, BOTH, PRIMAL = "ours, joint", "ours, Alg. 4 + Alg. 5", "ours, primal only"
PAPER, HINDSIGHT = "paper's constants", "Alg. 3, best mu in hindsight"
SGDA, BOUND = "DP-SGDA, tuned", "DP-SGDA by its bound"
METHODS = (JOINT, BOTH, PRIMAL, PAPER, HINDSIGHT, SGDA, BOUND)
COLORS = dict(zip(METHODS, ("C0", "C9", "C2", "0.6", "C4", "C3", "C1"), strict=True))
MARKERS = dict(zip(METHODS, "osD^vXP", strict=True))
#: Records in a batch: of the groups at least, or this share of n; of any problem at most.
_GROUP_BATCH, _GROUP_SHARE, _LARGEST_BATCH = 3_000, 0.01, 10_000
#: Records that one run with small batches may draw.
_MOST_RECORDS = 3_000_000
#: Next to no regularisation, as the algorithm is published.
NO_REGULARISER = 1e-9


@dataclass(frozen=True)
class Grid:
    """The sizes of a run."""

    n: tuple[int, ...]
    epsilons: tuple[float, ...]
    seeds: int
    tuning_seeds: int
    learning_rates: tuple[float, ...]
    steps: tuple[int, ...]
    more_steps: tuple[int, ...]  # where steps cost little
    sampling_rates: tuple[float, ...]  # tried with the best steps and learning rates
    alphas: int
    problems: tuple[str, ...] = PROBLEMS

    def seeds_at(self, n: int) -> int:
        return self.seeds if n < 1_000_000 else max(2, self.seeds // 2)


FULL = Grid(
    (1_000, 10_000, 100_000, 300_000, 1_000_000),
    (0.3, 1.0, 3.0),
    8,
    2,
    (0.1, 0.3, 1.0, 3.0, 10.0),
    (10, 30, 100, 300),
    (1_000, 3_000, 10_000),
    (0.1, 0.01),
    9,
)
QUICK = Grid((100, 300), (1.0,), 2, 1, (0.3,), (10,), (), (0.1,), 2, (*PROBLEMS[:1], *PROBLEMS[2:]))


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    grid = QUICK if options.quick else FULL
    return [
        row
        for name in grid.problems
        for n in grid.n
        # where records are costly, full decades only
        if name != "groups" or n < 1_000 or math.log10(n).is_integer()
        for row in rows_of(name, n, grid)
    ]


def rows_of(name: str, n: int, grid: Grid) -> Iterator[dict[str, Any]]:
    given = None
    for epsilon in grid.epsilons:
        budget = PrivacyBudget(epsilon, DELTA)
        start = time.perf_counter()
        if given is None or name == "bilinear, flat":
            given = make(name, n, budget)
        for found in (
            *(ours(given, budget, method, grid) for method in (JOINT, BOTH, PRIMAL, PAPER)),
            *(hindsight(given, budget, grid), by_bound(given, budget, grid)),
            tuned_sgda(given, budget, grid),
        ):
            for row in found:
                yield {"problem": name, "n": n, "epsilon": epsilon, "delta": DELTA} | row
        seconds = time.perf_counter() - start
        print(
            f"saddle_gap: {name}, n = {n}, epsilon = {epsilon:g}: {seconds:.1f} s", file=sys.stderr
        )


def make(name: str, n: int, budget: PrivacyBudget) -> Instance:
    kind = name.removeprefix("bilinear, ")
    if kind == "quadratic":
        return quadratic(n)
    if kind == "groups":
        return groups(n)
    # two offsets of length 1 at most that differ, in all coordinates
    scale = math.sqrt(calibrated_mechanism(budget, 2.0 * math.sqrt(2.0) / n).mean_square(7))
    return bilinear(kind, n, scale=scale)


# ---------------------------------------------------------------------------------- results


Pair = tuple[np.ndarray, "np.ndarray | None"]


def averaged(
    given: Instance, method: str, pairs: list[Pair], columns: dict[str, Any]
) -> list[dict[str, Any]]:
    """One row per measure."""
    measured = pd.DataFrame([given.measures(*pair) for pair in pairs])
    return [
        {
            "measure": measure,
            "method": method,
            "mean": float(values.mean()),
            "standard_error": float(values.std(ddof=1)) / math.sqrt(len(values)),
            "seeds": len(values),
        }
        | columns
        for measure, values in measured.items()
    ]


def noise_of(seed: int) -> NoiseSource:
    return NoiseSource(np.random.default_rng([seed, 77]).bytes)


def ours(given: Instance, budget: PrivacyBudget, method: str, grid: Grid) -> list[dict[str, Any]]:
    problem, n = given.problem, given.problem.n_records
    if method == PAPER and budget.epsilon >= 2.0:
        return [
            {"measure": measure, "method": method, "note": "its proof needs epsilon < 2"}
            for measure in given.measures(*problem.start())
        ]
    if method == PRIMAL and given.name != "groups":
        return []
    pairs: list[Pair] = []
    counts, plan = [], None
    for seed in range(grid.seeds_at(given.problem.n_records)):
        counter = Counter()
        own, noise, rng = watched(problem, counter), noise_of(seed), np.random.default_rng(seed)

        solve = partial(
            phased_saddle_output_perturbation, own, budget, run=Run(noise=noise, rng=rng)
        )

        if method == JOINT:
            result = solve(release="joint", utility=given.utility)
            pair, plan = (result.x, result.y), result.plan
        elif method == PRIMAL:
            result = solve(release="x", utility=given.utility)
            pair, plan = (result.x, None), result.plan
        else:
            options = {"calibration": "paper"} if method == PAPER else {"share": 0.5}
            first = solve(release="x", utility=given.utility, **options)
            pair, plan = (first.x, solve(release="y", **options).y), first.plan
        pairs.append(pair)
        counts.append((counter.operators / n, counter.hessians / n))
    assert plan is not None
    passes, hessians = np.mean(counts, axis=0)
    setting = (
        f"blocks={len(plan.block_sizes)} mu_1={plan.regularisation[0]:.2g} "
        f"nu={plan.other_regularisation:.2g} sigma={plan.noise_scales[-1]:.2g}"
    )
    return averaged(
        given, method, pairs, {"passes": passes, "hessian_passes": hessians, "setting": setting}
    )


def hindsight(given: Instance, budget: PrivacyBudget, grid: Grid) -> list[dict[str, Any]]:
    """One joint release of both blocks; mu_x = mu_y chosen by the measured mean."""
    tried = []
    # extragradient steps for weak regularisers would take longer than all the rest
    weakest = 1e-3 if given.solver == "extragradient" else 1e-4
    for mu in np.geomspace(weakest, 1.0, grid.alphas):
        problem = given.problem.with_regularisers(mu, mu)
        plan = plan_saddle_output_perturbation(problem.constants, budget)
        point = solve_certified(
            problem, 0.5 * plan.accuracy, given.solver, rng=np.random.default_rng(0)
        )
        pairs: list[Pair] = []
        for seed in range(grid.seeds_at(given.problem.n_records)):
            root = math.sqrt(mu)
            noisy = plan.mechanism.release(
                root * np.concatenate([point.x, point.y]), noise_of(seed)
            )
            x, y = np.split(noisy / root, [len(point.x)])
            pairs.append(problem.project(x, y))
        columns = {"setting": f"mu={mu:.2g}", "note": "not private: mu"}
        tried.append(averaged(given, HINDSIGHT, pairs, columns))
    return best_of(tried)


def best_of(candidates: Any) -> list[dict[str, Any]]:
    """Of several lists of rows, for each measure the row with the smallest mean."""
    rows = [row for candidate in candidates for row in candidate]
    measures = dict.fromkeys(row["measure"] for row in rows)
    return [
        min((row for row in rows if row["measure"] == measure), key=lambda row: row["mean"])
        for measure in measures
    ]


# ---------------------------------------------------------------------------------- DP-SGDA


@dataclass(frozen=True)
class Setting:
    """Hyper-parameters of one run."""

    sampling_rate: float
    n_steps: int
    rate_x: float
    rate_y: float

    def __str__(self) -> str:
        return (
            f"sampling_rate={self.sampling_rate:g} steps={self.n_steps} "
            f"learning_rates={self.rate_x:g},{self.rate_y:g}"
        )

    @property
    def passes(self) -> float:
        return self.n_steps * self.sampling_rate


def candidates(given: Instance, grid: Grid) -> list[Setting]:
    """Steps and learning rates; of the groups on samples, because passes take long there."""
    n, is_groups = given.problem.n_records, given.name == "groups"
    share = min(1.0, max(_GROUP_BATCH / n, _GROUP_SHARE)) if is_groups else 1.0
    ratios = (0.1, 1.0) if is_groups else (1.0,)
    # of the others a full operator is that of a mean, so that many steps are affordable
    steps = grid.steps if is_groups else grid.steps + grid.more_steps
    return [
        Setting(share, count, rate, rate * ratio)
        for count, rate, ratio in product(steps, grid.learning_rates, ratios)
    ]


def cheaper(best: Setting, n: int, grid: Grid) -> list[Setting]:
    """The same with smaller batches."""
    return [
        dataclasses.replace(best, sampling_rate=share)
        for share in grid.sampling_rates
        if 30 <= share * n <= _LARGEST_BATCH
        and share < best.sampling_rate
        and share * n * best.n_steps <= _MOST_RECORDS
    ]


def by_bound(given: Instance, budget: PrivacyBudget, grid: Grid) -> list[dict[str, Any]]:
    """Public settings: learning rates that minimise the classical bound on the gap of averages."""
    problem = given.problem.with_regularisers(NO_REGULARISER, NO_REGULARISER)
    c, steps = problem.constants, min(100, max(grid.steps))
    share = candidates(given, grid)[0].sampling_rate
    probe = plan_dp_sgda(
        c,
        budget,
        sampling_rate=share,
        n_steps=steps,
        learning_rate_x=1.0,
        learning_rate_y=1.0,
    )
    rates = []
    for block, scale in ((c.x, probe.noise_scale_x), (c.y, probe.noise_scale_y)):
        noise = math.sqrt(block.dimension) * scale / probe.expected_batch
        slowed = math.sqrt(steps) * math.hypot(block.lipschitz, noise)
        rates.append(0.5 * block.diameter / slowed)
    setting = Setting(share, steps, *rates)
    return descend(given, budget, setting, range(grid.seeds_at(c.n_records)), BOUND)


def descend(
    given: Instance, budget: PrivacyBudget, setting: Setting, seeds: range, method: str
) -> list[dict[str, Any]]:
    problem = given.problem.with_regularisers(NO_REGULARISER, NO_REGULARISER)
    pairs: list[Pair] = []
    for seed in seeds:
        result = dp_sgda(
            problem,
            budget,
            sampling_rate=setting.sampling_rate,
            n_steps=setting.n_steps,
            learning_rate_x=setting.rate_x,
            learning_rate_y=setting.rate_y,
            run=Run(noise=NoiseSource(np.random.default_rng([seed, 99]).bytes)),
        )
        pairs.append((result.x, result.y))
    columns = {"passes": setting.passes, "hessian_passes": 0.0, "setting": str(setting)}
    return averaged(given, method, pairs, columns)


def tuned_sgda(given: Instance, budget: PrivacyBudget, grid: Grid) -> list[dict[str, Any]]:
    """The best of the grid for each measure, run again with other noise."""
    n = given.problem.n_records
    tuning = range(1000, 1000 + grid.tuning_seeds)
    tried: dict[str, Setting] = {}
    rough: dict[str, list[dict[str, Any]]] = {}

    def attempt(each: Setting) -> None:
        if str(each) not in tried:
            tried[str(each)] = each
            rough[str(each)] = descend(given, budget, each, tuning, SGDA)

    for each in candidates(given, grid):
        attempt(each)
    for row in best_of(rough.values()):
        for each in cheaper(tried[row["setting"]], n, grid):
            attempt(each)
    best, rows = best_of(rough.values()), []
    seeds = range(grid.seeds_at(n))
    final = {
        key: descend(given, budget, tried[key], seeds, SGDA)
        for key in {row["setting"] for row in best}
    }
    for row in best:
        (again,) = (r for r in final[row["setting"]] if r["measure"] == row["measure"])
        # the cheapest of the settings that are about as good
        close = [
            tried[key].passes
            for key in tried
            for r in rough[key]
            if r["measure"] == row["measure"] and r["mean"] <= 1.2 * row["mean"]
        ]
        note = f"best of {len(tried)} settings, not private"
        rows.append(again | {"note": note, "cheapest_passes": min(close)})
    return rows


# ----------------------------------------------------------------------------------- output

_KEYS = ["problem", "measure", "n", "epsilon"]


def compared(table: pd.DataFrame) -> pd.DataFrame:
    """One row per problem, measure, n and epsilon: the better of ours against DP-SGDA."""
    rows = []
    for key, group in table[table["mean"].notna()].groupby(_KEYS, sort=False):
        means = group.set_index("method")
        mine = means.loc[[m for m in (JOINT, BOTH, PRIMAL) if m in means.index]]
        # ours is fixed beforehand: the joint release, or the primal one where that is measured
        name = PRIMAL if PRIMAL in mine.index else JOINT
        own, sgda = mine.loc[name], means.loc[SGDA]
        ratio = own["mean"] / sgda["mean"]
        error = ratio * math.hypot(
            own["standard_error"] / own["mean"], sgda["standard_error"] / sgda["mean"]
        )
        row = dict(zip(_KEYS, key, strict=True)) | {"ours": own["mean"], "DP-SGDA": sgda["mean"]}
        row |= {"ratio": ratio, "+-": 2.0 * error}
        row["both/SGDA"] = means["mean"].get(BOTH, math.nan) / sgda["mean"]
        row["paper/SGDA"] = means["mean"].get(PAPER, math.nan) / sgda["mean"]
        row["best mu/SGDA"] = means["mean"].get(HINDSIGHT, math.nan) / sgda["mean"]
        row["ours/SGDA bound"] = own["mean"] / means["mean"].get(BOUND, math.nan)
        row["passes ours"] = own["passes"] + own["hessian_passes"]
        row["passes SGDA"], row["cheapest"] = sgda["passes"], sgda["cheapest_passes"]
        rows.append(row)
    return pd.DataFrame(rows)


def verdict(row: Any) -> str:
    if row["ratio"] <= 1.0:
        return "at or below"
    return "level (within 2 standard errors)" if row["ratio"] - row["+-"] <= 1.0 else "above"


def summarise(table: pd.DataFrame) -> str:
    found = compared(table)
    found["verdict"] = [verdict(row) for _, row in found.iterrows()]
    large = found[found["n"] >= min(100_000, found["n"].max())]
    tally = (
        large.groupby(["problem", "measure"], sort=False)
        .agg(
            **{
                "points": ("ratio", "size"),
                "at or below": ("verdict", lambda v: (v == "at or below").sum()),
                "level": ("verdict", lambda v: v.str.startswith("level").sum()),
                "above": ("verdict", lambda v: (v == "above").sum()),
                "median ratio": ("ratio", "median"),
                "largest": ("ratio", "max"),
                "best mu/SGDA": ("best mu/SGDA", "median"),
                "ours/SGDA bound": ("ours/SGDA bound", "median"),
                "passes ours/SGDA": ("passes ours", lambda p: p.median()),
            }
        )
        .reset_index()
    )
    passes = large["passes ours"] / large["passes SGDA"]
    cheapest = large["passes ours"] / large["cheapest"]
    tally["passes ours/SGDA"] = (
        passes.groupby([large["problem"], large["measure"]], sort=False).median().to_numpy()
    )
    tally["/cheapest SGDA"] = (
        cheapest.groupby([large["problem"], large["measure"]], sort=False).median().to_numpy()
    )
    show = {"index": False, "float_format": "{:.3g}".format, "na_rep": "-"}
    shown = found[found["measure"].str.endswith("distribution")]
    return "\n".join(
        [
            "ours (joint; primal only for the primal excess) over tuned DP-SGDA, same budget;",
            "below 1 ours is better; +-: two standard errors",
            "passes: evaluations / n, Hessians included; cheapest: of settings within 20 % of the",
            f"best. Problems at n >= {large['n'].min()}:",
            tally.to_string(**show),
            "",
            "every point, over the distribution:",
            shown.drop(columns="measure")
            .assign(measure=shown["measure"].str.removesuffix(", distribution"))
            .to_string(**show),
        ]
    )


def plot(table: pd.DataFrame, path: Path) -> None:
    from matplotlib import pyplot as plt

    part = table[table["measure"].str.endswith("distribution") & table["mean"].notna()]
    lines = list(dict.fromkeys(zip(part["problem"], part["measure"], strict=True)))
    epsilons = sorted(part["epsilon"].unique())
    figure, axes = plt.subplots(
        len(lines),
        len(epsilons),
        figsize=(4.4 * len(epsilons) + 1.5, 3.0 * len(lines) + 0.8),
        squeeze=False,
        sharex=True,
    )
    for (problem, measure), panels in zip(lines, axes, strict=True):
        for epsilon, panel in zip(epsilons, panels, strict=True):
            chosen = part[
                (part["problem"] == problem)
                & (part["measure"] == measure)
                & (part["epsilon"] == epsilon)
            ]
            for method, curve in chosen.groupby("method", sort=False):
                panel.errorbar(
                    curve["n"],
                    curve["mean"],
                    yerr=2.0 * curve["standard_error"],
                    color=COLORS[method],
                    marker=MARKERS[method],
                    ms=4.5,
                    linewidth=1.2,
                    linestyle="--" if method == HINDSIGHT else "-",
                    label=method,
                )
            panel.set(xscale="log", yscale="log")
            panel.set_title(f"{problem}, epsilon = {epsilon:g}", fontsize=10)
        panels[0].set_ylabel(measure.removesuffix(", distribution"))
    for panel in axes[-1]:
        panel.set_xlabel("n")
    handles: dict[str, Any] = {}
    for panel in axes.ravel():
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.tight_layout(rect=(0, 0, 1, 1.0 - 0.7 / figure.get_figheight()))
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="upper center",
        ncols=2 * len(epsilons) + 1,
        frameon=False,
        fontsize=10,
    )
    figure.savefig(path, dpi=90)
    plt.close(figure)
