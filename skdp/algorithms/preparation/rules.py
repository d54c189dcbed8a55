"""Tuned numbers of the preparation of rows and targets.

No guarantee depends on them: ``tests/contract/test_tuned_numbers.py`` doubles and halves each. They
were chosen on simulated tables; ``benchmarks/run.py linear_families`` and ``over_constant`` show
what the choices give.
"""

from __future__ import annotations

#: Under attack: sum of the residuals at both ends, in units of the bound on targets, from which on
#: one end alone is the worst.
TIE = 1e-4
#: Mean and variance of the prior of the targets' variance, and variance of the prior of their mean,
#: in units of the squared bound on them.
PRIOR_VARIANCE, PRIOR_SPREAD, MEAN_SPREAD = 0.15, 0.01, 0.05

#: Means: standard deviations of the count from which on it takes the place of the public number.
CONTRADICTION = 2.0
#: Weight of a label of two classes in the release: log odds need its mean more than models the
#: means of rows.
LABEL_WEIGHT = 1.5
#: Parameter of the beta prior of the share of a class (1: uniform), and its least value.
SHARE_PRIOR, LEAST_SHARE = 1.0, 0.005
#: Noise of the targets' mean, in units of the bound on them, above which targets are clipped, and
#: the least bound that they are clipped to.
TARGET_NOISE, LEAST_TARGET_CLIP = 0.06, 0.25

#: Second moments: spectral norm of the noise in units of the mean eigenvalue, and number of
#: features, above which there is no release.
LARGEST_NOISE, LARGEST_WIDTH = 1.5, 1000

#: Spread of targets: bins by powers of 2 of the bound, and share of a normal law that is further
#: away than its standard deviation.
BINS, OUTSIDE_SHARE = 9, 0.32
#: Prepared rows: least part of the squared mu for the means of numeric targets.
LEAST_MEANS_SHARE = 0.03
#: Noise of a mean of numbers up to 1 from which on the spread has more than its least part; least
#: and largest part.
SPREAD_NOISE, SPREAD_SHARES = 0.02, (0.01, 0.03)
#: Parts for second moments, the noise (times features) that the first sufficient one has, and the
#: noise up to which the last but one is worth it, for numbers and for classes.
MOMENTS_SHARES, LITTLE_NOISE, WORTHY_NOISE = (0.03, 0.06, 0.12, 0.2, 0.3), 0.05, (1.0, 0.5)
#: Pure privacy: parts of epsilon for means and spread, with little noise of a mean of numbers up
#: to 1 and with more; the limit; the part for second moments, and the noise up to which it is used.
PURE_SHARES, PURE_LITTLE_NOISE = ((0.15, 0.1), (0.25, 0.2)), 0.015
PURE_MOMENTS_SHARE, PURE_MOMENTS_NOISE = 0.2, 1.5
#: Norm of the noise of the means of rows above which only those of targets are released.
PURE_MEANS_NOISE = 0.35
#: Ridge of the whitener in units of the noise of the second moments, and least second moment of a
#: whitened direction, so that noise alone makes none 0.
RIDGE, LEAST_KNOWN = 2.0, 1e-3
#: Least second moment that a penalty of the user takes a direction to have, in units of the noise.
PENALISED_MOMENT = 0.5
#: Penalty over the curvature of an average direction from which on it needs second moments, and
#: spectral norm of their noise up to which they are then released.
SHRUNK, PENALTY_NOISE = 0.05, 0.2
#: Norm of a prepared row from which on losses of log odds have smaller factors.
LONG_ROW = 1.5
#: Largest norm of a whitened row, whose mean square is about 1: longer ones are shortened.
LARGEST_NORM = 16.0
#: Least second moment of a direction over the largest one where shrinkage is undone, and that of
#: directions in which the squared weights are compared with their noise.
LEAST_MOMENT, COMPARED_MOMENT = 1.0 / 3.0, 0.5
#: Least prior variance over that of the noise: smaller ones are 0.
LEAST_PRIOR = 1e-9
