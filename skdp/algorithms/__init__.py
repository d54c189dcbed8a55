"""Private algorithms, one module each; pure functions of problems, budgets and randomness.

Their plans and results are classes of the modules.
"""

from skdp.algorithms.adaptive_measurements import plan_adaptive_measurements
from skdp.algorithms.adversarial_output_perturbation import (
    adversarial_output_perturbation,
    plan_adversarial_output_perturbation,
)
from skdp.algorithms.anytime_mirror_descent import (
    anytime_mirror_descent,
    plan_anytime_mirror_descent,
)
from skdp.algorithms.bias_reduced_mirror_descent import (
    bias_reduced_mirror_descent,
    plan_bias_reduced_mirror_descent,
)
from skdp.algorithms.bilevel import dp_bilevel, plan_bilevel
from skdp.algorithms.boosted_mirror_descent import (
    boosted_mirror_descent,
    plan_boosted_mirror_descent,
)
from skdp.algorithms.dp_rgda import dp_rgda, plan_dp_rgda
from skdp.algorithms.dp_sgd import dp_sgd, plan_dp_sgd
from skdp.algorithms.dp_sgda import dp_sgda, plan_dp_sgda
from skdp.algorithms.exponential_mechanism import (
    exponential_mechanism,
    localized_exponential,
    plan_exponential_mechanism,
    plan_localized_exponential,
)
from skdp.algorithms.frank_wolfe import frank_wolfe, plan_frank_wolfe
from skdp.algorithms.linear_queries import plan_linear_queries
from skdp.algorithms.localized_gradient_descent import dp_localized_gd, plan_localized_gd
from skdp.algorithms.max_group_loss import (
    GroupObjective,
    HistogramPlan,
    MaxGroupLossBound,
    MaxGroupLossPlan,
    max_group_loss,
    plan_max_group_loss,
)
from skdp.algorithms.methods import GROUP_METHODS, METHODS, SYNTHETIC_METHODS, Method
from skdp.algorithms.mirror_descent import (
    mirror_descent,
    plan_linear_mirror_descent,
    plan_mirror_descent,
)
from skdp.algorithms.objective_perturbation import (
    objective_perturbation,
    plan_objective_perturbation,
)
from skdp.algorithms.output_perturbation import output_perturbation, plan_output_perturbation
from skdp.algorithms.phased_output_perturbation import (
    phased_output_perturbation,
    plan_phased_output_perturbation,
)
from skdp.algorithms.phased_saddle_output_perturbation import (
    SaddlePhase,
    SaddleUtilityBound,
    phased_saddle_output_perturbation,
    plan_phased_saddle_output_perturbation,
)
from skdp.algorithms.plan import Plan, Result, Run
from skdp.algorithms.private_solvers import (
    LocalizedGradientDescent,
    OutputPerturbation,
    PrivateSolver,
)
from skdp.algorithms.regularized_risk import plan_regularized_risk
from skdp.algorithms.rgda_steps import EscapePhase, plan_escape_phase
from skdp.algorithms.saddle_output_perturbation import (
    plan_saddle_output_perturbation,
    saddle_output_perturbation,
)

__all__ = [
    "GROUP_METHODS",
    "METHODS",
    "SYNTHETIC_METHODS",
    "EscapePhase",
    "GroupObjective",
    "HistogramPlan",
    "LocalizedGradientDescent",
    "MaxGroupLossBound",
    "MaxGroupLossPlan",
    "Method",
    "OutputPerturbation",
    "Plan",
    "PrivateSolver",
    "Result",
    "Run",
    "SaddlePhase",
    "SaddleUtilityBound",
    "adversarial_output_perturbation",
    "anytime_mirror_descent",
    "bias_reduced_mirror_descent",
    "boosted_mirror_descent",
    "dp_bilevel",
    "dp_localized_gd",
    "dp_rgda",
    "dp_sgd",
    "dp_sgda",
    "exponential_mechanism",
    "frank_wolfe",
    "localized_exponential",
    "max_group_loss",
    "mirror_descent",
    "objective_perturbation",
    "output_perturbation",
    "phased_output_perturbation",
    "phased_saddle_output_perturbation",
    "plan_adaptive_measurements",
    "plan_adversarial_output_perturbation",
    "plan_anytime_mirror_descent",
    "plan_bias_reduced_mirror_descent",
    "plan_bilevel",
    "plan_boosted_mirror_descent",
    "plan_dp_rgda",
    "plan_dp_sgd",
    "plan_dp_sgda",
    "plan_escape_phase",
    "plan_exponential_mechanism",
    "plan_frank_wolfe",
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
    "saddle_output_perturbation",
]
