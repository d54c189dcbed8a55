"""Tuned numbers of the self-tuning models and of released statistics.

No guarantee depends on them: ``tests/contract/test_tuned_numbers.py`` doubles and halves each. They
were chosen on synthetic families (docs/theory/tuning.md and docs/theory/bilevel.md, "Tuning");
the git tag ``studies`` has what the choices gave.
"""

from __future__ import annotations

import math

#: Logistic regression on second moments: part of the budget that all gradients have together.
GRADIENT_SHARE = 0.4
#: Gradients where their noise is large, and the fewest and most where it is small.
FEW_GRADIENTS, SEVERAL_GRADIENTS, MOST_GRADIENTS = 2, 6, 12
#: Noise of the mean gradient, for rows of norm 1, up to which there are several gradients, and how
#: many more there are for a tenth of it.
SMALL_NOISE, GRADIENTS_PER_DECADE = 8e-4, 3.0
#: By which factor the bound on the margins grows from one gradient to the next where there are
#: several, and the largest factor.
MARGIN_GROWTH, MOST_MARGIN_GROWTH = math.sqrt(2.0), 4.0
#: Plausible deviation of the curvature from its last estimate, and its bounds.
RATIO_DEVIATION, LEAST_RATIO, LARGEST_RATIO = 0.7, 0.5, 64.0

#: Released statistics: value of the intercept feature in units of the norm of the others.
INTERCEPT = 0.3
#: The same number from which second moments of the log loss are better than the default.
ENOUGH_FOR_NEWTON = 300.0

#: Part of the difference between the exact correction and the one for
#: H_+ = H that is attributed to signal.
TRUST = 0.5

#: Bilevel optimisation: first movement in log alpha, and its decrease from step to step.
BILEVEL_STEP, BILEVEL_DECAY = 1.0, 0.8
#: Steps and sampling rate of localised gradient descent.
BATCH_STEPS, SAMPLING_RATE = 50, 0.1
