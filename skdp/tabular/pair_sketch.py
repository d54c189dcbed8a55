"""A count sketch of all products of two features, and the products in its coefficients.

The sketch C of a vector phi is the circular convolution of two count sketches of it,

    C_k = sum over a, b with h_1(a) + h_2(b) = k (mod m) of s_1(a) s_2(b) phi_a phi_b,

so a linear function w of it is the quadratic form ``phi' Q phi`` with
``Q_ab = s_1(a) s_2(b) w_{(h_1(a) + h_2(b)) mod m}``: the effects of each pair of columns follow
from the coefficients by look-ups (docs/theory/tabular.md, Proposition 2). It is the sketch of Pham
and Pagh (2013).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

#: Of the hashes and signs; a constant of the package, public.
_KEY = 20261125


@dataclass(frozen=True)
class PairSketch:
    """Hashes and signs of a sketch, of shape (2, n_features)."""

    n_columns: int
    buckets: np.ndarray
    signs: np.ndarray

    @classmethod
    def of(cls, n_features: int, n_columns: int) -> PairSketch:
        """Draw hashes and signs, the same ones for ever.

        The raw stream of a bit generator is promised by numpy; draws of distributions are not.
        """
        raw = np.random.Philox(_KEY).random_raw(4 * n_features).reshape(n_features, 4).T
        buckets = (raw[:2] % np.uint64(n_columns)).astype(np.intp)
        signs = 1.0 - 2.0 * (raw[2:] >> np.uint64(63)).astype(np.float64)
        return cls(n_columns, buckets, signs)

    def of_rows(self, phi: np.ndarray) -> np.ndarray:
        """Convolve the two count sketches of each column of phi, shape (n_rows, n_columns)."""
        m, n = self.n_columns, len(phi)
        entries = zip(self.signs, self.buckets, strict=True)
        counts = (sp.csr_array((s, (at, np.arange(n))), shape=(m, n)) for s, at in entries)
        first, second = (np.fft.rfft(np.ascontiguousarray((each @ phi).T)) for each in counts)
        return np.fft.irfft(first * second, m)

    def quadratic_form(self, coef: np.ndarray) -> np.ndarray:
        """Return Q with ``coef @ C(phi) == phi @ Q @ phi``, shape (n_features, n_features)."""
        at = (self.buckets[0][:, None] + self.buckets[1]) % self.n_columns
        return np.asarray(coef[at] * self.signs[0][:, None] * self.signs[1])
