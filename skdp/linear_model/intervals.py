"""Confidence intervals of coefficients, from what a fit has released."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.stats import norm
from sklearn.utils.validation import check_is_fitted

from skdp._checks import check_bool, check_real
from skdp.algorithms.core.fit import CorePlan
from skdp.algorithms.core.intervals import HIDDEN, LARGEST, Newton, least_records
from skdp.linear_model.base import DPLinearModel
from skdp.methods import Gradient
from skdp.methods.choice import Choice, resolved
from skdp.problems import Design, EmpiricalRisk

_NOT_COVERED = "intervals=True does not cover {}: set intervals=False, or leave that out."


@dataclass(frozen=True, kw_only=True)
class CoefficientIntervals:
    """Confidence intervals of coefficients, in the units and the shape of ``coef_``.

    Attributes
    ----------
    estimate : ndarray
        Debiased coefficients: not ``coef_``, which is shrunk to predict well.
    noise_std : ndarray
        Standard deviation of what the noise of the fit adds to the estimate.
    sampling_std : ndarray
        Standard deviation of the estimate over samples of the population, for a fit without noise.
    low, high : ndarray
        Ends of the intervals; infinite where the noise hides what a coefficient depends on.
    level : float
        Chance that an interval holds the coefficient of the population.
    names : tuple of str
        Of the features.
    labels : tuple
        Of the classes that rows of coefficients belong to; empty for one row.
    """

    estimate: np.ndarray
    noise_std: np.ndarray
    sampling_std: np.ndarray
    low: np.ndarray
    high: np.ndarray
    level: float
    names: tuple[str, ...]
    labels: tuple[Any, ...] = ()

    def to_frame(self) -> Any:
        """Return a data frame of five columns with one row per feature, or class and feature.

        Returns
        -------
        frame : pandas.DataFrame
        """
        pd = importlib.import_module("pandas")
        index: Any = pd.Index(self.names, name="feature")
        if self.labels:
            levels = [self.labels, self.names]
            index = pd.MultiIndex.from_product(levels, names=["class", "feature"])
        columns = "estimate", "noise_std", "sampling_std", "low", "high"
        return pd.DataFrame({name: getattr(self, name).ravel() for name in columns}, index=index)


def intervals_of(
    step: Newton, level: float, along: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return estimates, deviations of noise and sample, and ends; see :meth:`Newton.debiased`."""
    estimate, noise, sampling, hidden = step.debiased(along)
    reach = float(norm.isf(0.5 - 0.5 * level)) * np.hypot(noise, sampling)
    reach = np.where(hidden, np.inf, reach)
    return estimate, noise, sampling, estimate - reach, estimate + reach


@lru_cache(maxsize=1)  # every effect of a table asks for it
def apart(step: Newton, levels: tuple[Sequence[int], ...] = ()) -> Newton:
    """Leave hidden directions out of the step of coefficients that do not visibly go with them.

    Features that are `levels` of a category add up to 1 or nearly so: what they have in common is
    left out first, as the constant stands for it.
    """
    (k, width), n, limit = step.score.shape, step.score.size, HIDDEN * step.errors[1]
    common = np.zeros((len(levels) * k, n))
    for direction, (at, a) in zip(common, product(levels, range(k)), strict=True):
        direction[a * width + np.asarray(at)] = len(at) ** -0.5
    known = [each for each in common if each @ step.curvature @ each < limit]
    free, left, fixed = np.arange(n), list[np.ndarray](), list[int]()
    while (found := known.pop() if known else _few_hidden(step, free)) is not None:
        left.append(found)
        fixed.append(int(np.abs(found).argmax()))  # those that follow are 0 there
        free = free[free != fixed[-1]]
    directions, turn = np.reshape(left, (-1, n)).T, np.eye(n)
    turn[:, fixed] -= directions @ np.linalg.inv(directions[fixed])
    return replace(step, curvature=turn.T @ step.curvature @ turn)


def _few_hidden(step: Newton, free: np.ndarray) -> np.ndarray | None:
    """Return a hidden direction of at most half of the `free` coordinates, or None.

    Its entries with the others do not exceed those of noise by three deviations of a chi square.
    """
    k, noise, curvature = len(step.score), step.errors[1], step.curvature[np.ix_(free, free)]
    scales = np.maximum(np.diag(curvature), HIDDEN * noise)
    (lowest,), vectors = eigh(curvature, subset_by_index=[0, 0])
    own = [int(np.abs(vectors[:, 0]).argmax())]
    while lowest < HIDDEN * noise and 2 * len(own) <= len(free):
        (found,), within = eigh(curvature[np.ix_(own, own)], subset_by_index=[0, 0])
        cross, others = curvature[:, own] @ within[:, 0], len(free) - len(own)
        cross[own] = 0.0
        # the mean square of an entry of noise, of columns and outputs that are the same or not
        most = 0.25 * (k + 1.0) / k * noise**2 * (others + 3.0 * math.sqrt(2.0 * others))
        if found < HIDDEN * noise and (cross**2).sum() <= most:
            direction = np.zeros(step.score.size)
            direction[free[own]] = within[:, 0]
            return direction
        own.append(int((cross**2 / scales).argmax()))  # what hides it most
    return None


