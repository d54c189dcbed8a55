"""Budgets, events, accountants and reports."""

from skdp.privacy.accountants import (
    GaussianDPAccountant,
    PrivacyAccountant,
    PureAccountant,
    UnsupportedEventError,
    ZCDPAccountant,
)
from skdp.privacy.accounted import AccountedMixin
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.budget_accountant import BudgetAccountant, BudgetExceededError, Spent, spend
from skdp.privacy.composition import tightest_epsilon
from skdp.privacy.events import (
    ApproximateEvent,
    ComposedEvent,
    ExponentialMechanismEvent,
    GaussianEvent,
    Neighbouring,
    PoissonSampledSumEvent,
    PrivacyEvent,
    PureEvent,
    RepeatedEvent,
)
from skdp.privacy.ledger_files import LedgerError
from skdp.privacy.report import PrivacyLeakWarning, PrivacyReport, Release

__all__ = [
    "AccountedMixin",
    "ApproximateEvent",
    "BudgetAccountant",
    "BudgetExceededError",
    "ComposedEvent",
    "ExponentialMechanismEvent",
    "GaussianDPAccountant",
    "GaussianEvent",
    "LedgerError",
    "Neighbouring",
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
    "Spent",
    "UnsupportedEventError",
    "ZCDPAccountant",
    "spend",
    "tightest_epsilon",
]
