"""Entropic mirror descent in the l1 geometry: González, Guzmán and Paquette (2024).

Algorithms 1 (`plain`), 2 and 3 (`bias_reduced`), 4 (`boosted`) and 5 (`anytime`), the Frank-Wolfe
steps of Theorem 3.22 (`variance_reduced`), and linear models by these (`linear`).
"""

__all__: list[str] = []
