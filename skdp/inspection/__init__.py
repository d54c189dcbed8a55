"""What privacy costs: before a fit, from public numbers, and after it, as a picture.

:func:`plan_fit` predicts the noise of a fit from the sizes of the data alone.
:class:`PrivacyUtilityDisplay` draws a score against epsilon; it looks at records without privacy.
"""

from skdp.inspection.fit_plan import FitPlan, PlannedRelease, plan_fit
from skdp.inspection.privacy_utility import PrivacyUtilityDisplay

__all__ = ["FitPlan", "PlannedRelease", "PrivacyUtilityDisplay", "plan_fit"]
