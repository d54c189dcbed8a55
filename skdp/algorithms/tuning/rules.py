"""Tuned numbers of bilevel tuning.

They were chosen on synthetic families (docs/theory/bilevel.md, "Tuning"); the git tag ``studies``
has what the choices gave.
"""

#: Bilevel optimisation: first movement in log alpha, and its decrease from step to step.
BILEVEL_STEP, BILEVEL_DECAY = 1.0, 0.8
#: Number of steps, and c of the penalised problem: a large one has less bias and more noise.
N_STEPS, BILEVEL_PENALTY = 8, 0.1
