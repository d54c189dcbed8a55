"""Entropic mirror descent in the l1 geometry: Gonzalez, Guzman and Paquette (2024).

Algorithms 1 (`plain`), 2 and 3 (`bias_reduced`), 4 (`boosted`) and 5 (`anytime`).
"""

__all__: list[str] = []
