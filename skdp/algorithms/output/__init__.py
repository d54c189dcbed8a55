"""Output perturbation: solve exactly, certify, and add noise for the sensitivity of the solution.

Lowy and Razaviyayn (2021): Algorithms 1 and 6 (`one_shot`, for means over records with a chosen
penalty `regularized_risk`), 7 and 8 (`adversarial`). Zhang et al. (2022): Algorithms 1
(`one_shot`), 2 (`phased`), 3 (`saddle`), 4 and 5 (`phased_saddle`).
"""

__all__: list[str] = []
