"""Attacks on claims of privacy, of this package's estimators and of others'.

:func:`audit_estimator` bounds epsilon from below by many fits on two neighbouring data sets;
:func:`epsilon_lower_bound` does from counts of outputs in a set;
:func:`worst_case_sensitivity` searches for the neighbours whose exact solutions lie farthest apart.
"""

from skdp.audit.distinguishing import AuditResult, audit_estimator, epsilon_lower_bound
from skdp.audit.outputs import released_parameters
from skdp.audit.sensitivity import SensitivitySearch, worst_case_sensitivity

__all__ = [
    "AuditResult",
    "SensitivitySearch",
    "audit_estimator",
    "epsilon_lower_bound",
    "released_parameters",
    "worst_case_sensitivity",
]
