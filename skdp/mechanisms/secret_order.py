"""Secret orders of records: positions must not decide what happens to a record.

A data set is a multiset. Where an algorithm divides records into blocks, folds, phases or batches,
a table that is kept sorted would move all records when one is replaced. So the order is drawn from
the source of the privacy noise, fresh in every fit, and as secret as the noise
(docs/theory/order.md).
"""

from __future__ import annotations

import numpy as np

from skdp.mechanisms.noise_source import NoiseSource


def random_order(n_records: int, noise: NoiseSource) -> np.ndarray:
    """Draw a uniformly random order (Lemma 1 of docs/theory/order.md).

    It holds every position once: the ranks of random 64-bit words, which are drawn again if they
    are not all different.
    """
    while True:
        words = noise.words(n_records)
        order = np.argsort(words, kind="stable")
        ranked = words[order]
        if not (ranked[1:] == ranked[:-1]).any():
            return order
