"""Budgets, events, accountants and reports."""

from skdp.privacy.accountants import (
    GaussianDPAccountant,
    PrivacyAccountant,
    PureAccountant,
    UnsupportedEventError,
    ZCDPAccountant,
    tightest_epsilon,
)
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import (
    ApproximateEvent,
    ComposedEvent,
    ExponentialMechanismEvent,
    GaussianEvent,
    Neighbouring,
    PoissonSampledEvent,
    PoissonSampledSumEvent,
    PrivacyEvent,
    PureEvent,
    RepeatedEvent,
)
from skdp.privacy.report import PrivacyLeakWarning, PrivacyReport, Release

__all__ = [
    "ApproximateEvent",
    "ComposedEvent",
    "ExponentialMechanismEvent",
    "GaussianDPAccountant",
    "GaussianEvent",
    "Neighbouring",
    "PoissonSampledEvent",
    "PoissonSampledSumEvent",
    "PrivacyAccountant",
    "PrivacyBudget",
    "PrivacyEvent",
    "PrivacyLeakWarning",
    "PrivacyReport",
    "PureAccountant",
    "PureEvent",
    "Release",
    "RepeatedEvent",
    "UnsupportedEventError",
    "ZCDPAccountant",
    "tightest_epsilon",
]
