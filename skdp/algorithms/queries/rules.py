"""Tuned numbers of the methods for linear queries.

docs/theory/linear_queries.md says what they are for; ``benchmarks/run.py synthetic`` shows
what they give.
"""

#: Adaptive measurements, shares of the budget: marginals of single columns, and draws of what the
#: rounds spend.
FIRST_SHARE, DRAW_SHARE = 0.15, 0.1
#: Iterations of the fits: the first, those between rounds, and the last.
FIRST_FIT, FIT, LAST_FIT = 100, 20, 300
#: Share of all pairs from which on all of them are measured instead.
COMPLETE_SHARE = 0.55
#: Most rounds.
MOST_MEASUREMENTS = 200
#: Weight of the entropy in a fit: times the largest standard deviation.
ENTROPY = 0.2

#: Fewest and most rounds of mirror descent with the parameters that are no theorem's.
FEWEST_ROUNDS, MOST_ROUNDS = 60, 500
#: Step of queries beyond which a larger budget pays for more draws, and the most draws of a round.
SHARPEST_STEP, MOST_DRAWS = 250.0, 4096
