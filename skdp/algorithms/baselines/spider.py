"""What DP-RGDA is compared with in section 5 of Xu et al. (2026): recursions without an escape.

All of them are runs of :func:`skdp.algorithms.dp_rgda` with steps in proportion to the estimated
gradient, so that sensitivities, noise and total are those of docs/theory/dp_rgda.md, and not the
printed ones. Xu et al. do not describe them; these are the ideas of the methods.

===============  ==========================  ====================================================
name             gradients are released      differences are clipped
===============  ==========================  ====================================================
DP-SPIDER        every `period`-th step      at `clip_difference`
Sto-SPIDER       after a `drift` of x        at `clip_difference`
Ada-DP-SPIDER    after a `drift` of x        at `smoothness` times the distance, and so is noise
PrivateDiff      every `period`-th step      the same; with inner steps of y in a minimax problem
===============  ==========================  ====================================================
"""

from __future__ import annotations

from typing import Any, Literal

from skdp._checks import check_option
from skdp.algorithms.recursive.plan import RGDAResult
from skdp.algorithms.recursive.rgda import dp_rgda
from skdp.algorithms.recursive.settings import RGDASettings
from skdp.privacy.budget import PrivacyBudget
from skdp.problems.minimax import MinimaxProblem

#: A clipping norm in proportion to the distance that never counts.
_UNUSED = 1e50

Variant = Literal["dp_spider", "sto_spider", "ada_dp_spider", "private_diff"]


def spider_settings(variant: Variant, n_steps: int, **settings: Any) -> RGDASettings:
    """Make the settings of a method.

    Parameters
    ----------
    variant : {"dp_spider", "sto_spider", "ada_dp_spider", "private_diff"}
    n_steps : int
    **settings
        Others of :class:`skdp.algorithms.RGDASettings`: `period` (with a drift it bounds the number
        of gradients), `clip`, `clip_difference`, `step_size` and more.

    Raises
    ------
    ValueError
        If `drift` is missing or is not for the method, as `smoothness` and `inner_steps`.
    """
    check_option("variant", variant, ("dp_spider", "sto_spider", "ada_dp_spider", "private_diff"))
    by_drift, adapts = (
        variant.startswith(("sto", "ada")),
        variant in ("ada_dp_spider", "private_diff"),
    )
    if by_drift != (settings.get("drift") is not None):
        raise ValueError("drift is for 'sto_spider' and 'ada_dp_spider', which need it.")
    if not adapts and "smoothness" in settings:
        raise ValueError("smoothness is for 'ada_dp_spider' and 'private_diff'.")
    if variant != "private_diff" and settings.get("inner_steps", 1) != 1:
        raise ValueError("inner_steps is for 'private_diff'.")
    defaults: dict[str, Any] = {"normalise": False}
    if not adapts:
        defaults["smoothness"] = _UNUSED
    return RGDASettings(n_steps=n_steps, **defaults | settings)


def dp_spider(
    problem: MinimaxProblem,
    budget: PrivacyBudget | None = None,
    *,
    n_steps: int,
    variant: Variant = "dp_spider",
    noise_multiplier: float | None = None,
    settings: dict[str, Any] | None = None,
    **options: Any,
) -> RGDAResult:
    """Descend with gradients that are estimated recursively, privately.

    Parameters
    ----------
    problem : MinimaxProblem
        Without a y for the methods of minimisation.
    budget : PrivacyBudget, optional
        Of all steps. Either this or `noise_multiplier`.
    n_steps : int
    variant : {"dp_spider", "sto_spider", "ada_dp_spider", "private_diff"}, default="dp_spider"
    noise_multiplier : float, optional
        As in :func:`skdp.algorithms.dp_rgda`.
    settings : dict, optional
        See :func:`spider_settings`.
    **options
        `start`, `run`, `n_public` and `neighbouring` of :func:`skdp.algorithms.dp_rgda`.

    References
    ----------
    R. Arora, R. Bassily, T. Gonzalez, C. Guzman, M. Menart, E. Ullah, "Faster rates of convergence
    to stationary points in differentially private optimization", ICML 2023 (DP-SPIDER).

    D. Liu, A. Ganesh, S. Oh, A. Guha Thakurta, "Private (stochastic) non-convex optimization
    revisited: second-order stationary points and excess risks", NeurIPS 2023 (Sto-SPIDER).

    Y. Tao, Z. Zhang, D. Yu, X. Cheng, F. Dressler, D. Wang, "Second-order convergence in private
    stochastic non-convex optimization", 2025, arXiv:2505.15647 (Ada-DP-SPIDER).

    R. Zhang, M. Lei, M. Ding, Z. Xiang, J. Xu, D. Wang, "Improved rates of differentially private
    nonconvex-strongly-concave minimax optimization", AAAI 2025 (PrivateDiff).
    """
    return dp_rgda(
        problem,
        budget,
        settings=spider_settings(variant, n_steps, **settings or {}),
        noise_multiplier=noise_multiplier,
        **options,
    )
