"""The objective of worst-group methods: the largest loss of a group on a public design."""

from __future__ import annotations

from dataclasses import dataclass, field

from skdp.problems.max_group_loss import GroupWeights
from skdp.problems.risks import Objective


@dataclass(frozen=True)
class GroupObjective(Objective):
    """The largest loss of a group on a public design."""

    #: With a histogram, only their bound counts.
    weights: GroupWeights = field(kw_only=True)
    #: Whether a saddle point is released with its weights of the groups, at more noise.
    release_weights: bool = False
    #: Part of the budget that is spent first, on noisy proportions of the groups, by methods that
    #: do not plan it; 0: none are released.
    histogram_share: float = 0.0
    #: Public ones, for methods that weigh the groups themselves. None: they are released.
    proportions: tuple[float, ...] | None = None
    #: Whether the groups are the classes of the targets.
    are_classes: bool = False

    @property
    def radius(self) -> float:
        """Radius of the ball; by default the norm of a good predictor."""
        return self.risk.reference_norm(self.design) if self.coef_norm is None else self.coef_norm

    def check_relation(self) -> None:
        """Refuse public groups where a record more would change their proportions."""
        if self.weights.public_groups and not self.neighbouring.is_replaced:
            raise ValueError(
                "group_proportions='public' is proven for neighbouring='replace_one' only: a "
                "record more changes the sizes of the groups."
            )
