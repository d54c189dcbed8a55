"""What solves on prepared rows and weighted stages still need of a former engine, until they go."""

__all__: list[str] = []