class CoefficientIntervalsMixin(DPLinearModel):
    """Linear models with confidence intervals of their coefficients; not for direct use."""

    intervals: bool
    classes_: Any
    #: Features of each category of a table, which add up to 1 or nearly so.
    _levels: tuple[Sequence[int], ...] = ()

    def coef_interval(self, level: float = 0.95) -> CoefficientIntervals:
        """Compute confidence intervals of the coefficients, around debiased ones.

        The estimate is not ``coef_``, which is shrunk to predict well, but a Newton step from it.
        Intervals count the noise of the fit and the sampling of the records. They follow from what
        the fit has released, and cost no budget.

        Parameters
        ----------
        level : float, default=0.95
            In (0, 1).

        Returns
        -------
        intervals : CoefficientIntervals
            With ``to_frame()``.

        Raises
        ------
        ValueError
            After a fit without ``intervals=True``.

        References
        ----------
        docs/theory/core.md, section 12.
        """
        check_is_fitted(self)
        check_real("level", level, 0.0, 1.0)
        if not 0.0 < level < 1.0:
            raise ValueError(f"level == {level:g}, must be in (0, 1).")
        if self._transcript is None:
            raise ValueError(
                "coef_interval needs a fit with intervals=True, which releases a Newton step."
            )
        found = intervals_of(apart(self._transcript, self._levels), level)
        labels = tuple(self.classes_.tolist()) if len(found[0]) > 1 else ()
        estimate, noise, sampling, low, high = (
            self._of_scores(each, np.zeros(len(each)))[0].copy() for each in found
        )
        default = [f"x{i}" for i in range(self.n_features_in_)]
        return CoefficientIntervals(
            estimate=estimate,
            noise_std=noise,
            sampling_std=sampling,
            low=low,
            high=high,
            level=float(level),
            names=tuple(map(str, getattr(self, "feature_names_in_", default))),
            labels=labels,
        )

    def _interval_of_sums(
        self,
        level: float,
        along: np.ndarray,
        levels: tuple[Sequence[int], ...],
        row: int,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return estimates and ends of sums of coefficients of a row."""
        step = replace(apart(self._transcript, levels), mix=self._transcript.mix[[row]])
        estimate, _, _, low, high = intervals_of(step, level, along)
        return estimate[0], low[0], high[0]

    def _hidden_ends(self, step: Newton | None) -> tuple[str, ...]:
        if step is None:
            return ()
        along = np.eye(step.weights.shape[1] - 1)
        for at in self._levels:
            along[np.ix_(at, at)] -= 1.0 / len(at)
        part = float(apart(step, self._levels).debiased(along)[3].mean())
        said = f"the noise hides {part:.0%} of the coefficients, whose intervals have no ends"
        return (said,) if part > 0.5 else ()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_bool("intervals", self.intervals)
        if not self.intervals:
            return
        own = resolved(self._methods, self.method)
        refused = {
            "neighbouring='add_remove'": self.neighbouring != "replace_one",
            f"alpha={self.alpha!r}": self.alpha != "auto",
            "delta=0": self._budget.is_pure,
            f"method={self.method!r}": own is not None and not isinstance(own, Gradient),
            "solver": self._has_solver,
            "fit_intercept=False": not self.fit_intercept,
        }
        self._refuse(*(name for name, is_given in refused.items() if is_given))

    def _refuse(self, *given: str) -> None:
        """Refuse what intervals are not proven and measured for."""
        if given:
            raise ValueError(_NOT_COVERED.format(", ".join(given)))

    def _chosen(self, design: Design, risk: EmpiricalRisk, in_memory: bool = True) -> Choice:
        choice = super()._chosen(design, risk, in_memory)
        if not self.intervals:
            return choice
        self._refuse(
            *["user_ids"] * design.of_persons,
            *["sample_weight"] * (design.is_slack and not design.of_persons),
        )
        plan = choice.plan
        if not isinstance(plan, CorePlan):
            raise ValueError(_NOT_COVERED.format(f"method={choice.method!r}"))
        plan = replace(plan, has_intervals=True)
        # what is hidden of the curvature, in units of the spectral norm of its noise
        k = plan.loss.n_outputs
        hidden = HIDDEN / math.sqrt((k + 1.0) * design.width)
        least = least_records(plan.newton, k, 1.0 / (1.0 + hidden))
        if least > design.n_records:
            enough = f"at most {LARGEST} coefficients are covered."
            if least < math.inf:
                enough = f"at least {math.ceil(least)} records would do, or a larger epsilon."
            raise ValueError(
                f"intervals=True needs an average curvature of the loss that noise does not hide, "
                f"with {design.n_records} records of {design.n_features} features: {enough}"
            )
        return replace(choice, plan=plan)
