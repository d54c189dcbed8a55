"""Tuned numbers of bilevel optimisation.

No guarantee depends on them: ``tests/contract/test_tuned_numbers.py`` doubles and halves each.
docs/theory/bilevel.md says what they are for; the git tag ``studies`` has what the choices gave.
"""

from __future__ import annotations

#: Localised gradient descent: least and largest number of steps of a round that a plan chooses.
LEAST_STEPS, MOST_STEPS = 10.0, 300
#: Most rounds that a plan considers, and failure probability of its radii.
MOST_ROUNDS, FAILURE = 4, 0.05
