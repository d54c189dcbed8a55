"""Calibrated noise: mechanisms know sensitivities and budgets, never data.

They hold the only random draws that count for privacy.
"""

from skdp.mechanisms.additive import (
    AdditiveMechanism,
    GaussianMechanism,
    SphericalLaplaceMechanism,
    calibrated_mechanism,
)
from skdp.mechanisms.calibration import Calibration, gaussian_noise_multiplier
from skdp.mechanisms.noise_source import NoiseSource, noise_source_name, secure_noise
from skdp.mechanisms.opendp_source import OpenDPNoise, opendp_noise
from skdp.mechanisms.sampled_gaussian import SampledGaussianMechanism
from skdp.mechanisms.secret_order import random_order
from skdp.mechanisms.softmax import SoftmaxMechanism, calibrated_draws, total_sensitivity

__all__ = [
    "AdditiveMechanism",
    "Calibration",
    "GaussianMechanism",
    "NoiseSource",
    "OpenDPNoise",
    "SampledGaussianMechanism",
    "SoftmaxMechanism",
    "SphericalLaplaceMechanism",
    "calibrated_draws",
    "calibrated_mechanism",
    "gaussian_noise_multiplier",
    "noise_source_name",
    "opendp_noise",
    "random_order",
    "secure_noise",
    "total_sensitivity",
]
