"""Non-private solvers of saddle problems: docs/develop/add_solver.md compares them.

All of them work in the coordinates ``(sqrt(mu_x) x, sqrt(mu_y) y)``, in which a strong
regulariser of one block does not spoil the condition of the other: steps ``eta / mu_x`` and
``eta / mu_y``, and Euclidean projections of each block.
"""

from skdp.solvers.saddle.best_response import BestResponse
from skdp.solvers.saddle.extragradient import Extragradient
from skdp.solvers.saddle.lsvre import LSVRE

__all__ = ["LSVRE", "BestResponse", "Extragradient"]
