"""Output perturbation for losses under attack whose inner problem is not solved in closed form.

Algorithm 8 of Lowy and Razaviyayn (2021), with errata E2 and E3 corrected: find an approximate
saddle point of ``H(w, v)``, prove how good its w is, add noise. Here the black box may be any
function: what it returns is certified by :func:`saddle_gap`, in place of an accuracy in
expectation.

An attack that is merely found, by projected gradient ascent for instance, proves nothing: it is a
*lower* bound of the inner maximum. The certificate therefore asks for concavity in v, and for a v
that is nearly maximal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from skdp._checks import check_count, check_positive
from skdp.algorithms.output_perturbation import OutputPerturbationPlan
from skdp.algorithms.plan import Result
from skdp.mechanisms import NoiseSource, calibrated_mechanism
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import Neighbouring
from skdp.problems import ConcaveInnerProblem
from skdp.problems.domains import euclidean_norm
from skdp.problems.silence import without_warnings

__all__ = [
    "SaddleSolver",
    "adversarial_output_perturbation",
    "extragradient_iterations",
    "plan_adversarial_output_perturbation",
    "saddle_gap",
]

#: A solver: ``(problem, gap) -> (w, v)``.
SaddleSolver = Callable[[ConcaveInnerProblem, float], tuple[np.ndarray, np.ndarray]]

#: Solver accuracy as a fraction of half the sensitivity: costs 1 % of noise. A gap is quadratic
#: in it, so a smaller one would soon ask for more digits than there are.
ACCURACY_FRACTION = 1e-2
#: Iterations of the default solver where no number is proven to suffice.
MAX_ITERATIONS = 20_000

_EPS = float(np.finfo(np.float64).eps)
#: Length of a step of the extragradient method, in units of 1 / Lipschitz constant.
_STEP = 0.4


def adversarial_output_perturbation(
    problem: ConcaveInnerProblem,
    budget: PrivacyBudget,
    *,
    accuracy_fraction: float = ACCURACY_FRACTION,
    solver: SaddleSolver | None = None,
    max_iterations: int = MAX_ITERATIONS,
    noise: NoiseSource | None = None,
) -> Result:
    """Minimise ``max over v in S of H(w, v)`` over a ball of w, privately.

    *Proof.* Neighbours' minimisers differ by at most ``Delta = 2 L / (mu N)`` (N = n for a mean of
    records, else 1): a maximum over v keeps Lipschitz constants and strong convexity (Lowy and
    Razaviyayn 2021, Lemma 5.4), so Prop. 2.2 applies to it. A point with ``saddle_gap <= g`` is
    within ``tau = sqrt(2 g / mu)`` of the minimiser, for every data set and surely. Two
    neighbours' points differ by at most ``Delta + 2 tau`` for pure and for approximate budgets
    (the printed ``Delta + 2 g / mu`` of the latter, erratum E2, is too small), and by at most
    2 R, being in the ball. Projecting after the noise is post-processing.

    Parameters
    ----------
    problem : ConcaveInnerProblem
    budget : PrivacyBudget
    accuracy_fraction : float, default=0.01
        See :func:`plan_adversarial_output_perturbation`.
    solver : callable ``(problem, gap) -> (w, v)``, optional
        Should return a pair whose :func:`saddle_gap` is at most `gap`. Whatever it does, what it
        returns is projected and certified; if that fails, the default solver goes on from
        there. Default: the projected extragradient method.
    max_iterations : int, default=20000
        Public number of iterations of the default solver, unless H is strongly concave in v:
        then it takes up to :func:`extragradient_iterations`, which is proven to suffice.
    noise : NoiseSource, optional
        Default: the operating system's secure generator.

    Returns
    -------
    Result
        The private point and the public plan; nothing else depends on the records.

    Raises
    ------
    RuntimeError
        If no point could be certified. *This error says something about the records and is
        outside of the guarantee.* In exact arithmetic it cannot occur if the declared numbers hold
        and H is strongly concave in v, which
        :meth:`skdp.problems.ConcaveInnerProblem.with_concavity` brings about. Without strong
        concavity it is the caller's claim that the solver suffices for every data set.
    """
    check_count("max_iterations", max_iterations, 0)
    if not (solver is None or callable(solver)):
        raise ValueError(f"solver == {solver!r}, must be a callable (problem, gap) -> (w, v).")
    plan = plan_adversarial_output_perturbation(
        problem, budget, accuracy_fraction=accuracy_fraction
    )
    point = _certified_point(problem, plan.accuracy, solver, int(max_iterations))
    with without_warnings():
        noisy = plan.mechanism.release(point, NoiseSource() if noise is None else noise)
        return Result(problem.domain.project(noisy), plan)


def plan_adversarial_output_perturbation(
    problem: ConcaveInnerProblem,
    budget: PrivacyBudget,
    *,
    accuracy_fraction: float = ACCURACY_FRACTION,
) -> OutputPerturbationPlan:
    """Fix the accuracy and the noise from the declared numbers; H is not evaluated.

    The accuracy is ``accuracy_fraction Delta / 2``, or what double precision can certify if that
    is larger: ``sqrt(16 e / mu)`` with e the rounding error of a gap.

    Parameters
    ----------
    problem : ConcaveInnerProblem
    budget : PrivacyBudget
    accuracy_fraction : float, default=0.01

    Returns
    -------
    OutputPerturbationPlan
    """
    check_positive(accuracy_fraction=accuracy_fraction)
    constants = problem.constants
    exact = constants.argmin_sensitivity(Neighbouring.REPLACE_ONE)
    floor = math.sqrt(16.0 * _gap_rounding(problem) / problem.strong_convexity)
    accuracy = max(0.5 * accuracy_fraction * exact, floor)
    mechanism = calibrated_mechanism(budget, min(exact + 2.0 * accuracy, 2.0 * problem.radius))
    reference = "Lowy & Razaviyayn 2021, Alg. 8, corrected (E2, E3)"
    if not budget.is_pure:
        reference += " with the analytic Gaussian mechanism"
    return OutputPerturbationPlan(
        constants, Neighbouring.REPLACE_ONE, exact, accuracy, mechanism, reference
    )


@without_warnings()
def saddle_gap(
    problem: ConcaveInnerProblem,
    w: np.ndarray,
    v: np.ndarray,
    gradients: tuple[np.ndarray, np.ndarray] | None = None,
) -> float:
    """Bound on ``G(w) - min G`` for a feasible pair, ``G(w) = max over v in S of H(w, v)``.

    With ``a = max over v' in S of <grad_v H(w, v), v' - v>`` and, over the ball of w',
    ``b = max of <grad_w H(w, v), w - w'> - (mu / 2) ||w' - w||^2``, it is ``a + b``.

    *Proof.* Concavity in v: ``H(w, v') <= H(w, v) + <grad_v H, v' - v>``, so
    ``G(w) <= H(w, v) + a``. Strong convexity in w: for every w' of the ball
    ``G(w') >= H(w', v) >= H(w, v) + <grad_w H, w' - w> + (mu / 2) ||w' - w||^2 >= H(w, v) - b``.
    The quadratic in b is isotropic, so its maximiser is the projection of ``w - grad_w H / mu``;
    without the ball ``b = ||grad_w H||^2 / (2 mu)``, which is never smaller.

    G being mu-strongly convex (Lemma 5.4) with minimiser w*,
    ``||w - w*|| <= sqrt(2 (a + b) / mu)``. For a v that is far from maximal a is large, and so is
    the gap, however small ``H(w, v)`` may be.

    Parameters
    ----------
    problem : ConcaveInnerProblem
    w : ndarray of shape (dimension,)
    v : ndarray
        Feasible, as :meth:`skdp.problems.ConcaveInnerProblem.project` returns them.
    gradients : pair of ndarray, optional
        Both gradients there, when they are at hand.

    Returns
    -------
    float
        Rounding errors are added; ``inf`` where something is not finite.
    """
    slope_w, slope_v = problem.gradients(w, v) if gradients is None else gradients
    mu, error = problem.strong_convexity, problem.rounding_w
    gain = float(problem.linear_max_v(slope_v.copy())) - float((slope_v * v).ravel().sum())
    slope = euclidean_norm(slope_w) * (1.0 + w.size * _EPS) + error
    nearest = problem.domain.project(w - slope_w / mu)
    step = w - nearest
    length = euclidean_norm(step)
    blur = problem.domain.projection_rounding(w.size)
    blur += 4.0 * _EPS * (euclidean_norm(w) + slope / mu)
    drop = float(slope_w @ step) - 0.5 * mu * length**2
    drop += error * (length + blur + error / mu)  # of the gradient
    drop += (slope + mu * (length + blur)) * blur  # of the maximiser
    drop += (w.size + 8.0) * _EPS * slope * length  # of the product
    terms = (gain, drop, 0.5 * slope**2 / mu)
    if not all(math.isfinite(term) for term in terms):
        return math.inf
    return max(0.0, gain) + max(0.0, min(terms[1:])) + problem.rounding_gain


def _gap_rounding(problem: ConcaveInnerProblem) -> float:
    """Public bound on what :func:`saddle_gap` adds for rounding near the solution."""
    mu, error = problem.strong_convexity, problem.rounding_w
    slope = problem.lipschitz + 2.0 * problem.smoothness_w * problem.radius
    blur = problem.domain.projection_rounding(problem.dimension)
    blur += 4.0 * _EPS * (problem.radius + slope / mu)
    # in the interior error^2 / mu is left, on the sphere slope * blur
    return problem.rounding_gain + 2.0 * error**2 / mu + 2.0 * (slope + mu * blur) * blur


def _certified_point(
    problem: ConcaveInnerProblem,
    accuracy: float,
    solver: SaddleSolver | None,
    max_iterations: int,
) -> np.ndarray:
    """A point of the ball within `accuracy` of the minimiser."""
    w = np.zeros(problem.dimension)
    if accuracy >= problem.radius:  # a public decision: the centre will do
        return w
    gap = 0.5 * problem.strong_convexity * accuracy**2
    with without_warnings():
        w, v = problem.project(w, problem.start_v)
        if solver is not None:
            found = _foreign_pair(problem, gap, solver)
            if found is not None and saddle_gap(problem, *found) <= saddle_gap(problem, w, v):
                w, v = found
        w, reached = _extragradient(problem, gap, w, v, max_iterations)
    if not reached <= gap:
        raise RuntimeError(
            "No saddle point could be certified. This error depends on the records and is not "
            "covered by the privacy guarantee: use another solver, more iterations, or "
            "problem.with_concavity(strength), for which success is proven."
        )
    return w


def _foreign_pair(
    problem: ConcaveInnerProblem, gap: float, solver: SaddleSolver
) -> tuple[np.ndarray, np.ndarray] | None:
    """What a foreign solver makes of an object of its own, projected; None if it is no use."""
    try:
        w, v = solver(replace(problem), gap)
        w = np.array(w, dtype=np.float64).ravel()
        v = np.array(v, dtype=np.float64).reshape(problem.start_v.shape)
        if w.shape != (problem.dimension,) or not (np.isfinite(w).all() and np.isfinite(v).all()):
            return None
        return problem.project(w, v)
    except KeyboardInterrupt:
        raise
    except BaseException:  # whatever it raises depends on the records
        return None


def _metric(problem: ConcaveInnerProblem) -> tuple[float, float, float, float]:
    """Weights of w and v, and modulus and Lipschitz constant of the gradients in that metric.

    In the norm ``p_w ||w||^2 + p_v ||v||^2`` the operator ``(grad_w H / p_w, -grad_v H / p_v)`` is
    Lipschitz with the norm of a symmetric 2 x 2 matrix. With moduli as weights, its ratio to the
    modulus of monotonicity does not grow with the number of records.
    """
    mu, nu = problem.strong_convexity, problem.strong_concavity
    p_w, p_v = mu, nu
    if nu == 0:
        p_w = problem.smoothness_w
        p_v = max(problem.smoothness_v, problem.coupling**2 / p_w)
        p_v = p_v if p_v > 0 else 1.0
    matrix = np.array(
        [
            [problem.smoothness_w / p_w, problem.coupling / math.sqrt(p_w * p_v)],
            [problem.coupling / math.sqrt(p_w * p_v), problem.smoothness_v / p_v],
        ]
    )
    modulus = min(mu / p_w, nu / p_v)
    return p_w, p_v, modulus, float(np.linalg.norm(matrix, 2)) * (1.0 + 1e-9)


def extragradient_iterations(problem: ConcaveInnerProblem, gap: float) -> float:
    """Iterations after which the gap is proven to be at most `gap`; inf without strong concavity.

    *Proof.* In the metric of the solver, with modulus m, Lipschitz constant l >= m and step
    ``s = 0.4 / l``, one iteration obeys ``d_{k+1}^2 <= d_k^2 - (1 - s^2 l^2) e^2 - 2 s m h^2`` with
    d the distance to the saddle point, e the length of the first half and h the distance after it
    (Korpelevich 1976). ``h^2 >= d_k^2 / 2 - e^2`` and ``s^2 l^2 + 2 s m <= 0.96`` give
    ``d_{k+1}^2 <= (1 - s m) d_k^2``.

    The gap at distance d of the saddle point is at most ``c_1 d + c_2 d^2``. With d_w and d_v the
    two distances, D_v the diameter of S, g the gradients at (w, v) and g* those at the saddle
    point, ``a <= ||g_v - g*_v|| D_v + ||g*_v|| d_v``, since ``max <g*_v, v' - v*> = 0``, and
    ``b <= ||g_w - g*_w||^2 / (2 mu) + ||g*_w|| d_w``, since ``<g*_w, w* - w'> <= 0``.

    Parameters
    ----------
    problem : ConcaveInnerProblem
    gap : float

    Returns
    -------
    float
    """
    p_w, p_v, modulus, lipschitz = _metric(problem)
    if modulus == 0:
        return math.inf
    diameter, diameter_v = 2.0 * problem.radius, 2.0 * problem.radius_v
    start = math.sqrt(p_w * diameter**2 + p_v * diameter_v**2)
    per_w, per_v = 1.0 / math.sqrt(p_w), 1.0 / math.sqrt(p_v)  # d_w, d_v for d = 1
    change_w = problem.smoothness_w * per_w + problem.coupling * per_v
    change_v = problem.smoothness_v * per_v + problem.coupling * per_w
    slope_w = problem.lipschitz + problem.smoothness_w * diameter
    linear = change_v * diameter_v + problem.lipschitz_v * per_v + slope_w * per_w
    quadratic = 0.5 * change_w**2 / problem.strong_convexity
    wanted = min(start, gap / (linear + quadratic * start))
    contraction = _STEP * modulus / lipschitz
    return max(1.0, math.ceil(2.0 * math.log(start / wanted) / -math.log1p(-contraction)))


def _extragradient(
    problem: ConcaveInnerProblem, gap: float, w: np.ndarray, v: np.ndarray, max_iterations: int
) -> tuple[np.ndarray, float]:
    """Projected extragradient method until certified: the best w and its gap."""
    p_w, p_v, _, lipschitz = _metric(problem)
    step_w, step_v = _STEP / (lipschitz * p_w), _STEP / (lipschitz * p_v)
    # half of the gap is for rounding
    proven = extragradient_iterations(problem, 0.5 * gap)
    limit = int(proven) if math.isfinite(proven) else max_iterations
    best, best_gap = w, math.inf
    for _ in range(limit + 1):
        slopes = problem.gradients(w, v)
        reached = saddle_gap(problem, w, v, slopes)
        if reached < best_gap:
            best, best_gap = w, reached
        if best_gap <= gap:
            break
        half = problem.project(w - step_w * slopes[0], v + step_v * slopes[1])
        slopes = problem.gradients(*half)
        w, v = problem.project(w - step_w * slopes[0], v + step_v * slopes[1])
    return best, best_gap
