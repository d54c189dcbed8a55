"""The methods of synthetic tables."""

from __future__ import annotations

from typing import Any

from skdp.algorithms.plan import Plan
from skdp.algorithms.queries.adaptive_measurements import plan_adaptive_measurements
from skdp.algorithms.queries.mirror_descent import plan_linear_queries
from skdp.methods.base import Method
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import Neighbouring


class AdaptiveMeasurements(Method):
    """Measures the marginals that a model of the table fits worst, round by round. Ours.

    References
    ----------
    docs/theory/linear_queries.md.
    """

    relations = (Neighbouring.REPLACE_ONE, Neighbouring.REPLACE_USER)
    needs_delta = True
    is_weighted = True
    chunked = True

    def plan(self, objective: Any, budget: PrivacyBudget) -> Plan:
        return plan_adaptive_measurements(objective, budget)

    def leads(self, objective: Any, budget: PrivacyBudget) -> bool:
        """Whether it is proven: it had the smaller error in measurements."""
        return not budget.is_pure


class QueryMirrorDescent(Method):
    """Mirror descent over tables for linear queries.

    Parameters
    ----------
    calibration : {"analytic", "paper"}, default="analytic"
        "paper": the published constants, errata corrected, for comparison.

    References
    ----------
    González et al. (2024), section 1.4 (a) and Theorem 1.1, whose algorithm is not printed.
    docs/theory/linear_queries.md.
    """

    relations = (Neighbouring.REPLACE_ONE, Neighbouring.REPLACE_USER)
    chunked = True

    def __init__(self, calibration: str = "analytic") -> None:
        self.calibration = calibration

    def plan(self, objective: Any, budget: PrivacyBudget) -> Plan:
        return plan_linear_queries(objective, budget, self.calibration)

    def leads(self, objective: Any, budget: PrivacyBudget) -> bool:
        """Whether it is the one for pure privacy."""
        return budget.is_pure
