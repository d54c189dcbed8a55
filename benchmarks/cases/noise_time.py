"""CPU time of a release on the grid against a plain draw of the same law, as a ratio.

The peers draw the same law in double precision: from the same kind of source (the secure bytes of
the system through the inverse distribution function, or numpy's generator for both), and by numpy's
generator for all. The least of many times, all in turn, so that a busy machine changes little.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
from scipy.special import ndtri

from benchmarks.tables import in_turn
from skdp.mechanisms import GaussianMechanism, NoiseSource, SphericalLaplaceMechanism

MECHANISMS = {
    "normal": GaussianMechanism(1.0, 1.0),
    "spherical Laplace": SphericalLaplaceMechanism(1.0, 1.0),
}


def run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    sizes, repeats = ((1000,), 2) if options.quick else ((1000, 100_000), 100)
    for law, size in product(MECHANISMS, sizes):
        seconds = best_times(law, size, repeats)
        for source in ("system", "numpy"):
            mine, peer = seconds["skdp", source], seconds["plain", source]
            yield {
                "law": law, "coordinates": size, "source": source, "repeats": repeats,
                "skdp_ms": 1e3 * mine, "plain_ms": 1e3 * peer, "ratio": mine / peer,
                "ratio_to_plain_numpy": mine / seconds["plain", "numpy"],
            }  # fmt: skip


def best_times(law: str, size: int, repeats: int) -> dict[tuple[str, str], float]:
    """Least CPU time of a release of each kind."""
    value = np.random.default_rng(0).normal(size=size)
    rng = np.random.default_rng(1)
    normals = {"system": system_normals, "numpy": rng.standard_normal}
    streams = {"system": os.urandom, "numpy": rng.bytes}
    calls: dict[tuple[str, str], Callable[[], Any]] = {}
    for source in normals:
        calls["skdp", source] = lambda source=source: MECHANISMS[law].release(
            value, NoiseSource(streams[source])
        )
        calls["plain", source] = lambda source=source: (
            value + plain(law, normals[source](size), rng)
        )
    return {name: seconds[:, 1].min() for name, seconds in in_turn(calls, repeats).items()}


def plain(law: str, normals: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Noise from normal draws; the norm of spherical noise is one Gamma draw."""
    if law == "normal":
        return normals
    return rng.gamma(normals.size) / np.linalg.norm(normals) * normals


def system_normals(size: int) -> np.ndarray:
    """Normal draws from the secure bytes of the system, 53 bits each."""
    words = np.frombuffer(os.urandom(8 * size), dtype=np.uint64) >> np.uint64(11)
    return ndtri((words + 0.5) * 2.0**-53)


SHOWN = ["law", "coordinates", "source", "skdp_ms", "plain_ms", "ratio", "ratio_to_plain_numpy"]
