"""The largest loss of a group: a module for each family of methods of worst-group estimators.

The default `core_stages`; Zhang et al. (2022), Algorithms 3 and 4, for groups
(`max_group_loss`); Xu et al. (2026) for networks and linear models (`network`); González, Guzmán
and Paquette (2024), section 1.4 (b) (`vertices`).
"""

__all__: list[str] = []
