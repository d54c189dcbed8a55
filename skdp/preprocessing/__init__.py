"""Preprocessing with public constants: nothing is learned from the records."""

from skdp.preprocessing.bounded_scaler import BoundedScaler
from skdp.preprocessing.bounded_splines import BoundedSplineTransformer

__all__ = ["BoundedScaler", "BoundedSplineTransformer"]
