"""Blocks of records for phased algorithms, drawn in a secret random order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from skdp.algorithms.plan import Run
from skdp.mechanisms import NoiseSource, random_order
from skdp.solvers.copying import require_copyable


def block_sizes(n_records: int, n_phases: int, decrease: float) -> list[int]:
    """Compute sizes of blocks that shrink by `decrease`; the first gets the rest."""
    shares = [decrease**-k for k in range(n_phases)]
    total = sum(shares)
    sizes = [int(n_records * share / total) for share in shares]
    sizes[0] += n_records - sum(sizes)
    return sizes


def block_remarks(sizes: Sequence[int], noise_scales: Iterable[float]) -> tuple[str, ...]:
    """Tell the sizes and the noise of several phases, for a report."""
    scales = ", ".join(f"{scale:.3g}" for scale in noise_scales)
    sentence = f"phases: {', '.join(map(str, sizes))} records with noise of scale {scales}"
    return (sentence,) if len(sizes) > 1 else ()


def assign_blocks(
    noise: NoiseSource,
    n_records: int,
    sizes: Sequence[int],
    strata: np.ndarray | None = None,
) -> np.ndarray:
    """Draw the block of each record; Lemma 1 of docs/theory/order.md.

    Records that are left over, fewer than there are blocks, have the number ``len(sizes)``. Blocks
    share equally in `strata`, *public* labels of the records.
    """
    shares = [*sizes, n_records - sum(sizes)]
    if len(shares) > 256:
        raise ValueError(f"{len(sizes)} blocks, must be at most 255.")
    if strata is not None and np.shape(strata) != (n_records,):
        raise ValueError(f"strata has shape {np.shape(strata)}, must be ({n_records},).")
    blocks = np.repeat(np.arange(len(shares), dtype=np.uint8), shares)
    order = random_order(n_records, noise)
    if strata is not None:
        order = order[np.argsort(strata[order], kind="stable")]
        # places of each block at equal distances, so that every stretch has its share of all blocks
        places = np.concatenate([(np.arange(m) + 0.5) / max(m, 1) for m in shares])
        blocks = blocks[np.argsort(places, kind="stable")]
    assignment = np.empty_like(blocks)
    assignment[order] = blocks
    return assignment


def phase_runs(
    run: Run, solver: Any, sizes: Sequence[int], n_units: int, strata: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray | None, Run]]:
    """Yield the units of each block, None for all, and its solver and randomness.

    Generators are drawn before the first phase, so that none affects another.
    """
    if len(sizes) > 1:
        require_copyable(solver)
    is_split = sizes[0] < n_units
    if is_split or strata is not None:
        assignment = assign_blocks(run.noise, n_units, sizes, strata)
    generators = [np.random.default_rng(run.rng.integers(2**63, size=4)) for _ in sizes]
    for k, generator in enumerate(generators):
        units = np.flatnonzero(assignment == k) if is_split else None
        yield units, Run(solver, generator, run.noise, run.verbose)
