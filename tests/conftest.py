"""Property-based tests try the same examples in every run; see HYPOTHESIS_PROFILE=search."""

import os

from hypothesis import settings

settings.register_profile("gate", derandomize=True)
settings.register_profile("search", derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))
