"""Remarks of a report on the quality of a fit, from its public plan and releases."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from skdp.privacy.report import Release


def plan_remarks(plan: Mapping[str, Any]) -> Iterator[str]:
    """Yield remarks on rows, groups, phases and the choice of the method."""
    if "data_norm" in plan:
        yield f"rows are shortened to Euclidean norm {plan['data_norm']:g}"
    if "group_names" in plan:
        names, weights = plan["group_names"], plan["largest_group_weights"]
        named = [f"{name} {weight:.3g}" for name, weight in zip(names, weights, strict=True)]
        listed = ", ".join(named[:12]) + (", ..." if len(named) > 12 else "")
        yield f"groups ({plan['group_mode']}) and their largest weights: {listed}"
        shares = plan.get("group_proportions", ())
        for name, weight, share in zip(names, weights, shares, strict=False):
            if 0.0 < share * weight < 0.999:
                yield f"group {name} counts for {share * weight:.2g} of a group"
    if len(plan.get("block_sizes", ())) > 1:
        sizes = ", ".join(str(size) for size in plan["block_sizes"])
        scales = ", ".join(f"{scale:.3g}" for scale in plan["noise_scales"])
        yield f"phases: {sizes} records with noise of scale {scales}"
    if "method_bounds" in plan:
        bounds = ", ".join(f"{name} {bound:.3g}" for name, bound in plan["method_bounds"].items())
        yield f"chosen by the smallest bound on the excess loss: {bounds}"


def noise_alarms(releases: Iterable[Release], plan: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each release whose noise is larger than any value before noise."""
    for release in releases:
        # the norm of spherical Laplace noise is Gamma distributed
        pure = release.mechanism == "spherical_laplace"
        norm = release.noise_scale * (release.dimension if pure else math.sqrt(release.dimension))
        if release.name == "second moments":
            # of p (p + 1) / 2 entries: the norm of a symmetric matrix of them is about
            # 2 sqrt(p) times the deviation of one
            norm *= 2.0 / (2.0 * release.dimension) ** 0.25
            largest = plan["feature_norm"] ** 2
            values = (
                f"in the moments has a norm of about {norm:.3g}, and those of the features have"
            )
        elif release.name == "coefficients" and release.mechanism != "exponential":
            largest = plan.get("radius", math.inf)
            values = f"has a length of about {norm:.3g} and any solution"
        else:
            continue
        if norm > largest:
            yield f"The noise {values} at most {largest:.3g}: the result is mostly noise"
