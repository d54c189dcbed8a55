"""Budgets, events (what happened), accountants (what it costs) and reports."""

from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import Neighbouring, PrivacyEvent
from skdp.privacy.report import PrivacyLeakWarning, PrivacyReport, Release

__all__ = [
    "Neighbouring",
    "PrivacyBudget",
    "PrivacyEvent",
    "PrivacyLeakWarning",
    "PrivacyReport",
    "Release",
]
