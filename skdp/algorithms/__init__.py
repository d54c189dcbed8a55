"""Private algorithms: a folder for each family, a module for each algorithm.

They are functions of problems, budgets and randomness; their plans and results are classes of the
modules. `plan` is the frame; the docstring of a folder says which algorithms of which paper are in
it: `core` has the default of most linear models. A module `rules` has the tuned numbers of a
folder. No guarantee depends on them: ``tests/contract/test_tuned_numbers.py`` doubles and halves
each.
"""

from skdp.algorithms.bilevel.localized_descent import dp_localized_gd, plan_localized_gd
from skdp.algorithms.bilevel.penalty_method import dp_bilevel, plan_bilevel
from skdp.algorithms.bilevel.private_solvers import (
    LocalizedGradientDescent,
    OutputPerturbation,
    PrivateSolver,
)
from skdp.algorithms.exponential.localisation import (
    localized_exponential,
    plan_localized_exponential,
)
from skdp.algorithms.exponential.mechanism import exponential_mechanism, plan_exponential_mechanism
from skdp.algorithms.mirror.anytime import plan_anytime_mirror_descent
from skdp.algorithms.mirror.bias_reduced import plan_bias_reduced_mirror_descent
from skdp.algorithms.mirror.boosted import plan_boosted_mirror_descent
from skdp.algorithms.mirror.linear import plan_linear_mirror_descent
from skdp.algorithms.mirror.plain import plan_mirror_descent
from skdp.algorithms.mirror.variance_reduced import plan_variance_reduced_frank_wolfe
from skdp.algorithms.objective.perturbation import plan_objective_perturbation
from skdp.algorithms.output.adversarial import (
    adversarial_output_perturbation,
    plan_adversarial_output_perturbation,
)
from skdp.algorithms.output.one_shot import output_perturbation, plan_output_perturbation
from skdp.algorithms.output.phased import plan_phased_output_perturbation
from skdp.algorithms.output.phased_saddle import (
    SaddleUtilityBound,
    phased_saddle_output_perturbation,
    plan_phased_saddle_output_perturbation,
)
from skdp.algorithms.output.regularized_risk import plan_regularized_risk
from skdp.algorithms.output.saddle import (
    plan_saddle_output_perturbation,
    saddle_output_perturbation,
)
from skdp.algorithms.plan import Plan, Result, Run
from skdp.algorithms.queries.adaptive_measurements import plan_adaptive_measurements
from skdp.algorithms.queries.mirror_descent import plan_linear_queries
from skdp.algorithms.recursive.rgda import dp_rgda, plan_dp_rgda
from skdp.algorithms.recursive.settings import EscapePhase, RGDASettings, plan_escape_phase
from skdp.algorithms.worst_group.max_group_loss import plan_max_group_loss
from skdp.problems.group_objective import GroupObjective

__all__ = [
    "EscapePhase",
    "GroupObjective",
    "LocalizedGradientDescent",
    "OutputPerturbation",
    "Plan",
    "PrivateSolver",
    "RGDASettings",
    "Result",
    "Run",
    "SaddleUtilityBound",
    "adversarial_output_perturbation",
    "dp_bilevel",
    "dp_localized_gd",
    "dp_rgda",
    "exponential_mechanism",
    "localized_exponential",
    "output_perturbation",
    "phased_saddle_output_perturbation",
    "plan_adaptive_measurements",
    "plan_adversarial_output_perturbation",
    "plan_anytime_mirror_descent",
    "plan_bias_reduced_mirror_descent",
    "plan_bilevel",
    "plan_boosted_mirror_descent",
    "plan_dp_rgda",
    "plan_escape_phase",
    "plan_exponential_mechanism",
    "plan_linear_mirror_descent",
    "plan_linear_queries",
    "plan_localized_exponential",
    "plan_localized_gd",
    "plan_max_group_loss",
    "plan_mirror_descent",
    "plan_objective_perturbation",
    "plan_output_perturbation",
    "plan_phased_output_perturbation",
    "plan_phased_saddle_output_perturbation",
    "plan_regularized_risk",
    "plan_saddle_output_perturbation",
    "plan_variance_reduced_frank_wolfe",
    "saddle_output_perturbation",
]
