"""Solutions of problems with piecewise linear losses, without the package's solvers."""

import numpy as np
from scipy.optimize import minimize

from skdp.problems import WholeSpace


def exact_solution(problem):
    """The solution by the dual problem, and a bound on its distance by the duality gap.

    With slopes a the dual is ``min over w of a'(Xw - k)/n + mu/2 ||w||^2``; its point is within
    ``sqrt(gap / mu)`` of the solution, as both objectives are mu-strongly convex.
    """
    mu, n = problem.alpha, problem.n_records
    kinks, low, high = problem.loss.pieces(problem.records.targets)

    def point(dual):
        return problem.domain.project(-problem.pull_back(dual) / mu)

    def negative_dual(dual):
        w = point(dual)
        offset = problem.margins(w) - kinks
        return -(dual @ offset / n + 0.5 * mu * w @ w), -offset / n

    bounds, exactly = list(zip(low, high, strict=True)), {"ftol": 0.0, "maxiter": 5000}
    duals = [0.5 * (low + high)]
    for method in ("L-BFGS-B", "SLSQP", "SLSQP"):
        found = minimize(negative_dual, duals[-1], jac=True, bounds=bounds, method=method,
                         options=exactly)  # fmt: skip
        duals.append(np.clip(found.x, low, high))
    if isinstance(problem.domain, WholeSpace):  # records at their kinks, to all digits
        rows = np.column_stack([problem.margins(unit) for unit in np.eye(problem.dimension)])
        gram, dual = rows @ rows.T / (mu * n), duals[-1].copy()
        for margin in 10.0 ** -np.arange(2, 9):
            free = (dual > low + margin) & (dual < high - margin)
            fixed = np.where(free, 0.0, np.where(dual > 0.5 * (low + high), high, low))
            fixed[free] = np.linalg.lstsq(gram[np.ix_(free, free)], -(kinks + gram @ fixed)[free])[
                0
            ]
            duals.append(np.clip(fixed, low, high))
    gaps = [problem.value(point(dual)) + negative_dual(dual)[0] for dual in duals]
    return point(duals[np.argmin(gaps)]), float(np.sqrt(max(min(gaps), 0.0) / mu))
