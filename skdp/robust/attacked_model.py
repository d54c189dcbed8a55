"""What the adversarially robust estimators share: the attack."""

from __future__ import annotations

import numbers
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from skdp._checks import check_unit, shown
from skdp.linear_model.base import DPLinearModel
from skdp.methods import Gradient, Method, OutputPerturbation
from skdp.problems import AdversarialRisk, Attack, EmpiricalRisk, Loss


class AttackedLinearModel(DPLinearModel):
    """Base of adversarially robust linear models; not for direct use."""

    attack_norm: Any
    attack_radius: float

    _is_mean = False  # gradients are no combinations of rows that are known beforehand
    _methods: Mapping[str, Method] = {"gradient": Gradient(), "output": OutputPerturbation()}

    def _check_parameters(self) -> None:
        norm = self.attack_norm
        is_number = isinstance(norm, numbers.Real) and not isinstance(norm, bool)
        if not (callable(norm) or (is_number and norm in (1, 2, np.inf))):
            raise ValueError(f"attack_norm == {shown(norm)}, must be 1, 2, numpy.inf or callable.")
        check_unit("attack_radius", self.attack_radius, 0.0)
        super()._check_parameters()

    def _takes_alpha(self, method: Method) -> bool:
        return False

    @property
    def _has_steps(self) -> bool:
        """Whether the method makes noisy gradient steps."""
        is_free = self.alpha == "auto" and not self._has_solver and not self._budget.is_pure
        return isinstance(self._method, Gradient) and (self.method != "auto" or is_free)

    def _check_chunked(self) -> None:
        if not self._has_steps:
            raise ValueError("Output perturbation of attacked rows needs all records in memory.")

    def _attack(self, radius: float | None = None) -> Attack:
        radius = self.attack_radius if radius is None else radius
        norm = self.attack_norm if callable(self.attack_norm) else float(self.attack_norm)
        return Attack(norm, float(radius), self._intercept_value)

    def _risk(self, loss: Loss) -> EmpiricalRisk:
        if getattr(self._method, "tilt", 0.0):
            raise ValueError("tilt > 0 has no proof for attacked rows.")
        return AdversarialRisk(loss, self._attack())

    def attacked_score(self, X: Any, y: Any, attack_radius: float | None = None) -> float:
        """Accuracy or R2 if each row meets the perturbation that is worst for it.

        A function of the released coefficients: on records that were not used to fit, it costs
        no budget.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows longer than `data_norm` are scaled down to it, and then attacked.
        y : array-like of shape (n_samples,)
        attack_radius : float, optional
            Default: that of the model.
        """
        if attack_radius is not None:
            check_unit("attack_radius", attack_radius, 0.0)
        scores, y = self._scores(X), np.asarray(y)
        if y.shape != scores.shape[:1]:
            raise ValueError(f"y has shape {y.shape}, X has {len(scores)} rows.")
        return self._attacked_score(scores, self._attack(attack_radius), y)

    @abstractmethod
    def _attacked_score(self, scores: np.ndarray, attack: Attack, y: np.ndarray) -> float:
        """The score of linear scores, shape (n_samples, n_outputs), under the worst attacks."""
