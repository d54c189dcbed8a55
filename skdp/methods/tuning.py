"""The methods of models that tune their penalty."""

from __future__ import annotations

from typing import Any

from skdp._checks import check_bool, check_option, check_real
from skdp.algorithms.bilevel.private_solvers import SOLVERS
from skdp.algorithms.plan import Plan
from skdp.algorithms.tuning.bilevel import BilevelTuningPlan
from skdp.algorithms.tuning.blocks import plan_blocks
from skdp.methods.base import Method
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import REPLACED_RELATIONS, Neighbouring

#: Private solvers of lower problems.
INNER = tuple(SOLVERS)


class Bilevel(Method):
    """Penalties of blocks of features by private hypergradients, before the fit.

    Of models that tune their penalty, with `penalty_groups`, for ``delta > 0``. A first fit and
    noisy derivatives of the loss in the sizes of its blocks say which columns matter; the others
    are shortened, and with them the noise of all coefficients, before
    the final fit. Where that cannot pay, by public numbers, it is the plain fit, and says so: one
    block, several classes, little noise, or so much that derivatives would be noise. X in memory is
    copied once; what the noise adds to coefficients is not told.

    Parameters
    ----------
    as_published : bool, default=False
        Whether it is the published first-order method: gradient steps in log alpha from private
        solutions for two halves of the records, then output perturbation at the alpha that was
        found. It has far more noise, and hardly moves alpha. The other parameters are of it.
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

    needs_delta = True
    is_weighted = True
    intercept_scaling = 0.3

    def __init__(
        self,
        as_published: bool = False,
        inner: str = "output_perturbation",
        tune_share: float = 0.2,
        solver: Any = "auto",
    ) -> None:
        self.as_published = as_published
        self.inner = inner
        self.tune_share = tune_share
        self.solver = solver

    @property
    def relations(self) -> tuple[Neighbouring, ...]:  # type: ignore[override]
        """Relations that the proof covers."""
        return REPLACED_RELATIONS if self.as_published else tuple(Neighbouring)

    @property
    def chunked(self) -> bool:  # type: ignore[override]
        """Whether records may be in chunks."""
        return not self.as_published

    @property
    def is_binary(self) -> bool:  # type: ignore[override]
        """Whether it is for two classes, or numbers."""
        return self.as_published

    @property
    def alpha_bounds(self) -> tuple[float, float]:  # type: ignore[override]
        """Bounds of the penalties if none are declared, over the squared norm of a row."""
        return (1e-6, 10.0) if self.as_published else Method.alpha_bounds

    @property
    def has_solver(self) -> bool:
        """Whether it solves penalised problems."""
        return self.as_published

    def check(self, name: Any, budget: PrivacyBudget, neighbouring: Neighbouring) -> None:
        check_bool("as_published", self.as_published)
        super().check(name, budget, neighbouring)
        check_option("inner", self.inner, INNER)
        check_real("tune_share", self.tune_share, 1e-6, 1.0 - 1e-6)

    def plan(self, objective: Any, budget: PrivacyBudget) -> Plan:
        if not self.as_published:
            return plan_blocks(objective, budget)
        return BilevelTuningPlan(
            objective=objective, budget=budget, inner=self.inner, tune_share=float(self.tune_share)
        )
