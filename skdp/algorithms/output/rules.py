"""Tuned numbers of output perturbation.

Those of the searches are as fine as bounds on the utility tell plans apart
(docs/theory/output_perturbation.md, "Utility"). ``benchmarks/run.py linear_table`` shows what the
choices give.
"""

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
#: around the best point of the one before.
HALF_RANGE, GRIDS = 12.0, ((12.0, 49), (0.5, 17), (0.06, 7))
#: Saddle points: first step, accuracy and most evaluations of the search for ``log mu_1`` and
#: ``log nu``.
SADDLE_STEP, SADDLE_ACCURACY, SADDLE_EVALUATIONS = 3.0, 0.02, 200
#: Least regularisers, in units of those that suit records without noise: smaller ones would need an
#: accuracy beyond double precision.
WEAKEST = 1e-7
