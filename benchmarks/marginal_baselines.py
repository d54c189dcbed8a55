"""Baselines for private two-way marginals: Gaussian noise on all of them, and post-processing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from skdp.mechanisms import gaussian_noise_multiplier

Tables = dict[tuple[int, int], np.ndarray]


def marginals(codes: np.ndarray, sizes: Sequence[int]) -> Tables:
    """Shares of all pairs of columns."""
    tables = {}
    for a, b in itertools.combinations(range(len(sizes)), 2):
        cells = codes[:, a] * sizes[b] + codes[:, b]
        counts = np.bincount(cells, minlength=sizes[a] * sizes[b])
        tables[a, b] = counts.reshape(sizes[a], sizes[b]) / len(codes)
    return tables


def mean_distance(one: Tables, other: Tables) -> float:
    """Mean total-variation distance of the marginals."""
    return float(np.mean([0.5 * np.abs(one[key] - other[key]).sum() for key in one]))


def gaussian_histograms(
    exact: Tables, n_records: int, epsilon: float, delta: float, rng: np.random.Generator
) -> Tables:
    """Measure all marginals with Gaussian noise (replace-one neighbours); project each."""
    sensitivity = math.sqrt(2.0 * len(exact)) / n_records
    scale = sensitivity * gaussian_noise_multiplier(epsilon, delta)
    noisy = {key: table + scale * rng.standard_normal(table.shape) for key, table in exact.items()}
    return {key: simplex(table) for key, table in noisy.items()}


def consistent(tables: Tables, rounds: int = 30) -> Tables:
    """Make marginals agree on single columns, and project them, in turn.

    The single columns that all agree on are weighted by the inverse variances of sums of equally
    noisy cells.
    """
    columns = sorted({c for key in tables for c in key})
    for _ in range(rounds):
        for c in columns:
            own = [key for key in tables if c in key]
            sums = [tables[key].sum(axis=1 - key.index(c)) for key in own]
            widths = [tables[key].shape[1 - key.index(c)] for key in own]
            weights = np.array([1.0 / width for width in widths])
            agreed = np.average(sums, axis=0, weights=weights)
            for key, total, width in zip(own, sums, widths, strict=True):
                shift = np.expand_dims((agreed - total) / width, 1 - key.index(c))
                tables = {**tables, key: tables[key] + shift}
        tables = {key: simplex(table) for key, table in tables.items()}
    return tables


def simplex(table: np.ndarray) -> np.ndarray:
    """Project onto the distributions, in Euclidean distance."""
    ordered = np.sort(table.ravel())[::-1]
    excess = np.cumsum(ordered) - 1.0
    last = np.flatnonzero(ordered * np.arange(1, len(ordered) + 1) > excess)[-1]
    return np.maximum(table - excess[last] / (last + 1), 0.0)
