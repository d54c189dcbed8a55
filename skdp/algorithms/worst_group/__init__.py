"""The largest loss of a group: one module for each method of the worst-group estimators.

The default `core_stages`; the phases of Zhang et al. (2022), Algorithm 4, for groups
(`phased_saddle`); Xu et al. (2026) for networks and linear models (`network`); Gonzalez, Guzman and
Paquette (2024), section 1.4 (b) (`vertices`).
"""

__all__: list[str] = []
