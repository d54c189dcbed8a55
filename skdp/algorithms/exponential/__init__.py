"""The exponential mechanism on a ball, sampled exactly: Lowy and Razaviyayn (2021).

Algorithm 9 (`mechanism`), and its localisation, Algorithms 10 and 11 (`localisation`).
"""

__all__: list[str] = []
