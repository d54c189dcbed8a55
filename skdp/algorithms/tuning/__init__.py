"""Private choice of penalties, together with the model that they are chosen for.

Every method is a plan of a `TuningObjective` and a budget. The default of models that tune their
penalty is in `shrinkage`; tuning by the algorithms of Kornowski (2024) is in `bilevel`.
"""

__all__: list[str] = []
