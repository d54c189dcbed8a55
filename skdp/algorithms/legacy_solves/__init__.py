"""What solves on prepared rows and weighted stages learn first, and undo, until they go.

Means, spread, second moments and the temperature of the margins; prepared records.
"""

__all__: list[str] = []
