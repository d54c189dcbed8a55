"""Private synthetic data."""

from skdp.synthetic.synthetic_data import DPSyntheticData

__all__ = ["DPSyntheticData"]
