"""DP-SGDA: noisy gradient descent ascent on random batches, the baseline of private saddle points.

The algorithm of Yang et al. (2022) for any :class:`skdp.problems.SaddleProblem`, step by step as
:mod:`skdp.algorithms.baselines.sgd`. Lipschitz constants that hold for every record bound the sums,
so nothing is clipped. Differences to the paper: Poisson samples, an accountant in place of
asymptotic constants, one joint Gaussian for both blocks, and regularisers that need no noise.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from skdp._checks import check_count, check_real
from skdp._runtime import without_warnings
from skdp.algorithms.plan import Result, Run
from skdp.algorithms.sampled_steps import NoisyStepsPlan
from skdp.mechanisms import GaussianMechanism, NoiseSource, SampledGaussianMechanism
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.events import Neighbouring
from skdp.problems import ROUNDING_SLACK, MaxGroupLossProblem, SaddleConstants, SaddleProblem


@dataclass(frozen=True, kw_only=True)
class DPSGDAPlan(NoisyStepsPlan):
    """A plan of :func:`dp_sgda`.

    The noise is that of ``(sum_x / unit_x, sum_y / unit_y)``. Only the iterates are released: in
    the sums nothing but what is parallel to the domain of y is protected.

    Units are ``L_x / sqrt(balance)``, ``L_y / sqrt(1 - balance)``: the scaled operator of a record
    has norm at most 1. The last `n_averaged` iterates are averaged.
    """

    dimension_x: int
    dimension_y: int
    n_averaged: int
    learning_rate_x: float
    learning_rate_y: float
    alpha_x: float
    alpha_y: float
    unit_x: float
    unit_y: float

    _statement = (
        "iterates",
        "Yang et al. 2022, with one joint Gaussian and privacy loss distributions",
    )

    @property
    def noise_scale_x(self) -> float:
        """Standard deviation of the noise in a coordinate of a step's sum over the batch."""
        return self.mechanism.noise_scale * self.unit_x

    @property
    def noise_scale_y(self) -> float:
        return self.mechanism.noise_scale * self.unit_y

    @property
    def dimension(self) -> int:
        return self.dimension_x + self.dimension_y

    def to_dict(self) -> dict[str, Any]:
        numbers = {
            **asdict(self),
            **super().to_dict(),
            "sensitivity": self.mechanism.sensitivity,
            "noise_scale_x": self.noise_scale_x,
            "noise_scale_y": self.noise_scale_y,
        }
        del numbers["mechanism"]
        return numbers

    @without_warnings()
    def run(self, data: SaddleProblem, run: Run) -> DPSGDAResult:
        _check_separable(data, self)
        moved = _sensitivity(data.constants, (self.unit_x, self.unit_y), self.neighbouring)
        if moved > self.mechanism.sensitivity * (1.0 + 1e-12):
            raise ValueError("The sensitivity of the problem exceeds that of the plan.")
        problem, (x, y) = data, data.start()
        total_x, total_y = np.zeros(self.dimension_x), np.zeros(self.dimension_y)
        n_steps = self.mechanism.n_steps
        for step in range(n_steps):
            sum_x, sum_y = _batch_sums(problem, self.batch(problem.n_records, run.noise), x, y)
            step_x = self._noisy(sum_x, self.unit_x, run.noise) / self.expected_batch
            step_y = self._noisy(sum_y, self.unit_y, run.noise) / self.expected_batch
            step_x = step_x + self.alpha_x * (x - problem.center_x)
            step_y = step_y + self.alpha_y * (y - problem.center_y)
            # the operator is minus the gradient in y: a descent in both blocks
            x, y = problem.project(
                x - self.learning_rate_x * step_x, y - self.learning_rate_y * step_y
            )
            if step >= n_steps - self.n_averaged:
                total_x += x
                total_y += y
        mean_x, mean_y = problem.project(total_x / self.n_averaged, total_y / self.n_averaged)
        return DPSGDAResult(point=mean_x, plan=self, y=mean_y, last_x=x, last_y=y)

    def _noisy(self, total: np.ndarray, unit: float, noise: NoiseSource) -> np.ndarray:
        """Release the sum of one block, whose noise is in units of its bound."""
        if unit == 0.0:  # a block that depends on no record
            return total
        mechanism = self.mechanism
        scaled = GaussianMechanism(unit * mechanism.sensitivity, mechanism.noise_multiplier)
        return scaled.release(total, noise)


@dataclass(frozen=True, kw_only=True)
class DPSGDAResult(Result):
    """Private pairs and their plan.

    Attributes
    ----------
    x, y : ndarray
        Averages of the last ``plan.n_averaged`` iterates; `x` is also `point`.
    last_x, last_y : ndarray
        The last iterates, which cost nothing more.
    """

    y: np.ndarray
    last_x: np.ndarray
    last_y: np.ndarray

    @property
    def x(self) -> np.ndarray:
        return self.point


