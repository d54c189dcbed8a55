"""DP-RGDA, recursive gradient descent ascent for non-convex minimax problems: Xu et al. (2026).

Algorithm 2 with its escape phase (`outer_loop`), and Algorithm 3, the gradients that it is given
(`oracle`); `settings` has their constants, `rgda` plans and runs both.
"""

__all__: list[str] = []
