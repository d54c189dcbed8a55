"""Answers to linear queries on categorical tables, and the tables that are drawn from them.

González, Guzmán and Paquette (2024), section 1.4 (a) and Theorem 1.1 (`mirror_descent`); measured
marginals after Hardt, Ligett and McSherry (2012) and McKenna et al. (2022)
(`adaptive_measurements`).
"""

__all__: list[str] = []
