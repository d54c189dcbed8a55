"""Noisy proportions of the groups: how far one record moves them."""

from __future__ import annotations

import math

from skdp.problems.rounding import EPS


def proportions_sensitivity(n_records: int) -> float:
    """Bound the distance of the groups' proportions in neighbouring records, as computed.

    A record that changes its group changes two counts by 1, and each of the two quotients is
    rounded, by at most ``EPS / 2`` for each of the neighbours.
    """
    return math.sqrt(2.0) * ((1.0 + 1e-12) / n_records + EPS)
