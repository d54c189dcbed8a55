"""The constant of log odds after solves (docs/theory/preparation.md, section 4)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skdp.algorithms.core.constant_model import ConstantModel
from skdp.algorithms.legacy_solves.undo import Curvature


class SolvedConstant(ConstantModel):
    """The same, for weights of prepared rows."""

    def around(self, curvature: Curvature) -> Callable[[np.ndarray], np.ndarray]:
        """Return the function that tells by how much the margins of the mean row differ from these.

        Weights of features, shape (n_outputs, n_features), and margins are in the coordinates of a
        curvature of prepared rows. Each search starts where the last one has ended, and leaves the
        mean second derivative there.
        """
        outputs = curvature.outputs

        def away(weights: np.ndarray) -> np.ndarray:
            covariance = outputs @ ((weights * curvature.moments) @ weights.T) @ outputs.T
            self._last, self.curvature = self.offsets(covariance, self._last)
            return outputs.T @ (self._last - self._margins)

        return away
