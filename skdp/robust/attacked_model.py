"""What the adversarially robust estimators share: the attack."""

from __future__ import annotations

import numbers
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from skdp._checks import check_real, shown
from skdp.algorithms.methods import METHODS, Method
from skdp.linear_model.base import DPLinearModel
from skdp.problems import AdversarialRisk, Attack, EmpiricalRisk, Loss


class AttackedLinearModel(DPLinearModel):
    """Base of adversarially robust linear models; not for direct use."""

    attack_norm: float
    attack_radius: float

    _methods: Mapping[str, Method] = {"output": replace(METHODS["output"], chunked=False)}

    def _check_parameters(self) -> None:
        norm = self.attack_norm
        if isinstance(norm, bool) or not isinstance(norm, numbers.Real) or norm not in (2, np.inf):
            raise ValueError(f"attack_norm == {shown(norm)}, must be 2 or numpy.inf.")
        check_real("attack_radius", self.attack_radius, 0.0, 1e50)
        super()._check_parameters()

    @property
    def _is_mean(self) -> bool:
        return False  # gradients are no combinations of rows that are known beforehand

    def _attack(self, radius: float | None = None) -> Attack:
        radius = self.attack_radius if radius is None else radius
        return Attack(float(self.attack_norm), float(radius), self._intercept_value)

    def _risk(self, loss: Loss) -> EmpiricalRisk:
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
            check_real("attack_radius", attack_radius, 0.0, 1e50)
        scores, attack = self._scores(X)[:, 0], self._attack(attack_radius)
        y = np.asarray(y)
        if y.shape != scores.shape:
            raise ValueError(f"y has shape {y.shape}, X has {len(scores)} rows.")
        return self._attacked_score(
            scores, attack.radius * attack.dual_norm(np.ravel(self.coef_)), y
        )

    @abstractmethod
    def _attacked_score(self, scores: np.ndarray, shift: float, y: np.ndarray) -> float:
        """The score if attacks move each linear score by up to `shift`."""
