"""Preprocessing with public constants, and with private moments and quantiles."""

from skdp.preprocessing.bounded_scaler import BoundedScaler
from skdp.preprocessing.bounded_splines import BoundedSplineTransformer
from skdp.preprocessing.quantile_ranges import private_ranges
from skdp.preprocessing.standard_scaler import DPStandardScaler

__all__ = ["BoundedScaler", "BoundedSplineTransformer", "DPStandardScaler", "private_ranges"]
