"""Private algorithms, one module each; pure functions of problems, budgets and randomness."""

from skdp.algorithms.adversarial_output_perturbation import (
    adversarial_output_perturbation,
    plan_adversarial_output_perturbation,
)
from skdp.algorithms.dp_sgd import DPSGDPlan, DPSGDResult, dp_sgd, plan_dp_sgd
from skdp.algorithms.output_perturbation import (
    OutputPerturbationPlan,
    OutputPerturbationResult,
    output_perturbation,
    plan_output_perturbation,
)
from skdp.algorithms.phased_output_perturbation import (
    PhasedPlan,
    PhasedResult,
    phased_output_perturbation,
    plan_phased_output_perturbation,
)

__all__ = [
    "DPSGDPlan",
    "DPSGDResult",
    "OutputPerturbationPlan",
    "OutputPerturbationResult",
    "PhasedPlan",
    "PhasedResult",
    "adversarial_output_perturbation",
    "dp_sgd",
    "output_perturbation",
    "phased_output_perturbation",
    "plan_adversarial_output_perturbation",
    "plan_dp_sgd",
    "plan_output_perturbation",
    "plan_phased_output_perturbation",
]
