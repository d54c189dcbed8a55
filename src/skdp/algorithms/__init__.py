"""Private algorithms, one module each; pure functions of problems, budgets and randomness."""

from skdp.algorithms.output_perturbation import (
    OutputPerturbationPlan,
    OutputPerturbationResult,
    output_perturbation,
    plan_output_perturbation,
)

__all__ = [
    "OutputPerturbationPlan",
    "OutputPerturbationResult",
    "output_perturbation",
    "plan_output_perturbation",
]
