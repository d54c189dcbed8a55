"""Tuned numbers of output perturbation.

No guarantee depends on them: ``tests/contract/test_tuned_numbers.py`` doubles and halves each.
Those of the searches are as fine as bounds on the utility tell plans apart
(docs/theory/output_perturbation.md, "Utility"); those of prepared rows were chosen on simulated
tables (docs/theory/preparation.md). ``benchmarks/run.py linear_table`` and ``over_constant`` show
what the choices give.
"""

from __future__ import annotations

#: Logarithms of the penalties that the search starts from, in units of the squared feature norm:
#: first, last, and their number.
ALPHA_GRID = (-25.0, 15.0, 41)

#: Growth of mu_k and decrease of n_k from phase to phase that planners try: the published
#: one (equal blocks), and those that remove the logarithm of n.
GROWING_SCHEDULES = ((2.0, 1.0), (4.0, 2.0), (8.0, 2.0), (16.0, 4.0))
#: More of them for saddle points, steps between blocks of about equal size: the terms of y do not
#: fall with mu_k, only with the size of the blocks.
SADDLE_SCHEDULES = ((8.0, 1.0), (64.0, 2.0))
#: Largest number of phases, and the numbers in a row without a lower bound that end the search of a
#: schedule: of minimisation, and of saddle points.
MOST_PHASES, PATIENCE, SADDLE_PATIENCE = 24, 3, 2
#: Half of the search range of ``log mu_1``; half-widths and numbers of points of the grids, each
#: around the best point of the one before; accuracy of the planned one.
HALF_RANGE, GRIDS, LOG_ACCURACY = 12.0, ((12.0, 49), (0.5, 17)), 0.02
#: Saddle points: first step, accuracy and most evaluations of the search for ``log mu_1`` and
#: ``log nu``.
SADDLE_STEP, SADDLE_ACCURACY, SADDLE_EVALUATIONS = 3.0, 0.02, 200
#: Least regularisers, in units of those that suit records without noise: smaller ones would need an
#: accuracy beyond double precision.
WEAKEST = 1e-7

#: Prepared rows: noise g of whitened weights up to which few solves do; with less noise and with
#: more the number of solves, their penalty in units of the mean curvature, and the power of its
#: number by which a solve counts. Many solves with a large penalty see the clipped slopes at better
#: and better points, and no solve has to be exact where curvatures are hardly known.
LITTLE_NOISE, SOLVES = 0.004, ((6, 4.0, 1), (16, 16.0, 1))
#: The same for log odds, with two such noises. Their curvature changes from solve to solve: late
#: ones count for more where noise allows it.
NOISES_OF_ODDS, SOLVES_OF_ODDS = (0.004, 0.03), ((8, 1.0, 4), (16, 4.0, 2), (16, 16.0, 1))
#: Noise of margins from which on steps are shorter than Newton's, of numbers and of classes, and
#: the shortest step: less noise in directions with much variance, where most of the signal is.
FULL_STEPS_NOISE, SHORTEST_STEP = (0.05, 0.15), 0.5
#: The same limit for pure privacy, and the number of solves with their penalty. With a penalty of
#: at most the mean curvature no direction overshoots twice as far, whatever its second moment is.
PURE_LITTLE_NOISE, PURE_SOLVES = 0.15, ((2, 1.0, 1), (1, 4.0, 1))
#: The noise of whitened weights above which less of them is kept: of numbers, of classes.
MUCH_NOISE = (0.5, 1.5)
#: Losses with a kink: spread of the noise that an envelope is for, in deviations of margins.
SMOOTHED_SPREAD = 2.0
#: Clipping of numbers in units of their spread: over the noise of whitened weights, least, largest.
#: Rare records have long rows, and so the smallest slopes.
SLOPES_OF_NUMBERS = (0.015, 0.15, 6.0)
#: Least second derivative of log odds that clipping leaves.
LEAST_CURVATURE = 0.01
#: Largest variance of margins: of numbers in units of that of the targets, with much noise and with
#: less of it; of classes.
CAPS_OF_NUMBERS, CAP_OF_CLASSES = (0.25, 1.0), 4.0
#: Least prior variance of weights whose factor is corrected, over that of their noise.
LEAST_PRIOR = 0.03
#: Factor of log odds before the correction, and noise of a mean of numbers up to 1 from which on it
#: is not 1.
FIRST_FACTOR, FACTOR_NOISE = 0.9, 0.002
