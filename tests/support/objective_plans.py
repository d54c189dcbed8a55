"""Plans of objective perturbation, and the log density of its releases."""

import numpy as np
from scipy import stats

from skdp.algorithms import plan_objective_perturbation
from skdp.privacy import PrivacyBudget
from skdp.privacy.events import RECORD_RELATIONS
from skdp.problems import ClippedLogisticLoss, Design, EmpiricalRisk, Objective, huber_loss

REPLACE, ADD = RECORD_RELATIONS
CLIPPED, HUBER = ClippedLogisticLoss(), huber_loss(4.0, 1.0)


def make_plan(loss, epsilon=1.0, delta=1e-5, relation=REPLACE, n=1000, width=3, norm=1.0, **asked):
    design = Design(norm, width, n, of_persons=relation.unit == "user")
    objective = Objective(EmpiricalRisk(loss), design, neighbouring=relation, **asked)
    return plan_objective_perturbation(objective, PrivacyBudget(epsilon, delta))


def log_density(loss, X, y, penalty, scale, points, pure=False, shares=None):
    """Log density of the exact minimiser at points of shape (m, k d), and the linear term there."""
    shares = np.ones(len(y)) if shares is None else shares
    k, d = loss.n_outputs, X.shape[1]
    m = len(points)
    gradient, hessian = penalty * points, np.tile(penalty * np.eye(k * d), (m, 1, 1))
    for x, target, share in zip(X, y, shares, strict=True):
        margins = points.reshape(m, k, d) @ x
        targets = np.full(m, target)
        z = margins[:, 0] if k == 1 else margins
        residual = share * loss.derivative(z, targets).reshape(m, k)
        curvature = share * loss.second_derivative(z, targets).reshape(m, k, k)
        gradient = gradient + np.einsum("ma,b->mab", residual, x).reshape(m, -1)
        hessian = hessian + np.einsum("mab,c,e->macbe", curvature, x, x).reshape(m, k * d, k * d)
    b = -gradient
    if pure:
        law = -np.linalg.norm(b, axis=1) / scale
    else:
        law = stats.norm.logpdf(b, scale=scale).sum(axis=1)
    return law + np.linalg.slogdet(hessian)[1], b
