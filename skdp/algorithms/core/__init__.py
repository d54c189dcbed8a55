"""The engine of our own models: releases, and what follows from them for free.

:mod:`~.means` releases where rows and targets lie, :mod:`~.second_moments` how rows vary if a
penalty needs it, :mod:`~.steps` plans noisy gradient steps, :mod:`~.size` tells the size of the
margins and their shift; :mod:`~.margin_laws` tells what clipping and noise do to normal margins;
:mod:`~.post` has what follows for free. :mod:`~.fit` joins them. It, the means and the second
moments alone read records, and sums have the noise of :mod:`~.noisy_sums`.
Theory: docs/theory/core.md.
"""

__all__: list[str] = []
