"""The exponential mechanism on a ball, sampled exactly: Lowy and Razaviyayn (2021).

Algorithm 9, and its localisation, Algorithms 10 and 11 (`mechanism`).
"""

__all__: list[str] = []
