"""What is learnt privately of where rows and targets lie, before a model is fitted to them.

Means, scale and second moments of the records, and the view of records as centered rows.
"""

__all__: list[str] = []
