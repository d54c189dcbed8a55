"""Private bilevel optimisation by first-order penalties: Kornowski (2024).

Algorithms 1 and 3 (`penalty_method`); 2 and 4, the private solver of lower problems
(`localized_descent`).
"""

__all__: list[str] = []
