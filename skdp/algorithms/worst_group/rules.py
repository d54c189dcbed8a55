"""Tuned numbers of the methods for the largest loss of a group.

docs/theory/worst_group.md, section 4, and docs/theory/dp_rgda.md, "The default of the network",
say how they were chosen; ``benchmarks/run.py worst_group`` shows what the choices give.
"""

#: Part of the squared mu for the sizes of groups: least, largest, and root over the noise of a mean
#: of one number. The same for the losses of groups, and for scale, shift and mix.
SIZES, LOSSES, SCALE = (0.003, 0.04, 600.0), (0.05, 0.2, 2000.0), (0.03, 0.3, 4000.0)
#: Largest sum of these parts: losses and scale have less where sizes leave them no room.
ALL_SHARES = 0.5
#: Part of the steps' budget that the plain model gets.
PLAIN_SHARE = 0.25
#: Least proportion that is taken into account.
LEAST_PROPORTION = 0.001

#: Error of all weights, relative to the norm of rows, from which no losses of groups are measured.
LARGEST_ERROR = 0.1
#: Error of all weights for one measurement of losses, and least and largest number of several.
ONE_MEASUREMENT, LEAST_MEASUREMENTS, MOST_MEASUREMENTS = 0.06, 8, 16
#: Price of noise, by the square of the largest weight, over the squared error.
NOISE_PRICE = 8.0
#: Price of unequal weights, and for one measurement the least one and that over the error of all
#: weights.
SPREAD_PRICE, LEAST_PRICE, PRICE_OF_ERROR = 0.06, 0.015, 8.0
#: Factors of the price after a step of the weights that went too far, and after others.
TOO_FAR, NOT_FAR = 3.0, 0.8
#: Largest weight of a group after one measurement, unless it has as many records; least one in
#: units of its proportion.
CEILING, FLOOR = 0.8, 0.25
#: Bounds on the spread of the groups' losses, for their shrinkage, and variance of the loss of a
#: record, for the error of a group's mean loss.
LEAST_SPREAD, LARGEST_SPREAD, LOSS_VARIANCE = 0.03, 0.3, 0.3
#: Largest weight of a record below which the plain model is preferred.
LEAST_FACTOR = 1.6
#: Proportion of a large group, and least difference of the largest loss and that of such a group.
LARGE, LEAST_GAP = 0.5, 0.1

#: Residual that numeric losses are clipped at, in released standard deviations of the targets:
#: least, largest, and the error of all weights up to which it is the least one.
LEAST_RESIDUAL, LARGEST_RESIDUAL, RESIDUAL_ERROR = 2.0, 3.0, 0.006
#: Limit of clipped hinge losses, in units of the loss of the constant model 0.
LARGEST_HINGE = 3.0
#: What is subtracted from a clipped loss, in units of the largest one.
CENTRE = 0.3

#: Fit of scale, shift and mix: its releases; prior spreads between groups of losses, gradients and
#: entries of Hessians; a tenth of the variances of a record's loss and gradient; standard
#: deviations by which the gradient in the scale is raised.
SCALE_ROUNDS, SCALE_SPREADS, SCALE_VARIANCES = 3, (0.15, 0.2, 0.05), (0.075, 0.1)
SCALE_PESSIMISM = 0.4
#: Variance between groups of the gradients, for the shrinkage of their noise.
GRADIENT_VARIANCE = 0.04
#: Prior deviations of the scale and the mix, in their units over 1, and of the shift; the largest
#: step in units of them.
SCALE_PRIOR, MIX_PRIOR, SHIFT_PRIOR, LARGEST_STEP = 0.25, 0.125, 0.3, 1.2
#: Change of the scale over its units: downwards in units of the shrinkage, and upwards; of the mix
#: upwards.
LEAST_SCALE, LARGEST_SCALE, LARGEST_MIX = 0.75, 0.6, 0.3

#: Mix of two models: prior spreads between groups of losses, their change and curvature, and of
#: residuals at both ends; a tenth of the variances of a record's entries, for the sampling error of
#: a group's; standard deviations by which a curve is raised.
MIX_SPREADS, MIX_VARIANCES = (0.4, 0.3, 0.15, 0.4, 0.4), (0.03, 0.01, 0.01, 0.05, 0.05)
MIX_PESSIMISM = 1.0
#: Longest step of the mix, largest shift in units of `MixFit.shift_unit`, and points of their grid.
LONGEST_MIX, LARGEST_SHIFT, MIX_POINTS = 1.25, 1.0, 51

#: Phases: least spread of margins that a kink is smoothed for, in units of a good predictor's.
LEAST_MARGIN_SPREAD = 0.01
#: Saddle points: part of the budget for one look at the groups' losses, and bounds on the weights
#: that it chooses among.
LOOK_SHARE, BOUNDS = 0.05, 16
#: Mirror descent: fewest and most rounds, and steps of the search for the scale of steps that a
#: histogram leaves.
FEWEST_ROUNDS, MOST_ROUNDS, HALVINGS = 20, 500, 12

#: Solves after a measurement that is not the last one.
EARLY_SOLVES = 2

#: Networks: momentum of the directions of their steps.
MOMENTUM = 0.5
#: Deviation of the hidden features' arguments at the start, for a row of the largest norm.
INPUT_SCALE = 1.5
#: Largest loss of a record in the weights of the groups, over log(number of classes); and the
#: share of the budget of a step that these losses get.
LARGEST_LOSS, LOSSES_SHARE = 3.0, 0.1
#: Penalty on unequal weights of the groups for numbers, in units of the loss of predicting the
#: middle of their range: a loss that is larger by it takes all the weight.
BALANCE_OF_NUMBERS = 0.1
#: Ball of the network's weights, in units of the square root of their number.
RADIUS = 100.0
#: Length of the mean gradient over its bound, for the shrinkage of the margins; and the part that
#: is left of them from which on no constant model is released.
SIGNAL, CLEAR_SIGNAL = 0.125, 0.9
#: Part of the budget for the constant model, as for `SIZES`.
CONSTANT = (0.01, 0.2, 10.0)
