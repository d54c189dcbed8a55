"""The methods of models that tune their penalty."""

from __future__ import annotations

from typing import Any

from skdp._checks import check_option, check_real
from skdp.algorithms.plan import Plan
from skdp.algorithms.tuning.bilevel import BilevelTuningPlan
from skdp.methods.base import Method
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import REPLACED_RELATIONS, Neighbouring

#: Private solvers of lower problems.
INNER = ("output_perturbation", "localized_gd", "localized_sgd")


class Bilevel(Method):
    """First-order private bilevel optimisation of the penalties, as published.

    Gradient steps in log alpha, from private solutions for a training and a validation half, then
    output perturbation on all records at the alpha that was found. Of models that tune their
    penalty, for ``delta > 0``; on rows as they are, it has more noise than the default.

    Parameters
    ----------
    inner : {"output_perturbation", "localized_gd", "localized_sgd"}, \
            default="output_perturbation"
        Private solver of the lower problems: noise on a certified solution, noisy gradient steps on
        all records (DP-Loc-GD), or on batches (DP-Loc-SGD; needs the extra `accounting`).
    tune_share : float, default=0.2
        Part of the budget for the choice.
    solver : str, Solver or callable, default="auto"
        As in :class:`Output`.

    References
    ----------
    Kornowski (2024), Differentially Private Bilevel Optimization, Algorithms 1 to 4, corrected.
    docs/theory/bilevel.md.
    """

    relations = REPLACED_RELATIONS
    needs_delta = True
    is_weighted = True
    is_binary = True
    alpha_bounds = 1e-6, 10.0

    def __init__(
        self,
        inner: str = "output_perturbation",
        tune_share: float = 0.2,
        solver: Any = "auto",
    ) -> None:
        self.inner = inner
        self.tune_share = tune_share
        self.solver = solver

    def check(self, name: Any, budget: PrivacyBudget, neighbouring: Neighbouring) -> None:
        """Raise a ValueError for parameters, or where the proof does not apply."""
        super().check(name, budget, neighbouring)
        check_option("inner", self.inner, INNER)
        check_real("tune_share", self.tune_share, 1e-6, 1.0 - 1e-6)

    def plan(self, objective: Any, budget: PrivacyBudget) -> Plan:
        """Plan the steps and the fit; see :meth:`Method.plan`, of a TuningObjective."""
        return BilevelTuningPlan(
            objective=objective, budget=budget, inner=self.inner, tune_share=float(self.tune_share)
        )
