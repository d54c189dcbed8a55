"""Tuned numbers of bilevel optimisation.

docs/theory/bilevel.md says what they are for; the git tag ``studies`` has what the choices gave.
"""

#: Localised gradient descent: least and largest number of steps of a round that a plan chooses.
LEAST_STEPS, MOST_STEPS = 10.0, 300
#: Most rounds that a plan considers, and failure probability of its radii.
MOST_ROUNDS, FAILURE = 4, 0.05
