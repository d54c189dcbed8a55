"""Parts of the budget for looks at the groups' losses, and the releases that are no models."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

from skdp.algorithms.core.noisy_sums import NoisySum
from skdp.algorithms.worst_group import rules
from skdp.algorithms.worst_group.clipped_losses import FirstPlan, loss_range, loss_sensitivity
from skdp.algorithms.worst_group.group_sums import THEORY, has_shift
from skdp.problems.group_objective import GroupObjective


@dataclass(frozen=True, kw_only=True)
class LookShares:
    """Parts of the budget for looks and the last fit, from public numbers.

    Attributes
    ----------
    sizes, losses, scale : float
        Parts of the squared mu; 0 for what is not released.
    n_looks : int
    spread_price : float
    """

    sizes: float
    losses: float
    scale: float
    n_looks: int
    spread_price: float

    @property
    def reserved(self) -> float:
        """All of them."""
        return self.sizes + self.losses + self.scale


def plan_shares(objective: GroupObjective, mu: float, spread: float) -> LookShares:
    """Choose the parts for looks and the last fit.

    Parameters
    ----------
    objective : GroupObjective
    mu : float
        Of the Gaussian differential privacy of a fit.
    spread : float
        Error of all weights, relative to the norm of rows.
    """
    noise = objective.neighbouring.n_changes / (mu * objective.design.n_records)
    sizes_share, losses_share, scale_share = (
        min(max((factor * noise) ** 2, least), largest)
        for least, largest, factor in (rules.SIZES, rules.LOSSES, rules.SCALE)
    )
    if objective.proportions is not None:
        sizes_share = 0.0
    are_classes = are_odds_of_classes(objective)
    if are_classes:  # no looks
        losses_share = 0.0
    fraction = min(1.0, (rules.ALL_SHARES - sizes_share) / (losses_share + scale_share))
    n_looks = int(min(math.sqrt(rules.ONE_LOOK / spread), rules.MOST_LOOKS))
    n_looks = n_looks if n_looks >= rules.LEAST_LOOKS and not are_classes else 1
    spread_price = rules.SPREAD_PRICE
    if objective.risk.loss.has_odds and n_looks == 1:
        spread_price = min(max(rules.PRICE_OF_ERROR * spread, rules.LEAST_PRICE), spread_price)
    return LookShares(
        sizes=sizes_share,
        losses=fraction * losses_share,
        scale=fraction * scale_share,
        n_looks=n_looks,
        spread_price=spread_price,
    )


def are_odds_of_classes(objective: GroupObjective) -> bool:
    """Whether the groups are the classes, and the loss has log odds."""
    return objective.are_classes and objective.risk.loss.has_odds


def plan_looks(
    objective: GroupObjective,
    first: FirstPlan,
    mu: float,
    shares: LookShares,
    mu_models: float,
    plain_share: float,
    line_share: float = 0.0,
) -> dict[str, Any]:
    """Calibrate the releases around looks that are not those of models.

    Parameters
    ----------
    objective : GroupObjective
    first : FirstPlan
        Of the plain model.
    mu : float
        Of the Gaussian differential privacy of a fit.
    shares : LookShares
    mu_models : float
        The same of all models.
    plain_share : float
        Largest part of its square for size and shift of the plain model, where that is taken.
    line_share : float, default=0.0
        What the line from a constant model to that after the only look has of the last fit.

    Returns
    -------
    dict
        Fields of the plan.
    """
    design, relation, loss = objective.design, objective.neighbouring, first.loss
    n_groups, are_classes = objective.weights.n_groups, are_odds_of_classes(objective)
    in_groups = partial(NoisySum, design=design, neighbouring=relation, n_entries=n_groups)
    sizes = None
    if shares.sizes:
        sizes = in_groups(
            mu=mu * math.sqrt(shares.sizes),
            sensitivity=math.sqrt(relation.n_changes),
            size=1.0,
            name="sizes of the groups",
            reference=f"{THEORY}, Lemma 3",
        )
    losses = None
    if not are_classes:
        losses = in_groups(
            mu=mu * math.sqrt(shares.losses / shares.n_looks),
            sensitivity=loss_sensitivity(loss, relation.is_replaced),
            size=loss_range(loss)[1],
            name="losses of the groups",
            reference=f"{THEORY}, Lemma 2",
        )
    scale = mix = line = None
    between = partial(
        in_groups,
        sensitivity=relation.n_changes,
        size=1.0,
        reference=f"{THEORY}, Lemma 6",
        n_entries=n_groups * (5 if has_shift(first) else 3),
    )
    if loss.has_odds:
        if are_classes or shares.n_looks > 1:
            line_share = 0.0
        if line_share:
            line = between(
                mu=mu * math.sqrt(shares.scale * line_share),
                name="losses of the groups between a constant model and the last one",
            )
        scale = in_groups(
            mu=mu * math.sqrt(shares.scale * (1.0 - line_share) / rules.SCALE_ROUNDS),
            sensitivity=relation.n_changes,
            size=1.0,
            name="derivatives of the groups' losses in scale, shift and mix",
            reference=f"{THEORY}, Lemma 4",
            n_entries=n_groups * (3, 6, 10)[has_shift(first) + (shares.n_looks == 1)],
        )
    else:
        mix = between(
            mu=mu * math.sqrt(shares.scale), name="losses of the groups between two models"
        )
    rest = mu_models * math.sqrt(1.0 - rules.PLAIN_SHARE)
    left = 0.0 if are_classes else max(shares.scale - plain_share, 0.0)
    return {
        "n_looks": shares.n_looks,
        "mu_weighted": rest,
        "mu_plain": math.hypot(rest, mu * math.sqrt(left)),
        "sizes": sizes,
        "losses": losses,
        "scale": scale,
        "mix": mix,
        "line": line,
        "spread_price": shares.spread_price,
        "proportions": objective.proportions,
    }


def check_public_groups(objective: GroupObjective) -> None:
    """Refuse public groups where a record more would change their proportions."""
    if objective.weights.public_groups and not objective.neighbouring.is_replaced:
        raise ValueError("public groups: proven for neighbouring='replace_one' only.")