def dp_sgda(
    problem: SaddleProblem,
    budget: PrivacyBudget | None = None,
    *,
    run: Run | None = None,
    **options: Any,
) -> DPSGDAResult:
    """Solve a saddle problem by private stochastic gradient descent ascent.

    Starts at the projected centers of the regularisers. With a(z; i) = (grad_x, -grad_y) of the
    function of record i and B a random batch, each step is, for x and y at once,

        ``x <- project(x - learning_rate_x (s_x / (sampling_rate n_public) + a_x (x - c_x)))``,

    where ``s = sum over B of a((x, y); i)`` plus normal noise of standard deviations
    ``plan.noise_scale_x`` and ``plan.noise_scale_y``. Proof of privacy: docs/theory/saddle.md,
    "Noisy gradient descent ascent".

    Parameters
    ----------
    problem : SaddleProblem
        Its Lipschitz constants must hold for every record, and its centers must be public.
    budget, run
        As in :func:`skdp.algorithms.dp_sgd`.
    **options
        Those of :func:`plan_dp_sgda`. They must be chosen without looking at the records.

    Raises
    ------
    ValueError
        For :class:`skdp.problems.MaxGroupLossProblem` with clipped importance weights, unless
        ``neighbouring == "replace_one"`` and ``sampling_rate == 1`` or groups are public: there
        one record rescales the losses of the others.

    References
    ----------
    Z. Yang, S. Hu, Y. Lei, K. R. Varshney, S. Lyu, Y. Ying, "Differentially private SGDA for
    minimax problems", UAI 2022: Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.algorithms import Run, dp_sgda
    >>> from skdp.mechanisms import NoiseSource
    >>> from skdp.privacy import PrivacyBudget
    >>> from skdp.problems import GroupWeights, LogisticLoss, MaxGroupLossProblem, Records
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.normal(1.0, size=(2000, 2)), np.arange(2000) % 2
    >>> records = Records(X, 1.0, targets=np.zeros(2000), groups=groups)
    >>> problem = MaxGroupLossProblem(
    ...     records, LogisticLoss(), GroupWeights((2.0, 2.0)), 2.0, alpha_x=0.1, alpha_y=1.0
    ... )
    >>> result = dp_sgda(
    ...     problem, PrivacyBudget(1.0, 1e-6), sampling_rate=1.0, n_steps=30,
    ...     learning_rate_x=0.2, learning_rate_y=0.2, run=Run(noise=NoiseSource(rng.bytes)),
    ... )
    >>> bool((result.x < -0.3).all()), round(result.plan.epsilon(1e-6), 6)
    (True, 1.0)
    """
    if not isinstance(problem, SaddleProblem):
        raise TypeError(f"problem must be a SaddleProblem, got {type(problem).__name__}.")
    plan = plan_dp_sgda(
        problem.constants, budget, alpha_x=problem.alpha_x, alpha_y=problem.alpha_y, **options
    )
    return plan.run(problem, run or Run())


def plan_dp_sgda(
    constants: SaddleConstants,
    budget: PrivacyBudget | None = None,
    *,
    sampling_rate: float,
    n_steps: int,
    learning_rate_x: float,
    learning_rate_y: float,
    alpha_x: float | None = None,
    alpha_y: float | None = None,
    neighbouring: Neighbouring | str = Neighbouring.REPLACE_ONE,
    average: bool | Literal["all"] = True,
    balance: float | Literal["auto"] = 0.5,
    noise_multiplier: float | None = None,
    n_public: int | None = None,
) -> DPSGDAPlan:
    """Calibrate the noise from public numbers.

    Parameters
    ----------
    constants : SaddleConstants
        Dimensions, Lipschitz constants and, under "replace_one", gradient ranges and n.
    budget, sampling_rate, n_steps
        As in :func:`skdp.algorithms.plan_dp_sgd`.
    learning_rate_x, learning_rate_y : float
    alpha_x, alpha_y : float, optional
        Of the regularisers. Default: the moduli of the constants.
    neighbouring : Neighbouring or str, default="replace_one"
        Under "add_remove" the number of records is private and is not used.
    average : bool or "all", default=True
        True averages the iterates of the second half, "all" all of them, False only the last one.
    balance : float or "auto", default=0.5
        Share b of x in the squared norm of a record's scaled operator: the noise has standard
        deviation proportional to ``L_x / sqrt(b)`` in x and ``L_y / sqrt(1 - b)`` in y. "auto"
        minimises ``eta_x d_x noise_x^2 + eta_y d_y noise_y^2``, the noise in the classical bound on
        the gap of the averages, with eta the learning rates and d the dimensions.
        A block of Lipschitz constant 0 gets no noise whatever the balance is.
    noise_multiplier : float, optional
        Standard deviation of the scaled noise in units of the sensitivity, instead of a budget.
    n_public : int, optional
        Public nominal number of records, needed under "add_remove". Default under "replace_one":
        n, which is public there.

    Raises
    ------
    ImportError
        As :func:`skdp.algorithms.plan_dp_sgd`; under "replace_one" also if dp-accounting is older
        than 0.5.
    """
    relation = Neighbouring(neighbouring)
    if not isinstance(constants, SaddleConstants):
        raise TypeError(f"constants must be SaddleConstants, got {type(constants).__name__}.")
    if n_public is None:
        if not relation.is_replaced:
            raise ValueError(
                "neighbouring == 'add_remove' needs n_public: the number of records is private."
            )
        n_public = constants.n_records
    check_count("n_public", n_public)
    alpha_x = constants.x.modulus if alpha_x is None else alpha_x
    alpha_y = constants.y.modulus if alpha_y is None else alpha_y
    for block, rate, alpha in (("x", learning_rate_x, alpha_x), ("y", learning_rate_y, alpha_y)):
        # wide, but products of them are far from the ends of double precision
        check_real(f"learning_rate_{block}", rate, 1e-50, 1e50)
        check_real(f"alpha_{block}", alpha, 0.0, 1e150)
        if rate * alpha > 1.0:
            raise ValueError(
                f"learning_rate_{block} * alpha_{block} == {rate * alpha:g}, must be <= 1: a step "
                "of the regulariser alone would overshoot."
            )
    if not (isinstance(average, (bool, np.bool_)) or average == "all"):
        raise TypeError(f"average must be True, False or 'all', got {average!r}.")
    units = _units(constants, balance, (learning_rate_x, learning_rate_y))
    sensitivity = _sensitivity(constants, units, relation)
    mechanism = SampledGaussianMechanism.calibrated(
        budget,
        noise_multiplier,
        relation,
        sensitivity=sensitivity,
        sampling_rate=sampling_rate,
        n_steps=n_steps,
        replacement=sensitivity / ROUNDING_SLACK,
    )
    second_half = mechanism.n_steps - mechanism.n_steps // 2
    return DPSGDAPlan(
        n_public=int(n_public),
        neighbouring=relation,
        mechanism=mechanism,
        delta=None if budget is None else budget.delta,
        dimension_x=constants.x.dimension,
        dimension_y=constants.y.dimension,
        n_averaged=mechanism.n_steps if average == "all" else second_half if average else 1,
        learning_rate_x=float(learning_rate_x),
        learning_rate_y=float(learning_rate_y),
        alpha_x=float(alpha_x),
        alpha_y=float(alpha_y),
        unit_x=units[0],
        unit_y=units[1],
    )


