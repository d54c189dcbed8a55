"""Objective perturbation: a random linear term in the objective, minimised to a certified accuracy.

Chaudhuri, Monteleoni and Sarwate (2011); Kifer, Smith and Thakurta (2012); Redberg, Koskela and
Wang (2023). The default for ``delta = 0`` of losses with a bounded derivative, such as log loss.
"""

__all__: list[str] = []
