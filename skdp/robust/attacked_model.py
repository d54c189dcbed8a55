"""What the adversarially robust estimators share: the attack."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np

from skdp._checks import check_real
from skdp.algorithms.methods import METHODS, Method
from skdp.linear_model.base import DPLinearModel
from skdp.problems import AdversarialRisk, Attack, EmpiricalRisk, Loss

__all__ = ["AttackedLinearModel"]


class AttackedLinearModel(DPLinearModel):
    """Base of adversarially robust linear models; not for direct use."""

    attack_norm: float
    attack_radius: float

    _methods: Mapping[str, Method] = {"output": METHODS["output"]}

    def _check_parameters(self) -> None:
        norm = self.attack_norm
        if isinstance(norm, bool) or not isinstance(norm, numbers.Real) or norm not in (2, np.inf):
            raise ValueError(f"attack_norm == {norm!r}, must be 2 or numpy.inf.")
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

    def _under_attack(self, X: Any, radius: float | None) -> tuple[np.ndarray, float]:
        """Linear scores of the bounded rows, and by how much the worst attack moves each."""
        if radius is not None:
            check_real("attack_radius", radius, 0.0, 1e50)
        scores = self._scores(X)[:, 0]
        attack = self._attack(radius)
        return scores, attack.radius * attack.dual_norm(np.ravel(self.coef_))
