"""Attacks on claims of privacy, of this package's estimators and of others'.

:func:`audit_estimator` bounds epsilon from below by many fits on two neighbouring data sets;
:func:`worst_case_sensitivity` searches for the neighbours whose exact solutions lie farthest apart.
"""

from skdp.audit.distinguishing import AuditResult, audit_estimator
from skdp.audit.outputs import released_parameters
from skdp.audit.sensitivity import SensitivitySearch, worst_case_sensitivity

__all__ = [
    "AuditResult",
    "SensitivitySearch",
    "audit_estimator",
    "released_parameters",
    "worst_case_sensitivity",
]
