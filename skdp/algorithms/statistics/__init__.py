"""Releases of single statistics: means and mean squares of columns, quantiles, a mean score.

Quantiles after Smith (2011), Algorithm 2.
"""

__all__: list[str] = []
