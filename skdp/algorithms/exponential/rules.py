"""Tuned numbers of the exponential mechanism.

They trade numbers of proposals for work: docs/theory/exponential_mechanism.md, "How many
proposals"; ``benchmarks/run.py over_constant`` shows what the draws give.
"""

#: Comparison with other methods: their bounds are for rows of the largest norm and fall with the
#: squares of the norms, that of a draw does not; and the most proposals of a draw that competes.
BOUND_FACTOR, FAST_LIMIT = 3.0, 1e3
#: Base-2 logarithm of the width of a density in steps of the grid of released points.
LOG_STEPS = 20
#: Shells in the bound on the oscillation.
SHELLS = 16
#: Local radii that are compared, in units of the mean norm of the noise: least, largest, number.
LOCAL_RADII = (0.05, 60.0, 60)

#: Levels in the bound on the curvature.
LEVELS = 64
#: Growth of the log of the expected number of proposals that the anchor's inaccuracy may cause.
ANCHOR_SLACK = 0.1
#: Proposals in the first batch; most points and most rows whose margins are computed together.
FIRST_BATCH, MOST_POINTS, MOST_ROWS = 16, 512, 1 << 14
#: Rounds of coordinate ascent for the multipliers of several balls.
ASCENTS = 40
