"""Preprocessing with public constants: nothing is learned from the records."""

from skdp.preprocessing.bounded_scaler import BoundedScaler

__all__ = ["BoundedScaler"]
