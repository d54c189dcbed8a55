"""The engine of our own models: three releases and what follows from them for free.

:mod:`~.means` releases where rows and targets lie, :mod:`~.steps` plans and takes noisy gradient
steps, :mod:`~.size` releases the size of the margins and their shift; :mod:`~.margin_laws` tells
what clipping and noise do to normal margins; :mod:`~.post` has what follows for free. :mod:`~.fit`
joins them and alone reads records, as :mod:`~.centered_rows` and through :mod:`~.noisy_sums`.
Theory: docs/theory/core.md.
"""

__all__: list[str] = []