def _units(
    constants: SaddleConstants, balance: Any, rates: tuple[float, float]
) -> tuple[float, float]:
    """Return the units of both blocks; 0 for a block without records."""
    lipschitz = constants.x.lipschitz, constants.y.lipschitz
    for block, bound in zip("xy", lipschitz, strict=True):
        if bound > 0:
            check_real(f"lipschitz_{block}", bound, 1e-50, 1e50)
    if max(lipschitz) == 0:
        raise ValueError("lipschitz_x == lipschitz_y == 0: the problem depends on no record.")
    if balance != "auto":
        check_real("balance", balance, 1e-6, 1.0 - 1e-6)
    if min(lipschitz) == 0:
        return float(lipschitz[0]), float(lipschitz[1])
    if balance == "auto":
        noise_x = math.sqrt(rates[0] * constants.x.dimension) * lipschitz[0]
        noise_y = math.sqrt(rates[1] * constants.y.dimension) * lipschitz[1]
        balance = min(max(noise_x / (noise_x + noise_y), 1e-6), 1.0 - 1e-6)
    return lipschitz[0] / math.sqrt(balance), lipschitz[1] / math.sqrt(1.0 - balance)


def _sensitivity(
    constants: SaddleConstants, units: tuple[float, float], relation: Neighbouring
) -> float:
    """Bound the movement of the scaled sums of a batch; proof: docs/theory/saddle.md."""
    largest = constants.x.lipschitz, constants.y.lipschitz
    added, *replaced = (
        math.hypot(*(g / max(unit, 1e-300) for g, unit in zip(pair, units, strict=True)))
        for pair in (largest, *constants.ranges)
    )
    if not relation.is_replaced:
        return added * ROUNDING_SLACK
    if not max(replaced) > 0:
        raise ValueError("gradient_ranges are 0: the problem depends on no record.")
    return min(max(replaced), 2.0 * added) * ROUNDING_SLACK


def _batch_sums(
    problem: SaddleProblem, batch: np.ndarray | None, x: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sum the records' operators over a batch, None for all records; no noise."""
    if batch is None:
        size, (mean_x, mean_y) = problem.n_records, problem.data_operator(x, y)
    elif len(batch) == 0:
        return np.zeros_like(x), np.zeros_like(y)
    else:
        size, (mean_x, mean_y) = len(batch), problem.batch_operator(batch, x, y)
    return size * mean_x, size * mean_y


def _check_separable(problem: SaddleProblem, plan: DPSGDAPlan) -> None:
    """Refuse a problem that is no sum over records, unless all records are used in every step."""
    if plan.neighbouring.is_replaced:
        if problem.is_mean or plan.mechanism.sampling_rate == 1.0:
            return
    # sizes of groups are public under replace-one only
    elif problem.is_mean and not (
        isinstance(problem, MaxGroupLossProblem) and problem.weights.clipped
    ):
        return
    raise ValueError(
        "The data part must be a mean of one function per record; with clipped weights one record "
        "changes the weights of all others in its group. Use sampling_rate=1 and "
        "neighbouring='replace_one', or weights that are not clipped."
    )
