"""Tuned numbers of mirror descent.

docs/theory/mirror_descent.md says what they are for; the git tag ``studies`` has what they gave.
"""

#: Rounds of "analytic" plans at most: enough for any accuracy that the draws allow.
MOST_ROUNDS = 500
#: Draws that a pure budget is divided by where the number of rounds is chosen.
PURE_DRAWS = 100.0
#: Base-2 logarithm of what a record does to a gradient in steps of the grid of gradients.
LOG_STEPS = 16
