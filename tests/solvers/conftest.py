"""``SKDP_PERTURB=<seed>``: the solver tests on inputs and products that differ in the last bits.

Another CPU rounds sums and ``exp`` otherwise, and no solver may need luck with that. A relative
change of up to 1e-15 stands for it: of the entries of the rows, of margins and residuals, and of
the points where bilinear saddle functions are evaluated. It depends on the number and the seed
alone, so functions remain functions, dense and CSR rows remain equal, and duplicates remain
duplicates. Certificates allow for more than that.
"""

import os

import numpy as np
import pytest

from skdp.problems import BilinearProblem, Records
from skdp.problems.block import Block

SEED = int(os.environ.get("SKDP_PERTURB", "0"))


def nudged(values, seed=SEED):
    """The numbers times ``1 + 1e-15 h`` with h in [-1, 1] a function of the number and the seed."""
    mantissa, exponent = np.frexp(values)
    return values * (1.0 + 1e-15 * np.sin(1e9 * seed * mantissa + exponent))


@pytest.fixture(autouse=SEED != 0)
def perturbation(monkeypatch):
    make, margins, pull_back = Records.__init__, Block.margins, Block.pull_back
    operator, batch_operator = BilinearProblem.data_operator, BilinearProblem.batch_operator

    def make_nudged(self, X, *args, **kwargs):
        if X.dtype == np.float64:
            X = X.copy()
            if isinstance(X, np.ndarray):
                X[...] = nudged(X)
            else:
                X.data[...] = nudged(X.data)
        make(self, X, *args, **kwargs)

    monkeypatch.setattr(Records, "__init__", make_nudged)
    monkeypatch.setattr(Block, "margins", lambda self, w: nudged(margins(self, w)))
    monkeypatch.setattr(Block, "pull_back", lambda self, r: pull_back(self, nudged(r)))
    monkeypatch.setattr(
        BilinearProblem, "data_operator", lambda self, x, y: operator(self, nudged(x), nudged(y))
    )
    monkeypatch.setattr(
        BilinearProblem,
        "batch_operator",
        lambda self, rows, x, y: batch_operator(self, rows, nudged(x), nudged(y)),
    )
