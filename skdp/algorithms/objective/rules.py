"""Tuned numbers of objective perturbation.

docs/theory/objective_perturbation.md, "Choices that cost accuracy only", says how they were chosen.
"""

#: Value of the intercept feature in units of the norm bound of the rows.
INTERCEPT = 0.3
#: Bound on the derivative of the binary log loss; 1 is the log loss itself.
CLIP = 0.5
#: Part of epsilon that pays for the change of the Hessian, for delta > 0 and for delta = 0.
HESSIAN_SHARE, PURE_HESSIAN_SHARE = 0.1, 0.25
#: Parts of epsilon that pay for the accuracy of the solver, from which a plan chooses; the part of
#: delta; and the noise for it, in units of the least noise that the linear term causes.
OUTPUT_SHARES, OUTPUT_DELTA_SHARE, OUTPUT_NOISE = (1e-3, 1e-2, 1e-1), 1e-2, 0.1
#: For planning: the curvature of a loss at a good predictor in units of the largest, and the norm
#: of a good classifier and of a good regressor in units of ``objective.comparator_norm``.
CURVATURE, SIGNAL = 0.5, (2.0, 0.7)
#: Smallest penalties of a mean loss in units of its smoothness, from which a plan chooses: a larger
#: one lets a certificate reach a better accuracy.
LEAST_PENALTIES = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3)
